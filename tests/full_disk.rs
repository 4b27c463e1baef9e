//! A disk that is full: errors, no signals, and nothing that was synced is lost.
//!
//! Each test mounts small file systems in a mount namespace of its own, which ends with the
//! process in it, whatever happens there. Where mounting is not allowed the tests say so and are
//! skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use bloomfile::{Error, Filter, Options, report::verify};

/// Says to a process that it is the child of a test, and where its small disk is.
const DISK: &str = "BLOOMFILE_TEST_DISK";

/// The disks: a name, and a script that mounts one of about 8 MiB on the folder `disk`.
const DISKS: [(&str, &str); 2] = [
    ("tmpfs", "mount -t tmpfs -o size=8m bloomfile-test disk"),
    (
        "ext4",
        "truncate -s 8M image
         mkfs.ext4 -q -m 0 image
         mount -o loop image disk",
    ),
];

/// Runs a script in a new folder, in a mount namespace of its own; it sees the folder `disk`.
fn in_namespace(script: &str) -> (tempfile::TempDir, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-ec", script])
        .current_dir(folder.path())
        .env(DISK, folder.path().join("disk"))
        .output()
        .unwrap_or_else(|error| panic!("cannot run unshare: {error}"));
    (folder, output)
}

/// Runs a function of this file on each kind of small disk, as a process of its own.
fn on_small_disks(role: &str) {
    for (name, mount) in DISKS {
        if !in_namespace(mount).1.status.success() {
            eprintln!("SKIPPED on {name}: this test may not mount a file system here");
            continue;
        }
        let test = std::env::current_exe().unwrap();
        let script = format!(
            "{mount}\nexec {} --exact {role} --ignored --nocapture",
            // Quoted for the shell.
            format_args!("'{}'", test.display())
        );
        let (_folder, output) = in_namespace(&script);
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        // A signal would show as a status without a code.
        assert_eq!(
            output.status.code(),
            Some(0),
            "{role} on {name}: {}\n{said}\n{complained}",
            output.status
        );
        assert!(said.contains("1 passed"), "{role} on {name} did not run: {said}");
    }
}

/// The child's disk; none when it was not started by its test.
fn disk() -> Option<PathBuf> {
    std::env::var_os(DISK).map(PathBuf::from)
}

/// Fills a disk to the last byte and returns the file that does it.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut file = File::create(&path).unwrap();
    for size in [1 << 16, 1 << 12, 1 << 9, 1] {
        let zeros = vec![7; size];
        while file.write_all(&zeros).is_ok() {}
    }
    // Only what is durable is sure to take its space.
    let _ = file.sync_all();
    let full = file.write_all(&[7; 1 << 16]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    path
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn add(filter: &Filter, numbers: std::ops::Range<u64>) {
    for number in numbers {
        filter.add(key(number)).unwrap();
    }
}

fn assert_holds(filter: &Filter, keys: u64) {
    let missing = (0..keys).filter(|&number| !filter.contains(key(number))).count();
    assert_eq!(missing, 0, "of {keys} keys");
}

#[track_caller]
fn assert_full(result: Result<(), Error>) {
    match result.map_err(Error::into_cause) {
        Err(Error::Io { error, .. }) if error.kind() == ErrorKind::StorageFull => {}
        other => panic!("{other:?}"),
    }
}

/// The names in a folder, but for what the file system puts there itself.
fn names(disk: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(disk).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "lost+found");
    names.sort();
    names
}

/// A filter of 1 MiB with a journal of 4,096 records.
fn options() -> Options {
    Options::new().capacity(600_000).false_positive_rate(0.01).journal_bytes(64 << 10)
}

#[test]
fn create_on_a_full_disk() {
    on_small_disks("creates_on_a_full_disk");
}

