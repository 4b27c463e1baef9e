//! A chunk: which cells of some pages differ (F-164 to F-168).

use byteorder::{ByteOrder, LittleEndian as Le};

use super::bits::{BitReader, BitWriter};
use super::{CHUNK_PAGES, MAX_PAYLOAD_BYTES, PAGE_ENTRY_BYTES};
use crate::format::{ChunkHead, PageEntry};
use crate::geometry::{CellKind, Geometry, Layout, MAX_ROWS, PAGE_BYTES};

const PAGE: usize = PAGE_BYTES as usize;

/// How a payload is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Blocks,
    Cells,
    Pages,
}

impl Form {
    pub(super) const ALL: [Form; 3] = [Form::Blocks, Form::Cells, Form::Pages];

    pub(super) const fn id(self) -> u8 {
        match self {
            Form::Blocks => 1,
            Form::Cells => 2,
            Form::Pages => 3,
        }
    }
}

/// A coded chunk.
pub(crate) struct Coded {
    pub(crate) form: Form,
    pub(crate) rice: u8,
    pub(crate) count: u32,
    pub(crate) payload: Vec<u8>,
    /// Cells that it changes; pages, of a sealed file.
    pub(crate) changed: u64,
}

/// What becomes of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Its address within the chunk.
    address: u32,
    /// What is added to a counter, modulo 16; 1 for a bit.
    by: u8,
}

/// Where the cells of a chunk are.
struct Shape {
    cells: CellKind,
    /// Cells of all pages of the chunk.
    limit: u64,
    /// Blocks that begin in it, the cells of each and of a row; `None` in layouts with one block.
    blocks: Option<Blocks>,
}

#[derive(Clone, Copy)]
struct Blocks {
    count: u64,
    span: u32,
    rows: u32,
    row_cells: u32,
    cell_bits: u32,
}

impl Shape {
    fn new(geometry: &Geometry, chunk: u64, pages: u64) -> Self {
        let per_page = geometry.cells_per_page();
        let blocked = matches!(geometry.layout(), Layout::Line | Layout::Page);
        let blocks = blocked.then(|| {
            // Both spans divide the cells of a chunk, of bits and of counters.
            let each = CHUNK_PAGES * per_page / geometry.block_span();
            let row_cells = geometry.row_cells() as u32;
            Blocks {
                count: each.min(geometry.blocks().saturating_sub(chunk * each)),
                span: geometry.block_span() as u32,
                rows: geometry.row_count(),
                row_cells,
                cell_bits: (row_cells - 1).checked_ilog2().map_or(0, |bits| bits + 1),
            }
        });
        Shape { cells: geometry.cell_kind(), limit: pages * per_page, blocks }
    }

    /// Bits that the change of a cell takes.
    fn change_bits(&self, by: u8) -> u64 {
        match (self.cells, by) {
            (CellKind::Counting, 1) => 1,
            (CellKind::Counting, 15) => 2,
            (CellKind::Counting, _) => 6,
            _ => 0,
        }
    }

    fn write_change(&self, writer: &mut BitWriter, by: u8) {
        match (self.cells, by) {
            (CellKind::Counting, 1) => writer.write(0, 1),
            (CellKind::Counting, 15) => writer.write(1, 2),
            (CellKind::Counting, by) => writer.write(3 | u64::from(by) << 2, 6),
            _ => {}
        }
    }

    fn read_change(&self, reader: &mut BitReader<'_>) -> Option<u8> {
        if self.cells != CellKind::Counting || reader.read(1)? == 0 {
            return Some(1);
        }
        if reader.read(1)? == 0 {
            return Some(15);
        }
        reader.read(4).filter(|&by| by != 0).map(|by| by as u8)
    }

    /// Changes a cell of the chunk's pages.
    fn change(&self, bytes: &mut [u8], address: u64, by: u8) {
        if self.cells == CellKind::Counting {
            let byte = &mut bytes[address as usize / 2];
            let shift = address % 2 * 4;
            let counter = (*byte >> shift).wrapping_add(by) & 15;
            *byte = *byte & !(15 << shift) | counter << shift;
        } else {
            bytes[address as usize / 8] ^= 1 << (address % 8);
        }
    }
}

