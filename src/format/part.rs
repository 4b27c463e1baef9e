//! The header of a part: a range of pages of a filter that is built on several machines (F-180 to
//! F-184).

use std::ops::Range;

use byteorder::{ByteOrder, LittleEndian as Le};

use super::superblock::MAGIC;
use super::{
    CRC_OFFSET, ENTRY_BYTES, JOURNAL_OFFSET, SLOT_BYTES, SLOT_OFFSETS, SUPERBLOCK_BYTES, Shape,
    Slot, State, Superblock, first_nonzero, header_crc, most_adds, validate_extents,
};
use crate::error::{Error, Result};
use crate::geometry::{CellKind, Geometry, Layout, PAGE_BYTES};

/// Bytes of a part in front of its page table (F-182).
pub(crate) const PART_TABLE_OFFSET: u64 = JOURNAL_OFFSET;

/// Most parts of a filter (F-181).
pub(crate) const MAX_PARTS: u64 = 1 << 20;

/// As that of a bloomfile, with another name (F-183).
pub(crate) const PART_MAGIC: [u8; 8] = [0x89, b'B', b'L', b'P', b'\r', b'\n', 0x1a, b'\n'];

const PART_VERSION: u32 = 1;

// Offsets of the fields (F-183).
pub(crate) const VERSION: usize = 8;
pub(crate) const IDENTITY: usize = VERSION + 4;
pub(crate) const PARTS: usize = IDENTITY + 4;
pub(crate) const PART: usize = PARTS + 8;
pub(crate) const FIRST_PAGE: usize = PART + 8;
pub(crate) const PAGES: usize = FIRST_PAGE + 8;
pub(crate) const ADDS: usize = PAGES + 8;
pub(crate) const ONES: usize = ADDS + 8;
pub(crate) const TABLE_CRC: usize = ONES + 8;
pub(crate) const RESERVED: usize = TABLE_CRC + 4;

/// Blocks of the `line` layout on a page.
const LINES_PER_PAGE: u64 = PAGE_BYTES / 64;

/// Length of the page table of a part: there is one alone, which fills whole pages (F-182).
pub(crate) const fn part_table_bytes(pages: u64) -> u64 {
    (pages * ENTRY_BYTES as u64).next_multiple_of(PAGE_BYTES)
}

/// The page of a hash, in the layouts whose pages are in the order of hashes (F-180).
#[inline]
pub(crate) fn page_of_hash(geometry: &Geometry, hash: u64) -> u64 {
    match geometry.layout() {
        Layout::Line => geometry.block(hash) / LINES_PER_PAGE,
        _ => geometry.block(hash),
    }
}

/// What every part of a filter has alike (F-182).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanHeader {
    pub(crate) superblock: Superblock,
    /// The slot of the joined file, without what follows from its contents.
    pub(crate) slot: Slot,
    pub(crate) identity_from_contents: bool,
    pub(crate) parts: u64,
}

/// What is in a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartContents {
    /// From 1 on; 0 in a plan.
    pub(crate) part: u64,
    pub(crate) adds: u64,
    pub(crate) ones: u64,
    pub(crate) table_crc: u32,
}

/// Refuses layouts whose pages are not in the order of hashes (F-180).
pub(crate) fn check_layout(layout: Layout) -> Result<()> {
    match layout {
        Layout::Line | Layout::Page | Layout::Sealed => Ok(()),
        Layout::Rows | Layout::Flat => {
            let reason = "its keys are all over the file, so that it has no parts; take line, page \
                          or sealed";
            Err(Error::parameter("layout", layout, reason))
        }
    }
}

