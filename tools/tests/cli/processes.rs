//! Several processes at one file, and pipes between them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bloomfile::Filter;

use crate::sandbox::{NO_INPUT, Sandbox, numbers};

/// Names the file to a test process that acts as the writer.
const WRITER_FILE: &str = "BLOOMFILE_TEST_WRITER_FILE";

/// Waits until a command that was started has begun to write the filter: its first key marks the file
/// as open.
pub(crate) fn wait_for_writer(sandbox: &Sandbox) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !sandbox.run("inspect --json a.bloom").out.contains("\"health\": \"live\"") {
        assert!(Instant::now() < deadline, "the writer did not come up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a command ended, which it must have done by then; its input stays open.
#[cfg(unix)]
#[track_caller]
pub(crate) fn end_by(child: &mut Child, deadline: Instant) -> std::process::ExitStatus {
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the command did not end");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_second_writer_is_told_at_once() {
    let sandbox = Sandbox::with_filter();
    let mut first = sandbox.spawn("add a.bloom");
    first.stdin.as_mut().unwrap().write_all(b"sheep\n").unwrap();
    wait_for_writer(&sandbox);
    let error = "bloomfile: a.bloom: is being written by another process; wait for it to finish, \
                 or open it for reading\n";
    sandbox.run("add a.bloom wolf").is(2, "", error);
    sandbox.run("create a.bloom -n 9 -p 1% --force").is(2, "", error);
    sandbox.run_with("build a.bloom --force", "wolf\n").is(2, "", error);
    sandbox.run("verify a.bloom").is(
        0,
        "a.bloom: sound: 1 page, 0 adds in the journal; being written by another process right \
         now\n",
        "",
    );

    drop(first.stdin.take());
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"a.bloom: 1 key read: all new\n");
    sandbox.run("check a.bloom sheep wolf").is(0, "sheep\n", "");
    sandbox.run("add -q a.bloom wolf").is(0, "", "");
    assert_eq!(sandbox.names(), ["a.bloom"]);
}

#[test]
fn a_killed_writer_is_recovered() {
    let sandbox = Sandbox::with_filter();
    let (mut writer, mut lines) = start_writer(&sandbox);
    for key in ["sheep", "cow"] {
        add(&mut writer, &mut lines, key);
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    let inspection = sandbox.run("inspect a.bloom").out;
    assert!(
        inspection.contains(&format!("  recover it: bloomfile add a.bloom < {NO_INPUT}\n")),
        "{inspection}"
    );
    // Readers need not wait for that.
    sandbox.run("check --all a.bloom sheep cow 1").is(0, "sheep\ncow\n1\n", "");
    sandbox.run("verify a.bloom").is(
        0,
        "a.bloom: sound: 1 page, 2 adds in the journal; nothing synced is lost; left \
         open by a writer that crashed; opening it for writing recovers it\n",
        "",
    );
    sandbox.run("add a.bloom").is(
        0,
        "a.bloom: 0 keys read\n",
        "bloomfile: a.bloom: recovered after a crash: 2 adds replayed, 0 pages not \
         verifiable\n",
    );
    sandbox.run("verify a.bloom").is(0, "a.bloom: sound: 1 page as written\n", "");
    sandbox.run("check --all a.bloom sheep cow 1").is(0, "sheep\ncow\n1\n", "");
}

#[test]
fn readers_see_keys_as_soon_as_add_returns() {
    let sandbox = Sandbox::with_filter();
    let (mut writer, mut writer_lines) = start_writer(&sandbox);
    add(&mut writer, &mut writer_lines, "sentinel");

    // One reader was there before the keys, another comes after each.
    let mut early = sandbox.spawn("check a.bloom");
    let mut early_lines = BufReader::new(early.stdout.take().unwrap()).lines();
    for number in 0..200 {
        let key = format!("key {number}");
        add(&mut writer, &mut writer_lines, &key);
        // Whether the key is there or not, the sentinel is an answer.
        let stdin = early.stdin.as_mut().unwrap();
        stdin.write_all(format!("{key}\nsentinel\n").as_bytes()).unwrap();
        assert_eq!(early_lines.next().unwrap().unwrap(), key);
        assert_eq!(early_lines.next().unwrap().unwrap(), "sentinel");
        if number % 20 == 0 {
            sandbox.run_with("check a.bloom", &key).is(0, &format!("{key}\n"), "");
        }
    }
    drop(early.stdin.take());
    assert!(early.wait().unwrap().success());
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    sandbox.run("verify a.bloom").is(0, "a.bloom: sound: 1 page as written\n", "");
}

/// Starts a process that adds each line of its input and answers when `add` has returned.
pub(crate) fn start_writer(sandbox: &Sandbox) -> (Child, impl Iterator<Item = String>) {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::act_as_writer", "--nocapture", "--ignored"])
        .env(WRITER_FILE, sandbox.path("a.bloom"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The test harness has lines of its own.
    (writer, lines.filter(|line| line.starts_with("added ")))
}

pub(crate) fn add(writer: &mut Child, lines: &mut impl Iterator<Item = String>, key: &str) {
    writer.stdin.as_mut().unwrap().write_all(format!("{key}\n").as_bytes()).unwrap();
    assert_eq!(lines.next().unwrap(), format!("added {key}"));
}

#[test]
#[ignore = "started by other tests, as a process of its own"]
fn act_as_writer() {
    let Some(path) = std::env::var_os(WRITER_FILE) else { return };
    let filter = Filter::open(path).unwrap();
    for key in std::io::stdin().lines() {
        let key = key.unwrap();
        filter.add(key.as_bytes()).unwrap();
        let mut out = std::io::stdout().lock();
        // Begins with a newline: the harness may be in the middle of a line.
        writeln!(out, "\nadded {key}").and_then(|()| out.flush()).unwrap();
    }
    filter.close().unwrap();
}

#[test]
fn a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::with_filter();
    sandbox.write("keys.txt", numbers(1000).repeat(500));
    let mut check = sandbox.spawn("check a.bloom --from keys.txt");
    let mut first = String::new();
    BufReader::new(check.stdout.take().unwrap()).read_line(&mut first).unwrap();
    // The pipe is closed here, long before its end.
    let output = check.wait_with_output().unwrap();
    assert_eq!(first, "1\n");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));

    for command in ["inspect a.bloom", "inspect --json a.bloom", "verify a.bloom", "add a.bloom x"]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = sandbox.command(command).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    }
    sandbox.run("check a.bloom x").is(0, "x\n", "");
}

