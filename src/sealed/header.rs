//! What the first 20 bytes of a page say, and which pages there are (F-141, F-148).

use super::PageBytes;
use super::shape::{FEWEST_BLOCKS, HEADER_WORDS, MOST_BLOCKS, PARTS, Shape};
use crate::error::{Error, Result};

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 4 * HEADER_WORDS as usize;

/// Offset of the bends in a page.
pub(crate) const BENDS_OFFSET: usize = 3;

/// Number of blocks in the header of a page without keys.
const EMPTY: u16 = 0;

/// Number of blocks in the header of a page that holds no system and answers "maybe" for every key.
pub(crate) const MAYBE: u16 = 0xffff;

/// CRC-32 of a page of zeros (F-61), and of one that answers "maybe" for every key (F-148).
pub(crate) const EMPTY_PAGE_CRC: u32 = 0xc71c_0011;
pub(crate) const MAYBE_PAGE_CRC: u32 = 0xd86d_75d0;

/// The first bend of every page that has some.
const FIRST_BEND: i8 = -12;

/// The last bend of every page that has some, unless the one before it leaves no room.
const LAST_BEND: i64 = 12;

/// What a page is called in errors.
const WHAT: &str = "a sealed page";

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// No key fell into it: it answers "no", always.
    Empty,
    /// It has no solution, because too many keys fell into it, their rows depend on one another, or a
    /// repair gave it up: it answers "maybe", always.
    Maybe,
    /// The solution of its keys' equations.
    Solved(Solved),
}

/// The header of a page with a solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Solved {
    /// M, from 32 to 1,019: blocks of 32 slots.
    blocks: u16,
    /// d: by how many pairs of slots each part of the values starts later than with even parts.
    bends: [i8; PARTS + 1],
}

impl Solved {
    pub(crate) fn new(shape: &Shape, bends: [i8; PARTS + 1]) -> Self {
        Solved { blocks: shape.blocks() as u16, bends }
    }

    /// M: blocks of 32 slots.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.into()
    }

    /// r: columns of the blocks in front; those behind have one more.
    pub(crate) fn columns(&self) -> u32 {
        self.shape().columns()
    }

    /// Most keys that such a page can hold (F-144).
    pub(crate) fn most_keys(&self) -> u32 {
        super::shape::most_keys(self.blocks())
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape::of_blocks(self.blocks())
    }

    pub(crate) fn bends(&self) -> &[i8; PARTS + 1] {
        &self.bends
    }

    /// The first bend that no page can have, and what it would have to be (F-148).
    fn impossible_bend(&self) -> Option<(usize, String)> {
        if self.bends[0] != FIRST_BEND {
            return Some((0, format!("it is {FIRST_BEND}")));
        }
        (1..=PARTS).find_map(|at| {
            // A part keeps at least one pair of slots, and none begins behind the last one's end
            // unless it must for that.
            let blocks = i64::from(self.blocks);
            let least = i64::from(self.bends[at - 1]) - (blocks - 3);
            let most = least.max(LAST_BEND + (PARTS - at) as i64 * (blocks - 2));
            let least = if at == PARTS { most } else { least };
            let possible = (least..=most).contains(&self.bends[at].into());
            (!possible).then(|| (at, format!("it is from {least} to {most}")))
        })
    }
}

impl Header {
    /// The header of a page, if one can have it. A page with another one is damaged, whatever its
    /// checksum says.
    pub(crate) fn decode(page: &PageBytes) -> Result<Self> {
        let blocks = u16::from_le_bytes([page[0], page[1]]);
        let columns = page[2];
        let forbidden =
            |field, value: String, reason: String| Err(Error::field(WHAT, field, value, reason));
        if matches!(blocks, EMPTY | MAYBE) {
            if let Some(at) = (2..page.len()).find(|&at| page[at] != 0) {
                let reason = format!("with {blocks:#x} blocks all bytes behind are 0");
                return forbidden("page", format!("{:#04x} at byte {at}", page[at]), reason);
            }
            return Ok(if blocks == EMPTY { Header::Empty } else { Header::Maybe });
        }
        if !(FEWEST_BLOCKS..=MOST_BLOCKS).contains(&blocks.into()) {
            let reason = format!("it is 0, {MAYBE:#x} or from {FEWEST_BLOCKS} to {MOST_BLOCKS}");
            return forbidden("blocks", blocks.to_string(), reason);
        }
        let mut bends = [0; PARTS + 1];
        for (bend, &byte) in bends.iter_mut().zip(&page[BENDS_OFFSET..HEADER_BYTES]) {
            *bend = byte.cast_signed();
        }
        let solved = Solved { blocks, bends };
        if u32::from(columns) != solved.columns() {
            let reason = format!("with {blocks} blocks it is {}", solved.columns());
            return forbidden("columns", columns.to_string(), reason);
        }
        if let Some((at, reason)) = solved.impossible_bend() {
            return forbidden("bends", format!("{} at {at}", bends[at]), reason);
        }
        Ok(Header::Solved(solved))
    }

    /// As [`decode`](Self::decode), for a page whose entry in the page table says that it holds
    /// `keys` distinct keys: an empty page has none, any other has some, and one with a solution has
    /// slots for them (F-148).
    pub(crate) fn decode_with_keys(page: &PageBytes, keys: u32) -> Result<Self> {
        let header = Self::decode(page)?;
        let most = match &header {
            Header::Empty => 0,
            Header::Maybe => u32::MAX,
            Header::Solved(solved) => solved.most_keys(),
        };
        if keys > most || (keys == 0 && header != Header::Empty) {
            let reason = match header {
                Header::Empty => "the page is empty".to_string(),
                _ if keys == 0 => "the page is not empty".to_string(),
                _ => format!("the page has room for {most}"),
            };
            return Err(Error::field("a page table", "ones", keys, reason));
        }
        Ok(header)
    }

    /// Whether a page table can say this of a page (F-148).
    pub(crate) fn is_possible_entry(crc: u32, keys: u32) -> bool {
        let most = super::shape::most_keys(MOST_BLOCKS);
        match keys {
            0 => crc == EMPTY_PAGE_CRC,
            _ => keys <= most || crc == MAYBE_PAGE_CRC,
        }
    }

    /// Writes the header. All bytes of the page that it does not name become zero.
    pub(crate) fn encode(&self, page: &mut PageBytes) {
        page.fill(0);
        match self {
            Header::Empty => {}
            Header::Maybe => page[..2].copy_from_slice(&MAYBE.to_le_bytes()),
            Header::Solved(solved) => {
                page[..2].copy_from_slice(&solved.blocks.to_le_bytes());
                page[2] = solved.columns() as u8;
                for (byte, bend) in page[BENDS_OFFSET..HEADER_BYTES].iter_mut().zip(&solved.bends) {
                    *byte = bend.cast_unsigned();
                }
            }
        }
    }
}
