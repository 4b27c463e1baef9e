//! Mutated files, their checksums made right: a program that opens, asks, verifies, explains, repairs or
//! writes one gets an error or an answer, and what a writer leaves is a sound file.

#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bloomfile::{
    Error, Filter, Key, ReadOptions, Reader, Result,
    ops::repair,
    report::{inspect, verify},
};
use libfuzzer_sys::fuzz_target;
use support::*;

/// The golden files: every layout, every kind, written ones and crashed ones.
const BASES: [&[u8]; 17] = [
    include_bytes!("../../tests/golden/rows.bloom"),
    include_bytes!("../../tests/golden/flat.bloom"),
    include_bytes!("../../tests/golden/page.bloom"),
    include_bytes!("../../tests/golden/line.bloom"),
    include_bytes!("../../tests/golden/session.bloom"),
    include_bytes!("../../tests/golden/crashed.bloom"),
    include_bytes!("../../tests/golden/crashed-checkpoint.bloom"),
    include_bytes!("../../tests/golden/counting.bloom"),
    include_bytes!("../../tests/golden/growing.bloom"),
    include_bytes!("../../tests/golden/rotating.bloom"),
    include_bytes!("../../tests/golden/crashed-counting.bloom"),
    include_bytes!("../../tests/golden/crashed-growing.bloom"),
    include_bytes!("../../tests/golden/keyed.bloom"),
    include_bytes!("../../tests/golden/sealed-empty.bloom"),
    include_bytes!("../../tests/golden/sealed-one.bloom"),
    include_bytes!("../../tests/golden/sealed-thousands.bloom"),
    include_bytes!("../../tests/golden/sealed-maybe.bloom"),
];

/// Longest a file may get.
const MOST_BYTES: usize = 1 << 18;

/// Where the mutated file is written, in memory if there is such a place.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("bloomfile-fuzz-{}", std::process::id()))
});

/// The fields of every structure.
static FIELDS: LazyLock<[Vec<Field>; 3]> =
    LazyLock::new(|| ["superblock", "slot", "segment"].map(fields));

/// Input, used up from the front; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.number(3) as usize % limit.max(1)
    }
}

/// A file made of the input, and which of its checksums are right.
fn mutate(input: &mut Input<'_>) -> Vec<u8> {
    let base = BASES[input.below(BASES.len())];
    let mut bytes = base.to_vec();
    let (slot, parts) = (newest_slot(base), parts(base));
    let part = parts[input.below(parts.len())];
    let other_slot = SLOTS[0] + SLOTS[1] - slot;
    let records = Journal::of(base, slot).records();
    let fix = input.number(1);
    let end = input.number(1);
    while !input.0.is_empty() {
        match input.number(1) % 8 {
            0 => {
                let at = input.below(bytes.len());
                bytes[at] = input.number(1) as u8;
            }
            1 => {
                let start = [SUPERBLOCK, slot, other_slot][input.below(3)];
                let structure = if start == SUPERBLOCK { 0 } else { 1 };
                set_field(&mut bytes, start, structure, input);
            }
            2 => {
                let record = slot + SEGMENT_RECORDS + 64 * input.below(parts.len() + 1);
                set_field(&mut bytes, record, 2, input);
            }
            3 => {
                let entry = part.table + 8 * input.below(8);
                write(&mut bytes, entry, 8, input.number(8));
            }
            4 => {
                let (from, length) = (input.below(bytes.len()), input.below(4096));
                let length = length.min(bytes.len() - from);
                let to = input.below(bytes.len() - length);
                bytes.copy_within(from..from + length, to);
            }
            5 => {
                let at = part.data + input.below(bytes.len() - part.data);
                bytes[at] ^= input.number(1) as u8;
            }
            // A record of the journal, its check made right, in a file that was not closed.
            6 if records > 0 => {
                let kind = input.number(1);
                // Mostly where a writer would go on, and at the end of a half.
                let index = match kind >> 4 & 3 {
                    0 => input.below(records),
                    1 => input.below(64).min(records - 1),
                    2 => records / 2 + input.below(64).min(records / 2 - 1),
                    _ => records / 2 * (1 + input.below(2)) - 1 - input.below(4),
                };
                put_record(&mut bytes, slot, index, kind, input);
            }
            7 if records > 0 => {
                let state = field("slot", "state");
                write(&mut bytes, slot + state.offset, state.size, 2);
            }
            _ => {}
        }
    }
    // From the inside out: each checksum is over the ones before it.
    for &part in &parts {
        if fix & 1 != 0 {
            fix_entries_of(&mut bytes, part);
        }
        if fix & 2 != 0 {
            fix_record_of(&mut bytes, part);
        }
    }
    for (bit, start) in [(4, slot), (8, other_slot), (16, SUPERBLOCK)] {
        if fix & bit != 0 {
            fix_header(&mut bytes, start);
        }
    }
    match end {
        0 => bytes.truncate(input.below(bytes.len())),
        1..16 => bytes.resize((bytes.len() + end as usize * PAGE).min(MOST_BYTES), 0),
        16..32 => bytes.extend_from_within(..),
        _ => {}
    }
    bytes
}

