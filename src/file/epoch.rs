//! Which journal records belong to a slot (F-71, F-72).

use crate::format::{Epoch, Slot, Superblock};
use crate::geometry::CellKind;
use crate::storage::{ReadMedium, sabotage};

/// The epoch of a number and a salt in a file with this newest segment.
pub(crate) fn epoch(
    medium: &dyn ReadMedium,
    superblock: &Superblock,
    slot: &Slot,
    number: u64,
    salt: u64,
) -> Epoch {
    // What binds records to their epoch is left out when a test asks for it.
    let (number, salt) = if sabotage!(medium, NoSalt) { (0, 0) } else { (number, salt) };
    match superblock.cells {
        CellKind::Plain => Epoch::plain(number, salt, slot.newest().geometry.row_count()),
        CellKind::Counting => Epoch::counting(number, salt),
        // It has no journal, so that nothing is ever decoded with this.
        CellKind::Sealed => Epoch::plain(number, salt, 1),
    }
}

/// The epochs whose records count with an open slot: the one that it begins, and the one that a
/// boundary has begun since (F-90).
pub(crate) fn epochs_of(
    medium: &dyn ReadMedium,
    superblock: &Superblock,
    slot: &Slot,
) -> [Epoch; 2] {
    [
        epoch(medium, superblock, slot, slot.epoch, slot.salt),
        epoch(medium, superblock, slot, slot.epoch.wrapping_add(1), slot.next_salt),
    ]
}
