//! Files that take the place of others: what is kept, what is refused, and that no writer is left
//! behind with a file that has no name (F-104).
//!
//! The long form: `BLOOMFILE_REPLACEMENTS=10000 cargo test --release --test replacing -- --nocapture`

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "digest")]
use bloomfile::ops::DeltaOperation;
use bloomfile::{
    Error, Filter, Key, Options, ReadOptions, Reader, ops::SetOperation, parts::Join,
    report::verify,
};
use common::{Folder, below};

fn options() -> Options {
    Options::new().capacity(500).false_positive_rate(1e-6).journal_bytes(4096)
}

type Way = Box<dyn Fn(&Path) -> Result<(), Error>>;

/// Every way of making a file, over one that is there, by the command that takes it: a test of the
/// command finds those that are missing.
fn ways(folder: &Folder) -> Vec<(&'static str, Way)> {
    let (one, counting) = (folder.at("input"), folder.at("counting"));
    let mut builder = options().replace(true).start_build(&one).unwrap();
    builder.add(b"input");
    builder.finish().unwrap();
    let kind = bloomfile::CellKind::Counting;
    options().replace(true).kind(kind).create(&counting).unwrap().close().unwrap();
    let operation = SetOperation::new().replace(true);
    let mut ways: Vec<(&'static str, Way)> = vec![
        ("create", Box::new(|path| options().replace(true).create(path)?.close())),
        ("build", Box::new(|path| options().replace(true).start_build(path)?.finish().map(drop))),
        (
            "merge",
            Box::new({
                let one = one.clone();
                move |path| operation.union(&[&one], path).map(drop)
            }),
        ),
        (
            "shrink",
            Box::new({
                let one = one.clone();
                move |path| operation.fold(&one, 1, path).map(drop)
            }),
        ),
        (
            "shrink to a rate",
            Box::new({
                let one = one.clone();
                move |path| operation.fold_to_rate(&one, 1e-6, path).map(drop)
            }),
        ),
        (
            "intersect",
            Box::new({
                let one = one.clone();
                move |path| operation.intersection(&[&one], path).map(drop)
            }),
        ),
        (
            "compact",
            Box::new({
                let one = one.clone();
                move |path| operation.journal_bytes(0).union(&[&one], path).map(drop)
            }),
        ),
        ("export", Box::new(move |path| operation.export(&counting, path).map(drop))),
        (
            "build --sealed",
            Box::new(|path| {
                let sealed = Options::new().sealed(true).false_positive_rate(0.01);
                let mut builder = sealed.replace(true).start_build(path)?;
                builder.add(b"input");
                builder.finish().map(drop)
            }),
        ),
    ];
    let plan = Options::new().capacity(500).false_positive_rate(1e-6).plan_parts(1).unwrap();
    let part = folder.at("part");
    plan.part(1).replace(true).start(&part).unwrap().finish().unwrap();
    let join = Join::new().replace(true);
    ways.push((
        PART,
        Box::new(move |path| plan.part(1).replace(true).start(path)?.finish().map(drop)),
    ));
    ways.push(("join", Box::new(move |path| join.run(&[&part], path).map(drop))));
    #[cfg(feature = "digest")]
    {
        let (new, delta) = (folder.at("new"), folder.at("delta"));
        let operation = DeltaOperation::new().replace(true);
        operation.clean_copy(&one, &new, 0, |_| ()).unwrap();
        operation.make(&one, &new, &delta).unwrap();
        ways.push((
            "publish",
            Box::new({
                let one = one.clone();
                move |path| operation.clean_copy(&one, path, 0, |_| ()).map(drop)
            }),
        ));
        ways.push(("apply", Box::new(move |path| operation.apply(&delta, &one, path).map(drop))));
    }
    ways
}

