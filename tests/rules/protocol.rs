//! What writers do, and what is there after a crash (sections 9 and 10), seen in the bytes.

#[cfg(unix)]
use bloomfile::geometry::Geometry;
use bloomfile::{CellKind, Filter, Options, Reader, plan, report::verify};

use crate::*;

/// Space that a copy left out is there before anything is written, and nothing else has changed.
#[cfg(target_os = "linux")]
#[test]
fn f82_holes_are_filled_at_open() {
    use std::io::{Seek, SeekFrom, Write};
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    Options::new().geometry(Geometry::line(8, 100_000).unwrap()).create(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let sparse = folder.path().join("sparse");
    let mut file = std::fs::File::create(&sparse).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (page, content) in bytes.chunks(PAGE).enumerate() {
        if content.iter().any(|&byte| byte != 0) {
            file.seek(SeekFrom::Start((page * PAGE) as u64)).unwrap();
            file.write_all(content).unwrap();
        }
    }
    file.sync_all().unwrap();
    let blocks = || 512 * std::fs::metadata(&sparse).unwrap().blocks();
    if blocks() >= bytes.len() as u64 {
        println!("skipped: a file system without holes");
        return;
    }
    let filter = Filter::open(&sparse).unwrap();
    assert!(blocks() >= bytes.len() as u64, "{} of {}", blocks(), bytes.len());
    filter.close().unwrap();
    assert!(std::fs::read(&sparse).unwrap() == bytes);
}

/// A session that changes nothing leaves every byte; one that does writes the open slot first, in the
/// place of the older one.
#[test]
fn f84_the_open_slot_comes_before_the_first_change() {
    for sample in samples() {
        let (name, before) = (sample.name, sample.bytes());
        let filter = Filter::open(sample.path()).unwrap();
        assert!(filter.contains(key(250)), "{name}");
        filter.sync().unwrap();
        filter.close().unwrap();
        assert!(sample.bytes() == before, "{name}");
        let filter = Filter::open(sample.path()).unwrap();
        assert!(sample.bytes() == before, "{name}: opened");
        let segments = filter.segments();
        add(&filter, 7_000..7_001);
        if filter.segments() > segments {
            // The key made it grow, which takes a slot of its own.
            assert!(name.contains("growing"), "{name}");
            continue;
        }
        let after = sample.bytes();
        let (old, new) = (newest_slot(&before), newest_slot(&after));
        assert_ne!(old, new, "{name}");
        assert_eq!(number(&after, "slot", new, "state"), 2, "{name}");
        assert!(before[old..old + PAGE] == after[old..old + PAGE], "{name}");
        assert_eq!(new, SLOTS[number(&after, "slot", new, "sequence") as usize % 2], "{name}");
    }
}

/// The commit of a checkpoint: the other table, the other slot, the mark and the adds.
#[test]
fn f87_the_slot_of_a_checkpoint() {
    for name in ["line", "page", "rows", "flat", "counting"] {
        let sample = sample(name);
        let filter = Filter::open(sample.path()).unwrap();
        add(&filter, 400..440);
        filter.sync_with_mark(17).unwrap();
        let before = sample.bytes();
        filter.checkpoint().unwrap();
        let after = sample.bytes();
        let (old, new) = (newest_slot(&before), newest_slot(&after));
        assert_ne!(old, new, "{name}");
        for number_name in ["sequence", "epoch"] {
            let [old, new] = [(&before, old), (&after, new)]
                .map(|(bytes, slot)| number(bytes, "slot", slot, number_name));
            assert_eq!(new, old + 1, "{name}: {number_name}");
        }
        assert_eq!(number(&after, "slot", new, "mark"), 17, "{name}");
        let (was, is) = (parts(&before)[0], parts(&after)[0]);
        assert_ne!(was.table, is.table, "{name}");
        // The table that counted is untouched; the new one describes the data.
        assert!(before[was.table..][..was.table_bytes] == after[was.table..][..was.table_bytes]);
        let mut again = after.clone();
        fix_entries_of(&mut again, is);
        fix_record_of(&mut again, is);
        assert!(again == after, "{name}");
        let [adds_before, adds] = [(&before, was), (&after, is)]
            .map(|(bytes, part)| number(bytes, "segment", part.record, "adds"));
        assert!((35..=40).contains(&(adds - adds_before)), "{name}: {adds_before}, {adds}");
    }
}

/// What recovery says in the slot: the mark of the last sync, the adds of the journal, one recovery
/// more; and the file is one that a checkpoint left.
#[test]
fn f96_mark_and_counters_after_a_crash() {
    for name in ["line", "page", "rows", "flat", "growing", "rotating"] {
        let sample = sample(name);
        let filter = Filter::open(sample.path()).unwrap();
        let adds = filter.adds();
        add(&filter, 400..420);
        filter.sync_with_mark(5).unwrap();
        add(&filter, 420..430);
        let (killed, added) = (sample.bytes(), filter.adds());
        filter.close().unwrap();
        for session in 1..=2 {
            std::fs::write(sample.path(), &killed).unwrap();
            for recovery in 1..=session {
                let filter = Filter::open(sample.path()).unwrap();
                assert_eq!(filter.mark(), 5, "{name}");
                assert_eq!(filter.adds(), added, "{name}, from {adds}");
                let bytes = sample.bytes();
                let slot = newest_slot(&bytes);
                assert_eq!(number(&bytes, "slot", slot, "recoveries"), recovery, "{name}");
                assert_eq!(number(&bytes, "slot", slot, "state"), 2, "{name}");
                let part = parts(&bytes).pop().unwrap();
                let mut again = bytes.clone();
                fix_entries_of(&mut again, part);
                assert!(again == bytes, "{name}: the table is that of the data");
                drop(filter);
                // Left open once more.
                std::fs::write(sample.path(), bytes).unwrap();
            }
        }
    }
}

/// Each further segment is for twice as many keys, at a rate that leaves room for all that follow, and
/// begins empty with table 0.
#[test]
fn f131_growing() {
    for cells in [CellKind::Plain, CellKind::Counting] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("filter");
        let options = Options::new().capacity(100).false_positive_rate(0.01).grow().kind(cells);
        let filter = options.create(&path).unwrap();
        let mut segments = 1;
        for number in 0..3_000 {
            filter.add(key(number)).unwrap();
            if filter.segments() == segments {
                continue;
            }
            segments = filter.segments();
            let bytes = std::fs::read(&path).unwrap();
            let newest = parts(&bytes).pop().unwrap();
            let of = |name| crate::number(&bytes, "segment", newest.record, name);
            assert_eq!((of("adds"), of("table"), of("ones")), (0, 0, 0), "{segments}");
            let index = segments - 1;
            assert_eq!(of("capacity"), 100 << index);
            let rate = 0.01 * 0.2 * 0.8f64.powi(index as i32);
            let planned = plan::false_positive_rate(filter.geometry(), of("capacity"));
            assert!(planned <= rate * 1.001, "segment {index}: {planned} for {rate}");
        }
        assert!(segments >= 5, "{segments}");
        filter.close().unwrap();
        assert!(verify(&path).unwrap().is_sound());
    }
}

