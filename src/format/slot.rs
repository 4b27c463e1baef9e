//! A slot: one of two alternating copies of the mutable state (F-20 to F-29).

use byteorder::{ByteOrder, LittleEndian as Le};

use super::metadata::{Metadata, decode_metadata, encode_metadata};
use super::{CRC_OFFSET, Extent, Superblock, first_nonzero, header_crc};
use crate::error::{Error, Result};
use crate::geometry::{CellKind, Geometry, Layout, PAGE_BYTES};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = PAGE_BYTES as usize;

/// Most segments a slot can list (F-24).
pub(crate) const MAX_SEGMENTS: usize = 32;

/// Largest sequence number, epoch and count of adds (F-26).
pub(crate) const MAX_COUNT: u64 = u64::MAX / 2;

/// Marks a slot that has been written (F-21).
pub(crate) const SLOT_MAGIC: [u8; 8] = *b"BLMSLOT\x00";

// Offsets of the fields: each is the last one's plus its size (F-20).
pub(crate) const SEQUENCE: usize = 8;
pub(crate) const EPOCH: usize = SEQUENCE + 8;
pub(crate) const SALT: usize = EPOCH + 8;
pub(crate) const STATE: usize = SALT + 8;
pub(crate) const SEGMENT_COUNT: usize = STATE + 4;
pub(crate) const MARK: usize = SEGMENT_COUNT + 4;
pub(crate) const FILE_BYTES: usize = MARK + 8;
pub(crate) const METADATA_LENGTH: usize = FILE_BYTES + 8;
pub(crate) const SLOT_RESERVED_1: usize = METADATA_LENGTH + 4;
pub(crate) const UNVERIFIABLE_PAGES: usize = SLOT_RESERVED_1 + 4;
pub(crate) const REPAIRED_PAGES: usize = UNVERIFIABLE_PAGES + 8;
pub(crate) const RECOVERIES: usize = REPAIRED_PAGES + 8;
pub(crate) const NEXT_SALT: usize = RECOVERIES + 8;
pub(crate) const BOOT_ID: usize = NEXT_SALT + 8;
pub(crate) const SALT_AFTER_NEXT: usize = BOOT_ID + 16;
pub(crate) const SLOT_RESERVED_2: usize = SALT_AFTER_NEXT + 8;
pub(crate) const SEGMENTS: usize = 128;

// Offsets within a segment record (F-25).
pub(crate) const SEGMENT_LAYOUT: usize = 0;
pub(crate) const SEGMENT_ROWS: usize = SEGMENT_LAYOUT + 4;
pub(crate) const SEGMENT_BLOCKS: usize = SEGMENT_ROWS + 4;
pub(crate) const SEGMENT_ROW_CELLS: usize = SEGMENT_BLOCKS + 8;
pub(crate) const SEGMENT_CAPACITY: usize = SEGMENT_ROW_CELLS + 8;
pub(crate) const SEGMENT_ADDS: usize = SEGMENT_CAPACITY + 8;
pub(crate) const SEGMENT_OFFSET: usize = SEGMENT_ADDS + 8;
pub(crate) const SEGMENT_TABLE: usize = SEGMENT_OFFSET + 8;
pub(crate) const SEGMENT_TABLE_CRC: usize = SEGMENT_TABLE + 4;
pub(crate) const SEGMENT_ONES: usize = SEGMENT_TABLE_CRC + 4;
pub(crate) const SEGMENT_BYTES: usize = SEGMENT_ONES + 8;

/// Offset of the metadata.
pub(crate) const METADATA: usize = SEGMENTS + MAX_SEGMENTS * SEGMENT_BYTES;

/// Most bytes of metadata a file can hold (F-27).
pub(crate) const METADATA_BYTES: usize = CRC_OFFSET - METADATA;

/// Whether the file was closed in good order (F-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Closed: the page tables describe the data exactly.
    Clean,
    /// Open for writing, or the writer did not get to close it.
    Open,
}

/// Names one boot of one machine; zeros when it is not known (F-114).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BootId(pub(crate) [u8; 16]);

impl BootId {
    fn is_known(self) -> bool {
        self != BootId::default()
    }

