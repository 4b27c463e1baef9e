//! Threads that add while another syncs and checkpoints, in many orders: whenever the process is
//! killed, table and journal explain every bit; whatever was added before a sync is durable.

use std::sync::{Arc, Mutex};

use shuttle::rand::Rng as _;

use super::campaign::Kind;
use super::history::{new_filter, new_filter_of};
use super::sabotages::Order;
use crate::format::JOURNAL_STEP;
use crate::geometry::{CellKind, Geometry};
use crate::hash::split_mix;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Image, Keep, SimulatedMedium, View};
use crate::writer::Engine;

const ADDERS: u64 = 2;
const KEYS: u64 = 3;
const ROUNDS: usize = 1_000;

/// What crashes at one moment leave, and what must be in it.
#[derive(PartialEq)]
struct Moment {
    killed: Image,
    cut: Image,
    synced: Vec<u64>,
}

/// One run under one order of the threads' steps.
fn run(sabotage: Option<Sabotage>) {
    // One line, so that the adders' keys share cells.
    let medium = new_filter(Geometry::line(8, 1).unwrap(), JOURNAL_STEP, sabotage);
    let engine = Arc::new(Engine::open(medium.clone()).unwrap());
    let moments = Arc::new(Mutex::new(Vec::new()));
    // Hashes whose add has returned, and how many of them had when the last sync was called that
    // has returned.
    let added = Arc::new(Mutex::new(Vec::new()));
    let synced = Arc::new(Mutex::new(0));
    let hook = {
        let (moments, added, synced) = (moments.clone(), added.clone(), synced.clone());
        let mut choices = Choices::new(0);
        move |view: &View<'_>| {
            let keep = Keep::ALL[choices.below(Keep::ALL.len() as u64) as usize];
            moments.lock().unwrap().push(Moment {
                killed: view.killed(),
                cut: view.power_cut(keep, &mut choices),
                synced: added.lock().unwrap()[..*synced.lock().unwrap()].to_vec(),
            });
        }
    };
    medium.watch(Some(Box::new(hook)));

    let adders: Vec<_> = (0..ADDERS)
        .map(|adder| {
            let (engine, added) = (Arc::clone(&engine), Arc::clone(&added));
            shuttle::thread::spawn(move || {
                for key in 0..KEYS {
                    let hash = split_mix(adder, key);
                    engine.add_hash(hash).unwrap();
                    added.lock().unwrap().push(hash);
                }
            })
        })
        .collect();
    let durably = |make: &dyn Fn()| {
        let before = added.lock().unwrap().len();
        make();
        *synced.lock().unwrap() = before;
    };
    durably(&|| engine.checkpoint().unwrap());
    durably(&|| engine.sync(None).unwrap());
    durably(&|| engine.sync(Some(5)).unwrap());
    durably(&|| engine.checkpoint().unwrap());
    for adder in adders {
        adder.join().unwrap();
    }
    durably(&|| engine.sync(Some(7)).unwrap());
    medium.watch(None);

    let last = Moment {
        killed: medium.view(|view| view.killed()),
        cut: medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0))),
        synced: added.lock().unwrap().clone(),
    };
    assert_eq!(last.synced.len() as u64, ADDERS * KEYS);
    let mut moments = std::mem::take(&mut *moments.lock().unwrap());
    moments.push(last);
    moments.dedup();
    for moment in moments {
        let killed = Engine::open(SimulatedMedium::new(moment.killed, None)).unwrap();
        let report = killed.recovery().expect("the file was open");
        assert_eq!(report.pages_unverifiable, 0, "a kill left bits unexplained: {report:?}");
        let cut = Engine::open(SimulatedMedium::new(moment.cut, None)).unwrap();
        for hash in moment.synced {
            assert!(cut.contains_hash(hash), "a synced key is lost");
        }
    }
}

#[test]
fn interleavings_leave_every_bit_explained() {
    shuttle::check_random(|| run(None), ROUNDS);
    shuttle::check_pct(|| run(None), ROUNDS / 5, 3);
}

