//! `add` in batches, with marks, interrupted and resumed: real processes and real signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::processes::{end_by, wait_for_writer};
use crate::sandbox::{BLOOMFILE, Ran, Sandbox, numbers};

const CREATE: &str = "create -q a.bloom -n 1000 -p 1e-6";

/// Waits until a running `add` has added a key.
fn wait_for_key(sandbox: &Sandbox, key: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while sandbox.run(&format!("check -q a.bloom {key}")).code != Some(0) {
        assert!(Instant::now() < deadline, "{key} was not added");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

/// Feeds keys to a running `add` and waits until the last has been added.
fn feed(sandbox: &Sandbox, child: &mut Child, keys: &str) {
    child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    wait_for_key(sandbox, keys.lines().last().unwrap());
}

/// Waits for the end, with the input still open: it is the signal that ends the command.
fn end(mut child: Child) -> Ran {
    let _input = child.stdin.take();
    child.wait_with_output().unwrap().into()
}

fn mark(sandbox: &Sandbox) -> u64 {
    let json = sandbox.run("inspect --json a.bloom").out;
    serde_json::from_str::<serde_json::Value>(&json).unwrap()["mark"].as_u64().unwrap()
}

#[test]
fn interrupted_while_waiting_for_input() {
    for (name, status) in [("-INT", 130), ("-TERM", 143)] {
        let sandbox = Sandbox::new();
        sandbox.run(CREATE).is(0, "", "");
        let mut child = sandbox.spawn("add a.bloom");
        feed(&sandbox, &mut child, "cow\ncow\nsheep\n");
        signal(&child, name);
        end(child).is(
            status,
            "",
            "bloomfile: a.bloom: interrupted: 3 keys read: 2 new, 1 already present or false positive; what was added is safe; the \
             same command goes on from the start\n",
        );
        sandbox.run("verify a.bloom").is(0, "a.bloom: sound: 1 page as written\n", "");
        sandbox.run("check a.bloom sheep cow wolf").is(0, "sheep\ncow\n", "");
    }
}

#[test]
fn interrupted_in_the_middle_of_endless_keys() {
    let sandbox = Sandbox::new();
    sandbox.run(CREATE).is(0, "", "");
    // Empty keys without end: there is no pause to wait for.
    let child = sandbox.spawn("add a.bloom --null --from /dev/zero");
    wait_for_writer(&sandbox);
    signal(&child, "-INT");
    let ran = end(child);
    assert_eq!((ran.code, ran.out.as_str()), (Some(130), ""));
    assert!(ran.err.starts_with("bloomfile: a.bloom: interrupted: "), "{}", ran.err);
    sandbox.run("verify a.bloom").is(0, "a.bloom: sound: 1 page as written\n", "");
}

#[test]
fn an_interrupted_add_sets_no_mark_and_a_finished_one_does() {
    let sandbox = Sandbox::new();
    sandbox.run(CREATE).is(0, "", "");
    let mut child = sandbox.spawn("add a.bloom --mark 77");
    feed(&sandbox, &mut child, "sheep\n");
    signal(&child, "-INT");
    end(child).is(
        130,
        "",
        "bloomfile: a.bloom: interrupted: 1 key read: all new; what was added is safe; the same \
         command goes on from the start; the mark was not set\n",
    );
    assert_eq!(mark(&sandbox), 0);
    sandbox.run("add a.bloom --mark 77 sheep").is(
        0,
        "a.bloom: 1 key read: 0 new, 1 already present or false positive; mark 77\n",
        "",
    );
    assert_eq!(mark(&sandbox), 77);
    // Kept until another is given.
    sandbox.run("add -q a.bloom cow").is(0, "", "");
    assert_eq!(mark(&sandbox), 77);
    let inspection = sandbox.run("inspect a.bloom").out;
    assert!(inspection.contains("  mark          77\n"), "{inspection}");
}

#[test]
fn an_interrupted_add_is_resumed() {
    let sandbox = Sandbox::new();
    sandbox.run(CREATE).is(0, "", "");
    sandbox.write("log", numbers(9));
    let mut child = sandbox.spawn("add a.bloom --resume");
    feed(&sandbox, &mut child, &numbers(4));
    signal(&child, "-INT");
    end(child).is(
        130,
        "",
        "bloomfile: a.bloom: interrupted: 4 keys read: all new; what was added is safe; the same \
         command goes on from mark 4\n",
    );
    sandbox.run("add a.bloom --resume --from log").is(
        0,
        "a.bloom: 4 keys skipped, 5 keys read: all new; mark 9\n",
        "",
    );
    // The log grows.
    sandbox.write("log", numbers(12));
    sandbox.run("add a.bloom --resume --from log").is(
        0,
        "a.bloom: 9 keys skipped, 3 keys read: all new; mark 12\n",
        "",
    );
    // Another log: nothing is taken from it, and the mark stays.
    sandbox.write("log", numbers(5));
    sandbox.run("add a.bloom --resume --from log").is(
        2,
        "",
        "bloomfile: log: is shorter than the 27 bytes that were read of it before; if the log was \
         rotated, finish the old one first; then --from-start reads this one from its \
         beginning\n",
    );
    assert_eq!(mark(&sandbox), 12);
    sandbox.run("add a.bloom --resume --from log --from-start").is(
        0,
        "a.bloom: 5 keys read: 0 new, 5 already present or false positive; mark 5\n",
        "",
    );
}

#[test]
fn batches_are_durable_with_their_mark() {
    let sandbox = Sandbox::new();
    sandbox.run(CREATE).is(0, "", "");
    let mut child = sandbox.spawn("add a.bloom --resume --sync-every 2");
    feed(&sandbox, &mut child, &numbers(5));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(mark(&sandbox), 4, "two batches of two");
    sandbox.run_with("add a.bloom --resume --sync-every 2", numbers(7)).is(
        0,
        "a.bloom: 4 keys skipped, 3 keys read: 2 new, 1 already present or false positive; mark 7\n",
        "bloomfile: a.bloom: recovered after a crash: 5 adds replayed, 0 pages not verifiable\n",
    );
    sandbox.run_with("check -c a.bloom", numbers(8)).is(0, "7\n", "");
}

#[test]
fn a_bad_line_leaves_what_came_before_it_resumable() {
    let sandbox = Sandbox::new();
    sandbox.run(CREATE).is(0, "", "");
    sandbox.run_with("add a.bloom --hex --resume", "00\n11\nhorse\n22\n").is(
        2,
        "",
        "bloomfile: standard input: line 3 is not hex; with --hex a key is written as two digits \
         for each byte; 2 keys were added before it\n",
    );
    sandbox.run_with("add a.bloom --hex --resume", "00\n11\n33\n22\n").is(
        0,
        "a.bloom: 2 keys skipped, 2 keys read: all new; mark 4\n",
        "",
    );
}

/// Removing is not to be repeated, so that it says where to go on.
#[test]
fn an_interrupted_remove_says_how_far_it_came() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 1000 -p 1e-6 --kind counting").is(0, "", "");
    sandbox.run_with("add -q a.bloom", numbers(1000)).is(0, "", "");
    let mut child = sandbox.spawn("remove a.bloom");
    let keys = format!("{}wolf\n", numbers(500));
    child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    // The last key is one that it speaks of.
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "bloomfile: a.bloom: wolf is not in it\n");
    signal(&child, "-INT");
    let ran = end(child);
    assert_eq!((ran.code, ran.out.as_str()), (Some(130), ""));
    line.clear();
    errors.read_to_string(&mut line).unwrap();
    let told = "501 keys read, 500 of them removed; go on with the keys after them";
    assert_eq!(line, format!("bloomfile: a.bloom: interrupted: {told}\n"));
    sandbox.run_with("check -c a.bloom", numbers(500)).is(1, "0\n", "");
    sandbox.run_with("check -cv a.bloom", numbers(1000)).is(0, "500\n", "");
}

