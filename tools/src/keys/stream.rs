//! Keys from a pipe, a terminal or a device, and CSV: worked on as they come.

use std::io::{self, Read};
use std::ops::ControlFlow;

use super::{Input, MAX_KEY_BYTES, Piece, Progress, Sink};
use crate::failure::Result;

/// What a reader of keys starts with; it grows for longer keys only.
pub(super) const BUFFER_BYTES: usize = 256 << 10;

impl Input<'_> {
    /// Works on whatever each read brings, up to the last record that has ended in it.
    pub(super) fn visit_stream(
        &mut self,
        mut input: impl Read,
        progress: &Progress,
        sink: &mut impl Sink,
    ) -> Result<ControlFlow<()>> {
        let mut buffer = vec![0; BUFFER_BYTES];
        // Bytes of a record that has not ended yet.
        let mut held = 0;
        let mut total = 0;
        let mut at_beginning = self.format.has_beginning();
        loop {
            sink.pause()?;
            progress.reached(total);
            if held == buffer.len() {
                if held >= MAX_KEY_BYTES {
                    return Err(self.too_long());
                }
                buffer.resize(2 * held, 0);
            }
            let read = match input.read(&mut buffer[held..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| self.unreadable(&error))?,
            };
            total += read as u64;
            let (end, is_end) = (held + read, read == 0);
            let mut start = 0;
            if at_beginning {
                let Some(length) = self.begin(&buffer[..end], is_end)? else {
                    held = end;
                    continue;
                };
                (start, at_beginning) = (length, false);
            }
            // What was held has no separator in it.
            let new = start.max(held);
            let ended = match memchr::memrchr(self.format.separator, &buffer[new..end]) {
                _ if self.format.is_csv() || is_end && self.takes_unfinished() => end,
                Some(last) => new + last + 1,
                None => start,
            };
            let mut piece = Piece::new(&buffer[start..ended], &self.format, is_end);
            let output = sink.work(&mut piece);
            let outcome = piece.outcome();
            // Of CSV only reading tells where the last record that has ended does.
            let ended = if self.format.is_csv() { start + piece.consumed() } else { ended };
            let flow = self.accept(sink, &buffer[start..ended], output, outcome)?;
            if is_end || flow.is_break() {
                if let Some(tracker) = &mut self.tracker {
                    tracker.unfinished |= ended < end;
                }
                return Ok(flow);
            }
            buffer.copy_within(ended..end, 0);
            held = end - ended;
        }
    }
}