/// Two threads add the same key, and one of them syncs: whether it wrote the key's record or found
/// the cells set by the other, the key is durable when the sync returns.
fn run_same_key(sabotage: Option<Sabotage>) {
    let medium = new_filter(Geometry::line(8, 1).unwrap(), JOURNAL_STEP, sabotage);
    let engine = Arc::new(Engine::open(medium.clone()).unwrap());
    let hash = split_mix(3, 3);
    // A session has begun, so that adding takes few steps.
    engine.add_hash(split_mix(4, 4)).unwrap();
    engine.sync(None).unwrap();
    let other = {
        let engine = Arc::clone(&engine);
        shuttle::thread::spawn(move || engine.add_hash(hash).map(drop).unwrap())
    };
    // The other one gets to any of its steps before this one begins.
    let steps = shuttle::rand::thread_rng().gen_range(0..60);
    (0..steps).for_each(|_| crate::sync::step());
    engine.add_hash(hash).unwrap();
    engine.sync(None).unwrap();
    let image = medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)));
    other.join().unwrap();
    let cut = Engine::open(SimulatedMedium::new(image, None)).unwrap();
    assert!(cut.contains_hash(hash), "a synced key is lost");
}

#[test]
fn f85_a_sync_covers_keys_that_another_thread_is_adding() {
    shuttle::check_random(|| run_same_key(None), 5 * ROUNDS);
}

const SYNCERS: u64 = 3;

/// Threads that each add a key and sync it with a mark, beside checkpoints: when a sync returns, its
/// key is durable, with its mark or one that came later.
fn run_syncers(sabotage: Option<Sabotage>) {
    let medium = new_filter(Geometry::line(8, 1).unwrap(), JOURNAL_STEP, sabotage);
    let engine = Arc::new(Engine::open(medium.clone()).unwrap());
    let syncers: Vec<_> = (0..SYNCERS)
        .map(|syncer| {
            let (engine, medium) = (Arc::clone(&engine), medium.clone());
            shuttle::thread::spawn(move || {
                let hash = split_mix(syncer, 9);
                engine.add_hash(hash).unwrap();
                engine.sync(Some(1 + syncer)).unwrap();
                (hash, medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0))))
            })
        })
        .collect();
    let checkpoints = {
        let engine = Arc::clone(&engine);
        shuttle::thread::spawn(move || (0..2).for_each(|_| engine.checkpoint().unwrap()))
    };
    engine.checkpoint().unwrap();
    checkpoints.join().unwrap();
    for syncer in syncers {
        let (hash, image) = syncer.join().unwrap();
        let cut = Engine::open(SimulatedMedium::new(image, None)).unwrap();
        assert!(cut.contains_hash(hash), "a synced key is lost");
        assert_ne!(cut.mark(), 0, "a synced mark is lost");
    }
    let image = medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)));
    let cut = Engine::open(SimulatedMedium::new(image, None)).unwrap();
    assert_eq!(cut.mark(), engine.mark());
}

#[test]
fn interleavings_of_syncs_in_groups_lose_nothing() {
    shuttle::check_random(|| run_syncers(None), 3 * ROUNDS);
    shuttle::check_pct(|| run_syncers(None), ROUNDS, 3);
}

/// Counters that are counted and synced, in a file without a journal, while another thread rotates: the
/// rollover takes over what is not synced, and a sync that comes then does not take it for done.
fn run_rollovers() {
    let medium = new_filter_of(Kind::COUNTING_ROTATING, Geometry::line(8, 1).unwrap(), 0, None);
    let engine = Arc::new(Engine::open(medium.clone()).unwrap());
    let syncers: Vec<_> = (0..2)
        .map(|syncer| {
            let (engine, medium) = (Arc::clone(&engine), medium.clone());
            shuttle::thread::spawn(move || {
                let hash = split_mix(syncer, 9);
                engine.add_hash(hash).unwrap();
                engine.sync(None).unwrap();
                (hash, medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0))))
            })
        })
        .collect();
    engine.rotate().unwrap();
    for syncer in syncers {
        let (hash, image) = syncer.join().unwrap();
        let cut = Engine::open(SimulatedMedium::new(image, None)).unwrap();
        assert!(cut.contains_hash(hash), "a synced key is lost");
    }
}

