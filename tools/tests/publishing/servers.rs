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

/// nginx on two ports; the second, with a certificate, if there is one.
fn nginx(host: &Host, port: u16, secure: Option<u16>) -> Option<Running> {
    let folder = host.path("");
    let folder = folder.display();
    let secure = secure.map(|port| {
        format!(
            "listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; \
             ssl_certificate_key {folder}/key.pem;"
        )
    });
    let secure = secure.unwrap_or_default();
    let configuration = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n\
         events {{}}\n\
         http {{ log_format plain '$uri $status $body_bytes_sent'; access_log {folder}/access.log plain;\n\
         client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;\n\
         uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;\n\
         server {{ listen 127.0.0.1:{port}; {secure} root {folder}/site; }} }}\n"
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
    let Some(server) = nginx(&host, port, None) else {
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
    let server = nginx(&host, port, None).unwrap();
    assert!(child.wait().unwrap().success(), "and goes on when the server is back");
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() != old);
    host.is_current();
    drop(server);
}

/// Keys are asked where the file is: what is read of it, by the server's log.
#[test]
fn nginx_serves_a_file_that_is_asked() {
    let host = Host::new();
    host.publish();
    let port = free_port();
    let Some(_server) = nginx(&host, port, None) else {
        return eprintln!("skipped: asking a file behind nginx, which is not installed");
    };
    let name = host.snapshot().file_name().unwrap().to_str().unwrap().to_owned();
    let url = format!("http://127.0.0.1:{port}/{name}");
    let length = std::fs::metadata(host.snapshot()).unwrap().len();
    logged(&host);
    assert_eq!(host.run(&format!("check {url} 0")).ends(0).out, "0\n");
    let one = logged(&host);
    assert!(one <= 16_384 + 2 * 4096, "{one}");
    let keys: String = (0..100).map(|key| format!(" {key}")).collect();
    host.run(&format!("check -q --all {url}{keys}")).ends(0);
    let hundred = logged(&host);
    assert!(hundred < length, "{hundred}");
    host.run(&format!("check -q {url} absent")).ends(1);
    let publication = format!("http://127.0.0.1:{port}/");
    host.run(&format!("check -q {publication} 0")).ends(0);
    logged(&host);
    let there = host.run(&format!("inspect --json {url}")).ends(0).json();
    let inspected = logged(&host);
    let tables = 8 * length / 4096;
    assert!(inspected <= (64 << 10) + tables + 4096, "{inspected}");
    assert_eq!(there["file_bytes"], json!(length));
    println!(
        "of {length} bytes: a key {one}, 100 keys {hundred}, inspect {inspected}, as nginx counts"
    );
    let ran = host.run(&format!("check {publication}none.bloom 0")).ends(2);
    assert!(ran.err.contains("is not there (404"), "{}", ran.err);
    // The file is replaced under the same name, again and again, while it is asked.
    std::fs::copy(host.snapshot(), host.path("site/asked.bloom")).unwrap();
    host.add(20_000, 20_000);
    let replaced = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !replaced.load(std::sync::atomic::Ordering::Relaxed) {
                for file in [host.path("live.bloom"), host.snapshot()] {
                    std::fs::copy(file, host.path("next.bloom")).unwrap();
                    std::fs::rename(host.path("next.bloom"), host.path("site/asked.bloom"))
                        .unwrap();
                    std::thread::sleep(Duration::from_millis(150));
                }
            }
        });
        for _ in 0..10 {
            // Keys that are in both.
            let keys: String = (0..60).map(|key| format!(" {}", key * 331)).collect();
            host.run(&format!("check -q --all {publication}asked.bloom{keys}")).ends(0);
        }
        replaced.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// A certificate that only a variable tells of is trusted by it, and refused without it.
