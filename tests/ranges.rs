//! Files read range by range: the same answers as of a file that is mapped, little that is read, and
//! damage and changes noticed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use bloomfile::ranges::{
    Answer, AskFile, AskOpening, Comparing, Explaining, Opening, RangeFile, RangeReader, Source,
    Step, Task, run,
};
use bloomfile::report::{self, Health};
use bloomfile::{CellKind, Error, Filter, Key, Options, ReadOptions, Reader, geometry::Geometry};
use common::{Folder, below, data_start};

const SECRET: [u8; 16] = *b"golden test key.";

/// Bytes that can be changed, and that count what was read of them.
struct Stored {
    bytes: RefCell<Vec<u8>>,
    read: Cell<u64>,
    calls: Cell<u64>,
}

impl Stored {
    fn new(bytes: Vec<u8>) -> Self {
        Stored { bytes: RefCell::new(bytes), read: Cell::new(0), calls: Cell::new(0) }
    }

    fn of(path: &Path) -> Self {
        Self::new(std::fs::read(path).unwrap())
    }
}

impl Source for Stored {
    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.read.set(self.read.get() + range.end - range.start);
        self.calls.set(self.calls.get() + 1);
        assert!(range.start < range.end, "{range:?}");
        let bytes = self.bytes.borrow();
        let found = bytes.get(range.start as usize..range.end as usize);
        found.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn add(filter: &Filter, key: impl AsRef<[u8]>) {
    filter.add(key).unwrap();
}

fn golden() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|end| end == "bloom"));
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    assert!(files.len() >= 17);
    files
}

fn key_of(path: &Path) -> Option<Key> {
    path.ends_with("keyed.bloom").then(|| Key::from_bytes(SECRET))
}

/// Keys that golden files hold, and others.
fn questions() -> Vec<String> {
    let there = (0..260).map(|number| format!("key-{number}"));
    there.chain((0..1000).map(|number| format!("absent-{number}"))).collect()
}

fn open_to_ask(source: &Stored, key: Option<&Key>) -> bloomfile::Result<AskFile> {
    let mut opening = AskOpening::new(source.length().unwrap());
    if let Some(key) = key {
        opening = opening.key(key);
    }
    run(opening, source)
}

fn same_answers(path: &Path, keys: &[impl AsRef<[u8]>], key: Option<&Key>) {
    let mut options = ReadOptions::new();
    if let Some(key) = key {
        options = options.key(key);
    }
    let mapped = options.open(path).unwrap();
    let ranges = RangeReader::open_with(Stored::of(path), key).unwrap();
    let answers = ranges.ask(keys).unwrap();
    assert_eq!(answers.len(), keys.len());
    for (key, &answer) in keys.iter().zip(&answers) {
        let expected = if mapped.contains(key) { Answer::Maybe } else { Answer::Absent };
        assert_eq!(answer, expected, "{} {:?}", path.display(), key.as_ref());
    }
    let source = Stored::of(path);
    let asked = open_to_ask(&source, key).unwrap();
    assert_eq!(run(asked.ask(keys).unwrap(), &source).unwrap(), answers, "{}", path.display());
    assert_eq!(asked.metadata(), mapped.metadata());
    assert_eq!(
        (asked.health(), asked.length()),
        (ranges.file().health(), source.length().unwrap())
    );
    run(ranges.file().load(), ranges.source()).unwrap();
    let read = ranges.source().calls.get();
    assert_eq!(ranges.ask(keys).unwrap(), answers, "{}", path.display());
    let loaded = ranges.file().loaded().unwrap().unwrap();
    assert!(keys.iter().map(|key| loaded.ask(key)).eq(answers.iter().copied()));
    assert_eq!(ranges.source().calls.get(), read);
    assert_eq!(ranges.inspect(), report::inspect(path).unwrap(), "{}", path.display());
    assert_eq!(ranges.verify().unwrap(), report::verify(path).unwrap(), "{}", path.display());
    let loads = run(ranges.file().block_loads(), ranges.source()).unwrap();
    assert_eq!(loads, report::block_loads(path).unwrap(), "{}", path.display());
}

#[test]
fn golden_files_give_the_answers_of_a_mapped_reader() {
    for path in golden() {
        same_answers(&path, &questions(), key_of(&path).as_ref());
    }
}

