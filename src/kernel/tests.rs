//! Every kernel against the geometry's own arithmetic.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::choice::KERNEL_VARIABLE;
use super::*;
use crate::hash::split_mix;
use crate::storage::FileMap;

/// Geometries of every layout and number of rows, small enough for hashes to meet.
fn geometries() -> Vec<Geometry> {
    let mut geometries = Vec::new();
    for rows in 1..=32 {
        geometries.push(Geometry::rows(rows, 1000 + u64::from(rows)).unwrap());
        geometries.push(Geometry::flat(rows, 40_000 + 7 * u64::from(rows)).unwrap());
        geometries.push(Geometry::page(rows, 3).unwrap());
        if rows.is_power_of_two() {
            for blocks in [1, 2, 63, 64, 65, 1000] {
                geometries.push(Geometry::line(rows, blocks).unwrap());
            }
        }
    }
    geometries
}

/// Hashes at the ends of blocks, lanes and words, and random ones.
fn hashes(seed: u64) -> Vec<u64> {
    let mut hashes = vec![0, u64::MAX, u64::from(u32::MAX), !u64::from(u32::MAX)];
    for bit in 0..64 {
        hashes.extend([1 << bit, !(1 << bit), (1 << bit) - 1, u64::MAX << bit]);
    }
    for multiplier in crate::geometry::LANE_MULTIPLIERS {
        // The factor whose product with the multiplier is 1, and so those of the lane's extremes.
        let mut inverse = multiplier;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2u32.wrapping_sub(multiplier.wrapping_mul(inverse)));
        }
        assert_eq!(multiplier.wrapping_mul(inverse), 1);
        for product in [0, 1, u32::MAX, 1 << 31, (1 << 31) - 1, 63 << 26, (1 << 26) - 1] {
            let low = u64::from(inverse.wrapping_mul(product));
            hashes.extend([low, low | 0xffff_ffff_0000_0000, low | 0x8000_0000_0000_0000]);
        }
    }
    hashes.extend((0..2000).map(|i| split_mix(seed, i)));
    hashes
}

fn cells(geometry: Geometry, kernel: Kernel) -> Cells<FileMap> {
    let bytes = geometry.pages() * PAGE_BYTES;
    let map = FileMap::anonymous(bytes as usize).unwrap();
    Cells::with_kernel(geometry, map, kernel).unwrap()
}

/// What the definition of the geometry says is missing.
fn missing(cells: &Cells<FileMap>, hash: u64) -> u32 {
    let geometry = cells.geometry();
    (0..geometry.row_count()).fold(0, |mask, row| {
        let address = geometry.address(hash, row);
        let on = cells.words.load(address as usize / 64) >> (address % 64) & 1;
        mask | u32::from(on == 0) << row
    })
}

fn ones(cells: &Cells<FileMap>) -> u64 {
    (0..cells.words.len()).map(|word| u64::from(cells.words.load(word).count_ones())).sum()
}

fn check(cells: &Cells<FileMap>, hashes: &[u64]) {
    let mut found = vec![false; hashes.len()];
    cells.contains_batch(|at| hashes[at], &mut found);
    for (&hash, found) in hashes.iter().zip(found) {
        let expected = missing(cells, hash);
        let what = || format!("{} {:?} {hash:#x}", cells.geometry(), cells.kernel);
        assert_eq!(cells.missing(hash), expected, "{}", what());
        assert_eq!(cells.contains(hash), expected == 0, "{}", what());
        assert_eq!(found, expected == 0, "{} in a batch", what());
    }
}

#[test]
fn every_kernel_agrees_with_the_geometry() {
    for (number, geometry) in geometries().into_iter().enumerate() {
        let simd = [Kernel::wide(&geometry), Kernel::simd(&geometry)];
        for kernel in simd.into_iter().flatten().chain([Kernel::portable(&geometry)]) {
            let cells = cells(geometry, kernel);
            let hashes = hashes(number as u64);
            check(&cells, &hashes[..300]);
            // Every cell but the last of each hash, so that no row can be forgotten; then all.
            for (at, &hash) in hashes.iter().enumerate().step_by(2) {
                let left_out = at as u32 % geometry.row_count();
                for row in (0..geometry.row_count()).filter(|&row| row != left_out) {
                    let (word, bit) = place(&geometry, hash, row);
                    cells.fetch_or(word, bit);
                }
            }
            check(&cells, &hashes);
            for &hash in hashes.iter().step_by(67) {
                let before = ones(&cells);
                let mask = cells.missing(hash);
                let (mut told, mut pages) = (0, Vec::new());
                let tell = |mask| {
                    assert_eq!(ones(&cells), before, "told before the first cell changes");
                    told = mask;
                };
                let changed = cells.turn_on(hash, tell, |word| pages.push(word / 512));
                assert_eq!((changed, told), (mask, mask), "{geometry} {hash:#x}");
                assert_eq!(missing(&cells, hash), 0, "{geometry} {hash:#x}");
                assert!(ones(&cells) - before <= mask.count_ones().into());
                let changed = (0..geometry.row_count())
                    .filter(|row| mask >> row & 1 == 1)
                    .map(|row| place(&geometry, hash, row).0 / 512);
                assert!(mask == 0 || changed.into_iter().all(|page| pages.contains(&page)));
            }
            check(&cells, &hashes);
        }
    }
}

