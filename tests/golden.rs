//! Golden files of version 1: read as their README says, and made again byte for byte.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};

use bloomfile::{
    CellKind, Filter, Key, Options, ReadOptions,
    geometry::Geometry,
    report::{Health, inspect, verify},
};
use support::*;

const README: &str = include_str!("golden/README.md");
const UUID: [u8; 16] = *b"golden bloomfile";

/// Keys of every file; the files of a writer session hold more.
const BUILT: std::ops::Range<u32> = 0..200;
const SYNCED: std::ops::Range<u32> = 200..230;
const UNSYNCED: std::ops::Range<u32> = 230..240;
/// Added behind the boundary of a checkpoint.
const CHECKPOINTED: std::ops::Range<u32> = 240..250;
const MARK: u64 = 77;

/// The secret of the keyed file: no secret at all.
const SECRET: [u8; 16] = *b"golden test key.";

/// How a file is read: the keyed one with its secret.
fn reading(name: &str) -> ReadOptions {
    match name {
        "keyed" => ReadOptions::new().key(&Key::from_bytes(SECRET)),
        _ => ReadOptions::new(),
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn options(geometry: Geometry) -> Options {
    with_metadata(Options::new().geometry(geometry))
}

fn with_metadata(options: Options) -> Options {
    options
        .uuid(UUID)
        .journal_bytes(0)
        .metadata("keys", "key-0, key-1 …")
        .metadata("source", "tests/golden.rs")
}

fn build(options: &Options, path: &Path) {
    let mut builder = options.start_build(path).unwrap();
    for number in BUILT {
        builder.add(key(number));
    }
    builder.finish().unwrap();
}

/// The name of a golden file and what makes it.
type Sample = (&'static str, fn(&Path));

/// Every golden file and how it is made.
fn golden() -> Vec<Sample> {
    vec![
        ("rows", |path| build(&options(Geometry::rows(3, 1000).unwrap()).capacity(200), path)),
        ("flat", |path| {
            build(&options(Geometry::flat(5, 2048).unwrap()).seed(42).capacity(200), path);
        }),
        ("page", |path| build(&options(Geometry::page(7, 2).unwrap()).seed(u64::MAX), path)),
        ("line", |path| build(&options(Geometry::line(8, 6).unwrap()), path)),
        ("session", |path| {
            let filter = start_session(path);
            add_all(&filter);
            filter.close().unwrap();
        }),
        ("crashed", |path| {
            let filter = start_session(path);
            let before = std::fs::read(path).unwrap();
            add_all(&filter);
            let mut crashed = std::fs::read(path).unwrap();
            filter.close().unwrap();
            // As after a power cut: what was synced is on the disk, the rest is as before.
            // The epoch is the third; its half begins with a link, and ends with the sync record here.
            let (data, first_unsynced) = (segment(&crashed).data, JOURNAL + PAGE + 32 * 16);
            crashed[data..].copy_from_slice(&before[data..]);
            crashed[first_unsynced..data].copy_from_slice(&before[first_unsynced..data]);
            let slot = newest_slot(&crashed);
            forget_boot(&mut crashed, slot);
            std::fs::write(path, crashed).unwrap();
        }),
        ("crashed-checkpoint", |path| {
            let filter = start_session(path);
            let before = std::fs::read(path).unwrap();
            add_all(&filter);
            let mut crashed = std::fs::read(path).unwrap();
            filter.checkpoint().unwrap();
            for number in CHECKPOINTED {
                filter.add(key(number)).unwrap();
            }
            filter.sync_with_mark(MARK + 1).unwrap();
            let after = std::fs::read(path).unwrap();
            filter.close().unwrap();
            // As after a power cut before the checkpoint had written anything but the journal.
            let segments = JOURNAL + 2 * PAGE;
            crashed[JOURNAL..segments].copy_from_slice(&after[JOURNAL..segments]);
            crashed[segments..].copy_from_slice(&before[segments..]);
            let slot = newest_slot(&crashed);
            forget_boot(&mut crashed, slot);
            std::fs::write(path, crashed).unwrap();
        }),
        ("counting", |path| {
            let options = options(Geometry::line(8, 6).unwrap()).journal_bytes(1);
            let filter = options.kind(CellKind::Counting).create(path).unwrap();
            (0..240).for_each(|number| assert!(filter.add(key(number)).is_ok()));
            filter.add(key(0)).unwrap();
            (200..240).for_each(|number| filter.remove(key(number)).unwrap());
            filter.close().unwrap();
        }),
        ("growing", |path| {
            let options = with_metadata(Options::new().capacity(60).false_positive_rate(0.1));
            let filter = options.grow().create(path).unwrap();
            (0..200).for_each(|number| assert!(filter.add(key(number)).is_ok()));
            assert_eq!(filter.segments(), 3);
            filter.close().unwrap();
        }),
        ("rotating", |path| {
            let options = options(Geometry::line(8, 6).unwrap()).generations(2);
            let filter = options.create(path).unwrap();
            filter.add(b"forgotten").unwrap();
            for half in [0..100, 100..200] {
                filter.rotate().unwrap();
                half.for_each(|number| assert!(filter.add(key(number)).is_ok()));
            }
            filter.close().unwrap();
        }),
        ("crashed-counting", |path| {
            let options = options(Geometry::line(8, 6).unwrap()).journal_bytes(1);
            let filter = options.kind(CellKind::Counting).create(path).unwrap();
            crash(filter, path, 200..210);
        }),
        ("crashed-growing", |path| {
            let options = with_metadata(Options::new().capacity(60).false_positive_rate(0.1));
            let filter = options.grow().journal_bytes(1).create(path).unwrap();
            crash(filter, path, SYNCED);
        }),
        ("keyed", |path| {
            let options = options(Geometry::line(8, 6).unwrap()).key(&Key::from_bytes(SECRET));
            build(&options, path);
        }),
    ]
}

/// Fills a file and closes it, then adds keys and syncs them, as a power cut leaves it: the journal
/// is on the disk, and what it says is not in the data.
fn crash(filter: Filter, path: &Path, synced: std::ops::Range<u32>) {
    BUILT.for_each(|number| assert!(filter.add(key(number)).is_ok()));
    filter.close().unwrap();
    let filter = Filter::open(path).unwrap();
    let before = std::fs::read(path).unwrap();
    synced.for_each(|number| assert!(filter.add(key(number)).unwrap(), "{number}"));
    filter.sync_with_mark(MARK).unwrap();
    let mut crashed = std::fs::read(path).unwrap();
    filter.close().unwrap();
    let segments = JOURNAL + 2 * PAGE;
    crashed[segments..].copy_from_slice(&before[segments..]);
    let slot = newest_slot(&crashed);
    forget_boot(&mut crashed, slot);
    std::fs::write(path, crashed).unwrap();
}

fn start_session(path: &Path) -> Filter {
    build(&options(Geometry::line(8, 6).unwrap()).journal_bytes(1), path);
    Filter::open(path).unwrap()
}

fn add_all(filter: &Filter) {
    for number in SYNCED {
        // Each is new, so that the journal holds one record for each.
        assert!(filter.add(key(number)).unwrap(), "{number}");
    }
    filter.sync_with_mark(MARK).unwrap();
    for number in UNSYNCED {
        filter.add(key(number)).unwrap();
    }
}

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.bloom"))
}

/// Salts are random from the first slot of a session on (F-23), and so are the checks of the
/// records that they go into, and the boot in which it was: nothing else may differ.
fn without_random_salts(mut bytes: Vec<u8>) -> Vec<u8> {
    let features = read(&bytes, field("superblock", "incompatible").offset, 4);
    if features != 0 {
        return without_salts(bytes);
    }
    let sequence = field("slot", "sequence");
    // Each slot takes over what the one before it foretold (F-23).
    let random = [(3, "salt_after_next"), (4, "next_salt"), (5, "salt")];
    for slot in SLOTS {
        forget_boot(&mut bytes, slot);
        let number = read(&bytes, slot + sequence.offset, sequence.size);
        for (_, name) in random.iter().filter(|&&(first, _)| number >= first) {
            let Field { offset, size, .. } = field("slot", name);
            write(&mut bytes, slot + offset, size, 0);
            fix_header(&mut bytes, slot);
        }
    }
    bytes
}

/// As above, for a file that was created rather than built: its first salt is random as well.
fn without_salts(mut bytes: Vec<u8>) -> Vec<u8> {
    for slot in SLOTS {
        forget_boot(&mut bytes, slot);
        for name in ["salt", "next_salt", "salt_after_next"] {
            let Field { offset, size, .. } = field("slot", name);
            write(&mut bytes, slot + offset, size, 0);
        }
        fix_header(&mut bytes, slot);
    }
    let journal = read(&bytes, field("superblock", "journal_bytes").offset, 8) as usize;
    bytes[JOURNAL..JOURNAL + journal].fill(0);
    bytes
}

#[test]
fn files_are_made_again_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    for (name, make) in golden() {
        let path = folder.path().join(name);
        make(&path);
        let made = without_random_salts(std::fs::read(&path).unwrap());
        let golden = without_random_salts(std::fs::read(path_of(name)).unwrap());
        let differs = made.iter().zip(&golden).position(|(made, golden)| made != golden);
        assert_eq!(differs, None, "{name}: first different byte");
        assert_eq!(made.len(), golden.len(), "{name}");
    }
}

/// What it takes to read version 1 (F-122).
#[test]
fn files_are_read_as_their_readme_says() {
    let rows = table(README, "files");
    assert_eq!(rows.len(), golden().len());
    for row in rows {
        let name = row[0];
        let path = path_of(name);
        let number = |at: usize| -> u64 { row[at].parse().unwrap() };
        let inspection = inspect(&path).unwrap();
        let segment = &inspection.segments[0];
        let geometry = &segment.geometry;
        assert_eq!(geometry.layout().name(), row[1], "{name}");
        let numbers = [geometry.row_count().into(), geometry.blocks(), geometry.row_cells()];
        assert_eq!(numbers, [number(2), number(3), number(4)], "{name}");
        assert_eq!(inspection.seed, number(5), "{name}");
        assert_eq!(inspection.journal_bytes, number(6), "{name}");
        assert_eq!((segment.adds, segment.ones), (number(7), number(8)), "{name}");
        assert_eq!(inspection.mark, number(9), "{name}");
        assert_eq!(inspection.uuid, "676f6c64-656e-2062-6c6f-6f6d66696c65");
        assert_eq!(inspection.metadata["source"], "tests/golden.rs");
        assert_eq!(inspection.metadata["keys"], "key-0, key-1 …");
        let health = if name.starts_with("crashed") { Health::Crashed } else { Health::Clean };
        assert_eq!(inspection.health, health, "{name}");

        let verification = verify(&path).unwrap();
        assert!(verification.is_sound(), "{name}");
        assert_eq!(verification.pages_exact, verification.pages, "{name}");

        for reader in
            [reading(name).open(&path).unwrap(), reading(name).verify(true).open(&path).unwrap()]
        {
            let missing = (0..number(10) as u32).find(|&number| !reader.contains(key(number)));
            assert_eq!(missing, None, "{name}");
            let reported: Vec<String> = (0..1000)
                .map(|number| format!("absent-{number}"))
                .filter(|absent| reader.contains(absent.as_bytes()))
                .collect();
            assert_eq!(reported.len() as u64, number(11), "{name}");
            assert_eq!(reported.first().map_or("none", String::as_str), row[12], "{name}");
        }
    }
}

#[test]
fn a_writer_goes_on_from_a_golden_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, _) in golden() {
        let path = folder.path().join(name);
        std::fs::copy(path_of(name), &path).unwrap();
        let filter = match name {
            "keyed" => Filter::open_with_key(&path, &Key::from_bytes(SECRET)).unwrap(),
            _ => Filter::open(&path).unwrap(),
        };
        assert_eq!(filter.recovery().is_some(), name.starts_with("crashed"), "{name}");
        if let Some(recovery) = filter.recovery() {
            let (records, mark) = match name {
                "crashed-counting" => (10, MARK),
                "crashed-checkpoint" => (CHECKPOINTED.end - SYNCED.start, MARK + 1),
                _ => (30, MARK),
            };
            let found = (recovery.records_replayed, recovery.mark);
            assert_eq!(found, (records.into(), mark), "{name}");
            assert_eq!((recovery.records_missing, recovery.pages_unverifiable), (0, 0));
        }
        filter.add(b"one more").unwrap();
        filter.close().unwrap();
        let reader = reading(name).open(&path).unwrap();
        assert!(reader.contains(b"one more"));
        assert!(BUILT.map(key).all(|key| reader.contains(&key)), "{name}");
    }
}

