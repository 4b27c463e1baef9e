//! The names that files of a publication have, by which those of earlier versions are known again. What
//! else is in the folder belongs to others.

/// Hexadecimal digits of the snapshot's SHA-256 in a name.
const DIGITS: usize = 16;

/// The name of the snapshot of a version.
pub(super) fn snapshot(version: u64, sha256: &str) -> String {
    format!("v{version}-{}.bloom", &sha256[..DIGITS])
}

/// The name of the delta that leads to the version with this snapshot.
pub(super) fn delta(from: u64, to: u64, sha256: &str) -> String {
    format!("v{from}-v{to}-{}.delta", &sha256[..DIGITS])
}

/// Whether a name is one of these.
pub(super) fn is_one(name: &str) -> bool {
    let (stem, versions) = match name.rsplit_once('.') {
        Some((stem, "bloom")) => (stem, 1),
        Some((stem, "delta")) => (stem, 2),
        _ => return false,
    };
    let parts: Vec<&str> = stem.split('-').collect();
    let Some((hash, numbers)) = parts.split_last() else { return false };
    numbers.len() == versions && numbers.iter().all(|it| is_version(it)) && is_hash(hash)
}

fn is_version(text: &str) -> bool {
    let number = text.strip_prefix('v').and_then(|digits| digits.parse::<u64>().ok());
    // No sign, and no zeros in front.
    number.is_some_and(|number| format!("v{number}") == text)
}

fn is_hash(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::{delta, is_one, snapshot};

    #[test]
    fn names_of_others_are_told_from_those_of_versions() {
        let sha256 = "0123456789abcdef".repeat(4);
        for version in [1, 9, 10, u64::MAX] {
            assert!(is_one(&snapshot(version, &sha256)));
            assert!(is_one(&delta(version - 1, version, &sha256)));
        }
        for name in [
            "",
            "v",
            "v1.bloom",
            "v2.delta",
            "v1-v2.delta",
            "v1-0123456789abcde.bloom",
            "v1-0123456789abcdef0.bloom",
            "v1-0123456789ABCDEF.bloom",
            "v1-0123456789abcdeg.bloom",
            "v1-0123456789abcdef.delta",
            "v1-v2-0123456789abcdef.bloom",
            "v1-v2-v3-0123456789abcdef.delta",
            "v01-0123456789abcdef.bloom",
            "v+1-0123456789abcdef.bloom",
            "v-0123456789abcdef.bloom",
            "1-0123456789abcdef.bloom",
            "v99999999999999999999-0123456789abcdef.bloom",
            "v1-0123456789abcdef.bloom.part",
            "v1-0123456789abcdef",
            "über.bloom",
            "v1-0123456789abcdé.bloom",
        ] {
            assert!(!is_one(name), "{name}");
        }
    }
}
