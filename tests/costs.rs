//! Small files that say they are large: what a file takes of the program that opens it is bounded by the
//! bytes that are really there (F-39).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use bloomfile::{
    Error, Filter, Options, ReadOptions, Reader,
    geometry::Geometry,
    ops::{SetOperation, repair},
    parts::Join,
    reader::Access,
    report::{Detail, explain, inspect, verify},
};
use support::*;
use tempfile::TempDir;

/// An empty line filter of 2^28 pages, 1 TiB, with the smallest journal.
const PAGES: u64 = 1 << 28;

/// Where its data starts: headers, journal, two tables.
const DATA: u64 = BASE + 2 * 8 * PAGES;

/// Where its segment starts: behind headers and journal.
const BASE: u64 = 5 * PAGE as u64;

/// The headers of a file with a line geometry of `pages` pages, as its last slot `state` says, and
/// a CRC of its table.
fn headers(pages: u64, state: u64, table_crc: u64) -> Vec<u8> {
    headers_with(2 * PAGE as u64, pages, state, table_crc, 0)
}

/// As [`headers`], with a journal of this length and a sum of ones.
fn headers_with(journal: u64, pages: u64, state: u64, table_crc: u64, ones: u64) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/session.bloom");
    let mut bytes = std::fs::read(source).unwrap();
    bytes.truncate(JOURNAL);
    let set = |bytes: &mut [u8], start: usize, structure: &str, name: &str, value: u64| {
        let field = field(structure, name);
        write(bytes, start + field.offset, field.size, value);
    };
    set(&mut bytes, SUPERBLOCK, "superblock", "journal_bytes", journal);
    let slot = newest_slot(&bytes);
    let record = slot + SEGMENT_RECORDS;
    let table_bytes = table_bytes(pages as usize) as u64;
    let base = JOURNAL as u64 + journal;
    let end = base + 2 * table_bytes + pages * PAGE as u64;
    for (name, value) in [
        ("layout", 4),
        ("rows", 8),
        ("blocks", 64 * pages),
        ("row_cells", 64),
        ("offset", base),
        ("table", 0),
        ("table_crc", table_crc),
        ("ones", ones),
    ] {
        set(&mut bytes, record, "segment", name, value);
    }
    set(&mut bytes, slot, "slot", "file_bytes", end);
    set(&mut bytes, slot, "slot", "state", state);
    fix_header(&mut bytes, SUPERBLOCK);
    fix_header(&mut bytes, slot);
    bytes
}

/// A file of a few blocks that is 1 TiB long.
fn sparse(folder: &TempDir, state: u64) -> PathBuf {
    let path = folder.path().join("sparse");
    std::fs::write(&path, headers(PAGES, state, 0)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(DATA + PAGES * PAGE as u64).unwrap();
    path
}

/// A journal that takes a tenth of a second whenever it is read.
const LONG_JOURNAL: u64 = 1 << 27;

/// A file that a crash left, with a journal that is a hole, and with pages whose entries are all
/// `entry`. Its data are a hole, or have one bit in each page.
fn crashed(
    folder: &TempDir,
    journal_bytes: u64,
    pages: u64,
    entry: [u64; 2],
    bits: bool,
) -> PathBuf {
    let path = folder.path().join("crashed");
    let mut table = vec![0; table_bytes(pages as usize)];
    for page in 0..pages as usize {
        write(&mut table, 8 * page, 4, entry[0]);
        write(&mut table, 8 * page + 4, 4, entry[1]);
    }
    let crc = crc32fast::hash(&table).into();
    let bytes = headers_with(journal_bytes, pages, 2, crc, pages * entry[1]);
    let file = File::create(&path).unwrap();
    let put = |bytes: &[u8], offset: u64| file.write_all_at(bytes, offset).unwrap();
    put(&bytes, 0);
    let base = JOURNAL as u64 + journal_bytes;
    put(&table, base);
    let data = base + 2 * table.len() as u64;
    file.set_len(data + pages * PAGE as u64).unwrap();
    if bits {
        (0..pages).for_each(|page| put(&[1], data + page * PAGE as u64));
    }
    let blocks = std::fs::metadata(&path).unwrap().blocks();
    assert!(bits || blocks < 400, "{blocks} blocks");
    path
}

/// What an operation returns, unless it does not come to an end; it takes milliseconds.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    let limit = Duration::from_secs(20);
    receiver.recv_timeout(limit).unwrap_or_else(|_| panic!("{what} does not come to an end"))
}

