//! What the metadata of a result says of the files it was made from.

use std::borrow::Borrow;

use super::source::Source;
use crate::error::Result;
use crate::format::{Metadata, encode_metadata};

/// First part of every key that is not a user's own.
const PREFIX: &str = "provenance";

/// The metadata of a result.
///
/// Pairs that all inputs have alike are kept. The others are listed for each input, which goes by
/// a number in the order of the uuids: `provenance.2` is the uuid of the second one, and
/// `provenance.2.label` is its pair `label`. `provenance` itself says what was done. A file has
/// little room for pairs: first come those kept, then what was done, the uuids, and the pairs that
/// differ, as far as they fit, and `provenance` says how many of them did not.
pub(super) fn metadata<'a>(
    what: &str,
    sources: &[impl Borrow<Source<'a>>],
    factors: &[u64],
) -> Result<Metadata> {
    let mut inputs: Vec<(String, u64, &Metadata)> = sources
        .iter()
        .map(Borrow::borrow)
        .zip(factors)
        .map(|(source, &factor): (&Source, _)| (source.uuid(), factor, source.metadata()))
        .collect();
    inputs.sort();
    let mut kept = Metadata::new();
    for (key, value) in inputs.first().into_iter().flat_map(|(_, _, metadata)| metadata.iter()) {
        let same = inputs.iter().all(|(_, _, metadata)| metadata.get(key) == Some(value));
        if same && !is_ours(key) {
            kept.insert(key.clone(), value.clone());
        }
    }
    let mut uuids = Vec::new();
    let mut pairs = Vec::new();
    for (number, (uuid, factor, metadata)) in (1..).zip(&inputs) {
        let folded = if *factor == 1 { String::new() } else { format!(", folded by {factor}") };
        uuids.push((format!("{PREFIX}.{number}"), format!("{uuid}{folded}")));
        for (key, value) in metadata.iter().filter(|(key, _)| !kept.contains_key(*key)) {
            pairs.push((format!("{PREFIX}.{number}.{key}"), value.clone()));
        }
    }
    Ok(append_what_fits(what, kept, uuids, pairs))
}

/// Whether a key of an input was put there by an operation.
fn is_ours(key: &str) -> bool {
    key.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Adds as much to `kept` as there is room for.
fn append_what_fits(
    what: &str,
    kept: Metadata,
    uuids: Vec<(String, String)>,
    pairs: Vec<(String, String)>,
) -> Metadata {
    let fits = |metadata: &Metadata| encode_metadata(metadata).is_ok();
    let said = |uuids: usize, pairs: usize| {
        let mut said = what.to_owned();
        for (left_out, things) in [(uuids, "uuids"), (pairs, "pairs")] {
            if left_out > 0 {
                said.push_str(&format!("; {left_out} {things} left out"));
            }
        }
        said
    };
    let mut all = kept.clone();
    // The longest that this can become, to hold its place.
    all.insert(PREFIX.to_owned(), said(uuids.len(), pairs.len()));
    if !fits(&all) {
        return kept;
    }
    let left_out = [uuids, pairs].map(|list| {
        let mut left_out = 0;
        for (key, value) in list {
            all.insert(key.clone(), value);
            if !fits(&all) {
                all.remove(&key);
                left_out += 1;
            }
        }
        left_out
    });
    all.insert(PREFIX.to_owned(), said(left_out[0], left_out[1]));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(count: usize, length: usize) -> Vec<(String, String)> {
        (0..count).map(|at| (format!("{PREFIX}.{at}.{length}"), "v".repeat(length))).collect()
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let all = append_what_fits("union of 5 files", Metadata::new(), pairs(5, 36), Vec::new());
        assert_eq!(all.len(), 6);
        assert_eq!(all[PREFIX], "union of 5 files");
        let long = pairs(3, 1000);
        let all = append_what_fits("union of 3 files", Metadata::new(), long, Vec::new());
        assert_eq!(all.len(), 2);
        assert_eq!(all[PREFIX], "union of 3 files; 2 uuids left out");
        let all = append_what_fits(
            "union of 1000 files",
            Metadata::new(),
            pairs(1000, 36),
            pairs(2, 2000),
        );
        let listed = all.len() - 1;
        assert!(listed > 30);
        let left_out = 1000 - listed;
        let said = format!("union of 1000 files; {left_out} uuids left out; 2 pairs left out");
        assert_eq!(all[PREFIX], said);
        encode_metadata(&all).unwrap();
    }

    #[test]
    fn pairs_that_are_kept_come_first() {
        let kept = Metadata::from([("k".to_owned(), "v".repeat(1900))]);
        assert_eq!(append_what_fits("fold by 2", kept.clone(), pairs(1, 36), Vec::new()), kept);
    }

    #[test]
    fn only_our_own_keys_are_ours() {
        assert!(is_ours("provenance") && is_ours("provenance.1.label"));
        assert!(!is_ours("provenances") && !is_ours("label"));
    }
}
