//! The sealed kind as files: what is built, how it is read, what is refused, what a repair leaves.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bloomfile::geometry::{Geometry, Layout, PAGE_BYTES};
use bloomfile::ops::{Readers, SetOperation, compare, repair};
use bloomfile::reader::Access;
use bloomfile::report::{Detail, Health, block_loads, explain, inspect, inspect_pages, verify};
use bloomfile::{Built, CellKind, Error, Filter, Options, ReadOptions, Reader};
use common::{Folder, random};

const PAGE: usize = PAGE_BYTES as usize;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn keys(count: u64) -> Vec<[u8; 8]> {
    (0..count).map(key).collect()
}

fn options() -> Options {
    Options::new().sealed(true).false_positive_rate(0.01)
}

fn build(options: &Options, path: &Path, keys: &[[u8; 8]]) -> Built {
    let mut builder = options.start_build(path).unwrap();
    builder.add_batch(keys);
    builder.finish().unwrap()
}

/// A file of `keys` keys.
fn file(folder: &Folder, count: u64) -> PathBuf {
    let path = folder.at(&format!("{count}.bloom"));
    let built = build(&options().replace(true), &path, &keys(count));
    assert_eq!((built.keys, built.maybe_pages), (count, 0));
    assert_eq!(built.file_bytes, std::fs::metadata(&path).unwrap().len());
    path
}

/// The share of absent keys that a reader reports.
fn reported(reader: &Reader, absent: u64) -> f64 {
    let absent: Vec<u64> = (0..absent).map(|at| random(77, at)).collect();
    let mut found = Vec::new();
    reader.contains_hash_batch(&absent, &mut found);
    found.iter().filter(|&&found| found).count() as f64 / absent.len() as f64
}

