//! A web server that does what it should not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::host::Host;

/// What the server does to a request for a file.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Ends the connection after this number of bytes of the body.
    Cut(usize),
    /// Says that the body is this number of bytes shorter than it is, and sends that.
    Truncated(usize),
    /// Answers 200 with the whole file where a range was asked for.
    NoRanges,
    /// Answers with another range than was asked for.
    OtherRange,
    /// Answers with a range that makes no sense.
    Nonsense,
    /// Answers so for this many requests.
    Status(u16, u32),
    /// Sends the right number of bytes, the first of which is another.
    OtherBytes,
}

struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    folder: PathBuf,
    fault: Fault,
    /// Name, status and bytes of the body of each answer.
    log: Vec<(String, u16, usize)>,
}

impl Server {
    fn start(host: &Host) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { folder: host.path("site"), fault: Fault::None, log: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &shared);
            }
        });
        Server { port, state }
    }

    fn set(&self, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.fault = fault;
        state.log.clear();
    }

    /// Bytes of the bodies of all answers since the fault was set, the manifests left out.
    fn bytes(&self) -> usize {
        let state = self.state.lock().unwrap();
        let files = state.log.iter().filter(|(name, ..)| !name.contains("manifest"));
        files.map(|(.., bytes)| bytes).sum()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let name = line.split_whitespace().nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
    let mut from = None;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some(range) = header.to_ascii_lowercase().strip_prefix("range: bytes=") {
            from = range.trim().trim_end_matches('-').parse::<usize>().ok();
        }
    }
    let mut state = state.lock().unwrap();
    let fault = if name.contains("manifest") { Fault::None } else { state.fault };
    let Ok(bytes) = std::fs::read(state.folder.join(&name)) else {
        state.log.push((name, 404, 0));
        return stream
            .write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    if let Fault::Status(status, left) = fault {
        state.fault = if left > 1 { Fault::Status(status, left - 1) } else { Fault::None };
        state.log.push((name, status, 0));
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return stream.write_all(head.as_bytes());
    }
    let start = from.filter(|_| fault != Fault::NoRanges).unwrap_or(0).min(bytes.len());
    let mut body = bytes[start..].to_vec();
    let ranged = from.is_some() && fault != Fault::NoRanges;
    let status = if ranged { 206 } else { 200 };
    let mut head = format!("HTTP/1.1 {status} OK\r\nConnection: close\r\n");
    if ranged {
        let (end, total) = (bytes.len() - 1, bytes.len());
        head += &match fault {
            Fault::OtherRange => format!("Content-Range: bytes {}-{end}/{total}\r\n", start + 1),
            Fault::Nonsense => "Content-Range: bytes all/of/it\r\n".into(),
            _ => format!("Content-Range: bytes {start}-{end}/{total}\r\n"),
        };
    }
    if fault == Fault::OtherBytes && start == 0 {
        body[0] ^= 1;
    }
    if let Fault::Truncated(less) = fault {
        body.truncate(body.len().saturating_sub(less));
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    if let Fault::Cut(most) = fault {
        body.truncate(most);
    }
    stream.write_all(head.as_bytes())?;
    state.log.push((name, status, body.len()));
    drop(state);
    stream.write_all(&body)?;
    // The client may have ended first.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read(&mut [0; 1]);
    Ok(())
}

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
    std::thread::sleep(std::time::Duration::from_millis(900));
    assert!(child.try_wait().unwrap().is_none(), "it goes on trying");
    child.kill().unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("trying again in"), "{said}");
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
