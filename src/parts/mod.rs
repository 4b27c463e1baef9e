//! Filters larger than a machine: built in parts, each a range of pages, and joined.
//!
//! In the layouts `line`, `page` and `sealed` the page of a key grows with its hash, so that a range
//! of hashes is a range of pages. A [`PartPlan`] fixes size, seed and the number of parts; its bytes
//! go to every machine. Each builds one part from whatever keys it is given, leaving out those of
//! other parts; [`Join`] puts the parts together. No machine needs memory or disk for more than its
//! part, but for the one that joins, which needs the disk.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let at = |name: &str| folder.path().join(name);
//! use bloomfile::{Options, Reader, parts::{Join, PartPlan}};
//!
//! let options = Options::new().capacity(10_000).false_positive_rate(0.01);
//! let bytes = options.plan_parts(3)?.to_bytes()?; // what all machines are given
//!
//! let keys: Vec<String> = (0..10_000).map(|number| format!("key {number}")).collect();
//! let files = [1, 2, 3].map(|part| at(&format!("{part}.part")));
//! for (part, file) in (1..).zip(&files) {
//!     let mut builder = PartPlan::from_bytes(&bytes)?.part(part).start(file)?;
//!     builder.add_batch(&keys);
//!     builder.finish()?;
//! }
//! Join::new().run(&files, at("all.bloom"))?;
//! assert!(Reader::open(at("all.bloom"))?.contains("key 77"));
//!
//! // The file is the one that is built at once.
//! let mut builder = options.start_build(at("at-once.bloom"))?;
//! builder.add_batch(&keys);
//! builder.finish()?;
//! assert_eq!(std::fs::read(at("all.bloom")).unwrap(), std::fs::read(at("at-once.bloom")).unwrap());
//! # Ok::<(), bloomfile::Error>(())
//! ```

mod builder;
mod join;

pub use builder::{BuiltPart, Part, PartBuilder};
pub use join::Join;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::file::first_slot;
use crate::format::{
    MAX_PARTS, Metadata, PartContents, PlanHeader, Superblock, check_layout, page_of_hash,
};
use crate::hash::{Hasher, Key};
use crate::plan::Plan;

/// What all parts of a filter have alike: size, seed, metadata, and how many there are. Made by
/// [`Options::plan_parts`](crate::Options::plan_parts).
///
/// A plan can be sent: [`to_bytes`](Self::to_bytes) and [`from_bytes`](Self::from_bytes). The secret
/// of a keyed filter is not in it, and is given to each [`Part`].
#[derive(Clone, Debug, PartialEq)]
pub struct PartPlan {
    header: PlanHeader,
}

impl PartPlan {
    pub(crate) fn new(
        mut superblock: Superblock,
        plan: &Plan,
        metadata: Metadata,
        identity_from_contents: bool,
        parts: u64,
    ) -> Result<Self> {
        if !(1..=MAX_PARTS).contains(&parts) {
            return Err(Error::parameter("number of parts", parts, "it must be from 1 to 1048576"));
        }
        check_layout(plan.geometry().layout())?;
        if identity_from_contents {
            superblock.uuid = [0; 16];
        }
        let slot = first_slot(&superblock, plan, metadata);
        Ok(PartPlan { header: PlanHeader { superblock, slot, identity_from_contents, parts } })
    }

    /// The plan as bytes, which are the same on every machine.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.header.encode(&PartContents::default())
    }

    /// The plan of such bytes. Those of a part that was built will do as well.
    ///
    /// ```
    /// use bloomfile::{Options, parts::PartPlan};
    ///
    /// let plan = Options::new().capacity(1000).false_positive_rate(0.01).plan_parts(4)?;
    /// assert_eq!(PartPlan::from_bytes(&plan.to_bytes()?)?, plan);
    /// assert!(PartPlan::from_bytes(b"something else").is_err());
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        PlanHeader::decode(bytes).map(|(header, _)| PartPlan { header })
    }

    /// The number of parts.
    pub fn parts(&self) -> u64 {
        self.header.parts
    }

    /// The size of the filter, and what to expect of it.
    pub fn plan(&self) -> Plan {
        let capacity = Some(self.header.slot.segments[0].capacity);
        Plan::exact(*self.header.geometry(), capacity.filter(|&capacity| capacity != 0))
    }

    /// The pairs that the joined file will keep.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.slot.metadata
    }

    /// Length of the joined file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.header.slot.file_bytes
    }

    /// The hasher of the filter, which takes the secret of a keyed one.
    pub fn hasher(&self, key: Option<&Key>) -> Result<Hasher> {
        self.header.superblock.hasher(key)
    }

    /// The part that the key of a hash is in, from 1 on: grows with the hash.
    ///
    /// ```
    /// let options = bloomfile::Options::new().capacity(1_000_000).false_positive_rate(0.01);
    /// let plan = options.plan_parts(10)?;
    /// assert_eq!((plan.part_of(0), plan.part_of(u64::MAX)), (1, 10));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline]
    pub fn part_of(&self, hash: u64) -> u64 {
        self.header.part_of_page(page_of_hash(self.header.geometry(), hash))
    }

    /// Sorts hashes by their part, and keeps their order within each: the part, and its hashes.
    ///
    /// ```
    /// let options = bloomfile::Options::new().capacity(1_000_000).false_positive_rate(0.01);
    /// let plan = options.plan_parts(10)?;
    /// let split = plan.split(&[u64::MAX, 1, 0]);
    /// assert_eq!(split, [(1, vec![1, 0]), (10, vec![u64::MAX])]);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn split(&self, hashes: &[u64]) -> Vec<(u64, Vec<u64>)> {
        let mut parts = BTreeMap::<u64, Vec<u64>>::new();
        for &hash in hashes {
            parts.entry(self.part_of(hash)).or_default().push(hash);
        }
        parts.into_iter().collect()
    }

    /// The pages of a part, which are none if there are more parts than pages.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn pages_of(&self, part: u64) -> Range<u64> {
        assert!((1..=self.parts()).contains(&part), "there is no part {part}");
        self.header.pages_of(part)
    }

    /// A part, to be built.
    pub fn part(&self, part: u64) -> Part {
        Part::new(self.clone(), part)
    }
}
