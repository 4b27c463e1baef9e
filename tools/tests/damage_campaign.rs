//! Damage of every kind to files of every kind and state: no key that was synced is ever denied
//! without an error.
//!
//! The short form is a sample of the bytes; `BLOOMFILE_DAMAGE=all` takes each byte of each file,
//! `BLOOMFILE_SEED` another seed.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bloomfile::{
    CellKind, Filter, Key, Options, ReadOptions, Reader,
    geometry::Geometry,
    ops::{SetOperation, repair},
    reader::Access,
    report::verify,
};
use common::{random, write_at};
use support::*;
use tempfile::TempDir;

const SECTOR: usize = 512;

/// Bytes of the short form from one damaged byte to the next.
const STRIDE: usize = 173;

fn seed() -> u64 {
    std::env::var("BLOOMFILE_SEED").map_or(13, |seed| seed.parse().unwrap())
}

fn every_byte() -> bool {
    std::env::var("BLOOMFILE_DAMAGE").is_ok_and(|form| form == "all")
}

fn key(number: u64) -> String {
    format!("key-{number}")
}

/// Files of every layout and kind, small enough to change each byte of.
fn kinds() -> Vec<(&'static str, Options)> {
    let of = |geometry| Options::new().geometry(geometry).journal_bytes(2 * PAGE as u64);
    let line = Geometry::line(8, 100).unwrap();
    let growing = Options::new()
        .capacity(150)
        .false_positive_rate(0.01)
        .grow()
        .journal_bytes(2 * PAGE as u64);
    let counting = Geometry::line(4, 60).unwrap();
    vec![
        ("line", of(line)),
        ("page", of(Geometry::page(7, 2).unwrap())),
        ("rows", of(Geometry::rows(3, 4000).unwrap())),
        ("flat", of(Geometry::flat(5, 20_000).unwrap())),
        ("counting", of(counting).kind(CellKind::Counting)),
        ("growing", growing.clone()),
        ("rotating", of(line).generations(3)),
        ("counting, growing", growing.kind(CellKind::Counting)),
        ("counting, rotating", of(counting).kind(CellKind::Counting).generations(3)),
        // At this rate a page has some 2,000 keys.
        (SEALED, Options::new().sealed(true).false_positive_rate(0.0001)),
    ]
}

/// The kind that is built and never written: all its files are clean.
const SEALED: &str = "sealed";

/// Keys of a sealed file, which has several pages of them.
const SEALED_KEYS: u64 = 7_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Clean,
    /// A writer has it.
    Live,
    /// The writer was killed: journal and data are as it left them.
    Killed,
    /// The power went: the journal is on the disk, the data since the last slot are not.
    PowerCut,
    /// As before, and a part of the data is.
    TornPowerCut,
}

/// A file, and the keys that were synced when it got into its state.
struct Subject {
    kind: &'static str,
    state: State,
    bytes: Vec<u8>,
    /// Keys `0..synced`; those from `checkpointed` on are in the journal alone after a power cut,
    /// those from `last` on in its last group, behind which nothing stands.
    synced: u64,
    checkpointed: u64,
    last: u64,
    /// Records of the journal since the checkpoint; behind them stand some from before it.
    records: usize,
    /// Of a keyed file.
    secret: Option<Key>,
    folder: TempDir,
    /// The writer of a live file, which is at [`path`](Self::path).
    writer: Option<Filter>,
}

fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

impl Subject {
    /// A sealed file, which has one state and no journal.
    fn sealed(options: &Options, secret: Option<Key>) -> Self {
        let folder = folder();
        let path = folder.path().join("subject");
        let mut builder = options.start_build(&path).unwrap();
        builder.extend((0..SEALED_KEYS).map(key));
        let built = builder.finish().unwrap();
        assert_eq!((built.keys, built.maybe_pages), (SEALED_KEYS, 0));
        assert!(built.plan.geometry().pages() > 2);
        let subject = Subject {
            kind: SEALED,
            state: State::Clean,
            bytes: std::fs::read(&path).unwrap(),
            synced: SEALED_KEYS,
            checkpointed: SEALED_KEYS,
            last: SEALED_KEYS,
            records: 0,
            secret,
            folder,
            writer: None,
        };
        subject.checked()
    }

