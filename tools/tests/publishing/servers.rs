//! Real servers: nginx, and an object store.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::Host;

/// A server that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until a port answers; false if it does not.
fn answers(port: u16, child: &mut Child) -> bool {
    (0..150).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let ended = child.try_wait().is_ok_and(|ended| ended.is_some());
        !ended && TcpStream::connect(("127.0.0.1", port)).is_ok()
    })
}

fn nginx(host: &Host, port: u16) -> Option<Running> {
    let folder = host.path("");
    let folder = folder.display();
    let configuration = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n\
         events {{}}\n\
         http {{ log_format plain '$uri $status $body_bytes_sent'; access_log {folder}/access.log plain;\n\
         client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;\n\
         uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;\n\
         server {{ listen 127.0.0.1:{port}; root {folder}/site; }} }}\n"
    );
    std::fs::write(host.path("nginx.conf"), configuration).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(host.path("nginx.conf")).stderr(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().ok()?;
    answers(port, &mut child).then_some(Running(child))
}

/// Bytes of bodies that the server's log counts, and forgets.
fn logged(host: &Host) -> u64 {
    std::thread::sleep(Duration::from_millis(50));
    let path = host.path("access.log");
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    log.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn nginx_serves_a_publication() {
    let host = Host::new();
    host.publish();
    let port = free_port();
    let Some(server) = nginx(&host, port) else {
        return eprintln!("skipped: pulling from nginx, which is not installed");
    };
    let url = format!("http://127.0.0.1:{port}");
    let pull = |code: i32| {
        let ran = host.run(&format!("pull --json {url} pulled.bloom")).ends(code).json();
        let logged = logged(&host);
        assert_eq!(ran["transferred_bytes"], json!(logged), "as the server's log has it");
        (ran["way"].as_str().unwrap().to_owned(), ran["deltas"].as_u64().unwrap(), logged)
    };
    let mut lines = Vec::new();
    lines.push(("new", pull(0)));
    lines.push(("nothing to do", pull(1)));
    host.publish_more(1);
    lines.push(("a delta", pull(0)));
    host.publish_more(4);
    lines.push(("a chain", pull(0)));
    host.is_current();
    host.run("create -q -f live.bloom --capacity 500k").ends(0);
    host.publish();
    lines.push(("another size", pull(0)));
    host.is_current();
    let ways: Vec<(&str, u64)> =
        lines.iter().map(|(_, (way, deltas, _))| (way.as_str(), *deltas)).collect();
    let expected = [("snapshot", 0), ("current", 0), ("deltas", 1), ("deltas", 4), ("snapshot", 0)];
    assert_eq!(ways, expected);
    for (what, (way, _, bytes)) in lines {
        println!("{what}: {way}, {bytes} bytes");
    }
    // Stopped in the middle of its life: the old file stays.
    host.publish_more(1);
    drop(server);
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    let mut child =
        host.command(&format!("pull {url} pulled.bloom")).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(800));
    assert!(child.try_wait().unwrap().is_none(), "it tries again");
    let server = nginx(&host, port).unwrap();
    assert!(child.wait().unwrap().success(), "and goes on when the server is back");
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() != old);
    host.is_current();
    drop(server);
}

/// A request to the object store, which asks for a signature and takes any.
fn put(port: u16, path: &str, body: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n\
         Authorization: AWS4-HMAC-SHA256 \
         Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn upload(port: u16, folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with('.') && name != "manifest.json" {
            put(port, &format!("/bucket/some/folder/{name}"), &std::fs::read(&path).unwrap());
        }
    }
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    put(port, "/bucket/some/folder/manifest.json", &manifest);
}

#[test]
fn an_object_store_serves_a_publication() {
    let host = Host::new();
    host.publish();
    let port = free_port();
    let mut command = Command::new("python3");
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let server = command.spawn().ok().and_then(|mut child| {
        let running = answers(port, &mut child);
        let server = Running(child);
        running.then_some(server)
    });
    let Some(_server) = server else {
        return eprintln!("skipped: pulling from S3, which needs moto of PyPI");
    };
    put(port, "/bucket", b"");
    upload(port, &host.path("site"));
    let pull = |code: i32| -> Value {
        let mut command = host.command("pull --json s3://bucket/some/folder pulled.bloom");
        command
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}"))
            .env("AWS_ACCESS_KEY_ID", "testing")
            .env("AWS_SECRET_ACCESS_KEY", "testing")
            .env("AWS_REGION", "us-east-1");
        crate::host::Ran::from(command.output().unwrap()).ends(code).json()
    };
    assert_eq!(pull(0)["way"], "snapshot");
    host.is_current();
    assert_eq!(pull(1)["way"], "current");
    host.publish_more(3);
    upload(port, &host.path("site"));
    let ran = pull(0);
    assert_eq!((&ran["way"], &ran["deltas"]), (&json!("deltas"), &json!(3)));
    host.is_current();
    // Cut off before: a range is asked for.
    std::fs::remove_file(host.path("pulled.bloom")).unwrap();
    let sha = host.manifest()["snapshot"]["sha256"].as_str().unwrap()[..16].to_owned();
    let bytes = std::fs::read(host.snapshot()).unwrap();
    std::fs::write(host.path(&format!(".pulled.bloom.{sha}.part")), &bytes[..1_000_000]).unwrap();
    let ran = pull(0);
    assert!(ran["transferred_bytes"].as_u64().unwrap() < bytes.len() as u64 - 900_000);
    host.is_current();
}
