//! What every way of opening a file begins with: superblock, slots, page table, and no data.

use std::ops::{ControlFlow, Range};

use byteorder::{ByteOrder, LittleEndian};

use crate::error::{Error, Result, memory};
use crate::format::{
    ENTRY_BYTES, Epoch, JOURNAL_OFFSET, MOST_RECORD_WORDS, PageEntry, SLOT_BYTES, SLOT_OFFSETS,
    SLOT_SEQUENCE_OFFSET, SUPERBLOCK_BYTES, SegmentRecord, Slot, Superblock, recognise,
    validate_extents,
};
use crate::geometry::{CellKind, MAX_ROWS, PAGE_BYTES};
use crate::hash::Crc;
use crate::hash::{Hasher, Key};
use crate::storage::ReadMedium;

/// The headers of a file, checked against each other and the file's length.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) superblock: Superblock,
    /// The newest valid slot.
    pub(crate) slot: Slot,
    /// The other slot is neither empty nor valid: a write of it was cut off, or it was damaged.
    pub(crate) other_slot_damaged: bool,
    /// What of the slots changes with every write of one.
    pub(crate) signature: SlotSignature,
}

/// Sequence number and checksum of both slots, valid or not: any write of a slot changes it.
pub(crate) type SlotSignature = [[u64; 2]; 2];

/// Words from the start of the file to those of the signature (F-20).
pub(crate) const SIGNATURE_WORDS: [[usize; 2]; 2] = {
    let slots = [SLOT_OFFSETS[0] as usize / 8, SLOT_OFFSETS[1] as usize / 8];
    let (sequence, last) = (SLOT_SEQUENCE_OFFSET / 8, SLOT_BYTES / 8 - 1);
    [[slots[0] + sequence, slots[0] + last], [slots[1] + sequence, slots[1] + last]]
};

/// The signature of the slots now.
pub(crate) fn signature(medium: &dyn ReadMedium) -> Result<SlotSignature> {
    let mut signature = SlotSignature::default();
    for (found, word) in signature.iter_mut().flatten().zip(SIGNATURE_WORDS.iter().flatten()) {
        let mut bytes = [0; 8];
        let at = 8 * *word as u64;
        medium.read_at(&mut bytes, at).map_err(Error::io("read a state slot"))?;
        *found = u64::from_le_bytes(bytes);
    }
    Ok(signature)
}

/// Reads and checks the headers (F-30).
pub(crate) fn load(medium: &dyn ReadMedium) -> Result<Loaded> {
    load_with(medium, |bytes, offset| medium.read_at(bytes, offset))
}

/// As [`load`], with another way to read the slots.
pub(crate) fn load_with(
    medium: &dyn ReadMedium,
    read_slots: impl Fn(&mut [u8], u64) -> std::io::Result<()>,
) -> Result<Loaded> {
    let length = medium.length().map_err(Error::io("tell the length of the file"))?;
    let superblock = load_superblock(medium, length)?;
    let first_records = first_records(medium, &superblock, length)?;
    // They are neighbours, and one reading of a disk is enough.
    let mut slots = vec![0; 2 * SLOT_BYTES];
    read_slots(&mut slots, SLOT_OFFSETS[0]).map_err(Error::io("read the state slots"))?;
    let second = slots.split_off(SLOT_BYTES);
    let slots = [slots, second];
    let (mut slot, other_slot_damaged) = newest_slot(&slots, &superblock)?;
    validate_extents(&superblock, &mut slot, length)?;
    refuse_lost_slot(&superblock, &slot, first_records)?;
    slot.segments.iter_mut().for_each(SegmentRecord::bound_adds);
    let signature = slots.map(|bytes| {
        [SLOT_SEQUENCE_OFFSET, SLOT_BYTES - 8].map(|at| LittleEndian::read_u64(&bytes[at..]))
    });
    Ok(Loaded { superblock, slot, other_slot_damaged, signature })
}

/// Reads and checks what never changes in a file of this length.
fn load_superblock(medium: &dyn ReadMedium, length: u64) -> Result<Superblock> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES.min(length as usize)];
    medium.read_at(&mut bytes, 0).map_err(Error::io("read the superblock"))?;
    recognise(&bytes)?;
    if length < JOURNAL_OFFSET {
        return Err(Error::Length { expected: JOURNAL_OFFSET, found: length });
    }
    Superblock::decode(&bytes)
}

/// The hasher of a file, or why there is none for this key or without one: before anything else is
/// read of it, or changed in it.
pub(crate) fn load_hasher(medium: &dyn ReadMedium, key: Option<&Key>) -> Result<Hasher> {
    let length = medium.length().map_err(Error::io("tell the length of the file"))?;
    load_superblock(medium, length)?.hasher(key)
}

