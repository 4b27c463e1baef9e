//! Every sabotage of the protocol, and what notices it.

use super::campaign::Kind;
use crate::storage::Sabotage;

/// What must notice a sabotage.
#[derive(Clone, Copy, Debug)]
pub(super) enum Watch {
    /// The crash campaign, of filters of a kind.
    Crashes(Kind),
    /// Damage under an open writer.
    LiveDamage,
    /// The crash campaign of filters that take deltas in.
    Deltas,
    /// A recovery after a slot reached the cache alone.
    CachedSlot,
    /// Threads in many orders, which are run with `--cfg shuttle`.
    Interleavings(Order),
}

/// What the threads of the interleavings do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Two add the same key.
    SameKey,
    /// Some add, another syncs and checkpoints.
    Adds,
    /// All add and sync.
    Syncs,
}

/// What notices a sabotage: a new one does not compile before it is here, and a list that is empty, or
/// names a campaign that does not notice, fails.
fn watches(sabotage: Sabotage) -> Vec<Watch> {
    use Sabotage::*;
    use Watch::{CachedSlot, Crashes, Deltas, Interleavings, LiveDamage};
    let plain = Crashes(Kind::PLAIN);
    let growing = Crashes(Kind::GROWING);
    let rotating = Crashes(Kind::ROTATING);
    let counting = Crashes(Kind::COUNTING);
    match sabotage {
        TableAndSlotInOneSync
        | TableInPlace
        | SharedTablePage
        | ReplayBeforeCheck
        | NoJournal
        | NoGapsFilled
        | ConfirmEarly
        | NoFlushAtBoundary
        | LateEntries
        | SaltOfOtherEpoch
        | RetryFailedSync
        | NoCheckpointAfterRecovery
        | NoRewriteInRecovery
        | ForgetDirtyPages
        | NoDataSync
        | IgnoreHoles
        | NoOpenState
        | TrustCachedSlots
        | NoFullRecord
        | NoSyncOfClearJournal => vec![plain],
        NoSalt | IgnoreNextHalf | ReuseHalfEarly | ClearJournalEarly => vec![plain, counting],
        NoFlush => vec![plain, counting, Interleavings(Order::Adds)],
        BitsBeforeRecord => vec![plain, Interleavings(Order::SameKey)],
        IgnoreBootId => vec![plain, growing, rotating],
        SegmentAndSlotInOneSync => vec![growing, rotating],
        SpareNotZeroed => vec![rotating, Crashes(Kind::COUNTING_ROTATING)],
        CountBeforeLog | TrustCachedJournal => vec![counting],
        ForgetReplayedKeys | CountBehindBoundary => vec![counting, Crashes(Kind::COUNTING_GROWING)],
        SplitSync => vec![counting, Crashes(Kind::COUNTING_GROWING)],
        UnloggedUnion | DeltaBeforeSync | DeltaMarkEarly | DeltaMetadataEarly => vec![Deltas],
        NoProof => vec![LiveDamage],
        LeaveCachedSlots => vec![CachedSlot],
        CheckpointWithoutStripes => vec![Interleavings(Order::Adds)],
        AbandonedRoundCounts => vec![Interleavings(Order::Syncs)],
    }
}

/// Whether a sabotage is noticed; `None` where only the interleavings can notice it.
#[cfg(not(shuttle))]
fn notices(watch: Watch, sabotage: Sabotage) -> Option<bool> {
    match watch {
        Watch::Crashes(kind) => Some(super::crashes::notice(kind, sabotage)),
        #[cfg(feature = "digest")]
        Watch::Deltas => Some(super::crashes::notice(Kind::PLAIN.with_deltas(), sabotage)),
        #[cfg(not(feature = "digest"))]
        Watch::Deltas => None,
        Watch::LiveDamage => Some(super::live_damage::notices(sabotage)),
        Watch::CachedSlot => Some(!super::faults::survives_a_cached_slot(Some(sabotage))),
        Watch::Interleavings(Order::SameKey | Order::Adds | Order::Syncs) => None,
    }
}

/// Whether the interleavings notice a sabotage; `None` where something else must.
#[cfg(shuttle)]
fn notices(watch: Watch, sabotage: Sabotage) -> Option<bool> {
    match watch {
        Watch::Interleavings(order) => Some(super::interleavings::notice(order, sabotage)),
        Watch::Crashes(Kind { .. }) | Watch::Deltas | Watch::LiveDamage | Watch::CachedSlot => None,
    }
}

/// Runs everything that this build can run; gives the number of sabotages that it noticed.
pub(super) fn run_all() -> usize {
    let mut noticed = 0;
    for &sabotage in Sabotage::ALL {
        let watches = watches(sabotage);
        assert!(!watches.is_empty(), "nothing notices {sabotage:?}");
        let found: Vec<_> = watches
            .into_iter()
            .filter_map(|watch| Some((watch, notices(watch, sabotage)?)))
            .collect();
        for (watch, notices) in &found {
            assert!(notices, "{sabotage:?} went unnoticed by {watch:?}");
        }
        noticed += usize::from(!found.is_empty());
    }
    println!("{noticed} of {} sabotages noticed", Sabotage::ALL.len());
    noticed
}

/// Sabotages that take deltas to notice.
#[cfg(not(shuttle))]
const OF_DELTAS: usize = 4;

/// All but those that only an order of threads brings to light, which the interleavings count. Among
/// them are all orders of writes and syncs that F-84 to F-89 ask for, and the pages that recovery
/// writes once more (F-95, `NoRewriteInRecovery`).
#[cfg(not(shuttle))]
#[test]
fn every_sabotage_is_noticed() {
    let deltas = if cfg!(feature = "digest") { 0 } else { OF_DELTAS };
    assert_eq!(run_all(), Sabotage::ALL.len() - 2 - deltas);
}