/// What differs, in order; `None` if that is a quarter of the cells or more.
fn changes(cells: CellKind, old: &[u8], new: &[u8]) -> Option<Vec<Change>> {
    let most = 8 * new.len() / cells.bits() as usize / 4;
    let mut changes = Vec::new();
    let (old, _) = old.as_chunks::<8>();
    let (new, _) = new.as_chunks::<8>();
    for (at, (old, new)) in old.iter().zip(new).enumerate() {
        if old == new {
            continue;
        }
        let [old, new] = [old, new].map(|word| u64::from_le_bytes(*word));
        let mut differing = old ^ new;
        while differing != 0 {
            let bit = differing.trailing_zeros();
            if cells == CellKind::Counting {
                let shift = bit & !3;
                let by = ((new >> shift) as u8).wrapping_sub((old >> shift) as u8) & 15;
                changes.push(Change { address: (at * 16) as u32 + shift / 4, by });
                differing &= !(15 << shift);
            } else {
                changes.push(Change { address: (at * 64) as u32 + bit, by: 1 });
                differing &= differing - 1;
            }
        }
        if changes.len() >= most {
            return None;
        }
    }
    Some(changes)
}

/// The parameter for which gaps take the fewest bits, and how many they take.
fn best_rice(gaps: &[u32]) -> (u32, u64) {
    let count = gaps.len() as u64;
    let sum: u64 = gaps.iter().map(|&gap| u64::from(gap)).sum();
    let middle = (sum / count.max(1)).checked_ilog2().unwrap_or(0);
    let bits = |rice: u32| {
        let high: u64 = gaps.iter().map(|&gap| u64::from(gap >> rice)).sum();
        high + count * u64::from(rice + 1)
    };
    let tried =
        (middle.saturating_sub(1)..=middle + 1).map(|rice| (rice.min(31), bits(rice.min(31))));
    tried.min_by_key(|&(_, bits)| bits).unwrap_or((0, 0))
}

/// The entries of the form blocks.
#[derive(Default)]
struct Entries {
    /// Gap to the block of the entry before, and the rows that it names.
    all: Vec<(u32, u32)>,
    /// The cells of all of them in their rows, with what becomes of each.
    cells: Vec<(u32, u8)>,
}

impl Entries {
    fn of(blocks: Blocks, changes: &[Change]) -> Self {
        let mut entries = Entries { all: Vec::new(), cells: Vec::with_capacity(changes.len()) };
        let (mut last, mut rest) = (0, changes);
        while let Some(first) = rest.first() {
            let block = first.address / blocks.span;
            let (start, end) = (block * blocks.span, (block + 1) * blocks.span);
            let count = rest.iter().take_while(|change| change.address < end).count();
            let (here, behind) = rest.split_at(count);
            rest = behind;
            let gap = block - std::mem::replace(&mut last, block);
            if !entries.push_one(blocks, gap, start, here) {
                entries.push_several(blocks, gap, start, here);
            }
        }
        entries
    }

    /// The entry of a block in which no row has two changes, as nearly always; false if one has.
    fn push_one(&mut self, blocks: Blocks, gap: u32, start: u32, changes: &[Change]) -> bool {
        let (mut mask, before) = (0u32, self.cells.len());
        for change in changes {
            let at = change.address - start;
            let row = at / blocks.row_cells;
            if mask >> row & 1 == 1 {
                self.cells.truncate(before);
                return false;
            }
            mask |= 1 << row;
            self.cells.push((at - row * blocks.row_cells, change.by));
        }
        self.all.push((gap, mask));
        true
    }

