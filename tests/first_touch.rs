//! Readers check a page when an answer first rests on it: damage makes "maybe", never "no", and a
//! writer at work is never taken for damage (F-108).

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bloomfile::{
    CellKind, Error, Filter, Options, ReadOptions, Reader,
    geometry::Geometry,
    reader::Access,
    report::{Health, inspect},
};
use common::{Folder, below, random, write_at};

const PAGE: u64 = 4096;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn denied(reader: &Reader, keys: u64) -> u64 {
    (0..keys).filter(|&number| !reader.contains(key(number))).count() as u64
}

/// Where the pages of all segments in use are, and how many the segment of each has.
fn pages_of(path: &Path) -> Vec<(u64, u64)> {
    let segments = inspect(path).unwrap().segments;
    let of_segment = |segment: &bloomfile::report::SegmentInspection| {
        let (start, pages) = (segment.offset + segment.table_bytes, segment.pages);
        (0..pages).map(move |page| (start + page * PAGE, pages)).collect::<Vec<_>>()
    };
    segments.iter().flat_map(of_segment).collect()
}

fn pages(path: &Path) -> Vec<u64> {
    pages_of(path).into_iter().map(|(offset, _)| offset).collect()
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    write_at(&file, bytes, offset);
}

#[test]
fn f108_the_last_40_kb_of_100_000_keys_zeroed_deny_none() {
    const KEYS: u64 = 100_000;
    let folder = Folder::new();
    let path = folder.at("keys.bloom");
    let filter = Options::new().capacity(KEYS).false_positive_rate(0.01).create(&path).unwrap();
    for number in 0..KEYS {
        filter.add(key(number)).unwrap();
    }
    filter.close().unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    overwrite(&path, length - 40_000, &[0; 40_000]);

    let trusting = ReadOptions::new().trust(true).open(&path).unwrap();
    let lost = denied(&trusting, KEYS);
    assert!(lost > 25_000, "what a check saves from: {lost}");
    assert_eq!(trusting.health(), Health::Clean);

    for access in [Access::Mapped, Access::Memory] {
        let reader = ReadOptions::new().access(access).open(&path).unwrap();
        assert_eq!(denied(&reader, KEYS), 0, "{access:?}");
        assert_eq!(reader.health(), Health::Damaged, "{access:?}");
        let stats = reader.stats();
        assert_eq!(stats.pages_damaged, 10, "{stats:?}");
        let errors = (0..KEYS).filter(|&number| match reader.try_contains(key(number)) {
            Ok(found) => {
                assert!(found);
                false
            }
            Err(error) => {
                assert_eq!(error.path(), Some(&*path), "{error}");
                let Error::Damaged { page, .. } = error.cause() else { panic!("{error}") };
                assert!(*page >= stats.pages - 10, "page {page}");
                true
            }
        });
        let errors = errors.count() as u64;
        println!("{access:?}: {lost} keys would have been denied, {errors} errors");
        assert_eq!(reader.damage().unwrap().path(), Some(&*path), "{access:?}");
        assert!(errors >= lost, "{access:?}: {errors}");
        // Batches answer alike, and pages that are sound still deny.
        let numbers: Vec<[u8; 8]> = (0..2 * KEYS).map(key).collect();
        let mut found = Vec::new();
        let fresh = ReadOptions::new().access(access).open(&path).unwrap();
        fresh.contains_batch(&numbers, &mut found);
        assert!(found[..KEYS as usize].iter().all(|&found| found), "{access:?}");
        let absent = found[KEYS as usize..].iter().filter(|&&found| !found).count();
        assert!(absent > KEYS as usize / 2, "{access:?}: {absent} of the absent keys are denied");
        assert_eq!(fresh.health(), Health::Damaged);
    }
    let refused = ReadOptions::new().verify(true).open(&path).unwrap_err().into_cause();
    assert!(matches!(refused, Error::Damaged { count: 10, .. }), "{refused}");
    let refused = ReadOptions::new()
        .verify(true)
        .access(Access::Memory)
        .open(&path)
        .unwrap_err()
        .into_cause();
    assert!(matches!(refused, Error::Damaged { count: 10, .. }), "{refused}");
}