    /// Whether both name the same boot, so that what one wrote the other finds in the cache.
    pub(crate) fn is_same_boot(self, other: BootId) -> bool {
        self.is_known() && self == other
    }
}

/// The region of a segment whose slot was not validated yet: no region has this number, so that a
/// look-up of it fails loudly.
pub(crate) const UNPLACED: usize = usize::MAX;

/// One geometry and its pages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SegmentRecord {
    /// Where the cells of a key are.
    pub(crate) geometry: Geometry,
    /// Keys this segment was made for; 0 when that is not known.
    pub(crate) capacity: u64,
    /// Adds that changed the segment.
    pub(crate) adds: u64,
    /// Where the segment starts in the file.
    pub(crate) offset: u64,
    /// The number of the region that it is in, which stays the same for as long as the segment is
    /// listed: [`UNPLACED`] until the slot was held against the length of the file.
    pub(crate) region: usize,
    /// Which of the two page tables counts.
    pub(crate) table: u32,
    /// CRC-32 of that table.
    pub(crate) table_crc: u32,
    /// Sum of the ones in that table.
    pub(crate) ones: u64,
}

/// Adds that a segment can have had for each of its cells that is not zero, at most. An add that
/// counts changes a cell, so that one would do for a file that was only added to; a fold leaves the
/// adds and takes cells away, and threads may claim the same cell at the same time (F-38).
pub(crate) const ADDS_PER_CELL: u64 = 64;

/// The adds that a number of cells that are not zero allows at most (F-38).
pub(crate) const fn most_adds(ones: u64) -> u64 {
    ones.saturating_mul(ADDS_PER_CELL)
}

/// Slots that closing a file takes at most: the one that ends its last epoch, and the clean one.
pub(crate) const SLOTS_TO_CLOSE: u64 = 2;

impl SegmentRecord {
    /// Counts adds, up to the highest number that there is (F-26).
    pub(crate) fn count(&mut self, adds: u64) {
        self.adds = self.adds.saturating_add(adds).min(MAX_COUNT);
    }

    /// Counts adds less removals.
    pub(crate) fn count_signed(&mut self, adds: i64) {
        self.adds = self.adds.saturating_add_signed(adds).min(MAX_COUNT);
    }

    /// Takes back what is claimed of adds beyond what the cells allow (F-38).
    pub(crate) fn bound_adds(&mut self) {
        self.adds = self.adds.min(most_adds(self.ones));
    }

    /// Where the parts of the segment are.
    pub(crate) fn extent(&self) -> Extent {
        Extent::of(&self.geometry, self.offset)
    }
}

/// The mutable state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    /// Rises by one with every slot written; the higher of two valid slots counts.
    pub(crate) sequence: u64,
    /// Rises with every checkpoint; journal records name the epoch they belong to.
    pub(crate) epoch: u64,
    /// Binds journal records to this epoch of this file.
    pub(crate) salt: u64,
    /// The salts of the next two epochs: records of the next one are written before its slot is, and
    /// those of the one after it show when that slot was lost (F-35).
    pub(crate) next_salt: u64,
    pub(crate) salt_after_next: u64,
    /// Clean or open.
    pub(crate) state: State,
    /// The boot of the machine in which an open slot was written; zeros in a clean one.
    pub(crate) boot_id: BootId,
    /// The user's own position.
    pub(crate) mark: u64,
    /// Length of the file.
    pub(crate) file_bytes: u64,
    /// Pages that were accepted although table and journal do not explain all of their cells.
    pub(crate) unverifiable_pages: u64,
    /// Pages that repairs set to all ones.
    pub(crate) repaired_pages: u64,
    /// Recoveries this file went through.
    pub(crate) recoveries: u64,
    /// Oldest first.
    pub(crate) segments: Vec<SegmentRecord>,
    /// The user's pairs.
    pub(crate) metadata: Metadata,
}

impl Slot {
    /// Which of the two slots this one is written to (F-23).
    pub(crate) fn place(&self) -> usize {
        (self.sequence % 2) as usize
    }

    /// The segment that takes the adds (F-24).
    pub(crate) fn newest(&self) -> &SegmentRecord {
        let Some(newest) = self.segments.last() else {
            unreachable!("a slot lists 1 to 32 segments")
        };
        newest
    }

