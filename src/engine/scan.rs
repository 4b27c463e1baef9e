//! Reading many data pages: checks and counts, on all cores.

use std::ops::Range;

use super::{Journalled, PAGE_WORDS, load, read_table};
use crate::error::{Error, Result};
use crate::format::PageEntry;
use crate::geometry::PAGE_BYTES;
use crate::storage::{Medium, Words};

/// Pages below which a second thread costs more than it saves.
const PAGES_PER_THREAD: u64 = 2048;

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
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let threads = cores.min(pages / PAGES_PER_THREAD).max(1);
    if threads == 1 {
        return vec![work(0..pages)];
    }
    let share = pages.div_ceil(threads);
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let range = thread * share..((thread + 1) * share).min(pages);
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
pub(crate) fn check_pages(words: &Words, table: &[PageEntry], news: &[WordBits]) -> PageCheck {
    on_all_cores(table.len() as u64, |pages| check_range(words, table, news, pages))
        .into_iter()
        .fold(PageCheck::default(), PageCheck::join)
}

fn check_range(
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
        if found == expected {
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

/// How often a page that a writer is changing is looked at again.
const LIVE_TRIES: u32 = 20;

/// Checks the pages of a file that is being written.
///
/// A page is copied first and the journal read after it, so that the journal explains every bit
/// the copy can hold, unless a checkpoint came in between: then it is done again. What is still
/// unexplained in the end is the work of a writer whose journal is full.
pub(crate) fn recheck_pages<M: Medium>(medium: &M, words: &Words) -> Result<PageCheck> {
    let mut result = PageCheck::default();
    let mut open: Option<Vec<u64>> = None;
    for _ in 0..LIVE_TRIES {
        let before = load(medium)?;
        let segment = &before.slot.segments[0];
        let Ok(table) = read_table(medium, segment, before.superblock.cells.bits()) else {
            continue;
        };
        let pages = open.take().unwrap_or_else(|| (0..table.len() as u64).collect());
        let mut left = Vec::new();
        // Bounded copies: a few thousand pages, then the journal, then judgement.
        for pages in pages.chunks(PAGES_PER_THREAD as usize) {
            let mut copies = vec![0; pages.len() * PAGE_BYTES as usize];
            for (&page, bytes) in pages.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
                words.copy(page as usize * PAGE_WORDS, bytes);
            }
            let journalled = Journalled::read(medium, &before.superblock, &before.slot)?;
            let settled = load(medium)?.slot.sequence == before.slot.sequence;
            for (&page, bytes) in pages.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
                let start = page as usize * PAGE_WORDS;
                let from = journalled.news.partition_point(|&(word, _)| word < start);
                let news = &journalled.news[from..];
                let here = news.partition_point(|&(word, _)| word < start + PAGE_WORDS);
                clear_bits(bytes, start, &news[..here]);
                match (PageEntry::of(bytes), table[page as usize]) {
                    (found, expected) if found == expected => result.exact += 1,
                    (found, expected) if settled && found.ones <= expected.ones => {
                        result.damaged.push(page);
                    }
                    _ => left.push(page),
                }
            }
        }
        open = Some(left);
        if open.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
    }
    result.unexplained = open.unwrap_or_default();
    Ok(result)
}

/// Turns bits off in the bytes of the page that starts at word `start`.
fn clear_bits(bytes: &mut [u8], start: usize, bits: &[WordBits]) {
    for &(word, bits) in bits {
        let at = (word - start) * 8;
        for (byte, off) in bytes[at..at + 8].iter_mut().zip(bits.to_le_bytes()) {
            *byte &= !off;
        }
    }
}