/// In a counting file a record of the journal is the change of a key's counters, not an add.
#[test]
fn a_killed_add_to_counters_leaves_changes() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 1000 -p 1% --layout rows --kind counting").is(0, "", "");
    let mut child = sandbox.spawn("add a.bloom --sync-every 1");
    feed(&sandbox, &mut child, "cow\nsheep\n");
    signal(&child, "-KILL");
    let _ = end(child);
    let crashed = sandbox.read("a.bloom");
    let out = sandbox.run("inspect a.bloom").out;
    assert!(out.contains("\n                2 changes in the journal, counted above\n"), "{out}");
    assert!(out.contains("\n  holds         about 2 keys; "), "{out}");
    sandbox.run("inspect a.bloom --html a.html");
    let page = String::from_utf8(sandbox.read("a.html")).unwrap();
    let row = "<th scope=\"row\">Changes in the journal, counted here</th><td>2</td>";
    assert!(page.contains(row), "{page}");
    let out = sandbox.run("verify a.bloom").out;
    assert!(out.starts_with("a.bloom: sound: 7 pages, 2 changes in the journal; "), "{out}");
    sandbox.run("repair a.bloom").is(
        0,
        "a.bloom: recovered after a crash, nothing was damaged: 2 changes replayed\n",
        "",
    );
    sandbox.write("a.bloom", crashed);
    sandbox.run("remove a.bloom cow").is(
        0,
        "a.bloom: 1 key read, 1 of them removed\n",
        "bloomfile: a.bloom: recovered after a crash: 2 changes replayed, 0 pages not \
         verifiable\n",
    );
    sandbox.run("check a.bloom cow sheep").is(0, "sheep\n", "");
}