#[test]
fn f87_interleavings_of_syncs_and_rollovers_lose_nothing() {
    shuttle::check_random(run_rollovers, 3 * ROUNDS);
    shuttle::check_pct(run_rollovers, ROUNDS, 3);
}

/// Threads that sync one key after another, so that rounds wait for their calls to come back: each call
/// returns, however few others are left.
fn run_again_and_again() {
    let medium = new_filter(Geometry::line(8, 1).unwrap(), JOURNAL_STEP, None);
    let engine = Arc::new(Engine::open(medium).unwrap());
    let syncers: Vec<_> = (0..4)
        .map(|syncer| {
            let engine = Arc::clone(&engine);
            shuttle::thread::spawn(move || {
                for key in 0..4 {
                    engine.add_hash(split_mix(syncer, key)).unwrap();
                    engine.sync(None).unwrap();
                }
            })
        })
        .collect();
    syncers.into_iter().for_each(|syncer| syncer.join().unwrap());
    let stats = engine.stats();
    assert!(stats.flushes <= stats.syncs, "{stats:?}");
}

#[test]
fn interleavings_of_syncs_again_and_again_end() {
    shuttle::check_random(run_again_and_again, 3 * ROUNDS);
}

/// Threads that sync a counting file whose changes find no room on the disk: a round that fails so leaves
/// the handle as it is, and the calls that waited for it return all the same.
fn run_full_disk() {
    let geometry = Geometry::line(4, 2).unwrap().with_cells(CellKind::Counting);
    // Without a journal each sync needs space behind the end of the file.
    let medium = new_filter_of(Kind::COUNTING, geometry, 0, None);
    let engine = Arc::new(Engine::open(medium.clone()).unwrap());
    engine.add_hash(split_mix(5, 5)).unwrap();
    engine.sync(None).unwrap();
    medium.fail_extending(1);
    let syncers: Vec<_> = (0..4)
        .map(|syncer| {
            let engine = Arc::clone(&engine);
            shuttle::thread::spawn(move || {
                engine.add_hash(split_mix(syncer, 7)).unwrap();
                u64::from(engine.sync(None).is_err())
            })
        })
        .collect();
    let failed: u64 = syncers.into_iter().map(|syncer| syncer.join().unwrap()).sum();
    assert_eq!(failed, 1, "one call led the round that failed");
    engine.sync(None).unwrap();
    let image = medium.view(|view| view.power_cut(Keep::Nothing, &mut Choices::new(0)));
    let cut = Engine::open(SimulatedMedium::new(image, None)).unwrap();
    assert!((0..4).all(|syncer| cut.contains_hash(split_mix(syncer, 7))), "a synced key is lost");
}

#[test]
fn interleavings_of_syncs_after_one_that_found_no_space_end() {
    shuttle::check_random(run_full_disk, 3 * ROUNDS);
}

/// Whether threads in some order notice a step that is left out or done wrongly.
pub(super) fn notice(order: Order, sabotage: Sabotage) -> bool {
    let check = move || match order {
        Order::SameKey => {
            shuttle::check_random(move || run_same_key(Some(sabotage)), 5 * ROUNDS);
        }
        Order::Adds => shuttle::check_random(move || run(Some(sabotage)), ROUNDS),
        Order::Syncs => shuttle::check_random(move || run_syncers(Some(sabotage)), 10 * ROUNDS),
    };
    std::thread::spawn(check).join().is_err()
}

#[test]
fn interleavings_notice_sabotages() {
    assert_eq!(super::sabotages::run_all(), 4);
}