#[test]
#[ignore = "started by another test, on a small disk"]
fn creates_on_a_full_disk() {
    let Some(disk) = disk() else { return };
    let path = disk.join("keys.bloom");
    let large = Options::new().capacity(100_000_000).false_positive_rate(0.01);
    assert_full(large.create(&path).map(drop));
    assert_full(large.start_build(&path).map(drop));
    assert!(names(&disk).is_empty(), "{:?}", names(&disk));

    let filler = fill(&disk);
    assert_full(options().create(&path).map(drop));
    assert_full(options().start_build(&path).map(drop));
    assert_eq!(names(&disk), ["filler"]);

    std::fs::remove_file(filler).unwrap();
    options().create(&path).unwrap().close().unwrap();
    assert!(verify(&path).unwrap().is_sound());
}

#[test]
fn sync_and_checkpoint_on_a_full_disk() {
    on_small_disks("syncs_on_a_full_disk");
}

#[test]
#[ignore = "started by another test, on a small disk"]
fn syncs_on_a_full_disk() {
    let Some(disk) = disk() else { return };
    let path = disk.join("keys.bloom");
    let filter = options().create(&path).unwrap();
    add(&filter, 0..1_000);
    filter.sync_with_mark(1).unwrap();
    let filler = fill(&disk);

    // All space was allocated when the file was made: nothing here needs any more of it.
    add(&filter, 1_000..2_000);
    filter.sync_with_mark(2).unwrap();
    // More than the journal holds: every page is dirty, and the sync is a checkpoint.
    add(&filter, 2_000..300_000);
    filter.sync_with_mark(3).unwrap();
    add(&filter, 300_000..301_000);
    filter.checkpoint().unwrap();
    filter.close().unwrap();

    // Opening writes a slot; recovery writes pages and a table.
    let filter = Filter::open(&path).unwrap();
    assert_eq!(filter.mark(), 3);
    assert_holds(&filter, 301_000);
    add(&filter, 301_000..302_000);
    filter.sync_with_mark(4).unwrap();
    // Left as a killed process leaves it: neither closed nor dropped.
    let crashed = std::fs::read(&path).unwrap();
    filter.close().unwrap();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.write_all(&crashed).unwrap();
    drop(file);
    let filter = Filter::open(&path).unwrap();
    assert_eq!(filter.recovery().unwrap().records_replayed, 1_000);
    filter.close().unwrap();

    std::fs::remove_file(filler).unwrap();
    assert!(verify(&path).unwrap().is_sound());
    let filter = Filter::open(&path).unwrap();
    assert_eq!(filter.mark(), 4);
    assert_holds(&filter, 302_000);
}

#[test]
fn open_a_copy_with_holes_on_a_full_disk() {
    on_small_disks("opens_a_copy_with_holes");
}

#[test]
#[ignore = "started by another test, on a small disk"]
fn opens_a_copy_with_holes() {
    let Some(disk) = disk() else { return };
    let (path, copy) = (disk.join("keys.bloom"), disk.join("copy.bloom"));
    let filter = options().create(&path).unwrap();
    add(&filter, 0..50);
    filter.close().unwrap();
    // Pages of zeros become holes, as some programs copy files.
    let bytes = std::fs::read(&path).unwrap();
    let mut file = File::create(&copy).unwrap();
    for page in bytes.chunks(4096) {
        if page.iter().all(|&byte| byte == 0) {
            file.seek(SeekFrom::Current(page.len() as i64)).unwrap();
        } else {
            file.write_all(page).unwrap();
        }
    }
    file.set_len(bytes.len() as u64).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert!(verify(&copy).unwrap().is_sound());

    // Adding to a hole with no space for it would be a signal.
    let filler = fill(&disk);
    assert_full(Filter::open(&copy).map(drop));
    assert_eq!(std::fs::read(&copy).unwrap(), bytes, "refused, yet changed");
    std::fs::remove_file(filler).unwrap();
    let filter = Filter::open(&copy).unwrap();
    fill(&disk);
    add(&filter, 50..5_000);
    filter.close().unwrap();
    assert!(verify(&copy).unwrap().is_sound());
    assert_holds(&Filter::open(&copy).unwrap(), 5_000);
}
