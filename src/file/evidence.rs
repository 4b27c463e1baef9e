//! Which records of a journal must be there: those that a later one shows to have been durable
//! (F-91).

use crate::format::Record;

/// What the records of one epoch show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HalfEvidence {
    /// The mark of the last sync record with nothing missing in front of it.
    pub(super) mark: Option<u64>,
    /// The first record that is missing, if records follow it or not.
    pub(super) first_missing: Option<u64>,
    /// How many records are missing in front of the last one that can be read: what is missing behind
    /// it is free space.
    pub(super) missing_in_front: u64,
    missing: u64,
    /// Records up to and with the last one that can be read.
    pub(super) extent: u64,
    /// The last sync record.
    last_sync: Option<u64>,
    /// How many records from the start of the half were durable.
    durable: u64,
    /// What the first record says of the epoch before: how many records that has.
    link: Option<u64>,
    /// A record that is written only once all of the epoch before was durable.
    follows: bool,
}

impl HalfEvidence {
    /// Notes what stands at a place.
    pub(super) fn note(&mut self, index: u64, record: Option<Record>) {
        let Some(record) = record else {
            self.first_missing.get_or_insert(index);
            self.missing += 1;
            return;
        };
        self.missing_in_front = self.missing;
        self.extent = index + 1;
        match record {
            Record::Note { count } if index == 0 => self.link = Some(count),
            Record::Note { count } => {
                self.durable = self.durable.max(count);
                self.follows = true;
            }
            Record::Sync { .. } => {
                // Syncs follow one another: this record was written when the last one was durable.
                if let Some(last) = self.last_sync.replace(index) {
                    self.durable = self.durable.max(last + 1);
                }
                self.follows = true;
            }
            Record::Key { .. } | Record::Change(_) => {}
        }
    }

    /// The first record that was durable and is missing, as far as this half shows.
    pub(super) fn hole_within(&self) -> Option<u64> {
        self.first_missing.filter(|&index| index < self.durable)
    }

    /// As [`hole_within`](Self::hole_within), with what the half of the next epoch shows.
    pub(super) fn hole(&self, next: &HalfEvidence) -> Option<u64> {
        let mut durable = self.durable;
        if next.follows {
            // All of this half, to the sync record that ended it.
            let end = next.link.or(self.last_sync.map(|index| index + 1));
            durable = durable.max(end.unwrap_or(0));
        }
        self.first_missing.filter(|&index| index < durable)
    }

    /// Whether nothing of this half is missing in front of what the next one adds.
    pub(super) fn is_complete_before(&self, next: &HalfEvidence) -> bool {
        let end = next.link.unwrap_or(self.extent);
        self.first_missing.is_none_or(|index| index >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Option<Record> = Some(Record::Key { hash: 1, mask: 1 });
    const SYNC: Option<Record> = Some(Record::Sync { mark: 5 });

    fn note(count: u64) -> Option<Record> {
        Some(Record::Note { count })
    }

    fn half(records: &[Option<Record>]) -> HalfEvidence {
        let mut half = HalfEvidence::default();
        records.iter().enumerate().for_each(|(at, &record)| half.note(at as u64, record));
        half
    }

    #[test]
    fn f91_a_hole_in_front_of_a_sync_that_returned_is_damage() {
        let link = note(0);
        // The next sync record, or a confirmation, shows that a sync had returned.
        assert_eq!(half(&[link, KEY, None, SYNC, KEY, SYNC]).hole_within(), Some(2));
        assert_eq!(half(&[link, KEY, None, SYNC, note(4)]).hole_within(), Some(2));
        // Also when the sync record itself is what is missing.
        assert_eq!(half(&[link, KEY, None, KEY, note(3)]).hole_within(), Some(2));
        // Keys do not: they are added while a sync is under way.
        assert_eq!(half(&[link, KEY, None, SYNC, KEY, KEY]).hole_within(), None);
        assert_eq!(half(&[link, KEY, None, SYNC]).hole_within(), None);
        // What comes behind was not synced.
        assert_eq!(half(&[link, KEY, SYNC, None, SYNC]).hole_within(), None);
        assert_eq!(half(&[link, KEY, SYNC, note(3), None, KEY]).hole_within(), None);
        assert_eq!(half(&[None, KEY, SYNC, note(3)]).hole_within(), Some(0));
    }

    #[test]
    fn f91_a_sync_of_the_next_epoch_shows_that_all_of_this_one_was_durable() {
        let torn = half(&[note(0), KEY, None, SYNC]);
        let open = half(&[note(4), KEY, KEY]);
        assert_eq!(torn.hole(&open), None);
        assert_eq!(torn.hole(&half(&[note(4), KEY, SYNC])), Some(2));
        assert_eq!(torn.hole(&half(&[note(4), note(0)])), Some(2));
        // How long it was is known from the next one alone.
        let cut = half(&[note(0), KEY, SYNC, KEY, None]);
        assert_eq!(cut.hole(&half(&[note(5), KEY, SYNC])), Some(4));
        assert_eq!(cut.hole(&half(&[None, KEY, SYNC])), None);
        assert!(!cut.is_complete_before(&half(&[note(5)])));
        assert!(cut.is_complete_before(&half(&[note(4)])));
    }
}