#[test]
fn nginx_with_a_certificate_of_its_own() {
    let host = Host::new();
    host.publish();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=bloomfile test", "-keyout"])
        .arg(host.path("key.pem"))
        .arg("-out")
        .arg(host.path("cert.pem"))
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return eprintln!("skipped: pulling by https, which needs openssl for a certificate");
    }
    let (port, secure) = (free_port(), free_port());
    let Some(_server) = nginx(&host, port, Some(secure)) else {
        return eprintln!("skipped: pulling by https from nginx, which is not installed");
    };
    let url = format!("https://127.0.0.1:{secure}");
    let run = |arguments: &str, certificates: Option<&str>| -> crate::host::Ran {
        let mut command = host.command(arguments);
        command.env_remove("SSL_CERT_FILE");
        if let Some(name) = certificates {
            command.env("SSL_CERT_FILE", name);
        }
        command.output().unwrap().into()
    };
    run(&format!("pull -q {url} pulled.bloom"), Some("cert.pem")).ends(0);
    host.is_current();
    let name = host.snapshot().file_name().unwrap().to_str().unwrap().to_owned();
    run(&format!("check -q {url}/{name} 0"), Some("cert.pem")).ends(0);
    std::fs::write(host.path("none.pem"), "nothing").unwrap();
    for (certificates, message) in [
        (None, "certificate"),
        (Some("none.pem"), "there is no certificate in it"),
        (Some("missing.pem"), "SSL_CERT_FILE, missing.pem, cannot be used"),
    ] {
        let ran = run(&format!("check {url}/{name} 0"), certificates).ends(2);
        assert!(ran.err.contains(message), "{}", ran.err);
        assert_eq!(ran.out, "");
    }
}

