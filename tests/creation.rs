//! Creating where it cannot be done: an error, nothing damaged, nothing left behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use bloomfile::{Error, Filter, Options, Reader, geometry::Geometry};

fn options() -> Options {
    Options::new().capacity(100_000).false_positive_rate(0.01).journal_bytes(4096)
}

/// Tries both ways of making a file.
fn errors(options: &Options, path: &Path) -> Vec<Error> {
    vec![
        options.create(path).unwrap_err().into_cause(),
        options.start_build(path).map(drop).unwrap_err().into_cause(),
    ]
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

/// A small file system in memory, unmounted in the end.
struct Mount(tempfile::TempDir);

impl Mount {
    /// `None` where this process may not mount.
    fn new(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: this process may not mount a file system");
        }
        mounted.then_some(Mount(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn make_read_only(&self) {
        let status =
            Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn on_a_full_disk() {
    let Some(mount) = Mount::new("size=64k") else { return };
    std::fs::write(mount.path().join("other"), vec![1; 20_000]).unwrap();
    // Too large from the start, and too large by the last page.
    let large = options();
    let tight = Options::new().rows(1).row_bits(32_768 * 8).journal_bytes(0);
    for options in [large, tight] {
        for error in errors(&options, &mount.path().join("filter")) {
            assert!(matches!(error, Error::Io { .. }), "{error}");
            assert!(error.to_string().contains("free some space"), "{error}");
        }
        assert_eq!(names(mount.path()), [PathBuf::from("other")]);
    }
    assert_eq!(std::fs::read(mount.path().join("other")).unwrap(), vec![1; 20_000]);
    // What fits is made, on the same disk.
    let small = Options::new().rows(1).row_bits(1000).journal_bytes(0);
    small.create(mount.path().join("filter")).unwrap().close().unwrap();
}

/// An existing file that is to be replaced stays what it is.
#[test]
fn replacing_on_a_full_disk() {
    let Some(mount) = Mount::new("size=64k") else { return };
    let path = mount.path().join("filter");
    let small = Options::new().rows(1).row_bits(1000).journal_bytes(0);
    small.create(&path).unwrap().close().unwrap();
    let before = std::fs::read(&path).unwrap();
    for error in errors(&options().replace(true), &path) {
        assert!(error.to_string().contains("free some space"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(mount.path()), [PathBuf::from("filter")]);
}

#[test]
fn in_a_read_only_folder() {
    let Some(mount) = Mount::new("size=1m") else { return };
    mount.make_read_only();
    for error in errors(&options(), &mount.path().join("filter")) {
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains("check the permissions"), "{error}");
    }
    assert!(names(mount.path()).is_empty());
}

#[test]
fn in_a_folder_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    for error in errors(&options(), &folder.path().join("no/filter")) {
        assert!(error.to_string().contains("check the path"), "{error}");
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn over_an_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    std::fs::write(&path, "precious").unwrap();
    // Windows lets administrators alone make links.
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    let targets: &[&str] = if cfg!(unix) { &["filter", "link"] } else { &["filter"] };
    for &target in targets {
        for error in errors(&options(), &folder.path().join(target)) {
            assert!(matches!(error, Error::Exists), "{error}");
        }
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert_eq!(names(folder.path()), targets.iter().map(PathBuf::from).collect::<Vec<_>>());
    // A file that came into being while the new one was built is not replaced either.
    let late = folder.path().join("late");
    let mut builder = options().start_build(&late).unwrap();
    builder.add(b"key");
    std::fs::write(&late, "first").unwrap();
    assert!(matches!(builder.finish().map_err(Error::into_cause), Err(Error::Exists)));
    assert_eq!(std::fs::read(&late).unwrap(), b"first");
    assert_eq!(names(folder.path()).len(), targets.len() + 1);
    // Asked to, it replaces.
    options().replace(true).create(&path).unwrap().close().unwrap();
    assert!(!Reader::open(&path).unwrap().contains(b"key"));
}

#[test]
fn over_a_file_that_is_being_written_or_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    let filter = options().create(&path).unwrap();
    filter.add(b"key").unwrap();
    for error in errors(&options().replace(true), &path) {
        assert!(matches!(error, Error::Locked), "{error}");
    }
    filter.close().unwrap();
    assert!(Reader::open(&path).unwrap().contains(b"key"));
    for error in errors(&options().replace(true), folder.path()) {
        assert!(matches!(error, Error::Parameter { name: "path", .. }), "{error}");
    }
    assert_eq!(names(folder.path()), [PathBuf::from("filter")]);
}

#[test]
fn a_builder_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = options().start_build(folder.path().join("filter")).unwrap();
    builder.add(b"key");
    if cfg!(target_os = "linux") {
        assert!(names(folder.path()).is_empty(), "it has no name yet");
    }
    drop(builder);
    assert!(names(folder.path()).is_empty());
}

/// A page table that is read in several pieces: 32,768 entries are one (F-5).
#[test]
fn f5_tables_of_many_pages_are_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.bloom");
    for pages in [32_768, 32_769, 65_537] {
        let geometry = Geometry::line(8, 64 * pages).unwrap();
        let options = Options::new().geometry(geometry).journal_bytes(4096).replace(true);
        let filter = options.create(&path).unwrap();
        filter.add(b"sheep").unwrap();
        filter.close().unwrap();
        assert!(Reader::open(&path).unwrap().contains(b"sheep"), "{pages}");
        Filter::open(&path).unwrap().close().unwrap();
    }
}

/// Two tables that fit into one page share it, each being written without the other (F-5).
#[test]
fn f5_tables_of_few_pages_share_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.bloom");
    for (pages, tables) in [(1, 4096), (256, 4096), (257, 8192), (512, 8192), (513, 16_384)] {
        let geometry = Geometry::line(8, 64 * pages).unwrap();
        let options = Options::new().geometry(geometry).journal_bytes(0).replace(true);
        let filter = options.create(&path).unwrap();
        // Several checkpoints, so that each of the tables is written over the other's neighbour.
        for round in 0..5 {
            (0..40).for_each(|key| assert!(filter.add(format!("{round} {key}")).is_ok()));
            let before = std::fs::read(&path).unwrap();
            filter.checkpoint().unwrap();
            let after = std::fs::read(&path).unwrap();
            assert_eq!(after.len() as u64, 12_288 + tables + 4096 * pages, "{pages}");
            let half = tables as usize / 2;
            let changed = [12_288, 12_288 + half]
                .map(|table| before[table..table + half] != after[table..table + half]);
            assert_eq!(changed.into_iter().filter(|&changed| changed).count(), 1, "{pages}");
        }
        filter.close().unwrap();
        assert!(bloomfile::report::verify(&path).unwrap().is_sound(), "{pages}");
        let reader = Reader::open(&path).unwrap();
        let keys = (0..5).flat_map(|round| (0..40).map(move |key| format!("{round} {key}")));
        assert!(keys.into_iter().all(|key| reader.contains(key)), "{pages}");
    }
}

#[test]
fn a_file_for_a_thousand_keys_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().capacity(1_000).false_positive_rate(0.01);
    let length = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    let mut builder = options.start_build(folder.path().join("built")).unwrap();
    builder.extend((0..1_000).map(|key| key.to_string()));
    builder.finish().unwrap();
    assert!(length("built") <= 20_480, "{}", length("built"));
    options.create(folder.path().join("created")).unwrap().close().unwrap();
    assert!(length("created") <= 28_672, "{}", length("created"));
}
