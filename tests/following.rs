//! Readers that follow a name: what they answer while files replace one another under load, and what
//! they do about a file that is not what it should be.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use bloomfile::reader::{Access, Follower};
use bloomfile::{CellKind, Error, Options, ReadOptions};
use common::{Folder, below};

fn options() -> Options {
    Options::new().capacity(2_000).false_positive_rate(1e-9).journal_bytes(0).replace(true)
}

/// A file of one version: the keys that all have, and one that tells which it is.
fn publish(path: &Path, version: u64) {
    let mut file = options().metadata("version", version.to_string()).start_build(path).unwrap();
    for key in 0..1_000 {
        file.add(format!("all {key}"));
    }
    file.add(format!("version {version}"));
    file.finish().unwrap();
}

fn replacements() -> u64 {
    std::env::var("BLOOMFILE_REPLACEMENTS").map_or(1_000, |text| text.parse().unwrap())
}

/// How often this thread gave up the processor of itself, which is what waiting for a lock is; `None`
/// where the system does not tell.
fn waits() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let (_, count) = status.split_once("\nvoluntary_ctxt_switches:")?;
    count.split_whitespace().next()?.parse().ok()
}

/// How long this thread has had a processor: what it takes to wait for one is not the look-up's.
#[cfg(unix)]
fn time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(not(unix))]
fn time() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// Four threads look up while the file is replaced: each answer is that of a file that had the name,
/// none older than one seen before, and no look-up waits for a switch.
#[test]
fn answers_stay_right_through_replacements_under_load() {
    const THREADS: u64 = 4;
    let folder = Folder::in_memory();
    let path = folder.at("followed");
    publish(&path, 0);
    let follower = Follower::open(&path).unwrap();
    let (done, newest) = (AtomicBool::new(false), AtomicU64::new(0));
    let (started, last) = (AtomicU64::new(0), replacements());
    let slowest = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut reader = follower.reader();
            let (done, newest, slowest, started) = (&done, &newest, &slowest, &started);
            scope.spawn(move || {
                let (mut seen, mut look_ups, mut switches) = (0, 0u64, 0u64);
                let mut times = Vec::new();
                let before = waits();
                started.fetch_add(1, Ordering::SeqCst);
                while !done.load(Ordering::SeqCst) || seen < last {
                    let at_least = newest.load(Ordering::SeqCst);
                    let start = time();
                    let key = below(thread, look_ups, 1_000);
                    let found = reader.contains(format!("all {key}"));
                    let took = time() - start;
                    assert!(found, "a key of all versions is denied");
                    assert!(!reader.contains(format!("none {key}")), "no version has this key");
                    let reader = reader.get();
                    let version: u64 = reader.metadata()["version"].parse().unwrap();
                    assert!(reader.contains(format!("version {version}")));
                    assert!(!reader.contains(format!("version {}", version + 1)));
                    assert!(version >= seen, "back to an older file");
                    assert!(version >= at_least, "{version}, and {at_least} is in use");
                    if version > seen {
                        switches += 1;
                        times.push(took);
                    }
                    seen = version;
                    look_ups += 1;
                }
                let waited = waits().zip(before).map(|(after, before)| after - before);
                slowest.lock().unwrap().push((times, look_ups, switches, waited));
            });
        }
        while started.load(Ordering::SeqCst) < THREADS {
            std::thread::yield_now();
        }
        for version in 1..=last {
            publish(&path, version);
            assert!(follower.refresh().unwrap());
            newest.store(version, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
    });
    let mut all = Vec::new();
    let (mut total, mut waited) = (0, Some(0));
    for (times, look_ups, switches, waits) in slowest.into_inner().unwrap() {
        assert!(switches > last / 10, "only {switches} of {last} files were looked into");
        all.extend(times);
        total += look_ups;
        waited = waited.zip(waits).map(|(all, one)| all + one);
    }
    all.sort();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    println!(
        "{last} replacements, {total} look-ups, {} switches; a look-up that switched took {:?} \
         (median), {:?} (99 %), {:?} (longest); the threads waited {waited:?} times",
        all.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    // What other programs and machines take of the processor is counted here as well: the long form is
    // for a quiet one.
    if cfg!(unix) && std::env::var_os("BLOOMFILE_REPLACEMENTS").is_some() {
        assert!(at(0.99) < Duration::from_millis(1), "{:?}", at(0.99));
        assert!(waited.is_none_or(|waited| waited <= last / 20), "waited {waited:?} times");
    }
    // What no thread looks into any more is not kept.
    assert!(!follower.refresh().unwrap());
    assert_eq!(folder.names(), ["followed"]);
}

