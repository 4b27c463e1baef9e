//! Journal records: 16 bytes that make one add, or one sync, known; 32 in a counting file (F-70 to
//! F-77).

use super::JOURNAL_OFFSET;
use crate::geometry::CellKind;
use crate::hash::{GOLDEN, mix};

/// Bytes of a plain file's record.
pub(crate) const RECORD_BYTES: u64 = 16;

/// Bytes of a counting file's record.
pub(crate) const COUNTING_RECORD_BYTES: u64 = 32;

/// 64-bit words of the longest record.
pub(crate) const MOST_RECORD_WORDS: usize = 4;

/// Bits of a record's mask in a counting file (F-71).
pub(crate) const COUNTING_MASK_BITS: u32 = 16;

/// In the mask of a counting file's record: it is a change, and a removal (F-75).
const CHANGE: u32 = 1 << 15;
const REMOVAL: u32 = 1 << 14;
/// In the same mask: the region of the change.
const REGION: u32 = 0x3f;

/// Where the records of a file are: in two halves, which epochs take in turn (F-70).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalLayout {
    half_bytes: u64,
    cells: CellKind,
}

impl JournalLayout {
    pub(crate) const fn new(journal_bytes: u64, cells: CellKind) -> Self {
        JournalLayout { half_bytes: journal_bytes / 2, cells }
    }

    /// Bytes of a record.
    pub(crate) const fn record_bytes(self) -> u64 {
        match self.cells {
            CellKind::Plain | CellKind::Sealed => RECORD_BYTES,
            CellKind::Counting => COUNTING_RECORD_BYTES,
        }
    }

    /// Bytes of a half.
    pub(crate) const fn half_bytes(self) -> u64 {
        self.half_bytes
    }

    /// Records of a half.
    pub(crate) const fn records(self) -> u64 {
        self.half_bytes / self.record_bytes()
    }

    /// The number of the record that says that adds went unlogged, where there is one: the last of
    /// each half of a plain file (F-78).
    pub(crate) const fn full_record(self) -> Option<u64> {
        match self.cells {
            CellKind::Plain => self.records().checked_sub(1),
            CellKind::Counting | CellKind::Sealed => None,
        }
    }

    /// Records of a half that an epoch has for its changes and syncs.
    pub(crate) const fn capacity(self) -> u64 {
        match self.full_record() {
            Some(full) => full,
            None => self.records(),
        }
    }

    /// Where the half of an epoch starts in the file.
    pub(crate) const fn half_offset(self, epoch: u64) -> u64 {
        JOURNAL_OFFSET + epoch % 2 * self.half_bytes
    }

    /// The number of an epoch's record among all records of the journal.
    pub(crate) const fn number(self, epoch: u64, index: u64) -> u64 {
        epoch % 2 * self.records() + index
    }
}

/// What binds records to the time between two checkpoints (F-72).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Mixed from the epoch's number and salt.
    key: u64,
    /// Bits of a record's last word that hold the mask; the check takes all the others, so that
    /// bytes which are no record hardly ever pass for one.
    mask_bits: u32,
    cells: CellKind,
}

impl Epoch {
    /// An epoch of a plain file, for records whose masks have `mask_bits` bits.
    pub(crate) const fn plain(number: u64, salt: u64, mask_bits: u32) -> Self {
        Epoch { key: epoch_key(number, salt), mask_bits, cells: CellKind::Plain }
    }

    /// An epoch of a counting file.
    pub(crate) const fn counting(number: u64, salt: u64) -> Self {
        let key = epoch_key(number, salt);
        Epoch { key, mask_bits: COUNTING_MASK_BITS, cells: CellKind::Counting }
    }

    /// What is mixed from number and salt.
    pub(crate) const fn key(self) -> u64 {
        self.key
    }

    /// The epoch of a [`key`](Self::key).
    #[inline(always)]
    pub(crate) const fn from_key(key: u64, mask_bits: u32, cells: CellKind) -> Self {
        Epoch { key, mask_bits, cells }
    }

    /// Words of a record.
    pub(crate) const fn record_words(self) -> usize {
        match self.cells {
            CellKind::Plain | CellKind::Sealed => 2,
            CellKind::Counting => MOST_RECORD_WORDS,
        }
    }