/// A rotation lists the spare region, emptied, as the newest and drops the oldest once there are G.
#[test]
fn f132_rotating() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    let options =
        Options::new().capacity(100).false_positive_rate(0.01).generations(2).rotate_after(100);
    let filter = options.create(&path).unwrap();
    let offsets = || {
        let bytes = std::fs::read(&path).unwrap();
        extents(&bytes).into_iter().map(|extent| extent.0).collect::<Vec<_>>()
    };
    let mut seen = vec![offsets()];
    // By itself, after that many adds.
    for number in 0..1_000 {
        filter.add(key(number)).unwrap();
        let now = offsets();
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
    filter.rotate().unwrap();
    seen.push(offsets());
    let bytes = std::fs::read(&path).unwrap();
    let newest = parts(&bytes).pop().unwrap();
    assert!(bytes[newest.data..][..newest.pages * PAGE].iter().all(|&byte| byte == 0));
    for pair in seen.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let kept = if before.len() == 2 { &before[1..] } else { &before[..] };
        assert_eq!(&after[..after.len() - 1], kept, "{seen:?}");
        assert!(!before.contains(after.last().unwrap()), "{seen:?}");
    }
    filter.close().unwrap();
    assert!(verify(&path).unwrap().is_sound());
}

/// Readers that were opened before see what comes after, and nothing of a generation that is gone.
#[test]
fn f133_readers_follow_growth_and_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing");
    let options = || Options::new().capacity(100).false_positive_rate(0.0001);
    let filter = options().grow().create(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    for number in 0..1_500 {
        filter.add(key(number)).unwrap();
        assert!(reader.contains(key(number)), "{number}");
    }
    assert!(filter.segments() > 3);
    let path = folder.path().join("rotating");
    let filter = options().generations(2).create(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    for generation in 0..6 {
        add(&filter, 100 * generation..100 * (generation + 1));
        let held = |wanted: u64| {
            let keys = 100 * wanted..100 * (wanted + 1);
            keys.filter(|&number| reader.contains(key(number))).count()
        };
        assert_eq!(held(generation), 100);
        if generation > 0 {
            assert_eq!(held(generation - 1), 100);
        }
        if generation > 1 {
            assert!(held(generation - 2) < 5, "{generation}");
        }
        filter.rotate().unwrap();
    }
}

/// A file that is replaced is another one: what a reader has mapped stays as it is.
#[cfg(unix)]
#[test]
fn f102_a_replaced_file_is_a_new_inode() {
    use std::os::unix::fs::MetadataExt;

    let sample = sample("line");
    let (before, bytes) = (std::fs::metadata(sample.path()).unwrap(), sample.bytes());
    let reader = Reader::open(sample.path()).unwrap();
    let other = Options::new().geometry(Geometry::line(8, 3).unwrap()).replace(true);
    other.create(sample.path()).unwrap().close().unwrap();
    assert_ne!(std::fs::metadata(sample.path()).unwrap().ino(), before.ino());
    assert!(sample.bytes().len() < bytes.len());
    assert!((0..300).all(|number| reader.contains(key(number))));
}
