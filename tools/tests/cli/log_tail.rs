//! `add --resume` and `remove --resume` at the tail of a log that grows: lines that have not ended,
//! kills at any moment, logs that were rotated, cut or mistaken.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, numbers};

const CREATE: &str = "create -q a.bloom -n 1000 -p 1e-6";

fn append(sandbox: &Sandbox, name: &str, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(sandbox.path(name)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// A line is written in pieces as often as not: half of it is no key.
#[test]
fn a_line_counts_when_it_has_ended() {
    for kind in ["plain", "counting"] {
        let sandbox = Sandbox::new();
        sandbox.run(&format!("{CREATE} --kind {kind}")).is(0, "", "");
        append(&sandbox, "log", "aa\nhal");
        let left = "; the last line has not ended: left for the next run\n";
        let add = "add a.bloom --from log --resume";
        sandbox.run(add).is(0, &format!("a.bloom: 1 key read: all new; mark 1{left}"), "");
        sandbox.run(add).is(0, &format!("a.bloom: 1 key skipped, 0 keys read; mark 1{left}"), "");
        append(&sandbox, "log", "f-line\nbb\n");
        sandbox.run(add).is(0, "a.bloom: 1 key skipped, 2 keys read: all new; mark 3\n", "");
        sandbox.run("check a.bloom aa hal half-line bb").is(0, "aa\nhalf-line\nbb\n", "");
        let json = sandbox.run_with("add a.bloom --resume --from-start --json", "x\0y\nz").out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["unfinished"], &json["mark"]), (&true.into(), &1.into()));
        // Without --resume there is no next run: the last line counts.
        sandbox.run_with("add a.bloom", "cc").is(0, "a.bloom: 1 key read: all new\n", "");
        sandbox.run_with("add a.bloom --null --resume --from-start", "dd\0ee").is(
            0,
            "a.bloom: 1 key read: all new; mark 1; the last record has not ended: left for \
             the next run\n",
            "",
        );
    }
}

/// In a keyed file nothing is kept by which those without the secret could try what the input was.
#[test]
fn a_position_in_a_keyed_file_is_under_its_secret() {
    let sandbox = Sandbox::new();
    let position = || {
        let json = sandbox.run("inspect --json a.bloom").out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["metadata"]["resume.add"].as_str().unwrap().to_owned()
    };
    append(&sandbox, "log", "aa\n");
    let mut positions = Vec::new();
    for key in ["", "one", "other"] {
        let mut option = String::new();
        if !key.is_empty() {
            assert_eq!(sandbox.run(&format!("keygen {key}")).code, Some(0));
            option = format!(" --key-file {key}");
        }
        sandbox.run(&format!("{CREATE} -f{option}")).is(0, "", "");
        let add = format!("add a.bloom --resume{option} --from");
        sandbox.run(&format!("{add} log")).is(0, "a.bloom: 1 key read: all new; mark 1\n", "");
        let said = "a.bloom: 1 key skipped, 0 keys read; mark 1\n";
        sandbox.run(&format!("{add} log")).is(0, said, "");
        // A stream is known again as well, and another input is not taken for it.
        sandbox.run_with(&format!("add a.bloom --resume{option}"), "aa\n").is(0, said, "");
        sandbox.write("rotated", "bb\n");
        let ran = sandbox.run(&format!("{add} rotated"));
        assert!(
            ran.code == Some(2) && ran.err.contains("is not the input that was read"),
            "{ran:?}"
        );
        positions.push(position());
    }
    // printf 'aa\naa\n' | sha256sum
    let sha = "read=1 keys=1 bytes=3 sha256=3af9904aae9be0091b6ee7645026aeaa";
    assert_eq!(positions[0], sha);
    let [one, other] = [1, 2].map(|at| {
        positions[at].strip_prefix("read=1 keys=1 bytes=3 keyed=").expect(&positions[at])
    });
    assert!(one != other && one.len() == 32, "{positions:?}");
}