#[test]
fn every_reader_finds_every_key() {
    let folder = Folder::new();
    for count in [0, 1, 5, 1000, 5000, 200_000] {
        let path = file(&folder, count);
        let in_memory = ReadOptions::new().access(Access::Memory).open(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let readers = [
            Reader::open(&path).unwrap(),
            in_memory,
            ReadOptions::new().verify(true).open(&path).unwrap(),
            ReadOptions::new().trust(true).open(&path).unwrap(),
            Reader::from_bytes(bytes).unwrap(),
        ];
        for reader in readers {
            assert_eq!((reader.kind(), reader.health()), (CellKind::Sealed, Health::Clean));
            assert_eq!(reader.geometry().layout(), Layout::Sealed);
            assert_eq!(reader.adds(), count);
            let keys = keys(count);
            assert!(keys.iter().all(|key| reader.contains(key)), "{count} keys");
            assert!(keys.iter().take(1000).all(|key| reader.try_contains(key).unwrap()));
            let mut found = Vec::new();
            reader.contains_batch(&keys, &mut found);
            assert!(found.iter().all(|&found| found), "{count} keys in a batch");
            let rate = reported(&reader, 200_000);
            assert!(rate < 0.0115, "{rate} at {count} keys");
            // A page with few keys has columns to spare.
            assert_eq!(rate == 0.0, count <= 1000, "{rate} at {count} keys");
        }
    }
}

#[test]
fn many_files_are_asked_together_with_those_of_other_kinds() {
    let folder = Folder::new();
    let sealed = file(&folder, 3000);
    let other = folder.build("line", Geometry::line(8, 400).unwrap(), 2000..4000);
    let readers = Readers::open(&[sealed, other]).unwrap();
    assert_eq!(readers.which(key(10)), [0]);
    assert_eq!(readers.which(key(2500)), [0, 1]);
    assert_eq!(readers.which(key(3500)), [1]);
}

/// F-140: one segment, no journal, two slots that say the same and are clean.
#[test]
fn f140_a_sealed_file_has_no_journal_and_two_clean_slots() {
    let folder = Folder::new();
    let path = file(&folder, 20_000);
    let inspection = inspect(&path).unwrap();
    assert_eq!((inspection.journal_bytes, inspection.kind), (0, CellKind::Sealed));
    assert_eq!((inspection.segments.len(), inspection.health), (1, Health::Clean));
    let pages = inspection.segments[0].pages;
    let tables = 2 * support::table_bytes(pages as usize) as u64;
    assert_eq!(inspection.file_bytes, 3 * PAGE_BYTES + tables + pages * PAGE_BYTES);
    let mut bytes = std::fs::read(&path).unwrap();
    for slot in support::SLOTS {
        let state = support::field("slot", "state");
        assert_eq!(support::read(&bytes, slot + state.offset, 4), 1);
        // The other one alone is enough.
        let saved = bytes.clone();
        bytes[slot..slot + PAGE].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert!(Reader::open(&path).unwrap().contains(key(7)));
        bytes = saved;
    }
}

/// Order, repetitions, threads and memory do not matter.
#[test]
fn the_bytes_are_a_function_of_the_set_of_keys() {
    let folder = Folder::new();
    // Enough to be put aside twice with the least memory.
    let count = 7_000_000;
    let hashes: Vec<u64> = (0..count).map(|at| random(3, at)).collect();
    let mut shuffled: Vec<u64> = hashes.iter().rev().step_by(2).copied().collect();
    shuffled.extend(hashes.iter().step_by(2));
    shuffled.extend(&hashes[1000..300_000]);
    shuffled.extend(&hashes[..2]);
    assert!(shuffled.len() as u64 > count);
    let sorted = {
        let mut sorted = hashes.clone();
        sorted.sort_unstable();
        sorted
    };
    let mut first: Option<Vec<u8>> = None;
    for (order, hashes) in [&hashes, &shuffled, &sorted].into_iter().enumerate() {
        for (threads, memory) in [(1, 1 << 30), (2, 32 << 20), (3, 1 << 30), (5, 32 << 20)] {
            let path = folder.at("built.bloom");
            let options = options().memory(memory).replace(true);
            let mut builder = options.start_build(&path).unwrap();
            builder.set_threads(threads);
            // In batches of all sizes, and one by one.
            let (some, rest) = hashes.split_at(70_001);
            some.iter().take(1).for_each(|&hash| assert!(builder.add_hash(hash)));
            builder.add_hash_batch(&some[1..]);
            rest.chunks(1_234_567).for_each(|batch| {
                assert_eq!(builder.add_hash_batch(batch), batch.len() as u64);
            });
            assert_eq!(builder.adds(), hashes.len() as u64);
            let built = builder.finish().unwrap();
            assert_eq!((built.keys, built.plan.capacity()), (count, Some(count)));
            let bytes = std::fs::read(&path).unwrap();
            let first = first.get_or_insert_with(|| bytes.clone());
            assert!(*first == bytes, "order {order}, {threads} threads, {memory} bytes");
        }
    }
    let reader = Reader::from_bytes(first.unwrap()).unwrap();
    assert!(hashes.iter().all(|&hash| reader.contains_hash(hash)));
}

/// The digest follows from the keys as the bytes do, and tells files apart.
#[test]
#[cfg(feature = "digest")]
fn the_digest_is_that_of_the_contents() {
    let folder = Folder::new();
    let path = file(&folder, 30_000);
    let digest = bloomfile::ops::digest(&path).unwrap();
    let again = folder.at("again.bloom");
    let mut backwards = keys(30_000);
    backwards.reverse();
    build(&options().uuid([7; 16]).metadata("a", "b"), &again, &backwards);
    assert_eq!(bloomfile::ops::digest(&again).unwrap(), digest);
    assert_ne!(bloomfile::ops::digest(file(&folder, 30_001)).unwrap(), digest);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(bloomfile::ops::digest_bytes(&bytes).unwrap_err().is_damage());
}

/// A capacity that is given is the size, whatever comes; without one it follows from the keys.
#[test]
fn the_size_is_planned_or_counted() {
    let folder = Folder::new();
    let path = folder.at("sealed.bloom");
    let options = options().replace(true);
    let counted = build(&options, &path, &keys(100_000));
    assert_eq!(counted.plan, options.clone().capacity(100_000).plan().unwrap());
    let planned = build(&options.clone().capacity(200_000), &path, &keys(100_000));
    assert_eq!(planned.plan, options.clone().capacity(200_000).plan().unwrap());
    assert!(planned.plan.geometry().pages() > counted.plan.geometry().pages());
    let roomy = inspect(&path).unwrap();
    assert_eq!((roomy.capacity, roomy.keys().value), (Some(200_000), 100_000.0));
    assert!(roomy.rate_now() < 0.001 && roomy.rate_at_capacity().unwrap() > 0.009);
    // More than planned: the rate rises, and no key is lost.
    build(&options.clone().capacity(50_000), &path, &keys(100_000));
    let reader = Reader::open(&path).unwrap();
    assert!(keys(100_000).iter().all(|key| reader.contains(key)));
    let (told, measured) = (inspect(&path).unwrap().rate_now(), reported(&reader, 400_000));
    assert!((measured / told - 1.0).abs() < 0.05, "{measured} for {told}");
    assert!(told > 0.05);
    // Windows keeps a file that is mapped.
    drop(reader);

    build(&Options::new().geometry(Geometry::sealed(7).unwrap()).replace(true), &path, &keys(900));
    assert_eq!(inspect(&path).unwrap().segments[0].pages, 7);
}

#[test]
fn tiny_sets_are_one_page() {
    let folder = Folder::new();
    for count in [0, 1, 2, 1000, 4700] {
        let inspection = inspect(file(&folder, count)).unwrap();
        assert_eq!(inspection.segments[0].pages, 1, "{count} keys");
        assert_eq!(inspection.capacity, Some(count).filter(|&count| count != 0));
    }
}

#[test]
fn rates_are_those_that_were_asked_for() {
    let folder = Folder::new();
    let path = folder.at("sealed.bloom");
    for (rate, most_bits, absent) in [(0.1, 3.45, 400_000), (0.01, 6.95, 2_000_000)] {
        let options = options().false_positive_rate(rate).replace(true);
        build(&options, &path, &keys(2_000_000));
        let inspection = inspect(&path).unwrap();
        let sealed = inspection.segments[0].sealed.clone().unwrap();
        let measured = reported(&Reader::open(&path).unwrap(), absent);
        assert!(sealed.bits_per_key.unwrap() < most_bits, "{sealed:?}");
        assert!((inspection.rate_now() / rate - 1.0).abs() < 0.02, "{}", inspection.rate_now());
        assert!((measured / rate - 1.0).abs() < 0.04, "{measured} for {rate}");
        assert!(sealed.worst_page_rate > inspection.rate_now());
        assert!(sealed.worst_page_rate < 2.0 * inspection.rate_now());
        assert_eq!((sealed.maybe_pages, sealed.worst_page_keys), (0, sealed.most_keys));
        assert!(sealed.fewest_keys as f64 <= sealed.keys_per_page);
    }
    let loads = block_loads(&path).unwrap();
    assert_eq!(loads[0].blocks, inspect(&path).unwrap().segments[0].pages);
    assert_eq!(loads[0].bins.iter().map(|bin| bin.observed).sum::<u64>(), loads[0].blocks);
    let (mut pages, mut keys) = (0, 0);
    inspect_pages(&path, |page| {
        (pages, keys) = (pages + 1, keys + u64::from(page.ones));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((pages, keys), (loads[0].blocks, 2_000_000));
}

/// What writes is refused, with what to do instead.
#[test]
fn writers_and_operations_refuse_sealed_files() {
    let folder = Folder::new();
    let (sealed, other) = (file(&folder, 1000), file(&folder, 1001));
    let before = std::fs::read(&sealed).unwrap();
    let plain = folder.build("plain", Geometry::line(8, 100).unwrap(), 0..1000);
    let to = folder.at("to.bloom");
    let filter = Filter::open(&plain).unwrap();
    let reader = Reader::open(&sealed).unwrap();
    let operation = SetOperation::new();
    let refused = [
        Filter::open(&sealed).map(drop),
        operation.union(&[&sealed, &other], &to).map(drop),
        operation.union(&[&plain, &sealed], &to).map(drop),
        operation.intersection(&[&sealed, &other], &to).map(drop),
        operation.fold(&sealed, 1, &to).map(drop),
        compare(&sealed, &other).map(drop),
        filter.union_from(&reader).map(drop),
    ];
    for (at, result) in refused.into_iter().enumerate() {
        let error = result.expect_err(&format!("case {at}"));
        assert!(matches!(error.cause(), Error::Sealed { .. }), "case {at}: {error}");
        assert!(!error.is_bad_file());
        let text = error.to_string();
        assert!(text.contains("is sealed, and cannot be "), "{text}");
        assert!(text.ends_with("build a new file from all the keys"), "{text}");
    }
    assert_eq!(std::fs::read(&sealed).unwrap(), before);
    assert!(!to.exists());
    // A filter cannot be made before its keys are there.
    let error = options().capacity(9).create(&to).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kind cannot be sealed: nothing can be added to it, so that it is built from all of its keys \
         at once: use start_build"
    );
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let folder = Folder::new();
    let path = folder.at("none.bloom");
    let refused = [
        (options().kind(CellKind::Counting), "kind"),
        (options().rows(3).row_bits(9), "rows"),
        (options().grow(), "when full"),
        (options().generations(3), "generations"),
        (options().journal_bytes(1), "journal size"),
        (options().memory(1000), "memory"),
        (Options::new().capacity(9).false_positive_rate(0.1).memory(1 << 30), "memory"),
        (options().false_positive_rate(0.5), "false positive rate"),
        (options().false_positive_rate(1e-10), "false positive rate"),
        (options().kind(CellKind::Sealed).layout(Layout::Line), "layout"),
        (Options::new().sealed(true), "capacity"),
    ];
    for (options, expected) in refused {
        let Err(error) = options.start_build(&path) else { panic!("{expected} was taken") };
        assert!(matches!(error, Error::Parameter { name, .. } if name == expected), "{error}");
    }
    assert_eq!(folder.names(), Vec::<String>::new());
    // However it is said.
    for options in [options(), options().kind(CellKind::Sealed), options().layout(Layout::Sealed)] {
        let plan = options.capacity(9).plan().unwrap();
        assert_eq!(plan.geometry().cell_kind(), CellKind::Sealed);
    }
    let plain = options().sealed(false).capacity(9).plan().unwrap();
    assert_eq!(plan_of_default(), plain);
}

fn plan_of_default() -> bloomfile::Plan {
    Options::new().capacity(9).false_positive_rate(0.01).plan().unwrap()
}

/// Where a page of a file stands.
fn page_at(path: &Path, page: usize) -> usize {
    common::data_start(path) + page * PAGE
}

/// F-108, F-148: damage is a "maybe", never a "no".
#[test]
fn a_damaged_page_answers_maybe_until_it_is_repaired() {
    let folder = Folder::new();
    for (at, damage) in [(0, 1u8), (2, 0x10), (5, 0x80), (20, 1), (4095, 0xff)] {
        let path = file(&folder, 30_000);
        let whole = std::fs::read(&path).unwrap();
        let start = page_at(&path, 3);
        let mut bytes = whole.clone();
        bytes[start + at] ^= damage;
        std::fs::write(&path, &bytes).unwrap();

        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.stats().pages_checked, 0);
        let pages = reader.geometry().pages();
        let of_damaged = |hash: u64| reader.geometry().block(hash) == 3;
        let hashes = (0..2000).map(|at| random(5, at));
        let (damaged, sound): (Vec<u64>, Vec<u64>) = hashes.partition(|&hash| of_damaged(hash));
        let mut found = Vec::new();
        reader.contains_hash_batch(&damaged, &mut found);
        assert!(found.iter().all(|&found| found), "byte {at}");
        assert!(damaged.iter().all(|&hash| reader.contains_hash(hash)), "byte {at}");
        let error = reader.try_contains_hash(damaged[0]).unwrap_err();
        assert!(matches!(error.cause(), Error::Damaged { page: 3, count: 1, .. }), "{error}");
        let maybe = sound.iter().filter(|&&hash| reader.contains_hash(hash)).count();
        assert!(maybe < 60, "{maybe} of {}", sound.len());
        assert_eq!((reader.health(), reader.stats().pages_damaged), (Health::Damaged, 1));
        assert!((0..30_000).all(|number| reader.contains(key(number))));
        assert_eq!(reader.stats().pages_checked, pages - 1, "byte {at}");
        assert_eq!(verify(&path).unwrap().pages_damaged, [3]);
        let in_memory = ReadOptions::new().access(Access::Memory).open(&path).unwrap();
        assert!(damaged.iter().all(|&hash| in_memory.contains_hash(hash)), "byte {at}");
        assert!(ReadOptions::new().verify(true).open(&path).is_err());

        let keys_before = inspect(&path).unwrap().keys();
        let repaired = repair(&path).unwrap();
        assert_eq!((repaired.pages_repaired, repaired.pages), (vec![3], pages));
        assert_eq!((repaired.table_rebuilt, repaired.slot_rewritten), (false, false));
        assert!(repaired.rate_now > 1.0 / pages as f64);
        assert!(verify(&path).unwrap().is_sound());
        let inspection = inspect(&path).unwrap();
        assert_eq!((inspection.repaired_pages, inspection.keys()), (1, keys_before));
        let sealed = inspection.segments[0].sealed.clone().unwrap();
        assert_eq!((sealed.maybe_pages, sealed.worst_page, sealed.worst_page_rate), (1, 3, 1.0));
        let reader = ReadOptions::new().verify(true).open(&path).unwrap();
        assert!((0..30_000).all(|number| reader.contains(key(number))));
        assert!(damaged.iter().all(|&hash| reader.contains_hash(hash)));
        let after = std::fs::read(&path).unwrap();
        assert_eq!(after[start + PAGE..], whole[start + PAGE..], "the other pages stay");
        // Nothing is left to repair.
        assert!(repair(&path).unwrap().found_nothing());
        assert_eq!(std::fs::read(&path).unwrap(), after);
    }
}

/// A header that no build writes is damage, whatever its checksum says (F-148).
#[test]
fn f148_a_page_that_cannot_be_is_damaged_although_its_checksum_is_right() {
    let folder = Folder::new();
    let path = file(&folder, 30_000);
    let mut bytes = std::fs::read(&path).unwrap();
    let start = page_at(&path, 2);
    bytes[start + 2] ^= 1;
    let crc = crc32fast::hash(&bytes[start..start + PAGE]);
    let table = support::segment(&bytes).table;
    support::write(&mut bytes, table + 8 * 2, 4, crc.into());
    support::fix_table(&mut bytes);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(verify(&path).unwrap().pages_damaged, [2]);
    let reader = Reader::open(&path).unwrap();
    assert!((0..30_000).all(|number| reader.contains(key(number))));
    assert_eq!(repair(&path).unwrap().pages_repaired, [2]);
}

#[test]
fn a_damaged_table_or_slot_is_repaired() {
    let folder = Folder::new();
    let path = file(&folder, 100_000);
    let whole = std::fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    // The checksum that the table has of page 4.
    bytes[support::segment(&whole).table + 8 * 4] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(Reader::open(&path).unwrap_err().is_damage());
    let repaired = repair(&path).unwrap();
    assert_eq!((repaired.pages_repaired, repaired.table_rebuilt), (vec![4], true));
    let reader = ReadOptions::new().verify(true).open(&path).unwrap();
    assert!((0..100_000).all(|number| reader.contains(key(number))));
    // Windows lets no mapped file be written over.
    drop(reader);

    for slot in support::SLOTS {
        let mut bytes = whole.clone();
        bytes[slot + 100] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let repaired = repair(&path).unwrap();
        assert!(repaired.slot_rewritten && repaired.pages_repaired.is_empty());
        assert!(verify(&path).unwrap().is_sound());
        assert!(repair(&path).unwrap().found_nothing());
    }
}

/// Every byte has a meaning, page by page too.
#[test]
fn all_bytes_are_explained() {
    let folder = Folder::new();
    for count in [0, 1, 30_000] {
        let path = file(&folder, count);
        for detail in [Detail::Summary, Detail::Everything] {
            let (mut end, mut headers) = (0, 0);
            explain(&path, detail, |explained| {
                assert_eq!(explained.range.start, end);
                end = explained.range.end;
                headers += u64::from(explained.field.ends_with("header"));
                assert!(!explained.note.contains("wrong"), "{explained:?}");
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(end, std::fs::metadata(&path).unwrap().len());
            let pages = inspect(&path).unwrap().segments[0].pages;
            assert_eq!(headers, if detail == Detail::Everything { pages } else { 0 });
        }
    }
}

/// Hashes that all fall into few pages: some cannot be solved, which is told, and no key is lost.
#[test]
fn skewed_keys_give_maybe_pages_that_are_counted() {
    let folder = Folder::new();
    let path = folder.at("skewed.bloom");
    for (count, in_page, maybe) in [
        (10_000u64, 10_000u64, 0),
        (40_000, 40_000, 1),
        (100_000, 50_000, 2),
        (100_000, 100_000, 1),
    ] {
        let pages = 64;
        let geometry = Geometry::sealed(pages).unwrap();
        // The first of the hashes fall into page 0, the next into page 1 and so on.
        let hashes: Vec<u64> =
            (0..count).map(|at| at / in_page * (1 << 58) + (random(9, at) >> 6)).collect();
        let start = std::time::Instant::now();
        let options = Options::new().geometry(geometry).replace(true);
        let mut builder = options.start_build(&path).unwrap();
        builder.add_hash_batch(&hashes);
        let built = builder.finish().unwrap();
        let taken = start.elapsed();
        assert_eq!((built.keys, built.maybe_pages), (count, maybe), "{count}");
        // Far from the minutes of a search that does not give up, also on a busy machine.
        assert!(taken.as_secs() < 30, "{taken:?}");
        let reader = ReadOptions::new().verify(true).open(&path).unwrap();
        assert!(hashes.iter().all(|&hash| reader.contains_hash(hash)));
        let sealed = inspect(&path).unwrap().segments[0].sealed.clone().unwrap();
        assert_eq!(sealed.maybe_pages, maybe);
        assert_eq!(sealed.empty_pages, pages - count / in_page);
        assert_eq!(sealed.worst_page_keys, in_page);
        assert!(!reader.contains_hash(u64::MAX), "an empty page says no");
    }
}

/// One key, any number of times, takes no more memory than others, and is one.
#[test]
fn a_key_may_come_any_number_of_times() {
    let folder = Folder::new();
    let path = folder.at("one.bloom");
    let mut builder = options().memory(32 << 20).start_build(&path).unwrap();
    let many = vec![b"again"; 100_000];
    for _ in 0..60 {
        builder.add_batch(&many);
    }
    let built = builder.finish().unwrap();
    assert_eq!((built.keys, built.plan.geometry().pages()), (1, 1));
    assert!(Reader::open(&path).unwrap().contains("again"));
}

/// No key is lost, whatever their number. The whole of it, every number to 20,000, takes a minute:
///
/// ```text
/// cargo test --release --test sealed every_number -- --ignored
/// ```
fn numbers_of_keys(step: usize) {
    let folder = Folder::in_memory();
    let path = folder.at("sealed.bloom");
    for number in (0..=20_000).step_by(step) {
        let keys = keys(number as u64);
        let built = build(&options().replace(true), &path, &keys);
        assert_eq!((built.keys, built.maybe_pages), (number as u64, 0));
        let reader = Reader::open(&path).unwrap();
        let mut found = Vec::new();
        reader.contains_batch(&keys, &mut found);
        assert!(found.iter().all(|&found| found), "{number} keys in a batch");
        assert!(keys.iter().all(|key| reader.contains(key)), "{number} keys");
    }
}

#[test]
fn some_numbers_of_keys_lose_none() {
    numbers_of_keys(487);
}

#[test]
#[ignore = "takes a minute: every number of keys up to 20,000"]
fn every_number_of_keys_loses_none() {
    numbers_of_keys(1);
}

/// What is promised of size and rate, and that no key is lost:
///
/// ```text
/// cargo test --release --test sealed promised -- --ignored --nocapture
/// ```
#[test]
#[ignore = "takes minutes"]
fn what_is_promised_of_ten_million_keys() {
    let folder = Folder::new();
    let path = folder.at("sealed.bloom");
    let keys = keys(10_000_000);
    for (rate, most_bits, rounds) in
        [(0.01, 6.85, 40), (0.001, 10.25, 40), (1e-4, 13.75, 400), (1e-6, 20.7, 2000)]
    {
        build(&options().false_positive_rate(rate).replace(true), &path, &keys);
        let inspection = inspect(&path).unwrap();
        let bits = inspection.segments[0].sealed.as_ref().unwrap().bits_per_key.unwrap();
        let reader = ReadOptions::new().verify(true).open(&path).unwrap();
        let mut found = Vec::new();
        reader.contains_batch(&keys, &mut found);
        assert!(found.iter().all(|&found| found));
        let absent = rounds * 1_000_000;
        let mut positive = 0;
        for round in 0..rounds {
            let hashes: Vec<u64> = (0..1_000_000).map(|at| random(1000 + round, at)).collect();
            reader.contains_hash_batch(&hashes, &mut found);
            positive += found.iter().filter(|&&found| found).count() as u64;
        }
        let measured = positive as f64 / absent as f64;
        println!(
            "asked {rate}: {bits:.3} bits per key, told {:.4}, measured {:.4} times that over {absent}",
            inspection.rate_now() / rate,
            measured / rate
        );
        assert!(bits <= most_bits, "{bits}");
        assert!((inspection.rate_now() / rate - 1.0).abs() < 0.015);
        // What chance leaves of a count, three times its deviation, beside the 1.5 %.
        let noise = 3.0 / (rate * absent as f64).sqrt();
        assert!((measured / rate - 1.0).abs() < 0.015 + noise, "{measured}");
    }
}

/// 200 million keys in 512 MiB, and none of them lost. To be run alone, as the next one.
#[test]
#[ignore = "takes minutes, 2 GB of the temporary folder and the disk"]
fn two_hundred_million_keys() {
    let folder = Folder::new();
    let path = folder.at("sealed.bloom");
    let count = 200_000_000;
    let start = std::time::Instant::now();
    let memory = Memory::from_now_on();
    let mut builder = options().memory(512 << 20).start_build(&path).unwrap();
    let batch = |first: u64| (first..first + 1_000_000).map(|at| random(8, at)).collect::<Vec<_>>();
    for first in (0..count).step_by(1_000_000) {
        builder.add_hash_batch(&batch(first));
    }
    let built = builder.finish().unwrap();
    let peak = memory.map(|memory| memory.peak());
    println!("{:.1} ns per key, {peak:?} bytes", start.elapsed().as_nanos() as f64 / count as f64);
    assert_eq!((built.keys, built.maybe_pages), (count, 0));
    assert!(peak.is_none_or(|peak| peak < 512 << 20), "{peak:?}");
    let reader = Reader::open(&path).unwrap();
    let mut found = Vec::new();
    for first in (0..count).step_by(1_000_000) {
        reader.contains_hash_batch(&batch(first), &mut found);
        assert!(found.iter().all(|&found| found), "from {first} on");
    }
}

/// Where `memory` has room for all hashes, a build takes at most 9 bytes for each key. To be run alone:
/// it is the memory of the process that is told.
#[test]
#[ignore = "takes a minute and 2 GB of memory"]
fn nine_bytes_of_memory_per_key() {
    let folder = Folder::new();
    let count = 200_000_000;
    let Some(memory) = Memory::from_now_on() else {
        eprintln!("skipped: this system does not tell how much memory a process had");
        return;
    };
    let mut builder = options().memory(4 << 30).start_build(folder.at("sealed.bloom")).unwrap();
    for first in (0..count).step_by(1 << 17) {
        let hashes: Vec<u64> =
            (first..count.min(first + (1 << 17))).map(|at| random(8, at)).collect();
        builder.add_hash_batch(&hashes);
    }
    let built = builder.finish().unwrap();
    assert_eq!((built.keys, built.maybe_pages), (count, 0));
    let memory = memory.peak() as f64 / count as f64;
    println!("{memory:.2} bytes of memory per key");
    assert!(memory <= 9.0, "{memory} bytes per key");
}

/// Memory that a process takes from some moment on, beyond what it has then.
struct Memory {
    before: u64,
}

impl Memory {
    /// `None` where the system does not tell. Sets the peak back: tests that ran before had one too.
    fn from_now_on() -> Option<Self> {
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
        Some(Memory { before: Memory::figure("VmRSS:")? })
    }

    fn figure(label: &str) -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(label))?;
        Some(1024 * line.trim_end_matches("kB").trim().parse::<u64>().ok()?)
    }

    /// The most there was.
    fn peak(&self) -> u64 {
        Memory::figure("VmHWM:").unwrap().saturating_sub(self.before)
    }
}

const GOLDEN: &str = include_str!("golden/README.md");

/// Name, pages (0: as many as the keys need at 1 %), seed and number of keys of a golden file.
const SAMPLES: [(&str, u64, u64, u64); 4] = [
    ("sealed-empty", 1, 0, 0),
    ("sealed-one", 0, 0, 1),
    ("sealed-thousands", 0, 42, 20_000),
    ("sealed-maybe", 1, 0, 40_000),
];

fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.bloom"))
}

