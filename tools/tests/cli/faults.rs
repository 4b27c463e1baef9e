//! Every system call of every command made to fail in turn, by strace: an exit status of the
//! command's own, a message that names the error, nothing left behind, nothing lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sandbox::{BLOOMFILE, Sandbox, has, numbers};

/// System calls, and the errors that each may give. Those whose errors change nothing for the
/// program (signal masks) are not among them, nor is close: what strace makes fail is not
/// done, but a close that fails closes all the same.
const CALLS: &[(&str, &[&str])] = &[
    ("openat", &["EIO", "EMFILE", "EINTR"]),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("write", &["EIO", "ENOSPC", "EINTR"]),
    ("pwrite64", &["EIO", "ENOSPC", "EINTR"]),
    ("fsync", &["EIO", "ENOSPC", "EINTR"]),
    ("fdatasync", &["EIO", "ENOSPC", "EINTR"]),
    ("msync", &["EIO", "ENOSPC", "EINTR"]),
    ("fallocate", &["EIO", "ENOSPC", "EINTR"]),
    ("ftruncate", &["EIO", "EINTR"]),
    ("flock", &["EIO", "ENOLCK", "EINTR"]),
    ("rename", &["EIO", "ENOSPC", "EINTR"]),
    ("renameat", &["EIO", "ENOSPC", "EINTR"]),
    ("renameat2", &["EIO", "ENOSPC", "EINTR"]),
    ("mkdir", &["EIO", "ENOSPC"]),
    ("rmdir", &["EIO"]),
    ("linkat", &["EIO", "ENOSPC", "EINTR"]),
    ("link", &["EIO", "ENOSPC", "EINTR"]),
    ("unlink", &["EIO"]),
    ("unlinkat", &["EIO"]),
    ("statx", &["EIO"]),
    ("fstat", &["EIO"]),
    ("newfstatat", &["EIO"]),
    ("lseek", &["EIO"]),
    ("fchmod", &["EIO"]),
    ("fchown", &["EIO"]),
    ("readlink", &["EIO"]),
    ("getdents64", &["EIO"]),
    ("mmap", &["ENOMEM"]),
    // Advice, which may fail, and the end of what was changed in a private map, which may not.
    ("madvise", &["EIO", "ENOMEM"]),
    // How a file lies on the disk, and whether there is a terminal.
    ("ioctl", &["EIO", "ENOSPC", "EINTR"]),
    ("getrandom", &["EINTR"]),
    ("dup", &["EMFILE", "EINTR"]),
    ("fcntl", &["EMFILE"]),
    ("clone3", &["EAGAIN"]),
    ("pipe2", &["EMFILE"]),
    ("socketpair", &["EMFILE"]),
];

/// What the message says for an error.
fn words(error: &str) -> &'static str {
    match error {
        "EIO" => "Input/output error",
        "ENOSPC" => "No space left on device",
        "EINTR" => "Interrupted system call",
        "EMFILE" => "Too many open files",
        "ENOLCK" => "No locks available",
        "ENOMEM" => "annot allocate memory",
        "EAGAIN" => "Resource temporarily unavailable",
        INTERRUPT => "interrupted",
        other => panic!("{other}"),
    }
}