    fn new(kind: &'static str, options: &Options, state: State, secret: Option<Key>) -> Self {
        let folder = folder();
        let path = folder.path().join("subject");
        let filter = options.create(&path).unwrap();
        let mut keys = 0;
        let add = |keys: &mut u64, count: u64| {
            (*keys..*keys + count).for_each(|number| {
                filter.add(key(number).as_bytes()).unwrap();
            });
            *keys += count;
        };
        add(&mut keys, 120);
        if kind.ends_with("rotating") {
            filter.rotate().unwrap();
            add(&mut keys, 60);
        }
        add(&mut keys, 40);
        filter.checkpoint().unwrap();
        let checkpointed = keys;
        let before = std::fs::read(&path).unwrap();
        let group = 20;
        for mark in [1, 2] {
            add(&mut keys, group);
            filter.sync_with_mark(mark).unwrap();
        }
        add(&mut keys, group);
        filter.sync_with_mark(3).unwrap();
        let (synced, last) = (keys, keys - group);
        let records = journal_records(&before, &std::fs::read(&path).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        let mut writer = None;
        match state {
            State::Clean => {
                filter.close().unwrap();
                bytes = std::fs::read(&path).unwrap();
            }
            State::Live => writer = Some(filter),
            State::Killed => drop(filter),
            State::PowerCut | State::TornPowerCut => {
                drop(filter);
                assert_eq!(before.len(), bytes.len(), "no growth since the checkpoint");
                power_cut(&before, &mut bytes, state == State::TornPowerCut);
            }
        }
        let subject = Subject {
            kind,
            state,
            bytes,
            synced,
            checkpointed,
            last,
            records,
            secret,
            folder,
            writer,
        };
        if state != State::Live {
            subject.restore();
        }
        subject.checked()
    }

    /// The same, found to be sound, with the secret in a file beside it.
    fn checked(self) -> Self {
        if let Some(secret) = &self.secret {
            secret.write_new_file(self.at("key")).unwrap();
        }
        let opened = self.options().open(self.path()).unwrap();
        let several = ["growing", "rotating"].iter().any(|it| self.kind.ends_with(it));
        assert_eq!(opened.segments() > 1, several, "{}", self.kind);
        assert_eq!(self.denied(&opened), [] as [u64; 0]);
        self
    }

    /// What it is opened with to be read.
    fn options(&self) -> ReadOptions {
        match &self.secret {
            Some(secret) => ReadOptions::new().key(secret),
            None => ReadOptions::new(),
        }
    }

    fn open_to_write(&self, path: &Path) -> bloomfile::Result<Filter> {
        match &self.secret {
            Some(secret) => Filter::open_with_key(path, secret),
            None => Filter::open(path),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("subject")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn restore(&self) {
        match self.state {
            // The same file, under the writer's map.
            State::Live => {
                let file = std::fs::OpenOptions::new().write(true).open(self.path()).unwrap();
                write_at(&file, &self.bytes, 0);
            }
            _ => std::fs::write(self.path(), &self.bytes).unwrap(),
        }
    }

    /// The synced keys that are denied.
    fn denied(&self, reader: &Reader) -> Vec<u64> {
        (0..self.synced).filter(|&number| !reader.contains(key(number).as_bytes())).collect()
    }

    /// Whether a damage leaves no record of the journal behind the first that it changed: then
    /// nothing shows that there ever was one, and the groups from there on look as if they had
    /// never been synced.
    fn ends_the_journal(&self, damage: Damage) -> bool {
        let mut bytes = self.bytes.clone();
        damage.apply(&mut bytes);
        let journal = half(&self.bytes);
        if bytes.len() < journal.end {
            return false;
        }
        let record_bytes = record_bytes(&self.bytes);
        let records = |bytes: &[u8]| -> Vec<Vec<u8>> {
            bytes[journal.clone()].chunks(record_bytes).map(<[u8]>::to_vec).collect()
        };
        let (before, after) = (records(&self.bytes), records(&bytes));
        let used = self.records;
        let Some(first) = (0..used).find(|&at| before[at] != after[at]) else { return false };
        (first..used).all(|at| before[at] != after[at])
    }

    fn cut(&self) -> bool {
        matches!(self.state, State::PowerCut | State::TornPowerCut)
    }
}

/// The half of the journal that the epoch of the newest slot has (F-70).
fn half(bytes: &[u8]) -> std::ops::Range<usize> {
    let epoch = field("slot", "epoch");
    let epoch = read(bytes, newest_slot(bytes) + epoch.offset, epoch.size) as usize;
    let start = JOURNAL + epoch % 2 * PAGE;
    start..start + PAGE
}

fn record_bytes(bytes: &[u8]) -> usize {
    let cell_bits = field("superblock", "cell_bits");
    if read(bytes, cell_bits.offset, cell_bits.size) == 4 { 32 } else { 16 }
}

/// How many records of the journal were written between two states of a file.
fn journal_records(before: &[u8], after: &[u8]) -> usize {
    let (half, size) = (half(after), record_bytes(after));
    let changed = (0..PAGE / size).rfind(|&index| {
        let at = half.start + size * index;
        before[at..at + size] != after[at..at + size]
    });
    changed.map_or(0, |last| last + 1)
}

/// Sets data back to what it was at the checkpoint, all of it or some words, and gives the open
/// slot another boot.
fn power_cut(before: &[u8], bytes: &mut [u8], torn: bool) {
    let slot = newest_slot(bytes);
    let boot = field("slot", "boot_id");
    assert!(bytes[slot + boot.offset..][..boot.size].iter().any(|&byte| byte != 0));
    bytes[slot + boot.offset] ^= 0x5a;
    fix_header(bytes, slot);
    let data = JOURNAL + 2 * PAGE;
    for (word, at) in (data..bytes.len()).step_by(8).enumerate() {
        if !torn || random(7, word as u64).is_multiple_of(3) {
            bytes[at..at + 8].copy_from_slice(&before[at..at + 8]);
        }
    }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip { at: usize, bit: u8 },
    Zero { sector: usize },
    Random { sector: usize },
    Swap { sector: usize, other: usize },
    Truncate { length: usize },
    Extend { more: usize },
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>) {
        let start = |sector: usize| sector * SECTOR;
        match self {
            Damage::Flip { at, bit } => bytes[at] ^= 1 << bit,
            Damage::Zero { sector } => bytes[start(sector)..][..SECTOR].fill(0),
            Damage::Random { sector } => {
                for (at, byte) in bytes[start(sector)..][..SECTOR].iter_mut().enumerate() {
                    *byte = random(sector as u64, at as u64) as u8;
                }
            }
            Damage::Swap { sector, other } => {
                for at in 0..SECTOR {
                    bytes.swap(start(sector) + at, start(other) + at);
                }
            }
            Damage::Truncate { length } => bytes.truncate(length),
            Damage::Extend { more } => bytes.resize(bytes.len() + more, 0),
        }
    }

    /// All damages of a file, or a sample of them.
    fn all(length: usize, state: State) -> Vec<Damage> {
        let all = every_byte();
        let (sectors, seed) = (length / SECTOR, seed());
        // A reader that finds a live file torn waits for its writer, and tries again.
        let rarely = if state == State::Live { 4 } else { 1 };
        let stride = if all { 1 } else { rarely * STRIDE };
        let first = random(seed, state as u64) as usize % stride;
        let mut damages: Vec<Damage> = (first..length)
            .step_by(stride)
            .map(|at| Damage::Flip { at, bit: random(seed, at as u64) as u8 % 8 })
            .collect();
        let step = if all { 1 } else { 3 * rarely };
        for sector in (random(seed, 5) as usize % step..sectors).step_by(step) {
            let other = random(seed, sector as u64) as usize % sectors;
            damages.extend([
                Damage::Zero { sector },
                Damage::Random { sector },
                Damage::Swap { sector, other },
                // Neighbours, and the same sector of the next page.
                Damage::Swap { sector, other: (sector + 1) % sectors },
                Damage::Swap { sector, other: (sector + PAGE / SECTOR) % sectors },
            ]);
        }
        // A file is never cut short under a map: that is a signal, in every program (F-102).
        if state != State::Live {
            for length in (0..length).step_by(if all { 67 } else { 4099 }) {
                damages.push(Damage::Truncate { length });
            }
            damages.extend([1, 8, 512, 4095, 4096, 65536].map(|more| Damage::Extend { more }));
        }
        damages
    }
}

/// What became of the damages.
#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    /// Opened by a plain reader, with every key in it.
    harmless: u64,
    /// Refused by a plain reader.
    refused: u64,
    /// Keys of the last group were lost after a power cut (F-91).
    last_group: u64,
    /// Keys of more groups were, because nothing was left behind them.
    ends: u64,
    /// Keys were lost on a page that is reported as not verifiable (F-94).
    unverifiable: u64,
    commands: u64,
    /// Pages of sealed files that a repair made say "maybe".
    maybe: u64,
    /// By the way the file was read or written, the damages and the first key denied.
    failures: BTreeMap<&'static str, Vec<String>>,
}

impl Tally {
    /// Judges what some way of reading a damaged file gave.
    fn judge(&mut self, subject: &Subject, damage: Damage, way: &'static str, denied: &[u64]) {
        let Some(first) = denied.first() else { return };
        let all_from = |start: u64| denied.iter().all(|&key| key >= start);
        if subject.cut() && all_from(subject.last) {
            self.last_group += 1;
        } else if subject.cut()
            && all_from(subject.checkpointed)
            && subject.ends_the_journal(damage)
        {
            self.ends += 1;
        } else if subject.cut() && !is_called_sound(subject) {
            self.unverifiable += 1;
        } else {
            let (kind, count) = (subject.kind, denied.len());
            let failure = format!("{kind}, {damage:?}: {count} keys, key-{first} first");
            self.failures.entry(way).or_default().push(failure);
        }
    }
}

fn is_called_sound(subject: &Subject) -> bool {
    verify(subject.path()).is_ok_and(|verification| verification.is_sound())
}

fn through_readers(subject: &Subject, damage: Damage, tally: &mut Tally) {
    let path = subject.path();
    let plain = subject.options();
    let memory = subject.options().access(Access::Memory);
    let strict = subject.options().verify(true);
    for (name, options) in [("reader", plain), ("in memory", memory), ("strict", strict)] {
        match options.open(&path) {
            Ok(reader) => {
                let denied = subject.denied(&reader);
                tally.harmless += u64::from(name == "reader" && denied.is_empty());
                tally.judge(subject, damage, name, &denied);
            }
            Err(error) => {
                tally.refused += u64::from(name == "reader");
                assert!(error.is_bad_file(), "{damage:?}: {error}");
            }
        }
    }
}

/// What writers, repair and merges make of the file; each gets a copy.
fn through_writers(subject: &Subject, damage: Damage, tally: &mut Tally) {
    let (path, copy) = (subject.path(), subject.at("copy"));
    let opened = |path: &Path| subject.options().verify(true).open(path).unwrap();
    std::fs::copy(&path, &copy).unwrap();
    if let Ok(filter) = subject.open_to_write(&copy) {
        filter.add(b"another").unwrap();
        filter.close().unwrap();
        tally.judge(subject, damage, "written", &subject.denied(&opened(&copy)));
    }
    std::fs::copy(&path, &copy).unwrap();
    if let Ok(repaired) = repair(&copy) {
        let reader = opened(&copy);
        tally.judge(subject, damage, "repaired", &subject.denied(&reader));
        if subject.kind == SEALED {
            // Its damaged pages say "maybe" to any key.
            let geometry = *reader.geometry();
            let hashes = || (0..100).map(|index| random(seed() + 2, index));
            for &page in &repaired.pages_repaired {
                let mut of_page = hashes().filter(|&hash| geometry.block(hash) == page);
                assert!(of_page.all(|hash| reader.contains_hash(hash)), "{damage:?}: {page}");
            }
            tally.maybe += repaired.pages_repaired.len() as u64;
        }
    }
    std::fs::copy(&path, &copy).unwrap();
    let (empty, merged) = (subject.at("empty"), subject.at("merged"));
    let union = SetOperation::new().replace(true).union(&[&copy, &empty], &merged);
    if union.is_ok() {
        tally.judge(subject, damage, "merged", &subject.denied(&opened(&merged)));
    }
}

/// The command, with its exit status and what it prints.
fn run(arguments: &[&str], input: &str) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bloomfile"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A command that refuses its file reads no input.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().expect("no signal"), text)
}