/// How many ranges an explanation has; each begins where the one before it ends.
fn explained(path: &Path, detail: Detail) -> u64 {
    let (mut ranges, mut end) = (0, 0);
    explain(path, detail, |explained| {
        assert_eq!(explained.range.start, end, "{explained:?}");
        ranges += 1;
        end = explained.range.end;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(end, std::fs::metadata(path).unwrap().len());
    ranges
}

#[test]
fn f39_a_sparse_terabyte_is_refused_at_once() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for state in [1, 2] {
        let path = sparse(&folder, state);
        let refused = |what: &str, work: fn(&Path) -> bloomfile::Result<()>| {
            let path = path.clone();
            let error = soon(what, move || work(&path)).unwrap_err().into_cause();
            assert!(matches!(error, Error::PageEntry { page: 0, .. }), "{what}: {error}");
        };
        refused("inspect", |path| inspect(path).map(drop));
        refused("verify", |path| verify(path).map(drop));
        refused("open", |path| Reader::open(path).map(drop));
        refused("strict open", |path| ReadOptions::new().verify(true).open(path).map(drop));
        refused("write", |path| Filter::open(path).map(drop));
        let blocks = std::fs::metadata(&path).unwrap().blocks();
        assert!(blocks < 200, "{blocks} blocks were allocated");
        for detail in [Detail::Summary, Detail::Everything] {
            let path = path.clone();
            let ranges = soon("explain", move || explained(&path, detail));
            assert!(ranges < 500, "{ranges} ranges");
        }
    }
}

/// A part of a few blocks that says it is one of 1 TiB: no disk is asked for room for it.
#[test]
fn f39_a_sparse_part_is_refused_before_room_is_made_for_it() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, output) = (folder.path().join("part"), folder.path().join("joined"));
    let geometry = Geometry::line(8, 64 * PAGES).unwrap();
    let mut bytes = Options::new().geometry(geometry).plan_parts(1).unwrap().to_bytes().unwrap();
    for (name, value) in [("part", 1), ("pages", PAGES)] {
        let field = field("part header", name);
        write(&mut bytes, field.offset, field.size, value);
    }
    // Its table is a hole: its entries are none that a page can have.
    let length = bytes.len() as u64 + 8 * PAGES + PAGES * PAGE as u64;
    for (entries, page) in [(0, 0), (1000, 1000)] {
        let mut bytes = bytes.clone();
        fix_header(&mut bytes, 0);
        for _ in 0..entries {
            bytes.extend([0xc71c_0011_u32.to_le_bytes(), [0; 4]].as_flattened());
        }
        std::fs::write(&path, &bytes).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        let (part, joined) = (path.clone(), output.clone());
        let error = soon("join", move || Join::new().run(&[part], joined)).unwrap_err();
        assert_eq!(error.path(), Some(&*path), "{error}");
        let error = error.into_cause();
        let told = matches!(error, Error::PageEntry { page: found, .. } if found == page);
        assert!(told && !output.exists(), "{error}");
    }
}

/// Each page says that it has lost a bit, and nothing of the journal explains it.
#[test]
fn f39_many_damaged_pages_do_not_read_a_long_journal_each() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pages = 10_000;
    let path = crashed(&folder, LONG_JOURNAL, pages, [1, 1], false);
    for locked in [false, true] {
        // Any program that can read the file can take a lock (F-107).
        let file = File::open(&path).unwrap();
        if locked {
            file.try_lock().unwrap();
        }
        let memory = || ReadOptions::new().access(Access::Memory);
        let (of, damaged) = (path.clone(), pages);
        let reader = soon("open in memory", move || memory().open(of)).unwrap();
        assert_eq!(reader.stats().pages_damaged, damaged);
        assert!(reader.contains(b"key"));
        let of = path.clone();
        let error = soon("strict open", move || ReadOptions::new().verify(true).open(of));
        let error = error.map(drop).unwrap_err().into_cause();
        assert!(matches!(error, Error::Damaged { page: 0, lost: true, .. }), "{error}");
        let of = path.clone();
        let found = soon("verify", move || verify(of)).unwrap();
        assert_eq!(found.pages_damaged.len() as u64, damaged);
    }
    // Each of them is in a page of its own, most of the time.
    let damaged = soon("many look-ups", move || {
        let reader = Reader::open(&path).unwrap();
        assert!((0..1000u32).all(|key| reader.contains(key.to_le_bytes())));
        reader.stats().pages_damaged
    });
    assert!(damaged > 800, "{damaged}");
}

/// After a power cut a page may have more bits than are explained, which ends no operation.
#[test]
fn f39_many_pages_that_cannot_be_verified_do_not_read_a_long_journal_each() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = crashed(&folder, LONG_JOURNAL, 12_000, [0xc71c_0011, 0], true);
    let (of, out) = (path.clone(), folder.path().join("merged"));
    soon("merge", move || SetOperation::new().union(&[&of], out)).unwrap();
    assert_eq!(verify(&path).unwrap().pages_unverifiable.len(), 12_000);
}

