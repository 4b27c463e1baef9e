//! Reading many data pages: checks and counts, on all cores.

use std::ops::Range;

use byteorder::{ByteOrder, LittleEndian};

use super::{Journalled, PAGE_WORDS, load, read_table_part};
use crate::error::{Error, Result};
use crate::format::{PageEntry, State};
use crate::geometry::{Geometry, PAGE_BYTES};
use crate::storage::{Medium, Words};

/// Pages below which a second thread costs more than it saves.
const PAGES_PER_THREAD: u64 = 2048;

/// Threads beyond which the memory is the limit, and each would only take more buffers.
const MOST_THREADS: u64 = 32;

/// What some bits of a word are to be: `word`, by its place in the data, takes `value` where `mask`
/// is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) word: usize,
    pub(crate) mask: u64,
    pub(crate) value: u64,
}

impl Patch {
    pub(crate) fn apply(&self, word: u64) -> u64 {
        (word & !self.mask) | self.value
    }
}

/// Patches sorted by word, each word once.
pub(crate) type Patches = [Patch];

/// What comparing pages with their table gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageCheck {
    /// Pages that are exactly what the table and the journal say.
    pub(crate) exact: u64,
    /// Pages that hold more ones than table and journal explain.
    pub(crate) unexplained: Vec<u64>,
    /// Pages that hold something else than what was written.
    pub(crate) damaged: Vec<u64>,
    /// Those of the damaged pages that miss ones.
    pub(crate) lost: Vec<u64>,
}

impl PageCheck {
    fn join(mut self, other: PageCheck) -> PageCheck {
        self.exact += other.exact;
        self.unexplained.extend(other.unexplained);
        self.damaged.extend(other.damaged);
        self.lost.extend(other.lost);
        self
    }

    /// An error unless no page is damaged.
    pub(crate) fn refuse_damage(&self, segment: usize) -> Result<()> {
        let lost = self.lost.first() == self.damaged.first();
        refuse(segment, &self.damaged, lost)
    }

    /// An error unless every page is exact: what a file that was closed in good order must be.
    pub(crate) fn refuse_unless_exact(&self, segment: usize) -> Result<()> {
        self.refuse_damage(segment)?;
        refuse(segment, &self.unexplained, false)
    }

    fn take(&mut self, page: u64, verdict: Verdict) {
        match verdict {
            Verdict::Exact => self.exact += 1,
            Verdict::Unexplained => self.unexplained.push(page),
            Verdict::Damaged { lost } => {
                self.damaged.push(page);
                if lost {
                    self.lost.push(page);
                }
            }
        }
    }
}

fn refuse(segment: usize, pages: &[u64], lost: bool) -> Result<()> {
    match pages.first() {
        None => Ok(()),
        Some(&page) => {
            Err(Error::Damaged { count: pages.len() as u64, segment: segment as u32, page, lost })
        }
    }
}

/// Splits `0..pages` among the cores and joins what they find, in order.
pub(crate) fn on_all_cores<T: Send>(pages: u64, work: impl Fn(Range<u64>) -> T + Sync) -> Vec<T> {
    split_on_all_cores(pages, 1, work)
}

/// As [`on_all_cores`], for `0..units` of which each takes the reading of `pages_each` pages.
pub(crate) fn split_on_all_cores<T: Send>(
    units: u64,
    pages_each: u64,
    work: impl Fn(Range<u64>) -> T + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let worth = units.saturating_mul(pages_each) / PAGES_PER_THREAD;
    let threads = cores.min(MOST_THREADS).min(worth).min(units).max(1);
    if threads == 1 {
        return vec![work(0..units)];
    }
    let share = units.div_ceil(threads);
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let range = (thread * share).min(units)..((thread + 1) * share).min(units);
                scope.spawn(move || work(range))
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// A segment's pages and what they are held against.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    /// The data.
    pub(crate) words: &'a Words,
    /// Where its cells are.
    pub(crate) geometry: &'a Geometry,
    /// Bits of a cell.
    pub(crate) cell_bits: u32,
    /// The table that counts.
    pub(crate) table: &'a [PageEntry],
    /// What turns the data back into what the table describes.
    pub(crate) before: &'a Patches,
}

/// Compares every page, as it was before the journal's changes, with its table entry (F-92, F-93,
/// F-98).
pub(crate) fn check_pages(checked: Checked<'_>) -> PageCheck {
    on_all_cores(checked.table.len() as u64, |pages| check_range(checked, pages))
        .into_iter()
        .fold(PageCheck::default(), PageCheck::join)
}

fn check_range(checked: Checked<'_>, pages: Range<u64>) -> PageCheck {
    let mut check = PageCheck::default();
    let mut bytes = [0; PAGE_BYTES as usize];
    for page in pages {
        checked.words.copy(page as usize * PAGE_WORDS, &mut bytes);
        let patches = page_patches(checked.before, page);
        let expected = checked.table[page as usize];
        let stray = has_stray_bits(checked.geometry, checked.cell_bits, page, &bytes);
        let verdict = match judge(&mut bytes, page, patches, expected, checked.cell_bits) {
            Verdict::Exact | Verdict::Unexplained if stray => Verdict::Damaged { lost: false },
            verdict => verdict,
        };
        check.take(page, verdict);
    }
    check
}

