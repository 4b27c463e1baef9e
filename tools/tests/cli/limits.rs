//! What the system takes away: files cut short under a map, space, threads, memory, terminals. Each
//! is a message and an exit status, never a signal, and leaves nothing behind.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::processes::{end_by, wait_for_writer};
use crate::sandbox::{BLOOMFILE, Ran, Sandbox, numbers};

fn cut(sandbox: &Sandbox, name: &str) {
    OpenOptions::new().write(true).open(sandbox.path(name)).unwrap().set_len(4096).unwrap();
}

/// Feeds a key to a command that answers it, so that it has opened its file.
fn ask(child: &mut Child, key: &str) -> String {
    writeln!(child.stdin.as_mut().unwrap(), "{key}").unwrap();
    let mut answer = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    answer
}

/// `cp new live`, which cuts the old file short first, under those that have it mapped.
#[test]
fn a_file_cut_short_under_its_readers_is_an_error() {
    for command in [
        "check a.bloom",
        "check --no-verify a.bloom",
        "which - a.bloom",
        "check --except a.bloom b.bloom",
    ] {
        let sandbox = Sandbox::with_filter();
        sandbox.run_with("build -q b.bloom", numbers(2000)).is(0, "", "");
        let mut child = sandbox.spawn(command);
        let present = if command.contains("except") { "1500" } else { "1" };
        assert!(ask(&mut child, present).starts_with(present));
        cut(&sandbox, "a.bloom");
        // It may have ended before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(numbers(1000).as_bytes());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(2), "{command}: {ran:?}");
        assert!(ran.err.starts_with("bloomfile: "), "{ran:?}");
        assert!(ran.err.contains("a.bloom: cannot be read where it is mapped: "), "{ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
}

#[test]
fn a_file_cut_short_under_its_writer_is_an_error() {
    let sandbox = Sandbox::with_filter();
    let mut child = sandbox.spawn("add a.bloom");
    child.stdin.as_mut().unwrap().write_all(b"sheep\n").unwrap();
    wait_for_writer(&sandbox);
    cut(&sandbox, "a.bloom");
    let _ = child.stdin.take().unwrap().write_all(numbers(10_000).as_bytes());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("a.bloom: "), "{ran:?}");
}

#[test]
fn in_memory_nothing_matters_that_happens_to_the_file() {
    for command in ["check --memory a.bloom", "which --memory - a.bloom"] {
        let sandbox = Sandbox::with_filter();
        let mut child = sandbox.spawn(command);
        assert!(ask(&mut child, "1").starts_with('1'));
        cut(&sandbox, "a.bloom");
        child.stdin.take().unwrap().write_all(numbers(1000).as_bytes()).unwrap();
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        assert_eq!(ran.out.lines().count(), 1000);
    }
}

/// Runs a line of a shell under limits.
fn limited(sandbox: &Sandbox, limits: &str, line: &str) -> Ran {
    let script = format!("{limits} || exit 99; exec \"$0\" {line}");
    let mut command = Command::new("bash");
    command.args(["-c", &script, BLOOMFILE]).current_dir(sandbox.folder());
    let output = command.stdin(Stdio::null()).env_remove("RUST_BACKTRACE").output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into(),
        err: String::from_utf8_lossy(&output.stderr).into(),
    }
}