/// A counting filter counts a key as often as it is added: the same keys again would be wrong.
#[test]
fn an_interrupted_add_to_counters_says_where_to_go_on() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 1000 -p 1e-6 --kind counting").is(0, "", "");
    let mut child = sandbox.spawn("add a.bloom --sync-every 1");
    feed(&sandbox, &mut child, "cow\ncow\nsheep\n");
    signal(&child, "-INT");
    end(child).is(
        130,
        "",
        "bloomfile: a.bloom: interrupted: 3 keys read: 2 new, 1 already present or false positive; what was added is safe; go on with \
         the keys after them: these would count twice\n",
    );
    sandbox.run("remove -q a.bloom cow cow sheep").is(0, "", "");
}

/// Between the moment in which a signal no longer ends the process and the one in which a thread waits
/// for it: strace makes that longer, where the system is told of the handlers and before there is what
/// the thread waits at.
#[test]
fn a_signal_that_comes_too_early_is_not_lost() {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !traced.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: signals while the command begins to watch for them, which needs strace"
        );
        return;
    }
    is_ended_while("rt_sigaction", "delay_exit=200000");
    is_ended_while("socketpair", "delay_enter=1000000");
}

/// A command is sent a signal as soon as it has a handler, which is while a call takes long.
fn is_ended_while(call: &str, delay: &str) {
    let sandbox = Sandbox::new();
    let mut command = Command::new("strace");
    // The command is the child, not strace.
    command.args(["-D", "-o", "trace", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:{delay}")]);
    command.args([BLOOMFILE, "build", "n.bloom", "-n", "1M", "-p", "1%"]);
    command.current_dir(sandbox.folder()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if status.starts_with("Name:\tbloomfile") && mask >> 14 & 1 == 1 {
            break;
        }
        assert!(Instant::now() < deadline, "the command does not watch for signals");
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "-TERM");
    let status = end_by(&mut child, deadline);
    assert_eq!(status.code(), Some(143), "{call}");
    assert!(!sandbox.path("n.bloom").exists());
    // There was such a call.
    assert!(String::from_utf8(sandbox.read("trace")).unwrap().contains(&format!("{call}(")));
}

/// What a command makes is there whole or not at all, and a publication is always one that can be pulled.
#[test]
fn deltas_publications_and_secrets_are_interrupted_at_any_step() {
    crate::faults::interrupted(&["delta", "apply", "publish", "pull", "keygen"]);
}