fn through_the_command(subject: &Subject, damage: Damage, tally: &mut Tally) {
    tally.commands += 1;
    let keys: String = (0..subject.synced).map(|number| key(number) + "\n").collect();
    let path = |name: &str| subject.at(name).to_str().unwrap().to_owned();
    let (file, copy, merged) = (path("subject"), path("copy"), path("merged"));
    let key_path = path("key");
    let key_file = if subject.secret.is_some() { &["--key-file", &key_path][..] } else { &[] };
    // The keys that it denies; none if it reports an error.
    let denied = |file: &str| -> Vec<u64> {
        let (status, text) = run(&[&["check", file, "-v"], key_file].concat(), &keys);
        assert!((0..=2).contains(&status), "{damage:?}: exit {status}");
        let number = |line: &str| line.strip_prefix("key-").unwrap().parse().unwrap();
        if status == 2 { Vec::new() } else { text.lines().map(number).collect() }
    };
    tally.judge(subject, damage, "check", &denied(&file));
    let (status, _) = run(&["verify", &file], "");
    if status == 0 {
        let reader = subject.options().open(&file).unwrap();
        tally.judge(subject, damage, "verify", &subject.denied(&reader));
    }
    let ways = [
        ("add", [&["add", &copy, "another"], key_file].concat()),
        ("repair", vec!["repair", &copy]),
    ];
    for (way, arguments) in ways {
        std::fs::copy(&file, &copy).unwrap();
        if run(&arguments, "").0 == 0 {
            tally.judge(subject, damage, way, &denied(&copy));
        }
    }
    if run(&["merge", "-f", &file, &path("empty"), "-o", &merged], "").0 == 0 {
        tally.judge(subject, damage, "merge", &denied(&merged));
    }
}