/// Every command, with what it makes.
pub(crate) const COMMANDS: [&str; 37] = [
    "plan -n 1M -p 1%",
    "create n.bloom -n 1M -p 1%",
    "create n.bloom -n 1M -p 1% --grow",
    "build n.bloom keys",
    "build n.bloom keys -n 100k -p 1%",
    "add a.bloom --from keys",
    "add a.bloom --from keys --resume",
    "remove c.bloom --from few",
    "remove c.bloom --from few --resume",
    "rotate r.bloom",
    "check a.bloom --from keys -c",
    "check --memory a.bloom --from keys -c",
    "which a.bloom -k 1",
    "inspect a.bloom --html page",
    "inspect a.bloom --bytes",
    "verify a.bloom c.bloom r.bloom",
    "compare a.bloom a.bloom",
    "merge -o n.bloom a.bloom a.bloom",
    "export -o n.bloom c.bloom",
    "bench -n 1000 a.bloom",
    "build --sealed n.bloom keys",
    "build --part 1/2 -n 400k -p 1% n.part keys",
    "join -o n.bloom one.part two.part",
    "intersect -o n.bloom a.bloom a.bloom",
    "shrink -o n.bloom s.bloom --factor 2",
    "compact -o n.bloom a.bloom",
    "delta v.bloom new.bloom -o n.delta",
    "apply v.delta v.bloom -o n.bloom",
    "apply --in-place v.delta v.bloom",
    "publish new.bloom site",
    "pull source v.bloom",
    "pull source n.bloom",
    "repair damaged.bloom",
    "keygen n.key",
    "man --out pages -f",
    "man",
    "completions bash",
];

/// What commands change that the others of a test are to find as it was.
const CHANGED: [&str; 2] = ["v.bloom", "damaged.bloom"];

/// Where those are kept.
const KEPT: &str = "kept";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_filter();
    // With a journal that all of this fits in, so that what is left can be verified.
    let line = "build -q --force a.bloom -n 1000 -p 1% --journal 1M";
    sandbox.run_with(line, numbers(1000)).is(0, "", "");
    sandbox.write("few", numbers(1000));
    sandbox.write("keys", numbers(400_000));
    sandbox.run("create -q c.bloom -n 1000 -p 1% --kind counting").is(0, "", "");
    sandbox.run("add -q c.bloom --from few").is(0, "", "");
    sandbox.run("create -q r.bloom -n 1000 -p 1% --generations 3").is(0, "", "");
    sandbox.run("create -q s.bloom --rows 4 --row-bits 8192 --layout rows").is(0, "", "");
    for (name, part) in [("one", "1/2"), ("two", "2/2")] {
        let line = format!("build -q --part {part} -n 1000 -p 1% {name}.part few");
        sandbox.run(&line).is(0, "", "");
    }
    // A publication of three versions, with the first of them pulled, and what leads to the last.
    sandbox.run("create -q new.bloom -n 100k -p 1%").is(0, "", "");
    sandbox.run("publish -q new.bloom source").is(0, "", "");
    sandbox.run("publish -q new.bloom site").is(0, "", "");
    sandbox.run("pull -q source v.bloom").is(0, "", "");
    for key in ["sheep", "cow"] {
        sandbox.run(&format!("add -q new.bloom {key}")).is(0, "", "");
        sandbox.run("publish -q new.bloom source").is(0, "", "");
    }
    sandbox.run("delta -q v.bloom new.bloom -o v.delta").is(0, "", "");
    let mut damaged = sandbox.read("new.bloom");
    *damaged.last_mut().unwrap() ^= 1;
    sandbox.write("damaged.bloom", damaged);
    std::fs::create_dir(sandbox.path("pages")).unwrap();
    std::fs::create_dir(sandbox.path(KEPT)).unwrap();
    for name in CHANGED {
        std::fs::copy(sandbox.path(name), sandbox.path(KEPT).join(name)).unwrap();
    }
    sandbox
}

/// The names in a sandbox without what a pull goes on from.
fn names(sandbox: &Sandbox) -> Vec<String> {
    let mut names = sandbox.names();
    names.retain(|name| !(name.starts_with('.') && name.ends_with(".part")));
    names
}

