//! Hash and cells (sections 5 and 6), worked out from the rules.

use bloomfile::geometry::{Geometry, Layout};
use bloomfile::hash::Hasher;
use bloomfile::{CellKind, Error, Filter, Options, ops::SetOperation};

use crate::*;

/// F-44.
fn split_mix(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(index + 1)))
}

/// F-50.
fn reduce(value: u64, limit: u64) -> u64 {
    ((u128::from(value) * u128::from(limit)) >> 64) as u64
}

/// The four words that SeaHash starts from (F-41, F-42).
fn words(seed: u64) -> [u64; 4] {
    let mut words = [
        0x16f1_1fe8_9b0d_677c,
        0xb480_a793_d8e6_c86c,
        0x6fe2_e5aa_f078_ebc9,
        0x14f9_94a4_c525_9381,
    ];
    if seed != 0 {
        for (index, word) in words.iter_mut().enumerate() {
            *word ^= split_mix(seed, index as u64);
        }
    }
    words
}

/// F-41.
fn seahash(key: &[u8], seed: u64) -> u64 {
    let diffuse = |mut x: u64| {
        x = x.wrapping_mul(0x6eed_0e9d_a4d9_4a4f);
        x ^= (x >> 32) >> (x >> 60);
        x.wrapping_mul(0x6eed_0e9d_a4d9_4a4f)
    };
    let mut lanes = words(seed);
    for (index, piece) in key.chunks(8).enumerate() {
        let lane = &mut lanes[index % 4];
        *lane = diffuse(*lane ^ super::read(piece, 0, piece.len()));
    }
    diffuse(lanes.into_iter().fold(key.len() as u64, |hash, lane| hash ^ lane))
}

/// A segment as its record describes it.
struct Cells<'a> {
    layout: u64,
    blocks: u64,
    rows: u64,
    width: u64,
    bits: usize,
    data: &'a [u8],
}

impl Cells<'_> {
    /// The addresses of a hash's cells (F-50 to F-56).
    fn addresses(&self, hash: u64) -> Vec<u64> {
        let padded = self.width.next_multiple_of(8 * PAGE as u64 / self.bits as u64);
        let (row_span, block_span) = match self.layout {
            1 => (padded, self.rows * padded),
            2 => (0, padded),
            3 => (self.width, 32_768),
            _ => (self.width, 512),
        };
        let cell = |row: u64| {
            if self.layout == 4 {
                let multiplier = (split_mix(0, row) >> 32) as u32 | 1;
                let product = (hash as u32).wrapping_mul(multiplier);
                (u64::from(product) * self.width) >> 32
            } else {
                reduce(split_mix(hash, row), self.width)
            }
        };
        let block = reduce(hash, self.blocks);
        (0..self.rows).map(|row| block * block_span + row * row_span + cell(row)).collect()
    }

    /// What stands in a cell (F-58).
    fn at(&self, address: u64) -> u8 {
        let address = address as usize;
        if self.bits == 1 {
            self.data[address / 8] >> (address % 8) & 1
        } else {
            self.data[address / 2] >> (4 * (address % 2)) & 15
        }
    }
}

/// The segments of a file.
fn segments(bytes: &[u8]) -> Vec<Cells<'_>> {
    let segment = |part: Part| {
        let of = |name| number(bytes, "segment", part.record, name);
        Cells {
            layout: of("layout"),
            blocks: of("blocks"),
            rows: of("rows"),
            width: of("row_cells"),
            bits: part.cell_bits,
            data: &bytes[part.data..][..part.pages * PAGE],
        }
    };
    parts(bytes).into_iter().map(segment).collect()
}

