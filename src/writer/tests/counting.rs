//! Journals of counting files: what a damaged or crafted record does, and syncs that the journal has
//! no room for.

use super::campaign::Kind;
use super::history::new_filter_of;
use crate::error::Error;
use crate::file::{JournalContents, epochs_of, load};
use crate::format::{Change, JOURNAL_STEP, Record};
use crate::geometry::{CellKind, Geometry};
use crate::hash::split_mix;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Image, Keep, SimulatedMedium};
use crate::writer::Engine;

/// Words of a record.
const RECORD_WORDS: usize = 4;

fn new_medium(geometry: Geometry, sabotage: Option<Sabotage>) -> SimulatedMedium {
    new_filter_of(Kind::COUNTING, geometry, JOURNAL_STEP, sabotage)
}

fn hash(key: u64) -> u64 {
    split_mix(11, key)
}

/// As after a power cut right after the last sync: its journal is durable, the data are as before.
fn cut(medium: &SimulatedMedium) -> Image {
    medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)))
}

/// Where the half of the epoch that counts starts, in words.
fn half_word(image: &Image) -> usize {
    let loaded = load(&SimulatedMedium::new(image.clone(), None)).unwrap();
    loaded.superblock.journal().half_offset(loaded.slot.epoch) as usize / 8
}

/// The image of a file with some records, behind a link, in place of those it has, and the rest of the
/// half zeros.
fn with_records(mut image: Image, records: &[Record]) -> Image {
    let medium = SimulatedMedium::new(image.clone(), None);
    let loaded = load(&medium).unwrap();
    let [epoch, _] = epochs_of(&medium, &loaded.superblock, &loaded.slot);
    let first = half_word(&image);
    image[first..][..512].fill(0);
    let link = Record::Note { count: 0 };
    for (index, &record) in std::iter::once(&link).chain(records).enumerate() {
        let words = epoch.encode(index as u32, record);
        let at = first + index * RECORD_WORDS;
        image[at..at + RECORD_WORDS].copy_from_slice(&words.map(u64::to_le));
    }
    image
}

fn open(image: Image) -> crate::Result<Engine<SimulatedMedium>> {
    Engine::open(SimulatedMedium::new(image, None))
}

/// Every record of the groups that a later sync record or a confirmation shows to have been durable is
/// missed; those of the last group, which nothing confirms, may never have been synced.
#[test]
fn f91_a_damaged_record_is_noticed_when_a_later_one_confirms_it() {
    let medium = new_medium(Geometry::line(4, 9).unwrap(), None);
    let engine = Engine::open(medium.clone()).unwrap();
    let mut groups = Vec::new();
    for round in 0..3u64 {
        engine.add_hash(hash(round)).unwrap();
        engine.sync(Some(round + 1)).unwrap();
        // Behind the sync record stands its confirmation, which the next sync makes durable.
        groups.push(engine.journal.records() - 1);
    }
    let image = cut(&medium);
    let first = half_word(&image);
    let all = open(image.clone()).unwrap();
    assert_eq!(all.mark(), 3);
    for record in 0..groups[2] as usize {
        for bit in [0, 13, 31, 40, 64, 70, 77, 95, 130, 199, 200, 255] {
            let mut damaged = image.clone();
            damaged[first + record * RECORD_WORDS + bit / 64] ^= (1u64 << (bit % 64)).to_le();
            match open(damaged) {
                Err(Error::Journal { .. }) if (record as u64) < groups[1] => {}
                Ok(engine) if record as u64 >= groups[1] => {
                    assert_eq!(engine.mark(), 2, "record {record}");
                    assert!(engine.contains_hash(hash(0)) && engine.contains_hash(hash(1)));
                }
                Ok(_) => panic!("the loss of record {record} went unnoticed"),
                Err(error) => panic!("record {record}: {error}"),
            }
        }
    }
    // A whole sector of groups, with the last one behind it.
    let mut damaged = image;
    damaged[first..][..(groups[1] - 2) as usize * RECORD_WORDS].fill(0);
    assert!(matches!(open(damaged), Err(Error::Journal { .. })));
}

