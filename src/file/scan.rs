//! Reading many data pages: checks and counts, on all cores.

use std::ops::Range;
use std::time::Duration;

use super::judge::{PageJudge, Verdict};
use super::load::{Loaded, load, read_table_part};
use super::pages::{FilePages, PAGES_AT_ONCE, Pages};
use super::replay::JournalContents;
use crate::error::{Error, Result, memory};
use crate::format::PageEntry;
use crate::geometry::PAGE_BYTES;
use crate::storage::ReadMedium;
use crate::sync::Task;

/// Pages below which a second thread costs more than it saves.
const PAGES_PER_THREAD: u64 = 2048;

/// Threads beyond which the memory is the limit, and each would only take more buffers.
const MOST_THREADS: u64 = 32;

/// What comparing pages with their table gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageCheck {
    /// Pages that are exactly what the table and the journal say.
    pub(crate) exact: u64,
    /// Pages that hold more ones than table and journal explain, where that is allowed.
    pub(crate) unverifiable: Vec<u64>,
    /// Pages that a writer changed whenever they were looked at.
    pub(crate) busy: Vec<u64>,
    /// Pages that hold something else than what was written.
    pub(crate) damaged: Vec<u64>,
    /// Those of the damaged pages that miss ones.
    pub(crate) lost: Vec<u64>,
}

impl PageCheck {
    fn join(mut self, other: PageCheck) -> PageCheck {
        self.exact += other.exact;
        self.unverifiable.extend(other.unverifiable);
        self.busy.extend(other.busy);
        self.damaged.extend(other.damaged);
        self.lost.extend(other.lost);
        self
    }

    /// An error unless no page is damaged.
    pub(crate) fn refuse_damage(&self, segment: usize) -> Result<()> {
        let Some(&page) = self.damaged.first() else { return Ok(()) };
        let count = self.damaged.len() as u64;
        let lost = self.lost.first() == Some(&page);
        Err(Error::Damaged { count, segment: segment as u32, page, lost })
    }

    /// The pages that are not exact, in order.
    pub(crate) fn doubtful(&self) -> Vec<u64> {
        let mut pages = [&self.unverifiable[..], &self.busy, &self.damaged].concat();
        pages.sort_unstable();
        pages
    }

    /// Puts pages that were taken in any order into theirs.
    pub(crate) fn sort(&mut self) {
        for pages in [&mut self.unverifiable, &mut self.busy, &mut self.damaged, &mut self.lost] {
            pages.sort_unstable();
        }
    }

