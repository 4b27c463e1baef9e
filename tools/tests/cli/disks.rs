//! Disks that are full or cannot be written.
//!
//! Each test mounts a small file system for itself, in a mount namespace of its own that ends with
//! it. Where that is not allowed the tests say so and are skipped.

use std::process::{Command, Stdio};

use crate::sandbox::{BLOOMFILE, Ran, Sandbox};

/// Runs a shell script in the sandbox, with a file system of 512 KiB mounted on the folder `disk`;
/// none where mounting is not allowed.
fn on_a_small_disk(sandbox: &Sandbox, script: &str) -> Option<Ran> {
    std::fs::create_dir(sandbox.path("disk")).unwrap();
    let shell = |namespace: &str, script: &str| {
        let mount = "mount -t tmpfs -o size=512k bloomfile-test disk";
        Command::new("unshare")
            .args([namespace, "sh", "-ec", &format!("{mount}\n{script}")])
            .current_dir(sandbox.folder())
            .env("BLOOMFILE", BLOOMFILE)
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())
    };
    // For root; and for others, who are root in a namespace of their own.
    let namespace = ["-m", "-rm"].into_iter().find(|namespace| shell(namespace, "").is_some());
    match namespace {
        Some(namespace) => Some(shell(namespace, script).unwrap().into()),
        None => {
            eprintln!("skipped: this test may not mount a file system");
            None
        }
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let script = r#"
        "$BLOOMFILE" create disk/a.bloom -n 9 -p 1% --journal 1M 2>&1 || echo "exit $?"
        echo key | "$BLOOMFILE" build disk/a.bloom --journal 1M 2>&1 || echo "exit $?"
        "$BLOOMFILE" create -q disk/small.bloom -n 9 -p 1% --journal 0
        "$BLOOMFILE" add -q disk/small.bloom sheep
        # Replacing a filter by one that does not fit keeps the old one.
        echo key | "$BLOOMFILE" build --force disk/small.bloom --journal 1M 2>&1 || echo "exit $?"
        "$BLOOMFILE" check disk/small.bloom sheep
        # What is in a file stays writable when the disk has no room left.
        head -c 1M /dev/zero > disk/filler 2>/dev/null || true
        "$BLOOMFILE" add -q disk/small.bloom cow
        "$BLOOMFILE" check disk/small.bloom cow
        "$BLOOMFILE" verify disk/small.bloom
        ls -A disk
    "#;
    let Some(ran) = on_a_small_disk(&sandbox, script) else { return };
    let full = "cannot allocate space for the file: No space left on device (os error 28); free \
                some space or choose another folder\nexit 2\n";
    ran.is(
        0,
        &format!(
            "bloomfile: disk/a.bloom: {full}bloomfile: disk/a.bloom: {full}\
             bloomfile: disk/small.bloom: {full}sheep\ncow\n\
             disk/small.bloom: sound: 1 page as written\nfiller\nsmall.bloom\n"
        ),
        "",
    );
}

#[test]
fn a_read_only_folder() {
    let sandbox = Sandbox::new();
    let script = r#"
        "$BLOOMFILE" create -q disk/a.bloom -n 9 -p 1% --journal 0
        "$BLOOMFILE" add -q disk/a.bloom sheep
        mount -o remount,ro disk
        "$BLOOMFILE" create disk/b.bloom -n 9 -p 1% 2>&1 || echo "exit $?"
        echo key | "$BLOOMFILE" build disk/b.bloom 2>&1 || echo "exit $?"
        "$BLOOMFILE" add disk/a.bloom key 2>&1 || echo "exit $?"
        "$BLOOMFILE" check disk/a.bloom sheep
        "$BLOOMFILE" verify disk/a.bloom
        ls -A disk
    "#;
    let Some(ran) = on_a_small_disk(&sandbox, script) else { return };
    let why = "Read-only file system (os error 30)";
    let advice = "check the permissions of the file and its folder\nexit 2\n";
    ran.is(
        0,
        &format!(
            "bloomfile: disk/b.bloom: cannot create a file in the folder: {why}; {advice}\
             bloomfile: disk/b.bloom: cannot create a file in the folder: {why}; {advice}\
             bloomfile: disk/a.bloom: cannot open the file for writing: {why}; {advice}\
             sheep\ndisk/a.bloom: sound: 1 page as written\na.bloom\n"
        ),
        "",
    );
}