#[test]
fn check_answers_while_its_input_is_open() {
    let sandbox = Sandbox::with_filter();
    let mut check = sandbox.spawn("check a.bloom");
    let mut lines = BufReader::new(check.stdout.take().unwrap()).lines();
    for key in ["1", "1000"] {
        check.stdin.as_mut().unwrap().write_all(format!("sheep\n{key}\n").as_bytes()).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), key);
    }
    drop(check.stdin.take());
    assert!(check.wait().unwrap().success());
}

/// Waits until a command has begun to make a file: it has none of that name yet, but holds one open.
#[cfg(unix)]
pub(crate) fn wait_for_pending_file(sandbox: &Sandbox, command: &Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let files = format!("/proc/{}/fd", command.id());
    let folder = sandbox.folder().canonicalize().unwrap();
    let begun = || {
        let open = std::fs::read_dir(&files).into_iter().flatten().flatten();
        let mut open = open.filter_map(|file| std::fs::read_link(file.path()).ok());
        !sandbox.names().is_empty() || open.any(|file| file.starts_with(&folder))
    };
    while !begun() {
        assert!(Instant::now() < deadline, "the command did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_build_leaves_nothing_behind() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let sandbox = Sandbox::new();
        let mut build = sandbox.spawn("build a.bloom -n 1M");
        // Stays open: the build waits for keys, and cannot end of itself.
        let _keys = build.stdin.take();
        wait_for_pending_file(&sandbox, &build);
        let id = build.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let output = build.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]));
        assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
    }
}
