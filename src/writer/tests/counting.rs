//! Journals of counting files: what a damaged or crafted record does, and syncs that the journal has
//! no room for.

use super::campaign::Kind;
use super::history::new_filter_of;
use crate::error::Error;
use crate::file::{JournalContents, epoch_of, load};
use crate::format::{CounterChange, GroupRecord, JOURNAL_OFFSET, RECORD_WORDS, Record, Shape};
use crate::geometry::{CellKind, Geometry};
use crate::hash::split_mix;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Image, Keep, SimulatedMedium};
use crate::writer::Engine;

const JOURNAL_WORD: usize = JOURNAL_OFFSET as usize / 8;

fn new_medium(geometry: Geometry, sabotage: Option<Sabotage>) -> SimulatedMedium {
    let kind = Kind { cells: CellKind::Counting, shape: Shape::Fixed };
    new_filter_of(kind, geometry, 4096, sabotage)
}

fn hash(key: u64) -> u64 {
    split_mix(11, key)
}

/// As after a power cut right after the last sync: its journal is durable, the data are as before.
fn cut(medium: &SimulatedMedium) -> Image {
    medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)))
}

/// The image of a file with some records in place of those it has, and the rest of the journal zeros.
fn with_records(mut image: Image, records: &[Record]) -> Image {
    let medium = SimulatedMedium::new(image.clone(), None);
    let loaded = load(&medium).unwrap();
    let epoch = epoch_of(&medium, &loaded.superblock, &loaded.slot);
    image[JOURNAL_WORD..][..512].fill(0);
    for (index, &record) in records.iter().enumerate() {
        let words = epoch.encode(index as u32, record);
        let at = JOURNAL_WORD + index * RECORD_WORDS;
        image[at..at + RECORD_WORDS].copy_from_slice(&words.map(u64::to_le));
    }
    image
}

fn open(image: Image) -> crate::Result<Engine<SimulatedMedium>> {
    Engine::open(SimulatedMedium::new(image, None))
}

/// Every record of the first groups, the sync records among them, is missed when a later group is
/// there; that of the last group, which nothing follows, may never have been synced.
#[test]
fn f91_a_damaged_sync_record_is_noticed_when_a_record_follows() {
    let medium = new_medium(Geometry::line(4, 9).unwrap(), None);
    let engine = Engine::open(medium.clone()).unwrap();
    let mut groups = Vec::new();
    for round in 0..3u64 {
        engine.add_hash(hash(round)).unwrap();
        engine.sync(Some(round + 1)).unwrap();
        groups.push(engine.journal.records());
    }
    let image = cut(&medium);
    let all = open(image.clone()).unwrap();
    assert_eq!(all.committed().slot.mark, 3);
    for record in 0..groups[2] as usize {
        for bit in [0, 13, 31, 40, 64, 70, 77, 95, 99, 127] {
            let mut damaged = image.clone();
            damaged[JOURNAL_WORD + record * RECORD_WORDS + bit / 64] ^=
                (1u64 << (bit % 64)).to_le();
            match open(damaged) {
                Err(Error::Journal { index }) if (record as u64) < groups[1] => {
                    assert_eq!(index, record as u64);
                }
                Ok(engine) if record as u64 >= groups[1] => {
                    assert_eq!(engine.committed().slot.mark, 2, "record {record}");
                    assert!(engine.contains_hash(hash(0)) && engine.contains_hash(hash(1)));
                }
                Ok(_) => panic!("the loss of record {record} went unnoticed"),
                Err(error) => panic!("record {record}: {error}"),
            }
        }
    }
    // A whole sector of groups, with the last one behind it.
    let mut damaged = image;
    damaged[JOURNAL_WORD..][..groups[1] as usize * RECORD_WORDS].fill(0);
    assert!(matches!(open(damaged), Err(Error::Journal { index: 0 })));
}

