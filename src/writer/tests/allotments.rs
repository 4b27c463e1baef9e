//! Records of the journal that threads are given several at a time (F-77).

use std::sync::Barrier;

use super::history::new_filter;
use crate::file::{JournalContents, epoch_of};
use crate::format::{JOURNAL_OFFSET, RECORD_BYTES, Record};
use crate::geometry::Geometry;
use crate::hash::split_mix;
use crate::storage::ReadMedium;
use crate::storage::simulated::{Choices, Keep, SimulatedMedium};
use crate::sync::assume_thread_number;
use crate::writer::Engine;

const JOURNAL_BYTES: u64 = 64 << 10;

fn new_engine() -> (SimulatedMedium, Engine<SimulatedMedium>) {
    let medium = new_filter(Geometry::line(8, 64).unwrap(), JOURNAL_BYTES, None);
    let engine = Engine::open(medium.clone()).unwrap();
    (medium, engine)
}

/// Adds so many keys as the thread with a number.
fn add_as(engine: &Engine<SimulatedMedium>, thread: usize, keys: u64) {
    assume_thread_number(Some(thread));
    for key in 0..keys {
        assert!(engine.add_hash(split_mix(thread as u64, key)).unwrap());
    }
    assume_thread_number(None);
}

/// What the first records say: `k` and the thread of a key, `s` for a sync, `.` for nothing.
fn journal(medium: &SimulatedMedium, engine: &Engine<SimulatedMedium>) -> String {
    let epoch = epoch_of(medium, &engine.superblock, &engine.committed().slot);
    let show = |index: u32| {
        let mut bytes = [0; RECORD_BYTES];
        medium.read_at(&mut bytes, JOURNAL_OFFSET + u64::from(index) * 16).unwrap();
        let words = [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
        match epoch.decode(index, words) {
            None => ".".to_owned(),
            Some(Record::Sync { .. }) => "s".to_owned(),
            Some(Record::Key { hash, .. }) => {
                let thread =
                    (0..9).find(|&thread| (0..99).any(|key| split_mix(thread, key) == hash));
                format!("k{}", thread.unwrap())
            }
        }
    };
    (0..20).map(show).collect::<Vec<_>>().join(" ")
}

/// What is left after a power cut that took all that was not synced.
fn recovered(medium: &SimulatedMedium) -> Engine<SimulatedMedium> {
    let synced = medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)));
    Engine::open(SimulatedMedium::new(synced, None)).unwrap()
}

#[test]
fn one_thread_leaves_no_record_unfilled() {
    let (medium, engine) = new_engine();
    add_as(&engine, 1, 6);
    engine.sync(None).unwrap();
    add_as(&engine, 2, 1);
    engine.sync(None).unwrap();
    engine.sync(Some(1)).unwrap();
    assert!(journal(&medium, &engine).starts_with("k1 k1 k1 k1 k1 k1 s k2 s s . ."));
}

#[test]
fn f77_what_threads_leave_unfilled_repeats_their_last_record() {
    let (medium, engine) = new_engine();
    add_as(&engine, 1, 1);
    add_as(&engine, 2, 2);
    add_as(&engine, 3, 1);
    assert!(journal(&medium, &engine).starts_with("k1 . . . k2 k2 . . k3 . . . . ."));
    engine.sync(Some(5)).unwrap();
    assert!(journal(&medium, &engine).starts_with("k1 k1 k1 k1 k2 k2 k2 k2 k3 s . . . ."));

    let journal =
        JournalContents::read(&medium, &engine.superblock, &engine.committed().slot).unwrap();
    assert_eq!((journal.keys, journal.missing, journal.hole), (4, 0, None));
    let recovered = recovered(&medium);
    assert_eq!(recovered.adds(), 4, "a repeated record counts once");
    assert_eq!(recovered.committed().slot.mark, 5);
    let report = recovered.recovery().unwrap();
    assert_eq!((report.records_replayed, report.pages_unverifiable), (4, 0));
}

#[test]
fn a_thread_is_given_more_records_the_more_it_fills() {
    let (medium, engine) = new_engine();
    // 4 records, 8 up to the next multiple of 8, then 16 up to that of 16.
    add_as(&engine, 1, 9);
    add_as(&engine, 2, 1);
    let shown = journal(&medium, &engine);
    assert!(shown.starts_with("k1 k1 k1 k1 k1 k1 k1 k1 k1 . . . . . . . k2 ."), "{shown}");
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