fn golden_key(number: u64) -> String {
    format!("key-{number}")
}

fn make_golden((_, pages, seed, count): (&str, u64, u64, u64), path: &Path) {
    let options = match pages {
        0 => options(),
        pages => Options::new().geometry(Geometry::sealed(pages).unwrap()),
    };
    let options = options
        .seed(seed)
        .uuid(*b"golden bloomfile")
        .metadata("keys", "key-0, key-1 …")
        .metadata("source", "tests/sealed.rs");
    let mut builder = options.start_build(path).unwrap();
    // Backwards, and some of them again: no byte depends on that.
    builder.extend((0..count).rev().chain(0..count / 3).map(golden_key));
    builder.finish().unwrap();
}

#[test]
fn golden_files_are_made_again_byte_for_byte() {
    let folder = Folder::new();
    for sample in SAMPLES {
        let path = folder.at(sample.0);
        make_golden(sample, &path);
        let (made, golden) =
            (std::fs::read(&path).unwrap(), std::fs::read(golden_path(sample.0)).unwrap());
        assert!(made == golden, "{}", sample.0);
    }
}

#[test]
fn golden_files_are_read_as_their_readme_says() {
    let rows = support::table(GOLDEN, "sealed files");
    assert_eq!(rows.len(), SAMPLES.len());
    for row in rows {
        let (name, path) = (row[0], golden_path(row[0]));
        let number = |at: usize| row[at].parse::<u64>().unwrap();
        let inspection = inspect(&path).unwrap();
        let segment = &inspection.segments[0];
        let sealed = segment.sealed.as_ref().unwrap();
        assert_eq!((segment.pages, inspection.seed), (number(1), number(2)), "{name}");
        assert_eq!((segment.adds, segment.ones), (number(3), number(3)), "{name}");
        assert_eq!(sealed.maybe_pages, number(4), "{name}");
        assert_eq!(inspection.metadata["source"], "tests/sealed.rs");
        assert!(verify(&path).unwrap().is_sound(), "{name}");
        let reader = Reader::open(&path).unwrap();
        assert!((0..number(3)).all(|number| reader.contains(golden_key(number))), "{name}");
        let absent = (0..1000).map(|number| format!("absent-{number}"));
        let reported: Vec<String> = absent.filter(|key| reader.contains(key)).collect();
        assert_eq!(reported.len() as u64, number(5), "{name}");
        assert_eq!(reported.first().map_or("none", String::as_str), row[6], "{name}");
    }
}