/// Puts a valid record at a place of the journal; its `kind` says what of it comes from the input.
fn put_record(bytes: &mut [u8], slot: usize, index: usize, kind: u64, input: &mut Input<'_>) {
    let journal = Journal::of(bytes, slot);
    // Another mutation may have changed what the headers say.
    if index >= journal.records() {
        return;
    }
    let (at, size) = (journal.offset(index), journal.record_bytes);
    let Some(record) = bytes.get_mut(at..at + size) else { return };
    if kind & 1 != 0 {
        // Small numbers are marks, lengths and numbers of records.
        write(record, 0, 8, input.number(if kind & 2 != 0 { 1 } else { 8 }));
    }
    if kind & 4 != 0 {
        for word in (8..size).step_by(8) {
            write(record, word, 8, input.number(8));
        }
    }
    match kind >> 6 {
        // No mask: a sync record.
        1 => write(record, size - 8, 8, 0),
        // The mask of an add or a removal in a counting file.
        2 => write(record, size - 8, 8, 0x8000 | input.number(1) << 8 & 0x4000),
        _ => {}
    }
    journal.fix(index, record, kind & 8 != 0);
}

/// Puts a value from the input, or one near the old, into a field.
fn set_field(bytes: &mut [u8], start: usize, structure: usize, input: &mut Input<'_>) {
    let fields = &FIELDS[structure];
    let field = fields[input.below(fields.len())];
    let size = field.size.min(8);
    let at = start + field.offset + input.below(field.size - size + 1);
    let value = match input.number(1) {
        0 => input.number(size),
        step @ 1..64 => read(bytes, at, size).wrapping_add(step),
        step @ 64..128 => read(bytes, at, size).wrapping_sub(step - 63),
        bit @ 128..192 => 1 << (bit - 128),
        bit => u64::MAX >> (bit - 192),
    };
    write(bytes, at, size, value);
}

/// What a mutated slot says of pages that were kept stays.
fn is_as_written(path: &Path) -> bool {
    verify(path).is_ok_and(|verification| verification.is_as_written())
}

/// Opens a file to be read: with the secret of the keyed golden file, if it asks for one.
fn open(path: &Path, strict: bool) -> Result<Reader> {
    let options = || ReadOptions::new().verify(strict);
    options().open(path).or_else(|error| match error.cause() {
        Error::KeyNeeded { .. } => options().key(&secret()).open(path),
        _ => Err(error),
    })
}

fn open_to_write(path: &Path) -> Result<Filter> {
    Filter::open(path).or_else(|error| match error.cause() {
        Error::KeyNeeded { .. } => Filter::open_with_key(path, &secret()),
        _ => Err(error),
    })
}

fn secret() -> Key {
    Key::from_bytes(*b"golden test key.")
}

/// Whether the check value in the superblock was made that of another secret: what takes no secret
/// then takes a file that readers refuse.
fn is_of_another_secret<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|error| matches!(error.cause(), Error::WrongKey { .. }))
}

fuzz_target!(|data: &[u8]| {
    let bytes = mutate(&mut Input(data));
    let path = FILE.as_path();
    let put = || std::fs::write(path, &bytes).expect("the file can be written");
    put();
    let read = open(path, false).map(|reader| {
        reader.contains(b"key-7");
        reader.contains_hash(u64::MAX);
        let mut found = Vec::new();
        reader.contains_hash_batch(&[0, 1, u64::MAX], &mut found);
    });
    let strict = open(path, true).map(drop);
    let foreign = is_of_another_secret(&read);
    assert_eq!(is_of_another_secret(&strict), foreign);
    assert!(read.is_ok() || strict.is_err(), "a strict reader takes what a plain one refuses");
    // Of a doubtful file (F-34) a reader reads the data, which inspecting never does.
    assert!(inspect(path).is_ok() || read.is_err(), "inspect refuses what a reader takes");
    let taken = verify(path).is_ok_and(|verification| {
        verification.pages_damaged.is_empty() && verification.pages_busy.is_empty()
    });
    assert_eq!(taken && !foreign, strict.is_ok());
    assert!(std::fs::read(path).expect("the file can be read") == bytes, "a reader wrote");

    let mut written = false;
    if let Ok(filter) = open_to_write(path) {
        assert!(!foreign, "a writer takes the file of another secret");
        assert!(taken, "a writer takes what verify does not");
        // One that was made full refuses keys, or cannot grow.
        let added = (0..300u32).all(|number| filter.add(&number.to_le_bytes()).is_ok());
        // A file that was made to run out of numbers refuses here.
        written = filter.sync_with_mark(1).is_ok() && filter.close().is_ok() && added;
    }
    if written {
        assert!(is_as_written(path), "a writer closed what is not sound");
        let reader = open(path, true).expect("a writer closed it");
        let forgets = inspect(path).expect("a writer closed it").generations.is_some();
        assert!(forgets || (0..300u32).all(|number| reader.contains(&number.to_le_bytes())));
        assert_eq!(reader.mark(), 1);
    }

    put();
    if repair(path).is_ok() {
        assert!(is_as_written(path), "a repair leaves what is not sound");
        let opened = open(path, true);
        assert!(opened.is_ok() || is_of_another_secret(&opened), "it was repaired");
    }
    std::fs::remove_file(path).expect("the file can be removed");
});
