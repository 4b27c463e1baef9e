//! Signatures of publications: what is signed, what a reader finds beside a manifest, and what is left
//! by a call that ended in the middle.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::host::{Host, Ran};

fn minisign(host: &Host, arguments: &str) -> std::io::Result<Ran> {
    let mut command = Command::new("minisign");
    command.args(arguments.split(' ')).current_dir(host.path(""));
    command.output().map(Ran::from)
}

/// A host with two pairs of keys; `None`, and a line that says so, without minisign.
fn host() -> Option<Host> {
    let host = Host::new();
    for name in ["key", "other"] {
        if minisign(&host, &format!("-G -W -p {name}.pub -s {name}.sec")).is_err() {
            eprintln!("skipped: signed publications, which need minisign");
            return None;
        }
    }
    Some(host)
}

const SIGNATURE: &str = "site/manifest.json.minisig";

fn verifies(host: &Host, key: &str) -> bool {
    minisign(host, &format!("-V -m site/manifest.json -p {key}.pub")).unwrap().code == 0
}

#[test]
fn what_was_published_without_a_signature_is_signed_later() {
    let Some(host) = host() else { return };
    let first = host.publish();
    assert_eq!(first["signed"], json!(false));
    let manifest = std::fs::read(host.path("site/manifest.json")).unwrap();
    let ran = host.run("publish live.bloom site --sign key.sec").ends(0);
    assert_eq!(ran.out, "site: version 1 is current: nothing new but its signature\n");
    assert!(verifies(&host, "key"));
    assert!(std::fs::read(host.path("site/manifest.json")).unwrap() == manifest, "as it was");
    host.run("pull -q site pulled.bloom --verify-key key.pub").ends(0);
    // Once is enough, and the next key takes the place of the first.
    let signature = std::fs::read(host.path(SIGNATURE)).unwrap();
    host.run("publish live.bloom site --sign key.sec").ends(1);
    assert!(std::fs::read(host.path(SIGNATURE)).unwrap() == signature);
    host.run("publish live.bloom site --sign other.sec").ends(0);
    assert!(verifies(&host, "other"));
    // A damaged one is no signature.
    std::fs::write(host.path(SIGNATURE), "nonsense").unwrap();
    host.run("publish live.bloom site --sign key.sec").ends(0);
    assert!(verifies(&host, "key"));
}

