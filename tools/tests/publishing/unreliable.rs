//! Pulls from a web server that does what it should not.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use serde_json::json;

use crate::host::Host;
use crate::server::{Fault, Server};

/// Cut off again and again, a download goes on where it was: each byte comes once.
#[test]
fn a_download_that_is_cut_off_goes_on() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let size = std::fs::metadata(host.snapshot()).unwrap().len() as usize;
    for most in [100_000, 250_001, 999_999, size - 1] {
        let _ = std::fs::remove_file(host.path("pulled.bloom"));
        server.set(Fault::Cut(most));
        let ran = host.run(&format!("pull --json {} pulled.bloom", server.url())).ends(0).json();
        assert_eq!(ran["way"], "snapshot");
        assert_eq!(server.bytes(), size, "cut after {most}");
        host.is_current();
    }
}

/// A process that ended in the middle: the next one goes on from there.
#[test]
fn what_another_process_left_is_used() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let bytes = std::fs::read(host.snapshot()).unwrap();
    let sha = host.manifest()["snapshot"]["sha256"].as_str().unwrap()[..16].to_owned();
    let part = host.path(&format!(".pulled.bloom.{sha}.part"));
    let pull = format!("pull -q {} pulled.bloom", server.url());
    for kept in [1, 4_096, bytes.len() - 1, bytes.len()] {
        let _ = std::fs::remove_file(host.path("pulled.bloom"));
        std::fs::write(&part, &bytes[..kept]).unwrap();
        server.set(Fault::None);
        host.run(&pull).ends(0);
        assert_eq!(server.bytes(), bytes.len() - kept);
        host.is_current();
    }
    // What is there is something else: all of it comes again.
    for junk in [vec![7; 5_000], vec![7; bytes.len()], vec![7; bytes.len() + 1]] {
        let _ = std::fs::remove_file(host.path("pulled.bloom"));
        std::fs::write(&part, &junk).unwrap();
        server.set(Fault::None);
        host.run(&pull).ends(0);
        host.is_current();
    }
    // A server without ranges.
    let _ = std::fs::remove_file(host.path("pulled.bloom"));
    std::fs::write(&part, &bytes[..9_999]).unwrap();
    server.set(Fault::NoRanges);
    host.run(&pull).ends(0);
    assert_eq!(server.bytes(), bytes.len());
    host.is_current();
}

/// Answers that are wrong: an error or the right file, and the old one stays until then.
#[test]
fn answers_that_are_wrong() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    host.run(&format!("pull -q {} pulled.bloom", server.url())).ends(0);
    host.publish_more(1);
    // No delta: the snapshot has to come.
    let mut manifest = host.manifest();
    manifest["deltas"] = json!([]);
    std::fs::write(host.path("site/manifest.json"), manifest.to_string()).unwrap();
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    let sha = manifest["snapshot"]["sha256"].as_str().unwrap()[..16].to_owned();
    let part = host.path(&format!(".pulled.bloom.{sha}.part"));
    let bytes = std::fs::read(host.snapshot()).unwrap();
    for (fault, message) in [
        (Fault::Truncated(1), "and the manifest says"),
        (Fault::OtherRange, "was asked for those from"),
        (Fault::Nonsense, "no sensible range"),
        (Fault::OtherBytes, "is not what the manifest says"),
        (Fault::Status(403, 1), "the server answers 403"),
    ] {
        // Half of it is there, so that a range is asked for, where that is what goes wrong.
        let whole = matches!(fault, Fault::OtherBytes | Fault::Truncated(_));
        let half = if whole { 0 } else { bytes.len() / 2 };
        std::fs::write(&part, &bytes[..half]).unwrap();
        server.set(fault);
        let ran = host.run(&format!("pull {} pulled.bloom", server.url())).ends(2);
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
        assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old, "{message}");
        let _ = std::fs::remove_file(&part);
    }
    // Errors that pass are waited for.
    server.set(Fault::Status(503, 2));
    let ran = host.run(&format!("pull {} pulled.bloom", server.url())).ends(0);
    assert!(ran.err.contains("trying again in"), "{}", ran.err);
    host.is_current();
}

/// Files that go while they are being pulled: the next manifest has others.
#[test]
fn a_version_that_comes_in_between() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let gone = host.snapshot();
    let first = host.manifest();
    host.publish_more(1);
    std::fs::remove_file(gone).unwrap();
    let second = host.manifest();
    std::fs::write(host.path("site/manifest.json"), first.to_string()).unwrap();
    let path = host.path("site/manifest.json");
    let later = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(400));
        std::fs::write(path, second.to_string()).unwrap();
    });
    host.run(&format!("pull -q {} pulled.bloom", server.url())).ends(0);
    later.join().unwrap();
    host.is_current();
}

/// No server at all, and a disk without room.
#[test]
fn no_server_and_no_space() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let url = server.url();
    host.run(&format!("pull -q {url} pulled.bloom")).ends(0);
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = host.command(&format!("pull http://{closed} pulled.bloom --every 1h"));
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Ends with the command, if that does not go on trying.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("trying again in")), "it does not try again");
    assert!(child.try_wait().unwrap().is_none(), "it goes on trying");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old);

    host.publish_more(1);
    // As large as files may get here.
    let script = format!("ulimit -f 600; exec {} pull {url} pulled.bloom", crate::host::BLOOMFILE);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", &script]).current_dir(host.path(""));
    let ran: crate::host::Ran = limited.output().unwrap().into();
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old);
    host.run(&format!("pull -q {url} pulled.bloom")).ends(0);
    host.is_current();
}

/// A disk that is full: an error that says so, and the file that was there is in use.
#[test]
fn a_disk_that_is_full() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let url = server.url();
    host.run(&format!("pull -q {url} pulled.bloom")).ends(0);
    host.publish_more(1);
    std::fs::create_dir(host.path("disk")).unwrap();
    let bloomfile = crate::host::BLOOMFILE;
    // Room for the file that is there and half of another one; then for more.
    let script = format!(
        "mount -t tmpfs -o size=2m bloomfile-test disk || exit 77
         cp pulled.bloom disk/pulled.bloom
         pull() {{ {bloomfile} pull {url} disk/pulled.bloom; }}
         untouched() {{ cmp pulled.bloom disk/pulled.bloom && {bloomfile} check -q disk/pulled.bloom 5; }}
         pull && exit 10; untouched || exit 11
         cp site/manifest.json whole.json; cp without.json site/manifest.json
         pull && exit 12; untouched || exit 13
         mount -o remount,size=8m disk || exit 14
         cp whole.json site/manifest.json
         pull || exit 15
         cp disk/pulled.bloom pulled.bloom; ls -A disk"
    );
    let mut manifest = host.manifest();
    manifest["deltas"] = json!([]);
    std::fs::write(host.path("without.json"), manifest.to_string()).unwrap();
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(host.path(""));
    let ran: crate::host::Ran = match command.output() {
        Ok(output) if output.status.code() == Some(77) || output.status.code() == Some(1) => {
            return eprintln!("skipped: pulling to a full disk, which takes a right to mount");
        }
        Ok(output) => output.into(),
        Err(_) => return eprintln!("skipped: pulling to a full disk, which needs unshare"),
    };
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.err.matches("No space left on device").count(), 2, "{}", ran.err);
    assert!(ran.out.ends_with("transferred\npulled.bloom\n"), "{}", ran.out);
    host.is_current();
}
