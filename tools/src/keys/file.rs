//! Keys from a regular file: read in pieces, worked on by all cores.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::{ControlFlow, Range};
use std::sync::{Mutex, PoisonError};

use super::{Input, MAX_KEY_BYTES, Piece, Progress, Sink};
use crate::failure::Result;
use crate::platform;

/// Bytes of a piece: long enough that starting a thread for it does not count, and short enough that
/// a piece for each core is little memory.
const PIECE_BYTES: usize = 1 << 19;

/// How much is read at once to find the end of a piece's last record.
const TAIL_BYTES: usize = 64 << 10;

impl Input<'_> {
    /// Visits the keys of a file from `start` on.
    pub(super) fn visit_file(
        &mut self,
        file: &File,
        start: u64,
        sink: &mut impl Sink,
    ) -> Result<ControlFlow<()>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        self.visit_file_in(file, start, (threads, PIECE_BYTES), sink)
    }

    /// The same on a number of threads, with the length of the pieces.
    pub(super) fn visit_file_in(
        &mut self,
        mut file: &File,
        mut start: u64,
        (threads, piece): (usize, usize),
        sink: &mut impl Sink,
    ) -> Result<ControlFlow<()>> {
        let length = file.metadata().map_err(|error| self.unreadable(&error))?.len();
        let progress = Progress::new(length.saturating_sub(start), self.quiet);
        // Where a record of CSV ends, only reading all before it tells. A file may be empty, or hide
        // its length, as those of /proc do.
        if self.format.is_csv() || length <= start {
            file.seek(SeekFrom::Start(start)).map_err(|error| self.unreadable(&error))?;
            return self.visit_stream(file, &progress, sink);
        }
        if self.format.has_beginning() {
            start += self.begin_file(file, start)?;
        }
        self.visit_pieces(file, start, (threads, piece), &progress, sink)
    }

    /// Passes over what stands in front of the first key; its length.
    fn begin_file(&mut self, file: &File, start: u64) -> Result<u64> {
        let (mut buffer, mut end) = (Vec::new(), 0);
        loop {
            let wanted = end + TAIL_BYTES;
            let read = read_to(file, start + end as u64, &mut buffer, end, wanted);
            end = read.map_err(|error| self.unreadable(&error))?;
            if let Some(length) = self.begin(&buffer[..end], end < wanted)? {
                return Ok(length as u64);
            }
            if end > MAX_KEY_BYTES {
                return Err(self.too_long());
            }
        }
    }

    /// Visits the file in rounds of `threads` pieces: each is read and worked on by a thread, then
    /// what they gave is accepted in order.
    fn visit_pieces<S: Sink>(
        &mut self,
        file: &File,
        start: u64,
        (threads, piece): (usize, usize),
        progress: &Progress,
        sink: &mut S,
    ) -> Result<ControlFlow<()>> {
        let length = file.metadata().map_err(|error| self.unreadable(&error))?.len();
        let mut buffers = vec![Vec::new(); threads];
        let mut at = start;
        while at < length {
            let ranges = (at..length).step_by(piece).take(threads);
            let ranges: Vec<_> = ranges.map(|at| at..length.min(at + piece as u64)).collect();
            at = ranges.last().map_or(length, |range| range.end);
            let (format, takes_unfinished) = (&self.format, self.takes_unfinished());
            let worker = &*sink;
            let outputs = on_threads(ranges.into_iter().zip(&mut buffers), |(range, buffer)| {
                let bytes = read_piece(file, start, range, format.separator, buffer)?;
                let all = &buffer[bytes.clone()];
                let ended = match memchr::memrchr(format.separator, all) {
                    _ if takes_unfinished => all,
                    Some(last) => &all[..last + 1],
                    None => &[],
                };
                let mut piece = Piece::new(ended, format, false);
                let output = worker.work(&mut piece);
                let unfinished = ended.len() < all.len();
                let bytes = bytes.start..bytes.start + ended.len();
                Ok((output, piece.outcome(), bytes, unfinished))
            });
            for (output, buffer) in outputs.into_iter().zip(&buffers) {
                let output = output.map_err(|error: io::Error| match error.kind() {
                    io::ErrorKind::FileTooLarge => self.too_long(),
                    _ => self.unreadable(&error),
                })?;
                let (output, outcome, bytes, unfinished) = output;
                if let Some(tracker) = &mut self.tracker {
                    tracker.unfinished |= unfinished;
                }
                let flow = self.accept(sink, &buffer[bytes], output, outcome)?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            sink.pause()?;
            progress.reached(at - start);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Does tasks on a thread each, as far as there are threads to be had; this one helps.
fn on_threads<T: Send, R: Send>(
    tasks: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let (most, _) = tasks.size_hint();
    let tasks = Mutex::new(tasks.enumerate());
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut done = Vec::new();
        while let Some((number, task)) = next() {
            done.push((number, work(task)));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let helpers: Vec<_> = (1..most).map_while(spawn).collect();
        let mut done = run();
        for helper in helpers {
            done.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Reads the records that start within `range`, whole; where they are in the buffer.
///
/// The byte before the range tells whether a record starts with it; the last record may go on
/// beyond it.
fn read_piece(
    file: &File,
    start: u64,
    range: Range<u64>,
    separator: u8,
    buffer: &mut Vec<u8>,
) -> io::Result<Range<usize>> {
    let before = usize::from(range.start > start);
    let wanted = (range.end - range.start) as usize + before;
    let mut end = read_to(file, range.start - before as u64, buffer, 0, wanted)?;
    let first = match before {
        0 => 0,
        _ => match memchr::memchr(separator, &buffer[..end]) {
            Some(at) => at + 1,
            None => return Ok(0..0),
        },
    };
    // A separator in the last byte ends the last record that starts here.
    if first >= wanted || end < wanted {
        return Ok(first.min(end)..end);
    }
    let mut searched = end - 1;
    loop {
        if let Some(at) = memchr::memchr(separator, &buffer[searched..end]) {
            return Ok(first..searched + at + 1);
        }
        if end - first > MAX_KEY_BYTES + wanted {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        searched = end;
        let offset = range.start - before as u64 + end as u64;
        end = read_to(file, offset, buffer, end, end + TAIL_BYTES)?;
        if end == searched {
            return Ok(first..end);
        }
    }
}

/// Fills the buffer from `from` to `to` as far as the file goes; where that is.
fn read_to(
    file: &File,
    offset: u64,
    buffer: &mut Vec<u8>,
    from: usize,
    to: usize,
) -> io::Result<usize> {
    if buffer.len() < to {
        buffer.resize(to, 0);
    }
    Ok(from + read_most_at(file, &mut buffer[from..to], offset)?)
}

/// Fills `bytes` from `offset`; an end before that is an error.
pub(super) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let read = read_most_at(file, bytes, offset)?;
    if read < bytes.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Fills `bytes` from `offset` as far as the file goes; how many that are.
fn read_most_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match platform::read_at(file, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
