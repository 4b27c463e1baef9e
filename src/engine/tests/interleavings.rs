//! Threads that add while another syncs and checkpoints, in many orders: whenever the process is
//! killed, table and journal explain every bit; whatever was added before a sync is durable.

use std::sync::{Arc, Mutex};

use super::campaign::new_filter;
use crate::engine::Engine;
use crate::geometry::Geometry;
use crate::hash::split_mix;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Keep, SimulatedMedium, View};

const ADDERS: u64 = 2;
const KEYS: u64 = 3;
const ROUNDS: usize = 1_000;

/// One run under one order of the threads' steps.
fn run(sabotage: Option<Sabotage>) {
    // One line, so that the adders' keys share cells.
    let medium = new_filter(Geometry::line(8, 1).unwrap(), 4096, sabotage);
    let engine = Arc::new(Engine::open(medium.clone()).unwrap());
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    medium.watch(Some(Box::new(move |view: &View<'_>| seen.lock().unwrap().push(view.killed()))));

    let adders: Vec<_> = (0..ADDERS)
        .map(|adder| {
            let engine = Arc::clone(&engine);
            shuttle::thread::spawn(move || {
                for key in 0..KEYS {
                    engine.add_hash(split_mix(adder % 2, key)).unwrap();
                }
            })
        })
        .collect();
    engine.checkpoint().unwrap();
    engine.sync(None).unwrap();
    engine.checkpoint().unwrap();
    for adder in adders {
        adder.join().unwrap();
    }
    engine.sync(Some(7)).unwrap();
    medium.watch(None);

    let synced = medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)));
    let recovered = Engine::open(SimulatedMedium::new(synced, None)).unwrap();
    for adder in 0..ADDERS {
        for key in 0..KEYS {
            assert!(recovered.contains_hash(split_mix(adder % 2, key)), "a synced key is lost");
        }
    }
    let mut images = std::mem::take(&mut *images.lock().unwrap());
    images.dedup();
    for image in images {
        let recovered = Engine::open(SimulatedMedium::new(image, None)).unwrap();
        let report = recovered.recovery().expect("the file was open");
        assert_eq!(report.pages_unsynced, 0, "a kill left bits unexplained: {report:?}");
    }
}

#[test]
fn interleavings_leave_every_bit_explained() {
    shuttle::check_random(|| run(None), ROUNDS);
    shuttle::check_pct(|| run(None), ROUNDS / 5, 3);
}

#[test]
#[should_panic]
fn interleavings_notice_a_checkpoint_that_does_not_wait_for_adds() {
    shuttle::check_random(|| run(Some(Sabotage::CheckpointWithoutStripes)), ROUNDS);
}
