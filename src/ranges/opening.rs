//! Reads and checks headers, journal and page tables (F-30).

use std::mem;
use std::ops::ControlFlow;

use super::file::RangeFile;
use super::pieces::Pieces;
use super::verifying::Verifying;
use super::{Step, Task};
use crate::error::{Error, Result};
use crate::file::{Headers, Snapshot, TableCheck, TableCount};
use crate::format::JOURNAL_OFFSET;
use crate::geometry::PAGE_BYTES;
use crate::hash::Key;
use crate::hash::crc_of;
use crate::plan::Occupancy;
use crate::report::Health;

/// What is read first: headers, and all of a small file.
const FIRST: u64 = 64 << 10;

/// The same for a file that is only asked: headers, and the first record of a journal.
const FIRST_TO_ASK: u64 = 16 << 10;

/// Bytes of a page table that are read at once.
const CHUNK: u64 = 1 << 20;

/// Opens a file: see [`ranges`](super).
///
/// A clean file with a damaged slot is read to its end: all of its pages have to be right then.
pub struct Opening {
    length: u64,
    key: Option<Key>,
    pieces: Pieces,
    stage: Stage,
    /// Page tables are not read as a whole.
    to_ask: bool,
    /// The headers of a first attempt that failed: a writer may have been changing them.
    failed: Option<Vec<u8>>,
}

enum Stage {
    Headers,
    Tables(Box<Tables>),
    /// Every page has to be right.
    Sound(RangeFile, Box<Verifying>),
}

/// The page tables that were read so far.
struct Tables {
    headers: Headers,
    counts: Vec<[Occupancy; 2]>,
    crcs: Vec<Vec<u32>>,
    /// The one that is being read, and how far.
    current: Option<(TableCheck, TableCount, Vec<u32>, u64)>,
}

impl Opening {
    /// Of a file of this length.
    pub fn new(length: u64) -> Self {
        Opening {
            length,
            key: None,
            pieces: Pieces::new(length),
            stage: Stage::Headers,
            to_ask: false,
            failed: None,
        }
    }

    /// As [`new`](Self::new), to be asked and nothing else.
    pub(super) fn to_ask(length: u64) -> Self {
        Opening { to_ask: true, ..Self::new(length) }
    }

    /// The secret of a keyed file. Without it the file is opened and can be inspected and verified,
    /// but not asked; a wrong one, or one for a file that is not keyed, is an error.
    pub fn key(mut self, key: &Key) -> Self {
        self.key = Some(key.clone());
        self
    }

    fn try_step(&mut self) -> Result<Step<RangeFile>> {
        loop {
            match &mut self.stage {
                Stage::Headers => {
                    let first = if self.to_ask { FIRST_TO_ASK } else { FIRST };
                    let needed = self.pieces.need_one(0..first);
                    if !needed.is_empty() {
                        return Ok(Step::Need(needed));
                    }
                    let headers = match self.pieces.run(|pieces| Headers::read(pieces))? {
                        Step::Need(ranges) => return Ok(Step::Need(ranges)),
                        Step::Done(headers) => headers,
                    };
                    if self.key.is_some() {
                        headers.loaded.superblock.hasher(self.key.as_ref())?;
                    }
                    if self.to_ask && !must_prove_itself(headers.health, &headers.loaded) {
                        return Ok(Step::Done(
                            self.finish(headers.with_counts(Vec::new()), Vec::new()),
                        ));
                    }
                    let (counts, crcs, current) = (Vec::new(), Vec::new(), None);
                    self.stage = Stage::Tables(Box::new(Tables { headers, counts, crcs, current }));
                }
                Stage::Tables(tables) => {
                    if let Step::Need(ranges) = tables.step(&mut self.pieces)? {
                        return Ok(Step::Need(ranges));
                    }
                    let Stage::Tables(tables) = mem::replace(&mut self.stage, Stage::Headers)
                    else {
                        unreachable!("it was a moment ago")
                    };
                    let Tables { headers, counts, crcs, .. } = *tables;
                    let snapshot = headers.with_counts(counts);
                    let proof = must_prove_itself(snapshot.health, &snapshot.loaded);
                    let file = self.finish(snapshot, crcs);
                    if !proof {
                        return Ok(Step::Done(file));
                    }
                    let verifying = file.verify();
                    self.stage = Stage::Sound(file, Box::new(verifying));
                }
                Stage::Sound(file, verifying) => {
                    return Ok(match verifying.step_checks()? {
                        Step::Need(ranges) => Step::Need(ranges),
                        Step::Done(checks) => {
                            let mut segments = checks.iter().enumerate();
                            segments.try_for_each(|(at, check)| check.refuse_damage(at))?;
                            Step::Done(file.clone())
                        }
                    });
                }
            }
        }
    }

