//! Commands that replace files and commands that write them, at the same time; and commands that are
//! killed while they make a file.
//!
//! The long forms are set by `BLOOMFILE_REPLACEMENTS` and `BLOOMFILE_KILLS`.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloomfile::{Key, ReadOptions, report::verify};

use crate::sandbox::{Sandbox, numbers};

fn rounds(variable: &str, short: u64) -> u64 {
    std::env::var(variable).map_or(short, |text| text.parse().unwrap())
}

/// What replaces `a.bloom`, and what it reads.
const REPLACING: [(&str, &str); 3] = [
    ("create -q -f a.bloom -n 500 -p 1e-6 --key-file key", ""),
    ("build -q -f a.bloom -n 500 -p 1e-6 --key-file key", "built\n"),
    ("merge -q -f -o a.bloom b.bloom b.bloom", ""),
];

/// Of keyed files, which are merged without the secret. A key is lost when `add`, which still runs, has made it durable and the file that has the name
/// does not hold it (F-104).
#[test]
fn add_is_never_left_with_a_file_without_a_name() {
    let sandbox = Sandbox::in_memory();
    assert_eq!(sandbox.run("keygen key").code, Some(0));
    let secret = Key::from_file(sandbox.path("key")).unwrap();
    sandbox.run_with("build -q b.bloom -n 500 -p 1e-6 --key-file key", "b\n").is(0, "", "");
    sandbox.run("create -q a.bloom -n 500 -p 1e-6 --key-file key").is(0, "", "");
    let rounds = rounds("BLOOMFILE_REPLACEMENTS", 40);
    let (done, replaced) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut added, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        for first in 0..2 {
            let (sandbox, done, replaced) = (&sandbox, &done, &replaced);
            scope.spawn(move || {
                for (command, input) in REPLACING.iter().cycle().skip(first) {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let ran = sandbox.run_with(command, input);
                    match ran.code {
                        Some(0) => drop(replaced.fetch_add(1, Ordering::Relaxed)),
                        _ => assert!(ran.err.contains("is being written"), "{ran:?}"),
                    }
                }
            });
        }
        for round in 0u64.. {
            if replaced.load(Ordering::Relaxed) >= rounds {
                break;
            }
            let key = format!("key {round}");
            let mut add = sandbox.spawn("add a.bloom --sync-every 1 --key-file key");
            add.stdin.as_mut().unwrap().write_all(format!("{key}\n").as_bytes()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            let seen = loop {
                if add.try_wait().unwrap().is_some() {
                    break false;
                }
                let reader = ReadOptions::new().key(&secret).open(sandbox.path("a.bloom")).unwrap();
                if reader.contains(key.as_bytes()) {
                    break true;
                }
                if Instant::now() >= deadline {
                    done.store(true, Ordering::Relaxed);
                    panic!("{key} was added to a file that no longer has its name");
                }
            };
            let output = add.wait_with_output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            if seen {
                assert_eq!(output.status.code(), Some(0), "{error}");
                added += 1;
            } else {
                assert!(error.contains("is being written"), "{error}");
                refused += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    println!(
        "{} replacements, {added} keys added, {refused} adds refused, none lost",
        replaced.into_inner()
    );
    assert!(added > 0);
    assert!(verify(sandbox.path("a.bloom")).unwrap().is_sound());
    assert_eq!(sandbox.names(), ["a.bloom", "b.bloom", "key"]);
}

/// Killed at any moment, a command that makes a file leaves either that file or nothing.
#[test]
fn a_kill_leaves_no_temporary_file() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", numbers(20_000));
    sandbox.run("build -q b.bloom keys.txt").is(0, "", "");
    let commands = [
        "build -q -f a.bloom keys.txt",
        "build -q -f a.bloom keys.txt -n 3M",
        "create -q -f a.bloom -n 3M -p 1%",
        "merge -q -f -o a.bloom b.bloom b.bloom",
    ];
    let mut longest = [Duration::ZERO; 4];
    for (command, longest) in commands.iter().zip(&mut longest) {
        let start = Instant::now();
        sandbox.run(command).is(0, "", "");
        *longest = start.elapsed();
        std::fs::remove_file(sandbox.path("a.bloom")).unwrap();
    }
    let kills = rounds("BLOOMFILE_KILLS", 140);
    let (mut killed, mut left) = (0, 0);
    for round in 0..kills {
        let at = round as usize % commands.len();
        // Half of them have a file to replace.
        if round % 8 < 4 {
            let _ = std::fs::remove_file(sandbox.path("a.bloom"));
        }
        let mut child = sandbox.spawn(commands[at]);
        std::thread::sleep(longest[at] * (round as u32 * 37 % 100) / 100);
        let _ = child.kill();
        killed += u64::from(child.wait().unwrap().code().is_none());
        let names = sandbox.names();
        let litter = names.iter().filter(|name| name.ends_with(".tmp"));
        for name in litter {
            left += 1;
            std::fs::remove_file(sandbox.path(name)).unwrap();
        }
        if sandbox.path("a.bloom").exists() {
            assert!(verify(sandbox.path("a.bloom")).unwrap().is_sound());
        }
    }
    println!("{killed} of {kills} commands were killed before their end; they left {left} files");
    assert!(killed > kills / 4, "{killed} of {kills}");
    // To replace a file takes a second name for as long as a rename does.
    assert!(left * 50 <= killed, "{left} temporary files were left by {killed} kills");
}

/// `--force` keeps the mode, follows links, and replaces nothing but files.
#[test]
fn force_replaces_files_and_keeps_their_mode() {
    let sandbox = Sandbox::with_filter();
    let path = sandbox.path("a.bloom");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    sandbox.run("create -q -f a.bloom -n 9 -p 1%").is(0, "", "");
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    symlink("a.bloom", sandbox.path("link")).unwrap();
    sandbox.run_with("build -q -f link", "sheep\n").is(0, "", "");
    assert!(std::fs::symlink_metadata(sandbox.path("link")).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    sandbox.run("check a.bloom sheep").is(0, "sheep\n", "");

    symlink("nowhere", sandbox.path("dangling")).unwrap();
    sandbox.run("create -f dangling -n 9 -p 1%").is(
        2,
        "",
        "bloomfile: dangling: path cannot be dangling: it is a symbolic link that leads nowhere\n",
    );
    let made = Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap();
    assert!(made.success());
    sandbox.run("create -f pipe -n 9 -p 1%").is(
        2,
        "",
        "bloomfile: pipe: path cannot be pipe: it is a pipe, and only files are replaced\n",
    );
}

/// A pipe in the place of a filter is refused; opening it would wait for its other end.
#[test]
fn a_pipe_is_no_filter() {
    let sandbox = Sandbox::with_filter();
    let made = Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap();
    assert!(made.success());
    let error = "bloomfile: pipe: is not a bloomfile: it is a pipe; check the path\n";
    for command in [
        "check pipe key",
        "add pipe key",
        "verify pipe",
        "inspect pipe",
        "repair pipe",
        "merge -o new.bloom a.bloom pipe",
        "compare a.bloom pipe",
    ] {
        sandbox.run(command).is(2, "", error);
    }
    assert_eq!(sandbox.names(), ["a.bloom", "pipe"]);
}