/// The same in pieces that several threads work on.
#[test]
fn a_long_input_is_resumed_in_the_middle() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 4M -p 1e-6").is(0, "", "");
    let line = |number: u32| format!("{number:0>59}\n");
    let lines = |range: std::ops::Range<u32>| range.map(line).collect::<String>();
    let first = 1_200_000;
    append(&sandbox, "log", &lines(0..first));
    append(&sandbox, "log", "123");
    let add = "add a.bloom --from log --resume";
    let ran = sandbox.run(add);
    assert!(ran.code == Some(0) && ran.out.contains("mark 1200000; the last line"), "{ran:?}");
    append(&sandbox, "log", &lines(0..first)[3..]);
    append(&sandbox, "log", "end\n");
    sandbox.run(add).is(
        0,
        "a.bloom: 1,200,000 keys skipped, 1,200,001 keys read: 2 new, 1,199,999 already present or false positive; mark 2400001\n",
        "",
    );
    let keys = format!("123{}end\n", &line(0)[3..]);
    sandbox.run_with("check -c a.bloom", keys).is(0, "2\n", "");
}

const ROTATED: &str = "if the log was rotated, finish the old one first; then --from-start reads \
                       this one from its beginning\n";

/// What happens to a log that logrotate renames, and to the one that it starts.
#[test]
fn another_log_is_not_taken_for_the_same() {
    for remove in [false, true] {
        let sandbox = Sandbox::new();
        sandbox.run(&format!("{CREATE} --kind counting")).is(0, "", "");
        let command = if remove { "remove" } else { "add" };
        let outcome = |count: u32| {
            if remove { format!(", {count} of them removed") } else { ": all new".into() }
        };
        if remove {
            sandbox.run_with("add -q a.bloom", numbers(1000)).is(0, "", "");
        }
        let resume = |rest: &str| sandbox.run(&format!("{command} a.bloom --resume {rest}"));
        append(&sandbox, "log", &numbers(100));
        let told = format!("a.bloom: 100 keys read{}; mark 100\n", outcome(100));
        resume("--from log").is(0, &told, "");
        append(&sandbox, "log", "101\n");

        // A copy is as good, and so is a pipe.
        std::fs::copy(sandbox.path("log"), sandbox.path("copy")).unwrap();
        let told = format!("a.bloom: 100 keys skipped, 1 key read{}; mark 101\n", outcome(1));
        resume("--from copy").is(0, &told, "");
        let log = String::from_utf8(sandbox.read("log")).unwrap();
        append(&sandbox, "log", "102\n");
        let told = format!("a.bloom: 101 keys skipped, 1 key read{}; mark 102\n", outcome(1));
        sandbox
            .run_with(&format!("{command} a.bloom --resume"), format!("{log}102\n"))
            .is(0, &told, "");

        // Rotated: the new log is another one, whether shorter or longer.
        std::fs::rename(sandbox.path("log"), sandbox.path("log.1")).unwrap();
        append(&sandbox, "log", "103\n");
        let bytes = log.len() + 4;
        let error = format!(
            "bloomfile: log: is shorter than the {bytes} bytes that were read of it before; {ROTATED}"
        );
        resume("--from log").is(2, "", &error);
        append(&sandbox, "log", &(104..=400).map(|n| format!("{n}\n")).collect::<String>());
        let error = format!(
            "bloomfile: log: is not the input that was read: its first {bytes} bytes are others \
             now; {ROTATED}"
        );
        resume("--from log").is(2, "", &error);
        let piped = sandbox.run_with(&format!("{command} a.bloom --resume"), sandbox.read("log"));
        let piped_error = error.replace(": log:", ": standard input:");
        assert!(piped.err.starts_with(piped_error.trim_end()), "{}", piped.err);
        assert_eq!(piped.code, Some(2));
        let short = sandbox.run_with(&format!("{command} a.bloom --resume"), "1\n2\n");
        let short_error = format!("bloomfile: standard input: is shorter than the {bytes} bytes");
        assert!(short.code == Some(2) && short.err.starts_with(&short_error), "{}", short.err);

        // The old one is finished, then the new one read from its beginning.
        append(&sandbox, "log.1", "500\n");
        let told = format!("a.bloom: 102 keys skipped, 1 key read{}; mark 103\n", outcome(1));
        resume("--from log.1").is(0, &told, "");
        let told = format!("a.bloom: 298 keys read{}; mark 298\n", outcome(298));
        resume("--from log --from-start").is(0, &told, "");
        append(&sandbox, "log", "501\n");
        let told = format!("a.bloom: 298 keys skipped, 1 key read{}; mark 299\n", outcome(1));
        resume("--from log").is(0, &told, "");
        if !remove {
            let keys = format!("{}500\n501\n", numbers(400));
            sandbox.run_with("remove -q a.bloom", keys).is(0, "", "");
            assert_eq!(ones(&sandbox), 0, "counted once");
        }
    }
}