#[test]
fn every_layout_kind_and_shape() {
    let folder = Folder::new();
    let keys: Vec<[u8; 8]> = (0..40_000u64).map(u64::to_le_bytes).collect();
    let half = &keys[..20_000];
    let geometries = [
        Geometry::line(8, 700).unwrap(),
        Geometry::page(7, 12).unwrap(),
        Geometry::rows(5, 50_000).unwrap(),
        Geometry::flat(6, 250_000).unwrap(),
    ];
    for kind in [CellKind::Plain, CellKind::Counting] {
        for geometry in geometries {
            let path = folder.at("keys");
            let options = Options::new().geometry(geometry).kind(kind).replace(true);
            let filter = options.create(&path).unwrap();
            half.iter().for_each(|key| add(&filter, key));
            filter.close().unwrap();
            same_answers(&path, &keys, None);
        }
    }
    let shapes = [
        ("growing", Options::new().capacity(1500).false_positive_rate(0.01).grow()),
        (
            "rotating",
            Options::new()
                .capacity(7000)
                .false_positive_rate(0.01)
                .generations(3)
                .rotate_after(7000),
        ),
    ];
    for (name, options) in shapes {
        let path = folder.at(name);
        let filter = options.create(&path).unwrap();
        half.iter().for_each(|key| add(&filter, key));
        assert!(filter.segments() > 2);
        filter.close().unwrap();
        same_answers(&path, &keys, None);
    }
    let path = folder.at("sealed");
    let options = Options::new().kind(CellKind::Sealed).capacity(20_000).false_positive_rate(0.01);
    let mut builder = options.start_build(&path).unwrap();
    for key in half {
        builder.add(key);
    }
    builder.finish().unwrap();
    same_answers(&path, &keys, None);
}

/// A writer that did not close its file: the journal counts. Copied while it is open, as an object
/// store may hold it.
#[test]
fn a_file_that_was_not_closed() {
    let folder = Folder::new();
    for kind in [CellKind::Plain, CellKind::Counting] {
        let (path, copy) = (folder.at("open"), folder.at("copy"));
        let options = Options::new().capacity(30_000).false_positive_rate(0.01).kind(kind);
        let filter = options.replace(true).create(&path).unwrap();
        (0..1000u32).for_each(|key| add(&filter, key.to_le_bytes()));
        filter.checkpoint().unwrap();
        (1000..2000u32).for_each(|key| add(&filter, key.to_le_bytes()));
        filter.sync().unwrap();
        std::fs::copy(&path, &copy).unwrap();
        let keys: Vec<[u8; 4]> = (0..10_000u32).map(u32::to_le_bytes).collect();
        same_answers(&copy, &keys, None);
        let reader = RangeReader::open(Stored::of(&copy)).unwrap();
        assert_eq!(reader.file().health(), Health::Crashed);
        assert!(reader.ask(&keys[..2000]).unwrap().iter().all(|answer| *answer == Answer::Maybe));
        filter.close().unwrap();
    }
}

/// A live file is written between opening and asking: its writer's new cells are no damage.
#[test]
fn a_file_that_is_being_written() {
    let folder = Folder::new();
    for kind in [CellKind::Plain, CellKind::Counting] {
        let path = folder.at("live");
        let options = Options::new().capacity(30_000).false_positive_rate(0.01).kind(kind);
        let options = options.journal_bytes(1 << 20);
        let filter = options.replace(true).create(&path).unwrap();
        (0..1000u32).for_each(|key| add(&filter, key.to_le_bytes()));
        filter.sync().unwrap();
        let reader = RangeReader::open(std::fs::File::open(&path).unwrap()).unwrap();
        (1000..1500u32).for_each(|key| add(&filter, key.to_le_bytes()));
        filter.sync().unwrap();
        let keys: Vec<[u8; 4]> = (0..1000u32).map(u32::to_le_bytes).collect();
        assert!(reader.ask(&keys).unwrap().iter().all(|answer| *answer == Answer::Maybe));
        // A checkpoint writes a slot, and what stands in the file after that is another state of it.
        filter.checkpoint().unwrap();
        (2000..3000u32).for_each(|key| add(&filter, key.to_le_bytes()));
        filter.close().unwrap();
        let late = RangeReader::open(std::fs::File::open(&path).unwrap()).unwrap();
        assert!(late.ask(&keys).unwrap().iter().all(|answer| *answer == Answer::Maybe));
    }
}