/// A damaged file, one of another kind or seed, one that is no filter, none at all: the old one stays
/// in use, and the next good one is switched to.
#[test]
fn what_is_not_right_is_refused_and_told() {
    for access in [Access::Mapped, Access::Memory] {
        let folder = Folder::new();
        let path = folder.at("followed");
        publish(&path, 0);
        let follower = ReadOptions::new().access(access).follow(&path).unwrap();
        let mut reader = follower.reader();
        let take_name = |from: &str| std::fs::rename(folder.at(from), &path).unwrap();

        publish(&folder.at("damaged"), 1);
        let mut bytes = std::fs::read(folder.at("damaged")).unwrap();
        let end = bytes.len();
        bytes[end - 4096] ^= 1;
        std::fs::write(folder.at("damaged"), bytes).unwrap();
        take_name("damaged");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Damaged { .. }), "{error}");

        let counting = options().kind(CellKind::Counting).create(folder.at("counting")).unwrap();
        counting.close().unwrap();
        take_name("counting");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Replaced { parameter: "kind", .. }), "{error}");
        let expected = "another kind (plain before, counting now)";
        assert!(error.to_string().contains(expected), "{error}");

        options().seed(9).start_build(folder.at("seed")).unwrap().finish().unwrap();
        take_name("seed");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Replaced { parameter: "seed", .. }), "{error}");

        std::fs::write(folder.at("text"), "no filter").unwrap();
        take_name("text");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::NotABloomfile { .. }), "{error}");

        std::fs::remove_file(&path).unwrap();
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Io { .. }), "{error}");

        assert!(reader.contains("version 0") && !reader.contains("version 1"));
        publish(&path, 2);
        assert!(follower.refresh().unwrap() && !follower.refresh().unwrap());
        assert!(reader.contains("version 2") && !reader.contains("version 0"));
    }
}

/// The thread that watches tells of every switch, and once of each file that it refused; one that is
/// made right where it is counts after all.
#[test]
fn a_watched_name_is_switched_by_itself() {
    let folder = Folder::new();
    let path = folder.at("followed");
    publish(&path, 0);
    let mut follower = Follower::open(&path).unwrap();
    let mut reader = follower.reader();
    let (tell, told) = channel();
    let every = Duration::from_millis(5);
    follower.watch(every, move |switched| tell.send(switched).unwrap()).unwrap();
    let patience = Duration::from_secs(60);

    publish(&path, 1);
    told.recv_timeout(patience).unwrap().unwrap();
    assert!(reader.contains("version 1"));

    publish(&folder.at("next"), 2);
    let good = std::fs::read(folder.at("next")).unwrap();
    std::fs::write(folder.at("next"), &good[..good.len() - 4096]).unwrap();
    std::fs::rename(folder.at("next"), &path).unwrap();
    let error = told.recv_timeout(patience).unwrap().unwrap_err();
    assert!(matches!(error.cause(), Error::Length { .. }), "{error}");
    assert!(told.recv_timeout(20 * every).is_err(), "told twice of one file");
    assert!(reader.contains("version 1"));

    std::fs::write(&path, &good).unwrap();
    // It may be looked at while it is being written.
    while told.recv_timeout(patience).unwrap().is_err() {}
    assert!(reader.contains("version 2"));

    std::fs::remove_file(&path).unwrap();
    told.recv_timeout(patience).unwrap().unwrap_err();
    assert!(told.recv_timeout(20 * every).is_err(), "told twice of a missing file");
    drop(follower);
    // Its readers outlive it.
    assert!(reader.contains("version 2"));
}
