//! Deltas: what they lead to, byte for byte, over all kinds and histories; what is refused; what they
//! take (F-160 to F-170).

#![cfg(feature = "digest")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod support;

use std::path::Path;

use bloomfile::geometry::Geometry;
use bloomfile::ops::{DeltaOperation, SetOperation, apply_delta_bytes, digest, inspect_delta};
use bloomfile::{CellKind, Error, Filter, Key, Options, ReadOptions, Reader, report::verify};
use common::{Folder, below, random};
use sha2::{Digest as _, Sha256};

fn key(number: u64) -> [u8; 8] {
    random(7, number).to_le_bytes()
}

fn add(path: &Path, keys: std::ops::Range<u64>) {
    let filter = Filter::open(path).unwrap();
    keys.for_each(|number| assert!(filter.add(key(number)).is_ok()));
    filter.close().unwrap();
}

/// A name and options that make a file of some kind.
type Kind = (&'static str, Options);

/// Every layout and kind that takes keys.
fn kinds() -> Vec<Kind> {
    let of = |geometry| Options::new().geometry(geometry);
    let planned = || Options::new().capacity(500).false_positive_rate(0.01);
    let mut kinds = Vec::new();
    for (name, geometry) in [
        ("line", Geometry::line(8, 3_000).unwrap()),
        ("line of one row", Geometry::line(1, 700).unwrap()),
        ("line of 32 rows", Geometry::line(32, 700).unwrap()),
        ("page", Geometry::page(7, 40).unwrap()),
        ("page of one row", Geometry::page(1, 3).unwrap()),
        ("rows", Geometry::rows(5, 70_001).unwrap()),
        ("flat", Geometry::flat(3, 100_003).unwrap()),
    ] {
        kinds.push((name, of(geometry)));
        kinds.push((name, of(geometry).kind(CellKind::Counting)));
    }
    kinds.push(("growing", planned().grow()));
    kinds.push(("growing counting", planned().grow().kind(CellKind::Counting)));
    kinds.push(("rotating", planned().generations(3)));
    kinds.push(("rotating counting", planned().generations(3).kind(CellKind::Counting)));
    kinds.push(("keyed", planned().key(&Key::from_bytes(*b"0123456789abcdef"))));
    kinds
}

fn open(path: &Path) -> Filter {
    match Filter::open(path) {
        Err(error) if matches!(error.cause(), Error::KeyNeeded { .. }) => {
            Filter::open_with_key(path, &Key::from_bytes(*b"0123456789abcdef")).unwrap()
        }
        filter => filter.unwrap(),
    }
}

/// A version and one after it, of any kind: the delta leads from the one to a clean copy of the other,
/// to the last byte, whatever else happened to the old one.
#[test]
fn f163_a_delta_leads_to_one_file_byte_for_byte() {
    let operation = DeltaOperation::new().replace(true);
    for (name, options) in kinds() {
        let folder = Folder::new();
        let [old, new, delta] = ["old", "new", "delta"].map(|name| folder.at(name));
        let filter = options.clone().replace(true).metadata("note", "kept").create(&new).unwrap();
        let counting = filter.kind() == CellKind::Counting;
        let rotating = name.starts_with("rotating");
        filter.close().unwrap();
        for version in 0..7u64 {
            std::fs::copy(&new, &old).unwrap();
            let filter = open(&new);
            let from = version * 400;
            // The last version changes nothing but what stands in the headers.
            if version < 6 {
                (from..from + 400).for_each(|number| assert!(filter.add(key(number)).is_ok()));
            }
            if counting {
                (from..from + 200).for_each(|number| drop(filter.remove(key(number))));
            }
            if rotating && version % 2 == 1 {
                filter.rotate().unwrap();
            }
            filter.set_metadata("version", Some(&version.to_string())).unwrap();
            filter.sync_with_mark(version + 1).unwrap();
            filter.close().unwrap();

            let made = operation.make(&old, &new, &delta).unwrap();
            assert_eq!(made, inspect_delta(&delta).unwrap(), "{name}");
            assert_eq!(made.old_digest, digest(&old).unwrap(), "{name}");
            assert_eq!(made.new_digest, digest(&new).unwrap(), "{name}");
            assert_eq!(made.bytes, std::fs::metadata(&delta).unwrap().len(), "{name}");
            let journal = bloomfile::report::inspect(&new).unwrap().journal_bytes;
            let copied = operation.clean_copy(&new, folder.at("copy"), journal, |_| ()).unwrap();
            assert_eq!(copied, made.new_digest, "{name}");
            assert_eq!(operation.apply(&delta, &old, folder.at("result")).unwrap(), made, "{name}");
            let [result, copy] =
                ["result", "copy"].map(|name| std::fs::read(folder.at(name)).unwrap());
            assert!(result == copy, "{name}: version {version}: other bytes");
            let [old_bytes, delta_bytes] = [&old, &delta].map(|path| std::fs::read(path).unwrap());
            let in_memory = apply_delta_bytes(&delta_bytes, &old_bytes, copy.len() as u64).unwrap();
            assert!(in_memory == copy, "{name}: version {version}: other bytes in memory");
            let cut = &delta_bytes[..delta_bytes.len() - 1];
            let cut = apply_delta_bytes(cut, &old_bytes, u64::MAX);
            assert!(matches!(cut, Err(Error::DamagedDelta { .. })), "{name}");
            assert!(verify(folder.at("result")).unwrap().is_sound(), "{name}");
            // A copy of it is the same file again, and so is a delta of its own.
            operation.clean_copy(folder.at("copy"), folder.at("again"), journal, |_| ()).unwrap();
            assert!(std::fs::read(folder.at("again")).unwrap() == copy, "{name}");
            // In place of the old file, which may have other headers than when the delta was made.
            let filter = open(&old);
            filter.set_metadata("another", Some("pair")).unwrap();
            filter.close().unwrap();
            operation.apply(&delta, &old, &old).unwrap();
            assert!(std::fs::read(&old).unwrap() == copy, "{name}");
        }
    }
}

/// Versions that live in memory and in a journal: what a delta says of them is what they hold.
#[test]
fn f160_live_and_crashed_files_count_with_their_journal() {
    let folder = Folder::new();
    let [old, live, crashed] = ["old", "live", "crashed"].map(|name| folder.at(name));
    for counting in [false, true] {
        let options = Options::new().geometry(Geometry::line(8, 500).unwrap()).replace(true);
        let kind = if counting { CellKind::Counting } else { CellKind::Plain };
        options.kind(kind).create(&live).unwrap().close().unwrap();
        std::fs::copy(&live, &old).unwrap();
        let filter = Filter::open(&live).unwrap();
        (0..300).for_each(|number| assert!(filter.add(key(number)).is_ok()));
        filter.sync_with_mark(99).unwrap();
        std::fs::copy(&live, &crashed).unwrap();
        let operation = DeltaOperation::new().replace(true);
        for new in [&live, &crashed] {
            let made = operation.make(&old, new, folder.at("delta")).unwrap();
            operation.apply(folder.at("delta"), &old, folder.at("result")).unwrap();
            let result = ReadOptions::new().verify(true).open(folder.at("result")).unwrap();
            assert!((0..300).all(|number| result.contains(key(number))));
            assert_eq!((result.mark(), made.new_digest), (99, digest(&live).unwrap()));
        }
        // And a crashed file is one to start from.
        for number in 300..400 {
            filter.add(key(number)).unwrap();
        }
        filter.close().unwrap();
        operation.make(&crashed, &live, folder.at("delta")).unwrap();
        operation.apply(folder.at("delta"), &crashed, folder.at("result")).unwrap();
        assert_eq!(digest(folder.at("result")).unwrap(), digest(&live).unwrap());
    }
}

fn sealed(path: &Path, keys: std::ops::Range<u64>) {
    let options = Options::new().geometry(Geometry::sealed(6).unwrap()).sealed(true).replace(true);
    let mut builder = options.start_build(path).unwrap();
    for number in keys {
        builder.add(key(number));
    }
    builder.finish().unwrap();
}

/// Sealed pages are held whole.
#[test]
fn f168_sealed_files() {
    let folder = Folder::new();
    let [old, new] = ["old", "new"].map(|name| folder.at(name));
    sealed(&old, 0..9_000);
    sealed(&new, 0..9_100);
    let operation = DeltaOperation::new();
    let made = operation.make(&old, &new, folder.at("delta")).unwrap();
    assert_eq!((made.chunks, made.chunks_of_pages), (1, 1));
    operation.apply(folder.at("delta"), &old, folder.at("result")).unwrap();
    assert_eq!(digest(folder.at("result")).unwrap(), digest(&new).unwrap());
    assert!(verify(folder.at("result")).unwrap().is_sound());
    let result = Reader::open(folder.at("result")).unwrap();
    assert!((0..9_100).all(|number| result.contains(key(number))));
}

/// Files that hold other cells for a key, and files of other sizes.
#[test]
fn f162_only_versions_of_one_file_have_a_delta() {
    let folder = Folder::new();
    let line = |blocks| Options::new().geometry(Geometry::line(8, blocks).unwrap());
    let at = |name: &str| folder.at(name);
    line(100).create(at("old")).unwrap().close().unwrap();
    let others = [
        ("kind", line(100).kind(CellKind::Counting)),
        ("shape", line(100).generations(2)),
        ("secret key", line(100).key(&Key::from_bytes([1; 16]))),
        ("seed", line(100).seed(1)),
        ("geometry", line(101)),
    ];
    for (wanted, options) in others {
        options.replace(true).create(at("new")).unwrap().close().unwrap();
        let error = DeltaOperation::new().make(at("old"), at("new"), at("delta")).unwrap_err();
        let Error::Incompatible { parameter, .. } = error.cause() else { panic!("{error}") };
        assert_eq!(*parameter, wanted);
        assert!(!at("delta").exists());
    }
}

fn expect_refused(result: Result<impl std::fmt::Debug, Error>, folder: &Folder) -> Error {
    assert!(!folder.at("result").exists());
    result.unwrap_err()
}

/// A delta for another version or file, one that is no delta, and every bit of one flipped: refused,
/// and nothing is made.
#[test]
fn f169_what_does_not_fit_or_is_damaged_is_refused() {
    let folder = Folder::in_memory();
    let at = |name: &str| folder.at(name);
    let options = || Options::new().geometry(Geometry::line(8, 100).unwrap());
    options().create(at("old")).unwrap().close().unwrap();
    std::fs::copy(at("old"), at("new")).unwrap();
    add(&at("new"), 0..30);
    let operation = DeltaOperation::new().replace(true);
    operation.make(at("old"), at("new"), at("delta")).unwrap();
    let apply = |file: &str| operation.apply(at("delta"), at(file), at("result"));

    let error = expect_refused(apply("new"), &folder);
    assert!(matches!(error.cause(), Error::OtherVersion { .. }), "{error}");
    assert_eq!(error.path(), Some(at("new").as_path()));
    options().seed(3).create(at("other")).unwrap().close().unwrap();
    let error = expect_refused(apply("other"), &folder);
    assert!(matches!(error.cause(), Error::OtherVersion { parameter: "seed", .. }), "{error}");
    let error = operation.apply(at("old"), at("old"), at("result")).unwrap_err();
    assert!(matches!(error.cause(), Error::NotADelta { .. }), "{error}");
    assert!(
        error.to_string().ends_with("is not a delta: it is a filter; check the path"),
        "{error}"
    );
    // A live file whose table does not tell: its cells do.
    let live = Filter::open(at("old")).unwrap();
    live.add("another").unwrap();
    let error = expect_refused(apply("old"), &folder);
    assert!(matches!(error.cause(), Error::OtherVersion { parameter: "digest", .. }), "{error}");
    live.close().unwrap();
    std::fs::copy(at("new"), at("old")).unwrap();
    add(&at("new"), 30..60);
    operation.make(at("old"), at("new"), at("delta")).unwrap();

    let good = std::fs::read(at("delta")).unwrap();
    for bit in 0..8 * good.len() {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(at("delta"), bytes).unwrap();
        let error = expect_refused(apply("old"), &folder);
        let known = matches!(
            error.cause(),
            Error::DamagedDelta { .. } | Error::NotADelta { .. } | Error::Version { .. }
        );
        assert!(known, "bit {bit}: {error}");
        inspect_delta(at("delta")).unwrap_err();
    }
    for length in 0..good.len() {
        std::fs::write(at("delta"), &good[..length]).unwrap();
        expect_refused(apply("old"), &folder);
    }
    std::fs::write(at("delta"), [&good[..], &[0]].concat()).unwrap();
    expect_refused(apply("old"), &folder);
    std::fs::write(at("delta"), &good).unwrap();
    apply("old").unwrap();
}

/// Pages of a delta whose checksums were made right: nothing panics, and what comes out is refused or
/// is a sound file.
#[test]
fn f169_hostile_deltas() {
    let folder = Folder::in_memory();
    let at = |name: &str| folder.at(name);
    let operation = DeltaOperation::new().replace(true);
    let (mut applied, mut refused) = (0, 0);
    for (name, options) in kinds() {
        let filter = options.replace(true).create(at("new")).unwrap();
        filter.close().unwrap();
        std::fs::copy(at("new"), at("old")).unwrap();
        let filter = open(&at("new"));
        (0..100).for_each(|number| assert!(filter.add(key(number)).is_ok()));
        filter.close().unwrap();
        let made = operation.make(at("old"), at("new"), at("delta")).unwrap();
        let good = std::fs::read(at("delta")).unwrap();
        let number = |at: usize| u32::from_le_bytes(good[at..at + 4].try_into().unwrap()) as usize;
        let header = 272 + 64 * number(256) + 72 * number(260) + number(264);
        assert_eq!(made.chunks, 1, "{name}");
        for turn in 0..400 {
            let mut bytes = good.clone();
            let place = match turn % 2 {
                0 => below(1, turn, header as u64) as usize,
                _ => header + 4 + below(2, turn, (good.len() - header - 4) as u64) as usize,
            };
            bytes[place] = random(3, turn) as u8;
            let crc = crc32fast::hash(&bytes[..header]);
            bytes[header..header + 4].copy_from_slice(&crc.to_le_bytes());
            let (head, payload) = (header + 4, header + 28);
            let mut crc = crc32fast::Hasher::new();
            crc.update(&bytes[head..head + 20]);
            crc.update(&bytes[payload..]);
            bytes[head + 20..head + 24].copy_from_slice(&crc.finalize().to_le_bytes());
            std::fs::write(at("delta"), bytes).unwrap();
            let _ = std::fs::remove_file(at("result"));
            match operation.apply(at("delta"), at("old"), at("result")) {
                Ok(_) => {
                    // What the headers say may be anything that a file may say.
                    let found = verify(at("result")).unwrap();
                    assert!(found.is_as_written(), "{name}: turn {turn}: {found:?}");
                    applied += 1;
                }
                Err(_) => {
                    assert!(!at("result").exists());
                    refused += 1;
                }
            }
        }
    }
    println!("{applied} applied, {refused} refused");
    assert!(applied > 100 && refused > 1_000, "{applied} and {refused}");
}

/// A delta that says of the new file that it has the longest journal that there is: no memory is taken
/// for it unless all of the delta is what was written, and the caller allows as much.
#[test]
fn f169_a_small_delta_takes_no_more_memory_than_is_allowed() {
    const JOURNAL: u64 = 1 << 30;
    let folder = Folder::in_memory();
    let options = Options::new().geometry(Geometry::line(8, 100).unwrap()).journal_bytes(0);
    options.create(folder.at("old")).unwrap().close().unwrap();
    std::fs::copy(folder.at("old"), folder.at("new")).unwrap();
    add(&folder.at("new"), 0..30);
    DeltaOperation::new().make(folder.at("old"), folder.at("new"), folder.at("delta")).unwrap();
    let [old, new, mut delta] =
        ["old", "new", "delta"].map(|name| std::fs::read(folder.at(name)).unwrap());
    let length = new.len() as u64;
    assert_eq!(apply_delta_bytes(&delta, &old, length).unwrap().len() as u64, length);
    let refused = |delta: &[u8], most| apply_delta_bytes(delta, &old, most).unwrap_err();
    let error = refused(&delta, length - 1);
    assert!(
        matches!(error, Error::TooLong { bytes, most } if (bytes, most) == (length, length - 1))
    );

    let number = |at: usize| u32::from_le_bytes(delta[at..at + 4].try_into().unwrap()) as usize;
    let header = 272 + 64 * number(256) + 72 * number(260) + number(264);
    // `journal_bytes` of the superblock, and where the new segment begins behind the journal.
    for (at, value) in [(112 + 64, JOURNAL), (272 + 64 * number(256) + 40, 12_288 + JOURNAL)] {
        delta[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let crc = crc32fast::hash(&delta[..header]);
    delta[header..header + 4].copy_from_slice(&crc.to_le_bytes());
    assert!(delta.len() < 1000, "{} bytes", delta.len());
    let error = refused(&delta, 1 << 20);
    assert!(matches!(error, Error::TooLong { bytes, .. } if bytes == length + JOURNAL), "{error}");
    let said = format!("leads to a file of {} bytes, and at most 1048576 are", length + JOURNAL);
    assert!(error.to_string().starts_with(&said), "{error}");
    // What is damaged is told as that, which no length is asked for.
    let last = delta.len() - 1;
    delta[last] ^= 1;
    let error = refused(&delta, 1 << 20);
    assert!(matches!(error, Error::DamagedDelta { .. }), "{error}");
}

/// Random histories of adds, merges, shrinks and rebuilds of which a random version is the start: a
/// chain of deltas, and one over all of it, lead to the same.
#[test]
fn histories_and_chains() {
    let folder = Folder::in_memory();
    let at = |name: String| folder.at(&name);
    let operation = DeltaOperation::new().replace(true);
    for history in 0..12u64 {
        let geometry =
            [Geometry::line(8, 1_200), Geometry::page(7, 12), Geometry::rows(5, 120_000)];
        let geometry = *geometry[history as usize % 3].as_ref().unwrap();
        let options = Options::new().geometry(geometry).replace(true);
        options.create(at("live".into())).unwrap().close().unwrap();
        let versions = 6;
        for version in 0..versions {
            let number = history * 100 + version;
            match below(11, number, 4) {
                0 => {
                    add(&at("live".into()), number * 1_000..number * 1_000 + below(5, number, 900))
                }
                1 => {
                    let other = options.clone().create(at("other".into())).unwrap();
                    (0..200).for_each(|key| drop(other.add(random(number, key).to_le_bytes())));
                    other.close().unwrap();
                    let inputs = [at("live".into()), at("other".into())];
                    let joined = SetOperation::new().replace(true);
                    joined.union(&inputs, at("live".into())).unwrap();
                }
                2 => {
                    // A larger one that was made smaller, in place of the live one.
                    let large = match geometry.layout().name() {
                        "line" => Geometry::line(8, 3_600),
                        "page" => Geometry::page(7, 36),
                        _ => Geometry::rows(5, 360_000),
                    };
                    let large = Options::new().geometry(large.unwrap()).replace(true);
                    let filter = large.create(at("large".into())).unwrap();
                    (0..700).for_each(|key| drop(filter.add(random(number, key).to_le_bytes())));
                    filter.close().unwrap();
                    let folded = SetOperation::new().replace(true);
                    folded.fold(at("large".into()), 3, at("live".into())).unwrap();
                }
                _ => {
                    let mut builder = options.start_build(at("live".into())).unwrap();
                    for key in 0..500 {
                        builder.add(random(number, key).to_le_bytes());
                    }
                    builder.finish().unwrap();
                }
            }
            let name = at(format!("version {version}"));
            operation.clean_copy(at("live".into()), name, 0, |_| ()).unwrap();
        }
        let start = below(13, history, versions - 1);
        let version = |version| at(format!("version {version}"));
        std::fs::copy(version(start), at("pulled".into())).unwrap();
        for to in start + 1..versions {
            operation.make(version(to - 1), version(to), at("delta".into())).unwrap();
            operation.apply(at("delta".into()), at("pulled".into()), at("pulled".into())).unwrap();
        }
        let published = std::fs::read(version(versions - 1)).unwrap();
        assert!(std::fs::read(at("pulled".into())).unwrap() == published, "history {history}");
        operation.make(version(start), version(versions - 1), at("delta".into())).unwrap();
        operation.apply(at("delta".into()), version(start), at("pulled".into())).unwrap();
        assert!(std::fs::read(at("pulled".into())).unwrap() == published, "history {history}");
    }
}

/// Bits that a delta takes for each key that was added, to a file with some keys in it.
fn bits_per_key(geometry: Geometry, before: u64, added: u64) -> f64 {
    let folder = Folder::in_memory();
    let old = folder.build("old", geometry, 0..before);
    std::fs::copy(&old, folder.at("new")).unwrap();
    let filter = Filter::open(folder.at("new")).unwrap();
    (before..before + added).for_each(|number| assert!(filter.add(number.to_le_bytes()).is_ok()));
    filter.close().unwrap();
    let made = DeltaOperation::new().make(&old, folder.at("new"), folder.at("delta")).unwrap();
    assert_eq!(made.chunks_of_pages, 0);
    8.0 * made.bytes as f64 / added as f64
}

/// What a delta takes: 50 bits for a key in lines, however full.
#[test]
fn f170_bits_per_key() {
    // 4 MiB; as many adds to each as a million are to 1 GiB.
    let (bits, added) = (4 << 23, 1_000_000 / 256);
    for (name, geometry, capacity, most) in [
        ("line", Geometry::line(8, bits / 512), bits * 10 / 101, 55.0),
        ("page", Geometry::page(7, bits / 32_768), bits * 10 / 96, 110.0),
        ("rows", Geometry::rows(7, bits / 7), bits * 10 / 96, 110.0),
    ] {
        let geometry = geometry.unwrap();
        for (fill, keys) in [("half", capacity / 2), ("capacity", capacity)] {
            let found = bits_per_key(geometry, keys, added);
            println!("{name} at {fill}: {found:.1} bits per key");
            assert!(found <= most, "{name} at {fill}: {found:.1}");
        }
    }
}

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The second version of a golden file: 20 keys more, in a rotating one in a new generation, and of a
/// counting one 10 keys fewer.
fn second_version(folder: &Folder, name: &str) -> std::path::PathBuf {
    if name == "sealed-empty" {
        return golden("sealed-one.bloom");
    }
    let path = folder.at("new");
    std::fs::copy(golden(&format!("{name}.bloom")), &path).unwrap();
    let filter = match name {
        "keyed" => Filter::open_with_key(&path, &Key::from_bytes(*b"golden test key.")),
        _ => Filter::open(&path),
    };
    let filter = filter.unwrap();
    if name == "rotating" {
        filter.rotate().unwrap();
    }
    for number in 200..if name == "growing" { 500 } else { 220 } {
        filter.add(format!("key-{number}")).unwrap();
    }
    if name == "counting" {
        (190..200).for_each(|number| filter.remove(format!("key-{number}")).unwrap());
    }
    filter.sync_with_mark(78).unwrap();
    filter.close().unwrap();
    path
}

const GOLDEN: [&str; 8] =
    ["line", "page", "rows", "counting", "growing", "rotating", "keyed", "sealed-empty"];

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The golden deltas are made again byte for byte, and lead to what their README says.
#[test]
fn golden_deltas() {
    let rows = support::table(include_str!("golden/README.md"), "deltas");
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), GOLDEN);
    for row in rows {
        let (folder, name) = (Folder::new(), row[0]);
        let old = golden(&format!("{name}.bloom"));
        let delta = golden(&format!("{name}.delta"));
        let operation = DeltaOperation::new();
        operation.make(&old, second_version(&folder, name), folder.at("made")).unwrap();
        let [made, stored] = [&folder.at("made"), &delta].map(|path| std::fs::read(path).unwrap());
        assert!(made == stored, "{name}: other bytes");
        let applied = operation.apply(&delta, &old, folder.at("result")).unwrap();
        let found = [applied.bytes, applied.chunks, applied.chunks_of_pages, applied.new_bytes];
        assert_eq!(found.map(|number| number.to_string()), row[1..5], "{name}");
        let result = std::fs::read(folder.at("result")).unwrap();
        assert_eq!(sha256(&result), row[5], "{name}");
        assert_eq!(applied.new_digest.to_string(), row[6], "{name}");
        assert_eq!(digest(folder.at("result")).unwrap(), applied.new_digest, "{name}");
    }
}

#[test]
#[ignore = "writes into the source tree: cargo test --features digest --test deltas -- --ignored"]
fn write_missing_golden_deltas() {
    for name in GOLDEN {
        let (folder, delta) = (Folder::new(), golden(&format!("{name}.delta")));
        let old = golden(&format!("{name}.bloom"));
        if !delta.exists() {
            let new = second_version(&folder, name);
            DeltaOperation::new().make(&old, new, &delta).unwrap();
        }
        let made = DeltaOperation::new().apply(&delta, &old, folder.at("result")).unwrap();
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} |",
            made.bytes,
            made.chunks,
            made.chunks_of_pages,
            made.new_bytes,
            sha256(&std::fs::read(folder.at("result")).unwrap()),
            made.new_digest
        );
    }
}