    /// See [`newest`](Self::newest).
    pub(crate) fn newest_mut(&mut self) -> &mut SegmentRecord {
        let Some(newest) = self.segments.last_mut() else {
            unreachable!("a slot lists 1 to 32 segments")
        };
        newest
    }

    /// An error unless `next` is the slot that was written after this one (F-31).
    pub(crate) fn expect_next(&self, next: &Slot) -> Result<()> {
        let salt = match next.salt {
            salt if salt == !self.next_salt => salt,
            _ => self.next_salt,
        };
        for (field, last, found) in [
            ("sequence", self.sequence.wrapping_add(1), next.sequence),
            ("epoch", self.epoch.wrapping_add(1), next.epoch),
            ("salt", salt, next.salt),
            ("next_salt", self.salt_after_next, next.next_salt),
        ] {
            if found != last {
                let reason = format!("the slot before it says that it is {last}");
                return Err(Error::field("the slot", field, found, reason));
            }
        }
        Ok(())
    }

    /// Turns this into the slot after it, which begins the next epoch (F-23). That epoch has begun
    /// already if a boundary began it; otherwise the slot is durable before its first record, which
    /// the complement of the salt says.
    pub(crate) fn advance(&mut self, begun: bool, new_salt: u64) {
        self.sequence += 1;
        self.epoch += 1;
        self.salt = if begun { self.next_salt } else { !self.next_salt };
        self.next_salt = std::mem::replace(&mut self.salt_after_next, new_salt);
    }