/// A key with a password, as minisign makes it if it is not told otherwise: the password comes from the
/// environment.
#[test]
fn a_key_with_a_password() {
    let Some(host) = host() else { return };
    let mut command = Command::new("minisign");
    command.args(["-G", "-p", "guarded.pub", "-s", "guarded.sec"]).current_dir(host.path(""));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // Asked for twice.
    child.stdin.take().unwrap().write_all("pass word\npass word\n".as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let publish = |password: Option<&str>| -> Ran {
        let mut command = host.command("publish --json live.bloom site --sign guarded.sec");
        command.env_remove("BLOOMFILE_SIGN_PASSWORD");
        if let Some(password) = password {
            command.env("BLOOMFILE_SIGN_PASSWORD", password);
        }
        command.output().unwrap().into()
    };
    for none in [None, Some("")] {
        let ran = publish(none).ends(2);
        let told = "guarded.sec: cannot be used as a secret key: it has a password; put that in \
                    BLOOMFILE_SIGN_PASSWORD";
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let ran = publish(Some("another")).ends(2);
    assert!(ran.err.contains("guarded.sec: cannot be used as a secret key: "), "{}", ran.err);
    assert!(!ran.err.contains("another"), "{}", ran.err);
    assert!(!host.path("site").exists(), "before any work is done");

    assert_eq!(publish(Some("pass word")).ends(0).json()["signed"], json!(true));
    assert!(verifies(&host, "guarded"));
    assert!(!verifies(&host, "key"));
    host.run("pull -q site pulled.bloom --verify-key guarded.pub").ends(0);
    host.add(500_000, 100);
    publish(Some("pass word")).ends(0);
    assert!(verifies(&host, "guarded"));
    host.run("pull -q site pulled.bloom --verify-key guarded.pub").ends(0);
    host.is_current();
}

/// With nothing new the report is that of the version that is there.
#[test]
fn reports_of_what_is_there() {
    let Some(host) = host() else { return };
    host.run("publish -q live.bloom site --sign key.sec").ends(0);
    host.add(500_000, 100);
    let made = host.run("publish --json live.bloom site --sign key.sec").ends(0).json();
    assert_eq!((&made["published"], &made["signed"]), (&json!(true), &json!(true)));
    assert!(made["delta"].is_string());
    let mut expected = made;
    expected["published"] = json!(false);
    for arguments in ["", " --sign key.sec"] {
        let again = host.run(&format!("publish --json live.bloom site{arguments}"));
        assert_eq!(again.ends(1).json(), expected, "{arguments}");
    }
    std::fs::remove_file(host.path(SIGNATURE)).unwrap();
    expected["signed"] = json!(false);
    assert_eq!(host.run("publish --json live.bloom site").ends(1).json(), expected);
}

/// No version without a signature follows one that has it, unless that is asked for; then none stays
/// that is not the manifest's.
#[test]
fn a_signed_folder_stays_signed() {
    let Some(host) = host() else { return };
    host.run("publish -q live.bloom site --sign key.sec").ends(0);
    host.run("pull -q site pulled.bloom --verify-key key.pub").ends(0);
    host.add(500_000, 100);
    let files = || {
        let files = std::fs::read_dir(host.path("site")).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        files.sort();
        files
    };
    let before = files();
    let ran = host.run("publish live.bloom site").ends(2);
    assert_eq!(
        ran.err,
        "bloomfile: site: its manifest is signed, and those who ask for a signature would refuse \
         one without; sign it with --sign KEY_FILE, or publish without a signature from now on \
         with --unsigned\n"
    );
    assert_eq!(files(), before);
    assert!(verifies(&host, "key"));
    host.run("pull -q site pulled.bloom --verify-key key.pub").ends(1);

    let made = host.run("publish --json live.bloom site --unsigned").ends(0).json();
    assert_eq!((&made["version"], &made["signed"]), (&json!(2), &json!(false)));
    assert!(!host.path(SIGNATURE).exists());
    let ran = host.run("pull site pulled.bloom --verify-key key.pub").ends(2);
    assert!(ran.err.contains("manifest.json is not signed, and --verify-key"), "{}", ran.err);
    host.add(600_000, 100);
    assert_eq!(host.publish()["version"], json!(3), "from then on nothing has to be said");
    host.run("publish live.bloom site --sign key.sec --unsigned").ends(2);
}

/// Whatever ends the command between two of its steps: those who ask for a signature get a whole version
/// or an error, those who do not get a whole version, and the next call makes all of it right.
#[test]
fn a_call_that_ends_in_the_middle() {
    let Some(host) = host() else { return };
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !traced.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: publishing that is killed, which needs strace");
    }
    host.run("publish -q live.bloom site --sign key.sec").ends(0);
    host.add(500_000, 100);
    let copy = |from: &str, to: &str| {
        let _ = std::fs::remove_dir_all(host.path(to));
        std::fs::create_dir(host.path(to)).unwrap();
        for entry in std::fs::read_dir(host.path(from)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), host.path(to).join(entry.file_name())).unwrap();
        }
    };
    copy("site", "before");
    let mut between = 0;
    for options in ["--sign key.sec", "--unsigned"] {
        // Each is counted by itself.
        for (call, most) in
            [("rename", 3), ("renameat", 3), ("renameat2", 3), ("unlink", 5), ("unlinkat", 3)]
        {
            for when in 1..=most {
                copy("before", "site");
                let mut command = Command::new("strace");
                let inject = format!("inject={call}:signal=KILL:when={when}");
                command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
                command.args(["-e", &inject, crate::host::BLOOMFILE]);
                command.args(format!("publish -q live.bloom site {options}").split(' '));
                let killed = !command.current_dir(host.path("")).status().unwrap().success();
                let version = host.manifest()["version"].as_u64().unwrap();
                let said = format!("{options}, {call} {when}, killed: {killed}");
                let _ = std::fs::remove_file(host.path("pulled.bloom"));
                host.run("pull -q site pulled.bloom").ends(0);
                host.is_current();
                let ran = host.run("pull -q site pulled.bloom --verify-key key.pub");
                if verifies(&host, "key") {
                    assert_eq!(ran.code, 1, "{said}");
                } else {
                    let told = "manifest.json is not signed";
                    assert!(ran.code == 2 && ran.err.contains(told), "{said}: {}", ran.err);
                    between += usize::from(killed && version == 1);
                }
                let again = host.run("publish --json live.bloom site --sign key.sec");
                assert!(again.code <= 1, "{said}: {}", again.err);
                assert_eq!(again.json()["version"], json!(2), "{said}");
                assert!(verifies(&host, "key"), "{said}");
                let files = std::fs::read_dir(host.path("site")).unwrap();
                let mut names = files.map(|file| file.unwrap().file_name());
                assert!(names.all(|name| name != ".bloomfile-publish"), "{said}: it was left");
                host.run("pull -q site pulled.bloom --verify-key key.pub");
                host.is_current();
            }
        }
    }
    assert!(between > 0, "no call ended between the two files");
}

/// A manifest that cannot be written leaves the version before, with its signature.
#[test]
fn a_version_that_cannot_be_written_changes_nothing() {
    let Some(host) = host() else { return };
    host.run("publish -q live.bloom site --sign key.sec").ends(0);
    host.add(500_000, 100);
    let before: Vec<Value> = vec![host.manifest()];
    // What cannot be replaced: a folder in the place of the signature.
    std::fs::rename(host.path(SIGNATURE), host.path("kept")).unwrap();
    std::fs::create_dir(host.path(SIGNATURE)).unwrap();
    host.run("publish live.bloom site --sign key.sec").ends(2);
    std::fs::remove_dir(host.path(SIGNATURE)).unwrap();
    std::fs::rename(host.path("kept"), host.path(SIGNATURE)).unwrap();
    assert_eq!(vec![host.manifest()], before);
    assert!(verifies(&host, "key"));
    let left = std::fs::read_dir(host.path("site")).unwrap().count();
    assert_eq!(left, 4, "lock, manifest, signature and snapshot");
}
