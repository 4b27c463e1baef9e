//! A failing write or sync at every call: the handle is poisoned, the file is not.

use std::sync::{Arc, Mutex};

use super::history::new_filter;
use crate::error::Error;
use crate::format::JOURNAL_STEP;
use crate::geometry::Geometry;
use crate::hash::split_mix;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Keep, SimulatedMedium};
use crate::writer::Engine;

/// A short life that makes every kind of call; returns the keys known to be synced.
fn live(medium: &SimulatedMedium, synced: &mut Vec<u64>) -> crate::Result<()> {
    let engine = Engine::open(medium.clone())?;
    let mut unsynced = Vec::new();
    for round in 0..4u64 {
        for key in 0..40 {
            let hash = crate::hash::split_mix(round, key);
            match engine.add_hash(hash) {
                Ok(_) => unsynced.push(hash),
                Err(error) => return Err(error),
            }
        }
        let result = match round % 2 {
            0 => engine.sync(Some(round)),
            _ => engine.checkpoint(),
        };
        if let Err(error) = result {
            assert!(engine.is_poisoned());
            for call in [engine.sync(None), engine.checkpoint(), engine.close()] {
                // The error that counts is the first, and it is named.
                let Err(Error::Poisoned { first, kind }) = &call else { panic!("{call:?}") };
                assert_eq!(*first, error.to_string());
                assert_eq!(*kind, Some(std::io::ErrorKind::Other));
            }
            assert!(matches!(engine.add_hash(1), Err(Error::Poisoned { .. })));
            for batch in [1, 40, 1000] {
                let known = |at: usize| crate::hash::split_mix(0, at as u64 % 40);
                assert!(matches!(engine.add_batch(batch, known), Err(Error::Poisoned { .. })));
            }
            return Err(error);
        }
        synced.append(&mut unsynced);
    }
    engine.close()
}

#[test]
fn a_failure_at_every_call_poisons_the_handle_and_spares_the_file() {
    for journal_bytes in [0, JOURNAL_STEP] {
        let geometry = Geometry::line(8, 150).unwrap();
        let mut failures = 0;
        for call in 1.. {
            let medium = new_filter(geometry, journal_bytes, None);
            medium.fail_after(call, Choices::new(call));
            let mut synced = Vec::new();
            let result = live(&medium, &mut synced);
            medium.heal();
            if result.is_ok() {
                break;
            }
            failures += 1;
            let check = |medium: SimulatedMedium, what: &str| {
                let engine = Engine::open(medium)
                    .unwrap_or_else(|error| panic!("call {call}, {what}: {error}"));
                for &hash in &synced {
                    assert!(engine.contains_hash(hash), "call {call}, {what}: a key is lost");
                }
            };
            for (turn, keep) in Keep::ALL.into_iter().enumerate() {
                let mut choices = Choices::new(call ^ turn as u64);
                let image = medium.view(|view| view.power_cut(keep, &mut choices));
                check(SimulatedMedium::new(image, None), "after a power cut");
            }
            // In the same system, whose cache holds what the failed sync did not write.
            check(medium.clone(), "reopened");
            for (turn, keep) in Keep::ALL.into_iter().enumerate() {
                let mut choices = Choices::new(!call ^ turn as u64);
                let image = medium.view(|view| view.power_cut(keep, &mut choices));
                check(SimulatedMedium::new(image, None), "reopened, then a power cut");
            }
        }
        assert!(failures >= 12, "only {failures} calls could fail");
    }
}

/// After a sync that failed, the cache may show a slot that the disk does not hold. A recovery that is
/// killed must not leave it: it names a page table that the recovery writes over (F-89).
pub(super) fn survives_a_cached_slot(sabotage: Option<Sabotage>) -> bool {
    let geometry = Geometry::line(8, 150).unwrap();
    let medium = new_filter(geometry, JOURNAL_STEP, sabotage);
    let engine = Engine::open(medium.clone()).unwrap();
    let add = |keys: std::ops::Range<u64>| {
        keys.for_each(|key| assert!(engine.add_hash(split_mix(3, key)).is_ok()));
    };
    add(0..40);
    engine.sync(Some(1)).unwrap();
    engine.begin_checkpoint().unwrap();
    // What makes the table of the recovery another one.
    add(40..80);
    engine.sync(Some(2)).unwrap();
    // The table, its sync, the slot, and the sync that fails, of which nothing reaches the disk.
    let forgetful = (0..).find(|&seed| Choices::new(seed).below(4) == 0).unwrap();
    medium.fail_after(4, Choices::new(forgetful));
    assert!(engine.finish_checkpoint().is_err());
    drop(engine);
    medium.heal();
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    medium.watch(Some(Box::new(move |view| seen.lock().unwrap().push(view.killed()))));
    Engine::open(medium.clone()).unwrap();
    medium.watch(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 10);
    images.into_iter().all(|image| {
        let opened = Engine::open(SimulatedMedium::new(image, None));
        opened.is_ok_and(|engine| {
            (0..80).all(|key| engine.contains_hash(split_mix(3, key))) && engine.mark() == 2
        })
    })
}

#[test]
fn f89_a_slot_that_only_the_cache_holds_is_taken_back() {
    assert!(survives_a_cached_slot(None));
}

/// No thread waits for ever for a round that a failure has made the last.
#[test]
fn a_failure_is_told_to_every_thread_that_waits_for_a_sync() {
    for call in 3..40 {
        let medium = new_filter(Geometry::line(8, 150).unwrap(), JOURNAL_STEP, None);
        let engine = Engine::open(medium.clone()).unwrap();
        medium.fail_after(call, Choices::new(call));
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let engine = &engine;
                scope.spawn(move || {
                    let add_and_sync = |number| {
                        engine.add_hash(split_mix(thread, number))?;
                        engine.sync(None)
                    };
                    assert!((0..100_000).any(|number| add_and_sync(number).is_err()));
                });
            }
        });
        assert!(engine.is_poisoned());
    }
}
