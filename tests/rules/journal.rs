//! The journal (section 8), decoded by the rules.

use bloomfile::{CellKind, Options, geometry::Geometry};

use crate::*;

/// What a record is (F-74, F-75).
#[derive(Debug, PartialEq)]
enum Record {
    Key { hash: u64, mask: u64 },
    Change { hash: u64, mask: u64, old: u64 },
    Sync(u64),
    Note(u64),
}

/// Record `index` of a half, by F-70 to F-72; `None` if it is missing.
fn record(bytes: &[u8], slot: usize, half: usize, index: usize) -> Option<Record> {
    let of = |name| number(bytes, "slot", slot, name);
    let epoch = of("epoch");
    let counting = number(bytes, "superblock", 0, "cell_bits") == 4;
    let newest = parts(bytes).pop().unwrap();
    let (length, mask_width) = if counting { (32, 16) } else { (16, newest.rows as u32) };
    let half_bytes = number(bytes, "superblock", 0, "journal_bytes") as usize / 2;
    let at = JOURNAL + half * half_bytes + length * index;
    let words: Vec<u64> = (0..length / 8).map(|word| read(bytes, at + 8 * word, 8)).collect();
    let (value, last) = (words[0], words[words.len() - 1]);
    let mask = last & ((1 << mask_width) - 1);
    let key = mix(epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ of("salt"));
    let check = |key: u64| {
        let mut m = mix(value ^ key);
        for old in &words[1..words.len() - 1] {
            m = mix(m ^ old);
        }
        let check = mix(m.wrapping_add((index as u64) << 32 | mask)) >> mask_width;
        check.max(1) == last >> mask_width
    };
    match mask {
        0 if check(key) => Some(Record::Sync(value)),
        0 if check(!key) => Some(Record::Note(value)),
        0 => None,
        _ if !check(key) => None,
        _ if counting => Some(Record::Change { hash: value, mask, old: words[1] }),
        _ => Some(Record::Key { hash: value, mask }),
    }
}

/// All records of the slot's epoch, up to the first that is missing.
fn records(bytes: &[u8]) -> Vec<Record> {
    let slot = newest_slot(bytes);
    let half = number(bytes, "slot", slot, "epoch") as usize % 2;
    (0..).map_while(|index| record(bytes, slot, half, index)).collect()
}

/// What a writer leaves in the journal of a plain file: a link, the keys with as many bits of mask as
/// the file has rows, sync records with their marks, confirmations.
#[test]
fn f71_and_f74_records_of_plain_files() {
    for geometry in [
        Geometry::rows(3, 40_000).unwrap(),
        Geometry::line(8, 200).unwrap(),
        Geometry::page(17, 4).unwrap(),
        Geometry::flat(32, 90_000).unwrap(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("filter");
        let filter = Options::new().geometry(geometry).journal_bytes(16384).create(&path).unwrap();
        let rows = geometry.row_count();
        add(&filter, 0..5);
        filter.sync_with_mark(42).unwrap();
        add(&filter, 5..7);
        filter.sync_with_mark(43).unwrap();
        let found = records(&std::fs::read(&path).unwrap());
        let key_record = |number| {
            let hash = filter.hasher().hash(key(number));
            // So few keys share no cell, but for rows of `flat` that pick the same one.
            let mask = (1u64 << rows) - 1;
            (hash, mask)
        };
        assert_eq!(found[0], Record::Note(0), "the link of an epoch that no boundary began");
        let keys: Vec<(u64, u64)> = found
            .iter()
            .filter_map(|record| match *record {
                Record::Key { hash, mask } => Some((hash, mask)),
                _ => None,
            })
            .collect();
        assert_eq!(keys, (0..7).map(key_record).collect::<Vec<_>>(), "{geometry:?}");
        let place = |wanted| found.iter().position(|record| *record == wanted);
        let first = place(Record::Sync(42)).expect("a sync record with its mark");
        let second = place(Record::Sync(43)).expect("another");
        assert_eq!((first, found.len() > second), (6, true), "{found:?}");
        // What it confirms is the group that ended with the first sync record.
        assert_eq!(found[first + 1], Record::Note(first as u64 + 1), "{found:?}");
    }
}

/// The same of a counting file: masks of 16 bits, and the counters as they were.
#[test]
fn f71_records_of_counting_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    let geometry = Geometry::line(4, 100).unwrap();
    let options = Options::new().geometry(geometry).kind(CellKind::Counting).journal_bytes(16384);
    let filter = options.create(&path).unwrap();
    filter.add(key(1)).unwrap();
    filter.add(key(1)).unwrap();
    filter.remove(key(1)).unwrap();
    filter.sync_with_mark(6).unwrap();
    let hash = filter.hasher().hash(key(1));
    let change = |mask, old| Record::Change { hash, mask, old };
    let found = records(&std::fs::read(&path).unwrap());
    assert_eq!(found[0], Record::Note(0));
    let expected =
        [change(0x8000, 0), change(0x8000, 0x1111), change(0xc000, 0x2222), Record::Sync(6)];
    assert_eq!(found[1..5], expected);
}

/// The link of an epoch that a boundary began counts the records of the one before.
#[test]
fn f74_the_link_behind_a_boundary() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    let options = Options::new().geometry(Geometry::line(8, 200).unwrap()).journal_bytes(16384);
    let filter = options.create(&path).unwrap();
    add(&filter, 0..5);
    filter.sync_with_mark(1).unwrap();
    let before = records(&std::fs::read(&path).unwrap());
    filter.checkpoint().unwrap();
    add(&filter, 5..6);
    filter.sync_with_mark(2).unwrap();
    let after = records(&std::fs::read(&path).unwrap());
    let Record::Note(count) = after[0] else { panic!("{after:?}") };
    // All that were there, and the sync record of the boundary.
    assert_eq!(count as usize, before.len() + 1, "{before:?}");
    assert!(after.contains(&Record::Sync(2)), "{after:?}");
}