/// Files of every kind and layout, of a few pages each.
fn kinds() -> Vec<(String, Options)> {
    let mut kinds = Vec::new();
    for kind in [CellKind::Plain, CellKind::Counting] {
        for (name, geometry) in [
            ("line", Geometry::line(8, 200).unwrap()),
            ("line of 4 rows", Geometry::line(4, 200).unwrap()),
            ("page", Geometry::page(7, 3).unwrap()),
            ("rows", Geometry::rows(5, 40_000).unwrap()),
            ("flat", Geometry::flat(5, 150_000).unwrap()),
        ] {
            kinds.push((format!("{kind:?} {name}"), Options::new().geometry(geometry).kind(kind)));
        }
    }
    let rate = || Options::new().false_positive_rate(0.001);
    kinds.push(("growing".into(), rate().capacity(1_000).grow()));
    kinds.push(("rotating".into(), rate().capacity(3_000).generations(2)));
    kinds
}

const KEYS: u64 = 2_500;

/// A file of a kind with [`KEYS`] keys in it, in several segments if it has them.
fn filled(path: &Path, options: &Options) -> Filter {
    let filter = options.create(path).unwrap();
    for number in 0..KEYS {
        if number == KEYS / 2 && inspect(path).unwrap().generations.is_some() {
            filter.rotate().unwrap();
        }
        filter.add(key(number)).unwrap();
    }
    filter.sync().unwrap();
    filter
}

/// Readers of both kinds see the damage of one page, deny nothing, and deny what other pages know.
fn see_damage(path: &Path, pages: u64, what: &str) {
    for access in [Access::Mapped, Access::Memory] {
        let reader = ReadOptions::new().access(access).open(path).unwrap();
        assert_eq!(denied(&reader, KEYS), 0, "{what}, {access:?}");
        let absent = (1 << 40..(1 << 40) + 2_000).filter(|&n| !reader.contains(key(n))).count();
        // A segment of one page has nothing else to say "no" with.
        assert!(absent > 0 || pages == 1, "{what}, {access:?}: all is maybe");
        let errors = (0..KEYS).filter(|&n| reader.try_contains(key(n)).is_err()).count();
        assert!(errors > 0, "{what}, {access:?}: no error");
        assert_eq!(reader.health(), Health::Damaged, "{what}, {access:?}");
        assert_eq!(reader.stats().pages_damaged, 1, "{what}, {access:?}");
    }
}

#[test]
fn f108_every_page_damaged_in_turn_denies_nothing() {
    let folder = Folder::new();
    for (name, options) in kinds() {
        let path = folder.at(&name);
        filled(&path, &options).close().unwrap();
        let whole = std::fs::read(&path).unwrap();
        for (number, (offset, pages)) in pages_of(&path).into_iter().enumerate() {
            let page = &whole[offset as usize..][..PAGE as usize];
            if page.iter().all(|&byte| byte == 0) {
                continue;
            }
            overwrite(&path, offset, &[0; PAGE as usize]);
            see_damage(&path, pages, &format!("{name}, page {number}, zeros"));
            let noise: Vec<u8> = (0..PAGE).map(|at| random(offset, at) as u8).collect();
            overwrite(&path, offset, &noise);
            see_damage(&path, pages, &format!("{name}, page {number}, random"));
            overwrite(&path, offset, page);
        }
        let reader = Reader::open(&path).unwrap();
        assert_eq!(denied(&reader, KEYS), 0, "{name}");
        (0..KEYS).for_each(|number| assert!(reader.try_contains(key(number)).unwrap(), "{name}"));
        assert_eq!((reader.health(), reader.stats().pages_damaged), (Health::Clean, 0), "{name}");
    }
}

