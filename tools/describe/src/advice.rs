//! What the user of a file should do next.

use std::path::Path;

use bloomfile::report::{Health, Inspection};
use bloomfile::{CellKind, WhenFull};

use crate::platform::NO_INPUT;
use crate::words::{crowded_advice, newest_share};
use crate::{text, units};

/// Share of the capacity from which on a filter is nearly full.
const NEARLY_FULL: f64 = 0.9;

/// A rate that makes a filter of little use.
const USELESS_RATE: f64 = 0.5;

/// What the user should do next.
pub fn advice(file: &Path, inspection: &Inspection, crowded: u64) -> String {
    let file = text::word(file);
    if inspection.slot_damaged && inspection.health == Health::Clean {
        return format!(
            "bloomfile verify {file} tells whether anything is lost; if so, restore it from a copy"
        );
    }
    if inspection.health == Health::Crashed {
        let keyed = inspection.key_fingerprint.is_some();
        let key = if keyed { " --key-file KEY_FILE" } else { "" };
        return format!("recover it: bloomfile add {file}{key} < {NO_INPUT}");
    }
    if inspection.unverifiable_pages > 0 {
        let pages = units::counted(inspection.unverifiable_pages, "page");
        return format!(
            "build it again from the keys, or restore it from a copy: {pages} could not be verified \
             when a recovery kept them, so that its \"no\" is not certain"
        );
    }
    if inspection.repaired_pages > 0 && inspection.kind != CellKind::Sealed {
        let pages = units::counted(inspection.repaired_pages, "page");
        let answers = if inspection.repaired_pages == 1 { "says" } else { "say" };
        return format!(
            "restore it from a copy, or build it again: {pages} set to all ones {answers} \"maybe\" to \
             every key"
        );
    }
    if crowded > 0 && inspection.kind != CellKind::Sealed {
        return crowded_advice(inspection.key_fingerprint.is_some()).into();
    }
    let rate = inspection.rate_now();
    if rate > USELESS_RATE {
        return "build a larger one: this one says \"maybe\" to most absent keys".into();
    }
    let grows = inspection.when_full == WhenFull::Grow;
    if let Some(target) = inspection.target_rate.filter(|&target| grows && rate > target) {
        let target = units::percent(target);
        return format!("build it again from the keys: merging took its rate above {target}");
    }
    let nothing =
        format!("none; bloomfile verify {file} checks the data, which was not checked here");
    if let Some(sealed) = inspection.segments.last().and_then(|segment| segment.sealed.as_ref()) {
        let overfull = newest_share(inspection).is_some_and(|share| share > 1.0);
        return match sealed.maybe_pages {
            0 if overfull => "build it again: it holds more keys than it was made for".into(),
            0 => nothing,
            pages => format!(
                "restore it from a copy, or build it again from the keys: {} without a solution",
                units::counted(pages, "page")
            ),
        };
    }
    let Some((newest, share)) = inspection.segments.last().zip(newest_share(inspection)) else {
        return nothing;
    };
    let rotates = inspection.rotate_after.is_some();
    if share < NEARLY_FULL || rotates || grows {
        return nothing;
    }
    let overfull = newest.capacity.is_some_and(|capacity| newest.keys.low > capacity as f64);
    let share = units::percent(share);
    match (inspection.generations, inspection.when_full) {
        (Some(_), _) => {
            format!("rotate it, its newest generation is at {share}: bloomfile rotate {file}")
        }
        (None, WhenFull::Refuse) => {
            format!("build a larger one: at {share} of its capacity, it soon refuses new keys")
        }
        _ if overfull => "build a larger one: it holds more keys than it was made for".into(),
        _ => format!("fine as it is; at {share}, so build a larger one before adding more"),
    }
}