/// Beginnings alone do not make a log the same.
#[test]
fn logs_with_the_same_beginning_differ() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 100k -p 1e-6").is(0, "", "");
    let head: String = numbers(2000);
    sandbox.write("log", format!("{head}one\nlast\n"));
    assert_eq!(sandbox.run("add a.bloom --resume --from log").code, Some(0));
    sandbox.write("log", format!("{head}two\nlast\nmore\n"));
    let ran = sandbox.run("add a.bloom --resume --from log");
    assert!(ran.code == Some(2) && ran.err.contains(" is not the input that was read"), "{ran:?}");
    sandbox.run("check a.bloom two more").is(1, "", "");
}

/// add and remove each have a position of their own.
#[test]
fn add_and_remove_take_turns() {
    let sandbox = Sandbox::new();
    sandbox.run(&format!("{CREATE} --kind counting")).is(0, "", "");
    for day in 0..3_u32 {
        for round in 0..2_u32 {
            let first = 100 * day + 50 * round;
            let lines = (first..first + 50).map(|n| format!("{n}\n")).collect::<String>();
            append(&sandbox, "came", &lines);
            append(&sandbox, "went", &lines);
            sandbox.run("add -q a.bloom --resume --from came").is(0, "", "");
            sandbox.run("check -c a.bloom --from came").is(0, "50\n", "");
            sandbox.run("remove -q a.bloom --resume --from went").is(0, "", "");
            assert_eq!(ones(&sandbox), 0);
        }
    }
    let ran = sandbox.run("add a.bloom --resume --from came").out;
    assert_eq!(ran, "a.bloom: 300 keys skipped, 0 keys read; mark 300\n");
    let ran = sandbox.run("remove a.bloom --resume --from went").out;
    assert_eq!(ran, "a.bloom: 300 keys skipped, 0 keys read, 0 of them removed; mark 300\n");
}

#[test]
fn what_cannot_be_resumed() {
    let sandbox = Sandbox::new();
    sandbox.run(CREATE).is(0, "", "");
    append(&sandbox, "log", "1\n");
    let error = "bloomfile: --resume reads one input: name it with --from, or give it as standard \
                 input\n";
    for rest in ["--from log --from log", "key", "key --from log"] {
        sandbox.run(&format!("add a.bloom --resume {rest}")).is(2, "", error);
    }
    // An input that cannot be opened does not put the mark back.
    sandbox.run("add -q a.bloom --resume --from log").is(0, "", "");
    let ran = sandbox.run("add a.bloom --resume --from-start --from typo");
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    sandbox.run("add a.bloom --resume --from log").is(
        0,
        "a.bloom: 1 key skipped, 0 keys read; mark 1\n",
        "",
    );
    // A number of the user's own is where the next input is taken up.
    sandbox.run("add -q a.bloom --mark 2 x").is(0, "", "");
    sandbox.write("other", numbers(5));
    sandbox.run("add a.bloom --resume --from other").is(
        0,
        "a.bloom: 2 keys skipped, 3 keys read: all new; mark 5\n",
        "",
    );
}

