//! Whether a thread of the library's own works for a filter.

use super::Filter;

impl Filter {
    /// Whether the library's own thread writes checkpoints of this filter and prepares its next
    /// segment or generation. It does unless told otherwise here. There is one such thread in a process, for
    /// all filters; it starts when a journal is first three quarters full, and ends with the last filter.
    ///
    /// Without it, checkpoints are the caller's to schedule, by [`checkpoint`](Filter::checkpoint), on
    /// any thread, while adds go on. Where none comes in time and the journal is full, the next sync
    /// writes one and takes as long as that does; a rollover prepares its segment itself.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(100_000).false_positive_rate(0.01).create(&path)?;
    /// filter.set_background(false);
    /// for key in 0..10_000u32 {
    ///     filter.add(key.to_le_bytes())?;
    /// }
    /// filter.sync()?;
    /// filter.checkpoint()?; // when there is little else to do
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn set_background(&self, on: bool) {
        self.engine.set_background(on);
    }
}
