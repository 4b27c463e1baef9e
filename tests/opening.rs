//! Opening or creating in one call, and what an open filter says of itself.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;

use bloomfile::{CellKind, Error, Filter, Options, geometry::Layout, report::inspect};

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.bloom");
    (folder, path)
}

fn options() -> Options {
    Options::new().capacity(1000).false_positive_rate(0.01)
}

#[test]
fn a_file_is_created_once_and_opened_from_then_on() {
    let (_folder, path) = place();
    let filter = options().metadata("keys", "numbers").open_or_create(&path).unwrap();
    filter.add("sheep").unwrap();
    let uuid = filter.uuid();
    assert!(matches!(options().open_or_create(&path).unwrap_err().cause(), Error::Locked));
    filter.close().unwrap();
    // Journal size and metadata are the file's.
    let filter =
        options().journal_bytes(0).metadata("keys", "other").open_or_create(&path).unwrap();
    assert!(filter.contains("sheep") && filter.uuid() == uuid);
    assert_eq!(filter.metadata()["keys"], "numbers");
    drop(filter);
    let missing = path.with_file_name("no").join("keys.bloom");
    assert!(matches!(options().open_or_create(missing).unwrap_err().cause(), Error::Io { .. }));
}

#[test]
fn other_parameters_are_refused_by_name() {
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    let before = std::fs::read(&path).unwrap();
    for (other, parameter) in [
        (options().kind(CellKind::Counting), "kind"),
        (options().seed(1), "seed"),
        (options().capacity(1001), "capacity"),
        (options().false_positive_rate(0.02), "false positive rate"),
        (options().generations(2), "generations"),
        (options().when_full(bloomfile::WhenFull::Refuse), "policy when full"),
        (options().layout(Layout::Page), "size"),
        (Options::new().rows(8).row_bits(1000).capacity(1000), "false positive rate"),
    ] {
        let error = other.open_or_create(&path).unwrap_err();
        let Error::Different { parameter: found, .. } = error.cause() else { panic!("{error}") };
        assert_eq!(*found, parameter);
    }
    let error = options().capacity(1001).open_or_create(&path).unwrap_err().to_string();
    let told = "has capacity 1000, and 1001 is asked for; open it as it is, or choose another name";
    assert_eq!(error, format!("{}: {told}", path.display()));
    assert!(!error.contains("damaged") && std::fs::read(&path).unwrap() == before);
    let error = options().replace(true).open_or_create(&path).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "replace", .. }));
    // A file that is no filter is never replaced.
    std::fs::write(&path, "text").unwrap();
    assert!(options().open_or_create(&path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"text");
}

/// A filter that has grown or rotated is still what its options made.
#[test]
fn a_file_that_has_grown_is_opened() {
    for options in [options().grow(), options().generations(3).rotate_after(500)] {
        let (_folder, path) = place();
        let filter = options.open_or_create(&path).unwrap();
        (0..5000u32).for_each(|key| assert!(filter.add(key.to_le_bytes()).is_ok()));
        assert!(filter.segments() > 1);
        filter.close().unwrap();
        assert!(options.open_or_create(&path).unwrap().contains(4999u32.to_le_bytes()));
    }
}

#[test]
fn of_several_that_come_at_once_one_creates() {
    for _ in 0..20 {
        let (_folder, path) = place();
        let opened = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for key in 0..4u32 {
                let (path, opened) = (&path, &opened);
                scope.spawn(move || match options().open_or_create(path) {
                    Ok(filter) => {
                        filter.add(key.to_le_bytes()).unwrap();
                        filter.close().unwrap();
                        opened.fetch_add(1 << (8 * key), std::sync::atomic::Ordering::Relaxed);
                    }
                    Err(error) => assert!(matches!(error.cause(), Error::Locked), "{error}"),
                });
            }
        });
        // What was added by those who got it is in the one file.
        let opened = opened.into_inner();
        let filter = Filter::open(&path).unwrap();
        for key in (0..4u32).filter(|key| opened >> (8 * key) & 1 == 1) {
            assert!(filter.contains(key.to_le_bytes()), "{opened:x}");
        }
        assert_ne!(opened, 0);
    }
}

/// Live figures against those that `inspect` counts once the file is closed.
#[test]
fn an_open_filter_tells_how_full_it_is() {
    for (name, options) in [
        ("line", options()),
        ("page", options().layout(Layout::Page)),
        ("rows", options().layout(Layout::Rows)),
        ("flat", options().layout(Layout::Flat)),
        ("growing", options().grow()),
        ("rotating", options().generations(3).rotate_after(11_000)),
    ] {
        let (_folder, path) = place();
        let filter = options.capacity(20_000).create(&path).unwrap();
        assert_eq!((filter.estimate().value, filter.fill(), filter.rate()), (0.0, 0.0, 0.0));
        for (keys, checkpoint) in [(5_000u32, false), (12_000, true), (30_000, false)] {
            let known = filter.estimate().value as u32;
            (known / 2..keys).for_each(|key| assert!(filter.add(key.to_le_bytes()).is_ok()));
            if checkpoint {
                filter.checkpoint().unwrap();
            }
            let live = (filter.estimate(), filter.fill(), filter.rate());
            filter.checkpoint().unwrap();
            let now = inspect(&path).unwrap();
            let close = |live: f64, counted: f64, most: f64, what: &str| {
                let error = (live / counted - 1.0).abs();
                assert!(error < most, "{name}, {keys} keys, {what}: {live}, not {counted}");
            };
            close(live.0.value, now.keys().value, 0.02, "keys");
            let (ones, cells) = now
                .segments
                .iter()
                .fold((0, 0), |(ones, cells), it| (ones + it.ones, cells + it.cells));
            close(live.1, ones as f64 / cells as f64, 0.02, "fill");
            close(live.2, now.rate_now(), 0.1, "rate");
        }
    }
}
