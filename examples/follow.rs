//! Threads that look up while pulls replace the file: each look-up is in a whole file, and none waits.
//!
//! The command publishes and pulls; it stands beside the examples after `cargo build --workspace`, or
//! where the system looks for programs. Without it the file is replaced by renaming, as a pull does at
//! last.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloomfile::{Filter, Options, reader::Follower};

type Failure = Box<dyn std::error::Error>;

const VERSIONS: u64 = 20;

fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let (live, pulled) = (at("live.bloom"), at("news.bloom"));
    let command = command();
    if command.is_none() {
        println!("there is no bloomfile command here: the file is replaced without it");
    }
    Options::new().capacity(100_000).false_positive_rate(0.001).create(&live)?.close()?;
    // What two hosts do: one adds and publishes, the other pulls.
    let next = |version: u64| -> Result<String, Failure> {
        let filter = Filter::open(&live)?;
        filter.add(format!("version {version}"))?;
        filter.close()?;
        let Some(command) = &command else {
            std::fs::copy(&live, at("unfinished"))?;
            std::fs::rename(at("unfinished"), &pulled)?;
            return Ok(format!("version {version}"));
        };
        run(command, "publish", &live, &at("site"))?;
        run(command, "pull", &at("site"), &pulled)
    };
    next(0)?;

    let mut follower = Follower::open(&pulled)?;
    let (seen, done, look_ups) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    follower.watch(Duration::from_millis(5), |result| {
        if let Err(error) = result {
            eprintln!("still in the old file: {error}");
        }
    })?;
    let last = std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut reader = follower.reader();
            let (seen, done, look_ups) = (&seen, &done, &look_ups);
            scope.spawn(move || {
                // This thread's own: another one may be in a newer file already.
                let mut version = 0;
                while !done.load(Ordering::Relaxed) {
                    assert!(reader.contains(format!("version {version}")), "it was there");
                    if reader.contains(format!("version {}", version + 1)) {
                        version += 1;
                        seen.fetch_max(version, Ordering::Relaxed);
                    }
                    look_ups.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        let pulls = || -> Result<String, Failure> {
            let mut last = String::new();
            for version in 1..=VERSIONS {
                last = next(version)?;
            }
            let deadline = Instant::now() + Duration::from_secs(10);
            while seen.load(Ordering::Relaxed) < VERSIONS && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(last)
        };
        let last = pulls();
        done.store(true, Ordering::Relaxed);
        last
    })?;
    println!("{last}");
    println!("{look_ups:?} look-ups, in files up to version {seen:?}");
    Ok(())
}

/// The command, if there is one.
fn command() -> Option<PathBuf> {
    let name = format!("bloomfile{}", std::env::consts::EXE_SUFFIX);
    let example = std::env::current_exe().ok();
    let beside = example.as_deref().and_then(Path::parent).and_then(Path::parent);
    let beside = beside.map(|folder| folder.join(&name));
    let works = |path: &PathBuf| {
        let ran = Command::new(path).arg("--version").output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    beside.into_iter().chain([name.into()]).find(works)
}

/// Runs the command: what it printed.
fn run(command: &Path, name: &str, from: &Path, to: &Path) -> Result<String, Failure> {
    let ran = Command::new(command).arg(name).args([from, to]).output()?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into());
    }
    Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
}
