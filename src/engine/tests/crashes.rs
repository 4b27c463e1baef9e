//! The crash campaign, and the sabotages that it must notice.
//!
//! The long form:
//! `BLOOMFILE_POWER_CUTS=1000000 cargo test --release --lib power_cuts -- --nocapture`

use super::campaign::{Campaign, Outcome};

use crate::storage::Sabotage;

/// Power cuts and kills of the form that runs with the other tests.
const CRASHES: u64 = 60_000;

/// Crashes within which every sabotage must have been noticed.
const SABOTAGE_CRASHES: u64 = 60_000;

fn crashes() -> u64 {
    let asked = std::env::var("BLOOMFILE_POWER_CUTS").ok();
    asked.map_or(CRASHES, |text| text.parse().expect("BLOOMFILE_POWER_CUTS is a number"))
}

#[test]
fn power_cuts_and_kills_lose_nothing_that_was_synced() {
    let outcome = Campaign::run(0, crashes(), None);
    println!("{outcome:?}");
    assert_eq!(outcome.failure, None, "{outcome:?}");
    // A campaign that never got to the interesting places proves nothing.
    let Outcome { power_cuts, kills, nested, failed_syncs, damaged, .. } = outcome;
    assert!(power_cuts + kills >= crashes(), "{outcome:?}");
    let enough = crashes() / 400;
    for (name, count) in
        [("kills", kills), ("nested", nested), ("failed", failed_syncs), ("damaged", damaged)]
    {
        assert!(count >= enough, "only {count} {name}");
    }
}

#[test]
fn every_sabotage_is_noticed() {
    let sabotages = [
        Sabotage::TableAndSlotInOneSync,
        Sabotage::NoSalt,
        Sabotage::TableInPlace,
        Sabotage::ReplayBeforeCheck,
        Sabotage::NoJournal,
        Sabotage::BitsBeforeRecord,
        Sabotage::RetryFailedSync,
        Sabotage::NoFlush,
        Sabotage::NoCheckpointAfterRecovery,
        Sabotage::NoRewriteInRecovery,
        Sabotage::ForgetDirtyPages,
        Sabotage::NoDataSync,
        Sabotage::IgnoreHoles,
        Sabotage::NoOpenState,
        Sabotage::TrustCachedSlots,
    ];
    for sabotage in sabotages {
        let outcome = Campaign::run(1, SABOTAGE_CRASHES, Some(sabotage));
        let crashes = outcome.power_cuts + outcome.kills;
        println!("{sabotage:?}: noticed after {crashes} crashes: {:?}", outcome.failure);
        assert!(outcome.failure.is_some(), "{sabotage:?} went unnoticed: {outcome:?}");
    }
}
