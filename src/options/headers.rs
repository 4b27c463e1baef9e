//! From what was asked for to the headers of a new file.

use std::ops::RangeInclusive;

use super::Options;
use crate::error::{Error, Result};
use crate::format::{
    JOURNAL_STEP, MAX_GENERATIONS, Metadata, Superblock, WhenFull, encode_metadata, journal_length,
};
use crate::hash::Key;
use crate::plan::{self, Plan};
use crate::random;

/// Journal of a new file: this part of its data, within [`DEFAULT_JOURNAL_BYTES`].
///
/// When the journal is full, a checkpoint writes nearly every page of the data, so what it costs a
/// key falls as the journal grows. On 256 MiB, with a sync after every 100 keys, that was 13.8 µs
/// and 3,694 bytes written per key with 256 KiB of journal, 9.8 µs and 2,624 with 1 MiB, 1.6 µs and
/// 1,033 with 4 MiB, 0.6 µs and 275 with 16 MiB, 0.2 µs and 81 with 64 MiB, beside 23 to 38 µs and
/// 57 bytes for the syncs themselves (`cargo bench --bench durability`, on a busy disk). A
/// checkpoint goes on beside the adds that fill the other half, so that both halves have to last.
const DEFAULT_JOURNAL_PART: u64 = 8;

/// At least a page for each half. To open a crashed file takes memory for all bits that its journal
/// names, 4 bytes for each: 128 MiB for 64 MiB of journal and 8 rows.
const DEFAULT_JOURNAL_BYTES: RangeInclusive<u64> = JOURNAL_STEP..=64 << 20;

impl Options {
    /// The rate asked for, of the whole file; 0 where none was.
    fn whole_rate(&self) -> f64 {
        match self.rate {
            Some(each) if self.rate_of_each => plan::generations_rate(each, self.generations),
            rate => rate.unwrap_or(0.0),
        }
    }

    pub(super) fn metadata_map(&self) -> Result<Metadata> {
        let mut metadata = Metadata::new();
        for (key, value) in &self.metadata {
            if metadata.insert(key.clone(), value.clone()).is_some() {
                return Err(Error::parameter("metadata key", key, "it is given twice"));
            }
        }
        encode_metadata(&metadata)?;
        Ok(metadata)
    }

    /// The superblock of a file that is written over time, with room for its syncs.
    pub(super) fn superblock(&self, plan: &Plan) -> Result<Superblock> {
        self.superblock_with(plan, default_journal_bytes(plan))
    }

    /// The superblock of a file that is built, to be shipped and read: without a journal, unless one
    /// was asked for.
    pub(super) fn built_superblock(&self, plan: &Plan) -> Result<Superblock> {
        self.superblock_with(plan, 0)
    }

    fn superblock_with(&self, plan: &Plan, default_journal: u64) -> Result<Superblock> {
        let default_journal = if self.is_sealed() { 0 } else { default_journal };
        let journal_bytes = journal_length(self.journal_bytes.unwrap_or(default_journal))?;
        if self.key.is_some() && self.seed != 0 {
            let reason = "a keyed filter has no seed beside its secret";
            return Err(Error::parameter("seed", self.seed, reason));
        }
        let kind = plan.geometry().cell_kind();
        let when_full = self.when_full.unwrap_or(WhenFull::Allow);
        if when_full != WhenFull::Allow && plan.capacity().is_none() {
            let reason = "only a filter with a capacity can be full";
            return Err(Error::parameter("capacity", "missing", reason));
        }
        if self.generations != 0 {
            if !(2..=MAX_GENERATIONS).contains(&self.generations) {
                let reason = "it must be from 2 to 32";
                return Err(Error::parameter("generations", self.generations, reason));
            }
            if when_full != WhenFull::Allow {
                let reason = "a rotating filter drops its oldest generation instead";
                return Err(Error::parameter("when full", "set", reason));
            }
        } else if self.rotate_after != 0 {
            let reason = "it goes with generations";
            return Err(Error::parameter("rotate after", self.rotate_after, reason));
        } else if let (Some(rate), true) = (self.rate, self.rate_of_each) {
            let reason = "it goes with generations";
            return Err(Error::parameter("generation rate", rate, reason));
        }
        Ok(Superblock {
            read_only_compatible: 0,
            compatible: 0,
            uuid: self.uuid.unwrap_or_else(random::uuid),
            hash_seed: self.seed,
            key_check: self.key.as_ref().map(Key::check),
            cells: kind,
            when_full,
            journal_bytes,
            target_rate: self.whole_rate(),
            capacity: self.capacity.or(plan.capacity()).unwrap_or(0),
            generations: self.generations,
            rotate_after: self.rotate_after,
        })
    }
}

fn default_journal_bytes(plan: &Plan) -> u64 {
    let (least, most) = DEFAULT_JOURNAL_BYTES.into_inner();
    (plan.data_bytes() / DEFAULT_JOURNAL_PART).clamp(least, most)
}
