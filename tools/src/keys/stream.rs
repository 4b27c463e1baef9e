//! Keys from a pipe, a terminal or a device: worked on as they come.

use std::io::{self, Read};
use std::ops::ControlFlow;

use super::{Input, MAX_KEY_BYTES, Piece, Sink};
use crate::failure::Result;

/// What a reader of keys starts with; it grows for longer keys only.
pub(super) const BUFFER_BYTES: usize = 256 << 10;

impl Input<'_> {
    /// Works on whatever each read brings, up to the last separator in it.
    pub(super) fn visit_stream(
        &mut self,
        mut input: impl Read,
        sink: &mut impl Sink,
    ) -> Result<ControlFlow<()>> {
        let mut buffer = vec![0; BUFFER_BYTES];
        // Bytes of a record that has not ended yet.
        let mut begun = 0;
        loop {
            sink.pause()?;
            if begun == buffer.len() {
                if begun >= MAX_KEY_BYTES {
                    return Err(self.too_long());
                }
                buffer.resize(2 * begun, 0);
            }
            let read = match input.read(&mut buffer[begun..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| self.unreadable(&error))?,
            };
            let end = begun + read;
            let separator = self.format.separator();
            let whole = match memchr::memrchr(separator, &buffer[begun..end]) {
                _ if read == 0 && self.takes_unfinished() => end,
                Some(at) => begun + at + 1,
                None => 0,
            };
            let mut piece = Piece::new(&buffer[..whole], self.format);
            let part = sink.work(&mut piece);
            let outcome = piece.outcome();
            let flow = self.take(sink, &buffer[..whole], part, outcome)?;
            if read == 0 || flow.is_break() {
                if let Some(track) = &mut self.track {
                    track.unfinished |= whole < end;
                }
                return Ok(flow);
            }
            buffer.copy_within(whole..end, 0);
            begun = end - whole;
        }
    }
}
