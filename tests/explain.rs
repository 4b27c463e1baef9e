//! `explain`: every byte of every file has a meaning, damaged or not.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(missing_docs, reason = "tests")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bloomfile::{
    CellKind, Error, Options,
    report::{Detail, Explained, explain},
};

const GOLDEN: [&str; 7] =
    ["rows", "flat", "page", "line", "session", "crashed", "crashed-checkpoint"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.bloom"))
}

/// Explains a file and asserts that nothing is left out, told twice or not known.
fn explained(path: &Path, detail: Detail) -> Vec<Explained> {
    let mut all: Vec<Explained> = Vec::new();
    explain(path, detail, |explained| {
        all.push(explained);
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut end = 0;
    for explained in &all {
        assert_eq!(explained.range.start, end, "{explained:?}");
        end = explained.range.end;
        for text in [&explained.structure, &explained.field, &explained.value, &explained.note] {
            assert!(!text.is_empty() && !text.contains("unknown bytes"), "{explained:?}");
        }
    }
    assert_eq!(end, std::fs::metadata(path).unwrap().len());
    all
}

fn find<'a>(all: &'a [Explained], structure: &str, field: &str) -> &'a Explained {
    all.iter()
        .find(|explained| explained.structure == structure && explained.field == field)
        .unwrap_or_else(|| panic!("no {structure}, {field} in {all:#?}"))
}

/// What is said to be wrong, as structure and field.
fn wrong(all: &[Explained]) -> Vec<(&str, &str)> {
    all.iter()
        .filter(|explained| explained.note.contains("wrong") || explained.note.contains("but the"))
        .map(|explained| (explained.structure.as_str(), explained.field.as_str()))
        .collect()
}

#[test]
fn every_byte_of_the_golden_files_is_explained() {
    for name in GOLDEN {
        for detail in [Detail::Summary, Detail::Everything] {
            let all = explained(&golden(name), detail);
            assert_eq!(wrong(&all), [], "{name}");
            assert_eq!(find(&all, "superblock", "version").value, "1");
            let uuid = &find(&all, "superblock", "uuid").value;
            assert_eq!(uuid, "676f6c64-656e-2062-6c6f-6f6d66696c65");
            assert!(all.iter().any(|explained| explained.value == "source = tests/golden.rs"));
        }
    }
}

#[test]
fn a_crashed_file_shows_its_journal() {
    let all = explained(&golden("crashed"), Detail::Summary);
    let counts: Vec<&str> = all
        .iter()
        .filter(|explained| explained.structure.contains("(counts)") && explained.field == "state")
        .map(|explained| explained.value.as_str())
        .collect();
    assert_eq!(counts, ["2"], "one slot counts, and it is open");
    let records = find(&all, "journal, half 1", "records 0–31");
    assert_eq!(records.value, "30 key records, 1 sync records, last mark 77");
    assert!(records.note.contains("recovery replays them (F-90)"));
    let all = explained(&golden("crashed"), Detail::Everything);
    assert!(
        find(&all, "journal, half 1, record 1", "value").note.starts_with("key record, mask 0b")
    );
    assert!(
        find(&all, "journal, half 1, record 31", "value").note.starts_with("sync record, mark 77")
    );
    // The same session, closed: no record is left (F-88).
    let all = explained(&golden("session"), Detail::Summary);
    assert_eq!(find(&all, "journal, half 1", "records 0–255").value, "zeros");
}

#[test]
fn damage_is_said_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.bloom");
    let sound = std::fs::read(golden("crashed")).unwrap();
    let crc = "crc";
    let cases: [(usize, &[(&str, &str)]); 6] = [
        (3, &[("superblock", crc)]),
        (100, &[("superblock", crc)]),
        (4096 + 60, &[("slot 0 (damaged)", crc)]),
        // The newest slot: the journal shows that it is lost.
        (8192 + 90, &[("slot 1 (damaged)", crc), ("journal, half 1", "records 0")]),
        // Free space in the journal.
        (12288 + 4096 + 16 * 40, &[]),
        (sound.len() - 1, &[("segment 0, data", "pages 0")]),
    ];
    for (offset, expected) in cases {
        let mut bytes = sound.clone();
        bytes[offset] ^= 0x40;
        if offset == sound.len() - 1 {
            // Bits lost, which nothing but damage does.
            bytes[sound.len() - 4096..].fill(0);
        }
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(wrong(&explained(&path, Detail::Summary)), expected, "byte {offset}");
    }
}

