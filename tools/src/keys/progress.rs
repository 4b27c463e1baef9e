//! How far reading is, for those who watch a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Bytes below which reading is over before anyone could look.
const FEWEST_BYTES: u64 = 64 << 20;

/// How far, how fast, and how long it will take.
const PICTURE: &str =
    "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// A bar on standard error, or nothing.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar for this many bytes, if standard error is a terminal and there is something to wait for.
    pub(crate) fn new(bytes: u64, quiet: bool) -> Self {
        if quiet || bytes < FEWEST_BYTES || !std::io::stderr().is_terminal() {
            return Self::none();
        }
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(PICTURE) {
            bar.set_style(style);
        }
        Progress(Some(bar))
    }

    pub(super) fn none() -> Self {
        Progress(None)
    }

    pub(crate) fn reached(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