/// Asserts that a run under limits did all or nothing, said so, and left nothing behind.
#[track_caller]
fn ended_well(sandbox: &Sandbox, names: &[String], limits: &str, line: &str, ran: &Ran) {
    let what = format!("{limits}; {line}: {ran:?}");
    assert!(matches!(ran.code, Some(0..=2)), "{what}");
    assert!(!ran.err.contains("panicked"), "{what}");
    if ran.code == Some(2) {
        assert!(!ran.err.is_empty(), "{what}");
        assert_eq!(self::names(sandbox), names, "{what}");
    }
    for file in ["a.bloom", "c.bloom", "r.bloom"] {
        let verified = sandbox.run(&format!("verify {file}"));
        assert_eq!(verified.code, Some(0), "{what}: then {verified:?}");
    }
    sandbox.run_with("check -c a.bloom", numbers(1000)).is(0, "1000\n", "");
    for made in ["n.bloom", "n.part", "n.delta", "n.key", "page"] {
        let _ = std::fs::remove_file(sandbox.path(made));
    }
    // Written over, so that they stay those of the user that a test runs commands as.
    for name in CHANGED {
        std::fs::copy(sandbox.path(KEPT).join(name), sandbox.path(name)).unwrap();
    }
}

/// A limit on the size of files is an error that names it, not SIGXFSZ.
#[test]
fn a_limit_on_the_size_of_files() {
    let sandbox = sandbox();
    let names = names(&sandbox);
    let mut failed = 0;
    for blocks in [0, 1, 16, 1100] {
        for line in COMMANDS {
            let limits = format!("ulimit -f {blocks}");
            let ran = limited(&sandbox, &limits, line);
            ended_well(&sandbox, &names, &limits, line, &ran);
            if ran.code == Some(2) {
                assert!(
                    ran.err.contains("File too large (os error 27)"),
                    "{limits}; {line}: {ran:?}"
                );
                failed += 1;
            }
        }
    }
    assert!(failed > 20, "{failed} failed: the limits did not bite");
}

/// Little memory is an error, never a signal.
#[test]
fn a_limit_on_memory() {
    let sandbox = sandbox();
    let names = names(&sandbox);
    let mut failed = 0;
    // With less than the first the program cannot even be loaded.
    let loads = |kilobytes: &u64| {
        let limit = format!("ulimit -v {kilobytes}");
        limited(&sandbox, &limit, "--version").code == Some(0)
    };
    let least = (5_000..).step_by(500).find(loads).unwrap();
    for kilobytes in [0, 3_000, 7_000, 15_000, 31_000, 71_000].map(|more| least + more) {
        for line in COMMANDS {
            let limits = format!("ulimit -v {kilobytes}");
            let ran = limited(&sandbox, &limits, line);
            ended_well(&sandbox, &names, &limits, line, &ran);
            failed += u32::from(ran.code == Some(2));
        }
    }
    println!("{failed} of {} failed", 6 * COMMANDS.len());
    assert!(failed > 10, "{failed} failed: the limits did not bite");
}

/// What a writer keeps of each page of a large file: where there is no memory for it, that is an error
/// that says how much was wanted.
#[test]
fn a_limit_on_memory_for_the_pages_of_a_large_file() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 80M -p 1% --journal 8k").is(0, "", "");
    let file = std::fs::metadata(sandbox.path("a.bloom")).unwrap().len() / 1024;
    let pages = file / 4 - 100;
    let mut told = 0;
    // From where the file cannot even be mapped to where all of it goes well.
    for more in (5_000..).step_by(150) {
        let limits = format!("ulimit -v {}", file + more);
        let ran = limited(&sandbox, &limits, "repair a.bloom");
        assert!(matches!(ran.code, Some(0 | 2)), "{limits}: {ran:?}");
        if let Some((_, rest)) = ran.err.split_once("memory allocation of ") {
            let bytes: u64 = rest.split(' ').next().unwrap().parse().unwrap();
            assert!(bytes < 8 * pages, "{limits}: {ran:?}");
        }
        told += u32::from(ran.err.contains("bytes of memory to be had; "));
        if ran.code == Some(0) {
            break;
        }
    }
    assert!(told > 0, "no limit bit there");
    sandbox.run("verify -q a.bloom").is(0, "", "");
}

