//! Damage after a kill, disks that fail and writers that come and go: what the commands say of each.

use std::io::{Seek, SeekFrom, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sandbox::{BLOOMFILE, Ran, Sandbox, numbers};

/// Kills a writer that has added numbers to `a.bloom`, and is waiting for more.
fn kill_writer(sandbox: &Sandbox, last: u32) {
    let mut writer = sandbox.spawn("add a.bloom --sync-every 50");
    let input = writer.stdin.as_mut().unwrap();
    input.write_all(numbers(last).as_bytes()).unwrap();
    input.flush().unwrap();
    let last = last.to_string();
    while sandbox.run(&format!("check -q a.bloom {last}")).code != Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

/// An older segment of a growing file is as it was when the next one came: after a kill no command
/// takes anything else for it (F-92).
#[test]
fn f92_damage_in_an_older_segment_after_a_kill() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 100 -p 1% --grow").is(0, "", "");
    kill_writer(&sandbox, 600);
    let segments = sandbox.run("inspect --json a.bloom").out.matches("\"row_ones\"").count();
    assert!(segments > 1, "{segments} segments");
    // Segment 0 begins behind the journal: a page with its two tables, then its only page.
    let mut bytes = sandbox.read("a.bloom");
    let journal = u64::from_le_bytes(bytes[64..72].try_into().unwrap()) as usize;
    let page = 12_288 + journal + 4096;
    let byte = (page..page + 4096).find(|&at| bytes[at].count_ones() > 2).unwrap();
    bytes[byte] = !bytes[byte];
    bytes[byte + 1] = !bytes[byte + 1];
    bytes[byte + 2] |= 0xff;
    sandbox.write("a.bloom", bytes);
    let damaged = "damaged (first: page 0 of segment 0";
    for command in ["check a.bloom 1", "merge -o b.bloom a.bloom a.bloom", "add a.bloom 601"] {
        let ran = sandbox.run(command);
        assert!(ran.err.contains(damaged), "{command}: {}", ran.err);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{command}");
    }
    let ran = sandbox.run("verify a.bloom");
    assert!(ran.out.starts_with("a.bloom: damaged: 1 of "), "{}", ran.out);
    assert_eq!(ran.code, Some(1));
    let ran = sandbox.run("repair a.bloom");
    assert!(ran.out.contains("set to all ones (page 0)"), "{}{}", ran.out, ran.err);
    assert_eq!(sandbox.run("verify a.bloom").code, Some(0));
    sandbox.run_with("check --all -c a.bloom", numbers(600)).is(0, "600\n", "");
    assert_eq!(sandbox.names(), ["a.bloom"]);
}

#[test]
fn compare_verifies_and_tells_same_from_different() {
    let sandbox = Sandbox::new();
    for (name, keys) in [("a", 1000), ("same", 1000), ("other", 900)] {
        sandbox
            .run_with(&format!("build -q {name}.bloom -n 20k -p 1%"), numbers(keys))
            .is(0, "", "");
    }
    let ran = sandbox.run("compare a.bloom same.bloom");
    assert!(ran.out.contains("relation      A and B have the same bits\n"), "{}", ran.out);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(sandbox.run("compare --json a.bloom same.bloom").code, Some(0));
    assert_eq!(sandbox.run("compare a.bloom other.bloom").code, Some(1));
    assert_eq!(sandbox.run("compare --json a.bloom other.bloom").code, Some(1));
    sandbox.run_with("build -q seed.bloom -n 20k -p 1% --seed 7", numbers(9)).is(0, "", "");
    assert_eq!(sandbox.run("compare a.bloom seed.bloom").code, Some(1));
    assert_eq!(sandbox.run("compare a.bloom none.bloom").code, Some(2));
    // The page tables are the same, the data are not.
    let mut bytes = sandbox.read("same.bloom");
    let at = bytes.len() - 5 * 4096;
    bytes[at..at + 2048].fill(0);
    sandbox.write("same.bloom", bytes);
    for command in ["compare a.bloom same.bloom", "compare same.bloom seed.bloom"] {
        let ran = sandbox.run(command);
        let error = "bloomfile: same.bloom: 1 data page is damaged (first: page 2 of segment 0";
        assert!(ran.err.starts_with(error), "{command}: {}", ran.err);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{command}");
    }
}

/// Runs a command whose reads fail from the one with this number on; `None` where that cannot be
/// done.
fn run_failing(sandbox: &Sandbox, arguments: &str, from: u32) -> Option<Ran> {
    let output = Command::new("strace")
        .args(["-qq", "-f", "-o", "/dev/null", "-e", "trace=pread64", "-e"])
        .arg(format!("inject=pread64:error=EIO:when={from}+"))
        .arg(BLOOMFILE)
        .args(arguments.split(' '))
        .current_dir(sandbox.folder())
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    let ran = Ran::from(output);
    let missing = ran.err.contains("strace:") || ran.err.contains("ptrace");
    (!missing).then_some(ran)
}

/// A page that the disk cannot read is an error that names file and page, and never a signal.
#[test]
fn a_disk_that_fails_is_an_error_that_names_the_page() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q clean.bloom -n 400k -p 1%", numbers(1000)).is(0, "", "");
    sandbox.run("create -q a.bloom -n 400k -p 1%").is(0, "", "");
    kill_writer(&sandbox, 500);
    let crashed = sandbox.read("a.bloom");
    for command in [
        "verify clean.bloom",
        "verify a.bloom",
        "compare clean.bloom clean.bloom",
        "merge -q -f -o b.bloom clean.bloom clean.bloom",
        "merge -q -f -o b.bloom a.bloom a.bloom",
        "check a.bloom 1",
        "repair clean.bloom",
        "repair a.bloom",
        "add clean.bloom 1",
        "add a.bloom 1",
    ] {
        let (mut named, mut failed) = (0, 0);
        for from in 1.. {
            let Some(ran) = run_failing(&sandbox, command, from) else {
                println!("skipped: strace cannot inject failures here");
                return;
            };
            // The first reads are those of the system, which starts the program.
            if ran.err.contains("shared libraries") {
                continue;
            }
            let what = format!("{command}, read {from}: {ran:?}");
            if ran.code == Some(0) {
                break;
            }
            assert_eq!(ran.code, Some(2), "{what}");
            assert!(ran.err.contains("Input/output error"), "{what}");
            let file = if command.contains("a.bloom") { "a.bloom" } else { "clean.bloom" };
            let of = |file: &str| ran.err.starts_with(&format!("bloomfile: {file}: "));
            assert!(of(file) || of("b.bloom"), "{what}");
            failed += 1;
            named += u32::from(ran.err.contains("cannot read data page "));
            assert!(from < 500, "{what}");
            sandbox.write("a.bloom", &crashed);
        }
        assert!(named >= 2 && failed > named, "{command}: {named} of {failed} name a page");
        sandbox.write("a.bloom", &crashed);
    }
}

