//! Blocks and columns of a page, and where a key's band starts in it (F-141, F-142).

/// Words of 32 bits behind the header: the solution, in blocks of columns.
pub(crate) const WORDS: u32 = 1019;

/// Words of 32 bits that the header takes.
pub(crate) const HEADER_WORDS: u32 = 5;

/// Slots of a block: the bits of a word.
pub(crate) const BLOCK_SLOTS: u32 = 32;

/// Fewest and most blocks of a page.
pub(crate) const FEWEST_BLOCKS: u32 = 32;
pub(crate) const MOST_BLOCKS: u32 = WORDS;

/// Most columns of a block, which is how many bits a fingerprint needs.
pub(crate) const MOST_COLUMNS: u32 = 32;

/// Parts of equal length that the values of a page are cut into; the map to slots is linear in each.
pub(crate) const PARTS: usize = 16;

/// Blocks that a band cannot start in, so that all three that it covers are in the page.
const TAIL_BLOCKS: u32 = 2;

/// Slots by which the map from values to slots overshoots the slots at either end, where it is
/// clamped: bands crowd there, but a page loses fewer slots at its ends to bands that do not reach
/// them.
const OVERSHOOT: i64 = 24;

/// Slots that a page has more than keys, at least.
const SPARE_SLOTS: u32 = 4;

/// Most keys that a page of this number of blocks can hold (F-144).
pub(crate) fn most_keys(blocks: u32) -> u32 {
    blocks * BLOCK_SLOTS - SPARE_SLOTS
}

/// Fewest blocks of a page with this number of keys (F-144).
pub(crate) fn least_blocks(keys: u32) -> u32 {
    keys.saturating_add(SPARE_SLOTS).div_ceil(BLOCK_SLOTS).max(FEWEST_BLOCKS)
}

/// Where the columns of a page's blocks are: all of them in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// M: blocks of 32 slots.
    blocks: u32,
    /// r: columns of the blocks in front.
    columns: u32,
    /// L: from this block on there is one column more.
    wide_from: u32,
}

impl Shape {
    /// The shape of a page with this number of blocks, from 32 to 1,019: all words are used.
    pub(crate) fn of_blocks(blocks: u32) -> Self {
        assert!((FEWEST_BLOCKS..=MOST_BLOCKS).contains(&blocks));
        let columns = WORDS / blocks;
        Shape { blocks, columns, wide_from: blocks * (columns + 1) - WORDS }
    }

    /// The shape that a page of this number of keys has if its rows are independent at once.
    pub(crate) fn of_keys(keys: u64) -> Self {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        Self::of_blocks(least_blocks(keys).min(MOST_BLOCKS))
    }

    /// Most words that the columns of a band's three blocks take.
    pub(crate) fn words_of_band(&self) -> u32 {
        3 * self.columns_of(self.blocks - 1)
    }

    /// The shape that a header claims, if all of its words are in the page. The columns need not be
    /// those of [`of_blocks`](Self::of_blocks): a look-up must stay inside the page, and leaves to a
    /// verifier what else is wrong with it.
    #[inline(always)]
    pub(crate) fn in_page(blocks: u32, columns: u32) -> Option<Self> {
        // Below 2^24, so that no product overflows.
        debug_assert!(blocks <= 0xffff && columns <= 0xff);
        let wide_from = (blocks * (columns + 1)).wrapping_sub(WORDS);
        // With L from 0 to M, the M blocks of r or r + 1 columns are 1,019 words, no more.
        let fits = (FEWEST_BLOCKS..=MOST_BLOCKS).contains(&blocks) && wide_from <= blocks;
        fits.then_some(Shape { blocks, columns, wide_from })
    }

    /// M: blocks of 32 slots.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// r: columns of the blocks in front.
    pub(crate) fn columns(&self) -> u32 {
        self.columns
    }

    /// L: from this block on there is one column more.
    pub(crate) fn wide_from(&self) -> u32 {
        self.wide_from
    }

    /// Columns of a block.
    #[inline(always)]
    pub(crate) fn columns_of(&self, block: u32) -> u32 {
        self.columns + u32::from(block >= self.wide_from)
    }

    /// Word of a block's first column, counted from the header's end.
    #[inline(always)]
    pub(crate) fn word_of(&self, block: u32) -> u32 {
        self.columns * block + block.saturating_sub(self.wide_from)
    }

    /// Slots.
    pub(crate) fn slots(&self) -> usize {
        (self.blocks * BLOCK_SLOTS) as usize
    }

    /// Slots that a band can start in: those below this.
    #[inline(always)]
    pub(crate) fn starts(&self) -> i64 {
        i64::from(BLOCK_SLOTS * (self.blocks - TAIL_BLOCKS))
    }

    /// Half the slots of a part that is not bent.
    #[inline(always)]
    fn half_part(&self) -> i64 {
        i64::from(self.blocks - TAIL_BLOCKS)
    }

    /// The map from values to slots in a part, from the two bends at its ends.
    #[inline(always)]
    pub(crate) fn part(&self, part: usize, bend: i8, next: i8) -> Part {
        let half = self.half_part();
        Part {
            first: 2 * (part as i64 * half + i64::from(bend)),
            length: 2 * (half + i64::from(next) - i64::from(bend)),
            last: self.starts() - 1,
        }
    }

    /// The map from all values to slots, if they were spread evenly.
    pub(crate) fn even(&self) -> Part {
        let length = self.starts() + 2 * OVERSHOOT;
        Part { first: -OVERSHOOT, length, last: self.starts() - 1 }
    }

    /// The bends that let the slots fill evenly, when `below[j]` of the values are in parts below
    /// part j (F-144). There is at least one value.
    pub(crate) fn bends(&self, below: &[u32; PARTS + 1]) -> [i8; PARTS + 1] {
        let half_part = self.half_part();
        let values = i64::from(below[PARTS]);
        let mut bends = [0; PARTS + 1];
        let mut before = i64::MIN;
        for (part, bend) in bends.iter_mut().enumerate() {
            let even = i64::from(below[part]) * (self.starts() + 2 * OVERSHOOT) / values;
            let half = (even - OVERSHOOT) >> 1;
            let unbent = part as i64 * half_part;
            // Each part has at least two slots, so that the map never runs backwards: after the
            // clamp too, because an unbent part is at least 60 long.
            let bent = half.max(before.saturating_add(1)) - unbent;
            *bend = bent.clamp(i8::MIN.into(), i8::MAX.into()) as i8;
            before = unbent + i64::from(*bend);
        }
        bends
    }
}

/// The map from the values of one part to slots.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Slot of the part's first value, before it is clamped.
    first: i64,
    /// Slots from there to the next part's.
    length: i64,
    /// Last slot that a band can start in.
    last: i64,
}

impl Part {
    /// The slot of a value's first coefficient. The value's top 4 bits are not looked at: they choose
    /// the part.
    #[inline(always)]
    pub(crate) fn start(&self, value: u64) -> u32 {
        let fraction = (value << 4 >> 32) as i64;
        (self.first + ((fraction * self.length) >> 32)).clamp(0, self.last) as u32
    }

    /// The share of the values whose slot is below another one, which is not the first.
    pub(crate) fn share_below(&self, slot: i64) -> f64 {
        (slot.saturating_sub(self.first) as f64 / self.length as f64).clamp(0.0, 1.0)
    }
}

/// The part of a value.
#[inline(always)]
pub(crate) fn part_of(value: u64) -> usize {
    (value >> 60) as usize
}
