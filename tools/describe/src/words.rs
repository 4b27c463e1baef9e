//! What several places say of a file in the same words.

use bloomfile::plan::Estimate;
use bloomfile::report::Inspection;
use bloomfile::{CellKind, WhenFull};

use crate::units;

/// What kind of filter it is.
pub fn kind(inspection: &Inspection) -> String {
    let counting = if inspection.kind == CellKind::Counting { "counting " } else { "" };
    let keyed = if inspection.key_fingerprint.is_some() { "keyed " } else { "" };
    match (inspection.kind, inspection.when_full, inspection.generations) {
        (CellKind::Sealed, ..) => format!("{keyed}sealed filter"),
        (_, _, Some(generations)) => {
            format!("{keyed}{counting}rotating Bloom filter of {generations} generations")
        }
        (_, WhenFull::Grow, _) => format!("{keyed}{counting}growing Bloom filter"),
        _ => format!("{keyed}{counting}Bloom filter"),
    }
}

/// What it was made for.
pub fn purpose(inspection: &Inspection) -> String {
    let keys = inspection.capacity.map(|capacity| units::counted(capacity, "key"));
    let rate = inspection.target_rate;
    match (keys, rate) {
        (Some(keys), _) if inspection.generations.is_some() => {
            let rate = rate.map(|rate| format!("; rate of all at most {}", units::percent(rate)));
            format!("{keys} in each generation{}", rate.unwrap_or_default())
        }
        (Some(keys), Some(rate)) => format!("{keys}, rate at most {}", units::percent(rate)),
        (Some(keys), None) => keys,
        _ => "no number of keys in particular".into(),
    }
}

/// How keys are hashed.
pub fn hash(inspection: &Inspection) -> String {
    match &inspection.key_fingerprint {
        Some(fingerprint) => {
            format!("{} under a secret key, fingerprint {fingerprint}", inspection.hash)
        }
        None => format!("{}, seed {}", inspection.hash, inspection.seed),
    }
}

/// How much of the capacity of the segment that takes the adds is used.
pub fn newest_share(inspection: &Inspection) -> Option<f64> {
    let newest = inspection.segments.last()?;
    newest.capacity.map(|capacity| newest.keys.value / capacity as f64)
}

/// What is full when a file of several segments is at capacity.
pub fn full_segments(inspection: &Inspection) -> Option<String> {
    match (inspection.generations, inspection.segments.len()) {
        (Some(generations), _) => Some(format!("all {generations} generations full")),
        (None, 1) => None,
        (None, segments) => Some(format!("all {segments} segments full")),
    }
}

/// What happens when the segment of a filter that takes the adds is full.
pub fn policy(generations: Option<u64>, rotate_after: Option<u64>, when_full: WhenFull) -> String {
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

/// As [`policy`], of a file.
pub fn policy_of(inspection: &Inspection) -> String {
    policy(inspection.generations, inspection.rotate_after, inspection.when_full)
}

/// A number of journal records, as what they are in a file of this kind.
pub fn records(count: u64, kind: CellKind) -> String {
    // A removal has a record as an add has.
    let noun = if kind == CellKind::Counting { "change" } else { "add" };
    units::counted(count, noun)
}

/// A number of things that is rounded to a whole one.
pub fn whole(value: f64) -> String {
    units::count(value.round() as u64)
}

/// An estimated number of keys and its interval, in words.
pub fn keys_estimated(keys: &Estimate) -> String {
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
pub fn crowded_blocks(crowded: u64) -> Option<String> {
    let hold = match crowded {
        0 => return None,
        1 => "holds",
        _ => "hold",
    };
    let blocks = units::counted(crowded, "block");
    Some(format!("{blocks} {hold} more keys than chance brings together"))
}

/// What to do about them.
pub fn crowded_advice(keyed: bool) -> &'static str {
    if keyed {
        "build it again with another secret key: someone who knows this one chose the keys"
    } else {
        "if others choose the keys, build it again with a secret key: bloomfile keygen"
    }
}
