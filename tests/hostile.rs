//! Damaged and hostile files: refused or harmless, never a panic, a hang, a signal or a wrong "no".

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod support;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use bloomfile::{
    Error, Filter, Key, Options, ReadOptions, Reader,
    geometry::Geometry,
    reader::Access,
    report::{inspect, verify},
};
use support::*;
use tempfile::TempDir;

/// A sound file and what it answers.
struct Subject {
    /// For the file's place.
    _folder: TempDir,
    path: PathBuf,
    sound: Vec<u8>,
    answers: Vec<bool>,
    /// Of a keyed file.
    secret: Option<Key>,
    /// Who looks next at a file that is refused.
    turn: Cell<u32>,
}

/// How a file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Refused,
    /// It answers as the sound file does.
    Harmless,
    /// It answers otherwise.
    Different,
}

/// A folder in memory where there is one: the tests write some 100,000 files.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

fn queries() -> impl Iterator<Item = Vec<u8>> {
    let present = (0..240).step_by(4).map(|number| format!("key-{number}").into_bytes());
    let absent = (600..610).map(|number| format!("absent-{number}").into_bytes());
    present.chain(absent)
}

/// What the keyed golden file was made with.
fn golden_secret(name: &str) -> Option<Key> {
    name.starts_with("keyed").then(|| Key::from_bytes(*b"golden test key."))
}

