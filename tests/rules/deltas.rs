//! Deltas (section 16), decoded by the rules.

use std::collections::BTreeMap;

use bloomfile::geometry::Geometry;
use bloomfile::ops::DeltaOperation;
use bloomfile::{CellKind, Filter, Options};

use crate::*;

/// The bits of a payload, from the lowest of its first byte on (F-165).
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> u64 {
        let bit = self.bytes[self.at / 8] >> (self.at % 8) & 1;
        self.at += 1;
        bit.into()
    }

    fn number(&mut self, bits: u32) -> u64 {
        (0..bits).map(|place| self.bit() << place).sum()
    }

    fn gap(&mut self, rice: u32) -> u64 {
        let mut high = 0;
        while self.bit() == 1 {
            high += 1;
        }
        high << rice | self.number(rice)
    }

    /// What is added to a cell, modulo 16: 1 in a plain file, where a cell has two values.
    fn change(&mut self, counting: bool) -> u8 {
        if !counting || self.bit() == 0 {
            1
        } else if self.bit() == 0 {
            15
        } else {
            self.number(4) as u8
        }
    }
}

/// The cells of a segment's data that are not zero.
fn cells(bytes: &[u8], part: &Part) -> BTreeMap<u64, u8> {
    let per_byte = 8 / part.cell_bits;
    let mask = (1u16 << part.cell_bits) - 1;
    let data = &bytes[part.data..][..part.pages * PAGE];
    let in_byte = |(at, byte): (usize, &u8)| {
        let byte = u16::from(*byte);
        let cell = move |place: usize| (byte >> (place * part.cell_bits) & mask) as u8;
        (0..per_byte).map(move |place| ((at * per_byte + place) as u64, cell(place)))
    };
    data.iter().enumerate().flat_map(in_byte).filter(|(_, cell)| *cell != 0).collect()
}

/// Makes of the cells of the old file those of the new one, by the chunks of a delta; and which forms
/// its chunks have.
fn apply(delta: &[u8], old: &[u8], cells: &mut BTreeMap<u64, u8>) -> Vec<u8> {
    let part = parts(old)[0];
    let of = |name| number(old, "segment", part.record, name);
    let head = |name| number(delta, "delta header", 0, name);
    let counting = part.cell_bits == 4;
    let values = if counting { 16 } else { 2 };
    let (rows, width) = (of("rows"), of("row_cells"));
    let block_span = if of("layout") == 3 { 32_768 } else { 512 };
    let cell_bits = width.next_power_of_two().ilog2();
    let per_chunk = 1024 * 8 * PAGE as u64 / part.cell_bits as u64;
    let records = 64 * head("old_segments") + 72 * head("new_segments");
    let mut at = (272 + records + head("metadata_length") + 4) as usize;
    let mut forms = Vec::new();
    for _ in 0..head("chunks") {
        let chunk = |name| number(delta, "chunk", at, name);
        let (length, count, rice) =
            (chunk("length") as usize, chunk("count"), chunk("rice") as u32);
        let payload = &delta[at + 24..at + 24 + length];
        assert_eq!(
            chunk("crc"),
            u64::from(crc32fast::hash(&[&delta[at..at + 20], payload].concat())),
        );
        let first = chunk("chunk") * per_chunk;
        let mut bits = Bits { bytes: payload, at: 0 };
        let change = |cells: &mut BTreeMap<u64, u8>, address, change: u8| {
            let cell = cells.entry(address).or_default();
            *cell = (*cell + change) % values;
        };
        match chunk("form") {
            1 => {
                let mut block = first / block_span;
                for _ in 0..count {
                    block += bits.gap(rice);
                    let mask = bits.number(rows as u32);
                    assert_ne!(mask, 0);
                    for row in (0..rows).filter(|row| mask >> row & 1 == 1) {
                        let cell = bits.number(cell_bits);
                        let by = bits.change(counting);
                        change(cells, block * block_span + row * width + cell, by);
                    }
                }
            }
            2 => {
                let mut address = first;
                for _ in 0..count {
                    address += bits.gap(rice);
                    let by = bits.change(counting);
                    change(cells, address, by);
                    address += 1;
                }
            }
            form => panic!("form {form}"),
        }
        // Zeros fill up the last byte.
        assert_eq!(bits.at.div_ceil(8), length);
        while bits.at < 8 * length {
            assert_eq!(bits.bit(), 0);
        }
        forms.push(chunk("form") as u8);
        at += 24 + length;
    }
    assert_eq!(at, delta.len());
    cells.retain(|_, cell| *cell != 0);
    forms
}

/// Each form gives the cells of the new file, in plain and in counting files.
#[test]
fn f164_to_f167_chunks_of_blocks_and_of_cells() {
    let mut forms = Vec::new();
    for geometry in [
        Geometry::line(8, 70_000).unwrap(),
        Geometry::line(1, 900).unwrap(),
        Geometry::page(7, 40).unwrap(),
        Geometry::rows(5, 70_001).unwrap(),
        Geometry::flat(3, 100_003).unwrap(),
    ] {
        for kind in [CellKind::Plain, CellKind::Counting] {
            let folder = tempfile::tempdir().unwrap();
            let [old, new, delta] = ["old", "new", "delta"].map(|name| folder.path().join(name));
            let filter = Options::new().geometry(geometry).kind(kind).create(&new).unwrap();
            add(&filter, 0..2_000);
            filter.close().unwrap();
            std::fs::copy(&new, &old).unwrap();
            let filter = Filter::open(&new).unwrap();
            add(&filter, 2_000..2_150);
            if kind == CellKind::Counting {
                (0..60).for_each(|number| filter.remove(key(number)).unwrap());
                // Up by more than one.
                (0..5).for_each(|_| assert!(filter.add(key(3_000)).is_ok()));
            }
            filter.close().unwrap();
            DeltaOperation::new().make(&old, &new, &delta).unwrap();
            let [old, new, delta] = [&old, &new, &delta].map(|path| std::fs::read(path).unwrap());
            let mut made = cells(&old, &parts(&old)[0]);
            forms.extend(apply(&delta, &old, &mut made));
            assert!(made == cells(&new, &parts(&new)[0]), "{geometry:?}, {kind:?}");
        }
    }
    for form in [1, 2] {
        let count = forms.iter().filter(|&&found| found == form).count();
        assert!(count > 2, "form {form}: {forms:?}");
    }
}
