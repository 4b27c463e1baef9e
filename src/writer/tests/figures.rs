//! What a writer tells of itself waits for no disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use super::campaign::Kind;
use super::history::new_filter_of;
use crate::format::JOURNAL_STEP;
use crate::geometry::Geometry;
use crate::hash::split_mix;
use crate::storage::simulated::SimulatedMedium;
use crate::sync::lock;
use crate::writer::Engine;

fn add(engine: &Engine<SimulatedMedium>, keys: std::ops::Range<u64>) {
    for key in keys {
        engine.add_hash(split_mix(1, key)).unwrap();
    }
}

/// Whatever is written or synced, by any step of a session: nothing is while figures and metadata are
/// locked, and a pair that is set at that moment is in the file in the end.
#[test]
fn nothing_is_written_while_figures_are_locked() {
    for kind in [Kind::PLAIN, Kind::COUNTING, Kind::GROWING, Kind::ROTATING] {
        let geometry = Geometry::line(8, 100).unwrap();
        let medium = new_filter_of(kind, geometry, JOURNAL_STEP, None);
        let engine = Arc::new(Engine::open(medium.clone()).unwrap());
        engine.set_metadata("before", Some("the session")).unwrap();
        let writes = Arc::new(AtomicU64::new(0));
        let (watched, counted) = (Arc::downgrade(&engine), Arc::clone(&writes));
        let mut calls = medium.view(|view| view.calls());
        medium.watch(Some(Box::new(move |view| {
            let Some(engine) = watched.upgrade() else { return };
            // What is stored through maps waits for no disk.
            if std::mem::replace(&mut calls, view.calls()) == view.calls() {
                return;
            }
            let locked = matches!(engine.committed.try_lock(), Err(TryLockError::WouldBlock));
            assert!(!locked, "{kind:?}: a disk is waited for");
            let write = counted.fetch_add(1, Ordering::Relaxed) + 1;
            engine.set_metadata("write", Some(&write.to_string())).unwrap();
        })));
        engine.add_hash(split_mix(1, 0)).unwrap();
        let begun = writes.load(Ordering::Relaxed);
        assert!(begun > 0, "{kind:?}: the first add of a session writes a slot");
        add(&engine, 1..60);
        engine.sync(Some(1)).unwrap();
        engine.checkpoint().unwrap();
        if kind == Kind::ROTATING {
            engine.rotate().unwrap();
        }
        add(&engine, 60..200);
        engine.checkpoint().unwrap();
        medium.watch(None);
        let last = writes.load(Ordering::Relaxed);
        assert!(last > begun, "{kind:?}");
        let set = engine.metadata();
        assert_eq!(set["write"], last.to_string(), "{kind:?}");
        engine.checkpoint().unwrap();
        let image = medium.view(|view| view.killed());
        let found = Engine::open(SimulatedMedium::new(image, None)).unwrap();
        assert_eq!(found.metadata(), set, "{kind:?}");
        assert_eq!(set["before"], "the session", "{kind:?}");
    }
}

/// A pair that is set while the file is marked as open, and nothing after it.
#[test]
fn metadata_set_while_a_session_begins_are_kept() {
    let geometry = Geometry::line(8, 100).unwrap();
    for at in 1..4 {
        let medium = new_filter_of(Kind::PLAIN, geometry, JOURNAL_STEP, None);
        let engine = Arc::new(Engine::open(medium.clone()).unwrap());
        let (watched, mut writes) = (Arc::downgrade(&engine), 0);
        medium.watch(Some(Box::new(move |_| {
            writes += 1;
            if writes == at
                && let Some(engine) = watched.upgrade()
            {
                engine.set_metadata("a", Some("b")).unwrap();
            }
        })));
        engine.add_hash(7).unwrap();
        medium.watch(None);
        engine.checkpoint().unwrap();
        assert_eq!(engine.metadata().len(), 1, "at write {at}");
        let image = medium.view(|view| view.killed());
        let found = Engine::open(SimulatedMedium::new(image, None)).unwrap();
        assert_eq!(found.metadata().get("a").map(String::as_str), Some("b"), "at write {at}");
    }
}

/// As in a child that was forked while other threads held all that there is.
#[test]
fn counters_wait_for_no_lock() {
    let medium = new_filter_of(Kind::PLAIN, Geometry::line(8, 100).unwrap(), JOURNAL_STEP, None);
    let engine = Engine::open(medium.clone()).unwrap();
    engine.add_hash(7).unwrap();
    engine.sync(None).unwrap();
    drop(engine);
    let image = medium.view(|view| view.killed());
    let engine = &Engine::open(SimulatedMedium::new(image, None)).unwrap();
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        let held = (lock(&engine.tables), lock(&engine.committed));
        scope.spawn(move || tell.send(engine.stats().recoveries));
        let recoveries = told.recv_timeout(Duration::from_secs(20));
        drop(held);
        assert_eq!(recoveries, Ok(1), "stats wait for a lock");
    });
}