/// A writer that opens and closes a file while others verify it is no damage.
#[test]
fn a_writer_that_comes_and_goes_is_no_damage() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom -n 20k -p 1% --journal 8KiB", numbers(1000)).is(0, "", "");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1000;
            // The other thread may have panicked.
            while !done.load(Ordering::Relaxed) && number < 20_000 {
                number += 1;
                // Refused while a reader looks whether there is a writer.
                let ran = sandbox.run(&format!("add -q a.bloom {number}"));
                assert!(!ran.err.contains("damaged"), "{ran:?}");
            }
        });
        for turn in 0..150 {
            let ran = sandbox.run("verify a.bloom");
            assert!(ran.out.starts_with("a.bloom: sound: 7 pages"), "{turn}: {ran:?}");
            let ran = sandbox.run("check a.bloom 1 1000 no");
            assert_eq!((ran.code, ran.out.as_str()), (Some(0), "1\n1000\n"), "{turn}: {ran:?}");
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// What can be verified of a file that is being written is: its journal explains the rest.
#[test]
fn check_verifies_a_live_file() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom -n 20k -p 1% --journal 8KiB", numbers(1000)).is(0, "", "");
    let (mut writer, mut lines) = crate::processes::start_writer(&sandbox);
    crate::processes::add(&mut writer, &mut lines, "sheep");
    sandbox.run("check a.bloom sheep 1").is(0, "sheep\n1\n", "");
    // Four sectors of a page, in place: the writer has it mapped.
    let length = sandbox.read("a.bloom").len() as u64;
    let file = std::fs::OpenOptions::new().write(true).open(sandbox.folder().join("a.bloom"));
    let mut file = file.unwrap();
    file.seek(SeekFrom::Start(length - 4096)).unwrap();
    file.write_all(&[0; 2048]).unwrap();
    let ran = sandbox.run("check a.bloom sheep 1");
    let error = "bloomfile: a.bloom: 1 data page is damaged (first: page 6 of segment 0: bits were";
    assert!(ran.err.starts_with(error), "{ran:?}");
    assert_eq!(ran.code, Some(2));
    assert_eq!(sandbox.run("verify a.bloom").code, Some(1));
    writer.kill().unwrap();
    writer.wait().unwrap();
}