#[test]
fn a_missing_record_is_told_from_free_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hole.bloom");
    let mut bytes = std::fs::read(golden("crashed")).unwrap();
    bytes[12288 + 4096 + 16 * 5] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let all = explained(&path, Detail::Summary);
    assert!(find(&all, "journal, half 1", "records 5").note.starts_with("missing"));
}

#[test]
fn files_cut_anywhere_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.bloom");
    for name in ["crashed", "rows"] {
        let bytes = std::fs::read(golden(name)).unwrap();
        for length in (8..bytes.len()).step_by(509).chain([4096, 12287, bytes.len() - 1]) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            for detail in [Detail::Summary, Detail::Everything] {
                explained(&path, detail);
            }
        }
        let mut longer = bytes.clone();
        longer.extend([7; 100]);
        std::fs::write(&path, longer).unwrap();
        let all = explained(&path, Detail::Summary);
        assert_eq!(wrong(&all), [("behind the last segment", "all")]);
    }
}

/// Random bytes over random places: whatever they make of the numbers in the headers, the walk
/// ends and leaves nothing out.
#[test]
fn files_damaged_anywhere_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.bloom");
    let sound = std::fs::read(golden("crashed")).unwrap();
    let mut state = 0x5eed_u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for round in 0..300 {
        let mut bytes = sound.clone();
        for _ in 0..1 + round % 40 {
            let at = random() % 13_000;
            bytes[at] = random() as u8;
        }
        // With checksums made right again, the values are taken seriously.
        if round % 3 == 0 {
            for start in [0, 4096, 8192] {
                let crc = crc32fast::hash(&bytes[start..start + 4092]);
                bytes[start + 4092..start + 4096].copy_from_slice(&crc.to_le_bytes());
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        for detail in [Detail::Summary, Detail::Everything] {
            explained(&path, detail);
        }
    }
}

#[test]
fn a_file_that_is_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, "sheep\n").unwrap();
    let error =
        explain(&path, Detail::Summary, |_| ControlFlow::Continue(())).unwrap_err().into_cause();
    assert!(matches!(error, Error::NotABloomfile { .. }), "{error}");
}

#[test]
fn a_listener_may_stop() {
    let mut told = 0;
    explain(golden("rows"), Detail::Everything, |_| {
        told += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(told, 1);
}

#[test]
fn many_pages_are_told_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.bloom");
    let mut builder =
        Options::new().capacity(1_000_000).false_positive_rate(0.01).start_build(&path);
    builder.as_mut().unwrap().add(b"key");
    builder.unwrap().finish().unwrap();
    let all = explained(&path, Detail::Summary);
    assert!(all.len() < 90, "{}", all.len());
    assert_eq!(find(&all, "segment 0, data", "pages 0–309").note, "as their entries say (F-60)");
    assert!(explained(&path, Detail::Everything).len() > 900);
}

/// Counting, growing and rotating files, closed and as a crash leaves them.
#[test]
fn every_kind_of_file_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::new().capacity(2000).false_positive_rate(0.01).journal_bytes(1 << 16);
    for (name, options) in [
        ("counting", options().kind(CellKind::Counting)),
        ("growing", options().grow()),
        ("rotating", options().generations(2).rotate_after(2000)),
    ] {
        let path = folder.path().join(name);
        let filter = options.create(&path).unwrap();
        for key in 0..7000u32 {
            filter.add(key.to_le_bytes()).unwrap();
        }
        filter.sync_with_mark(5).unwrap();
        for key in 7000..7050u32 {
            filter.add(key.to_le_bytes()).unwrap();
        }
        filter.sync_with_mark(6).unwrap();
        let crashed = folder.path().join(format!("{name}-crashed"));
        std::fs::copy(&path, &crashed).unwrap();
        filter.close().unwrap();
        for path in [&path, &crashed] {
            for detail in [Detail::Summary, Detail::Everything] {
                let all = explained(path, detail);
                assert_eq!(wrong(&all), [], "{name}");
                let has = |what: &str| all.iter().any(|part| part.structure.contains(what));
                assert_eq!(has("segment 1, data"), name != "counting", "{name}");
                assert_eq!(has("spare region"), name == "rotating", "{name}");
            }
        }
        let all = explained(&crashed, Detail::Summary);
        let records = all.iter().find(|part| part.note.contains("recovery replays them"));
        let records = records.unwrap_or_else(|| panic!("{name}: {all:#?}"));
        assert!(records.value.ends_with("last mark 6"), "{name}: {}", records.value);
        let change = if name == "counting" { " change records, " } else { " key records, " };
        assert!(records.value.contains(change), "{name}: {}", records.value);
    }
}