/// The newest valid slot, and whether the other one is damaged (F-23, F-31).
fn newest_slot(slots: &[Vec<u8>; 2], superblock: &Superblock) -> Result<(Slot, bool)> {
    let mut valid: Vec<Slot> = Vec::new();
    let mut damaged = false;
    for (place, bytes) in slots.iter().enumerate() {
        match Slot::decode(bytes, superblock) {
            Ok(slot) if slot.place() != place => {
                let reason = format!("slot {place} holds the sequence numbers of the other one");
                return Err(Error::field("the slot", "sequence", slot.sequence, reason));
            }
            Ok(slot) => valid.push(slot),
            Err(Error::Checksum { .. }) => damaged = true,
            // A slot whose checksum is right and whose values are not was made so: nothing a
            // crash can do, so the other slot is not asked.
            Err(error) => return Err(error),
        }
    }
    if let [older, newer] = &mut valid[..] {
        if older.sequence > newer.sequence {
            std::mem::swap(older, newer);
        }
        older.expect_next(newer)?;
    }
    let Some(newest) = valid.pop() else { return Err(Error::NoSlot) };
    Ok((newest, damaged))
}

/// The words of the first record of each half. Read before the slots, so that a writer who starts a
/// new epoch at the same time never leaves a record newer than they are.
fn first_records(
    medium: &dyn ReadMedium,
    superblock: &Superblock,
    length: u64,
) -> Result<[[u64; MOST_RECORD_WORDS]; 2]> {
    let journal = superblock.journal();
    let mut words = [[0; MOST_RECORD_WORDS]; 2];
    for (half, words) in words.iter_mut().enumerate() {
        let mut bytes = [0; 8 * MOST_RECORD_WORDS];
        let bytes = &mut bytes[..journal.record_bytes() as usize];
        let start = journal.half_offset(half as u64);
        // A file that is too short for its journal is refused for its length, later on.
        if journal.records() != 0 && length >= start + bytes.len() as u64 {
            medium.read_at(bytes, start).map_err(Error::io("read the journal"))?;
        }
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = LittleEndian::read_u64(bytes);
        }
    }
    Ok(words)
}

/// Refuses a file whose journal has a first record that only a slot newer than the newest one allows:
/// that slot was there and is lost, and with it what had been synced since (F-35).
fn refuse_lost_slot(
    superblock: &Superblock,
    slot: &Slot,
    first_records: [[u64; MOST_RECORD_WORDS]; 2],
) -> Result<()> {
    let (next, after) = (slot.epoch.wrapping_add(1), slot.epoch.wrapping_add(2));
    let newer =
        [(next, !slot.next_salt), (after, slot.salt_after_next), (after, !slot.salt_after_next)];
    let found = newer.into_iter().any(|(number, salt)| {
        let words = &first_records[(number % 2) as usize];
        match superblock.cells {
            CellKind::Counting => Epoch::counting(number, salt).decode(0, words).is_some(),
            // The lost slot may have listed a new segment, with another number of rows.
            CellKind::Plain => (1..=MAX_ROWS)
                .any(|rows| Epoch::plain(number, salt, rows).decode(0, words).is_some()),
            CellKind::Sealed => false,
        }
    });
    if found { Err(Error::SlotLost { found: slot.sequence }) } else { Ok(()) }
}

/// Reads the current page table of a segment and checks it (F-62).
pub(crate) fn read_table(
    medium: &dyn ReadMedium,
    segment: &SegmentRecord,
) -> Result<Vec<PageEntry>> {
    // Grows with the entries that are there: the number of pages is only what the file says.
    let mut table = Vec::new();
    let mut room = Ok(());
    let _ = visit_table_until(medium, segment, |entry| {
        if table.len() == table.capacity() {
            let more = table.len().max(1024) as u64;
            room = memory::reserve(&mut table, more, KEEP_TABLE);
            if room.is_err() {
                return ControlFlow::Break(());
            }
        }
        table.push(entry);
        ControlFlow::Continue(())
    })?;
    room.map(|()| table)
}

const KEEP_TABLE: &str = "keep the page table in memory";

/// As [`read_table`], for a repair: whatever stands in place of entries, and whether it is a sound
/// table.
pub(crate) fn read_table_as_it_is(
    medium: &dyn ReadMedium,
    segment: &SegmentRecord,
) -> Result<(Vec<PageEntry>, Result<()>)> {
    let error = match read_table(medium, segment) {
        Ok(table) => return Ok((table, Ok(()))),
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => error,
    };
    let extent = segment.extent();
    let mut table = Vec::new();
    visit_table_bytes(medium, extent.table_range(segment.table), |bytes| {
        let entries = bytes.chunks_exact(ENTRY_BYTES).map(PageEntry::decode);
        let count = (extent.pages - table.len() as u64).min(entries.len() as u64);
        memory::reserve(&mut table, count, KEEP_TABLE)?;
        table.extend(entries.take(count as usize));
        Ok(ControlFlow::Continue(()))
    })
    .map(drop)?;
    Ok((table, Err(error)))
}

