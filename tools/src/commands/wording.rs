//! What several commands say in the same words.

use std::path::Path;

use bloomfile::Reader;

pub(super) use bloomfile_describe::words::*;

use crate::{output, units};

/// What is said of a new file of which this is the fingerprint of the secret, if it is keyed.
pub(super) fn keyed(fingerprint: Option<&str>) -> String {
    fingerprint.map(|fingerprint| format!("; keyed, fingerprint {fingerprint}")).unwrap_or_default()
}

/// Warns of pages of a sealed filter without a solution, of `pages` that were built.
pub(super) fn warn_of_maybe_pages(path: &Path, maybe_pages: u64, pages: u64) {
    if maybe_pages > 0 {
        output::warn(
            path,
            format_args!(
                "{} of {} got keys that cannot be told apart, and answer \"maybe\" for every key",
                units::counted(maybe_pages, "page"),
                units::count(pages)
            ),
        );
    }
}

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

/// Pages of a file that nothing proves to be what was written: those that hold more than checksums and
/// journal explain, and those that a recovery kept so.
pub(super) fn pages_unverified(reader: &Reader) -> u64 {
    let stats = reader.stats();
    stats.pages_unverifiable.saturating_add(stats.pages_kept_unverified)
}

/// Warns that a "no" of a file is not certain, if it has such pages. Quiet commands do as well: nothing
/// else would tell such a "no" from one that is.
pub(super) fn warn_if_unverified(path: &Path, pages: u64) {
    if pages > 0 {
        output::warn(
            path,
            format_args!(
                "{} cannot be verified: a key that damage took from there counts as absent, so that \
                 a \"no\" is not certain; verify tells more",
                units::counted(pages, "page")
            ),
        );
    }
}