/// Writes golden files that are added; one that is there is never changed.
#[test]
#[ignore = "writes into the source tree: cargo test --test sealed write_missing -- --ignored"]
fn write_missing_golden_files() {
    for sample in SAMPLES {
        let path = golden_path(sample.0);
        if !path.exists() {
            make_golden(sample, &path);
        }
    }
}

/// Whatever byte is changed: an error, or no key is lost.
#[test]
fn every_byte_change_is_an_error_or_loses_no_key() {
    let whole = std::fs::read(golden_path("sealed-thousands")).unwrap();
    let keys: Vec<String> = (0..20_000).step_by(97).map(golden_key).collect();
    let (mut refused, mut taken) = (0, 0);
    // Every byte of headers, the table that counts and the pages' headers; one in 31 of the rest.
    let segment = support::segment(&whole);
    let all = |at: usize| {
        let data = at.checked_sub(segment.data).map(|at| at % PAGE);
        at < segment.table + 64 || data.is_some_and(|at| at < 24) || at.is_multiple_of(31)
    };
    for at in (0..whole.len()).filter(|&at| all(at)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        match Reader::from_bytes(&bytes) {
            Err(error) => {
                assert!(error.is_bad_file(), "byte {at}: {error}");
                refused += 1;
            }
            Ok(reader) => {
                assert!(keys.iter().all(|key| reader.contains(key)), "byte {at}");
                taken += 1;
            }
        }
    }
    println!("{refused} refused, {taken} read");
    assert!(refused > 4000 && taken > 400);
}

