//! A failing write or sync at every call: the handle is poisoned, the file is not.

use super::history::new_filter;
use crate::error::Error;
use crate::geometry::Geometry;
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
    for journal_bytes in [0, 4096] {
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
