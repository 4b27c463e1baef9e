//! Damage to crashed and clean files: refused or reported, never silently used; then repaired.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::path::{Path, PathBuf};

use bloomfile::{
    Error, Filter, Options, ReadOptions, Reader,
    geometry::Geometry,
    ops::repair,
    report::{Health, inspect, verify},
};
use support::{field, newest_slot, power_cut, read, segment, table_bytes};

const PAGE: usize = 4096;
const JOURNAL: usize = 3 * PAGE;
const JOURNAL_BYTES: usize = 2 * PAGE;
const RECORD: usize = 16;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A filter that was being written when its process died, as the page cache holds it.
struct Crash {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    /// Keys `0..` that were added.
    keys: u64,
    /// Where the data starts.
    data: usize,
    /// Where the half of the slot's epoch starts in the journal, and its records: the link, the
    /// confirmation of the boundary, three groups, each with its sync record and its confirmation,
    /// and what was not synced.
    half: usize,
    records: usize,
}

/// The sync record of the last group, and behind it its confirmation.
const LAST_SYNC: usize = 2 + (10 + 2) + (5 + 2) + 8;

impl Crash {
    /// 40 keys checkpointed, then groups of 10, 5 and 8 keys synced, then 4 more.
    fn new(geometry: Geometry) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.bloom");
        let filter = Options::new()
            .geometry(geometry)
            .journal_bytes(JOURNAL_BYTES as u64)
            .create(&path)
            .unwrap();
        let mut keys = 0;
        let mut add = |count| {
            for _ in 0..count {
                assert!(filter.add(key(keys)).unwrap());
                keys += 1;
            }
        };
        add(40);
        filter.checkpoint().unwrap();
        for count in [10, 5, 8] {
            add(count);
            filter.sync_with_mark(count).unwrap();
        }
        add(4);
        // A copy of the file under its living writer is what a kill would leave.
        let bytes = std::fs::read(&path).unwrap();
        filter.close().unwrap();
        let pages = geometry.pages() as usize;
        let data = JOURNAL + JOURNAL_BYTES + 2 * table_bytes(pages);
        assert_eq!(bytes.len(), data + pages * PAGE);
        let epoch = field("slot", "epoch");
        let epoch = read(&bytes, newest_slot(&bytes) + epoch.offset, epoch.size) as usize;
        let half = JOURNAL + epoch % 2 * PAGE;
        Crash { folder, bytes, keys, data, half, records: LAST_SYNC + 2 + 4 }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("crashed.bloom")
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.path(), bytes).unwrap();
        self.path()
    }

    /// What a repair must leave: a sound file without a false negative that says its rate.
    fn check_repair(&self, path: &Path, what: &str) {
        let report = repair(path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(verify(path).unwrap().is_sound(), "{what}");
        let inspection = inspect(path).unwrap();
        assert_eq!(inspection.health, Health::Clean);
        assert_eq!(inspection.segments[0].rate_now, report.rate_now);
        let filter = Filter::open(path).unwrap();
        for number in 0..self.keys {
            assert!(filter.contains(key(number)), "{what}: key {number} is lost");
        }
        // The rate stated is the rate measured.
        let asked = 20_000;
        let wrong = (0..asked).filter(|&n| filter.contains(key(n + (1 << 40)))).count() as f64;
        let expected = report.rate_now * asked as f64;
        let slack = 5.0 * expected.sqrt() + 0.1 * expected + 5.0;
        assert!((wrong - expected).abs() <= slack, "{what}: {wrong} wrong, {expected} expected");
    }
}

fn geometries() -> [Geometry; 4] {
    [
        Geometry::line(8, 150).unwrap(),
        Geometry::page(5, 3).unwrap(),
        Geometry::rows(4, 40_000).unwrap(),
        Geometry::flat(3, 70_000).unwrap(),
    ]
}