/// A record near the end of a half says that five at its start were durable; these are not there.
#[test]
fn f39_what_is_missing_in_a_long_journal_is_not_searched_for_in_holes() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = crashed(&folder, 2 * LONG_JOURNAL, 3, [0xc71c_0011, 0], false);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut headers = vec![0; JOURNAL];
    file.read_exact_at(&mut headers, 0).unwrap();
    let slot = newest_slot(&headers);
    let journal = Journal::of(&headers, slot);
    let (half, epoch) = (journal.records() / 2, field("slot", "epoch"));
    let first = half * (read(&headers, slot + epoch.offset, epoch.size) as usize % 2);
    let mut confirmation = [0; 16];
    write(&mut confirmation, 0, 8, 5);
    journal.fix(first + half - 2, &mut confirmation, true);
    file.write_all_at(&confirmation, journal.offset(first + half - 2) as u64).unwrap();
    let of = path.clone();
    let error = soon("open", move || Reader::open(of).map(drop)).unwrap_err().into_cause();
    assert!(matches!(error, Error::Journal { .. }), "{error}");
    let repaired = soon("repair", move || repair(path)).unwrap();
    assert_eq!(repaired.pages_repaired, [0, 1, 2]);
    assert!(repaired.records_lost);
}

#[test]
fn f39_headers_that_say_much_of_a_short_file_are_explained_at_once() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("short");
    // The most pages that a geometry can have, and the highest offsets.
    for (pages, offset) in [(1 << 37, BASE), (1 << 37, u64::MAX - 4095), (1, u64::MAX)] {
        let mut bytes = headers(pages, 1, 0);
        let slot = newest_slot(&bytes);
        let field = field("segment", "offset");
        write(&mut bytes, slot + SEGMENT_RECORDS + field.offset, 8, offset);
        fix_header(&mut bytes, slot);
        bytes.resize(BASE as usize, 0);
        std::fs::write(&path, bytes).unwrap();
        for detail in [Detail::Summary, Detail::Everything] {
            let path = path.clone();
            let ranges = soon("explain", move || explained(&path, detail));
            assert!(ranges < 500, "{ranges} ranges");
        }
        assert!(Reader::open(&path).is_err_and(|error| error.is_bad_file()));
    }
}

#[test]
fn f64_entries_that_no_page_can_have_are_refused_everywhere() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("entries");
    let empty = [0xc71c_0011u64, 0];
    // The last of 3 pages has cells for 10 lines only.
    for (page, [crc, ones], possible) in [
        (0, empty, true),
        (1, [0xc71c_0011, 1], true),
        (1, [1, 0], false),
        (1, [0, 0], false),
        (1, [1, 32_769], false),
        (1, [1, 32_768], true),
        (2, [1, 5_121], false),
        (2, [1, 5_120], true),
        (2, [1, u32::MAX.into()], false),
    ] {
        let mut bytes = headers(3, 1, 0);
        let slot = newest_slot(&bytes);
        let blocks = field("segment", "blocks");
        write(&mut bytes, slot + SEGMENT_RECORDS + blocks.offset, 8, 2 * 64 + 10);
        bytes.resize(BASE as usize + 2 * table_bytes(3) + 3 * PAGE, 0);
        let segment = segment(&bytes);
        for number in 0..3 {
            let [crc, ones] = if number == page { [crc, ones] } else { empty };
            write(&mut bytes, segment.table + 8 * number, 4, crc);
            write(&mut bytes, segment.table + 8 * number + 4, 4, ones);
        }
        fix_table_at(&mut bytes, slot, segment);
        std::fs::write(&path, &bytes).unwrap();
        let what = format!("page {page}: crc {crc:#x}, ones {ones}");
        let refused = |error: Error| {
            let error = error.into_cause();
            let entry =
                matches!(error, Error::PageEntry { page: found, .. } if found == page as u64);
            // The sum in the slot may be more than there are cells, which is judged before.
            entry || matches!(error, Error::Field { field: "segment ones", .. })
        };
        let opened = Reader::open(&path).map(drop);
        assert_eq!(opened.is_ok(), possible, "{what}: {opened:?}");
        assert!(opened.err().is_none_or(refused), "{what}");
        assert_eq!(inspect(&path).is_ok(), possible, "{what}");
        let sound = verify(&path).is_ok_and(|verification| verification.is_sound());
        assert_eq!(sound, [crc, ones] == empty, "{what}");
        assert_eq!(Filter::open(&path).is_ok(), sound, "{what}");
        let mut told = false;
        explain(&path, Detail::Summary, |explained| {
            told |= explained.note.contains("F-64");
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(told, !possible, "{what}");
    }
}
