//! The crash campaign, and the sabotages that it must notice.
//!
//! The long form:
//! `BLOOMFILE_POWER_CUTS=1000000 cargo test --release --lib power_cuts -- --nocapture`

use super::campaign::{Campaign, Kind, Outcome};
use crate::format::Shape;
use crate::geometry::CellKind;

use crate::storage::Sabotage;

/// Power cuts and kills of the form that runs with the other tests.
const CRASHES: u64 = 50_000;

/// Crashes within which every sabotage must have been noticed.
const SABOTAGE_CRASHES: u64 = 60_000;

fn crashes() -> u64 {
    let asked = std::env::var("BLOOMFILE_POWER_CUTS").ok();
    asked.map_or(CRASHES, |text| text.parse().expect("BLOOMFILE_POWER_CUTS is a number"))
}

const PLAIN: Kind = Kind { cells: CellKind::Plain, shape: Shape::Fixed };
const GROWING: Kind = Kind { cells: CellKind::Plain, shape: Shape::Growing };
const ROTATING: Kind = Kind { cells: CellKind::Plain, shape: Shape::Rotating(2) };
const COUNTING: Kind = Kind { cells: CellKind::Counting, shape: Shape::Fixed };
const COUNTING_GROWING: Kind = Kind { cells: CellKind::Counting, shape: Shape::Growing };
const COUNTING_ROTATING: Kind = Kind { cells: CellKind::Counting, shape: Shape::Rotating(3) };

/// Crashes filters of a kind; a campaign that never got to the interesting places proves nothing.
fn survive(kind: Kind, crashes: u64) {
    let outcome = Campaign::run(kind, 0, crashes, None);
    println!("{kind:?}: {outcome:?}");
    assert_eq!(outcome.failure, None, "{kind:?}: {outcome:?}");
    let Outcome { power_cuts, kills, nested, failed_syncs, damaged, damaged_in_boot, .. } = outcome;
    assert!(power_cuts + kills >= crashes, "{outcome:?}");
    let enough = crashes / 1000;
    for (name, count) in [
        ("kills", kills),
        ("nested", nested),
        ("failed", failed_syncs),
        ("damaged", damaged),
        ("damaged in the same boot", damaged_in_boot),
    ] {
        assert!(count >= enough, "only {count} {name}");
    }
}

#[test]
fn power_cuts_and_kills_lose_nothing_that_was_synced() {
    survive(PLAIN, crashes());
}

#[test]
fn power_cuts_of_growing_filters() {
    survive(GROWING, crashes());
}

#[test]
fn power_cuts_of_rotating_filters() {
    survive(ROTATING, crashes());
}

#[test]
fn power_cuts_of_counting_filters() {
    survive(COUNTING, crashes() / 2);
    survive(COUNTING_GROWING, crashes() / 4);
    survive(COUNTING_ROTATING, crashes() / 4);
}

#[test]
fn every_sabotage_is_noticed() {
    let sabotages = [
        (PLAIN, Sabotage::TableAndSlotInOneSync),
        (PLAIN, Sabotage::NoSalt),
        (PLAIN, Sabotage::TableInPlace),
        (PLAIN, Sabotage::ReplayBeforeCheck),
        (PLAIN, Sabotage::NoJournal),
        (PLAIN, Sabotage::BitsBeforeRecord),
        (PLAIN, Sabotage::NoGapsFilled),
        (PLAIN, Sabotage::ConfirmEarly),
        (PLAIN, Sabotage::NoFlushAtBoundary),
        (PLAIN, Sabotage::LateEntries),
        (PLAIN, Sabotage::SaltOfOtherEpoch),
        (PLAIN, Sabotage::IgnoreNextHalf),
        (PLAIN, Sabotage::ReuseHalfEarly),
        (COUNTING, Sabotage::IgnoreNextHalf),
        (COUNTING, Sabotage::ReuseHalfEarly),
        (PLAIN, Sabotage::RetryFailedSync),
        (PLAIN, Sabotage::NoFlush),
        (PLAIN, Sabotage::NoCheckpointAfterRecovery),
        (PLAIN, Sabotage::NoRewriteInRecovery),
        (PLAIN, Sabotage::ForgetDirtyPages),
        (PLAIN, Sabotage::NoDataSync),
        (PLAIN, Sabotage::IgnoreHoles),
        (PLAIN, Sabotage::NoOpenState),
        (PLAIN, Sabotage::TrustCachedSlots),
        (PLAIN, Sabotage::IgnoreBootId),
        (GROWING, Sabotage::IgnoreBootId),
        (ROTATING, Sabotage::IgnoreBootId),
        (PLAIN, Sabotage::NoFullRecord),
        (GROWING, Sabotage::SegmentAndSlotInOneSync),
        (ROTATING, Sabotage::SpareNotZeroed),
        (ROTATING, Sabotage::SegmentAndSlotInOneSync),
        (PLAIN, Sabotage::ClearJournalEarly),
        (PLAIN, Sabotage::NoSyncOfClearJournal),
        (COUNTING, Sabotage::ClearJournalEarly),
        (COUNTING, Sabotage::CountBeforeLog),
        (COUNTING, Sabotage::SplitSync),
        (COUNTING_GROWING, Sabotage::SplitSync),
        (COUNTING, Sabotage::TrustCachedJournal),
        (COUNTING, Sabotage::NoFlush),
        (COUNTING, Sabotage::NoSalt),
        (COUNTING_ROTATING, Sabotage::SpareNotZeroed),
    ];
    for (kind, sabotage) in sabotages {
        let outcome = Campaign::run(kind, 1, SABOTAGE_CRASHES, Some(sabotage));
        let crashes = outcome.power_cuts + outcome.kills;
        println!("{sabotage:?}: noticed after {crashes} crashes: {:?}", outcome.failure);
        assert!(outcome.failure.is_some(), "{sabotage:?} went unnoticed: {outcome:?}");
    }
}
