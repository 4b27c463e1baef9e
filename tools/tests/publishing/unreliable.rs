//! Pulls from a web server that does what it should not.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use serde_json::json;

use crate::host::Host;
use crate::server::{Fault, Server, Tags};

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

/// The same for deltas, and for manifests, which come again from their beginning.
#[test]
fn deltas_and_manifests_that_are_cut_off() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let pull = || host.run(&format!("pull --json {} pulled.bloom", server.url())).ends(0);
    pull();
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    host.publish_more(2);
    let manifest = host.manifest();
    let deltas = manifest["deltas"].as_array().unwrap().iter();
    let size: usize = deltas.map(|delta| delta["bytes"].as_u64().unwrap() as usize).sum();
    for most in [1_000, size / 2 - 1, size] {
        std::fs::write(host.path("pulled.bloom"), &old).unwrap();
        server.set(Fault::Cut(most));
        let ran = pull();
        let told = ran.json();
        assert_eq!((&told["way"], &told["deltas"]), (&json!("deltas"), &json!(2)));
        assert_eq!((server.bytes(), ran.err.as_str()), (size, ""), "cut after {most}");
        let ranges = server.log().iter().filter(|(_, status, _)| *status == 206).count();
        assert_eq!(ranges > 0, most < size / 2, "cut after {most}");
        host.is_current();
    }
    let length = std::fs::metadata(host.path("site/manifest.json")).unwrap().len() as usize;
    for (most, times) in [(0, 1), (length / 2, 2), (length - 1, 1)] {
        std::fs::write(host.path("pulled.bloom"), &old).unwrap();
        server.set(Fault::CutManifest(most, times));
        let ran = pull();
        assert_eq!(ran.json()["way"], "deltas");
        let told = ran.err.matches("manifest.json was cut short").count();
        assert_eq!(told, times as usize, "cut after {most}: {}", ran.err);
        host.is_current();
    }
}

/// Another file under the same name between two ranges: what came of both is not taken. The old file stays,
/// and the next call gets the right one.
#[test]
fn a_file_that_is_replaced_between_two_ranges() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let pull = || host.run(&format!("pull --json {} pulled.bloom", server.url()));
    pull().ends(0);
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    host.publish_more(1);
    let with_delta = host.manifest();
    let mut without = host.manifest();
    without["deltas"] = json!([]);
    let snapshot = host.snapshot();
    let delta = host.path("site").join(with_delta["deltas"][0]["name"].as_str().unwrap());
    // Replaces a file in its middle, and tells the answers that it was asked with then.
    let replaced = |path: &std::path::Path, longer: usize| {
        let right = std::fs::read(path).unwrap();
        let mut other = right.clone();
        *other.last_mut().unwrap() ^= 1;
        other.extend(vec![7; longer]);
        std::fs::write(host.path("site/other.bloom"), other).unwrap();
        server.set(Fault::CutAndReplaced(right.len() / 2));
        let ran = pull();
        let name = path.file_name().unwrap().to_str().unwrap();
        let log = server.log().into_iter().filter(|(asked, ..)| asked == name);
        let answers: Vec<u16> = log.map(|(_, status, _)| status).collect();
        assert_eq!(answers, [200, 206]);
        assert!(std::fs::read(path).unwrap() != right, "it was replaced");
        std::fs::write(path, right).unwrap();
        ran
    };
    for tags in [Tags::None, Tags::Strong] {
        server.tell_versions(tags);
        for (longer, message) in
            [(0, "is not what the manifest says: its SHA-256"), (1, "bytes, and the manifest says")]
        {
            std::fs::write(host.path("site/manifest.json"), without.to_string()).unwrap();
            let ran = replaced(&snapshot, longer).ends(2);
            assert!(ran.err.contains(message), "{message}: {}", ran.err);
            assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old, "{message}");
            assert_eq!(pull().ends(0).json()["way"], "snapshot");
            host.is_current();

            std::fs::write(host.path("pulled.bloom"), &old).unwrap();
            std::fs::write(host.path("site/manifest.json"), with_delta.to_string()).unwrap();
            let told = replaced(&delta, longer).ends(0).json();
            assert_eq!(told["way"], "snapshot");
            assert!(told["problems"][0].as_str().unwrap().contains(message), "{told}");
            host.is_current();
            std::fs::write(host.path("pulled.bloom"), &old).unwrap();
        }
    }
}

/// Deltas that may come with the next call, and those that will not.
#[test]
fn answers_to_requests_for_deltas() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let pull = || host.run(&format!("pull --json {} pulled.bloom", server.url()));
    pull().ends(0);
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    host.publish_more(1);
    for (fault, reason) in [
        (Fault::OtherBytes, "is not what the manifest says"),
        (Fault::Truncated(1), "and the manifest says"),
        (Fault::Status(403, 1), "the server answers 403"),
        (Fault::Status(410, 4), "is not there (410"),
    ] {
        std::fs::write(host.path("pulled.bloom"), &old).unwrap();
        server.set(fault);
        if !matches!(fault, Fault::Status(..)) {
            // That does not end: the snapshot is served in the same way, and is no better.
            let ran = pull().ends(2);
            assert!(ran.err.contains("and is replaced by a snapshot"), "{}", ran.err);
            assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old, "{reason}");
            continue;
        }
        let told = pull().ends(0).json();
        assert_eq!(told["way"], "snapshot", "{reason}");
        assert!(told["problems"][0].as_str().unwrap().contains(reason), "{told}");
        host.is_current();
    }
    // Gone for a moment: no reason for more than waiting.
    std::fs::write(host.path("pulled.bloom"), &old).unwrap();
    server.set(Fault::Status(404, 1));
    let told = pull().ends(0).json();
    assert_eq!((&told["way"], &told["problems"]), (&json!("deltas"), &json!([])));
    host.is_current();
    // What may pass is an error while it does not: the chain is tried again by the next call.
    std::fs::write(host.path("pulled.bloom"), &old).unwrap();
    server.set(Fault::Status(503, 6));
    let ran = pull().ends(2);
    assert!(!ran.err.contains("snapshot"), "{}", ran.err);
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old);
    assert_eq!(pull().ends(0).json()["way"], "deltas");
    host.is_current();
}

/// What another pull has or needs stays: parts of files whose names begin alike, and parts that are locked.
#[test]
fn parts_of_other_pulls_stay() {
    let host = Host::new();
    host.publish();
    let digits = "0123456789abcdef";
    let [held, abandoned] =
        ["0", "1"].map(|digit| host.path(&format!(".pulled.{}.part", digit.repeat(16))));
    let others = [
        format!(".pulled.bloom.{digits}.part"),
        format!(".pulled.{digits}0.part"),
        ".pulled.0123456789abcde.part".into(),
        ".pulled.0123456789abcdeg.part".into(),
        format!(".pulled.{digits}.part.part"),
        format!("pulled.{digits}.part"),
        ".pulled.part".into(),
    ];
    let others: Vec<_> = others.iter().map(|name| host.path(name)).collect();
    for path in others.iter().chain([&held, &abandoned]) {
        std::fs::write(path, "half of it").unwrap();
    }
    let lock = std::fs::File::open(&held).unwrap();
    lock.lock().unwrap();
    host.run("pull -q site pulled").ends(0);
    for path in others.iter().chain([&held]) {
        assert!(path.exists(), "{}", path.display());
    }
    assert!(!abandoned.exists());
    drop(lock);
    host.run("pull -q site pulled").ends(1);
    assert!(!held.exists());
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
