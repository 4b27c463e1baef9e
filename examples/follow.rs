//! Threads that look up while the file is replaced, as `bloomfile pull` does it: each look-up is in a
//! whole file, and none waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloomfile::{Options, reader::Follower};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("news.bloom");
    let options = Options::new().capacity(100_000).false_positive_rate(0.001).replace(true);
    let publish = |version: u64| -> Result<(), bloomfile::Error> {
        let mut file = options.start_build(&path)?;
        (0..=version).for_each(|number| {
            file.add(format!("version {number}"));
        });
        file.finish().map(drop)
    };
    publish(0)?;

    let mut follower = Follower::open(&path)?;
    let (switched, done, look_ups) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    follower.watch(Duration::from_millis(5), |result| {
        if let Err(error) = result {
            eprintln!("still in the old file: {error}");
        }
    })?;
    std::thread::scope(|scope| -> Result<(), bloomfile::Error> {
        for _ in 0..2 {
            let mut reader = follower.reader();
            let (switched, done, look_ups) = (&switched, &done, &look_ups);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let next = switched.load(Ordering::Relaxed);
                    if reader.contains(format!("version {next}")) {
                        switched.fetch_max(next + 1, Ordering::Relaxed);
                    }
                    look_ups.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for version in 1..=20 {
            publish(version)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        done.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    let (look_ups, versions) = (look_ups.into_inner(), switched.into_inner());
    println!("{look_ups} look-ups, in files up to version {}", versions.saturating_sub(1));
    Ok(())
}