    fn finish(&mut self, snapshot: Snapshot, crcs: Vec<Vec<u32>>) -> RangeFile {
        let bytes = header_bytes(&self.pieces);
        self.pieces.clear();
        RangeFile::new(self.length, bytes, snapshot, crcs, self.key.take())
    }

    /// A writer that was changing slots and tables while they were read may be the reason for an
    /// error: then all is read once more.
    fn retry(&mut self, error: Error) -> Result<Step<RangeFile>> {
        let torn = error.is_torn() || matches!(error, Error::Journal { .. });
        if !torn || matches!(self.stage, Stage::Sound(..)) {
            return Err(error);
        }
        let headers = header_bytes(&self.pieces);
        if let Some(failed) = &self.failed {
            return Err(if *failed == headers { error } else { Error::Changed });
        }
        self.failed = Some(headers);
        self.pieces.clear();
        self.stage = Stage::Headers;
        self.try_step()
    }
}

impl Task for Opening {
    type Output = RangeFile;

    fn step(&mut self) -> Result<Step<RangeFile>> {
        self.try_step().or_else(|error| self.retry(error))
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        match &mut self.stage {
            Stage::Sound(_, verifying) => verifying.give(start, bytes),
            _ => self.pieces.give(start, bytes),
        }
    }
}

/// A clean slot beside a damaged one has to prove itself: the damaged one may be the newer (F-34).
fn must_prove_itself(health: Health, loaded: &crate::file::Loaded) -> bool {
    health == Health::Clean && loaded.other_slot_damaged
}

/// Superblock and slots, as far as there are any.
pub(super) fn header_bytes(pieces: &Pieces) -> Vec<u8> {
    pieces.get(0..JOURNAL_OFFSET.min(pieces.length())).unwrap_or_default()
}

impl Tables {
    /// Reads the tables of all segments.
    fn step(&mut self, pieces: &mut Pieces) -> Result<Step<()>> {
        let Tables { headers, counts, crcs, current } = self;
        while let Some(segment) = headers.loaded.slot.segments.get(counts.len()) {
            let (check, count, crcs_here, at) = current.get_or_insert_with(|| {
                (TableCheck::new(segment), headers.count(counts.len()), Vec::new(), 0)
            });
            let table = segment.extent().table_range(segment.table);
            while table.start + *at < table.end {
                let start = table.start + *at;
                let range = start..table.end.min(start + CHUNK);
                let needed = pieces.need_one(range.clone());
                if !needed.is_empty() {
                    return Ok(Step::Need(needed));
                }
                let Some(bytes) = pieces.get(range) else { unreachable!("it is there or needed") };
                let mut add = |entry| {
                    count.add(headers, entry);
                    ControlFlow::Continue(())
                };
                let _ = check.update(segment, &bytes, &mut add)?;
                crcs_here.extend(bytes.chunks(PAGE_BYTES as usize).map(crc_of));
                *at += bytes.len() as u64;
                // Headers stay, for when they are compared.
                pieces.forget_from(JOURNAL_OFFSET.max(FIRST));
            }
            if let Some((check, count, crcs_here, _)) = current.take() {
                check.finish(segment)?;
                counts.push(count.finish(headers));
                crcs.push(crcs_here);
            }
        }
        Ok(Step::Done(()))
    }
}
