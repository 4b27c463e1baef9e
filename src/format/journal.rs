//! A journal record: 16 bytes that make one add, or one sync, known (F-70 to F-76).

use crate::hash::{GOLDEN, mix};

/// Bytes of one record.
pub(crate) const RECORD_BYTES: usize = 16;

/// 64-bit words of one record.
pub(crate) const RECORD_WORDS: usize = RECORD_BYTES / 8;

/// What binds records to the time between two checkpoints (F-72).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Mixed from the epoch's number and salt.
    key: u64,
    /// Bits of a record's second word that hold the mask; the check takes all the others, so that
    /// bytes which are no record hardly ever pass for one.
    mask_bits: u32,
}

impl Epoch {
    /// The epoch of a slot, for records whose masks have `mask_bits` bits.
    pub(crate) const fn new(number: u64, salt: u64, mask_bits: u32) -> Self {
        Epoch { key: mix(number.wrapping_mul(GOLDEN) ^ salt), mask_bits }
    }

    /// What is mixed from number and salt.
    pub(crate) const fn key(self) -> u64 {
        self.key
    }

    /// The epoch of a [`key`](Self::key).
    #[inline(always)]
    pub(crate) const fn from_key(key: u64, mask_bits: u32) -> Self {
        Epoch { key, mask_bits }
    }

    /// The check of a record: it depends on every bit of the record, on its place and the epoch.
    #[inline(always)]
    const fn check(self, index: u32, value: u64, mask: u32) -> u64 {
        let place = ((index as u64) << 32) | mask as u64;
        let check = mix(mix(value ^ self.key).wrapping_add(place)) >> self.mask_bits;
        // Never 0, so that zeros are no record (F-73).
        if check == 0 { 1 } else { check }
    }

    /// The two words of a record at place `index`.
    #[inline(always)]
    pub(crate) const fn encode(self, index: u32, record: Record) -> [u64; RECORD_WORDS] {
        let (value, mask) = record.parts();
        [value, mask as u64 | (self.check(index, value, mask) << self.mask_bits)]
    }

    /// The record at place `index`, if one of this epoch is there.
    #[inline]
    pub(crate) const fn decode(self, index: u32, words: [u64; RECORD_WORDS]) -> Option<Record> {
        let [value, mask_and_check] = words;
        let mask = self.mask(words);
        if self.check(index, value, mask) != mask_and_check >> self.mask_bits {
            return None;
        }
        Some(match mask {
            0 => Record::Sync { mark: value },
            mask => Record::Key { hash: value, mask },
        })
    }

    /// The mask in the words of a record.
    pub(crate) const fn mask(self, words: [u64; RECORD_WORDS]) -> u32 {
        (words[1] & ((1 << self.mask_bits) - 1)) as u32
    }
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A key was added that turned on the cells of these rows.
    Key {
        /// The key's hash.
        hash: u64,
        /// One bit for each row whose cell was off; never 0.
        mask: u32,
    },
    /// All records before this one belong to a sync.
    Sync {
        /// The user's own position.
        mark: u64,
    },
}

/// What the last record of a plain file's journal says: adds went unlogged (F-78).
pub(crate) const FULL_RECORD: Record = Record::Sync { mark: 0 };

impl Record {
    /// Value and mask.
    #[inline(always)]
    const fn parts(self) -> (u64, u32) {
        match self {
            Record::Key { hash, mask } => (hash, mask),
            Record::Sync { mark } => (mark, 0),
        }
    }
}

/// Bits of a record's mask in a counting file (F-71).
pub(crate) const COUNTER_MASK_BITS: u32 = 32;

/// Groups of a counting file that are told apart: their numbers start over behind the last of them.
pub(crate) const GROUP_NUMBERS: u32 = 1 << 18;

/// Where the number of the group stands in a mask of a counting file.
const GROUP_SHIFT: u32 = 13;

/// Tells a cell record of a counting file from a sync record.
const CELL_RECORD: u32 = 1 << 31;

/// What a record of a counting file is, and the group that it belongs to (F-74, F-75).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    /// Number of the group in its epoch, below [`GROUP_NUMBERS`].
    pub(crate) group: u32,
    /// The mark of a sync record; the others are cell records.
    pub(crate) mark: Option<u64>,
}

impl GroupRecord {
    /// What a record of a counting file is; `None` for one that no writer writes.
    pub(crate) fn of(record: Record) -> Option<Self> {
        let (value, mask) = record.parts();
        let group = mask >> GROUP_SHIFT & (GROUP_NUMBERS - 1);
        if mask & CELL_RECORD != 0 {
            return Some(GroupRecord { group, mark: None });
        }
        (mask == group << GROUP_SHIFT).then_some(GroupRecord { group, mark: Some(value) })
    }

    /// The sync record of a group.
    pub(crate) fn sync(group: u32, mark: u64) -> Record {
        match group % GROUP_NUMBERS {
            0 => Record::Sync { mark },
            group => Record::Key { hash: mark, mask: group << GROUP_SHIFT },
        }
    }
}

/// What a record of a counting file says: one counter went from one value to another (F-75).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterChange {
    /// The segment's place in the slot's list.
    pub(crate) segment: usize,
    /// The cell's address in the segment.
    pub(crate) address: u64,
    /// The value before.
    pub(crate) old: u8,
    /// The value after.
    pub(crate) new: u8,
}

impl CounterChange {
    /// The record of this change in a group.
    pub(crate) fn record(&self, group: u32) -> Record {
        let mask = CELL_RECORD
            | (group % GROUP_NUMBERS) << GROUP_SHIFT
            | (self.segment as u32) << 8
            | u32::from(self.old & 15) << 4
            | u32::from(self.new & 15);
        Record::Key { hash: self.address, mask }
    }

    /// The change that value and mask of a record stand for.
    pub(crate) fn decode(value: u64, mask: u32) -> Self {
        CounterChange {
            segment: (mask >> 8 & 0x1f) as usize,
            address: value,
            old: (mask >> 4 & 15) as u8,
            new: (mask & 15) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f72_every_flipped_bit_other_place_and_other_epoch_is_noticed() {
        for rows in [4, 8, 32] {
            let epoch = Epoch::new(7, 0x5a17, rows);
            let record = Record::Key { hash: 0x0123_4567_89ab_cdef, mask: 0b1011 };
            let words = epoch.encode(3, record);
            assert_eq!(epoch.decode(3, words), Some(record));
            for bit in 0..128 {
                let mut damaged = words;
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(epoch.decode(3, damaged), None, "bit {bit}");
            }
            for place in (0..10_000).filter(|&place| place != 3) {
                assert_eq!(epoch.decode(place, words), None, "place {place}");
            }
            for (number, salt) in [(6, 0x5a17), (8, 0x5a17), (7, 0x5a16), (0, 0)] {
                assert_eq!(Epoch::new(number, salt, rows).decode(3, words), None);
            }
        }
    }

    #[test]
    fn f73_zeros_are_no_record() {
        for number in 0..1000 {
            assert_eq!(Epoch::new(number, 0, 32).decode(0, [0, 0]), None);
        }
    }
}