    /// The entries of any block: the first change of each row, then the second ones.
    fn push_several(&mut self, blocks: Blocks, mut gap: u32, start: u32, mut here: &[Change]) {
        let mut rows: [&[Change]; MAX_ROWS as usize] = [&[]; MAX_ROWS as usize];
        let row_of = |change: &Change| (change.address - start) / blocks.row_cells;
        while let Some(first) = here.first() {
            let row = row_of(first);
            let (those, others) = here.split_at(here.partition_point(|it| row_of(it) == row));
            rows[row as usize] = those;
            here = others;
        }
        for depth in 0.. {
            let mut mask = 0;
            for (row, changes) in rows.iter().enumerate() {
                if let Some(change) = changes.get(depth) {
                    mask |= 1 << row;
                    let cell = (change.address - start) % blocks.row_cells;
                    self.cells.push((cell, change.by));
                }
            }
            if mask == 0 {
                break;
            }
            self.all.push((std::mem::take(&mut gap), mask));
        }
    }
}

fn code_blocks(shape: &Shape, blocks: Blocks, changes: &[Change]) -> Coded {
    let Entries { all, cells } = Entries::of(blocks, changes);
    let gaps: Vec<u32> = all.iter().map(|&(gap, _)| gap).collect();
    let (rice, gap_bits) = best_rice(&gaps);
    let mut writer = BitWriter::with_capacity(gap_bits + 8 * changes.len() as u64);
    let mut cells = cells.into_iter();
    for &(gap, mask) in &all {
        writer.write_gap(gap, rice);
        writer.write(mask.into(), blocks.rows);
        for (cell, by) in cells.by_ref().take(mask.count_ones() as usize) {
            writer.write(cell.into(), blocks.cell_bits);
            shape.write_change(&mut writer, by);
        }
    }
    let (count, changed) = (all.len() as u32, changes.len() as u64);
    let payload = writer.finish();
    Coded { form: Form::Blocks, rice: rice as u8, count, payload, changed }
}

fn code_cells(shape: &Shape, gaps: &[u32], rice: u32, changes: &[Change]) -> Coded {
    let mut writer = BitWriter::with_capacity((u64::from(rice) + 4) * gaps.len() as u64);
    for (gap, change) in gaps.iter().zip(changes) {
        writer.write_gap(*gap, rice);
        shape.write_change(&mut writer, change.by);
    }
    let count = changes.len();
    let (payload, changed) = (writer.finish(), count as u64);
    Coded { form: Form::Cells, rice: rice as u8, count: count as u32, payload, changed }
}

fn code_pages(old: &[u8], new: &[u8], entries: &[PageEntry], changed: Option<u64>) -> Coded {
    let mut payload = Vec::new();
    let mut count = 0;
    let pages = old.chunks_exact(PAGE).zip(new.chunks_exact(PAGE)).zip(entries);
    for (number, ((old, new), entry)) in pages.enumerate() {
        if old != new {
            payload.extend_from_slice(&(number as u32).to_le_bytes());
            payload.extend_from_slice(&entry.ones.to_le_bytes());
            payload.extend_from_slice(new);
            count += 1;
        }
    }
    let changed = changed.unwrap_or(count.into());
    Coded { form: Form::Pages, rice: 0, count, payload, changed }
}

/// Codes what turns the pages `old` of a chunk into the pages `new`, which have these entries in the
/// page table, in the form that takes least (F-170); `None` if nothing differs.
pub(crate) fn code_chunk(
    geometry: &Geometry,
    chunk: u64,
    old: &[u8],
    new: &[u8],
    entries: &[PageEntry],
) -> Option<Coded> {
    if old == new {
        return None;
    }
    if geometry.cell_kind() == CellKind::Sealed {
        return Some(code_pages(old, new, entries, None));
    }
    let shape = Shape::new(geometry, chunk, (new.len() / PAGE) as u64);
    let Some(changes) = changes(shape.cells, old, new) else {
        let [old_words, new_words] =
            [old, new].map(|bytes| bytes.chunks_exact(8).map(Le::read_u64));
        let bits = old_words.zip(new_words).map(|(old, new)| u64::from((old ^ new).count_ones()));
        return Some(code_pages(old, new, entries, Some(bits.sum())));
    };
    let mut behind = 0;
    let gaps: Vec<u32> = changes
        .iter()
        .map(|change| {
            let gap = change.address - behind;
            behind = change.address + 1;
            gap
        })
        .collect();
    let (rice, gap_bits) = best_rice(&gaps);
    let change_bits: u64 = changes.iter().map(|change| shape.change_bits(change.by)).sum();
    let in_cells = (gap_bits + change_bits).div_ceil(8);
    let in_blocks = shape.blocks.map(|blocks| code_blocks(&shape, blocks, &changes));
    let coded = match in_blocks {
        Some(coded) if coded.payload.len() as u64 <= in_cells => coded,
        _ => code_cells(&shape, &gaps, rice, &changes),
    };
    let differing = |(old, new): &(&[u8], &[u8])| old != new;
    let pages = old.chunks_exact(PAGE).zip(new.chunks_exact(PAGE)).filter(differing).count();
    if coded.payload.len() < pages * PAGE_ENTRY_BYTES {
        return Some(coded);
    }
    Some(code_pages(old, new, entries, Some(coded.changed)))
}

