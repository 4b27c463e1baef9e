//! The parts of a file that are at hand.
//!
//! What reads files is written against [`ReadMedium`] and does not wait: where bytes are missing it
//! fails, and is started again once they are there. It is pure, so that it comes to the same point.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Step;
use crate::error::{Error, Result};
use crate::storage::{ReadMedium, unpoisoned};

/// Ranges that are this near to one another are fetched as one.
const GAP: u64 = 16 << 10;

/// Bytes that are fetched as one at most.
const MOST: u64 = 1 << 20;

/// Bytes that are fetched beyond what is needed at most.
const MOST_AHEAD: u64 = 16 << 20;

/// The parts of a file that were given.
pub(super) struct Pieces {
    length: u64,
    held: BTreeMap<u64, Vec<u8>>,
    /// What was asked for and not given yet.
    needed: Vec<Range<u64>>,
    /// What was read and is not held.
    missing: Mutex<Option<Range<u64>>>,
}

impl Pieces {
    /// Nothing of a file of this length.
    pub(super) fn new(length: u64) -> Self {
        Pieces { length, held: BTreeMap::new(), needed: Vec::new(), missing: Mutex::new(None) }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Does work that reads these pieces, or says what it takes.
    pub(super) fn run<T>(&mut self, work: impl FnOnce(&Self) -> Result<T>) -> Result<Step<T>> {
        let result = work(self);
        let missing = self.missing.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match missing {
            Some(range) => {
                // Each time it starts from the beginning: with as much again as it has, that is not
                // often.
                let held: usize = self.held.values().map(Vec::len).sum();
                let more = range.start.saturating_add((held as u64).min(MOST_AHEAD));
                Ok(Step::Need(self.need_one(range.start..range.end.max(more))))
            }
            None => result.map(Step::Done),
        }
    }

    /// As [`need`](Self::need), for one range.
    pub(super) fn need_one(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        self.need(std::iter::once(range))
    }

    /// Asks for ranges. Those of them that are at hand are not asked for again.
    pub(super) fn need(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        let end = |range: &Range<u64>| range.end.min(self.length);
        let mut missing: BTreeMap<u64, u64> = BTreeMap::new();
        for range in ranges {
            if let Some(gap) = self.gap(range.start..end(&range)) {
                let last = missing.entry(gap.start).or_default();
                *last = gap.end.max(*last);
            }
        }
        let mut needed: Vec<Range<u64>> = Vec::new();
        for (start, end) in missing {
            let range = start..end;
            match needed.last_mut() {
                Some(last)
                    if range.start <= last.end.saturating_add(GAP)
                        && range.end.max(last.end) - last.start <= MOST =>
                {
                    last.end = last.end.max(range.end);
                }
                _ => needed.push(range),
            }
        }
        self.needed.clone_from(&needed);
        needed
    }

    /// The part of a range from its first byte that is not at hand.
    fn gap(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut at = range.start;
        while at < range.end {
            match self.piece(at) {
                Some(bytes) => at += bytes.len() as u64,
                None => return Some(at..range.end),
            }
        }
        None
    }

    /// What is at hand from an offset on, in one piece.
    fn piece(&self, at: u64) -> Option<&[u8]> {
        let (start, bytes) = self.held.range(..=at).next_back()?;
        bytes.get((at - start) as usize..).filter(|bytes| !bytes.is_empty())
    }

    pub(super) fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        let range = start..start.saturating_add(bytes.len() as u64);
        let Some(at) = self.needed.iter().position(|needed| *needed == range) else {
            let error = io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("there are {} bytes at {start}, which is not what is needed", bytes.len()),
            );
            return Err(Error::Io { action: "read a range of the file", error });
        };
        self.needed.swap_remove(at);
        self.held.insert(start, bytes);
        Ok(())
    }

    /// All bytes of a range, if they are at hand.
    pub(super) fn get(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        self.copy(&mut bytes, range.start).map(|()| bytes)
    }

    fn copy(&self, bytes: &mut [u8], start: u64) -> Option<()> {
        let mut done = 0;
        while done < bytes.len() {
            let piece = self.piece(start + done as u64)?;
            let count = piece.len().min(bytes.len() - done);
            bytes[done..done + count].copy_from_slice(&piece[..count]);
            done += count;
        }
        Some(())
    }

    /// Lets go of pieces that begin at an offset or behind it.
    pub(super) fn forget_from(&mut self, offset: u64) {
        drop(self.held.split_off(&offset));
    }

    /// Lets go of all that was given.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.needed.clear();
    }
}

impl ReadMedium for Pieces {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let range = offset..offset.saturating_add(bytes.len() as u64);
        if range.end > self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.copy(bytes, offset).is_some() {
            return Ok(());
        }
        let mut missing = unpoisoned(&self.missing);
        if missing.is_none() {
            *missing = self.gap(range);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}