#[test]
fn f97_a_crashed_file_is_read_in_full_and_left_alone() {
    for geometry in geometries() {
        let crash = Crash::new(geometry);
        // The data never reached the disk: only the journal knows the keys after the checkpoint.
        let live = crash.folder.path().join("live.bloom");
        let mut lost = crash.bytes.clone();
        {
            let filter = Options::new()
                .geometry(geometry)
                .journal_bytes(JOURNAL_BYTES as u64)
                .replace(true)
                .create(&live)
                .unwrap();
            (0..40).for_each(|number| assert!(filter.add(key(number)).unwrap()));
            filter.close().unwrap();
            lost[crash.data..].copy_from_slice(&std::fs::read(&live).unwrap()[crash.data..]);
        }
        for bytes in [&crash.bytes, &lost] {
            let path = crash.write(bytes);
            let reader = ReadOptions::new().verify(true).open(&path).unwrap();
            assert_eq!(reader.health(), Health::Crashed);
            assert_eq!(reader.mark(), 8);
            assert!((0..crash.keys).all(|number| reader.contains(key(number))));
            let verification = verify(&path).unwrap();
            assert!(verification.is_sound());
            assert_eq!(verification.journal_records, 27);
            assert!(verification.pages_unverifiable.is_empty());
            assert_eq!(&std::fs::read(&path).unwrap(), bytes, "reading changed the file");
            // The reader stays right while a writer recovers the file and goes on.
            let filter = Filter::open(&path).unwrap();
            let recovery = filter.recovery().unwrap();
            assert_eq!((recovery.records_replayed, recovery.pages_unverifiable), (27, 0));
            assert!((0..crash.keys).all(|number| reader.contains(key(number))));
            for number in crash.keys..crash.keys + 200 {
                filter.add(key(number)).unwrap();
                assert!(reader.contains(key(number)), "the reader does not see a new key");
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_the_journal_is_refused_or_reported_and_repaired() {
    for (turn, geometry) in geometries().into_iter().enumerate() {
        let crash = Crash::new(geometry);
        // The confirmation shows that all in front of it was durable. Without it, nothing is lost.
        let synced = LAST_SYNC + 1;
        let first = (crash.half - JOURNAL) / RECORD;
        // Every bit in the layout most files have, a spread of them in the others.
        let step = if turn == 0 { 1 } else { 13 };
        for bit in (0..crash.records * RECORD * 8).step_by(step) {
            let record = bit / (RECORD * 8);
            let mut bytes = crash.bytes.clone();
            bytes[crash.half + bit / 8] ^= 1 << (bit % 8);
            let path = crash.write(&bytes);
            let what = format!("{geometry}, bit {bit} of record {record}");
            let refused = |result: Result<(), Error>| match result.map_err(Error::into_cause) {
                Err(Error::Journal { index }) => {
                    assert_eq!(index, (first + record) as u64, "{what}");
                }
                other => panic!("{what}: {other:?}"),
            };
            if record < synced {
                refused(Reader::open(&path).map(drop));
                refused(verify(&path).map(drop));
                refused(inspect(&path).map(drop));
                refused(Filter::open(&path).map(drop));
                if bit % 29 == turn {
                    crash.check_repair(&path, &what);
                }
            } else {
                // In the same boot, bits whose record is missing are damage (F-93). A confirmation
                // has none.
                let verification = verify(&path).unwrap();
                let only_confirmed = record == synced;
                assert_eq!(verification.pages_damaged.is_empty(), only_confirmed, "{what}");
                assert!(verification.pages_unverifiable.is_empty(), "{what}");
                if bit % 7 == turn {
                    assert_eq!(Filter::open(&path).is_ok(), only_confirmed, "{what}");
                }
                // After a power cut the record may be missing, and that is said: as a gap, or by
                // the bits that nothing explains any more.
                power_cut(&mut bytes);
                let path = crash.write(&bytes);
                let verification = verify(&path).unwrap();
                assert_eq!(verification.is_sound(), only_confirmed, "{what}");
                let unexplained = verification.pages_unverifiable.len() as u64;
                assert!(verification.journal_missing + unexplained > 0, "{what}");
                let filter = Filter::open(&path).unwrap();
                let recovery = filter.recovery().unwrap();
                assert_eq!(recovery.pages_unverifiable, unexplained, "{what}");
                assert_eq!(recovery.records_missing, verification.journal_missing, "{what}");
                assert!((0..crash.keys).all(|number| filter.contains(key(number))), "{what}");
            }
        }
    }
}

#[test]
fn a_lost_synced_record_makes_repair_answer_maybe_to_everything() {
    let crash = Crash::new(Geometry::line(8, 150).unwrap());
    let mut bytes = crash.bytes.clone();
    bytes[crash.half + 3 * RECORD..crash.half + 5 * RECORD].fill(0xa5);
    let first = ((crash.half - JOURNAL) / RECORD) as u64;
    let path = crash.write(&bytes);
    assert!(matches!(
        Filter::open(&path).map_err(Error::into_cause),
        Err(Error::Journal { index }) if index == first + 3
    ));
    let report = repair(&path).unwrap();
    assert!(report.records_lost);
    assert_eq!(report.rate_now, 1.0);
    let filter = Filter::open(&path).unwrap();
    assert!((0..1000).all(|number| filter.contains(key(number))));
}

#[test]
fn the_journal_of_an_earlier_epoch_is_never_used() {
    let crash = Crash::new(Geometry::line(8, 150).unwrap());
    let path = crash.write(&crash.bytes);
    let stale = crash.bytes[JOURNAL..JOURNAL + JOURNAL_BYTES].to_vec();
    // Recovered, so the epoch of that journal is over; then a little of a new one, and a crash.
    let filter = Filter::open(&path).unwrap();
    filter.add(key(1000)).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    drop(filter);
    bytes[JOURNAL..JOURNAL + JOURNAL_BYTES].copy_from_slice(&stale);
    power_cut(&mut bytes);
    let path = crash.write(&bytes);
    let verification = verify(&path).unwrap();
    assert_eq!(verification.journal_records, 0, "stale records were taken for new ones");
    assert_eq!(verification.pages_unverifiable.len(), 1, "the new key's bits go unreported");
    let filter = Filter::open(&path).unwrap();
    assert_eq!(filter.recovery().unwrap().records_replayed, 0);
    assert_eq!(filter.mark(), 8);
    assert!((0..crash.keys).chain([1000]).all(|number| filter.contains(key(number))));
}

#[test]
fn swapped_and_outdated_pages_are_refused_and_repaired() {
    for geometry in geometries() {
        for (clean, cut) in [(false, false), (false, true), (true, false)] {
            let crash = Crash::new(geometry);
            let mut bytes = crash.bytes.clone();
            if cut {
                power_cut(&mut bytes);
            }
            if clean {
                let path = crash.write(&bytes);
                Filter::open(&path).unwrap().close().unwrap();
                bytes = std::fs::read(&path).unwrap();
            }
            let page = |bytes: &[u8], number: usize| {
                bytes[crash.data + number * PAGE..crash.data + (number + 1) * PAGE].to_vec()
            };
            let put = |bytes: &mut [u8], number: usize, page: &[u8]| {
                bytes[crash.data + number * PAGE..crash.data + (number + 1) * PAGE]
                    .copy_from_slice(page);
            };
            let mut swapped = bytes.clone();
            put(&mut swapped, 0, &page(&bytes, 1));
            put(&mut swapped, 1, &page(&bytes, 0));
            let mut outdated = bytes.clone();
            put(&mut outdated, 0, &[0; PAGE]);
            for (damage, bytes) in [("swapped", swapped), ("outdated", outdated)] {
                let what = format!("{geometry}, clean {clean}, power cut {cut}, {damage}");
                let path = crash.write(&bytes);
                let verification = verify(&path).unwrap();
                if verification.pages_damaged.is_empty() {
                    // After a power cut a page with more ones than it should have looks like adds
                    // that were not synced; it is reported as that.
                    assert!(cut && damage == "swapped", "{what}");
                    assert_eq!(verification.pages_unverifiable, [0, 1], "{what}");
                } else {
                    for result in [
                        Filter::open(&path).map(drop),
                        ReadOptions::new().verify(true).open(&path).map(drop),
                    ] {
                        assert!(
                            matches!(result.map_err(Error::into_cause), Err(Error::Damaged { .. })),
                            "{what}"
                        );
                    }
                    assert_eq!(
                        std::fs::read(&path).unwrap(),
                        bytes,
                        "{what}: refused, yet changed"
                    );
                }
                crash.check_repair(&path, &what);
            }
        }
    }
}

#[test]
fn a_damaged_page_table_is_made_again() {
    let crash = Crash::new(Geometry::line(8, 150).unwrap());
    let path = crash.write(&crash.bytes);
    Filter::open(&path).unwrap().close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // Both tables, whichever counts: the entry of page 1.
    let segment = segment(&bytes);
    for table in [segment.table, segment.other_table] {
        bytes[table + 8] ^= 1;
    }
    let path = crash.write(&bytes);
    assert!(matches!(Filter::open(&path).map_err(Error::into_cause), Err(Error::PageTable { .. })));
    crash.check_repair(&path, "page table");
    assert_eq!(inspect(&path).unwrap().repaired_pages, 1);
}

#[test]
fn f99_what_no_cell_reaches_is_zero_after_a_repair() {
    // Most of such a page lies between rows.
    let crash = Crash::new(Geometry::rows(3, 1004).unwrap());
    let mut bytes = crash.bytes.clone();
    bytes[crash.data..crash.data + PAGE].fill(0xff);
    let path = crash.write(&bytes);
    crash.check_repair(&path, "ones everywhere");
    let repaired = std::fs::read(&path).unwrap();
    let page = &repaired[crash.data..crash.data + PAGE];
    let (cells, rest) = page.split_at(126);
    assert!(cells[..125].iter().all(|&byte| byte == 0xff) && cells[125] == 0x0f);
    assert!(rest.iter().all(|&byte| byte == 0));
}

#[test]
fn a_damaged_slot_of_a_closed_file_is_reported_when_it_is_repaired() {
    let crash = Crash::new(Geometry::line(8, 150).unwrap());
    let path = crash.write(&crash.bytes);
    Filter::open(&path).unwrap().close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let sequence = |slot: usize| u64::from_le_bytes(bytes[slot + 8..slot + 16].try_into().unwrap());
    let older = if sequence(PAGE) < sequence(2 * PAGE) { PAGE } else { 2 * PAGE };
    bytes[older + 40] ^= 1;
    let path = crash.write(&bytes);
    let report = repair(&path).unwrap();
    assert!(report.slot_rewritten && !report.found_nothing(), "{report:?}");
    assert_eq!((report.pages_repaired.len(), report.crashed), (0, false));
    assert!(repair(&path).unwrap().found_nothing());
}

#[test]
fn repairing_a_sound_file_changes_nothing() {
    let crash = Crash::new(Geometry::line(8, 150).unwrap());
    let path = crash.write(&crash.bytes);
    Filter::open(&path).unwrap().close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let report = repair(&path).unwrap();
    assert!(report.found_nothing(), "{report:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