/// Cells that are set.
fn ones(sandbox: &Sandbox) -> u64 {
    let json = sandbox.run("inspect --json a.bloom").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let segments = json["segments"].as_array().unwrap();
    segments.iter().map(|segment| segment["ones"].as_u64().unwrap()).sum()
}

/// Random numbers with a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The lines that the logger writes, always the same.
fn lines() -> impl Iterator<Item = String> {
    let mut random = Random(7);
    (0..).map(move |number: u64| {
        format!("line {number} {}\n", "x".repeat(random.below(30) as usize))
    })
}

const LOGGER_FOLDER: &str = "BLOOMFILE_TEST_LOGGER";

/// Not a test: what runs as the logger's process. It writes lines as a buffered logger does, cut
/// anywhere, until there is a file `stop`; then it ends its last line.
#[test]
#[ignore = "the process of another test"]
fn logger() {
    let Some(folder) = std::env::var_os(LOGGER_FOLDER) else { return };
    let folder = std::path::Path::new(&folder);
    let mut log = OpenOptions::new().append(true).create(true).open(folder.join("log")).unwrap();
    let mut random = Random(8);
    let mut waiting = String::new();
    for line in lines() {
        waiting += &line;
        if random.below(3) == 0 {
            let cut = random.below(waiting.len() as u64 + 1) as usize;
            log.write_all(&waiting.as_bytes()[..cut]).unwrap();
            waiting.drain(..cut);
            if random.below(8) == 0 {
                std::thread::sleep(Duration::from_micros(3000 + random.below(6000)));
            }
        }
        if folder.join("stop").exists() {
            break;
        }
    }
    log.write_all(waiting.as_bytes()).unwrap();
}

fn start_logger(sandbox: &Sandbox) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["log_tail::logger", "--exact", "--ignored"])
        .env(LOGGER_FOLDER, sandbox.folder())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What makes a file keyed, and opens one: some kinds are, and the others not.
const KEYED: &str = " --key-file key";

/// Kills of each campaign: `BLOOMFILE_TAIL_KILLS` says how many.
fn kills() -> u64 {
    std::env::var("BLOOMFILE_TAIL_KILLS").map_or(60, |kills| kills.parse().unwrap())
}

/// More keys than the logger writes in that time.
fn capacity() -> u64 {
    50_000 + 200 * kills()
}

/// Runs a command at the tail of a log that a logger writes, kills it at random moments, and lets
/// it come to the end at last. What the runs said on standard error.
fn tail(sandbox: &Sandbox, command: &str, seed: u64) -> String {
    // The logger may take its time to begin.
    append(sandbox, "log", "");
    let mut logger = start_logger(sandbox);
    let mut random = Random(seed);
    let (mut killed, mut came_through) = (0, 0);
    while killed < kills() {
        let sync_every = [1, 2, 7, 30, 100, 1_000_000][random.below(6) as usize];
        let line = format!("{command} a.bloom --resume --from log --sync-every {sync_every}");
        let errors = OpenOptions::new().append(true).create(true).open(sandbox.path("errors"));
        let mut child =
            sandbox.command(&line).stdout(Stdio::null()).stderr(errors.unwrap()).spawn().unwrap();
        let longest = [6_000, 15_000, 50_000][random.below(3) as usize];
        std::thread::sleep(Duration::from_micros(random.below(longest)));
        child.kill().unwrap();
        match child.wait().unwrap().code() {
            None => killed += 1,
            Some(0) => came_through += 1,
            Some(code) => {
                let errors = std::fs::read_to_string(sandbox.path("errors")).unwrap();
                panic!("{line}: exit {code}: {errors}");
            }
        }
    }
    File::create(sandbox.path("stop")).unwrap();
    assert!(logger.wait().unwrap().success());
    let last = sandbox.run(&format!("{command} a.bloom --resume --from log"));
    assert_eq!(last.code, Some(0), "{last:?}");
    let lines = sandbox.read("log").iter().filter(|&&byte| byte == b'\n').count();
    let mut told = last.out.trim_end().split("; ");
    assert!(told.any(|part| part == format!("mark {lines}")), "{lines} lines: {last:?}");
    let (_, skipped) = last.out.split_once(": ").unwrap();
    let (skipped, _) = skipped.split_once(" skipped").unwrap_or(("none", ""));
    println!(
        "{command}: {killed} killed, {came_through} came through; {lines} lines, of which the last \
         run skipped {skipped}"
    );
    std::fs::read_to_string(sandbox.path("errors")).unwrap_or_default()
}

