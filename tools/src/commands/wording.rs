//! What several commands say in the same words.

use std::path::Path;

use bloomfile::plan::Estimate;
use bloomfile::{CellKind, WhenFull};

use crate::{output, units};

/// Warns when a filter holds more keys than it was made for, and says what to do about it.
pub(super) fn warn_if_over_capacity(path: &Path, adds: u64, capacity: Option<u64>, remedy: &str) {
    if let Some(capacity) = capacity.filter(|&capacity| adds > capacity) {
        output::warn(
            path,
            format_args!(
                "holds {}, made for {}: its rate is higher than planned; {remedy}",
                units::counted(adds, "key"),
                units::count(capacity)
            ),
        );
    }
}

/// What happens when the segment of a filter that takes the adds is full.
pub(super) fn policy(
    generations: Option<u64>,
    rotate_after: Option<u64>,
    when_full: WhenFull,
) -> String {
    match (generations, rotate_after, when_full) {
        (Some(_), Some(adds), _) => {
            format!("rotates after {}: the oldest generation goes", units::counted(adds, "add"))
        }
        (Some(_), None, _) => "takes more keys, at a higher rate, until it is rotated".into(),
        (.., WhenFull::Grow) => "grows: a larger segment is appended".into(),
        (.., WhenFull::Refuse) => "refuses new keys".into(),
        _ => "takes more keys, at a higher rate".into(),
    }
}

/// A number of journal records, as what they are in a file of this kind.
pub(super) fn records(count: u64, kind: CellKind) -> String {
    // A removal has a record as an add has.
    let noun = if kind == CellKind::Counting { "change" } else { "add" };
    units::counted(count, noun)
}

/// A number of things that is rounded to a whole one.
pub(super) fn whole(value: f64) -> String {
    units::count(value.round() as u64)
}

/// An estimated number of keys and its interval, in words.
pub(super) fn keys_estimated(keys: &Estimate) -> String {
    match keys {
        Estimate { value: 0.0, .. } => "nothing".into(),
        Estimate { low, high, .. } if high.is_infinite() => {
            format!("{} keys or more: too full to tell", whole(*low))
        }
        Estimate { value, low, high } if whole(*low) == whole(*high) => {
            format!("about {}", units::counted(value.round() as u64, "key"))
        }
        Estimate { value, low, high } => {
            format!("about {} keys ({} to {})", whole(*value), whole(*low), whole(*high))
        }
    }
}

/// What is said of blocks that hold too many keys.
pub(super) fn crowded_blocks(crowded: u64) -> Option<String> {
    let hold = match crowded {
        0 => return None,
        1 => "holds",
        _ => "hold",
    };
    let blocks = units::counted(crowded, "block");
    Some(format!("{blocks} {hold} more keys than chance brings together"))
}

/// What to do about them.
pub(super) fn crowded_advice(keyed: bool) -> &'static str {
    if keyed {
        "build it again with another secret key: someone who knows this one chose the keys"
    } else {
        "if others choose the keys, build it again with a secret key: bloomfile keygen"
    }
}
