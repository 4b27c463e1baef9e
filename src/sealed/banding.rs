//! Banding: the equations of a page's keys → one equation for each slot that it starts in (F-145).
//!
//! The outcome does not depend on the order in which keys are taken: which slots are taken is a
//! property of the space that the rows span, and so is whether they are independent. The solution
//! follows from both.

use super::shape::{BLOCK_SLOTS, MOST_BLOCKS, PARTS, Part, Shape};
use super::{fingerprint_of, row_of};

/// Room for the slots of any page, a power of two so that a masked number is always within it.
pub(crate) const SLOTS: usize = 1 << 15;

const _: () = assert!((MOST_BLOCKS * BLOCK_SLOTS) as usize <= SLOTS);

/// Keys that are on their way to a slot at the same time. Each step of a key waits for a load, and
/// those of several keys wait together. Measured on a Zen 4 at 4,826 keys in a page, in nanoseconds
/// per key: 53 with 1, 36 with 2, 32 with 3, 33 with 4, 35 with 6; 46 with a loop that takes one key
/// after the other and leaves it when its slot is found, which mispredicts once per key.
const LANES: usize = 3;

/// An equation: of a key before banding, of a slot after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Equation {
    /// Coefficients of 64 slots, the first one in bit 0, which is set; 0 where there is no equation.
    pub(crate) row: u64,
    /// The fingerprint in the upper half; in the lower one the slot that a key's row starts at. It
    /// means nothing in the equation of a slot.
    both: u64,
}

impl Equation {
    #[inline(always)]
    pub(crate) fn new(row: u64, fingerprint: u32, start: u32) -> Self {
        Equation { row, both: u64::from(fingerprint) << 32 | u64::from(start) }
    }

    /// What the columns must give.
    #[inline(always)]
    pub(crate) fn fingerprint(&self) -> u32 {
        (self.both >> 32) as u32
    }

    /// The slot that the row starts at.
    #[inline(always)]
    pub(crate) fn start(&self) -> usize {
        self.both as u32 as usize
    }
}

/// The equations of a page, and memory for them.
pub(crate) struct System {
    /// Those of its keys.
    pub(crate) keys: Vec<Equation>,
    /// Those of its slots, as far as it has some.
    pub(crate) slots: Box<[Equation; SLOTS]>,
}

impl System {
    pub(crate) fn new() -> Self {
        let slots = vec![Equation::default(); SLOTS].into_boxed_slice();
        let Ok(slots) = slots.try_into() else { unreachable!("it has this length") };
        System { keys: Vec::with_capacity(SLOTS), slots }
    }
}

/// The equations of sorted values, in the order of their starts. `below[j]` of the values are in
/// parts below part j.
#[inline(always)]
pub(crate) fn prepare(
    values: &[u64],
    below: &[u32; PARTS + 1],
    shape: &Shape,
    bends: &[i8; PARTS + 1],
    equations: &mut Vec<Equation>,
) {
    equations.clear();
    for part in 0..PARTS {
        let of_part = &values[below[part] as usize..below[part + 1] as usize];
        let map: Part = shape.part(part, bends[part], bends[part + 1]);
        let equation =
            |&value| Equation::new(row_of(value), fingerprint_of(value), map.start(value));
        equations.extend(of_part.iter().map(equation));
    }
}

/// Gives each key's equation a slot of its own; false if their rows depend on one another.
///
/// The starts are at most 64 below `slots`.
#[inline(always)]
pub(crate) fn band(keys: &[Equation], taken: &mut [Equation; SLOTS], slots: usize) -> bool {
    taken[..slots].fill(Equation::default());
    let Some((first, rest)) = keys.split_first_chunk::<LANES>() else {
        return keys.iter().all(|&key| insert(key, taken));
    };
    let mut lanes = *first;
    let mut rest = rest;
    // As many keys are left as one round can take.
    while rest.len() >= LANES {
        let mut next = 0;
        let mut dependent = false;
        for lane in &mut lanes {
            let slot = &mut taken[lane.start() % SLOTS];
            let found = *slot;
            let free = found.row == 0;
            *slot = if free { *lane } else { found };
            let row = lane.row ^ found.row;
            dependent |= row == 0;
            let step = row.trailing_zeros();
            let both = (lane.both ^ (found.both >> 32 << 32)) + u64::from(step);
            let moved = Equation { row: row.wrapping_shr(step), both };
            *lane = if free { rest[next] } else { moved };
            next += usize::from(free);
        }
        if dependent {
            return false;
        }
        rest = &rest[next..];
    }
    lanes.iter().chain(rest).all(|&key| insert(key, taken))
}

/// Gives one key's equation a slot; false if its row depends on those there.
fn insert(mut key: Equation, taken: &mut [Equation; SLOTS]) -> bool {
    loop {
        let slot = &mut taken[key.start() % SLOTS];
        if slot.row == 0 {
            *slot = key;
            return true;
        }
        key.row ^= slot.row;
        key.both ^= slot.both >> 32 << 32;
        if key.row == 0 {
            // Whatever the fingerprint: whether two keys go together must not depend on whether they
            // happen to agree.
            return false;
        }
        let step = key.row.trailing_zeros();
        key.row >>= step;
        key.both += u64::from(step);
    }
}