/// The bytes of a keyed file whose keys a power cut left in the journal, all of which were synced.
fn keyed_crash() -> Vec<u8> {
    let folder = folder();
    let path = folder.path().join("crashed");
    let secret = golden_secret("keyed").unwrap();
    let options = Options::new().geometry(Geometry::line(8, 6).unwrap()).key(&secret);
    let filter = options.journal_bytes(1).create(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    (0..240).for_each(|number| assert!(filter.add(format!("key-{number}")).is_ok()));
    filter.sync().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    drop(filter);
    let data = segment(&bytes).data;
    bytes[data..].copy_from_slice(&before[data..]);
    power_cut(&mut bytes);
    bytes
}

fn answers(contains: impl Fn(&[u8]) -> bool) -> Vec<bool> {
    queries().map(|key| contains(&key)).collect()
}

impl Subject {
    fn golden(name: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let sound = std::fs::read(source.join(format!("{name}.bloom"))).unwrap();
        Subject::of(name, sound)
    }

    fn of(name: &str, sound: Vec<u8>) -> Self {
        let folder = folder();
        let path = folder.path().join(name);
        std::fs::write(&path, &sound).unwrap();
        let (secret, turn) = (golden_secret(name), Cell::new(0));
        let mut subject =
            Subject { _folder: folder, path, sound, answers: Vec::new(), secret, turn };
        let reader = subject.options().open(&subject.path).unwrap();
        subject.answers = answers(|key| reader.contains(key));
        assert!(subject.answers[..50].iter().all(|&present| present));
        subject
    }

    /// What it is opened with to be read.
    fn options(&self) -> ReadOptions {
        match &self.secret {
            Some(secret) => ReadOptions::new().key(secret),
            None => ReadOptions::new(),
        }
    }

    fn open_to_write(&self) -> bloomfile::Result<Filter> {
        match &self.secret {
            Some(secret) => Filter::open_with_key(&self.path, secret),
            None => Filter::open(&self.path),
        }
    }

    /// Whether the contents of the file at `path` are refused, the same for everyone who opens it.
    fn judge(&self, what: &dyn std::fmt::Debug) -> Verdict {
        let check = |error: Error| {
            assert!(error.is_bad_file(), "{what:?}: {error}");
            Verdict::Refused
        };
        let compare = |found: Vec<bool>| {
            if found == self.answers { Verdict::Harmless } else { Verdict::Different }
        };
        let read = match self.options().open(&self.path) {
            Ok(reader) => compare(answers(|key| reader.contains(key))),
            // The file of another secret. What takes none has nothing against it, and is not asked.
            Err(error) if is_of_another_secret(&error) => {
                assert!(self.secret.is_some(), "{what:?}: {error}");
                let strict = self.options().verify(true).open(&self.path).map(drop);
                for result in [strict, self.open_to_write().map(drop)] {
                    assert!(is_of_another_secret(&result.unwrap_err()), "{what:?}");
                }
                return Verdict::Refused;
            }
            Err(error) => check(error),
        };
        // All of these read the headers in the same way; what that refuses, one of them is enough
        // to see refused.
        let turn = self.turn.replace((self.turn.get() + 1) % 3);
        let takes_turn = |number| read != Verdict::Refused || turn == number;
        let mut verified = read;
        if takes_turn(0) {
            verified = match self.options().verify(true).open(&self.path) {
                Ok(reader) => compare(answers(|key| reader.contains(key))),
                Err(error) => check(error),
            };
            let agreed = verified == read || verified == Verdict::Refused;
            assert!(agreed, "{what:?}: {verified:?} {read:?}");
        }
        if takes_turn(1)
            && let Err(error) = inspect(&self.path)
        {
            assert_eq!(check(error), read, "{what:?}: inspect");
        }
        if takes_turn(2) {
            let sound = verify(&self.path).is_ok_and(|verification| verification.is_as_written());
            assert_eq!(sound, verified != Verdict::Refused, "{what:?}: verify");
        }
        let before = std::fs::read(&self.path).unwrap();
        match self.open_to_write() {
            Ok(filter) => {
                let written = compare(answers(|key| filter.contains(key)));
                assert_eq!(written, verified, "{what:?}: as a writer sees it");
                filter.close().unwrap();
                self.write(&before);
            }
            Err(error) => {
                // Unknown features, or no numbers left for the next slots (F-26).
                let for_readers_only = matches!(
                    error.cause(),
                    Error::Features { read_only: true, .. } | Error::NumbersSpent { .. }
                );
                check(error);
                let agreed = for_readers_only || verified != Verdict::Harmless;
                assert!(agreed, "{what:?}: only the writer refuses it");
                assert!(std::fs::read(&self.path).unwrap() == before, "{what:?}: it was changed");
            }
        }
        read
    }

    fn write(&self, bytes: &[u8]) {
        std::fs::write(&self.path, bytes).unwrap();
    }

    /// Changes one byte of the file, which is all that there is time for 200,000 times.
    fn poke(&self, at: usize, value: u8) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.path).unwrap();
        common::write_at(&file, &[value], at as u64);
    }

    /// Judges the sound file with some change.
    fn changed(&self, what: &dyn std::fmt::Debug, change: impl FnOnce(&mut Vec<u8>)) -> Verdict {
        let mut bytes = self.sound.clone();
        change(&mut bytes);
        self.write(&bytes);
        self.judge(what)
    }

    /// Every byte of headers and page tables.
    fn header_bytes(&self) -> impl Iterator<Item = usize> + use<> {
        let segment = segment(&self.sound);
        let tables = segment.table.min(segment.other_table);
        (0..JOURNAL).chain(tables..segment.data)
    }
}

fn is_of_another_secret(error: &Error) -> bool {
    matches!(error.cause(), Error::WrongKey { .. })
}

/// What a byte is changed to: everything in question where it is, or is near, a value; one flipped
/// bit in the long stretches of zeros.
fn values(subject: &Subject, at: usize, thorough: bool) -> Vec<u8> {
    let byte = subject.sound[at];
    let near = &subject.sound[at.saturating_sub(16)..(at + 16).min(subject.sound.len())];
    if thorough || near.iter().any(|&byte| byte != 0) {
        let mut values = vec![byte ^ 0x01, byte ^ 0x80, byte ^ 0xff, 0];
        values.retain(|&value| value != byte);
        values
    } else {
        vec![byte ^ (1 << (at % 8))]
    }
}

fn every_byte_change(name: &str, thorough: bool) -> [u64; 2] {
    every_byte_change_of(name, &Subject::golden(name), thorough)
}