/// Without this the test above could leave a kernel out.
#[test]
fn simd_serves_lines_of_4_and_8_rows_where_it_is_found() {
    use Kernel::*;
    let forced = std::env::var_os(KERNEL_VARIABLE).unwrap_or_default();
    for (rows, wide, simd) in [(4, WideLine4, SimdLine4), (8, WideLine8, SimdLine8)] {
        let geometry = Geometry::line(rows, 1).unwrap();
        assert_eq!(Kernel::wide(&geometry), wide::found().then_some(wide));
        assert_eq!(Kernel::simd(&geometry), simd::found().then_some(simd));
        let expected = match (wide::found(), simd::found()) {
            _ if forced == "portable" => PortableLine,
            (true, _) if forced != "simd" => wide,
            (_, true) => simd,
            _ => PortableLine,
        };
        assert_eq!(Kernel::choose(&geometry), expected);
    }
    // Every processor of these has them.
    assert!(simd::found() || !cfg!(all(target_arch = "aarch64", target_endian = "little")));
}

#[test]
fn batches_of_every_length_answer_every_key() {
    let geometry = Geometry::line(8, 100).unwrap();
    let cells = cells(geometry, Kernel::choose(&geometry));
    for row in 0..8 {
        let (word, bit) = place(&geometry, 7, row);
        cells.fetch_or(word, bit);
    }
    for length in 0..4 * batch::AHEAD {
        for place in 0..length {
            let mut found = vec![true; length];
            cells.contains_batch(|at| if at == place { 7 } else { 1 << 63 }, &mut found);
            assert!((0..length).all(|at| found[at] == (at == place)), "{place} of {length}");
        }
    }
}

#[test]
fn the_fast_path_hashes_and_answers_as_the_others_do() {
    let geometry = Geometry::line(8, 100).unwrap();
    let hasher = Hasher::new(5);
    let bytes: Vec<u8> = (0..100).map(|at| split_mix(3, at) as u8).collect();
    for kernel in [Kernel::wide(&geometry), Kernel::simd(&geometry)].into_iter().flatten() {
        let cells = cells(geometry, kernel);
        let fast = cells.fast_path();
        assert_ne!(fast, FastPath::None, "{kernel:?}");
        for length in 0..bytes.len() {
            let key = &bytes[..length];
            let hash = hasher.hash(key);
            if length % 2 == 0 {
                cells.add(hash);
            }
            assert_eq!(hash_fast(&hasher, key), hash, "length {length}");
            let found = cells.contains_fast(fast, hash);
            assert_eq!(found, missing(&cells, hash) == 0, "length {length}");
        }
    }
    assert_eq!(Kernel::portable(&geometry).fast_path(), FastPath::None);
}

#[test]
fn counters_are_looked_up_as_the_geometry_says() {
    for (number, geometry) in geometries().into_iter().enumerate().step_by(3) {
        let geometry = geometry.with_cells(CellKind::Counting);
        for kernel in Kernel::wide_counting(&geometry).into_iter().chain([Kernel::Counting]) {
            let cells = cells(geometry, kernel);
            let hashes = hashes(number as u64);
            // All counters of every second hash but one; and that one too of every fourth.
            for (at, &hash) in hashes.iter().enumerate().step_by(2) {
                let left_out = at as u32 % geometry.row_count();
                let rows = 0..geometry.row_count();
                for row in rows.filter(|&row| at % 4 == 0 || row != left_out) {
                    let (word, shift) = counter_place(geometry.address(hash, row));
                    cells.fetch_or(word, 1 << (shift + row % 4));
                }
            }
            let mut found = vec![true; hashes.len()];
            cells.contains_batch(|at| hashes[at], &mut found);
            for (&hash, found) in hashes.iter().zip(found) {
                let expected = cells.counters(hash).all(|counter| counter > 0);
                let what = || format!("{geometry} {kernel:?} {hash:#x}");
                assert_eq!(cells.contains(hash), expected, "{}", what());
                assert_eq!(found, expected, "{} in a batch", what());
            }
        }
    }
}

#[test]
fn several_segments_answer_as_each_of_them() {
    let regions = 5;
    let line = |blocks| Geometry::line(8, blocks).unwrap();
    let kernels = [Kernel::wide(&line(1)), Kernel::simd(&line(1)), Some(Kernel::PortableLine)];
    for kernel in kernels.into_iter().flatten() {
        for other in [kernel, Kernel::PortableLine] {
            let segment = |region: u64| {
                let kernel = if region == 2 { other } else { kernel };
                let cells = cells(line(10 + region), kernel);
                (0..100).for_each(|at| {
                    cells.add(split_mix(region, at));
                });
                cells
            };
            let set = SegmentSet::new(segment(0), regions, Active { newest: 0, count: 1 });
            (1..regions).for_each(|region| set.add(region, segment(region as u64)));
            for (newest, count) in (0..regions).flat_map(|a| (1..=regions).map(move |b| (a, b))) {
                set.activate(Active { newest, count });
                let asked =
                    (0..regions as u64 + 2).flat_map(|set| (0..100).map(move |at| (set, at)));
                for hash in asked.map(|(set, at)| split_mix(set, at)) {
                    let expected = set.newest_first().any(|cells| cells.contains(hash));
                    assert_eq!(set.contains(hash), expected, "{kernel:?} {newest} {count}");
                }
            }
        }
    }
}

#[test]
fn too_few_words_are_refused() {
    let geometry = Geometry::line(8, 65).unwrap();
    let map = FileMap::anonymous(PAGE_BYTES as usize).unwrap();
    assert!(matches!(
        Cells::new(geometry, map),
        Err(Error::Length { expected: 8192, found: 4096 })
    ));
}
