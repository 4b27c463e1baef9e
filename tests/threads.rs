//! A process that may start no further thread: everything works, on the threads there are.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;

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
    compare(&one, &two).unwrap();
    let filter = Filter::open(&two).unwrap();
    assert!(hashes.iter().all(|&hash| filter.contains_hash(hash)));
    filter.close().unwrap();
}