fn every_byte_change_of(name: &str, subject: &Subject, thorough: bool) -> [u64; 2] {
    let mut counts = [0; 2];
    for at in subject.header_bytes() {
        for value in values(subject, at, thorough) {
            let what = format!("{name}: byte {at} to {value:#04x}");
            subject.poke(at, value);
            match subject.judge(&what) {
                Verdict::Refused => counts[0] += 1,
                Verdict::Harmless => counts[1] += 1,
                Verdict::Different => panic!("{what}: wrong answers"),
            }
        }
        subject.poke(at, subject.sound[at]);
    }
    counts
}

/// A file with two slots that say the same: either can be spared, and so can its unused table.
#[test]
fn every_byte_change_of_a_built_file() {
    let [refused, harmless] = every_byte_change("line", false);
    // Superblock and table 0 are refused; each slot has the other, and table 1 is not in use.
    assert!(refused >= 4096 + 2048, "{refused} refused");
    assert!(harmless >= 2 * 4096 + 2048, "{harmless} harmless");
}

/// A file with two slots and a journal: the older state and the journal stand in for the newer.
#[test]
fn every_byte_change_of_a_file_that_was_written() {
    let [refused, harmless] = every_byte_change("session", false);
    assert!(refused >= 4096 + 2048, "{refused} refused");
    assert!(harmless >= 2 * 4096 + 2048, "{harmless} harmless");
}

/// A power cut left synced keys in the journal alone: the slot before the newest one knows nothing
/// of them, so that losing the newest has to be noticed (F-35).
#[test]
fn every_byte_change_of_a_crashed_file() {
    let [refused, harmless] = every_byte_change("crashed", false);
    assert!(refused >= 2 * 4096 + 2048, "{refused} refused");
    assert!(harmless >= 4096 + 2048, "{harmless} harmless");
}

/// The check value of the secret is covered by the superblock's CRC as all else is.
#[test]
fn every_byte_change_of_a_keyed_file() {
    let [refused, harmless] = every_byte_change("keyed", false);
    assert!(refused >= 4096 + 2048, "{refused} refused");
    assert!(harmless >= 2 * 4096 + 2048, "{harmless} harmless");
}

#[test]
fn every_byte_change_of_a_crashed_keyed_file() {
    let subject = Subject::of("keyed-crashed", keyed_crash());
    let [refused, harmless] = every_byte_change_of("keyed-crashed", &subject, false);
    assert!(refused >= 2 * 4096 + 2048, "{refused} refused");
    assert!(harmless >= 4096 + 2048, "{harmless} harmless");
}

#[test]
#[ignore = "some minutes: cargo test --test hostile -- --ignored"]
fn every_change_of_every_byte() {
    for name in
        ["rows", "flat", "page", "line", "session", "crashed", "crashed-checkpoint", "keyed"]
    {
        let [refused, harmless] = every_byte_change(name, true);
        assert!(refused + harmless >= 3 * 5 * 4096, "{name}: {refused} {harmless}");
    }
}

#[test]
fn f35_a_lost_slot_is_noticed_however_it_was_lost() {
    let subject = Subject::golden("crashed");
    let slot = newest_slot(&subject.sound);
    for (what, start, length) in
        [("all of it", 0, 4096), ("its first sector", 0, 512), ("its last sector", 3584, 512)]
    {
        let verdict = subject.changed(&what, |bytes| {
            bytes[slot + start..slot + start + length].fill(0);
        });
        assert_eq!(verdict, Verdict::Refused, "{what}");
        let error = Reader::open(&subject.path).unwrap_err().into_cause();
        assert!(matches!(error, Error::SlotLost { found: 2 }), "{error}");
    }
}

/// The damaged slot may have been the newer one, so that the data must be as the clean one says.
#[test]
fn f34_a_clean_slot_beside_a_damaged_one_proves_itself() {
    let subject = Subject::golden("line");
    let data = segment(&subject.sound).data;
    let torn = |bytes: &mut Vec<u8>| bytes[SLOTS[1]..SLOTS[1] + 512].fill(0xa5);
    assert_eq!(subject.changed(&"torn", torn), Verdict::Harmless);
    let added = subject.changed(&"torn, and written on", |bytes| {
        torn(bytes);
        bytes[data] ^= 0x10;
    });
    assert_eq!(added, Verdict::Refused);
    // Inspecting reads no data, and so has no doubts.
    let _ = inspect(&subject.path).unwrap();
}

