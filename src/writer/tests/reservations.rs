//! Records of the journal that threads reserve several at a time (F-77).

use std::sync::Barrier;

use super::history::new_filter;
use crate::file::JournalContents;
use crate::format::Record;
use crate::geometry::Geometry;
use crate::hash::split_mix;
use crate::storage::simulated::{Choices, Keep, SimulatedMedium};
use crate::sync::assume_thread_number;
use crate::writer::Engine;

const JOURNAL_BYTES: u64 = 64 << 10;

fn new_engine() -> (SimulatedMedium, Engine<SimulatedMedium>) {
    let medium = new_filter(Geometry::line(8, 64).unwrap(), JOURNAL_BYTES, None);
    let engine = Engine::open(medium.clone()).unwrap();
    (medium, engine)
}

/// Adds a number of keys as the thread with a number.
fn add_as(engine: &Engine<SimulatedMedium>, thread: usize, keys: u64) {
    assume_thread_number(Some(thread));
    for key in 0..keys {
        assert!(engine.add_hash(split_mix(thread as u64, key)).unwrap());
    }
    assume_thread_number(None);
}

/// What the first records of the epoch say: `k` and the thread of a key, `s` for a sync, `c` for a
/// confirmation, `.` for nothing. The link at their start is left out.
fn journal(engine: &Engine<SimulatedMedium>) -> String {
    let show = |index| match engine.journal.read(index) {
        None => ".".to_owned(),
        Some(Record::Sync { .. }) => "s".to_owned(),
        Some(Record::Note { .. }) => "c".to_owned(),
        Some(Record::Key { hash, .. }) => {
            let thread = (0..9).find(|&thread| (0..99).any(|key| split_mix(thread, key) == hash));
            format!("k{}", thread.unwrap())
        }
        Some(record) => panic!("{record:?}"),
    };
    (1..24).map(show).collect::<Vec<_>>().join(" ")
}

/// What is left after a power cut that took all that was not synced.
fn recovered(medium: &SimulatedMedium) -> Engine<SimulatedMedium> {
    let synced = medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)));
    Engine::open(SimulatedMedium::new(synced, None)).unwrap()
}

#[test]
fn one_thread_leaves_no_record_unfilled() {
    let (_, engine) = new_engine();
    add_as(&engine, 1, 6);
    engine.sync(None).unwrap();
    add_as(&engine, 2, 1);
    engine.sync(None).unwrap();
    engine.sync(Some(1)).unwrap();
    assert!(journal(&engine).starts_with("k1 k1 k1 k1 k1 k1 s c k2 s c s c . ."));
}

#[test]
fn f77_what_threads_leave_unfilled_repeats_their_last_record() {
    let (medium, engine) = new_engine();
    add_as(&engine, 1, 1);
    add_as(&engine, 2, 2);
    add_as(&engine, 3, 1);
    // Up to the next multiple of 4: the link has the first place.
    assert!(journal(&engine).starts_with("k1 . . k2 k2 . . k3 . . . . ."), "{}", journal(&engine));
    engine.sync(Some(5)).unwrap();
    assert!(
        journal(&engine).starts_with("k1 k1 k1 k2 k2 k2 k2 k3 s c . . ."),
        "{}",
        journal(&engine)
    );

    let journal =
        JournalContents::read(&medium, &engine.superblock, &engine.committed().slot).unwrap();
    assert_eq!((journal.keys, journal.missing, journal.hole), (4, 0, None));
    let recovered = recovered(&medium);
    assert_eq!(recovered.adds(), 4, "a repeated record counts once");
    assert_eq!(recovered.mark(), 5);
    let report = recovered.recovery().unwrap();
    assert_eq!((report.records_replayed, report.pages_unverifiable), (4, 0));
}

#[test]
fn a_thread_reserves_more_records_the_more_it_fills() {
    let (_, engine) = new_engine();
    // Records up to the next multiple of 4, then to that of 8, then to that of 16.
    add_as(&engine, 1, 8);
    add_as(&engine, 2, 1);
    let shown = journal(&engine);
    assert!(shown.starts_with("k1 k1 k1 k1 k1 k1 k1 k1 . . . . . . . k2 ."), "{shown}");
}

#[test]
fn more_threads_than_numbers_lose_nothing() {
    const THREADS: u64 = crate::sync::THREADS as u64 + 20;
    const KEYS: u64 = 5;
    let (medium, engine) = new_engine();
    let key = |thread, key| split_mix(1000 + thread, key);
    // All of them live at the same time.
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, barrier) = (&engine, &barrier);
            scope.spawn(move || {
                for number in 0..KEYS {
                    engine.add_hash(key(thread, number)).unwrap();
                }
                barrier.wait();
            });
        }
    });
    engine.sync(None).unwrap();
    let recovered = recovered(&medium);
    assert_eq!(recovered.adds(), engine.adds());
    for thread in 0..THREADS {
        assert!((0..KEYS).all(|number| recovered.contains_hash(key(thread, number))));
    }
}