/// What makes a file that is no filter yet.
const PART: &str = "build --part";

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn owner_and_mode_stay() {
    let folder = Folder::new();
    let path = folder.at("filter");
    for (name, make) in ways(&folder) {
        for wanted in [0o600, 0o640, 0o664, 0o400] {
            let _ = std::fs::remove_file(&path);
            options().create(&path).unwrap().close().unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(wanted)).unwrap();
            // Only root may give files away; for others the owner stays as it is anyway.
            let given_away = std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).is_ok();
            let before = std::fs::metadata(&path).unwrap();
            make(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            let after = std::fs::metadata(&path).unwrap();
            assert_ne!(after.ino(), before.ino(), "{name}");
            assert_eq!(mode(&path), wanted, "{name}");
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()), "{name}");
            if given_away {
                assert_eq!(after.uid(), 65_534);
            }
        }
    }
}

#[test]
fn a_symbolic_link_stays_and_its_file_is_replaced() {
    let folder = Folder::new();
    std::fs::create_dir(folder.at("elsewhere")).unwrap();
    let (link, file) = (folder.at("link"), folder.at("elsewhere/file"));
    std::fs::write(&file, "old").unwrap();
    symlink("elsewhere/file", folder.at("second")).unwrap();
    symlink("second", &link).unwrap();
    for (name, make) in ways(&folder) {
        let before = std::fs::metadata(&file).unwrap().ino();
        make(&link).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink(), "{name}");
        assert!(std::fs::symlink_metadata(folder.at("second")).unwrap().is_symlink(), "{name}");
        assert_ne!(std::fs::metadata(&file).unwrap().ino(), before, "{name}");
        assert!(name == PART || verify(&file).unwrap().is_sound(), "{name}");
    }
    symlink("nowhere", folder.at("dangling")).unwrap();
    symlink("loop", folder.at("loop")).unwrap();
    for (name, make) in ways(&folder) {
        for target in ["dangling", "loop"] {
            let error = make(&folder.at(target)).unwrap_err().into_cause().to_string();
            assert!(error.contains("symbolic link"), "{name}: {error}");
        }
    }
    assert!(!folder.at("nowhere").exists());
}

/// What is no file is neither replaced nor opened: opening a pipe would wait for the other end.
#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = Folder::new();
    let pipe = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let socket = folder.at("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    // One of its own where this may make one: then a mistake here would replace it.
    let mut device = folder.at("device");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).status();
    if !made.is_ok_and(|status| status.success()) {
        device = PathBuf::from("/dev/null");
    }
    std::fs::create_dir(folder.at("folder")).unwrap();
    let odd = [
        (pipe, "a pipe"),
        (socket, "a socket"),
        (device, "a device"),
        (folder.at("folder"), "a folder"),
    ];
    for (path, kind) in &odd {
        let before = std::fs::symlink_metadata(path).unwrap();
        for (name, make) in ways(&folder) {
            let error = make(path).unwrap_err().into_cause();
            assert!(matches!(error, Error::Parameter { name: "path", .. }), "{name}: {error}");
            assert!(error.to_string().contains(kind), "{name}: {error}");
        }
        let after = std::fs::symlink_metadata(path).unwrap();
        assert_eq!((before.ino(), before.rdev()), (after.ino(), after.rdev()), "{kind}");
        let calls: Vec<(&str, Result<(), Error>)> = vec![
            ("Reader::open", Reader::open(path).map(drop)),
            ("ReadOptions", ReadOptions::new().verify(true).open(path).map(drop)),
            ("Filter::open", Filter::open(path).map(drop)),
            ("verify", verify(path).map(drop)),
            ("inspect", bloomfile::report::inspect(path).map(drop)),
            ("repair", bloomfile::ops::repair(path).map(drop)),
            ("union", SetOperation::new().union(&[path], folder.at("u")).map(drop)),
        ];
        for (name, result) in calls {
            let error = result.unwrap_err().into_cause();
            assert!(matches!(error.cause(), Error::NotABloomfile { .. }), "{name}: {error}");
            assert!(error.to_string().contains(kind), "{name}: {error}");
        }
    }
}