/// Fields at their limits, checksums made right: errors and answers, never a panic, and what a repair
/// leaves is sound.
#[test]
fn every_boundary_value_is_an_error_or_an_answer() {
    let folder = Folder::in_memory();
    let path = folder.at("hostile.bloom");
    let whole = std::fs::read(golden_path("sealed-thousands")).unwrap();
    let newest = support::newest_slot(&whole);
    let segment = support::segment(&whole);
    let mut places = Vec::new();
    for (structure, start) in [
        ("superblock", 0),
        ("slot", support::SLOTS[0]),
        ("slot", support::SLOTS[1]),
        ("segment", newest + support::SEGMENT_RECORDS),
    ] {
        for field in support::fields(structure) {
            places.push((start + field.offset, field.size.min(8)));
        }
    }
    for entry in 0..5 {
        places.push((segment.table + 8 * entry, 4));
        places.push((segment.table + 8 * entry + 4, 4));
        let page = segment.data + entry * PAGE;
        places.extend([(page, 2), (page + 2, 1), (page + 3, 1), (page + 11, 1), (page + 19, 1)]);
    }
    let mut sound = 0;
    for (at, size) in places {
        let old = support::read(&whole, at, size);
        let most = u64::MAX >> (64 - 8 * size);
        for value in [0, 1, 2, 5, 8, 31, 32, 1019, 1020, 0xffff, most, most / 2, old + 1, old ^ 8] {
            let mut bytes = whole.clone();
            support::write(&mut bytes, at, size, value & most);
            // From the inside out: pages, their entries, the table, slots and superblock.
            for page in 0..5 {
                let start = segment.data + page * PAGE;
                let crc = crc32fast::hash(&bytes[start..start + PAGE]);
                if at >= segment.data {
                    support::write(&mut bytes, segment.table + 8 * page, 4, crc.into());
                }
            }
            if at >= segment.table {
                support::fix_table_at(&mut bytes, newest, segment);
            }
            for start in [0, support::SLOTS[0], support::SLOTS[1]] {
                support::fix_header(&mut bytes, start);
            }
            if let Ok(reader) = Reader::from_bytes(&bytes) {
                sound += u64::from(reader.health() == Health::Clean);
                reader.contains(b"key-7");
                let mut found = Vec::new();
                reader.contains_hash_batch(&[0, 1, u64::MAX / 2, u64::MAX], &mut found);
            }
            let _ = bloomfile::report::inspect_bytes(&bytes);
            let _ = bloomfile::report::verify_bytes(&bytes);
            let _ = bloomfile::report::block_loads_bytes(&bytes);
            bloomfile::report::explain_bytes(&bytes, Detail::Everything, |_| {
                ControlFlow::Continue(())
            })
            .unwrap_or_default();
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(repaired) = repair(&path) {
                assert!(verify(&path).unwrap().is_as_written(), "{value} at {at}: {repaired:?}");
            }
        }
    }
    assert!(sound > 100, "{sound}");
}