/// Every command, with what it exits with when all goes well.
const COMMANDS: &[(&str, i32)] = &[
    ("create n.bloom -n 1000 -p 1% --journal 4KiB", 0),
    ("create -f old.bloom -n 1000 -p 1% --journal 4KiB --kind counting", 0),
    ("build n.bloom keys --journal 4KiB", 0),
    ("build -f old.bloom keys -n 1000 -p 1% --journal 4KiB", 0),
    ("build n.bloom keys --sealed", 0),
    ("build n.part keys -n 1000 -p 1% --part 1/2", 0),
    ("join -o n.bloom 1.part 2.part", 0),
    ("compact -o n.bloom a.bloom", 0),
    ("add a.bloom --from keys", 0),
    ("add a.bloom --from keys --resume --sync-every 100", 0),
    ("add crashed.bloom --from keys --sync-every 100", 0),
    ("add g.bloom --from keys", 0),
    ("remove c.bloom --from few --resume --sync-every 10", 0),
    ("rotate r.bloom", 0),
    ("check a.bloom 1 2 3", 0),
    ("check --memory crashed.bloom --from keys -c", 0),
    ("which -k 1 a.bloom g.bloom", 0),
    ("inspect a.bloom --html page", 0),
    ("inspect a.bloom --json", 0),
    ("inspect a.bloom --bytes", 0),
    ("verify a.bloom crashed.bloom", 0),
    ("repair damaged.bloom", 0),
    ("merge -o n.bloom a.bloom crashed.bloom", 0),
    ("intersect -f -o old.bloom a.bloom b.bloom", 0),
    ("shrink -o n.bloom s.bloom --factor 2", 0),
    ("export -o n.bloom c.bloom", 0),
    ("compare a.bloom a.bloom", 0),
    ("bench -n 100 a.bloom", 0),
    ("man --out man -f", 0),
    ("keygen n.key", 0),
    ("add k.bloom --key-file key --from keys", 0),
    ("check k.bloom --key-file key 1 2 3", 0),
    ("delta a.bloom second.bloom -o n.delta", 0),
    ("delta -f k.bloom k.bloom -o it.delta", 0),
    ("apply it.delta a.bloom", 0),
    ("apply it.delta a.bloom -o n.bloom", 0),
    ("apply --in-place it.delta a.bloom", 0),
    ("publish fourth.bloom site", 0),
    ("publish fourth.bloom site --sign sign.key", 0),
    ("publish third.bloom site --sign sign.key", 0),
    ("pull site pulled.bloom", 0),
    ("pull site n.bloom", 0),
];

/// A secret key of minisign, without a password, that is good for nothing else.
const SIGN_KEY: &str = "untrusted comment: minisign secret key
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAGwkOI4cycvp0GRsaTAd9WJI4CoCfDR3CAisHaJB2jlvnrW8RvLguKY6I4DuXhV8RhMaM5cufXkMSfghF3n3NnzC8U0tcBrjTAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
";

/// What a file is opened with.
fn secret_of(file: &str) -> &'static str {
    if file == "k.bloom" { " --key-file key" } else { "" }
}