    /// Adds of all segments. A file may claim any number for each of them (F-26).
    pub(crate) fn adds(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.adds))
    }

    /// The 4,096 bytes of this slot.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        self.check_counts()?;
        let metadata = encode_metadata(&self.metadata)?;
        let mut bytes = vec![0; SLOT_BYTES];
        bytes[..SLOT_MAGIC.len()].copy_from_slice(&SLOT_MAGIC);
        Le::write_u64(&mut bytes[SEQUENCE..], self.sequence);
        Le::write_u64(&mut bytes[EPOCH..], self.epoch);
        Le::write_u64(&mut bytes[SALT..], self.salt);
        Le::write_u32(&mut bytes[STATE..], state_id(self.state));
        Le::write_u32(&mut bytes[SEGMENT_COUNT..], self.segments.len() as u32);
        Le::write_u64(&mut bytes[MARK..], self.mark);
        Le::write_u64(&mut bytes[FILE_BYTES..], self.file_bytes);
        Le::write_u32(&mut bytes[METADATA_LENGTH..], metadata.len() as u32);
        Le::write_u64(&mut bytes[UNVERIFIABLE_PAGES..], self.unverifiable_pages);
        Le::write_u64(&mut bytes[REPAIRED_PAGES..], self.repaired_pages);
        Le::write_u64(&mut bytes[RECOVERIES..], self.recoveries);
        Le::write_u64(&mut bytes[NEXT_SALT..], self.next_salt);
        bytes[BOOT_ID..SALT_AFTER_NEXT].copy_from_slice(&self.boot_id.0);
        Le::write_u64(&mut bytes[SALT_AFTER_NEXT..], self.salt_after_next);
        for (segment, bytes) in
            self.segments.iter().zip(bytes[SEGMENTS..METADATA].chunks_exact_mut(SEGMENT_BYTES))
        {
            encode_segment(segment, bytes);
        }
        bytes[METADATA..METADATA + metadata.len()].copy_from_slice(&metadata);
        let crc = header_crc(&bytes);
        Le::write_u32(&mut bytes[CRC_OFFSET..], crc);
        Ok(bytes)
    }

    /// Reads a slot. One of zeros is damaged as any other: every file has two from the start (F-21).
    ///
    /// In a file with features that may be ignored, reserved bytes are not judged: they may be those
    /// features' own (F-19).
    pub(crate) fn decode(bytes: &[u8], superblock: &Superblock) -> Result<Self> {
        Self::decode_with(bytes, superblock.cells, superblock.reserved_in_use())
    }

    /// As [`decode`](Self::decode), for a file whose superblock cannot be decoded.
    pub(crate) fn decode_with(
        bytes: &[u8],
        cells: CellKind,
        reserved_in_use: bool,
    ) -> Result<Self> {
        debug_assert_eq!(bytes.len(), SLOT_BYTES);
        let expected = Le::read_u32(&bytes[CRC_OFFSET..]);
        let found = header_crc(bytes);
        if expected != found {
            return Err(Error::Checksum { what: "a state slot".into(), expected, found });
        }
        let bad =
            |field, value: u64, reason: &str| Err(Error::field("the slot", field, value, reason));
        if bytes[..SLOT_MAGIC.len()] != SLOT_MAGIC {
            return bad("magic", Le::read_u64(bytes), "it must be BLMSLOT");
        }
        let state = match Le::read_u32(&bytes[STATE..]) {
            id if id == state_id(State::Clean) => State::Clean,
            id if id == state_id(State::Open) => State::Open,
            other => return bad("state", other.into(), "it must be 1 (clean) or 2 (open)"),
        };
        let count = Le::read_u32(&bytes[SEGMENT_COUNT..]) as usize;
        if !(1..=MAX_SEGMENTS).contains(&count) {
            return bad("segment count", count as u64, "it must be from 1 to 32");
        }
        let metadata_length = Le::read_u32(&bytes[METADATA_LENGTH..]) as usize;
        if metadata_length > METADATA_BYTES {
            return bad("metadata length", metadata_length as u64, "it must be at most 1916");
        }
        let mut boot_id = BootId::default();
        boot_id.0.copy_from_slice(&bytes[BOOT_ID..SALT_AFTER_NEXT]);
        if state == State::Open && cells == CellKind::Sealed {
            return bad("state", state_id(state).into(), "a sealed filter is never open");
        }
        if state == State::Clean && boot_id.is_known() {
            let reason = "only an open slot names a boot of the machine";
            return bad("boot id", Le::read_u64(&bytes[BOOT_ID..]), reason);
        }
        let records_end = SEGMENTS + count * SEGMENT_BYTES;
        for (reserved, start) in [
            (&bytes[..UNVERIFIABLE_PAGES], SLOT_RESERVED_1),
            (&bytes[..SEGMENTS], SLOT_RESERVED_2),
            (&bytes[..METADATA], records_end),
            (&bytes[..CRC_OFFSET], METADATA + metadata_length),
        ] {
            if !reserved_in_use && let Some(at) = first_nonzero(reserved, start) {
                return bad("reserved byte", at as u64, "the byte at this offset must be zero");
            }
        }
        let mut segments = bytes[SEGMENTS..records_end]
            .chunks_exact(SEGMENT_BYTES)
            .map(|bytes| decode_segment(bytes, cells))
            .collect::<Result<Vec<_>>>()?;
        // Programs have thousands of files open.
        segments.shrink_to_fit();
        let slot = Slot {
            sequence: Le::read_u64(&bytes[SEQUENCE..]),
            epoch: Le::read_u64(&bytes[EPOCH..]),
            salt: Le::read_u64(&bytes[SALT..]),
            state,
            mark: Le::read_u64(&bytes[MARK..]),
            file_bytes: Le::read_u64(&bytes[FILE_BYTES..]),
            unverifiable_pages: Le::read_u64(&bytes[UNVERIFIABLE_PAGES..]),
            repaired_pages: Le::read_u64(&bytes[REPAIRED_PAGES..]),
            recoveries: Le::read_u64(&bytes[RECOVERIES..]),
            next_salt: Le::read_u64(&bytes[NEXT_SALT..]),
            salt_after_next: Le::read_u64(&bytes[SALT_AFTER_NEXT..]),
            boot_id,
            segments,
            metadata: decode_metadata(&bytes[METADATA..METADATA + metadata_length])?,
        };
        slot.check_counts()?;
        Ok(slot)
    }

    /// An error unless this number of further slots have numbers (F-26).
    pub(crate) fn expect_numbers(&self, slots: u64) -> Result<()> {
        for (field, value) in [("sequence", self.sequence), ("epoch", self.epoch)] {
            if MAX_COUNT.saturating_sub(value) < slots {
                return Err(Error::NumbersSpent { field, value });
            }
        }
        Ok(())
    }

    /// What rises by one at a time must be in its range (F-26).
    fn check_counts(&self) -> Result<()> {
        for (field, value) in [("sequence", self.sequence), ("epoch", self.epoch)] {
            if value == 0 || value > MAX_COUNT {
                let reason = "it must be from 1 to 2^63 - 1";
                return Err(Error::field("the slot", field, value, reason));
            }
        }
        match self.segments.iter().find(|segment| segment.adds > MAX_COUNT) {
            None => Ok(()),
            Some(segment) => {
                let reason = "it must be at most 2^63 - 1";
                Err(Error::field("the slot", "segment adds", segment.adds, reason))
            }
        }
    }
}

