//! A web server that does what it should not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::host::{Host, random};

/// What the server does to a request for a file.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    /// Ends the connection after this number of bytes of the body.
    Cut(usize),
    /// The same for this many requests for a manifest, which is what other faults spare.
    CutManifest(usize, u32),
    /// The same for one request; after it `other.bloom` takes the place of the file that is asked for.
    CutAndReplaced(usize),
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
    /// After this number of requests `other.bloom` takes the place of the file that is asked for.
    Replaced(u32),
}

/// What the server tells of versions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tags {
    None,
    Weak,
    Strong,
}

pub(crate) struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    folder: PathBuf,
    fault: Fault,
    tags: Tags,
    /// Name, status and bytes of the body of each answer.
    log: Vec<(String, u16, usize)>,
}

impl Server {
    pub(crate) fn start(host: &Host) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State {
            folder: host.path("site"),
            fault: Fault::None,
            tags: Tags::None,
            log: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &shared);
            }
        });
        Server { port, state }
    }

    pub(crate) fn set(&self, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.fault = fault;
        state.log.clear();
    }

    pub(crate) fn tell_versions(&self, tags: Tags) {
        self.state.lock().unwrap().tags = tags;
    }

    /// Name, status and bytes of the body of each answer since the fault was set.
    pub(crate) fn log(&self) -> Vec<(String, u16, usize)> {
        self.state.lock().unwrap().log.clone()
    }

    /// Bytes of the bodies of all answers since the fault was set, the manifests left out.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state.lock().unwrap();
        let files = state.log.iter().filter(|(name, ..)| !name.contains("manifest"));
        files.map(|(.., bytes)| bytes).sum()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let name = line.split_whitespace().nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
    let (mut range, mut wanted, mut known) = (None, None, None);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let Some((field, value)) = header.trim().split_once(": ") else { continue };
        match field.to_ascii_lowercase().as_str() {
            "range" => {
                let (first, last) = value.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                let last = last.parse().unwrap_or(usize::MAX - 1);
                range = Some(first.parse::<usize>().unwrap()..last + 1);
            }
            "if-match" => wanted = Some(value.to_owned()),
            "if-none-match" => known = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut state = state.lock().unwrap();
    let fault = match (state.fault, name.contains("manifest")) {
        (Fault::CutManifest(most, left), true) => {
            state.fault = if left > 1 { Fault::CutManifest(most, left - 1) } else { Fault::None };
            Fault::Cut(most)
        }
        (Fault::CutManifest(..), false) | (_, true) => Fault::None,
        (Fault::CutAndReplaced(most), false) => {
            state.fault = Fault::Replaced(0);
            Fault::Cut(most)
        }
        (fault, false) => fault,
    };
    if let Fault::Replaced(left) = fault {
        if left == 0 {
            let other = state.folder.join("other.bloom");
            std::fs::copy(other, state.folder.join(&name)).unwrap();
            state.fault = Fault::None;
        } else {
            state.fault = Fault::Replaced(left - 1);
        }
    }
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
    let digest = bytes.iter().fold(1u64, |sum, &byte| random(sum, byte.into()));
    let tag = match state.tags {
        Tags::None => None,
        Tags::Weak => Some(format!("W/\"{digest:x}\"")),
        Tags::Strong => Some(format!("\"{digest:x}\"")),
    };
    let strong = tag.clone().filter(|tag| !tag.starts_with("W/"));
    let refused = match (&wanted, &known) {
        (wanted @ Some(_), _) if *wanted != strong => Some(412),
        (_, known @ Some(_)) if *known == tag => Some(304),
        _ => None,
    };
    let tag = tag.map(|tag| format!("ETag: {tag}\r\n")).unwrap_or_default();
    if let Some(status) = refused {
        state.log.push((name, status, 0));
        let head =
            format!("HTTP/1.1 {status} X\r\n{tag}Content-Length: 0\r\nConnection: close\r\n\r\n");
        return stream.write_all(head.as_bytes());
    }
    let range = range.filter(|_| fault != Fault::NoRanges);
    let (start, stop) = match &range {
        Some(range) => (range.start.min(bytes.len()), range.end.min(bytes.len())),
        None => (0, bytes.len()),
    };
    let mut body = bytes[start..stop].to_vec();
    let status = if range.is_some() { 206 } else { 200 };
    let mut head = format!("HTTP/1.1 {status} OK\r\n{tag}Connection: close\r\n");
    if range.is_some() {
        let (end, total) = (stop - 1, bytes.len());
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