#[test]
fn f75_records_of_cells_that_no_key_reaches_are_refused() {
    // 7 rows of 4,681 cells fill 32,767 of a block's 32,768.
    let image = {
        let medium = new_medium(Geometry::page(7, 2).unwrap(), None);
        Engine::open(medium.clone()).unwrap();
        cut(&medium)
    };
    let sync = GroupRecord::sync(0, 9);
    let change =
        |segment, address, old, new| CounterChange { segment, address, old, new }.record(0);
    for (what, records) in [
        ("behind the rows of a block", vec![change(0, 32_767, 0, 1), sync]),
        ("behind those of the last", vec![change(0, 65_535, 0, 1), sync]),
        ("behind the data", vec![change(0, 65_536, 0, 1), sync]),
        ("far behind", vec![change(0, u64::MAX, 0, 1), sync]),
        ("in another segment", vec![change(1, 0, 0, 1), sync]),
        ("no change", vec![change(0, 0, 3, 3), sync]),
        ("bits of a sync record", vec![Record::Key { hash: 9, mask: 1 }]),
        ("more of them", vec![Record::Key { hash: 9, mask: 0x1000 }]),
        (
            "not the value of the record before",
            vec![
                change(0, 5, 0, 1),
                sync,
                CounterChange { segment: 0, address: 5, old: 2, new: 3 }.record(1),
                GroupRecord::sync(1, 9),
            ],
        ),
        ("a group that does not follow", vec![change(0, 5, 0, 1), sync, GroupRecord::sync(2, 9)]),
    ] {
        let refused = open(with_records(image.clone(), &records)).map(drop);
        assert!(matches!(refused, Err(Error::Journal { .. })), "{what}: {refused:?}");
    }
    let allowed = [change(0, 0, 0, 1), change(0, 32_766, 0, 15), change(0, 65_534, 0, 2), sync];
    let engine = open(with_records(image, &allowed)).unwrap();
    assert_eq!(engine.committed().slot.mark, 9);
    engine.close().unwrap();
}

/// A sync of many times what the journal holds is one group: whatever a crash leaves, it is all there
/// with its mark or not at all.
#[test]
fn f79_a_sync_larger_than_the_journal_is_whole_or_not_there() {
    let medium = new_medium(Geometry::line(8, 200).unwrap(), None);
    let engine = Engine::open(medium.clone()).unwrap();
    let count = |engine: &Engine<SimulatedMedium>, keys: std::ops::Range<u64>| {
        keys.filter(|&key| engine.contains_hash(hash(key))).count()
    };
    (0..20).for_each(|key| assert!(engine.add_hash(hash(key)).is_ok()));
    engine.sync(Some(20)).unwrap();
    let length = medium.view(|view| view.killed()).len();
    (20..320).for_each(|key| assert!(engine.add_hash(hash(key)).is_ok()));
    for key in 0..10 {
        engine.remove_hash(hash(key)).unwrap();
    }
    // Nothing is durable, or in the data, before the sync.
    for image in [medium.view(|view| view.killed()), cut(&medium)] {
        let killed = open(image).unwrap();
        assert_eq!((killed.committed().slot.mark, count(&killed, 0..20)), (20, 20));
        assert!(count(&killed, 20..320) < 30);
    }
    let images = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&images);
    let mut choices = Choices::new(5);
    medium.watch(Some(Box::new(move |view| {
        let keep = Keep::ALL[choices.below(5) as usize];
        let mut seen = seen.lock().unwrap();
        if seen.len() < 600 || choices.once_in(20) {
            seen.push(view.killed());
            seen.push(view.power_cut(keep, &mut choices));
        }
    })));
    engine.sync(Some(320)).unwrap();
    medium.watch(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let (mut old, mut new, mut beyond) = (0, 0, 0);
    for image in images {
        beyond += u32::from(image.len() > length);
        let engine = open(image).unwrap();
        let mark = engine.committed().slot.mark;
        match mark {
            20 => {
                assert_eq!(count(&engine, 0..20), 20);
                assert!(count(&engine, 20..320) < 30);
                old += 1;
            }
            320 => {
                assert_eq!(count(&engine, 10..320), 310);
                new += 1;
            }
            _ => panic!("mark {mark}"),
        }
        // The file has its length again.
        assert_eq!(engine.medium.view(|view| view.killed()).len(), length);
    }
    assert!(old > 50 && new > 50 && beyond > 100, "{old} {new} {beyond}");
    assert_eq!(medium.view(|view| view.killed()).len(), length);
    // A reader of the live file agrees.
    let loaded = load(&medium).unwrap();
    let journal = JournalContents::read(&medium, &loaded.superblock, &loaded.slot).unwrap();
    assert_eq!((journal.keys, journal.hole), (0, None));
}
