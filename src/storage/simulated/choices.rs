//! What a simulated disk does is chosen by a seed.

use crate::hash::split_mix;

/// A seeded source of choices.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    start: u64,
    taken: u64,
}

impl Choices {
    pub(crate) fn new(start: u64) -> Self {
        Choices { start, taken: 0 }
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.taken += 1;
        split_mix(self.start, self.taken)
    }

    /// A number below `range`.
    pub(crate) fn below(&mut self, range: u64) -> u64 {
        crate::geometry::reduce(self.word(), range)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// What of the writes since the last sync a power cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Nothing,
    Everything,
    /// Each word and sector for itself.
    Any,
    /// Each page as a whole, old or new.
    Pages,
    /// As `Any`, and sectors that were being written may hold anything.
    Garbage,
}

impl Keep {
    pub(crate) const ALL: [Keep; 5] =
        [Keep::Nothing, Keep::Everything, Keep::Any, Keep::Pages, Keep::Garbage];
}
