//! Which journal records belong to a slot (F-71, F-72).

use crate::format::{COUNTER_MASK_BITS, Epoch, Slot, Superblock};
use crate::geometry::CellKind;
use crate::storage::{ReadMedium, Sabotage};

/// Epoch of all records when a test asks for journals without salt.
const UNSALTED: (u64, u64) = (0, 0);

/// The epoch that the records of a slot belong to.
pub(crate) fn epoch_of(medium: &dyn ReadMedium, superblock: &Superblock, slot: &Slot) -> Epoch {
    let (number, salt) =
        if medium.sabotaged(Sabotage::NoSalt) { UNSALTED } else { (slot.epoch, slot.salt) };
    Epoch::new(number, salt, mask_bits(superblock, slot))
}

/// Bits of a record's mask: one for each row of the segment that takes the adds, or what a change
/// of a counter takes (F-71).
pub(crate) fn mask_bits(superblock: &Superblock, slot: &Slot) -> u32 {
    match superblock.cells {
        CellKind::Plain => slot.newest().geometry.row_count(),
        CellKind::Counting => COUNTER_MASK_BITS,
    }
}
