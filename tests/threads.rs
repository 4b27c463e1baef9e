//! The threads of a process: everything works where no further one can be had, and the library's own can be
//! turned off.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use bloomfile::{
    Filter, Options,
    ops::{SetOperation, compare},
    report::verify,
};

/// Says to a process that it is the child of a test, and in which folder it works.
const FOLDER: &str = "BLOOMFILE_TEST_FOLDER";

#[test]
fn without_further_threads() {
    let strace = |inject: &str| {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=clone,clone3", "-e", inject]);
        command
    };
    let none = "inject=clone,clone3:error=EAGAIN";
    if !strace(none).arg("true").status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED: strace is not there, or may not trace");
    }
    let folder = tempfile::tempdir().unwrap();
    let output = strace(none)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "works_alone", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

#[test]
#[ignore = "started by another test, where no thread can be started"]
fn works_alone() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "a thread was started");
    let (one, two) = (folder.join("one"), folder.join("two"));
    // Large enough for several threads to share the work.
    let hashes: Vec<u64> = (0..100_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut builder =
        Options::new().capacity(20_000_000).false_positive_rate(0.01).start_build(&one).unwrap();
    builder.set_threads(4);
    builder.add_hash_batch(&hashes);
    builder.finish().unwrap();
    SetOperation::new().union(&[&one], &two).unwrap();
    assert!(verify(&two).unwrap().is_sound());
    assert!(compare(&one, &two).unwrap().is_same());
    let filter = Filter::open(&two).unwrap();
    assert!(hashes.iter().all(|&hash| filter.contains_hash(hash)));
    filter.close().unwrap();
}

/// Whether this process has a thread of the library's own.
fn has_background() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads.flatten().any(|thread| {
        std::fs::read_to_string(thread.path().join("comm"))
            .is_ok_and(|name| name.trim() == "bloomfile")
    })
}

#[test]
fn the_background_can_be_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        Options::new().capacity(1_000_000).false_positive_rate(0.01).journal_bytes(1 << 16);
    let filter = options.create(folder.path().join("keys.bloom")).unwrap();
    let mut added = 0u32;
    let mut work = || {
        for key in added..added + 100 {
            filter.add(key.to_le_bytes()).unwrap();
        }
        added += 100;
        filter.sync().unwrap();
        has_background()
    };
    filter.set_background(false);
    let seen = (0..100).any(|_| work());
    assert!(!seen, "a thread worked for a filter that wants none");
    assert!(filter.stats().checkpoints > 1, "full journals were followed by checkpoints");
    filter.set_background(true);
    // A thread has its name only once it runs, and is listed until the system has taken it away: on a
    // busy machine both take their time.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !work() {
        assert!(Instant::now() < deadline, "no thread works again");
    }
    filter.close().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while has_background() {
        assert!(Instant::now() < deadline, "it ends with the last filter");
        std::thread::sleep(Duration::from_millis(1));
    }
    let filter = Filter::open(folder.path().join("keys.bloom")).unwrap();
    assert!((0..added).all(|key| filter.contains(key.to_le_bytes())));
}