#[test]
fn f75_changes_that_no_writer_makes_are_refused() {
    let geometry = Geometry::line(4, 2).unwrap().with_cells(CellKind::Counting);
    let image = {
        let medium = new_medium(geometry, None);
        let engine = Engine::open(medium.clone()).unwrap();
        engine.sync(Some(1)).unwrap();
        cut(&medium)
    };
    let sync = Record::Sync { mark: 9 };
    let change = |region, removal, old: [u8; 4]| {
        let mut change = Change::new(7, region, removal);
        (0..).zip(old).for_each(|(row, value)| change.set_old(row, value));
        change
    };
    let record = |region, removal, old| Record::Change(change(region, removal, old));
    let mut fifth = change(0, false, [0; 4]);
    fifth.set_old(4, 1);
    let stray = Change { stray: 1 << 9, ..change(0, false, [0; 4]) };
    for (what, records) in [
        ("a region that is not listed", vec![record(1, false, [0; 4]), sync]),
        ("far behind", vec![record(63, false, [0; 4]), sync]),
        ("a counter below zero", vec![record(0, true, [1, 1, 0, 1]), sync]),
        ("a row that is not there", vec![Record::Change(fifth), sync]),
        ("bits without a meaning", vec![Record::Change(stray), sync]),
        (
            "not the value of the record before",
            vec![record(0, false, [0; 4]), sync, record(0, false, [2; 4]), sync],
        ),
    ] {
        let refused = open(with_records(image.clone(), &records)).map(drop);
        assert!(matches!(refused, Err(Error::Journal { .. })), "{what}: {refused:?}");
    }
    let allowed =
        [record(0, false, [0; 4]), record(0, false, [1; 4]), record(0, true, [2; 4]), sync];
    let engine = open(with_records(image, &allowed)).unwrap();
    assert_eq!((engine.mark(), engine.count_hash(7)), (9, Some(1)));
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
        assert_eq!((killed.mark(), count(&killed, 0..20)), (20, 20));
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
        let mark = engine.mark();
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
    assert!(old > 5 && new > 50 && beyond > 100, "{old} {new} {beyond}");
    assert_eq!(medium.view(|view| view.killed()).len(), length);
    // A reader of the live file agrees.
    let loaded = load(&medium).unwrap();
    let journal = JournalContents::read(&medium, &loaded.superblock, &loaded.slot).unwrap();
    assert_eq!((journal.keys, journal.hole), (0, None));
}

/// A segment takes as many keys as it is for, however often its writer is killed on the way: what is
/// replayed counts.
#[test]
fn f98_keys_that_are_replayed_count() {
    let kind = Kind::COUNTING_GROWING;
    let medium = new_filter_of(kind, Geometry::line(4, 2).unwrap(), JOURNAL_STEP, None);
    let limit = |segment: u32| crate::plan::growth_capacity(12, segment);
    for key in 0..600 {
        let engine = Engine::open(medium.clone()).unwrap();
        engine.add_hash(hash(key)).unwrap();
        engine.sync(Some(key + 1)).unwrap();
        // Here the writer is killed.
    }
    let engine = Engine::open(medium.clone()).unwrap();
    let held = engine.keys_held();
    assert_eq!(engine.adds(), held.iter().map(|(_, keys)| keys.cast_unsigned()).sum());
    for (segment, &(_, keys)) in (0..).zip(&held) {
        assert!(keys.cast_unsigned() <= limit(segment), "segment {segment}: {held:?}");
    }
    assert!(engine.adds() > 500, "most keys are new: {held:?}");
}

/// Keys of syncs that come while a checkpoint is written count in the next slot.
#[test]
fn f87_keys_behind_a_boundary_count_once() {
    let medium = new_medium(Geometry::line(4, 100).unwrap(), None);
    let engine = Engine::open(medium.clone()).unwrap();
    let add = |keys: std::ops::Range<u64>| {
        for key in keys {
            engine.add_hash(hash(key)).unwrap();
        }
        engine.sync(None).unwrap();
    };
    add(0..3);
    engine.begin_checkpoint().unwrap();
    add(3..5);
    engine.finish_checkpoint().unwrap();
    assert_eq!(engine.adds(), 5);
    assert_eq!(open(cut(&medium)).unwrap().adds(), 5);
    engine.remove_hash(hash(0)).unwrap();
    engine.checkpoint().unwrap();
    assert_eq!((engine.adds(), open(cut(&medium)).unwrap().adds()), (4, 4));
}