#[test]
fn little_is_read_of_a_large_file() {
    let folder = Folder::in_memory();
    let path = folder.at("large");
    let geometry = Geometry::line(8, 64 << 14).unwrap();
    let options = Options::new().geometry(geometry).journal_bytes(0);
    let filter = options.create(&path).unwrap();
    filter.add("sheep").unwrap();
    filter.close().unwrap();
    let source = Stored::of(&path);
    let length = source.length().unwrap();
    assert!(length > 64 << 20);
    let reader = RangeReader::open(source).unwrap();
    let opened = reader.source().read.get();
    // The headers with what comes with them, and 8 bytes for each page.
    assert!(opened <= (64 << 10) + (64 << 14) / 64 * 8, "{opened} of {length}");
    assert!(reader.contains("sheep").unwrap());
    assert!(!reader.contains("wolf").unwrap());
    let asked = reader.source().read.get() - opened;
    assert!(asked <= 4 * 4096, "{asked}");
    // What was read is not read again.
    let calls = reader.source().calls.get();
    assert!(reader.contains("sheep").unwrap());
    assert_eq!(reader.source().calls.get(), calls);

    // To ask alone: the headers; then the page, and the page of its entry.
    let source = Stored::of(&path);
    let file = open_to_ask(&source, None).unwrap();
    assert_eq!((source.read.get(), source.calls.get()), (16_384, 1));
    assert_eq!(run(file.ask(["sheep"]).unwrap(), &source).unwrap(), [Answer::Maybe]);
    assert_eq!((source.read.get(), source.calls.get()), (16_384 + 2 * 4096, 3));
}

/// Keys in the same page and near to one another take one request.
#[test]
fn keys_share_pages_and_requests() {
    let folder = Folder::in_memory();
    let path = folder.build("keys", Geometry::line(8, 64 * 50).unwrap(), 0..20_000);
    let source = Stored::of(&path);
    let file = open_to_ask(&source, None).unwrap();
    let (read, calls) = (source.read.get(), source.calls.get());
    let keys: Vec<[u8; 8]> = (0..20_000u64).map(u64::to_le_bytes).collect();
    let answers = run(file.ask(&keys).unwrap(), &source).unwrap();
    assert!(answers.iter().all(|&answer| answer == Answer::Maybe));
    // 50 pages of data, one of entries, and what is between them.
    let (read, calls) = (source.read.get() - read, source.calls.get() - calls);
    assert!(read <= 52 * 4096 && calls <= 2, "{read} bytes in {calls} requests");
}

#[test]
fn a_damaged_page_is_an_error_where_it_is_asked() {
    let folder = Folder::new();
    for geometry in [Geometry::line(8, 700).unwrap(), Geometry::rows(5, 50_000).unwrap()] {
        let path = folder.build("keys", geometry, 0..5000);
        let mut bytes = std::fs::read(&path).unwrap();
        // Bits that are lost, on the page in the middle.
        let damaged = geometry.pages() / 2;
        let page = data_start(&path) + damaged as usize * 4096;
        bytes[page..page + 4096].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let reader = RangeReader::open(Stored::of(&path)).unwrap();
        let keys: Vec<[u8; 8]> = (0..10_000u64).map(u64::to_le_bytes).collect();
        let mapped = Reader::open(&path).unwrap();
        let mut errors = 0;
        for (key, answer) in keys.iter().zip(reader.ask(&keys).unwrap()) {
            match (mapped.try_contains(key).map_err(Error::into_cause), answer) {
                (Ok(found), answer) => assert_eq!(answer.into_result().unwrap(), found),
                (
                    Err(Error::Damaged { segment, page, .. }),
                    Answer::Damaged { page: found, lost, .. },
                ) => {
                    assert_eq!((segment, page), (0, found));
                    assert!(lost);
                    errors += 1;
                }
                (error, answer) => panic!("{error:?}, {answer:?}"),
            }
        }
        assert!(errors > 10, "{errors}");
        let error = keys.iter().find_map(|key| reader.contains(key).err()).unwrap();
        assert!(matches!(error, Error::Damaged { page, .. } if page == damaged), "{error}");
        let answers = reader.ask(&keys).unwrap();
        run(reader.file().load(), reader.source()).unwrap();
        assert_eq!(reader.ask(&keys).unwrap(), answers);
        assert_eq!(reader.verify().unwrap(), report::verify(&path).unwrap());
        assert_eq!(reader.verify().unwrap().pages_damaged, [damaged]);
    }
}

