//! The crash campaign.
//!
//! The long form:
//! `BLOOMFILE_POWER_CUTS=1000000 cargo test --release --lib power_cuts -- --nocapture`

use super::campaign::{Campaign, Kind, Outcome};
use crate::storage::Sabotage;

/// Power cuts and kills of the form that runs with the other tests.
const CRASHES: u64 = 50_000;

/// Crashes within which every sabotage must have been noticed.
const SABOTAGE_CRASHES: u64 = 60_000;

fn crashes() -> u64 {
    let asked = std::env::var("BLOOMFILE_POWER_CUTS").ok();
    asked.map_or(CRASHES, |text| text.parse().expect("BLOOMFILE_POWER_CUTS is a number"))
}

/// Crashes filters of a kind; a campaign that never got to the interesting places proves nothing.
fn survive(kind: Kind, crashes: u64) -> Outcome {
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
    outcome
}

#[test]
fn power_cuts_and_kills_lose_nothing_that_was_synced() {
    survive(Kind::PLAIN, crashes());
}

#[test]
fn power_cuts_of_growing_filters() {
    survive(Kind::GROWING, crashes());
}

#[test]
fn power_cuts_of_rotating_filters() {
    survive(Kind::ROTATING, crashes());
}

#[test]
fn power_cuts_of_counting_filters() {
    survive(Kind::COUNTING, crashes() / 2);
    survive(Kind::COUNTING_GROWING, crashes() / 4);
    survive(Kind::COUNTING_ROTATING, crashes() / 4);
}

/// Deltas that are taken in where the file is, and those that cannot be.
#[cfg(feature = "digest")]
#[test]
fn power_cuts_of_deltas_in_place() {
    let run = |kind: Kind, crashes| {
        let kind = kind.with_deltas();
        survive(kind, crashes).deltas
    };
    let enough = crashes() / 500;
    let plain = run(Kind::PLAIN, crashes() / 5);
    assert!(plain.applied >= enough && plain.again >= enough, "{plain:?}");
    for kind in [Kind::GROWING, Kind::ROTATING] {
        let some = run(kind, crashes() / 10);
        assert!(some.applied > 0 && some.again > 0 && some.refused > 0, "{kind:?}: {some:?}");
    }
    let counting = run(Kind::COUNTING, crashes() / 50);
    assert!(counting.applied == 0 && counting.refused > 0, "{counting:?}");
}

/// Whether the campaign notices a step that is left out or done wrongly.
pub(super) fn notice(kind: Kind, sabotage: Sabotage) -> bool {
    let outcome = Campaign::run(kind, 1, SABOTAGE_CRASHES, Some(sabotage));
    let crashes = outcome.power_cuts + outcome.kills;
    println!("{sabotage:?}, {kind:?}: after {crashes} crashes: {:?}", outcome.failure);
    outcome.failure.is_some()
}
