//! Pairs that several threads set at the same time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use bloomfile::{Filter, Options, Reader, geometry::Geometry};

#[test]
fn threads_that_set_pairs_lose_none() {
    const THREADS: u32 = 4;
    const UPDATES: u32 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.bloom");
    let options = Options::new().geometry(Geometry::line(8, 10).unwrap()).metadata("kept", "yes");
    let filter: Filter = options.create(&path).unwrap();
    let lost: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let filter = &filter;
                scope.spawn(move || {
                    let name = format!("thread {thread}");
                    (0..UPDATES)
                        .map(|update| {
                            let value = update.to_string();
                            filter.set_metadata(&name, Some(&value)).unwrap();
                            u32::from(filter.metadata().get(&name) != Some(&value))
                        })
                        .sum()
                })
            })
            .collect();
        threads.into_iter().map(|thread| -> u32 { thread.join().unwrap() }).sum()
    });
    assert_eq!(lost, 0, "of {} updates", THREADS * UPDATES);
    assert!(filter.set_metadata("too long", Some(&"x".repeat(2000))).is_err());
    assert!(filter.set_metadata("", Some("no name")).is_err());
    filter.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.metadata()["kept"], "yes");
    assert_eq!(reader.metadata()["thread 3"], (UPDATES - 1).to_string());
    assert_eq!(reader.metadata().len(), 1 + THREADS as usize);
}