/// After as many rotations as there are regions the same ones are in use again, with other keys in them:
/// a reader that was not asked in between checks their pages as if it had never seen them.
#[test]
fn f108_a_reader_that_was_idle_for_a_whole_turn_checks_pages_again() {
    const GENERATIONS: u64 = 2;
    let folder = Folder::new();
    let path = folder.at("rotating.bloom");
    let options = Options::new().false_positive_rate(0.001).capacity(3_000);
    let filter = filled(&path, &options.generations(GENERATIONS));
    filter.close().unwrap();
    for turns in 1..=2 {
        let reader = Reader::open(&path).unwrap();
        assert_eq!(denied(&reader, KEYS), 0);
        let absent = (1 << 40..(1 << 40) + 5_000).filter(|&number| !reader.contains(key(number)));
        assert!(absent.count() > 4_900);
        assert_eq!(reader.stats().pages_checked, reader.stats().pages);
        let filter = Filter::open(&path).unwrap();
        for _ in 0..turns * (GENERATIONS + 1) {
            filter.rotate().unwrap();
            (0..KEYS).for_each(|number| assert!(filter.add(key(number)).is_ok()));
        }
        filter.close().unwrap();
        let whole = std::fs::read(&path).unwrap();
        pages(&path).into_iter().for_each(|page| overwrite(&path, page, &[0; PAGE as usize]));
        assert_eq!(denied(&reader, KEYS), 0, "{turns} turns");
        assert_eq!(reader.health(), Health::Damaged, "{turns} turns");
        std::fs::write(&path, whole).unwrap();
    }
}

/// Of a file left open by a crash, with its records in the journal.
#[test]
fn f108_damage_of_a_crashed_or_live_file_denies_nothing_that_was_synced() {
    let folder = Folder::new();
    for (name, options) in kinds() {
        for live in [false, true] {
            let path = folder.at(&format!("{name}, live: {live}"));
            let made = folder.at("made.bloom");
            let writer = filled(&made, &options.clone().replace(true));
            let bytes = std::fs::read(&made).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            let lock = std::fs::File::open(&path).unwrap();
            if live {
                lock.lock().unwrap();
            }
            let sound = Reader::open(&path).unwrap();
            assert_eq!(denied(&sound, KEYS), 0, "{name}");
            (0..KEYS).for_each(|number| assert!(sound.try_contains(key(number)).unwrap()));
            assert_eq!(sound.stats().pages_damaged, 0, "{name}: {:?}", sound.stats());
            drop(writer);
            let page = pages(&path)
                .into_iter()
                .rfind(|&at| bytes[at as usize..][..PAGE as usize].iter().any(|&byte| byte != 0));
            // What no record explains goes, and what one does.
            overwrite(&path, page.unwrap(), &[0; 2048]);
            let reader = Reader::open(&path).unwrap();
            assert_eq!(denied(&reader, KEYS), 0, "{name}, live: {live}");
        }
    }
}

#[test]
fn f108_a_page_that_was_repaired_is_believed_again() {
    let folder = Folder::new();
    let path = folder.at("keys.bloom");
    filled(&path, &Options::new().geometry(Geometry::line(8, 200).unwrap())).close().unwrap();
    overwrite(&path, pages(&path)[1], &[0; PAGE as usize]);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(denied(&reader, KEYS), 0);
    assert_eq!(reader.health(), Health::Damaged);
    bloomfile::ops::repair(&path).unwrap();
    (0..KEYS).for_each(|number| assert!(reader.try_contains(key(number)).unwrap()));
    assert_eq!((reader.health(), reader.stats().pages_damaged), (Health::Clean, 0));
}

/// Says to a process that it is a child of a test, on which file it works and in which way.
const FILE: &str = "BLOOMFILE_TEST_FILE";
const WAY: &str = "BLOOMFILE_TEST_WAY";

/// How a writer treats its file.
const WAYS: [&str; 7] =
    ["journal", "full journal", "no journal", "counting", "growing", "rotating", "reopening"];

