//! A file byte range by byte range, in the words of `format-spec.md`; damaged files too.

mod headers;
mod journal;
mod segments;

use std::ops::{ControlFlow, Range};
#[cfg(feature = "files")]
use std::path::Path;

use super::Verification;
use crate::error::{Error, Result};
use crate::file::{PAUSE, SlotSignature, TRIES, is_locked, signature};
use crate::format::{CRC_OFFSET, JOURNAL_OFFSET, MAX_JOURNAL_BYTES, SLOT_OFFSETS, Slot, recognise};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::hash::crc_of;
#[cfg(feature = "files")]
use crate::storage::open_to_read;
use crate::storage::{Bytes, ReadMedium};

/// How much is said of what repeats: table entries, journal records, data pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Neighbours of the same meaning are told together.
    Summary,
    /// Each one by itself.
    Everything,
}

/// What a range of bytes is; made by [`explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explained {
    /// Offsets in the file.
    pub range: Range<u64>,
    /// The structure it belongs to, and whether that one counts.
    pub structure: String,
    /// The field's name in `format-spec.md`.
    pub field: String,
    /// What it holds.
    pub value: String,
    /// What that means, and what is wrong with it if anything is.
    pub note: String,
}

/// Why the walk over the file ended before its end.
enum Stop {
    /// The visitor broke it off.
    Enough,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

type Walk<T = ()> = std::result::Result<T, Stop>;

/// Tells what every byte of a file is, from the first to the last, without a gap.
///
/// Damaged files are explained as well: what their headers still say is taken for what it is
/// worth, and what is wrong is said where it is wrong. Only a file that is something else is an
/// error. All data pages are read, and held against their checksums.
///
/// ```
/// use std::ops::ControlFlow;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?.close()?;
/// use bloomfile::report::{Detail, explain};
///
/// let mut end = 0;
/// explain(&path, Detail::Summary, |explained| {
///     assert_eq!(explained.range.start, end);
///     end = explained.range.end;
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(end, std::fs::metadata(&path).unwrap().len());
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn explain(
    path: impl AsRef<Path>,
    detail: Detail,
    mut visit: impl FnMut(Explained) -> ControlFlow<()>,
) -> Result<()> {
    let path = path.as_ref();
    let mut explain = || explain_medium(&open_to_read(path)?, detail, DataPages::Read, &mut visit);
    explain().map_err(|error| error.at(path))
}

/// As [`explain`], for a file whose bytes are in memory.
pub fn explain_bytes(
    bytes: impl AsRef<[u8]>,
    detail: Detail,
    mut visit: impl FnMut(Explained) -> ControlFlow<()>,
) -> Result<()> {
    explain_medium(&Bytes(bytes.as_ref()), detail, DataPages::Read, &mut visit)
}

/// What is said of data pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DataPages<'a> {
    /// They are read, and held against their entries.
    Read,
    /// They were checked before, if at all: they are not read.
    Known(Option<&'a Verification>),
}

/// Whether writers may change what is explained: bytes in memory stay as they are, and where there is
/// nothing else (a browser), what asks for it costs space.
const CHANGES: bool = cfg!(feature = "files");

pub(crate) fn explain_medium(
    medium: &dyn ReadMedium,
    detail: Detail,
    data: DataPages<'_>,
    visit: &mut dyn FnMut(Explained) -> ControlFlow<()>,
) -> Result<()> {
    let (length, signature) = (length_of(medium)?, signature(medium).ok());
    let cells = CellKind::Plain;
    let mut explainer = Explainer { medium, length, detail, data, signature, cells, visit };
    match explainer.walk() {
        Ok(()) | Err(Stop::Enough) => Ok(()),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// A walk over a file.
struct Explainer<'a> {
    medium: &'a dyn ReadMedium,
    length: u64,
    detail: Detail,
    data: DataPages<'a>,
    /// That of the slots as they were read; `None` where the file is too short for it.
    signature: Option<SlotSignature>,
    /// Bits or counters; known once the superblock was read.
    cells: CellKind,
    visit: &'a mut dyn FnMut(Explained) -> ControlFlow<()>,
}

impl Explainer<'_> {
    fn walk(&mut self) -> Walk {
        let superblock = self.read(0)?;
        let slots = self.read_slots()?;
        // A slot shows what the file was when the first bytes do not.
        if let Err(error) = recognise(&superblock[..self.length.min(4096) as usize])
            && !slots.iter().any(|bytes| headers::has_slot_magic(bytes))
        {
            return Err(error.into());
        }
        let parameters = self.superblock(&superblock)?;
        self.cells = parameters.cells;
        let slots = self.slots(&slots, &parameters)?;
        let end = match &slots.counting {
            Some(slot) => {
                let base = first_offset(slot).max(JOURNAL_OFFSET);
                let end = base.min(JOURNAL_OFFSET + MAX_JOURNAL_BYTES);
                self.journal(end, &slots)?;
                let note = "wrong: no journal is so long, and nothing stands behind it (F-3, F-17)";
                self.tell(end..base, "behind the journal", "all", "anything", note)?;
                self.segments(slot, &parameters)?
            }
            None => {
                let base = JOURNAL_OFFSET + parameters.journal_bytes;
                self.journal(base, &slots)?;
                let note = "page tables and data; both slots are damaged, so that it is not known \
                            where each begins";
                self.tell(base..self.length, "segments", "all", "cannot be told apart", note)?;
                self.length.max(base)
            }
        };
        self.tail(end, parameters.growing)
    }

    /// What lies behind the end that the headers state, or is missing before it.
    fn tail(&mut self, end: u64, growing: bool) -> Walk {
        if end > self.length {
            let value = format!("{} bytes are missing", end - self.length);
            let note = "the file was cut short: its headers say that it is longer (F-29)";
            return self.show(Explained {
                range: self.length..self.length,
                structure: "end of file".into(),
                field: "length".into(),
                value,
                note: note.into(),
            });
        }
        let note = if growing {
            "a growth that did not finish: ignored (F-29)"
        } else if self.cells == CellKind::Counting {
            "room for records that the journal had none for (F-29, F-79)"
        } else {
            "wrong: nothing may follow the last segment (F-29)"
        };
        let value = format!("{} bytes", self.length - end);
        self.tell(end..self.length, "behind the last segment", "all", value, note)
    }

    /// Explains a range, or as much of it as is in the file.
    fn tell(
        &mut self,
        range: Range<u64>,
        structure: impl Into<String>,
        field: impl Into<String>,
        value: impl Into<String>,
        note: impl Into<String>,
    ) -> Walk {
        if range.start >= self.length.min(range.end) {
            return Ok(());
        }
        let mut note = note.into();
        if range.end > self.length {
            note.push_str("; cut short by the end of the file");
        }
        self.show(Explained {
            range: range.start..range.end.min(self.length),
            structure: structure.into(),
            field: field.into(),
            value: value.into(),
            note,
        })
    }

    fn show(&mut self, explained: Explained) -> Walk {
        match (self.visit)(explained) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Enough),
        }
    }

    /// Both slots, and a length that has all that they list. One that a writer is in the middle of
    /// writing looks damaged: they are read again then.
    fn read_slots(&mut self) -> Walk<[Vec<u8>; 2]> {
        for tries_left in (0..TRIES).rev() {
            let slots = [self.read(SLOT_OFFSETS[0])?, self.read(SLOT_OFFSETS[1])?];
            self.length = length_of(self.medium)?;
            let whole = slots
                .iter()
                .all(|slot| slot[CRC_OFFSET..] == crc_of(&slot[..CRC_OFFSET]).to_le_bytes());
            let live = !whole && is_locked(self.medium)?;
            let now = signature(self.medium).ok();
            if !CHANGES || now == self.signature && !live || tries_left == 0 {
                return Ok(slots);
            }
            self.signature = now;
            if live {
                std::thread::sleep(PAUSE);
            }
        }
        unreachable!("the last try returns")
    }

    /// Whether a slot was written since the slots were read: what was read after them may be what the
    /// new one describes.
    fn is_overtaken(&self) -> bool {
        CHANGES && signature(self.medium).ok() != self.signature
    }

    /// A header page; zeros where the file has ended.
    fn read(&self, offset: u64) -> Walk<Vec<u8>> {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        self.read_into(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// As much of `bytes` as the file has from `offset`; the rest stays as it is.
    fn read_into(&self, bytes: &mut [u8], offset: u64) -> Walk<usize> {
        let there = (bytes.len() as u64).min(self.length.saturating_sub(offset)) as usize;
        self.medium.read_at(&mut bytes[..there], offset).map_err(Error::io("read the file"))?;
        Ok(there)
    }
}

fn length_of(medium: &dyn ReadMedium) -> Result<u64> {
    medium.length().map_err(Error::io("tell the length of the file"))
}

/// Where the first segment lies.
fn first_offset(slot: &Slot) -> u64 {
    slot.segments.iter().map(|segment| segment.offset).min().unwrap_or(JOURNAL_OFFSET)
}

/// `0–7`, or `0` for one.
fn span(first: u64, count: u64) -> String {
    match count {
        1 => first.to_string(),
        _ => format!("{first}–{}", first + count - 1),
    }
}