impl PlanHeader {
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.slot.segments[0].geometry
    }

    /// The pages of a part (F-181).
    pub(crate) fn pages_of(&self, part: u64) -> Range<u64> {
        let start = |part: u64| {
            let product = u128::from(part) * u128::from(self.geometry().pages());
            (product / u128::from(self.parts)) as u64
        };
        start(part - 1)..start(part)
    }

    /// The part that a page is in (F-181).
    pub(crate) fn part_of_page(&self, page: u64) -> u64 {
        let product = (u128::from(page) + 1) * u128::from(self.parts) - 1;
        (product / u128::from(self.geometry().pages())) as u64 + 1
    }

    /// Length of a part (F-182).
    pub(crate) fn part_bytes(&self, part: u64) -> u64 {
        let pages = self.pages_of(part);
        let pages = pages.end - pages.start;
        PART_TABLE_OFFSET + part_table_bytes(pages) + pages * PAGE_BYTES
    }

    /// The first 12,288 bytes of a part, or of the plan.
    pub(crate) fn encode(&self, contents: &PartContents) -> Result<Vec<u8>> {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        bytes[..PART_MAGIC.len()].copy_from_slice(&PART_MAGIC);
        Le::write_u32(&mut bytes[VERSION..], PART_VERSION);
        Le::write_u32(&mut bytes[IDENTITY..], u32::from(!self.identity_from_contents));
        Le::write_u64(&mut bytes[PARTS..], self.parts);
        Le::write_u64(&mut bytes[PART..], contents.part);
        if contents.part != 0 {
            let pages = self.pages_of(contents.part);
            Le::write_u64(&mut bytes[FIRST_PAGE..], pages.start);
            Le::write_u64(&mut bytes[PAGES..], pages.end - pages.start);
        }
        Le::write_u64(&mut bytes[ADDS..], contents.adds);
        Le::write_u64(&mut bytes[ONES..], contents.ones);
        Le::write_u32(&mut bytes[TABLE_CRC..], contents.table_crc);
        let crc = header_crc(&bytes);
        Le::write_u32(&mut bytes[CRC_OFFSET..], crc);
        bytes.extend(self.superblock.encode());
        bytes.extend(self.slot.encode()?);
        Ok(bytes)
    }

    /// Reads what [`encode`](Self::encode) makes, in the order of checks that F-184 gives.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, PartContents)> {
        recognise_part(bytes)?;
        if (bytes.len() as u64) < PART_TABLE_OFFSET {
            let found = bytes.len() as u64;
            return Err(Error::Length { expected: PART_TABLE_OFFSET, found });
        }
        let header = &bytes[..SUPERBLOCK_BYTES];
        let (expected, found) = (Le::read_u32(&header[CRC_OFFSET..]), header_crc(header));
        if expected != found {
            let what = "the header of the part".into();
            return Err(Error::Checksum { what, expected, found });
        }
        let version = Le::read_u32(&header[VERSION..]);
        if version != PART_VERSION {
            return Err(Error::Version { found: version, supported: PART_VERSION });
        }
        if let Some(at) = first_nonzero(&header[..CRC_OFFSET], RESERVED) {
            return bad("reserved", header[at].into(), "it must be 0");
        }
        let identity = Le::read_u32(&header[IDENTITY..]);
        if identity > 1 {
            return bad("identity", identity.into(), "it must be 0 or 1");
        }
        let number = |at: usize| Le::read_u64(&header[at..]);
        let (parts, part) = (number(PARTS), number(PART));
        if !(1..=MAX_PARTS).contains(&parts) {
            return bad("parts", parts, "it must be from 1 to 1048576");
        }
        if part > parts {
            return bad("part", part, "there are fewer parts");
        }
        let place = |offset: u64| &bytes[offset as usize..][..SLOT_BYTES];
        let superblock = Superblock::decode(place(SLOT_OFFSETS[0]))?;
        let slot = decode_slot(&superblock, place(SLOT_OFFSETS[1]))?;
        let identity_from_contents = identity == 0;
        if identity_from_contents && superblock.uuid != [0; 16] {
            return bad("uuid", 1, "it follows from the contents, and is zeros here");
        }
        let plan = PlanHeader { superblock, slot, identity_from_contents, parts };
        let contents = PartContents {
            part,
            adds: number(ADDS),
            ones: number(ONES),
            table_crc: Le::read_u32(&header[TABLE_CRC..]),
        };
        let pages = if part == 0 { 0..0 } else { plan.pages_of(part) };
        if (number(FIRST_PAGE), number(PAGES)) != (pages.start, pages.end - pages.start) {
            return bad("first_page", number(FIRST_PAGE), "a part of this number has other pages");
        }
        if part == 0 && contents != PartContents::default() {
            return bad("adds", contents.adds, "a plan has no contents");
        }
        if contents.adds > most_adds(contents.ones) {
            return bad("adds", contents.adds, "its cells do not allow that number");
        }
        Ok((plan, contents))
    }
}

fn bad<T>(field: &'static str, value: u64, reason: &str) -> Result<T> {
    Err(Error::field("the header of the part", field, value, reason))
}

/// The slot of a plan: that of a file with one segment, of which nothing is known yet.
fn decode_slot(superblock: &Superblock, bytes: &[u8]) -> Result<Slot> {
    let refuse = |field, value: u64, reason: &str| {
        Err(Error::field("the slot of the part", field, value, reason))
    };
    if superblock.shape() != Shape::Fixed || superblock.cells == CellKind::Counting {
        return refuse("features", 1, "counting, growing and rotating files have no parts");
    }
    let mut slot = Slot::decode(bytes, superblock)?;
    let length = slot.file_bytes;
    validate_extents(superblock, &mut slot, length)?;
    let segment = &slot.segments[0];
    check_layout(segment.geometry.layout())?;
    let unused = [
        slot.salt,
        slot.next_salt,
        slot.salt_after_next,
        slot.mark,
        slot.unverifiable_pages,
        slot.repaired_pages,
        slot.recoveries,
        segment.adds,
        segment.ones,
        segment.table.into(),
        segment.table_crc.into(),
    ];
    if let Some(value) = unused.into_iter().find(|&value| value != 0) {
        return refuse("a field that follows from the contents", value, "it must be 0");
    }
    if slot.state != State::Clean || (slot.sequence, slot.epoch) != (1, 1) {
        return refuse("sequence", slot.sequence, "it must be the first, and clean");
    }
    Ok(slot)
}

/// Whether the first bytes are those of a part, and if not, what they are.
fn recognise_part(bytes: &[u8]) -> Result<()> {
    if bytes.starts_with(&PART_MAGIC) {
        return Ok(());
    }
    if bytes.starts_with(&MAGIC) {
        return Err(Error::NotAPart { kind: "it is a whole filter".into() });
    }
    match super::recognise(bytes) {
        Err(Error::NotABloomfile { kind }) => Err(Error::NotAPart { kind }),
        _ => Err(Error::NotAPart { kind: "its first bytes were changed".into() }),
    }
}
