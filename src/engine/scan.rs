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

/// Bits of one word, by the word's place in the data; sorted, each word once.
pub(crate) type WordBits = (usize, u64);

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
    pub(crate) fn refuse_damage(&self) -> Result<()> {
        match self.damaged.first() {
            None => Ok(()),
            Some(&page) => Err(Error::Damaged {
                count: self.damaged.len() as u64,
                segment: 0,
                page,
                lost: self.lost.first() == Some(&page),
            }),
        }
    }

    /// An error unless every page is exact: what a file that was closed in good order must be.
    pub(crate) fn refuse_unless_exact(&self) -> Result<()> {
        self.refuse_damage()?;
        match self.unexplained.first() {
            None => Ok(()),
            Some(&page) => Err(Error::Damaged {
                count: self.unexplained.len() as u64,
                segment: 0,
                page,
                lost: false,
            }),
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

/// Compares every page, without the bits of `news`, with its table entry (F-92, F-93).
pub(crate) fn check_pages(
    geometry: &Geometry,
    words: &Words,
    table: &[PageEntry],
    news: &[WordBits],
) -> PageCheck {
    on_all_cores(table.len() as u64, |pages| check_range(geometry, words, table, news, pages))
        .into_iter()
        .fold(PageCheck::default(), PageCheck::join)
}

fn check_range(
    geometry: &Geometry,
    words: &Words,
    table: &[PageEntry],
    news: &[WordBits],
    pages: Range<u64>,
) -> PageCheck {
    let mut check = PageCheck::default();
    let first_word = pages.start as usize * PAGE_WORDS;
    let mut news = &news[news.partition_point(|&(word, _)| word < first_word)..];
    let mut bytes = [0; PAGE_BYTES as usize];
    for page in pages {
        let start = page as usize * PAGE_WORDS;
        words.copy(start, &mut bytes);
        let here = news.partition_point(|&(word, _)| word < start + PAGE_WORDS);
        clear_bits(&mut bytes, start, &news[..here]);
        news = &news[here..];
        let (expected, found) = (table[page as usize], PageEntry::of(&bytes));
        if has_stray_bits(geometry, page, &bytes) {
            check.damaged.push(page);
        } else if found == expected {
            check.exact += 1;
        } else if found.ones > expected.ones {
            check.unexplained.push(page);
        } else {
            // Bits are only ever turned on: a page with as many ones as before is the page it
            // was, or it was damaged.
            check.damaged.push(page);
            if found.ones < expected.ones {
                check.lost.push(page);
            }
        }
    }
    check
}

/// Whether a page holds ones where no key can fall, which is always behind its last cell. Whoever
/// counted them would find more ones than cells in the end (F-56).
fn has_stray_bits(geometry: &Geometry, page: u64, bytes: &[u8]) -> bool {
    let first = page * PAGE_WORDS as u64;
    bytes
        .chunks_exact(8)
        .enumerate()
        .rev()
        .map(|(at, word)| (LittleEndian::read_u64(word), geometry.word_cells(first + at as u64, 1)))
        .take_while(|&(_, cells)| cells < 64)
        .any(|(word, cells)| word >> cells != 0)
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

/// Checks the pages of a file that is being written.
pub(crate) fn recheck_pages<M: Medium>(medium: &M, words: &Words) -> Result<PageCheck> {
    let mut result = PageCheck::default();
    let pages = (words.len() / PAGE_WORDS) as u64;
    for start in (0..pages).step_by(WINDOW as usize) {
        let window: Vec<u64> = (start..(start + WINDOW).min(pages)).collect();
        settle_pages(medium, words, &window, |page, _, verdict| match verdict {
            Verdict::Exact => result.exact += 1,
            Verdict::Unexplained => result.unexplained.push(page),
            Verdict::Damaged { lost } => {
                result.damaged.push(page);
                if lost {
                    result.lost.push(page);
                }
            }
        })?;
    }
    result.damaged.sort_unstable();
    result.lost.sort_unstable();
    Ok(result)
}

/// Judges pages, in ascending order and at most [`WINDOW`] apart, of a file that a writer may be
/// changing, and hands each over as it was when it was judged.
///
/// A page is copied first and the journal read after it, so that the journal explains every bit
/// the copy can hold, unless a checkpoint came in between: then it is done again. What is still
/// unexplained in the end is the work of a writer whose journal is full.
pub(crate) fn settle_pages<M: Medium>(
    medium: &M,
    words: &Words,
    pages: &[u64],
    mut take: impl FnMut(u64, &[u8], Verdict),
) -> Result<()> {
    let mut open = pages.to_vec();
    let mut copies = vec![0; pages.len() * PAGE_BYTES as usize];
    for tries_left in (0..LIVE_TRIES).rev() {
        let (Some(&first), Some(&last)) = (open.first(), open.last()) else { break };
        let before = load(medium)?;
        let segment = &before.slot.segments[0];
        let cell_bits = before.superblock.cells.bits();
        let table = read_table_part(medium, segment, cell_bits, first..last + 1)?;
        for (&page, bytes) in open.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
            words.copy(page as usize * PAGE_WORDS, bytes);
        }
        let journalled = Journalled::read(medium, &before.superblock, &before.slot)?;
        let settled = load(medium)?.slot.sequence == before.slot.sequence;
        // Nobody adds to a file without having marked it as open first.
        let clean = before.slot.state == State::Clean;
        let mut left = Vec::new();
        for (&page, bytes) in open.iter().zip(copies.chunks_exact(PAGE_BYTES as usize)) {
            let expected = table[(page - first) as usize];
            let mut explained = [0; PAGE_BYTES as usize];
            explained.copy_from_slice(bytes);
            let news = page_news(&journalled.news, page);
            clear_bits(&mut explained, page as usize * PAGE_WORDS, news);
            let found = PageEntry::of(&explained);
            let verdict = if found == expected {
                Verdict::Exact
            } else if settled && (clean || found.ones <= expected.ones) {
                Verdict::Damaged { lost: found.ones < expected.ones }
            } else if tries_left == 0 || (settled && journalled.full) {
                Verdict::Unexplained
            } else {
                left.push(page);
                continue;
            };
            take(page, bytes, verdict);
        }
        open = left;
    }
    Ok(())
}

/// Those of the journal's bits that are on a page.
pub(crate) fn page_news(news: &[WordBits], page: u64) -> &[WordBits] {
    let start = page as usize * PAGE_WORDS;
    let news = &news[news.partition_point(|&(word, _)| word < start)..];
    &news[..news.partition_point(|&(word, _)| word < start + PAGE_WORDS)]
}

/// Turns bits off in the bytes of the page that starts at word `start`.
pub(crate) fn clear_bits(bytes: &mut [u8], start: usize, bits: &[WordBits]) {
    for &(word, bits) in bits {
        let at = (word - start) * 8;
        for (byte, off) in bytes[at..at + 8].iter_mut().zip(bits.to_le_bytes()) {
            *byte &= !off;
        }
    }
}