/// Whether a page holds ones where no key can fall, which is always behind its last cell. Whoever
/// counted them would find more ones than cells in the end (F-56).
fn has_stray_bits(geometry: &Geometry, cell_bits: u32, page: u64, bytes: &[u8]) -> bool {
    let first = page * PAGE_WORDS as u64;
    bytes
        .chunks_exact(8)
        .enumerate()
        .rev()
        .map(|(at, word)| {
            let cells = geometry.word_cells(first + at as u64, cell_bits);
            (LittleEndian::read_u64(word), cells * u64::from(cell_bits))
        })
        .take_while(|&(_, bits)| bits < 64)
        .any(|(word, bits)| word >> bits != 0)
}

/// Holds the bytes of a page, which it changes, against its table entry.
pub(crate) fn judge(
    bytes: &mut [u8],
    page: u64,
    patches: &Patches,
    expected: PageEntry,
    cell_bits: u32,
) -> Verdict {
    let start = page as usize * PAGE_WORDS;
    for patch in patches {
        let word = &mut bytes[(patch.word - start) * 8..][..8];
        let value = patch.apply(LittleEndian::read_u64(word));
        LittleEndian::write_u64(word, value);
    }
    let found = PageEntry::of(bytes, cell_bits);
    if found == expected {
        Verdict::Exact
    } else if cell_bits == 1 && found.ones > expected.ones {
        // Bits are only ever turned on, so this may be adds that no record is left of. A page with
        // as many ones as before is the page it was, or it was damaged.
        Verdict::Unexplained
    } else {
        Verdict::Damaged { lost: found.ones < expected.ones }
    }
}

/// How often a page that a writer is changing is looked at again.
const LIVE_TRIES: u32 = 20;

/// Most pages whose copies are held at once while a writer is changing them.
pub(crate) const WINDOW: u64 = 1024;

/// What was found out about one page of a file that may be written meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Exactly what table and journal say.
    Exact,
    /// More ones than they explain: the work of a writer that does not log, or cannot any more.
    Unexplained,
    /// Something else than what was written.
    Damaged {
        /// Ones are missing.
        lost: bool,
    },
}

/// Checks the pages of a segment, known by its offset, of a file that is being written.
pub(crate) fn recheck_pages<M: Medium>(
    medium: &M,
    words: &Words,
    offset: u64,
) -> Result<PageCheck> {
    let mut result = PageCheck::default();
    let pages = (words.len() / PAGE_WORDS) as u64;
    for start in (0..pages).step_by(WINDOW as usize) {
        let window: Vec<u64> = (start..(start + WINDOW).min(pages)).collect();
        settle_pages(medium, words, offset, &window, |page, _, verdict| {
            result.take(page, verdict);
        })?;
    }
    result.damaged.sort_unstable();
    result.lost.sort_unstable();
    Ok(result)
}

/// Judges pages, in ascending order and at most [`WINDOW`] apart, of a segment of a file that a
/// writer may be changing, and hands each over as it was when it was judged.
///
/// A page is copied first and the journal read after it, so that the journal explains every bit
/// the copy can hold, unless a checkpoint came in between: then it is done again. What is still
/// unexplained in the end is the work of a writer whose journal is full. Of a segment that was
/// rotated away meanwhile nothing is left to be judged.
pub(crate) fn settle_pages<M: Medium>(
    medium: &M,
    words: &Words,
    offset: u64,
    pages: &[u64],
    mut take: impl FnMut(u64, &[u8], Verdict),
) -> Result<()> {
    let mut open = pages.to_vec();
    let mut copies = vec![0; pages.len() * PAGE_BYTES as usize];
    for tries_left in (0..LIVE_TRIES).rev() {
        let (Some(&first), Some(&last)) = (open.first(), open.last()) else { break };
        let loaded = load(medium)?;
        let cell_bits = loaded.superblock.cells.bits();
        let listed = loaded.slot.segments.iter().position(|segment| segment.offset == offset);
        let Some(index) = listed else { break };
        let segment = &loaded.slot.segments[index];
        let table = read_table_part(medium, segment, cell_bits, first..last + 1)?;
        for (&page, bytes) in open.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
            words.copy(page as usize * PAGE_WORDS, bytes);
        }
        let journalled = Journalled::read(medium, &loaded.superblock, &loaded.slot)?;
        let settled = load(medium)?.slot.sequence == loaded.slot.sequence;
        // Nobody adds to a file without having marked it as open first.
        let clean = loaded.slot.state == State::Clean;
        let mut left = Vec::new();
        for (&page, bytes) in open.iter().zip(copies.chunks_exact(PAGE_BYTES as usize)) {
            let expected = table[(page - first) as usize];
            let mut restored = [0; PAGE_BYTES as usize];
            restored.copy_from_slice(bytes);
            let patches = page_patches(&journalled.changes[index].before, page);
            let verdict = match judge(&mut restored, page, patches, expected, cell_bits) {
                Verdict::Exact => Verdict::Exact,
                Verdict::Unexplained if settled && clean => Verdict::Damaged { lost: false },
                Verdict::Damaged { lost } if settled => Verdict::Damaged { lost },
                _ if tries_left == 0 || (settled && journalled.full) => Verdict::Unexplained,
                _ => {
                    left.push(page);
                    continue;
                }
            };
            take(page, bytes, verdict);
        }
        open = left;
    }
    Ok(())
}

/// Those of the patches that are on a page.
pub(crate) fn page_patches(patches: &Patches, page: u64) -> &Patches {
    let start = page as usize * PAGE_WORDS;
    let patches = &patches[patches.partition_point(|patch| patch.word < start)..];
    &patches[..patches.partition_point(|patch| patch.word < start + PAGE_WORDS)]
}
