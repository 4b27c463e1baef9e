//! Real processes, really killed: what they acknowledged is there afterwards.
//!
//! The long form: `BLOOMFILE_KILLS=5000 cargo test --release --test kills -- --nocapture`

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloomfile::{Filter, Key, Options, ReadOptions, Reader, ops, report::Health};

/// Kills of the form that runs with the other tests.
const KILLS: u64 = 200;

/// Threads that add in the writing process.
const THREADS: usize = 4;

/// Says to a process that it is a child of a test, and on which file it works.
const FILE: &str = "BLOOMFILE_TEST_FILE";
/// Which run of the child this is: runs add different keys.
const RUN: &str = "BLOOMFILE_TEST_RUN";

/// The files of the kill test: every other kill is that of a keyed file's writer.
const FILES: [&str; 2] = ["keys.bloom", "keyed.bloom"];

/// The secret of a keyed file.
fn secret(path: &Path) -> Option<Key> {
    path.ends_with(FILES[1]).then(|| Key::from_bytes(*b"a secret of kill"))
}

fn open(path: &Path) -> bloomfile::Result<Filter> {
    match secret(path) {
        Some(secret) => Filter::open_with_key(path, &secret),
        None => Filter::open(path),
    }
}

fn open_to_read(path: &Path) -> bloomfile::Result<Reader> {
    match secret(path) {
        Some(secret) => ReadOptions::new().key(&secret).open(path),
        None => Reader::open(path),
    }
}

fn kills() -> u64 {
    std::env::var("BLOOMFILE_KILLS").map_or(KILLS, |text| text.parse().unwrap())
}

fn key(run: u64, thread: usize, number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&run.to_le_bytes());
    key[8..16].copy_from_slice(&(thread as u64).to_le_bytes());
    key[16..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Starts this test program again as a child that runs one function.
fn child(role: &str, path: &Path, run: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--ignored", "--nocapture"])
        .env(FILE, path)
        .env(RUN, run.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The child of the kill test: adds from several threads and says after each sync how far it is.
#[test]
#[ignore = "started by the kill test as a process of its own"]
fn adds_until_killed() {
    let (Ok(path), Ok(run)) = (std::env::var(FILE), std::env::var(RUN)) else { return };
    let run: u64 = run.parse().unwrap();
    let filter = open(Path::new(&path)).unwrap();
    let first_mark = filter.mark();
    let added: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (filter, added) = (&filter, &added[thread]);
            scope.spawn(move || {
                for number in 0.. {
                    filter.add(key(run, thread, number)).unwrap();
                    added.store(number + 1, Ordering::Release);
                    // A pause now and then, so that syncs come between adds of all threads.
                    if number % 64 == 63 {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
            });
        }
        let mut out = std::io::stdout().lock();
        for mark in first_mark + 1.. {
            let counts: Vec<u64> =
                added.iter().map(|added| added.load(Ordering::Acquire)).collect();
            filter.sync_with_mark(mark).unwrap();
            let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
            writeln!(out, "synced {mark} {}", counts.join(" ")).unwrap();
            out.flush().unwrap();
            if mark % 50 == 0 {
                filter.checkpoint().unwrap();
            }
        }
    });
}

/// Mark and counts of a whole line of the child's.
fn parse_sync(line: &str) -> Option<Vec<u64>> {
    let numbers = line.strip_prefix("synced ")?.split(' ').map(str::parse);
    let numbers = numbers.collect::<Result<Vec<u64>, _>>().ok()?;
    (numbers.len() == 1 + THREADS).then_some(numbers)
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let paths = FILES.map(|name| folder.path().join(name));
    for path in &paths {
        // So that no add goes unlogged, and every page can be verified.
        let options = Options::new().capacity(2_000_000).false_positive_rate(0.01);
        let mut options = options.journal_bytes(8 << 20);
        if let Some(secret) = secret(path) {
            options = options.key(&secret);
        }
        options.create(path).unwrap().close().unwrap();
    }
    let (mut checked, mut crashed, mut replayed) = (0, 0, 0);
    for run in 0..kills() {
        let path = &paths[run as usize % 2];
        let mut child = child("adds_until_killed", path, run);
        let mut syncs = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| parse_sync(&line));
        // How far the child gets differs from run to run. What it says between that and its end
        // counts as well.
        let mut acknowledged = syncs.by_ref().take(1 + run as usize % 40).last();
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged = syncs.last().or(acknowledged);
        let acknowledged = acknowledged.unwrap_or_else(|| {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("the child never synced: {said}")
        });
        let all_there = |contains: &dyn Fn(&[u8]) -> bool| {
            acknowledged[1..].iter().enumerate().all(|(thread, &count)| {
                (0..count).all(|number| contains(&key(run, thread, number)))
            })
        };

        let before = std::fs::read(path).unwrap();
        let reader = open_to_read(path).unwrap();
        crashed += u64::from(reader.health() == Health::Crashed);
        assert!(all_there(&|key| reader.contains(key)), "run {run}: the reader misses keys");
        assert!(before == std::fs::read(path).unwrap(), "run {run}: reading changed the file");

        drop(reader);
        // Recovery takes no secret, and happens as well where there is none.
        let mut recovery = if run % 4 == 3 { ops::recover(path).unwrap() } else { None };
        let filter = open(path).unwrap();
        assert!(all_there(&|key| filter.contains(key)), "run {run}: keys are lost");
        let last = acknowledged[0];
        assert!(
            filter.mark() == last || filter.mark() == last + 1,
            "run {run}: the mark is {} after {last} was synced",
            filter.mark()
        );
        recovery = recovery.or(filter.recovery().cloned());
        if let Some(recovery) = recovery {
            assert_eq!(recovery.pages_unverifiable, 0, "run {run}: {recovery:?}");
            replayed += recovery.records_replayed;
        }
        checked += acknowledged[1..].iter().sum::<u64>();
        filter.close().unwrap();
        assert!(bloomfile::report::verify(path).unwrap().is_sound());
    }
    println!(
        "{} kills, {crashed} of them in the middle: {checked} keys acknowledged and found, \
         {replayed} replayed",
        kills()
    );
    assert!(crashed > kills() / 2, "the kills came too late: {crashed}");
}

/// The child of the reader test: says "ready", then asks for each key that it is told was added.
#[test]
#[ignore = "started by the reader test as a process of its own"]
fn asks_for_keys() {
    let Ok(path) = std::env::var(FILE) else { return };
    let reader = Reader::open(path).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready").unwrap();
    out.flush().unwrap();
    let mut misses = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        misses += u64::from(!reader.contains(key(numbers[0], numbers[1] as usize, numbers[2])));
    }
    writeln!(out, "missed {misses}").unwrap();
}