/// Whether a file that cannot be opened has a writer cannot be told. Root can open every file: where
/// this runs as root, it is done once more as another user.
#[test]
fn a_file_that_cannot_be_opened_is_not_replaced() {
    let folder = Folder::new();
    std::fs::set_permissions(folder.at(""), PermissionsExt::from_mode(0o777)).unwrap();
    let test = std::env::current_exe().unwrap();
    let arguments = ["--exact", "replaces_an_unreadable_file", "--ignored", "--nocapture"];
    let mut command = Command::new(&test);
    if std::fs::metadata(folder.at("")).unwrap().uid() == 0 {
        // The test program may lie in a folder of root's.
        let copy = folder.at("test");
        std::fs::copy(&test, &copy).unwrap();
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
    }
    let output = match command.args(arguments).env(FOLDER, folder.at("")).output() {
        Ok(output) => output,
        Err(error) => return eprintln!("SKIPPED: no other user: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

/// Says to a process that it is the child of a test, and in which folder it works.
const FOLDER: &str = "BLOOMFILE_TEST_FOLDER";

#[test]
#[ignore = "started by another test, as a user with few rights"]
fn replaces_an_unreadable_file() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let path = folder.join("locked");
    let filter = options().create(&path).unwrap();
    filter.add(b"key").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    let error = options().replace(true).create(&path).unwrap_err().into_cause();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let error = options().replace(true).start_build(&path).map(drop).unwrap_err().into_cause();
    assert!(error.to_string().contains("is to be replaced"), "{error}");
    filter.close().unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    assert!(Reader::open(&path).unwrap().contains(b"key"));
    // To be read is enough to be locked, and so to be replaced.
    options().replace(true).create(&path).unwrap().close().unwrap();
    assert!(!Reader::open(&path).unwrap().contains(b"key"));
}

/// The file is locked while its replacement is made, and free again once that has its name, or is
/// given up.
#[test]
fn nothing_is_added_to_a_file_that_is_being_replaced() {
    let folder = Folder::new();
    let path = folder.at("filter");
    options().create(&path).unwrap().close().unwrap();
    let builder = options().replace(true).start_build(&path).unwrap();
    assert!(matches!(Filter::open(&path).map_err(Error::into_cause), Err(Error::Locked)));
    assert!(matches!(
        options().replace(true).start_build(&path).map(drop).map_err(Error::into_cause),
        Err(Error::Locked)
    ));
    drop(builder);
    Filter::open(&path).unwrap().add(b"key").unwrap();

    let mut builder = options().replace(true).start_build(&path).unwrap();
    builder.add(b"built");
    // Another program moves the file away, and puts a filter with a writer in its place.
    std::fs::rename(&path, folder.at("moved")).unwrap();
    let writer = options().create(&path).unwrap();
    assert!(matches!(builder.finish().map_err(Error::into_cause), Err(Error::Locked)));
    writer.add(b"key").unwrap();
    writer.close().unwrap();
    assert!(Reader::open(&path).unwrap().contains(b"key"));
}

/// A union over one of its inputs holds what was added to that up to the moment it was locked.
#[test]
fn an_input_can_be_replaced_by_the_result() {
    let folder = Folder::new();
    let (path, other) = (folder.at("filter"), folder.at("other"));
    for grows in [false, true] {
        let options = || if grows { options().grow() } else { options() };
        for (path, key) in [(&path, "one"), (&other, "two")] {
            let filter = options().replace(true).create(path).unwrap();
            filter.add(key.as_bytes()).unwrap();
            filter.close().unwrap();
        }
        let operation = SetOperation::new().replace(true);
        operation.union(&[&path, &other], &path).unwrap();
        let reader = ReadOptions::new().verify(true).open(&path).unwrap();
        assert!(reader.contains(b"one") && reader.contains(b"two"));
    }
}

fn replacements() -> u64 {
    std::env::var("BLOOMFILE_REPLACEMENTS").map_or(250, |text| text.parse().unwrap())
}

/// Writers and replacers at one name.
///
/// A key is *lost* when its writer was told that it is durable and, while that writer still has its
/// file open, the file that has the name does not hold the key: the writer goes on with a file that
/// no other process can find. (A key of a writer that has closed its file may be replaced together
/// with that file: that is what replacing is.)
#[test]
fn no_writer_is_left_with_a_file_without_a_name() {
    writers_and_replacers(None);
}

/// The same of keyed files, which are folded without the secret.
#[test]
fn no_writer_is_left_with_a_keyed_file_without_a_name() {
    writers_and_replacers(Some(&Key::from_bytes(*b"a secret of many")));
}

fn writers_and_replacers(secret: Option<&Key>) {
    let folder = Folder::in_memory();
    let path = folder.at("filter");
    let with_secret = |options: Options| match secret {
        Some(secret) => options.key(secret),
        None => options,
    };
    let input = folder.at("input");
    let geometry = bloomfile::geometry::Geometry::line(8, 20).unwrap();
    let made = with_secret(Options::new().geometry(geometry)).start_build(&input).unwrap();
    made.finish().unwrap();
    let make = |way: u64| -> Result<(), Error> {
        let options = with_secret(options()).replace(true);
        match way {
            0 => options.create(&path)?.close(),
            1 => options.start_build(&path)?.finish().map(drop),
            _ => SetOperation::new().replace(true).fold(&input, 1, &path).map(drop),
        }
    };
    make(0).unwrap();
    let done = AtomicBool::new(false);
    let (rounds, replaced, refused) = (replacements(), AtomicU64::new(0), AtomicU64::new(0));
    let (mut added, mut orphans) = (0, 0);
    std::thread::scope(|scope| {
        let replacers: Vec<_> = (0..2u64)
            .map(|thread| {
                let (make, replaced, refused) = (&make, &replaced, &refused);
                scope.spawn(move || {
                    for turn in 0u64.. {
                        let made = match make(below(thread, turn, 3)).map_err(Error::into_cause) {
                            Ok(()) => replaced.fetch_add(1, Ordering::Relaxed) + 1,
                            Err(Error::Locked) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                                replaced.load(Ordering::Relaxed)
                            }
                            Err(error) => panic!("{error}"),
                        };
                        if made >= rounds {
                            break;
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                let (path, done) = (&path, &done);
                scope.spawn(move || {
                    let (mut added, mut orphans) = (0u64, 0u64);
                    for round in 0u64.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        let opened = match secret {
                            Some(secret) => Filter::open_with_key(path, secret),
                            None => Filter::open(path),
                        };
                        let filter = match opened.map_err(Error::into_cause) {
                            Ok(filter) => filter,
                            Err(Error::Locked) => continue,
                            Err(error) => panic!("{error}"),
                        };
                        let key = format!("{thread} {round}");
                        filter.add(key.as_bytes()).unwrap();
                        filter.sync().unwrap();
                        // Acknowledged: as long as this writer has the file, it has the name too.
                        let reader = match secret {
                            Some(secret) => ReadOptions::new().key(secret).open(path),
                            None => Reader::open(path),
                        };
                        let reader = reader.unwrap();
                        orphans += u64::from(!reader.contains(key.as_bytes()));
                        added += 1;
                        drop(reader);
                        filter.close().unwrap();
                        // So that others get at the file as well.
                        let pause = below(7 + thread, round, 500);
                        std::thread::sleep(Duration::from_micros(pause));
                    }
                    (added, orphans)
                })
            })
            .collect();
        for replacer in replacers {
            replacer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for writer in writers {
            let (keys, lost) = writer.join().unwrap();
            added += keys;
            orphans += lost;
        }
    });
    println!(
        "{} files replaced, {} replacements refused, {added} keys added and synced, {orphans} of \
         them lost",
        replaced.into_inner(),
        refused.into_inner()
    );
    assert_eq!(orphans, 0, "keys that were acknowledged are not in the file that has the name");
    assert!(added > 0);
    assert!(verify(&path).unwrap().is_sound());
    assert_eq!(folder.names(), ["filter", "input"]);
}