    /// Notes what a page is, as far as that could be told.
    pub(crate) fn note(&mut self, page: u64, verdict: Option<Verdict>) {
        match verdict {
            None => self.busy.push(page),
            Some(Verdict::Exact) => self.exact += 1,
            Some(Verdict::Unverifiable) => self.unverifiable.push(page),
            Some(Verdict::Damaged { lost }) => {
                self.damaged.push(page);
                if lost {
                    self.lost.push(page);
                }
            }
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
    let worth = units.saturating_mul(pages_each) / PAGES_PER_THREAD;
    // To ask for the cores takes as long as to look at many pages.
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let threads = if worth > 1 { worth.min(cores()).min(MOST_THREADS).min(units) } else { 1 };
    if threads <= 1 {
        return vec![work(0..units)];
    }
    let share = units.div_ceil(threads);
    let work = &work;
    let ranges =
        (0..threads).map(|thread| (thread * share).min(units)..((thread + 1) * share).min(units));
    std::thread::scope(|scope| {
        let running: Vec<_> = ranges.map(|range| Task::start(scope, move || work(range))).collect();
        running.into_iter().map(Task::finish).collect()
    })
}

/// Compares every page with its table entry; `entries` gives those of some pages.
pub(crate) fn check_pages<P: Pages + ?Sized>(
    pages: &P,
    count: u64,
    entries: impl Fn(Range<u64>) -> Result<Vec<PageEntry>> + Sync,
    judge: PageJudge<'_>,
) -> Result<PageCheck> {
    let check_range = |range: Range<u64>| {
        let mut check = PageCheck::default();
        let mut bytes = memory::buffer(PAGES_AT_ONCE.min(count) * PAGE_BYTES, "read data pages")?;
        for first in range.clone().step_by(PAGES_AT_ONCE as usize) {
            let few = first..(first + PAGES_AT_ONCE).min(range.end);
            let bytes = &mut bytes[..((few.end - few.start) * PAGE_BYTES) as usize];
            pages.read(first, bytes)?;
            let table = entries(few.clone())?;
            let bytes = bytes.chunks_exact(PAGE_BYTES as usize);
            for ((page, bytes), expected) in few.zip(bytes).zip(table) {
                check.note(page, Some(judge.judge(page, bytes, expected)));
            }
        }
        Ok(check)
    };
    on_all_cores(count, check_range)
        .into_iter()
        .try_fold(PageCheck::default(), |check, part| Ok(check.join(part?)))
}

/// Checks every page of a segment of a file that others may write. The headers and the journal were
/// read before; `pages` are those of the file, or of a copy that was made since. `live` says that a
/// writer may have had the file then.
///
/// Before a page is called damaged, slots, journal and page are read again: a writer may have come
/// since, and changed them.
pub(crate) fn check_segment<P: Pages + ?Sized>(
    medium: &dyn ReadMedium,
    place: (&Loaded, usize),
    journalled: Option<&JournalContents>,
    live: bool,
    pages: &P,
) -> Result<PageCheck> {
    check_segment_showing(medium, place, journalled, live, pages, false, |_, _| ())
}

/// As [`check_segment`]; shows each page that was read again, with what the journal says in it. With
/// `until_damage`, pages behind the first damage that this finds may be missing in the result.
pub(crate) fn check_segment_showing<P: Pages + ?Sized>(
    medium: &dyn ReadMedium,
    (loaded, index): (&Loaded, usize),
    journalled: Option<&JournalContents>,
    live: bool,
    pages: &P,
    until_damage: bool,
    mut show: impl FnMut(u64, &[u8]),
) -> Result<PageCheck> {
    let Loaded { superblock, slot, .. } = loaded;
    let segment = &slot.segments[index];
    let judge = PageJudge::of(superblock, slot, index, journalled, medium.boot_id());
    let entries = |pages| read_table_part(medium, segment, pages);
    let mut check = check_pages(pages, segment.extent().pages, entries, judge)?;
    // Where the slots are as they were and no writer was there, none has changed more than the
    // journal explains.
    let same_slots = !live && load(medium).is_ok_and(|now| now.signature == loaded.signature);
    let doubtful = check.doubtful();
    if same_slots || doubtful.is_empty() {
        return Ok(check);
    }
    check = PageCheck { exact: check.exact, ..PageCheck::default() };
    for window in doubtful.chunk_by(|first, page| page / WINDOW == first / WINDOW) {
        recheck_pages(medium, segment.offset, window, |page, bytes, verdict| {
            show(page, bytes);
            check.note(page, verdict);
        })?;
        if until_damage && !check.damaged.is_empty() {
            break;
        }
    }
    check.sort();
    Ok(check)
}

/// How often a page that a writer is changing is looked at again, and how long apart.
const LIVE_TRIES: u32 = 500;
/// How often slots are read again that cannot be read: one in the middle of being written soon can.
const TORN_TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// Most pages whose copies are held at once while a writer is changing them. For each window all of
/// the journal is read, which any program can have done that locks a file with many damaged pages.
pub(crate) const WINDOW: u64 = 4096;

/// Judges pages, in ascending order and at most [`WINDOW`] apart, of a segment of a file that a
/// writer may be changing, and hands each over with what the journal says in it.
///
/// A page is copied first and the journal read after it, so that the journal explains every bit
/// the copy can hold, unless a slot was written in between: then it is done again. Without a verdict
/// are pages for which that happened every time. Of a segment that was rotated away nothing is left
/// to be judged.
pub(crate) fn recheck_pages(
    medium: &dyn ReadMedium,
    offset: u64,
    pages: &[u64],
    mut take: impl FnMut(u64, &[u8], Option<Verdict>),
) -> Result<()> {
    let mut open = pages.to_vec();
    let mut copies = vec![0; pages.len() * PAGE_BYTES as usize];
    let mut torn = 0;
    for tries_left in (0..LIVE_TRIES).rev() {
        let (Some(&first), Some(&last)) = (open.first(), open.last()) else { break };
        let loaded = match load(medium) {
            Err(error) if error.is_torn() && torn < TORN_TRIES && tries_left > 0 => {
                torn += 1;
                std::thread::sleep(PAUSE);
                continue;
            }
            loaded => loaded?,
        };
        let Loaded { superblock, slot, .. } = &loaded;
        let listed = slot.segments.iter().position(|segment| segment.offset == offset);
        let Some(index) = listed else { break };
        let segment = &slot.segments[index];
        let table = read_table_part(medium, segment, first..last + 1)?;
        let file = FilePages::new(medium, index, segment.extent());
        for (&page, bytes) in open.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
            file.read(page, bytes)?;
        }
        let journalled = JournalContents::read(medium, superblock, slot)?;
        // A writer marks the file as open before it changes a page.
        let same_slots = load(medium).is_ok_and(|now| now.signature == loaded.signature);
        let judge = PageJudge::of(superblock, slot, index, Some(&journalled), medium.boot_id());
        let mut left = Vec::new();
        for (&page, bytes) in open.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
            let verdict = judge.judge(page, bytes, table[(page - first) as usize]);
            // Not the first time: elsewhere a record may be seen later than the bits it explains.
            let believed = verdict == Verdict::Exact || tries_left + 1 < LIVE_TRIES;
            if tries_left > 0 && !(same_slots && believed) {
                left.push(page);
                continue;
            }
            judge.complete(page, bytes);
            take(page, bytes, same_slots.then_some(verdict));
        }
        open = left;
        if !same_slots {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}
