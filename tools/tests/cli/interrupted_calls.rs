//! System calls that a signal interrupts, which is no failure: they are made again.

use std::process::Command;

use crate::sandbox::{BLOOMFILE, Ran, Sandbox};

/// Runs a command of which the calls of this name are interrupted, the first or the second; none
/// where tracing is not possible.
fn interrupted(sandbox: &Sandbox, calls: &str, when: u32, arguments: &str) -> Option<Ran> {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("trace={calls}"))
        .arg("-e")
        .arg(format!("inject={calls}:error=EINTR:when={when}"))
        .arg(BLOOMFILE)
        .args(arguments.split(' '))
        .current_dir(sandbox.folder())
        .output();
    output.ok().map(Ran::from)
}

#[test]
fn interrupted_calls_are_made_again() {
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", "sheep\ncow\n");
    let may_trace = interrupted(&sandbox, "fallocate", 1, "--version");
    if may_trace.is_none_or(|ran| ran.code != Some(0)) {
        return eprintln!("SKIPPED: strace is not there, or may not trace");
    }
    let commands = [
        "create -q a.bloom -n 1000 -p 1%",
        "add -q a.bloom --sync-every 1 --from keys.txt",
        "build -q b.bloom -n 1000 -p 1% keys.txt",
        "merge -q -o c.bloom a.bloom b.bloom",
        "merge -q -f -o c.bloom a.bloom b.bloom",
        "build -q -f c.bloom keys.txt",
        "repair a.bloom",
        "verify c.bloom",
        "check c.bloom sheep",
    ];
    for calls in [
        "fallocate",
        "flock",
        "msync",
        "fsync",
        "fdatasync",
        "ftruncate",
        "fcntl",
        "linkat",
        "rename,renameat,renameat2",
        "pwrite64",
        "lseek",
    ] {
        for when in [1, 2] {
            for name in ["a.bloom", "b.bloom", "c.bloom"] {
                let _ = std::fs::remove_file(sandbox.path(name));
            }
            for command in commands {
                let ran = interrupted(&sandbox, calls, when, command).unwrap();
                assert_eq!(ran.code, Some(0), "{command}, {calls} number {when}: {ran:?}");
            }
            sandbox.run("check --all a.bloom sheep cow").is(0, "sheep\ncow\n", "");
            assert_eq!(sandbox.names(), ["a.bloom", "b.bloom", "c.bloom", "keys.txt"]);
        }
    }
}