/// Where no more threads can be had, the work is done by fewer, or refused.
#[test]
fn a_limit_on_threads() {
    let sandbox = sandbox();
    let user = "nobody";
    let allowed = Command::new("setpriv")
        .args(["--reuid", user, "--clear-groups", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("skipped: limits on threads bind only other users, and this one may not change");
        return;
    }
    let status =
        Command::new("chown").args(["-R", user, "."]).current_dir(sandbox.folder()).status();
    assert!(status.unwrap().success());
    // Where the program cannot be reached by others, a copy can.
    std::fs::copy(BLOOMFILE, sandbox.path("program")).unwrap();
    let names = names(&sandbox);
    for line in COMMANDS {
        for threads in [1, 2] {
            let script = format!("ulimit -u {threads} || exit 99; exec ./program {line}");
            let output = Command::new("setpriv")
                .args(["--reuid", user, "--clear-groups", "bash", "-c", &script])
                .current_dir(sandbox.folder())
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let ran = Ran::from(output);
            ended_well(&sandbox, &names, &format!("{threads} threads"), line, &ran);
        }
    }
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

/// The end of a terminal is as Ctrl-C, unless nohup asks for it to be ignored.
#[test]
fn the_end_of_a_terminal() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 1000 -p 1e-6").is(0, "", "");
    let mut child = sandbox.spawn("add a.bloom");
    child.stdin.as_mut().unwrap().write_all(b"cow\n").unwrap();
    wait_for_writer(&sandbox);
    while sandbox.run("check -q a.bloom cow").code != Some(0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "-HUP");
    let input = child.stdin.take();
    let ran = Ran::from(child.wait_with_output().unwrap());
    drop(input);
    ran.is(
        129,
        "",
        "bloomfile: a.bloom: interrupted: 1 key read: all new; what was added is safe; the same \
         command goes on from the start\n",
    );
    sandbox.run("verify a.bloom").is(0, "a.bloom: sound: 1 page as written\n", "");

    let mut child = Command::new("nohup")
        .args([BLOOMFILE, "add", "a.bloom"])
        .current_dir(sandbox.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(b"sheep\n").unwrap();
    wait_for_writer(&sandbox);
    signal(&child, "-HUP");
    drop(child.stdin.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "a.bloom: 1 key read: all new\n"));
}

/// A file that is half made goes away with the process that makes it.
#[test]
fn signals_leave_nothing_of_new_files() {
    for (name, status) in [("-HUP", 129), ("-INT", 130), ("-TERM", 143)] {
        for line in ["build n.bloom -n 1M -p 1%", "create n.bloom -n 400M -p 1e-9"] {
            let sandbox = Sandbox::new();
            let mut child = sandbox.spawn(line);
            // Once the signals are watched for; create may have done its work by then.
            let watched = |child: &Child| {
                let path = format!("/proc/{}/status", child.id());
                let status = std::fs::read_to_string(path).unwrap_or_default();
                let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
                let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
                mask.is_none_or(|mask| mask >> 14 & 1 == 1)
            };
            let deadline = Instant::now() + Duration::from_secs(60);
            while !watched(&child) && child.try_wait().unwrap().is_none() {
                assert!(Instant::now() < deadline, "{line} does not watch for signals");
                std::thread::sleep(Duration::from_micros(200));
            }
            if child.try_wait().unwrap().is_none() {
                signal(&child, name);
            }
            let code = end_by(&mut child, deadline).code();
            let made = sandbox.names();
            if code == Some(0) {
                assert!(line.starts_with("create"), "{line}");
                assert_eq!(made, ["n.bloom"], "{line}");
            } else {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                assert_eq!((code, said.as_str()), (Some(status), ""), "{line}");
                // What has its name was finished before: it stays, whole.
                let whole = line.starts_with("create") && made == ["n.bloom"];
                assert!(made.is_empty() || whole, "{line}: {made:?}");
                assert!(!whole || sandbox.run("verify n.bloom").code == Some(0));
            }
        }
    }
}