/// Reads the entries of some pages. The table as a whole is not checked: it was when the file was
/// opened, and a page that does not match its entry is looked into anyway.
pub(crate) fn read_table_part(
    medium: &dyn ReadMedium,
    segment: &SegmentRecord,
    pages: Range<u64>,
) -> Result<Vec<PageEntry>> {
    let start = segment.extent().table(segment.table);
    let mut bytes = vec![0; (pages.end - pages.start) as usize * ENTRY_BYTES];
    medium
        .read_at(&mut bytes, start + pages.start * ENTRY_BYTES as u64)
        .map_err(Error::io("read the page table"))?;
    Ok(bytes.chunks_exact(ENTRY_BYTES).map(PageEntry::decode).collect())
}

/// Shows every entry of a segment's current page table, in bounded memory, and checks the whole.
///
/// Ends at the first entry that no page can have: so a file whose table is a hole, which may be
/// terabytes long on a few blocks, is refused at once (F-39).
pub(crate) fn visit_table(
    medium: &dyn ReadMedium,
    segment: &SegmentRecord,
    mut visit: impl FnMut(PageEntry),
) -> Result<()> {
    visit_table_until(medium, segment, |entry| {
        visit(entry);
        ControlFlow::Continue(())
    })
    .map(drop)
}

/// As [`visit_table`], until `visit` breaks it off: then the table as a whole is not checked.
pub(crate) fn visit_table_until(
    medium: &dyn ReadMedium,
    segment: &SegmentRecord,
    mut visit: impl FnMut(PageEntry) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let extent = segment.extent();
    let mut check = TableCheck::new(segment);
    let flow = visit_table_bytes(medium, extent.table_range(segment.table), |bytes| {
        check.update(segment, bytes, &mut visit)
    })?;
    if flow.is_continue() {
        check.finish(segment)?;
    }
    Ok(flow)
}

/// The check of a segment's current page table, whose bytes come in parts: whole entries each (F-36).
#[derive(Clone, Debug)]
pub(crate) struct TableCheck {
    crc: Crc,
    /// The pages whose entries are still to come.
    pages: Range<u64>,
    ones: u64,
}

impl TableCheck {
    pub(crate) fn new(segment: &SegmentRecord) -> Self {
        TableCheck { crc: Crc::new(), pages: 0..segment.extent().pages, ones: 0 }
    }

    /// Takes the next bytes and shows their entries, until `visit` breaks it off.
    pub(crate) fn update(
        &mut self,
        segment: &SegmentRecord,
        bytes: &[u8],
        visit: &mut dyn FnMut(PageEntry) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.crc.update(bytes);
        let mut left = bytes;
        // In this order: the other way round, the end of the bytes would cost a page its number.
        for (entry, page) in bytes.chunks_exact(ENTRY_BYTES).zip(&mut self.pages) {
            let entry = PageEntry::decode(entry);
            if !entry.is_possible(&segment.geometry, page) {
                return Err(Error::PageEntry { page, crc: entry.crc, ones: entry.ones });
            }
            self.ones = self.ones.saturating_add(entry.ones.into());
            if visit(entry).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            left = &left[ENTRY_BYTES..];
        }
        if self.pages.is_empty() && left.iter().any(|&byte| byte != 0) {
            let reason = "behind the last entry there are zeros";
            return Err(Error::field("the page table", "padding", "not zeros", reason));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the whole, of which all bytes were taken, is what the slot says.
    pub(crate) fn finish(self, segment: &SegmentRecord) -> Result<()> {
        let found = self.crc.finalize();
        if found != segment.table_crc {
            return Err(Error::PageTable { expected: segment.table_crc, found });
        }
        if self.ones != segment.ones {
            let reason = format!("the page table counts {}", self.ones);
            return Err(Error::field("the slot", "segment ones", segment.ones, reason));
        }
        Ok(())
    }
}

/// Shows the bytes of a table that is at `range` of the file, in bounded memory, until `visit` breaks
/// it off.
pub(crate) fn visit_table_bytes(
    medium: &dyn ReadMedium,
    range: Range<u64>,
    mut visit: impl FnMut(&[u8]) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    const CHUNK: u64 = 64 * PAGE_BYTES;
    let length = range.end - range.start;
    let mut bytes = memory::buffer(CHUNK.min(length), "read the page table")?;
    for at in (0..length).step_by(CHUNK as usize) {
        let chunk = &mut bytes[..CHUNK.min(length - at) as usize];
        medium.read_at(chunk, range.start + at).map_err(Error::io("read the page table"))?;
        if visit(chunk)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
