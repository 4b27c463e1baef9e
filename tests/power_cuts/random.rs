//! Numbers by chance that come again with the same seed.

use crate::common;

pub(crate) struct Random {
    seed: u64,
    index: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random { seed, index: 0 }
    }

    /// A number below a limit that is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.index += 1;
        common::below(self.seed, self.index, limit)
    }

    /// Another sequence, for a part of the work.
    pub(crate) fn split(&mut self) -> Random {
        self.index += 1;
        Random::new(common::random(self.seed, self.index))
    }

    /// The seed for a process of its own.
    pub(crate) fn seed(&mut self) -> u64 {
        self.split().seed
    }
}