/// The test above with any byte: no key that is in is denied, and nothing panics.
#[test]
fn damage_anywhere_never_denies_a_key() {
    let keys: Vec<String> = (0..200).map(|number| format!("key-{number}")).collect();
    let (mut refused, mut answered) = (0, 0);
    for path in golden() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if matches!(name, "sealed-empty" | "sealed-one") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for round in 0..300 {
            let mut damaged = bytes.clone();
            let at = below(21, round, damaged.len() as u64) as usize;
            damaged[at] ^= 1 << below(22, round, 8);
            if round % 10 == 0 {
                damaged.truncate(at);
            }
            let source = Stored::new(damaged);
            let asked = open_to_ask(&source, key_of(&path).as_ref());
            match asked.and_then(|file| run(file.ask(&keys)?, &source)) {
                Err(error) => assert!(error.is_bad_file(), "{name}, byte {at}: {error}"),
                Ok(answers) => {
                    let absent = answers.iter().position(|answer| *answer == Answer::Absent);
                    assert_eq!(absent, None, "{name}, byte {at}");
                }
            }
            let reader = RangeReader::open_with(source, key_of(&path).as_ref());
            match reader.and_then(|reader| reader.ask(&keys)) {
                Err(error) => {
                    assert!(error.is_bad_file(), "{name}, byte {at}: {error}");
                    refused += 1;
                }
                Ok(answers) => {
                    let absent = answers.iter().position(|answer| *answer == Answer::Absent);
                    assert_eq!(absent, None, "{name}, byte {at}");
                    answered += 1;
                }
            }
        }
    }
    assert!(refused > 500 && answered > 500, "{refused} and {answered}");
}

#[test]
fn a_file_that_was_replaced_since_is_noticed() {
    let folder = Folder::new();
    let geometry = Geometry::line(8, 700).unwrap();
    let old = folder.build("old", geometry, 0..5000);
    let new = folder.build("new", geometry, 5000..10_000);
    let reader = RangeReader::open(Stored::of(&old)).unwrap();
    assert!(reader.contains(0u64.to_le_bytes()).unwrap());
    *reader.source().bytes.borrow_mut() = std::fs::read(&new).unwrap();
    // What was read is as it was.
    assert!(reader.contains(0u64.to_le_bytes()).unwrap());
    let keys: Vec<[u8; 8]> = (0..5000u64).map(u64::to_le_bytes).collect();
    assert!(matches!(reader.ask(&keys), Err(Error::Changed)));
    assert!(matches!(reader.verify(), Err(Error::Changed)));
}

/// The page table is another one, with the headers as they were: no writer does that.
#[test]
fn a_page_table_that_changes_is_noticed() {
    let folder = Folder::new();
    let path = folder.build("keys", Geometry::line(8, 700).unwrap(), 0..5000);
    let reader = RangeReader::open(Stored::of(&path)).unwrap();
    reader.source().bytes.borrow_mut()[12_288 + 8] ^= 1;
    let error = reader.contains(0u64.to_le_bytes()).unwrap_err();
    assert!(matches!(error, Error::Changed), "{error}");
    assert_eq!(error.to_string(), "was changed while it was read; open it again");
}

/// A source that changes after a number of reads.
struct Changing {
    first: Vec<u8>,
    then: Vec<u8>,
    after: u64,
    reads: Cell<u64>,
}

impl Source for Changing {
    fn length(&self) -> io::Result<u64> {
        Ok(self.first.len() as u64)
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let reads = self.reads.replace(self.reads.get() + 1);
        let bytes = if reads < self.after { &self.first } else { &self.then };
        Ok(bytes[range.start as usize..range.end as usize].to_vec())
    }
}

#[test]
fn a_file_that_changes_while_it_is_opened_is_opened_as_it_is_then() {
    let folder = Folder::in_memory();
    // So large that its table is read after its headers.
    let geometry = Geometry::line(8, 64 << 14).unwrap();
    let first = std::fs::read(folder.build("first", geometry, 0..1000)).unwrap();
    let then = std::fs::read(folder.build("then", geometry, 1000..2000)).unwrap();
    for after in 1..6 {
        let (first, then) = (first.clone(), then.clone());
        let source = Changing { first, then, after, reads: Cell::new(0) };
        let reader = RangeReader::open(source).unwrap();
        let found = reader.contains(1500u64.to_le_bytes());
        let read_before = reader.source().reads.get() <= after;
        match found {
            Ok(false) => assert!(read_before, "{after}"),
            Ok(true) | Err(Error::Changed) => assert!(!read_before, "{after}"),
            Err(error) => panic!("{after}: {error}"),
        }
    }
}