    /// The check of a record: it depends on every bit of the record, on its place and the epoch.
    #[inline(always)]
    const fn check(self, key: u64, index: u32, values: [u64; 3], mask: u32) -> u64 {
        let place = ((index as u64) << 32) | mask as u64;
        let mut mixed = mix(values[0] ^ key);
        if matches!(self.cells, CellKind::Counting) {
            mixed = mix(mix(mixed ^ values[1]) ^ values[2]);
        }
        let check = mix(mixed.wrapping_add(place)) >> self.mask_bits;
        // Never 0, so that zeros are no record (F-73).
        if check == 0 { 1 } else { check }
    }

    /// The two words of a key record at place `index` of a plain file.
    #[inline(always)]
    pub(crate) const fn encode_key(self, index: u32, hash: u64, mask: u32) -> [u64; 2] {
        let check = self.check(self.key, index, [hash, 0, 0], mask);
        [hash, mask as u64 | (check << self.mask_bits)]
    }

    /// The words of a record at place `index`; a plain file has only the first two.
    pub(crate) const fn encode(self, index: u32, record: Record) -> [u64; MOST_RECORD_WORDS] {
        let (values, mask, key) = match record {
            Record::Key { hash, mask } => ([hash, 0, 0], mask, self.key),
            Record::Change(change) => {
                ([change.hash, change.old[0], change.old[1]], change.mask(), self.key)
            }
            Record::Sync { mark } => ([mark, 0, 0], 0, self.key),
            Record::Note { count } => ([count, 0, 0], 0, !self.key),
        };
        let last = mask as u64 | (self.check(key, index, values, mask) << self.mask_bits);
        match self.cells {
            CellKind::Plain | CellKind::Sealed => [values[0], last, 0, 0],
            CellKind::Counting => [values[0], values[1], values[2], last],
        }
    }

    /// The record at place `index`, if one of this epoch is there.
    #[inline]
    pub(crate) const fn decode(self, index: u32, words: &[u64]) -> Option<Record> {
        let (values, last) = match self.cells {
            CellKind::Plain | CellKind::Sealed => ([words[0], 0, 0], words[1]),
            CellKind::Counting => ([words[0], words[1], words[2]], words[3]),
        };
        let mask = (last & ((1 << self.mask_bits) - 1)) as u32;
        let check = last >> self.mask_bits;
        if self.check(self.key, index, values, mask) == check {
            return Some(match (mask, self.cells) {
                (0, _) => Record::Sync { mark: values[0] },
                (mask, CellKind::Plain | CellKind::Sealed) => Record::Key { hash: values[0], mask },
                (mask, CellKind::Counting) => Record::Change(Change::of(values, mask)),
            });
        }
        if mask == 0 && self.check(!self.key, index, values, 0) == check {
            return Some(Record::Note { count: values[0] });
        }
        None
    }
}

const fn epoch_key(number: u64, salt: u64) -> u64 {
    mix(number.wrapping_mul(GOLDEN) ^ salt)
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A key was added to a plain file that turned on the cells of these rows.
    Key {
        /// The key's hash.
        hash: u64,
        /// One bit for each row whose cell was off; never 0.
        mask: u32,
    },
    /// A key was added to a counting file, or taken out of it.
    Change(Change),
    /// All records before this one belong to a sync.
    Sync {
        /// The user's own position.
        mark: u64,
    },
    /// At the start of an epoch: how many records the one before it has, if that one counts as well.
    /// Elsewhere, a confirmation: this number of records of the epoch is durable (F-74).
    Note {
        /// Records.
        count: u64,
    },
}

/// What the last record of a half says in a plain file: adds went unlogged (F-78).
pub(crate) const FULL_RECORD: Record = Record::Sync { mark: 0 };

/// A change of a counting file: every counter of a key goes up by one, or down (F-75).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The key's hash.
    pub(crate) hash: u64,
    /// The values of its counters before: 4 bits for each row, rows 0 to 15 and 16 to 31.
    pub(crate) old: [u64; 2],
    /// The region of the segment.
    pub(crate) region: u32,
    /// The key was taken out.
    pub(crate) removal: bool,
    /// The bits of the mask that have no meaning: zeros, in a record that a writer wrote.
    pub(crate) stray: u32,
}

/// The highest value of a counter: one that got here stays (F-76).
pub(crate) const STUCK: u8 = 15;

impl Change {
    pub(crate) const fn new(hash: u64, region: usize, removal: bool) -> Self {
        Change { hash, old: [0, 0], region: region as u32, removal, stray: 0 }
    }

    const fn of(values: [u64; 3], mask: u32) -> Self {
        Change {
            hash: values[0],
            old: [values[1], values[2]],
            region: mask & REGION,
            removal: mask & REMOVAL != 0,
            stray: (mask ^ CHANGE) & !(REMOVAL | REGION),
        }
    }

