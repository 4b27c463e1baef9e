//! Which slot counts, what is judged of each, and what two slots say of each other (F-21 to F-34).

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::path::{Path, PathBuf};

use bloomfile::{Error, Filter, Reader, report::inspect};
use support::*;
use tempfile::TempDir;

struct Subject {
    folder: TempDir,
    bytes: Vec<u8>,
}

impl Subject {
    fn golden(name: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let bytes = std::fs::read(source.join(format!("{name}.bloom"))).unwrap();
        Subject { folder: TempDir::new().unwrap(), bytes }
    }

    fn older(&self) -> usize {
        SLOTS[0] + SLOTS[1] - newest_slot(&self.bytes)
    }

    /// The file with a field of a slot or of its first segment record changed, checksum included.
    fn with(
        &self,
        slot: usize,
        structure: &str,
        name: &str,
        change: impl Fn(u64) -> u64,
    ) -> PathBuf {
        let mut bytes = self.bytes.clone();
        let field = field(structure, name);
        let at = slot + field.offset + if structure == "segment" { SEGMENT_RECORDS } else { 0 };
        let value = change(read(&bytes, at, field.size));
        write(&mut bytes, at, field.size, value);
        fix_header(&mut bytes, slot);
        self.write(&bytes)
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join("filter");
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

#[test]
fn f31_slots_that_do_not_follow_one_another_are_refused() {
    for name in ["session", "crashed"] {
        let subject = Subject::golden(name);
        let (newest, older) = (newest_slot(&subject.bytes), subject.older());
        Reader::open(subject.write(&subject.bytes)).unwrap();
        let refused = |slot, field: &'static str, change: fn(u64) -> u64| {
            let path = subject.with(slot, "slot", field, change);
            let writer = Filter::open(&path).map(drop).unwrap_err().into_cause();
            for error in [Reader::open(&path).map(drop).unwrap_err().into_cause(), writer] {
                assert!(matches!(error, Error::Field { .. }), "{name}, {field}: {error}");
            }
        };
        // By 2, so that the number stays that of its slot.
        refused(newest, "sequence", |sequence| sequence + 2);
        refused(newest, "epoch", |epoch| epoch + 1);
        refused(newest, "salt", |salt| salt ^ 1);
        refused(older, "epoch", |epoch| epoch + 5);
        refused(older, "next_salt", |salt| salt ^ 1 << 40);
    }
}

#[test]
fn f32_of_the_older_slot_its_own_fields_are_judged_and_no_others() {
    let subject = Subject::golden("session");
    let older = subject.older();
    for (field, harmless) in
        [("ones", true), ("offset", true), ("table_crc", true), ("layout", false), ("table", false)]
    {
        let path = subject.with(older, "segment", field, |value| value ^ 0x7000_0000);
        assert_eq!(Reader::open(&path).is_ok(), harmless, "{field}");
    }
    let path = subject.with(older, "segment", "adds", |_| u64::MAX);
    assert!(Reader::open(&path).is_err(), "adds (F-26)");
    // Of the slot that counts, all of them are.
    for field in ["ones", "offset", "table_crc", "layout", "table"] {
        let newest = newest_slot(&subject.bytes);
        let path = subject.with(newest, "segment", field, |value| value ^ 0x7000_0000);
        assert!(Reader::open(&path).is_err(), "{field}");
    }
}

/// A lost slot may have been the newer one: the data must then be as the other says (F-34).
#[test]
fn f21_a_slot_of_zeros_is_a_damaged_one() {
    let subject = Subject::golden("session");
    let mut bytes = subject.bytes.clone();
    bytes[subject.older()..][..PAGE].fill(0);
    assert!(Reader::open(subject.write(&bytes)).is_ok(), "the data prove it");
    let data = segment(&subject.bytes).data;
    bytes[data] ^= 1;
    let error = Reader::open(subject.write(&bytes)).unwrap_err().into_cause();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn f5_padding_of_the_table_that_counts_is_zeros() {
    for name in ["line", "session"] {
        let subject = Subject::golden(name);
        let segment = segment(&subject.bytes);
        let last = segment.table_bytes - 1;
        for (table, refused) in [(segment.table, true), (segment.other_table, false)] {
            let mut bytes = subject.bytes.clone();
            bytes[table + last] = 1;
            fix_table(&mut bytes);
            let path = subject.write(&bytes);
            assert_eq!(Reader::open(&path).is_err(), refused, "{name}");
            assert_eq!(inspect(&path).is_err(), refused, "{name}");
            assert_eq!(Filter::open(&path).is_err(), refused, "{name}");
        }
    }
}
