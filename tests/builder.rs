//! Bulk building: the same file as adding key by key, on any number of threads.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(missing_docs, reason = "tests")]

use std::path::Path;

use bloomfile::{Builder, Options, geometry::Layout};

/// Enough for several regions of every blocked layout, several threads and more than one round.
const KEYS: u64 = 1_200_000;

fn key(number: u64) -> [u8; 8] {
    // Every seventh key comes again.
    let number = if number % 7 == 6 { number / 2 } else { number };
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn built(path: &Path, layout: Layout, fill: impl FnOnce(&mut Builder) -> u64) -> (Vec<u8>, u64) {
    let mut builder = Options::new()
        .capacity(KEYS)
        .false_positive_rate(0.02)
        .layout(layout)
        .replace(true)
        .start_build(path)
        .unwrap();
    let new = fill(&mut builder);
    assert_eq!(builder.adds(), new);
    builder.finish().unwrap();
    (std::fs::read(path).unwrap(), new)
}

#[test]
fn batches_on_any_number_of_threads_give_the_file_of_single_adds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("built.bloom");
    let keys: Vec<[u8; 8]> = (0..KEYS).map(key).collect();
    for layout in Layout::BLOOM {
        let one_by_one = built(&path, layout, |builder| {
            keys.iter().map(|key| u64::from(builder.add(key))).sum()
        });
        assert!(one_by_one.1 > KEYS * 8 / 10 && one_by_one.1 < KEYS * 13 / 14);
        for threads in [1, 2, 3, 8] {
            let batch = built(&path, layout, |builder| {
                builder.set_threads(threads);
                builder.add_batch(&keys)
            });
            assert!(batch == one_by_one, "{layout} on {threads} threads");
        }
        let in_pieces = built(&path, layout, |builder| {
            let hasher = builder.hasher();
            let pieces = keys.chunks(99_999).map(|piece| {
                let hashes: Vec<u64> = piece.iter().map(|key| hasher.hash(key)).collect();
                builder.add_hash_batch(&hashes)
            });
            pieces.sum()
        });
        assert!(in_pieces == one_by_one, "{layout} in pieces");
    }
}