#[test]
fn readers_in_other_processes_miss_no_key_whose_add_returned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.bloom");
    let filter = Options::new()
        .capacity(200_000)
        .false_positive_rate(0.01)
        .journal_bytes(64 << 10)
        .create(&path)
        .unwrap();
    let mut children: Vec<Child> = (0..2).map(|run| child("asks_for_keys", &path, run)).collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().unwrap()).lines())
        .collect();
    for lines in &mut outputs {
        assert!(lines.by_ref().any(|line| line.unwrap().ends_with("ready")));
    }
    let inputs: Vec<_> = children.iter_mut().map(|child| child.stdin.take().unwrap()).collect();
    let inputs: Vec<_> = inputs.into_iter().map(std::sync::Mutex::new).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (filter, inputs) = (&filter, &inputs);
                scope.spawn(move || {
                    for number in 0..5_000 {
                        let key = key(9, thread, number);
                        filter.add(key).unwrap();
                        assert!(filter.contains(key));
                        let mut input = inputs[thread % inputs.len()].lock().unwrap();
                        writeln!(input, "9 {thread} {number}").unwrap();
                    }
                })
            })
            .collect();
        let (filter, stop) = (&filter, &stop);
        scope.spawn(move || {
            for round in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if round % 5 == 4 { filter.checkpoint() } else { filter.sync() }.unwrap();
            }
        });
        for adder in adders {
            adder.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(inputs);
    for (mut lines, mut child) in outputs.into_iter().zip(children) {
        let missed =
            lines.find_map(|line| line.unwrap().strip_prefix("missed ").map(str::to_owned));
        assert_eq!(missed.as_deref(), Some("0"));
        child.wait().unwrap();
    }
}