/// Keys of any length, the empty one among them, under any seed.
#[test]
fn f40_and_f42_and_f44_the_hash_of_a_key() {
    assert_eq!(
        words(1),
        [
            0x87fb_3204_120f_3bbd,
            0x0a6b_2a32_bd68_240b,
            0x9771_4744_0b4a_be97,
            0x6538_1234_2b67_5a8a
        ]
    );
    let text: Vec<u8> = (0..300u32).map(|at| (at * 31 % 251) as u8).collect();
    for seed in [0, 1, 2, 0x5eed, u64::MAX] {
        for length in 0..text.len() {
            let key = &text[..length];
            assert_eq!(Hasher::new(seed).hash(key), seahash(key, seed), "{length} bytes, {seed}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().capacity(100).false_positive_rate(0.001).seed(0x5eed);
    let filter = options.create(folder.path().join("keys")).unwrap();
    assert!(!filter.contains(b""));
    filter.add(b"").unwrap();
    assert!(filter.contains(b"") && filter.contains_hash(seahash(b"", 0x5eed)));
}

/// The data of a plain file are the cells of its keys and nothing else.
#[test]
fn f52_to_f54_and_f58_and_f59_which_bits_are_set() {
    for name in ["line", "page", "rows", "flat"] {
        let bytes = sample(name).bytes();
        let segment = &segments(&bytes)[0];
        let mut expected = vec![0u8; segment.data.len()];
        for number in 0..300 {
            for at in segment.addresses(seahash(&key(number), 0)) {
                expected[at as usize / 8] |= 1 << (at % 8);
            }
        }
        assert!(segment.data == expected, "{name}");
    }
}

/// In a file of several segments a key is there if one of them has all its cells.
#[test]
fn f59_one_segment_with_all_cells_is_enough() {
    for name in ["growing", "rotating", "counting growing"] {
        let sample = sample(name);
        let bytes = sample.bytes();
        let reader = Reader::open(sample.path()).unwrap();
        let segments = segments(&bytes);
        let holds = |segment: &Cells<'_>, hash| {
            segment.addresses(hash).into_iter().all(|address| segment.at(address) != 0)
        };
        let mut found = 0;
        for number in 0..20_000 {
            let hash = seahash(&key(number), 0);
            let expected = segments.iter().any(|segment| holds(segment, hash));
            assert_eq!(reader.contains(key(number)), expected, "{name}: {number}");
            found += usize::from(expected);
        }
        assert!((200..2_000).contains(&found), "{name}: {found}");
    }
}

/// A counter is how often keys take its cell, in `flat` twice if a key does so, and stays at 15.
#[test]
fn f58_and_f76_counters() {
    let folder = tempfile::tempdir().unwrap();
    let geometries = [
        Geometry::line(4, 100).unwrap(),
        Geometry::rows(2, 9_000).unwrap(),
        Geometry::flat(5, 40).unwrap(),
    ];
    for (file, geometry) in geometries.into_iter().enumerate() {
        let path = folder.path().join(file.to_string());
        let options = Options::new().geometry(geometry).kind(CellKind::Counting);
        let filter = options.create(&path).unwrap();
        // The last key often enough for counters to stick.
        let keys: Vec<u64> = (0..5).chain([3, 3]).chain(std::iter::repeat_n(9, 20)).collect();
        keys.iter().for_each(|&number| assert!(filter.add(key(number)).is_ok()));
        filter.close().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let segment = &segments(&bytes)[0];
        let mut expected = vec![0u64; 2 * segment.data.len()];
        for &number in &keys {
            for at in segment.addresses(seahash(&key(number), 0)) {
                expected[at as usize] += 1;
            }
        }
        for (address, &count) in expected.iter().enumerate() {
            let counter = segment.at(address as u64);
            assert_eq!(u64::from(counter), count.min(15), "{geometry:?}: {address}");
        }
        let stuck = expected.iter().filter(|&&count| count >= 15).count();
        assert!(stuck > 0, "{geometry:?}");
        let filter = Filter::open(&path).unwrap();
        (0..20).for_each(|_| drop(filter.remove(key(9))));
        filter.close().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let segment = &segments(&bytes)[0];
        let sticking = (0..expected.len()).filter(|&address| segment.at(address as u64) == 15);
        assert_eq!(sticking.count(), stuck, "{geometry:?}");
    }
}

#[test]
fn f50_and_f51_which_geometries_there_are() {
    let most = 1u64 << 52;
    for (layout, rows, blocks, width, allowed) in [
        (Layout::Rows, 1, 1, 1, true),
        (Layout::Rows, 32, 1, 1000, true),
        (Layout::Rows, 33, 1, 1000, false),
        (Layout::Rows, 0, 1, 1000, false),
        (Layout::Rows, 3, 2, 1000, false),
        (Layout::Rows, 3, 1, 0, false),
        (Layout::Rows, 1, 1, most, true),
        (Layout::Rows, 2, 1, most, false),
        (Layout::Flat, 32, 1, most, true),
        (Layout::Flat, 3, 2, 1000, false),
        (Layout::Flat, 3, 1, most + 1, false),
        (Layout::Page, 7, 9, 32_768 / 7, true),
        (Layout::Page, 7, 9, 4_000, false),
        (Layout::Page, 7, 0, 32_768 / 7, false),
        (Layout::Page, 1, most >> 15, 32_768, true),
        (Layout::Page, 1, (most >> 15) + 1, 32_768, false),
        (Layout::Line, 16, 9, 32, true),
        (Layout::Line, 3, 9, 170, false),
        (Layout::Line, 8, 9, 63, false),
        (Layout::Line, 8, most >> 9, 64, true),
        (Layout::Line, 8, (most >> 9) + 1, 64, false),
        (Layout::Sealed, 0, 1 << 37, 0, true),
        (Layout::Sealed, 0, (1 << 37) + 1, 0, false),
        (Layout::Sealed, 1, 9, 0, false),
        (Layout::Sealed, 0, 0, 0, false),
    ] {
        let made = Geometry::new(layout, rows, blocks, width);
        assert_eq!(made.is_ok(), allowed, "{layout}: {rows} rows, {blocks} blocks, {width} cells");
    }
    // And so it is with numbers that a file gives.
    let sample = sample("line");
    let bytes = sample.bytes();
    let record = parts(&bytes)[0].record;
    for (name, value) in
        [("layout", 0), ("layout", 6), ("rows", 3), ("blocks", 0), ("row_cells", 63)]
    {
        let other = with(&bytes, "segment", record, name, value);
        assert!(matches!(sample.read(&other), Err(Error::Field { .. })), "{name} = {value}");
    }
}

/// Where cells are depends on hash and geometry, and on nothing else that a file says of itself.
#[test]
fn f14_comparable_cells() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, options: Options| {
        let path = folder.path().join(name);
        let options = options.geometry(Geometry::line(8, 50).unwrap());
        let mut builder = options.start_build(&path).unwrap();
        for number in 0..100 {
            builder.add(key(number));
        }
        builder.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let cells = segments(&bytes)[0].data.to_vec();
        (path, cells)
    };
    let (path, cells) = build("one", Options::new());
    let others = Options::new().uuid([9; 16]).metadata("a", "b").journal_bytes(65536);
    let (other_path, other) = build("other", others);
    assert!(cells == other);
    SetOperation::new().union(&[&path, &other_path], folder.path().join("both")).unwrap();
    let (seeded_path, seeded) = build("seeded", Options::new().seed(1));
    assert!(cells != seeded);
    let refused = SetOperation::new().union(&[&path, &seeded_path], folder.path().join("no"));
    let error = refused.unwrap_err().into_cause();
    assert!(matches!(error, Error::Incompatible { .. }), "{error}");
}
