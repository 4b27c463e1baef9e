//! Where tests break the durability protocol, to see that the campaigns notice.

/// A place where a test can break a step. `sabotage!(medium, Name)` says whether it does, and
/// `sabotage!(medium, Name => code)` runs the code if it does. Outside of tests the first is `false`
/// and the second is nothing.
#[cfg(test)]
macro_rules! sabotage {
    ($medium:expr, $name:ident) => {
        $medium.sabotaged($crate::storage::Sabotage::$name)
    };
    ($medium:expr, $name:ident => $($code:tt)*) => {
        if $medium.sabotaged($crate::storage::Sabotage::$name) {
            $($code)*
        }
    };
}

/// As above, for everything but tests.
#[cfg(not(test))]
macro_rules! sabotage {
    ($medium:expr, $name:ident) => {{
        let _ = &$medium;
        false
    }};
    ($medium:expr, $name:ident => $($code:tt)*) => {};
}

pub(crate) use sabotage;

/// Makes the enumeration and the list of all its members from one text.
#[cfg(test)]
macro_rules! sabotages {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The steps of the protocol that a test can break. `writer/tests/sabotages.rs` says of each
        /// which campaign notices it, and runs it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Sabotage {
            $($(#[$doc])* $name,)*
        }

        impl Sabotage {
            pub(crate) const ALL: &[Sabotage] = &[$(Sabotage::$name),*];
        }
    };
}

#[cfg(test)]
sabotages! {
    /// Page table and slot become durable in one sync instead of two.
    TableAndSlotInOneSync,
    /// Journal records are not bound to their epoch.
    NoSalt,
    /// The current page table is overwritten in place.
    TableInPlace,
    /// A page that both tables are in is written as a whole.
    SharedTablePage,
    /// Recovery sets the journal's bits before it has checked the pages.
    ReplayBeforeCheck,
    /// Adds are not logged.
    NoJournal,
    /// The record of an add is written after its bits.
    BitsBeforeRecord,
    /// A sync leaves records unfilled that threads reserved.
    NoGapsFilled,
    /// A confirmation is written before the flush that it confirms.
    ConfirmEarly,
    /// A boundary does not wait for the records in front of it to be durable.
    NoFlushAtBoundary,
    /// A checkpoint describes pages as they are when it gets to them, not as they were at the boundary.
    LateEntries,
    /// The slot of an epoch that a boundary began has another salt than its records.
    SaltOfOtherEpoch,
    /// Readers and recovery leave out the epoch that a boundary began.
    IgnoreNextHalf,
    /// An epoch goes on in a half whose records still count.
    ReuseHalfEarly,
    /// Calls that wait for a sync are let go by a thread that leads without making one.
    AbandonedRoundCounts,
    /// A failed sync is tried again and taken for good.
    RetryFailedSync,
    /// A sync does not wait for the journal to be durable.
    NoFlush,
    /// Recovery leaves the checkpoint to later.
    NoCheckpointAfterRecovery,
    /// Recovery trusts pages that look right to be on the disk.
    NoRewriteInRecovery,
    /// A checkpoint forgets which pages changed since the last one.
    ForgetDirtyPages,
    /// A checkpoint does not make the data durable before the slot that describes it.
    NoDataSync,
    /// Holes in the journal are taken for its end.
    IgnoreHoles,
    /// Opening for writing does not mark the file as open.
    NoOpenState,
    /// A new segment and the slot that lists it become durable in one sync.
    SegmentAndSlotInOneSync,
    /// A new generation starts with what the dropped one left in its region.
    SpareNotZeroed,
    /// Counters change in the data before their log is durable.
    CountBeforeLog,
    /// A sync of counters that the journal has no room for is made in parts.
    SplitSync,
    /// Recovery does not count the keys of the changes of counters that it replays.
    ForgetReplayedKeys,
    /// A slot counts keys that came behind its boundary.
    CountBehindBoundary,
    /// Closing clears the journal before a slot is durable that does without it.
    ClearJournalEarly,
    /// Closing does not wait for the journal to be cleared before the slot that says so.
    NoSyncOfClearJournal,
    /// A checkpoint takes every page for what was written.
    NoProof,
    /// Recovery changes counters as a journal says that may be in the cache alone.
    TrustCachedJournal,
    /// A checkpoint does not wait for the adds that are under way.
    CheckpointWithoutStripes,
    /// Opening for writing trusts that the slots the cache shows are on the disk.
    TrustCachedSlots,
    /// Recovery leaves a slot in the cache that the disk does not hold.
    LeaveCachedSlots,
    /// After a kill, cells that nothing explains are taken for what a power cut left.
    IgnoreBootId,
    /// Adds for which the journal has no room leave no trace in it.
    NoFullRecord,
    /// Cells that come as such, and not as keys, leave no trace in the journal.
    UnloggedUnion,
    /// The first cell of a delta comes before what it was made from is durable.
    DeltaBeforeSync,
    /// The mark of a delta is synced before its cells are set.
    DeltaMarkEarly,
    /// The metadata of a delta are set before its cells are durable.
    DeltaMetadataEarly,
}