#[test]
fn a_clean_slot_beside_a_damaged_one_has_to_prove_itself() {
    let folder = Folder::new();
    let path = folder.build("keys", Geometry::line(8, 700).unwrap(), 0..5000);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 + 100] ^= 1;
    let reader = RangeReader::open(Stored::new(bytes.clone())).unwrap();
    assert!(reader.contains(7u64.to_le_bytes()).unwrap());
    assert!(reader.source().read.get() >= 700 * 64, "all pages were read");
    let last = bytes.len() - 1;
    bytes[last - 60_000 % 4096] ^= 1;
    let error = RangeReader::open(Stored::new(bytes)).err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn a_keyed_file_takes_its_secret() {
    let path = golden().into_iter().find(|path| path.ends_with("keyed.bloom")).unwrap();
    let without = RangeReader::open(Stored::of(&path)).unwrap();
    assert!(without.inspect().key_fingerprint.is_some());
    assert!(without.verify().unwrap().is_sound());
    assert!(matches!(without.contains("key-0"), Err(Error::KeyNeeded { .. })));
    let wrong = Key::from_bytes([7; 16]);
    let error = RangeReader::open_with(Stored::of(&path), Some(&wrong)).err().unwrap();
    assert!(matches!(error, Error::WrongKey { .. }));
    let other = golden().into_iter().find(|path| path.ends_with("line.bloom")).unwrap();
    let error = RangeReader::open_with(Stored::of(&other), Some(&wrong)).err().unwrap();
    assert!(matches!(error, Error::NotKeyed));
}

struct Short(Vec<u8>);

impl Source for Short {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        Ok(self.0[range.start as usize..range.end as usize - 1].to_vec())
    }
}

#[test]
fn a_source_that_gives_too_little_is_an_error() {
    let folder = Folder::new();
    let path = folder.build("keys", Geometry::line(8, 700).unwrap(), 0..5000);
    let error = RangeReader::open(Short(std::fs::read(&path).unwrap())).err().unwrap();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

/// Leaves out the last of the ranges that are asked for, once it is told to.
struct Fewer(Stored, Cell<bool>);

impl Source for Fewer {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.0.read_at(range)
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        let given = ranges.len() - usize::from(self.1.get());
        ranges[..given].iter().map(|range| self.read_at(range.clone())).collect()
    }
}