/// Turns the old pages of a chunk into the new ones. `ones` are those of the pages, of which the form
/// pages tells new ones. An error says what is wrong with the payload.
pub(crate) fn apply_chunk(
    geometry: &Geometry,
    head: &ChunkHead,
    payload: &[u8],
    bytes: &mut [u8],
    ones: &mut [u32],
) -> Result<(), &'static str> {
    let pages = bytes.len() / PAGE;
    let shape = Shape::new(geometry, head.chunk.into(), pages as u64);
    let mut reader = BitReader::new(payload);
    let rice = head.rice.into();
    match head.form {
        Form::Pages => return apply_pages(head, payload, bytes, ones),
        _ if shape.cells == CellKind::Sealed => return Err("a sealed page is told whole"),
        Form::Blocks => {
            let blocks = shape.blocks.ok_or("this layout has no blocks")?;
            apply_blocks(&shape, blocks, head, &mut reader, bytes)
                .ok_or("blocks cannot be read")?;
        }
        Form::Cells => {
            let mut next = 0u64;
            for _ in 0..head.count {
                let most = shape.limit.checked_sub(next + 1).ok_or("a cell is out of range")?;
                let gap = reader.read_gap(rice, most).ok_or("a gap cannot be read")?;
                let by = shape.read_change(&mut reader).ok_or("a change cannot be read")?;
                shape.change(bytes, next + gap, by);
                next += gap + 1;
            }
        }
    }
    if reader.is_at_end() { Ok(()) } else { Err("there is more than its entries") }
}

fn apply_blocks(
    shape: &Shape,
    blocks: Blocks,
    head: &ChunkHead,
    reader: &mut BitReader<'_>,
    bytes: &mut [u8],
) -> Option<()> {
    let mut block = 0u64;
    for _ in 0..head.count {
        let most = blocks.count.checked_sub(block + 1)?;
        block += reader.read_gap(head.rice.into(), most)?;
        let mut mask = reader.read(blocks.rows).filter(|&mask| mask != 0)?;
        while mask != 0 {
            let row = u64::from(mask.trailing_zeros());
            mask &= mask - 1;
            let cell = reader.read(blocks.cell_bits)?;
            if cell >= blocks.row_cells.into() {
                return None;
            }
            let by = shape.read_change(reader)?;
            let start = block * u64::from(blocks.span) + row * u64::from(blocks.row_cells);
            shape.change(bytes, start + cell, by);
        }
    }
    Some(())
}

fn apply_pages(
    head: &ChunkHead,
    payload: &[u8],
    bytes: &mut [u8],
    ones: &mut [u32],
) -> Result<(), &'static str> {
    debug_assert!(payload.len() <= MAX_PAYLOAD_BYTES);
    if payload.len() as u64 != u64::from(head.count) * PAGE_ENTRY_BYTES as u64 {
        return Err("it has another length than its pages");
    }
    let mut next = 0;
    for entry in payload.chunks_exact(PAGE_ENTRY_BYTES) {
        let (number, keys) = (Le::read_u32(entry) as usize, Le::read_u32(&entry[4..]));
        if number < next || number >= ones.len() {
            return Err("a page is out of range");
        }
        next = number + 1;
        bytes[number * PAGE..next * PAGE].copy_from_slice(&entry[8..]);
        ones[number] = keys;
    }
    Ok(())
}