/// Writes golden files: only those that are added. Changing one that is there breaks
/// every file in the world.
#[test]
#[ignore = "writes into the source tree: cargo test --test golden -- --ignored"]
fn write_missing_golden_files() {
    for (name, make) in golden() {
        let path = path_of(name);
        if !path.exists() {
            make(&path);
        }
    }
}

/// What other tests write into journals are records that writers write: each record of a file that
/// a crash left comes out of what it says.
#[test]
fn f72_the_records_of_crashed_files_are_made_again() {
    // Of each file, the changes that are in its journal, and its syncs.
    for (name, changes, syncs) in [
        ("crashed", 30, 1),
        ("crashed-checkpoint", 50, 3),
        ("crashed-counting", 10, 1),
        ("crashed-growing", 30, 1),
    ] {
        let bytes = std::fs::read(path_of(name)).unwrap();
        let journal = Journal::of(&bytes, newest_slot(&bytes));
        let mut found = [0; 3];
        for index in 0..journal.records() {
            let record = &bytes[journal.offset(index)..][..journal.record_bytes];
            let again = |note: bool| {
                let mut again = record.to_vec();
                let last = again.len() - 8;
                let mask = read(record, last, 8) & journal.mask();
                write(&mut again, last, 8, mask);
                journal.fix(index, &mut again, note);
                again == record
            };
            let mask = read(record, journal.record_bytes - 8, 8) & journal.mask();
            match (again(false), again(true)) {
                (true, _) if mask != 0 => found[0] += 1,
                (true, _) => found[1] += 1,
                (_, true) => found[2] += 1,
                _ => {}
            }
        }
        println!("{name}: {found:?}");
        assert_eq!(found[..2], [changes, syncs], "{name}");
        // At least the link.
        assert!(found[2] > 0, "{name}");
    }
}