#[test]
fn a_source_that_leaves_ranges_out_is_to_blame() {
    let folder = Folder::new();
    let path = folder.build("keys", Geometry::line(8, 700).unwrap(), 0..5000);
    let source = || Fewer(Stored::of(&path), Cell::new(false));
    let reader = RangeReader::open(source()).unwrap();
    reader.source().1.set(true);
    let sources = [source(), source()];
    let comparing = Comparing::new(reader.file(), reader.file()).unwrap();
    sources[1].1.set(true);
    for error in [
        reader.contains(0u64.to_le_bytes()).unwrap_err(),
        RangeReader::open(Fewer(Stored::of(&path), Cell::new(true))).err().unwrap(),
        comparing.run([&sources[0], &sources[1]]).unwrap_err(),
    ] {
        let Error::Io { error: said, .. } = &error else { panic!("{error}") };
        assert_eq!(said.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        assert!(error.to_string().contains("ranges came of the"), "{error}");
    }
    reader.source().1.set(false);
    assert!(reader.contains(0u64.to_le_bytes()).unwrap());
}

#[test]
fn what_is_no_bloomfile_says_so() {
    for bytes in [&b""[..], b"x", b"PK\x03\x04 something else altogether"] {
        let error = RangeReader::open(Stored::new(bytes.to_vec())).err().unwrap();
        assert!(error.is_bad_file(), "{error}");
        let other = Reader::from_bytes(bytes).err().unwrap();
        assert_eq!(error.to_string(), other.to_string());
    }
}

/// Does a round of a task, and tells whether it is done.
fn round<T: Task>(task: &mut T, bytes: &[u8]) -> Option<T::Output> {
    match task.step().unwrap() {
        Step::Done(output) => Some(output),
        Step::Need(ranges) => {
            // In any order.
            for range in ranges.iter().rev() {
                let found = &bytes[range.start as usize..range.end as usize];
                task.give(range.start, found.to_vec()).unwrap();
            }
            None
        }
    }
}

/// Tasks of one file take turns, as they do in a browser.
#[test]
fn tasks_take_turns() {
    let folder = Folder::new();
    let path = folder.build("keys", Geometry::line(8, 64 << 9).unwrap(), 0..50_000);
    let bytes = std::fs::read(&path).unwrap();
    let mut opening = Opening::new(bytes.len() as u64);
    let file: RangeFile = loop {
        if let Some(file) = round(&mut opening, &bytes) {
            break file;
        }
    };
    let keys: Vec<[u8; 8]> = (0..20_000u64).map(u64::to_le_bytes).collect();
    let mut tasks: Vec<_> = keys.chunks(5000).map(|keys| file.ask(keys).unwrap()).collect();
    let mut verifying = file.verify();
    let (mut answers, mut verification, mut turns) = (0, None, 0);
    while !tasks.is_empty() || verification.is_none() {
        turns += 1;
        tasks.retain_mut(|task| match round(task, &bytes) {
            None => true,
            Some(found) => {
                assert!(found.iter().all(|answer| *answer == Answer::Maybe));
                answers += found.len();
                false
            }
        });
        if verification.is_none() {
            verification = round(&mut verifying, &bytes);
        }
    }
    assert!(turns > 1, "{turns}");
    assert_eq!(answers, keys.len());
    assert!(verification.unwrap().is_sound());
    assert_eq!(verifying.checked(), verifying.pages());
    // What no task asked for is not taken.
    assert!(file.ask(["sheep"]).unwrap().give(0, vec![0; 4096]).is_err());
}

/// The journal of a crashed file may be large: it is read in few rounds.
#[test]
fn a_large_journal_is_read_in_few_rounds() {
    let folder = Folder::in_memory();
    let (path, copy) = (folder.at("open"), folder.at("copy"));
    let options = Options::new().capacity(1_000_000).false_positive_rate(0.01);
    let filter: Filter = options.journal_bytes(32 << 20).create(&path).unwrap();
    (0..500_000u32).for_each(|key| add(&filter, key.to_le_bytes()));
    filter.sync().unwrap();
    std::fs::copy(&path, &copy).unwrap();
    filter.close().unwrap();
    let reader = RangeReader::open(Stored::of(&copy)).unwrap();
    assert!(reader.source().calls.get() < 30, "{}", reader.source().calls.get());
    let keys: Vec<[u8; 4]> = (0..500_000u32).step_by(1000).map(u32::to_le_bytes).collect();
    assert!(reader.ask(&keys).unwrap().iter().all(|answer| *answer == Answer::Maybe));
}

#[test]
fn what_each_byte_is_without_reading_the_data() {
    for path in golden() {
        let source = Stored::of(&path);
        let length = source.length().unwrap();
        let mut expected = Vec::new();
        report::explain(&path, report::Detail::Summary, |explained| {
            expected.push(explained);
            ControlFlow::Continue(())
        })
        .unwrap();
        let verification = RangeReader::open(&source).unwrap().verify().unwrap();
        let known = run(Explaining::new(length).verified(verification), &source).unwrap();
        let places = |all: &[report::Explained]| -> Vec<(Range<u64>, String)> {
            all.iter().map(|it| (it.range.clone(), it.field.clone())).collect()
        };
        assert_eq!(places(&known), places(&expected), "{}", path.display());
        let unread = run(Explaining::new(length), &source).unwrap();
        assert_eq!(places(&unread), places(&expected), "{}", path.display());
    }
}

#[test]
fn damage_is_explained_where_it_is() {
    let folder = Folder::new();
    let path = folder.build("keys", Geometry::line(8, 700).unwrap(), 0..5000);
    let mut bytes = std::fs::read(&path).unwrap();
    let start = data_start(&path);
    for page in [2, 3, 7] {
        bytes[start + page * 4096] ^= 1;
    }
    std::fs::write(&path, &bytes).unwrap();
    let source = Stored::new(bytes.clone());
    let reader = RangeReader::open(&source).unwrap();
    let task = Explaining::new(bytes.len() as u64).verified(reader.verify().unwrap());
    let known = run(task, &source).unwrap();
    let mut expected = Vec::new();
    report::explain(&path, report::Detail::Summary, |explained| {
        expected.push(explained);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(known, expected);
    // Headers that cannot be opened are explained as well.
    bytes[4096 + 50] ^= 1;
    bytes[8192 + 50] ^= 1;
    assert!(RangeReader::open(Stored::new(bytes.clone())).is_err());
    let explained = run(Explaining::new(bytes.len() as u64), &Stored::new(bytes)).unwrap();
    assert!(explained.iter().any(|it| it.structure.contains("damaged")));
}

#[test]
fn pages_are_listed_as_the_table_has_them() {
    let folder = Folder::new();
    let path = folder.build("keys", Geometry::line(8, 700).unwrap(), 0..5000);
    let mut expected = Vec::new();
    report::inspect_pages(&path, |page| {
        expected.push(page);
        ControlFlow::Continue(())
    })
    .unwrap();
    let reader = RangeReader::open(Stored::of(&path)).unwrap();
    let listed = run(reader.file().list_pages(0, 0..11).unwrap(), reader.source()).unwrap();
    assert_eq!(listed, expected);
    let some = run(reader.file().list_pages(0, 3..5).unwrap(), reader.source()).unwrap();
    assert_eq!(some, expected[3..5]);
    assert!(reader.file().list_pages(0, 0..12).is_err());
    assert!(reader.file().list_pages(1, 0..1).is_err());
}

fn compare_ranges(a: &Stored, b: &Stored) -> bloomfile::Result<bloomfile::ops::Comparison> {
    let open = |stored: &Stored| run(Opening::new(stored.length().unwrap()), stored);
    Comparing::new(&open(a)?, &open(b)?)?.run([a, b])
}

#[test]
fn two_files_are_compared_as_mapped_ones_are() {
    let folder = Folder::new();
    let shapes = [
        [Geometry::line(8, 700), Geometry::line(8, 1400)],
        [Geometry::page(7, 600), Geometry::page(7, 1800)],
        [Geometry::rows(5, 500_000), Geometry::rows(5, 1_500_000)],
        [Geometry::flat(6, 250_000), Geometry::flat(6, 4_000_000)],
    ];
    for (number, [small, large]) in shapes.into_iter().enumerate() {
        let make = |name: &str, geometry, keys: Range<u64>| {
            let filter = Options::new().geometry(geometry).create(folder.at(name)).unwrap();
            keys.for_each(|key| add(&filter, key.to_le_bytes()));
            filter.close().unwrap();
            folder.at(name)
        };
        let (small, large) = (small.unwrap(), large.unwrap());
        let more = make(&format!("more {number}"), small, 0..3000);
        let less = make(&format!("less {number}"), small, 0..2000);
        let other = make(&format!("other {number}"), large, 1000..4000);
        for (a, b) in [(&more, &less), (&less, &more), (&more, &more), (&more, &other)] {
            let [stored_a, stored_b] = [a, b].map(|path| Stored::of(path));
            let found = compare_ranges(&stored_a, &stored_b).unwrap();
            assert_eq!(found, bloomfile::ops::compare(a, b).unwrap(), "{a:?} {b:?}");
            // No page is read twice.
            let bytes = stored_a.length().unwrap() + stored_b.length().unwrap();
            let read = stored_a.read.get() + stored_b.read.get();
            assert!(read < 2 * bytes, "{read} of {bytes} bytes");
        }
        let damaged = Stored::of(&other);
        let at = damaged.bytes.borrow().len() - 3000;
        damaged.bytes.borrow_mut()[at] ^= 1;
        let error = compare_ranges(&Stored::of(&more), &damaged).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    // Those that cannot be compared are checked all the same.
    let [line, page] = ["more 0", "more 1"].map(|name| folder.at(name));
    let found = compare_ranges(&Stored::of(&line), &Stored::of(&page)).unwrap();
    assert_eq!(found, bloomfile::ops::compare(&line, &page).unwrap());
    let damaged = Stored::of(&page);
    let at = damaged.bytes.borrow().len() - 3000;
    damaged.bytes.borrow_mut()[at] ^= 1;
    assert!(compare_ranges(&Stored::of(&line), &damaged).unwrap_err().is_damage());
    // Nor is what has no bits to compare taken.
    let sealed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sealed-one.bloom");
    let refused = compare_ranges(&Stored::of(&sealed), &Stored::of(&line));
    assert!(matches!(refused, Err(Error::Sealed { .. })), "{refused:?}");
}
