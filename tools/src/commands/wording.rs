//! What several commands say in the same words.

use std::path::Path;

pub(super) use bloomfile_describe::words::*;

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
