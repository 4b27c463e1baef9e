//! Damage on top of a crash: refused or reported, never taken for data.

use crate::error::Error;
use crate::file::{Changes, JournalContents, Loaded, PAGE_WORDS, epochs_of, load, read_table};
use crate::format::{MOST_RECORD_WORDS, PageEntry, Record, State};
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

/// Flips a bit of one journal record: refused if a later record shows that it had been synced.
fn check_journal(
    image: &Image,
    loaded: &Loaded,
    explained: bool,
    choices: &mut Choices,
    sabotage: Option<Sabotage>,
) -> Result<Option<Noticed>, String> {
    let medium = SimulatedMedium::new(image.clone(), sabotage);
    let (superblock, slot) = (&loaded.superblock, &loaded.slot);
    let layout = superblock.journal();
    let counting = superblock.cells == CellKind::Counting;
    let words_each = layout.record_bytes() as usize / 8;
    let mut halves = Vec::new();
    for (at, epoch) in epochs_of(&medium, superblock, slot).into_iter().enumerate() {
        let first = layout.half_offset(slot.epoch + at as u64) as usize / 8;
        let record = |index: u64| {
            let mut words = [0; MOST_RECORD_WORDS];
            for (word, found) in words.iter_mut().take(words_each).enumerate() {
                *found = u64::from_le(image[first + index as usize * words_each + word]);
            }
            epoch.decode(index as u32, &words).map(|record| (index, record))
        };
        let valid: Vec<(u64, Record)> = (0..layout.records()).filter_map(record).collect();
        halves.push((first, valid));
    }
    let at = choices.below(2) as usize;
    let (first, valid) = &halves[at];
    if valid.is_empty() {
        return Ok(None);
    }
    let (victim, record) = valid[choices.below(valid.len() as u64) as usize];
    // What is left shows this to have been durable: all in front of the last but one sync record, of
    // what a confirmation names, and of a half that a sync or a confirmation of the next one follows.
    let capacity = layout.capacity();
    let shown = |valid: &[(u64, Record)]| {
        let others = valid.iter().filter(|(index, _)| *index != victim && *index < capacity);
        let mut syncs: Vec<u64> = Vec::new();
        let mut durable = 0;
        for &(index, record) in others {
            match record {
                Record::Sync { .. } => syncs.push(index),
                Record::Note { count } if index > 0 => durable = durable.max(count),
                _ => {}
            }
        }
        let returned = syncs.iter().rev().nth(1).map_or(0, |index| index + 1);
        (durable.max(returned), syncs)
    };
    let (mut durable, syncs) = shown(valid);
    if at == 0 {
        let next = &halves[1].1;
        let follows = next.iter().any(|&(index, record)| match record {
            Record::Sync { .. } => index < capacity,
            Record::Note { .. } => index > 0,
            _ => false,
        });
        let link = next.iter().find_map(|&(index, record)| match record {
            Record::Note { count } if index == 0 => Some(count),
            _ => None,
        });
        if follows {
            durable = durable.max(link.unwrap_or(syncs.last().map_or(0, |index| index + 1)));
        }
    }
    let synced = victim < durable;
    let mut damaged = image.clone();
    let bit = choices.below(64 * words_each as u64) as usize;
    let at_word = first + victim as usize * words_each + bit / 64;
    damaged[at_word] ^= (1u64 << (bit % 64)).to_le();
    let full = Some(victim) == layout.full_record();
    match Engine::open(SimulatedMedium::new(damaged, sabotage)) {
        Err(Error::Journal { .. }) if synced => Ok(Some(Noticed::Refused)),
        Err(error) if synced => Err(format!("a damaged record gave another error: {error}")),
        Ok(_) if synced => Err(format!("a hole at record {victim} went unnoticed: {record:?}")),
        Ok(_) => Ok(Some(Noticed::Refused)),
        // The counters of the last group may be in the data, and without it nothing explains them.
        Err(Error::Damaged { .. }) if counting => Ok(Some(Noticed::Refused)),
        // In the same boot nothing else can explain the bits of that record, or of those behind a
        // damaged full record.
        Err(Error::Damaged { .. }) if explained || full => Ok(Some(Noticed::Refused)),
        Err(error) => Err(format!("an unsynced record's loss was refused: {error}")),
    }
}
