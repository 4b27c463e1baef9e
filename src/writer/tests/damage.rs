//! Damage on top of a crash: refused or reported, never taken for data.

use crate::error::Error;
use crate::file::{Changes, JournalContents, Loaded, PAGE_WORDS, epoch_of, load, read_table};
use crate::format::{
    GroupRecord, JOURNAL_OFFSET, PageEntry, RECORD_BYTES, RECORD_WORDS, Record, State,
};
use crate::geometry::CellKind;
use crate::storage::simulated::{Choices, Image, SimulatedMedium};
use crate::storage::{ReadMedium, Sabotage};
use crate::writer::Engine;

/// How a damage was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noticed {
    /// The file was refused, or nothing that had been promised was affected.
    Refused,
    /// The page was kept and reported: after a power cut it could as well be unsynced adds.
    Unverifiable,
}

/// Damages one page that a crash left exact and sees whether that is noticed; nothing if there was
/// no place for the damage.
pub(super) fn check(
    image: &Image,
    choices: &mut Choices,
    sabotage: Option<Sabotage>,
) -> Result<Option<Noticed>, String> {
    let medium = SimulatedMedium::new(image.clone(), sabotage);
    let loaded = load(&medium).map_err(|error| format!("a sound file was refused: {error}"))?;
    let cells = loaded.superblock.cells;
    let index = choices.below(loaded.slot.segments.len() as u64) as usize;
    let record = &loaded.slot.segments[index];
    let table = read_table(&medium, record)
        .map_err(|error| format!("a sound file was refused: {error}"))?;
    let open = loaded.slot.state == State::Open;
    let mut journal = JournalContents::read(&medium, &loaded.superblock, &loaded.slot)
        .map_err(|error| format!("a sound journal was refused: {error}"))?;
    let changes = if open { journal.changes.swap_remove(index) } else { Changes::default() };
    // In the boot in which a file was written, its journal explains every bit, unless it was full.
    let explained = loaded.slot.boot_id == medium.boot_id() && !journal.full;
    let first = record.extent().data() as usize / 8;
    let exact = |page: usize| {
        let page_words = &image[first + page * PAGE_WORDS..][..PAGE_WORDS];
        let mut words: Vec<u64> = page_words.iter().copied().map(u64::from_le).collect();
        for patch in changes.page(page as u64).before() {
            let word = &mut words[patch.word % PAGE_WORDS];
            *word = patch.apply(*word);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (PageEntry::of(&bytes, cells) == table[page]).then_some(words)
    };
    if open && choices.once_in(3) {
        return check_journal(image, &loaded, explained, choices, sabotage);
    }
    let page = choices.below(table.len() as u64) as usize;
    let Some(words) = exact(page) else { return Ok(None) };
    let mut damaged = image.clone();
    let start = first + page * PAGE_WORDS;
    // A bit that was on at the last checkpoint, and one that was off; the journal changes neither.
    let changing = |word: usize, bit: u64| {
        let mut patches = changes.page(page as u64).before();
        patches.any(|patch| patch.word == page * PAGE_WORDS + word && patch.mask & bit != 0)
    };
    let on = random_bit(choices, |word, bit| words[word] & bit != 0 && !changing(word, bit));
    // One that could be on.
    let usable = |word: usize, bit: u64| {
        let bits = record.geometry.word_bits((page * PAGE_WORDS + word) as u64);
        u64::from(bit.trailing_zeros()) < bits
    };
    let off = random_bit(choices, |word, bit| {
        words[word] & bit == 0 && !changing(word, bit) && usable(word, bit)
    });
    let (Some(on), Some(off)) = (on, off) else { return Ok(None) };
    let kind = choices.below(5);
    if kind != 1 {
        damaged[start + on.0] &= !on.1.to_le();
    }
    if kind == 1 || kind == 2 {
        damaged[start + off.0] |= off.1.to_le();
    }
    if kind == 3 {
        damaged[start..start + PAGE_WORDS].fill(0);
    }
    if kind == 4 {
        // More bits come than go: only what the file was before can tell.
        for (word, bits) in words.iter().enumerate() {
            let free = (0..64).map(|bit| 1u64 << bit).filter(|&bit| {
                bits & bit == 0 && word != on.0 && !changing(word, bit) && usable(word, bit)
            });
            free.for_each(|bit| damaged[start + word] |= bit.to_le());
        }
    }
    let more = PageEntry::of(&bytes_of(&damaged[start..start + PAGE_WORDS]), cells).ones
        > PageEntry::of(&bytes_of(&image[start..start + PAGE_WORDS]), cells).ones;
    let medium = SimulatedMedium::new(damaged.clone(), sabotage);
    let result = Engine::open(medium.clone());
    // Only adds to the newest segment of an open plain file leave bits that nothing explains.
    let open =
        open && cells == CellKind::Plain && index + 1 == loaded.slot.segments.len() && !explained;
    if result.is_err() && medium.view(|view| view.killed())[..] != damaged[..] {
        return Err("a file that was refused was written all the same".into());
    }
    match result {
        // Bits too many may be what an unsynced add looks like: kept and reported.
        Ok(engine) if open && more => match engine.recovery() {
            Some(report) if report.pages_unverifiable > 0 => Ok(Some(Noticed::Unverifiable)),
            report => Err(format!("damage of kind {kind} is not in the report: {report:?}")),
        },
        Err(_) if open && more => Err("bits too many were refused after a power cut".into()),
        Err(error) if error.is_damage() => Ok(Some(Noticed::Refused)),
        Err(error) => Err(format!("damage gave another error: {error}")),
        Ok(_) => Err(format!("damage of kind {kind} in page {page} was taken for data")),
    }
}

/// Words of a file, as its bytes.
fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A word of a page and a bit in it for which `wanted` holds.
fn random_bit(choices: &mut Choices, wanted: impl Fn(usize, u64) -> bool) -> Option<(usize, u64)> {
    let start = choices.below(PAGE_WORDS as u64) as usize;
    let turn = choices.below(64) as u32;
    (0..PAGE_WORDS).map(|at| (start + at) % PAGE_WORDS).find_map(|word| {
        (0..64)
            .map(|bit| 1u64.rotate_left(bit + turn))
            .find(|&bit| wanted(word, bit))
            .map(|bit| (word, bit))
    })
}

/// Flips a bit of one journal record: refused if the record had been synced.
fn check_journal(
    image: &Image,
    loaded: &Loaded,
    explained: bool,
    choices: &mut Choices,
    sabotage: Option<Sabotage>,
) -> Result<Option<Noticed>, String> {
    let medium = SimulatedMedium::new(image.clone(), sabotage);
    let epoch = epoch_of(&medium, &loaded.superblock, &loaded.slot);
    let first = JOURNAL_OFFSET as usize / 8;
    let records = loaded.superblock.journal_bytes as usize / RECORD_BYTES;
    let record = |index: usize| {
        let at = first + index * RECORD_WORDS;
        epoch.decode(index as u32, [u64::from_le(image[at]), u64::from_le(image[at + 1])])
    };
    let valid: Vec<usize> = (0..records).filter(|&index| record(index).is_some()).collect();
    if valid.is_empty() {
        return Ok(None);
    }
    let victim = valid[choices.below(valid.len() as u64) as usize];
    // The last sync record that another record follows is the last one known to have returned.
    let counting = loaded.superblock.cells == CellKind::Counting;
    let is_sync = |index: usize| match record(index) {
        Some(record) if counting => GroupRecord::of(record).is_some_and(|it| it.mark.is_some()),
        record => matches!(record, Some(Record::Sync { .. })),
    };
    let returned = valid.iter().rev().skip(1).find(|&&index| is_sync(index));
    // The records of a counting file say which group they are of, so that the loss of a sync record
    // shows as well.
    let synced = returned.is_some_and(|&sync| victim < sync + usize::from(counting));
    let mut damaged = image.clone();
    let bit = choices.below(128) as usize;
    damaged[first + victim * RECORD_WORDS + bit / 64] ^= (1u64 << (bit % 64)).to_le();
    match Engine::open(SimulatedMedium::new(damaged, sabotage)) {
        Err(Error::Journal { index }) if synced && index == victim as u64 => {
            Ok(Some(Noticed::Refused))
        }
        Err(error) if synced => Err(format!("a damaged record gave another error: {error}")),
        Ok(_) if synced => Err(format!("a hole at record {victim} went unnoticed")),
        Ok(_) => Ok(Some(Noticed::Refused)),
        // The counters of the last group may be in the data, and without it nothing explains them.
        Err(Error::Damaged { .. }) if counting => Ok(Some(Noticed::Refused)),
        // In the same boot nothing else can explain the bits of that record, or of those behind a
        // damaged full record.
        Err(Error::Damaged { .. }) if explained || victim + 1 == records => {
            Ok(Some(Noticed::Refused))
        }
        Err(error) => Err(format!("an unsynced record's loss was refused: {error}")),
    }
}