/// Nothing is lost, whatever is killed when.
#[test]
fn the_tail_of_a_log_is_not_lost() {
    let capacity = capacity();
    let kinds = [
        ("-n 2k --grow".into(), KEYED),
        (format!("-n {capacity}"), ""),
        (format!("-n {capacity} --generations 3"), KEYED),
    ];
    for (seed, (kind, key)) in (1..).zip(kinds) {
        let started = Instant::now();
        let sandbox = Sandbox::new();
        assert_eq!(sandbox.run("keygen key").code, Some(0));
        let create = format!("create -q a.bloom{key} -p 1e-6 --journal 64KiB {kind}");
        sandbox.run(&create).is(0, "", "");
        tail(&sandbox, &format!("add{key}"), seed);
        let lines = sandbox.read("log").iter().filter(|&&byte| byte == b'\n').count();
        let check = format!("check -c a.bloom{key} --from log");
        let found = sandbox.run(&check);
        assert_eq!((found.code, found.out), (Some(0), format!("{lines}\n")));
        // A kill that comes when the journal is full leaves pages that no records explain: both say so.
        let doubtful = found.err.contains("cannot be verified");
        assert!(doubtful || found.err.is_empty(), "{}", found.err);
        let said = sandbox.run("verify a.bloom");
        assert_eq!(said.code, Some(if doubtful { 2 } else { 0 }), "{said:?}");
        println!("{kind}: {:?}", started.elapsed());
    }
}

/// Nothing is counted twice either, and nothing removed twice: what was added by one log and
/// removed by the same leaves no counter.
#[test]
fn the_tail_of_a_log_counts_once() {
    for (seed, kind, key) in
        [(4, format!("-n {}", capacity()), ""), (5, "-n 2k --grow".into(), KEYED)]
    {
        let sandbox = Sandbox::new();
        assert_eq!(sandbox.run("keygen key").code, Some(0));
        // So low that no key seems to be in a second segment, which would keep it from removal.
        let create =
            format!("create -q a.bloom{key} -p 1e-8 --kind counting --journal 64KiB {kind}");
        sandbox.run(&create).is(0, "", "");
        tail(&sandbox, &format!("add{key}"), seed);
        sandbox.run(&format!("remove -q a.bloom{key} --from log")).is(0, "", "");
        assert_eq!(ones(&sandbox), 0, "{kind}: counted twice");
    }
}

#[test]
fn the_tail_of_a_log_is_removed_once() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("keygen key").code, Some(0));
    let create = format!("create -q a.bloom{KEYED} -p 1e-6 --kind counting --journal 64KiB");
    sandbox.run(&format!("{create} -n {}", capacity())).is(0, "", "");
    // More than the logger comes to write, so that some stay.
    let all: String = lines().take(capacity() as usize).collect();
    sandbox.run_with(&format!("add -q a.bloom{KEYED}"), &all).is(0, "", "");
    let said = tail(&sandbox, &format!("remove{KEYED}"), 6);
    assert!(!said.contains(" is not in it"), "removed twice: {said}");
    let log = sandbox.read("log");
    let rest = all.as_bytes().strip_prefix(&log[..]).unwrap();
    sandbox.write("rest", rest);
    sandbox.run(&format!("remove -q a.bloom{KEYED} --from rest")).is(0, "", "");
    assert_eq!(ones(&sandbox), 0, "removed twice, or not at all");
}
