//! A writer that forks (F-103): the child's calls that write are errors, and what the parent goes on to do
//! is as if there were no child.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bloomfile::{CellKind, Error, Filter, Options, Reader, reader::Follower, report::verify};

/// Says to a process that it is the child of a test, and in which folder it works.
const FOLDER: &str = "BLOOMFILE_TEST_FOLDER";

/// Runs a function of this file in a process of its own: only there is one thread all there is.
fn in_another_process(role: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}\n{said}\n{complained}", output.status);
    assert!(said.contains("1 passed"), "{role} did not run: {said}");
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Does something in a forked child and tells what that did not like.
fn in_child(work: impl FnOnce() -> Result<(), String>) {
    // SAFETY: the process has one thread, so that the child has all that there is; it ends in
    // `_exit` and never returns into the test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let code = match result {
            Ok(Ok(())) => 0,
            Ok(Err(wrong)) => {
                eprintln!("in the child: {wrong}");
                1
            }
            Err(_) => 2,
        };
        // SAFETY: ends the process at once, without the destructors of what it inherited.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the process that was just started.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child found something wrong");
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn is_forked<T: std::fmt::Debug>(what: &str, result: Result<T, Error>) -> Result<(), String> {
    match result.map_err(Error::into_cause) {
        Err(Error::Forked) => Ok(()),
        other => Err(format!("{what}: {other:?}")),
    }
}

/// Every call that writes, in the child.
fn try_to_write(filter: &Filter, other: &Path) -> Result<(), String> {
    is_forked("add of a new key", filter.add(b"the child's"))?;
    is_forked("add of a known key", filter.add(key(0)))?;
    is_forked("add_hash", filter.add_hash(77))?;
    is_forked("add_batch", filter.add_batch(&["the child's", "one more"]))?;
    is_forked("add_batch of known keys", filter.add_batch(&[key(0), key(1)]))?;
    is_forked("sync", filter.sync())?;
    is_forked("sync_with_mark", filter.sync_with_mark(9))?;
    is_forked("checkpoint", filter.checkpoint())?;
    is_forked("set_metadata", filter.set_metadata("a", Some("b")))?;
    is_forked("rotate", filter.rotate())?;
    let reader = Reader::open(other).map_err(|error| error.to_string())?;
    is_forked("union_from", filter.union_from(&reader))?;
    if filter.kind() == CellKind::Counting {
        is_forked("remove", filter.remove(key(0)))?;
    }
    if format!("{filter:?}").contains("adds") {
        return Err("what it is shown as asks for a lock".into());
    }
    // Reading is as before.
    if !(0..1000).all(|number| filter.contains(key(number))) {
        return Err("a key is missing".into());
    }
    Ok(())
}

#[test]
fn f103_a_forked_child_cannot_write() {
    in_another_process("forks_with_a_filter");
}

#[test]
#[ignore = "started by another test, as a process of its own"]
fn forks_with_a_filter() {
    let Some(folder) = folder() else { return };
    let options = || Options::new().capacity(1_500).false_positive_rate(0.01);
    let other = folder.join("other");
    options().create(&other).unwrap().close().unwrap();
    for (name, options) in [
        ("plain", options()),
        ("no journal", options().journal_bytes(0)),
        ("counting", options().kind(CellKind::Counting)),
        ("growing", options().grow()),
        ("rotating", options().generations(2)),
    ] {
        let path = folder.join(name);
        let filter = options.create(&path).unwrap();
        for number in 0..1_000 {
            filter.add(key(number)).unwrap();
        }
        filter.sync().unwrap();

        let mut inherited = Some(filter);
        in_child(|| {
            let filter = inherited.take().unwrap();
            try_to_write(&filter, &other)?;
            is_forked("close", filter.close())?;
            // A file of its own is none of the parent's business.
            let own = Filter::open(&other).map_err(|error| format!("own file: {error}"))?;
            own.add(b"the child's").map_err(|error| format!("own file: {error}"))?;
            own.close().map_err(|error| format!("own file: {error}"))
        });
        // What drops the filter without a word.
        in_child(|| {
            drop(inherited.take());
            Ok(())
        });

        let filter = inherited.unwrap();
        assert!(
            matches!(Filter::open(&path).map_err(Error::into_cause), Err(Error::Locked)),
            "{name}: the lock is gone"
        );
        for number in 1_000..2_000 {
            filter.add(key(number)).unwrap();
        }
        filter.sync_with_mark(7).unwrap();
        filter.close().unwrap();
        let verification = verify(&path).unwrap();
        assert!(verification.is_sound(), "{name}: {verification:?}");
        let reader = Reader::open(&path).unwrap();
        assert!((0..2_000).all(|number| reader.contains(key(number))), "{name}");
        assert_eq!(reader.mark(), 7, "{name}");
        assert!(reader.metadata().is_empty(), "{name}");
        let own = Reader::open(&other).unwrap();
        assert!(own.contains(b"the child's"));
    }
}

/// Seconds after which a child that has not ended is taken for one that never does.
const PATIENCE: u32 = 30;

/// Drops a copy of what the parent has, in a child: the parent's threads are not there.
fn drop_in_child<T>(inherited: &T) {
    in_child(|| {
        // SAFETY: the child is ended by `_exit` and does not use the value again; the signal ends it if
        // it hangs.
        unsafe {
            libc::alarm(PATIENCE);
            drop(std::ptr::read(inherited));
        }
        Ok(())
    });
}

#[test]
fn f103_a_forked_child_waits_for_no_thread_of_its_parent() {
    in_another_process("forks_beside_threads");
}

#[test]
#[ignore = "started by another test, as a process of its own"]
fn forks_beside_threads() {
    let Some(folder) = folder() else { return };
    let path = folder.join("filter");
    // Checkpoints in the background most of the time.
    let options = Options::new().capacity(300_000).false_positive_rate(0.01);
    let filter = options.journal_bytes(16 << 10).create(&path).unwrap();
    let mut follower = Follower::open(&path).unwrap();
    follower.watch(Duration::from_millis(1), |_| {}).unwrap();
    let done = AtomicBool::new(false);
    /// Ends the loop that is told so, also when a test fails.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                (0..200).for_each(|_| {
                    number += 1;
                    filter.add(key(number)).unwrap();
                });
                filter.sync().unwrap();
            }
        });
        while filter.stats().checkpoints == 0 {
            std::thread::yield_now();
        }
        for _ in 0..40 {
            drop_in_child(&filter);
            drop_in_child(&follower);
        }
    });
    assert!(filter.stats().checkpoints > 1);
    filter.close().unwrap();
    assert!(verify(&path).unwrap().is_sound());
}