    const fn mask(&self) -> u32 {
        let removal = if self.removal { REMOVAL } else { 0 };
        (CHANGE ^ self.stray) | removal | (self.region & REGION)
    }

    /// The value of a row's counter before the change.
    pub(crate) const fn old(&self, row: u32) -> u8 {
        (self.old[row as usize / 16] >> (row % 16 * 4) & 15) as u8
    }

    /// Notes the value of a row's counter before the change.
    pub(crate) const fn set_old(&mut self, row: u32, value: u8) {
        self.old[row as usize / 16] |= ((value & 15) as u64) << (row % 16 * 4);
    }

    /// What a counter becomes; `None` for one that cannot go down.
    pub(crate) const fn apply(&self, value: u8) -> Option<u8> {
        match (value, self.removal) {
            (STUCK, _) => Some(STUCK),
            (0, true) => None,
            (value, true) => Some(value - 1),
            (value, false) => Some(value + 1),
        }
    }

    /// Whether a segment of this number of rows held the key before: no counter was 0.
    pub(crate) fn was_in(&self, rows: u32) -> bool {
        (0..rows).all(|row| self.old(row) > 0)
    }

    /// Whether the segment holds the key afterwards: no counter is 0.
    pub(crate) fn is_in(&self, rows: u32) -> bool {
        (0..rows).all(|row| self.apply(self.old(row)).is_some_and(|new| new > 0))
    }

    /// What the change does to the number of keys that the segment holds (F-130).
    pub(crate) fn keys(&self, rows: u32) -> i64 {
        if self.removal { -i64::from(!self.is_in(rows)) } else { i64::from(!self.was_in(rows)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> [(Epoch, Record); 7] {
        let plain = |rows| Epoch::plain(7, 0x5a17, rows);
        let counting = Epoch::counting(7, 0x5a17);
        let mut change = Change::new(0x0123_4567_89ab_cdef, 31, true);
        (0..32).for_each(|row| change.set_old(row, row as u8 % 16));
        [
            (plain(4), Record::Key { hash: 0x0123_4567_89ab_cdef, mask: 0b1011 }),
            (plain(8), Record::Key { hash: 0x0123_4567_89ab_cdef, mask: 0b1011 }),
            (plain(32), Record::Key { hash: 5, mask: u32::MAX }),
            (plain(8), Record::Sync { mark: 99 }),
            (plain(1), Record::Note { count: 3 }),
            (counting, Record::Change(change)),
            (counting, Record::Note { count: 0 }),
        ]
    }

    #[test]
    fn f72_every_flipped_bit_other_place_and_other_epoch_is_noticed() {
        for (epoch, record) in records() {
            let words = epoch.encode(3, record);
            let words = &words[..epoch.record_words()];
            assert_eq!(epoch.decode(3, words), Some(record));
            for bit in 0..64 * words.len() {
                let mut damaged = words.to_vec();
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(epoch.decode(3, &damaged), None, "bit {bit} of {record:?}");
            }
            for place in (0..10_000).filter(|&place| place != 3) {
                assert_eq!(epoch.decode(place, words), None, "place {place} of {record:?}");
            }
            for (number, salt) in [(6, 0x5a17), (8, 0x5a17), (7, 0x5a16), (7, !0x5a17), (0, 0)] {
                let other = Epoch { key: epoch_key(number, salt), ..epoch };
                assert_eq!(other.decode(3, words), None, "{record:?}");
            }
        }
    }

    #[test]
    fn f73_zeros_are_no_record() {
        for number in 0..1000 {
            assert_eq!(Epoch::plain(number, 0, 32).decode(0, &[0; 2]), None);
            assert_eq!(Epoch::counting(number, 0).decode(0, &[0; 4]), None);
        }
    }

    #[test]
    fn f75_a_change_says_what_every_counter_was() {
        let mut change = Change::new(9, 3, false);
        for row in 0..32 {
            change.set_old(row, (row * 7 % 16) as u8);
        }
        assert!((0..32).all(|row| change.old(row) == (row * 7 % 16) as u8));
        assert_eq!([0, 14, 15].map(|value| change.apply(value)), [Some(1), Some(15), Some(15)]);
        let removal = Change { removal: true, ..change };
        assert_eq!([0, 1, 15].map(|value| removal.apply(value)), [None, Some(0), Some(15)]);
    }
}