fn way_options(way: &str) -> Options {
    // More than the child adds on a fast machine: a full filter says "maybe" as a damaged one does.
    let options = Options::new().capacity(4_000_000).false_positive_rate(0.01);
    match way {
        "full journal" => options.journal_bytes(4096),
        "no journal" => options.journal_bytes(0),
        "counting" => options.capacity(1_000_000).kind(CellKind::Counting),
        "growing" => options.capacity(2_000).grow(),
        "rotating" => options.capacity(20_000).generations(3),
        _ => options,
    }
}

/// The child: writes without end, and says after each sync how far it is.
#[test]
#[ignore = "started by another test as a process of its own"]
fn writes_until_killed() {
    let (Ok(path), Ok(way)) = (std::env::var(FILE), std::env::var(WAY)) else { return };
    let mut filter = Filter::open(&path).unwrap();
    let mut out = std::io::stdout().lock();
    for round in 0u64.. {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let filter = &filter;
                scope.spawn(move || {
                    for number in 0..20 {
                        filter.add(key(round * 60 + thread * 20 + number)).unwrap();
                    }
                });
            }
        });
        match round % 16 {
            7 => filter.checkpoint().unwrap(),
            11 if way == "rotating" => filter.rotate().unwrap(),
            13 if way == "reopening" => {
                filter.close().unwrap();
                filter = Filter::open(&path).unwrap();
            }
            _ => filter.sync().unwrap(),
        }
        writeln!(out, "synced {round}").unwrap();
        out.flush().unwrap();
    }
}

fn child(path: &Path, way: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_killed", "--ignored", "--nocapture"])
        .env(FILE, path)
        .env(WAY, way)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn f108_a_live_writer_in_another_process_is_never_taken_for_damage() {
    let folder = Folder::new();
    let length = Duration::from_millis(1500);
    for way in WAYS {
        let path = folder.at(way);
        way_options(way).create(&path).unwrap().close().unwrap();
        let mut child = child(&path, way);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("synced")), "{way}");
        // What it says is read on, so that it never waits.
        let drain = std::thread::spawn(move || lines.count());
        let start = Instant::now();
        let mut opened = 0;
        let (mut asked, mut maybe, mut unverifiable) = (0u64, 0u64, 0);
        let mut reader = Reader::open(&path).unwrap();
        while start.elapsed() < length {
            if asked % 200_000 == 0 {
                opened += 1;
                reader = Reader::open(&path).unwrap();
                let copy = ReadOptions::new().access(Access::Memory).open(&path);
                if let Ok(copy) = copy {
                    assert_eq!(copy.stats().pages_damaged, 0, "{way}, in memory");
                }
                let verified = ReadOptions::new().verify(true).open(&path).unwrap();
                assert_ne!(verified.health(), Health::Damaged, "{way}, verified");
            }
            for _ in 0..10_000 {
                let absent = key(below(7, asked, 1 << 40) | 1 << 50);
                maybe += u64::from(reader.contains(absent));
                asked += 1;
            }
            let stats = reader.stats();
            assert_eq!(stats.pages_damaged, 0, "{way}: {stats:?} after {asked}");
            assert_ne!(reader.health(), Health::Damaged, "{way}");
            unverifiable = unverifiable.max(stats.pages_unverifiable);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let rounds = drain.join().unwrap();
        println!(
            "{way}: {rounds} rounds; {opened} readers opened, {asked} look-ups, {maybe} maybe, \
             at most {unverifiable} pages not verifiable, none damaged; {:?}",
            reader.stats()
        );
        assert!(maybe < asked / 4, "{way}: {maybe} of {asked}");
        // The killed writer's file as well.
        let crashed = Reader::open(&path).unwrap();
        let maybe = (0..20_000).filter(|number| crashed.contains(key(number | 1 << 50))).count();
        assert!(maybe < 5_000, "{way}, killed: {maybe}");
        assert_eq!(crashed.stats().pages_damaged, 0, "{way}, killed: {:?}", crashed.stats());
    }
}