fn campaign(state: State) {
    let (mut tallies, mut failures) = (BTreeMap::new(), BTreeMap::<_, Vec<String>>::new());
    for (number, (kind, mut options)) in kinds().into_iter().enumerate() {
        if kind == SEALED && state != State::Clean {
            continue;
        }
        // Every other kind is keyed, in every other state those that are not in the one before.
        let secret = Key::from_bytes(*b"a secret in harm");
        let secret = (number + state as usize).is_multiple_of(2).then_some(secret);
        if let Some(secret) = &secret {
            options = options.key(secret);
        }
        let subject = if kind == SEALED {
            Subject::sealed(&options, secret)
        } else {
            Subject::new(kind, &options, state, secret)
        };
        let empty = options.clone().replace(true);
        if kind == SEALED {
            empty.start_build(subject.at("empty")).unwrap().finish().unwrap();
        } else {
            empty.create(subject.at("empty")).unwrap().close().unwrap();
        }
        let mut tally = Tally::default();
        for (number, damage) in Damage::all(subject.bytes.len(), state).into_iter().enumerate() {
            tally.cases += 1;
            let mut bytes = subject.bytes.clone();
            damage.apply(&mut bytes);
            if state == State::Live {
                let file = std::fs::OpenOptions::new().write(true).open(subject.path()).unwrap();
                write_at(&file, &bytes, 0);
            } else {
                std::fs::write(subject.path(), &bytes).unwrap();
            }
            through_readers(&subject, damage, &mut tally);
            // The number does not run with the sectors, so that the sample is of all damages.
            if random(seed(), number as u64).is_multiple_of(8) {
                through_writers(&subject, damage, &mut tally);
            }
            if random(seed() + 1, number as u64).is_multiple_of(160) {
                through_the_command(&subject, damage, &mut tally);
            }
            if state == State::Live {
                subject.restore();
            }
        }
        for (way, mut found) in std::mem::take(&mut tally.failures) {
            failures.entry(way).or_default().append(&mut found);
        }
        if let Some(writer) = subject.writer {
            writer.close().unwrap();
        }
        tallies.insert(kind, tally);
    }
    for (kind, tally) in &tallies {
        let Tally {
            cases, harmless, refused, last_group, ends, unverifiable, commands, maybe, ..
        } = tally;
        let repaired = if *kind == SEALED {
            format!("; {maybe} pages made \"maybe\" by repairs")
        } else {
            String::new()
        };
        println!(
            "{state:?} {kind}: {cases} damages, {refused} refused and {harmless} harmless to \
             readers, {commands} also through the command; after a power cut {last_group} times \
             keys of the last group lost and {ends} times the end of the journal (F-91), \
             {unverifiable} times keys on pages told as not verifiable (F-94){repaired}"
        );
    }
    for (way, found) in &mut failures {
        println!("{state:?}, {way}: {} silent losses", found.len());
        found.truncate(5);
    }
    assert!(failures.is_empty(), "seed {}: silent losses, such as {failures:#?}", seed());
}

#[test]
fn clean_files() {
    campaign(State::Clean);
}

#[test]
fn live_files() {
    campaign(State::Live);
}

#[test]
fn killed_files() {
    campaign(State::Killed);
}

#[test]
fn files_after_a_power_cut() {
    campaign(State::PowerCut);
}

#[test]
fn files_after_a_power_cut_with_a_part_of_the_data() {
    campaign(State::TornPowerCut);
}