#[test]
fn every_truncation_is_refused() {
    for name in ["line", "session", "crashed", "keyed"] {
        let subject = Subject::golden(name);
        for length in (0..subject.sound.len()).rev() {
            let file = std::fs::OpenOptions::new().write(true).open(&subject.path).unwrap();
            file.set_len(length as u64).unwrap();
            let error = subject.options().open(&subject.path).unwrap_err().into_cause();
            assert!(error.is_bad_file(), "{name}: {length}: {error}");
            if matches!(length % 512, 0 | 1 | 8 | 511) {
                assert_eq!(subject.judge(&(name, length)), Verdict::Refused, "{name}: {length}");
            }
        }
    }
}

#[test]
fn extensions_are_refused() {
    for name in ["line", "session", "crashed", "keyed"] {
        let subject = Subject::golden(name);
        for more in [1, 2, 7, 8, 511, 512, 4095, 4096, 4097, 8192, 1 << 20] {
            for byte in [0x00, 0xff] {
                let what = (name, more, byte);
                let verdict = subject.changed(&what, |bytes| {
                    bytes.resize(bytes.len() + more, byte);
                });
                assert_eq!(verdict, Verdict::Refused, "{what:?}");
            }
        }
        let twice = subject.changed(&"twice", |bytes| bytes.extend_from_within(..));
        assert_eq!(twice, Verdict::Refused);
    }
}

/// Values that arithmetic goes wrong at, and the neighbours of the right one.
fn boundary_values(valid: u64, size: usize) -> Vec<u64> {
    let mut values: Vec<u64> = [6, 7, 8, 12, 15, 16, 30, 31, 32, 36, 51, 52, 62, 63]
        .into_iter()
        .flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])
        .collect();
    values.extend((0..36).chain([u64::MAX - 1, u64::MAX, !valid]));
    values.extend([1, 2, 8, 64, 4096].map(|step| valid.wrapping_add(step)));
    values.extend([1, 2, 8, 64, 4096].map(|step| valid.wrapping_sub(step)));
    values.extend([valid / 2, valid.wrapping_mul(2), valid.rotate_left(32)]);
    let rates =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, -1.0, 1.0, 0.5, f64::MIN_POSITIVE];
    values.extend(rates.map(f64::to_bits));
    let mask = if size == 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
    values.iter_mut().for_each(|value| *value &= mask);
    values.sort_unstable();
    values.dedup();
    values.retain(|&value| value != valid);
    values
}

/// The fields that say where cells are, whether the journal counts, and which of its records do (a
/// salt and its complement are both allowed): with another value in them it is another file.
const CELL_FIELDS: [&str; 8] =
    ["hash_seed", "segments", "layout", "rows", "blocks", "row_cells", "state", "salt"];

/// Every boundary value in every field, with the CRC made right, is refused or harmless.
fn every_boundary_value(name: &str, subject: &Subject) -> [u64; 3] {
    let newest = newest_slot(&subject.sound);
    let older = SLOTS[0] + SLOTS[1] - newest;
    let structures =
        [("superblock", SUPERBLOCK, SUPERBLOCK), ("slot", newest, newest), ("slot", older, older)];
    // Every record, and one where there is none.
    let count = field("slot", "segment_count");
    let count = read(&subject.sound, newest + count.offset, count.size) as usize;
    let records = (0..=count).map(|index| newest + SEGMENT_RECORDS + 64 * index);
    let structures = structures.into_iter().chain(records.map(|at| ("segment", newest, at)));
    let mut counts = [0; 3];
    for (structure, header, start) in structures {
        for field in fields(structure).into_iter().filter(|field| field.name != "crc") {
            // Of long fields, both ends.
            let places = match field.size {
                size @ (4 | 8) => vec![(field.offset, size)],
                size => vec![(field.offset, 8), (field.offset + size - 8, 8), (field.offset, 2)],
            };
            for (offset, size) in places {
                let valid = read(&subject.sound, start + offset, size);
                for value in boundary_values(valid, size) {
                    let what = format!("{name}: {structure} {} = {value:#x}", field.name);
                    let verdict = subject.changed(&what, |bytes| {
                        write(bytes, start + offset, size, value);
                        fix_header(bytes, header);
                    });
                    counts[verdict as usize] += 1;
                    if verdict == Verdict::Different {
                        assert!(CELL_FIELDS.contains(&field.name), "{what}: wrong answers");
                    }
                }
            }
        }
    }
    counts
}