pub(super) fn encode_segment(segment: &SegmentRecord, bytes: &mut [u8]) {
    let geometry = &segment.geometry;
    Le::write_u32(&mut bytes[SEGMENT_LAYOUT..], layout_id(geometry.layout()));
    Le::write_u32(&mut bytes[SEGMENT_ROWS..], geometry.row_count());
    Le::write_u64(&mut bytes[SEGMENT_BLOCKS..], geometry.blocks());
    Le::write_u64(&mut bytes[SEGMENT_ROW_CELLS..], geometry.row_cells());
    Le::write_u64(&mut bytes[SEGMENT_CAPACITY..], segment.capacity);
    Le::write_u64(&mut bytes[SEGMENT_ADDS..], segment.adds);
    Le::write_u64(&mut bytes[SEGMENT_OFFSET..], segment.offset);
    Le::write_u32(&mut bytes[SEGMENT_TABLE..], segment.table);
    Le::write_u32(&mut bytes[SEGMENT_TABLE_CRC..], segment.table_crc);
    Le::write_u64(&mut bytes[SEGMENT_ONES..], segment.ones);
}

pub(super) fn decode_segment(bytes: &[u8], cells: CellKind) -> Result<SegmentRecord> {
    let id = Le::read_u32(&bytes[SEGMENT_LAYOUT..]);
    let Some(layout) = Layout::ALL.into_iter().find(|&layout| layout_id(layout) == id) else {
        return Err(Error::field("the slot", "segment layout", id, "it must be from 1 to 5"));
    };
    if (layout == Layout::Sealed) != (cells == CellKind::Sealed) {
        let reason = "a sealed filter has layout 5, and no other one has";
        return Err(Error::field("the slot", "segment layout", id, reason));
    }
    let geometry = Geometry::new(
        layout,
        Le::read_u32(&bytes[SEGMENT_ROWS..]),
        Le::read_u64(&bytes[SEGMENT_BLOCKS..]),
        Le::read_u64(&bytes[SEGMENT_ROW_CELLS..]),
    )
    .map_err(|error| match error {
        Error::Parameter { name, value, reason } => {
            Error::Field { what: "the slot", field: name, value, reason }
        }
        other => other,
    })?;
    let table = Le::read_u32(&bytes[SEGMENT_TABLE..]);
    if table > 1 {
        return Err(Error::field("the slot", "segment table", table, "it must be 0 or 1"));
    }
    Ok(SegmentRecord {
        geometry: geometry.with_cells(cells),
        capacity: Le::read_u64(&bytes[SEGMENT_CAPACITY..]),
        adds: Le::read_u64(&bytes[SEGMENT_ADDS..]),
        offset: Le::read_u64(&bytes[SEGMENT_OFFSET..]),
        region: UNPLACED,
        table,
        table_crc: Le::read_u32(&bytes[SEGMENT_TABLE_CRC..]),
        ones: Le::read_u64(&bytes[SEGMENT_ONES..]),
    })
}

/// The number of a state in the file (F-22).
pub(crate) const fn state_id(state: State) -> u32 {
    match state {
        State::Clean => 1,
        State::Open => 2,
    }
}

/// The number of a layout in the file (F-50).
pub(crate) const fn layout_id(layout: Layout) -> u32 {
    match layout {
        Layout::Rows => 1,
        Layout::Flat => 2,
        Layout::Page => 3,
        Layout::Line => 4,
        Layout::Sealed => 5,
    }
}