/// With `--every` a manifest comes again only when it changed.
#[test]
fn a_manifest_that_did_not_change_costs_nothing() {
    let host = Host::new();
    host.publish();
    let port = free_port();
    let Some(_server) = nginx(&host, port, None) else {
        return eprintln!("skipped: pulling from nginx again and again, which is not installed");
    };
    let mut command =
        host.command(&format!("pull --json --every 1s http://127.0.0.1:{port} pulled.bloom"));
    let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let output = child.0.stdout.take().unwrap();
    let mut pulls = serde_json::Deserializer::from_reader(output).into_iter::<Value>();
    let mut pull = || -> (String, u64) {
        let ran = pulls.next().unwrap().unwrap();
        (ran["way"].as_str().unwrap().into(), ran["transferred_bytes"].as_u64().unwrap())
    };
    assert_eq!(pull().0, "snapshot");
    logged(&host);
    for _ in 0..2 {
        assert_eq!(pull(), ("current".into(), 0));
    }
    assert_eq!(logged(&host), 0, "the server answers 304, without a body");
    host.publish_more(1);
    let (way, bytes) = std::iter::repeat_with(&mut pull).find(|(way, _)| way != "current").unwrap();
    assert_eq!(way, "deltas");
    assert!(bytes > 1_000, "{bytes}");
    assert_eq!(pull(), ("current".into(), 0));
    host.is_current();
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

/// Objects that the store's log says were asked for since the last time, and their bytes, which it does not
/// count.
fn asked(host: &Host) -> (usize, u64) {
    std::thread::sleep(Duration::from_millis(100));
    let path = host.path("moto.log");
    let log = std::fs::read_to_string(&path).unwrap();
    let before = host.path("moto.read");
    let read = std::fs::read_to_string(&before).map_or(0, |count| count.parse().unwrap());
    std::fs::write(before, log.len().to_string()).unwrap();
    let names = log[read..].lines().filter_map(|line| {
        let (_, rest) = line.split_once("\"GET /bucket/some/folder/")?;
        assert!(rest.contains("\" 200 "), "{line}");
        rest.split([' ', '?']).next()
    });
    let sizes = names.map(|name| std::fs::metadata(host.path("site").join(name)).unwrap().len());
    sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}

#[test]
fn an_object_store_serves_a_publication() {
    let host = Host::new();
    host.publish();
    let port = free_port();
    // Where tests/install-tools puts it, if the system's Python does not have it.
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto/bin/python");
    let mut command = Command::new(if own.exists() { own } else { "python3".into() });
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
    let log = std::fs::File::create(host.path("moto.log")).unwrap();
    command.stdout(Stdio::null()).stderr(log);
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
        crate::host::Ran::from(store(&mut command, port).output().unwrap()).ends(code).json()
    };
    assert_eq!(pull(0)["way"], "snapshot");
    host.is_current();
    assert_eq!(pull(1)["way"], "current");
    asked(&host);
    for versions in [1, 3] {
        host.publish_more(versions);
        upload(port, &host.path("site"));
        let ran = pull(0);
        assert_eq!((&ran["way"], &ran["deltas"]), (&json!("deltas"), &json!(versions)));
        host.is_current();
        let (files, bytes) = asked(&host);
        assert_eq!(files, versions as usize + 1, "the manifest, and each delta once");
        assert_eq!(ran["transferred_bytes"], json!(bytes));
        println!("{versions} deltas from S3: {bytes} bytes");
    }
    // Another size, over the file that is there: no delta leads to it.
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    host.run("create -q -f live.bloom --capacity 500k").ends(0);
    host.add(0, 20_000);
    host.publish();
    upload(port, &host.path("site"));
    let ran = pull(0);
    assert_eq!((&ran["way"], &ran["from_version"]), (&json!("snapshot"), &Value::Null));
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() != old);
    host.is_current();
    let (files, bytes) = asked(&host);
    assert_eq!((files, &ran["transferred_bytes"]), (2, &json!(bytes)));
    println!("a snapshot from S3: {bytes} bytes");
    // Cut off before: a range is asked for.
    std::fs::remove_file(host.path("pulled.bloom")).unwrap();
    let sha = host.manifest()["snapshot"]["sha256"].as_str().unwrap()[..16].to_owned();
    let bytes = std::fs::read(host.snapshot()).unwrap();
    let half = bytes.len() / 2;
    std::fs::write(host.path(&format!(".pulled.bloom.{sha}.part")), &bytes[..half]).unwrap();
    let ran = pull(0);
    assert!(ran["transferred_bytes"].as_u64().unwrap() < (bytes.len() - half + 10_000) as u64);
    host.is_current();
    // Asked where it is.
    let run = |arguments: &str| -> crate::host::Ran {
        store(&mut host.command(arguments), port).output().unwrap().into()
    };
    let name = host.snapshot().file_name().unwrap().to_str().unwrap().to_owned();
    let object = format!("s3://bucket/some/folder/{name}");
    assert_eq!(run(&format!("check {object} 0 absent 5")).ends(0).out, "0\n5\n");
    run("check -q s3://bucket/some/folder/ 0").ends(0);
    let there = run(&format!("inspect --json {object}")).ends(0).json();
    assert_eq!(there["file_bytes"], json!(bytes.len()));
    let ran = run("check s3://bucket/none.bloom 0").ends(2);
    assert!(ran.err.contains("is not there (404"), "{}", ran.err);
    // Another object under the same name, between any two ranges or never.
    put(port, "/bucket/asked", &bytes);
    host.add(30_000, 20_000);
    let live = std::fs::read(host.path("live.bloom")).unwrap();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            for _ in 0..5 {
                let keys: String = (0..40).map(|key| format!(" {}", key * 431)).collect();
                run(&format!("check -q --all s3://bucket/asked{keys}")).ends(0);
            }
        });
        while !asking.is_finished() {
            put(port, "/bucket/asked", &live);
            std::thread::sleep(Duration::from_millis(100));
            put(port, "/bucket/asked", &bytes);
            std::thread::sleep(Duration::from_millis(100));
        }
        asking.join().unwrap();
    });
}

/// Tells a command where the object store is.
fn store(command: &mut Command, port: u16) -> &mut Command {
    command
        .env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}"))
        .env("AWS_ACCESS_KEY_ID", "testing")
        .env("AWS_SECRET_ACCESS_KEY", "testing")
        .env("AWS_REGION", "us-east-1")
}