#[test]
fn every_boundary_value_in_every_field() {
    let golden = [
        "rows",
        "flat",
        "page",
        "line",
        "session",
        "crashed",
        "crashed-checkpoint",
        "counting",
        "growing",
        "rotating",
        "keyed",
    ];
    let golden = golden.map(|name| (name, Subject::golden(name)));
    let crashed = ("keyed-crashed", Subject::of("keyed-crashed", keyed_crash()));
    for (name, subject) in golden.into_iter().chain([crashed]) {
        let [refused, harmless, different] = every_boundary_value(name, &subject);
        assert!(refused > 1000 && harmless > 500, "{name}: {refused} {harmless} {different}");
    }
}

/// With a valid CRC, an entry of the page table that is wrong says that its page is.
#[test]
fn every_boundary_value_in_page_tables() {
    for name in ["rows", "page", "line"] {
        let subject = Subject::golden(name);
        let table = segment(&subject.sound).table;
        let pages = (subject.sound.len() - segment(&subject.sound).data) / PAGE;
        for (page, offset) in (0..pages).flat_map(|page| [(page, 0), (page, 4)]) {
            let at = table + page * 8 + offset;
            for value in boundary_values(read(&subject.sound, at, 4), 4) {
                let what = format!("{name}: page {page} entry byte {offset} = {value:#x}");
                subject.changed(&what, |bytes| {
                    write(bytes, at, 4, value);
                    fix_table(bytes);
                });
                match verify(&subject.path) {
                    Ok(verification) => {
                        assert_eq!(verification.pages_damaged, [page as u64], "{what}");
                    }
                    Err(error) => assert!(error.is_damage(), "{what}: {error}"),
                }
            }
        }
    }
}

/// Silent changes of data are found by CRCs (F-113).
#[test]
fn verify_names_the_page_of_every_flipped_bit() {
    for name in ["rows", "page"] {
        let subject = Subject::golden(name);
        let data = segment(&subject.sound).data;
        for at in data..subject.sound.len() {
            let page = ((at - data) / PAGE) as u64;
            let mut bytes = subject.sound.clone();
            bytes[at] ^= 1 << (at % 8);
            subject.write(&bytes);
            let verification = verify(&subject.path).unwrap();
            assert_eq!(verification.pages_damaged, [page], "{name}: byte {at}");
            assert!(!verification.is_sound());
            if at % 16 == 0 {
                let verified =
                    ReadOptions::new().verify(true).open(&subject.path).unwrap_err().into_cause();
                let written = Filter::open(&subject.path).unwrap_err().into_cause();
                for error in [verified, written] {
                    let named = matches!(error, Error::Damaged { count: 1, page: found, .. }
                        if found == page);
                    assert!(named, "{name}: byte {at}: {error}");
                }
            }
        }
    }
}

/// What filters in use today do not notice: 512 bytes of the data become zero.
#[test]
fn a_zeroed_sector_is_noticed() {
    let subject = Subject::golden("page");
    let data = segment(&subject.sound).data;
    for start in (data..subject.sound.len()).step_by(512) {
        let mut bytes = subject.sound.clone();
        bytes[start..start + 512].fill(0);
        subject.write(&bytes);
        let page = ((start - data) / PAGE) as u64;
        assert_eq!(verify(&subject.path).unwrap().pages_damaged, [page]);
        let error = Filter::open(&subject.path).unwrap_err().into_cause();
        assert!(matches!(error, Error::Damaged { lost: true, .. }), "{error}");
    }
}