/// Files for every command.
fn template() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("keys", numbers(500));
    sandbox.write("few", numbers(60));
    let small = "-n 1000 -p 1% --journal 4KiB";
    for name in ["a", "b", "old", "crashed"] {
        sandbox.run(&format!("create -q {name}.bloom {small}")).is(0, "", "");
    }
    sandbox
        .run("create -q s.bloom --rows 4 --row-bits 8192 --journal 4KiB --layout rows")
        .is(0, "", "");
    sandbox.run("create -q g.bloom -n 100 -p 1% --grow --journal 4KiB").is(0, "", "");
    sandbox.run("create -q c.bloom -n 1000 -p 1% --kind counting --journal 4KiB").is(0, "", "");
    sandbox.run("create -q r.bloom -n 100 -p 1% --generations 2 --journal 4KiB").is(0, "", "");
    for name in ["a", "b", "old", "s", "g", "c", "r"] {
        sandbox.run(&format!("add -q {name}.bloom --from few")).is(0, "", "");
    }
    assert_eq!(sandbox.run("keygen key").code, Some(0));
    sandbox.run(&format!("create -q k.bloom {small} --key-file key")).is(0, "", "");
    sandbox.run(&format!("add -q k.bloom{} --from few", secret_of("k.bloom"))).is(0, "", "");
    for part in [1, 2] {
        let build = format!("build -q {part}.part few -n 1000 -p 1% --part {part}/2");
        sandbox.run(&build).is(0, "", "");
    }
    // Left by a writer that was killed.
    let mut child = sandbox.spawn("add crashed.bloom --sync-every 1");
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), numbers(60).as_bytes()).unwrap();
    while sandbox.run("check -q crashed.bloom 60").code != Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut damaged = sandbox.read("a.bloom");
    *damaged.last_mut().unwrap() ^= 1;
    sandbox.write("damaged.bloom", damaged);
    std::fs::create_dir(sandbox.path("man")).unwrap();
    // Versions, of which three are published and the first was pulled.
    sandbox.write("sign.key", SIGN_KEY);
    for (old, new, keys) in
        [("a", "second", 80), ("second", "third", 100), ("third", "fourth", 120)]
    {
        sandbox.write(&format!("{new}.bloom"), sandbox.read(&format!("{old}.bloom")));
        sandbox.run_with(&format!("add -q {new}.bloom"), numbers(keys)).is(0, "", "");
    }
    sandbox.run("delta -q a.bloom second.bloom -o it.delta").is(0, "", "");
    sandbox.run("publish -q a.bloom site").is(0, "", "");
    sandbox.run("pull -q site pulled.bloom").is(0, "", "");
    sandbox.run("publish -q second.bloom site").is(0, "", "");
    sandbox.run("publish -q third.bloom site").is(0, "", "");
    sandbox
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The calls of a command, by name.
fn calls(sandbox: &Sandbox, line: &str) -> BTreeMap<String, u64> {
    let trace = sandbox.path("trace");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(BLOOMFILE)
        .args(line.split(' '))
        .current_dir(sandbox.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.code().is_some(), "{line}: {status}");
    let text = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(trace).unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let call = line.split_whitespace().nth(1).unwrap_or_default();
        if let Some((name, _)) = call.split_once('(') {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

struct Fault {
    line: &'static str,
    expected: i32,
    call: &'static str,
    error: &'static str,
    when: u64,
}

/// In place of an error: the call is done, and then a signal comes.
const INTERRUPT: &str = "SIGTERM";

/// All faults of these commands, from the first call after the program's start on.
fn faults(
    template: &Sandbox,
    wanted: &dyn Fn(&str) -> bool,
    kinds: &[(&'static str, &'static [&'static str])],
) -> Vec<Fault> {
    let start = calls(&Sandbox::new(), "--version");
    let mut faults = Vec::new();
    // A build without signatures refuses to sign.
    let wanted = |line: &str| wanted(line) && (cfg!(feature = "sign") || !line.contains("--sign"));
    for &(line, expected) in COMMANDS.iter().filter(|(line, _)| wanted(line)) {
        let sandbox = Sandbox::new();
        copy(template.folder(), sandbox.folder());
        let counts = calls(&sandbox, line);
        for &(call, errors) in kinds {
            let before = start.get(call).copied().unwrap_or(0);
            let all = counts.get(call).copied().unwrap_or(0);
            for when in before + 1..=all {
                let fault = |&error| Fault { line, expected, call, error, when };
                faults.extend(errors.iter().map(fault));
            }
        }
    }
    faults
}

/// What is wrong with how a fault was met, if anything is.
fn judge(template: &Sandbox, fault: &Fault) -> Option<String> {
    let &Fault { line, expected, call, error, when } = fault;
    let sandbox = Sandbox::new();
    copy(template.folder(), sandbox.folder());
    let before = sandbox.names();
    let site = Site::of(&sandbox);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null"]);
    if error == INTERRUPT {
        // Time for the thread that is told of it: after the call, and before another one gives a file
        // its name.
        let naming = ["linkat", "rename", "renameat", "renameat2"].iter();
        let others: Vec<&str> = naming.filter(|&&name| name != call).copied().collect();
        let others = others.join(",");
        strace.args(["-e", &format!("trace={call},{others}")]);
        strace.args(["-e", &format!("inject={others}:delay_enter=30000")]);
        let fault = format!("signal={INTERRUPT}:delay_exit=30000");
        strace.args(["-e", &format!("inject={call}:{fault}:when={when}")]);
    } else {
        strace.args(["-e", &format!("trace={call}")]);
        strace.args(["-e", &format!("inject={call}:error={error}:when={when}")]);
    }
    let output = strace
        .arg(BLOOMFILE)
        .args(line.split(' '))
        .current_dir(sandbox.folder())
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = format!("{:?}, {err:?}", output.status);
    let Some(code) = output.status.code() else { return Some(format!("a signal: {said}")) };
    if !(0..=2).contains(&code) && code <= 128 || err.contains("panicked") {
        return Some(format!("no exit status of the command: {said}"));
    }
    let done = code == expected;
    if error == INTERRUPT && !done && code != 143 {
        return Some(format!("not ended by the signal: {said}"));
    }
    if error == "EINTR" && !done {
        return Some(format!("not tried again: {said}"));
    }
    // What cannot be written to standard error is not said.
    let out = String::from_utf8_lossy(&output.stdout);
    // A thread without memory for its stack is one that cannot be had.
    let named = |words| err.contains(words) || out.contains(words);
    let named = named(words(error)) || error == "ENOMEM" && named(words("EAGAIN"));
    if !done && call != "write" && error != INTERRUPT && !named {
        return Some(format!("does not name the error: {said}"));
    }
    let names = sandbox.names();
    let new: Vec<&String> = names.iter().filter(|name| !before.contains(name)).collect();
    let may_be_made = |name: &String| {
        ["n.bloom", "n.part", "n.delta", "n.key", "page"].contains(&name.as_str())
            // What came goes on with the next call.
            || !done && line.starts_with("pull") && name.ends_with(".part")
    };
    // Only what could not be taken away may stay.
    let removed = !(call.starts_with("unlink") || call == "rmdir");
    if removed && !new.iter().all(|name| may_be_made(name)) {
        return Some(format!("left behind {new:?}: {said}"));
    }
    if let Some(what) = site.is_wrong(&sandbox, removed) {
        return Some(format!("site: {what}: {said}"));
    }
    if let Some(lost) = before.iter().find(|name| !names.contains(name)) {
        return Some(format!("lost {lost}: {said}"));
    }
    for file in names.iter().filter(|name| name.ends_with(".bloom") && *name != "damaged.bloom") {
        let verified = sandbox.run(&format!("verify {file}"));
        // Adds that did not fit into the small journal before a call failed leave pages that
        // nothing but their writer could have explained; nothing synced is lost with them.
        let unverifiable = verified.code == Some(2) && verified.out.contains(": not verifiable: ");
        if verified.code != Some(0) && !unverifiable {
            return Some(format!("{file} is not sound: {said}; {verified:?}"));
        }
        let removes = line.starts_with("remove") && file == "c.bloom";
        let replaced = file == "old.bloom" && line.contains("old.bloom");
        if removes || replaced || file == "n.bloom" {
            continue;
        }
        let secret = secret_of(file);
        let found = sandbox.run_with(&format!("check -c {file}{secret}"), numbers(60));
        if found.out != "60\n" {
            return Some(format!("{file} lost keys: {said}; {found:?}"));
        }
    }
    // What was told to be done is done.
    if done && line.starts_with("add") {
        let file = line.split(' ').nth(1).unwrap();
        let secret = secret_of(file);
        let found = sandbox.run(&format!("check -c {file}{secret} --from keys"));
        if found.out != "500\n" {
            return Some(format!("{file} lost what was added: {said}; {found:?}"));
        }
    }
    // And what failed can be done at last.
    let again = sandbox.command(line).output().unwrap();
    let said_again = String::from_utf8_lossy(&again.stderr);
    let exists = ["already exists", "it is there already", "is for another version"];
    let exists = exists.iter().any(|it| said_again.contains(it));
    // Published or pulled by the first call, or to be signed from now on.
    let same = ["publish", "pull"].iter().any(|it| line.starts_with(it))
        && (again.status.code() == Some(1) || said_again.contains("its manifest is signed"));
    if again.status.code() != Some(expected) && !exists && !same {
        return Some(format!("{said}; and then {again:?}"));
    }
    None
}

/// A publication: what is in its folder, and the version that it has.
struct Site {
    names: Vec<String>,
    manifest: serde_json::Value,
}

impl Site {
    fn of(sandbox: &Sandbox) -> Self {
        let names = std::fs::read_dir(sandbox.path("site")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let manifest = serde_json::from_slice(&sandbox.read("site/manifest.json")).unwrap();
        Site { names, manifest }
    }

    /// Whether something is missing, or there that no manifest names.
    fn is_wrong(&self, sandbox: &Sandbox, removed: bool) -> Option<String> {
        let now = Site::of(sandbox);
        let deltas = now.manifest["deltas"].as_array().unwrap().iter();
        let named: Vec<&str> = std::iter::once(&now.manifest["snapshot"])
            .chain(deltas)
            .map(|item| item["name"].as_str().unwrap())
            .collect();
        if let Some(missing) = named.iter().find(|name| !now.names.iter().any(|it| it == *name)) {
            return Some(format!("{missing} is missing"));
        }
        let known = |name: &String| {
            self.names.contains(name)
                || named.contains(&name.as_str())
                || name == "manifest.json.minisig"
        };
        match now.names.iter().find(|name| !known(name)) {
            Some(left) if removed => Some(format!("{left} was left behind")),
            _ => None,
        }
    }
}

/// Whether system calls can be traced here; says so where they cannot.
fn can_trace() -> bool {
    if !has("strace") {
        return false;
    }
    let can = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    let can = can.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: strace may not trace here");
    }
    can
}

/// Tries some of these faults, or all.
fn try_all(template: &Sandbox, all: &[Fault], most: usize) {
    // Steps that have no divisor in common with the number of errors of a call.
    let step = if most < all.len() { (all.len() / most).max(1) | 1 } else { 1 };
    let tried: Vec<&Fault> = all.iter().step_by(step).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(fault) = tried.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            if let Some(what) = judge(template, fault) {
                let Fault { line, call, error, when, .. } = fault;
                wrong.push(format!("{line}: {call} {when} fails with {error}: {what}"));
            }
        }
        wrong
    };
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        threads.into_iter().for_each(|thread| wrong.extend(thread.join().unwrap()));
    });
    println!("{} of {} faults tried", tried.len(), all.len());
    assert!(wrong.is_empty(), "{} are met badly:\n{}", wrong.len(), wrong.join("\n"));
}

/// How many faults are tried: `BLOOMFILE_FAULTS=all` tries every one, the name of a command those of it.
#[test]
fn system_calls_that_fail() {
    if !can_trace() {
        return;
    }
    let template = template();
    let wanted = std::env::var("BLOOMFILE_FAULTS").ok();
    let of = wanted.clone().filter(|wanted| wanted != "all").unwrap_or_default();
    let all = faults(&template, &|line| line.starts_with(&of), CALLS);
    try_all(&template, &all, if wanted.is_some() { usize::MAX } else { 250 });
}

/// Signals that come while a command makes a file: it ends, takes away what it made, and the files that
/// were there are there.
pub(crate) fn interrupted(commands: &[&str]) {
    // No unlink: calls are counted by thread, and that of the thread which takes files away would bring
    // a second signal, which ends the process at once.
    const CALLS: &[(&str, &[&str])] = &[
        ("fsync", &[INTERRUPT]),
        ("linkat", &[INTERRUPT]),
        ("rename", &[INTERRUPT]),
        ("renameat", &[INTERRUPT]),
        ("mkdir", &[INTERRUPT]),
        ("pwrite64", &[INTERRUPT]),
        ("ftruncate", &[INTERRUPT]),
    ];
    if !can_trace() {
        return;
    }
    let template = template();
    let wanted = |line: &str| commands.iter().any(|command| line.starts_with(command));
    // All of them, as each is a step of its own.
    try_all(&template, &faults(&template, &wanted, CALLS), usize::MAX);
}