/// Found by fuzzing: ones where no key can fall, with checksums that say so, would be counted with
/// what is added until there are more ones than cells, and no program could open the file again (F-56).
#[test]
fn f56_ones_that_no_key_can_set_are_damage() {
    for (name, page) in [("rows", 2), ("flat", 0), ("page", 1), ("line", 0)] {
        let subject = Subject::golden(name);
        let last = segment(&subject.sound).data + (page + 1) * PAGE - 1;
        subject.changed(&name, |bytes| {
            bytes[last] ^= 0x80;
            fix_page(bytes, page);
        });
        assert_eq!(verify(&subject.path).unwrap().pages_damaged, [page as u64], "{name}");
        assert!(
            matches!(
                Filter::open(&subject.path).map_err(Error::into_cause),
                Err(Error::Damaged { .. })
            ),
            "{name}"
        );
    }
}

/// Each segment may claim 2^63 − 1 adds.
#[test]
fn f38_sums_of_adds_do_not_overflow() {
    for name in ["growing", "rotating"] {
        let subject = Subject::golden(name);
        subject.changed(&name, |bytes| {
            let slot = newest_slot(bytes);
            let adds = field("segment", "adds");
            for index in 0..if name == "growing" { 3 } else { 2 } {
                let at = slot + SEGMENT_RECORDS + 64 * index + adds.offset;
                write(bytes, at, adds.size, u64::MAX / 2);
            }
            fix_header(bytes, slot);
        });
        // No more than F-38 allows.
        assert!(Reader::open(&subject.path).unwrap().adds() < 1 << 20);
        let _ = inspect(&subject.path).unwrap();
        if let Ok(filter) = Filter::open(&subject.path) {
            filter.adds();
        }
    }
}

/// Found by fuzzing: the journal of a counting file says that a counter was another number than page
/// and entry say. A strict reader took it, which verification and writers refuse (F-98).
#[test]
fn f98_a_journal_that_does_not_fit_its_pages_is_refused_by_all() {
    let subject = Subject::golden("crashed-counting");
    let part = parts(&subject.sound)[0];
    let mut refused = 0;
    for at in (part.data..part.data + part.pages * PAGE).step_by(7) {
        let mut bytes = subject.sound.clone();
        bytes[at] ^= 0x60;
        fix_entries_of(&mut bytes, part);
        fix_record_of(&mut bytes, part);
        let slot = newest_slot(&bytes);
        fix_header(&mut bytes, slot);
        subject.write(&bytes);
        let verified = verify(&subject.path).is_ok_and(|it| it.pages_damaged.is_empty());
        for access in [Access::Mapped, Access::Memory] {
            let strict = ReadOptions::new().access(access).verify(true).open(&subject.path);
            assert_eq!(strict.is_ok(), verified, "byte {at}, {access:?}");
        }
        assert_eq!(Filter::open(&subject.path).is_ok(), verified, "byte {at}");
        refused += u32::from(!verified);
    }
    assert!(refused > 0);
}

/// The tests are to find sums that overflow, which release builds let pass.
#[test]
fn overflow_checks_are_on() {
    let most = std::hint::black_box(u64::MAX);
    assert!(std::panic::catch_unwind(|| most + 1).is_err());
}

/// A file whose data were changed together with all their checksums is a file like any other.
#[test]
fn a_page_with_its_checksums_made_right_is_sound() {
    let subject = Subject::golden("page");
    let data = segment(&subject.sound).data;
    let mut bytes = subject.sound.clone();
    bytes[data + 5] ^= 0xff;
    fix_page(&mut bytes, 0);
    subject.write(&bytes);
    assert!(verify(&subject.path).unwrap().is_sound());
    Filter::open(&subject.path).unwrap().close().unwrap();
}
