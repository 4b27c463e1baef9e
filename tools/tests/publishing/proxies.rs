//! What lies between the command and a server: proxies that the environment names, and the sources that
//! are not reached.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::host::{Host, Ran};
use crate::server::Server;

/// Host, and the credentials that came with it.
type Asked = Vec<(String, Option<String>)>;

/// A proxy that leads to one server, whatever host it is asked for: only by it can a name be reached
/// that stands for none.
struct Proxy {
    port: u16,
    /// What it was asked for.
    asked: Arc<Mutex<Asked>>,
}

impl Proxy {
    fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, target) = (Arc::clone(&asked), target.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = lead(stream, &target, &log);
            }
        });
        Proxy { port, asked }
    }

    /// What it was asked for since the last call.
    fn asked(&self) -> Asked {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// Answers CONNECT, and passes on what comes from either side.
fn lead(mut client: TcpStream, target: &str, log: &Mutex<Asked>) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut credentials = None;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.trim().split_once(": ")
            && name.eq_ignore_ascii_case("proxy-authorization")
        {
            credentials = Some(value.to_owned());
        }
    }
    let mut words = line.split_whitespace();
    if words.next() != Some("CONNECT") {
        return client.write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
    }
    let host = words.next().unwrap_or_default().to_owned();
    log.lock().unwrap().push((host, credentials));
    let mut server = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    let requests = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = requests.join();
    Ok(())
}

fn run(host: &Host, arguments: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = host.command(arguments);
    command.env_remove("no_proxy").env_remove("NO_PROXY");
    for name in ["AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"] {
        command.env_remove(name);
    }
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().unwrap().into()
}

#[test]
fn a_proxy_of_the_environment_is_used() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let proxy = Proxy::start(server.url().strip_prefix("http://").unwrap());
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let far = "http://filters.invalid";
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        let _ = std::fs::remove_file(host.path("pulled.bloom"));
        run(&host, &format!("pull -q {far} pulled.bloom"), &[(name, &address)]).ends(0);
        host.is_current();
        let asked = proxy.asked();
        assert!(!asked.is_empty(), "{name}");
        assert!(asked.iter().all(|it| *it == ("filters.invalid:80".into(), None)), "{asked:?}");
    }
    server.tell_versions(crate::server::Tags::Strong);
    let snapshot = host.snapshot();
    let name = snapshot.file_name().unwrap().to_str().unwrap();
    run(&host, &format!("check -q {far}/{name} 0"), &[("http_proxy", &address)]).ends(0);
    assert!(!proxy.asked().is_empty());
    // A name and a password.
    let known = format!("http://user:secret@127.0.0.1:{}", proxy.port);
    run(&host, &format!("pull -q {far} pulled.bloom"), &[("http_proxy", &known)]).ends(1);
    assert_eq!(proxy.asked()[0].1.as_deref(), Some("Basic dXNlcjpzZWNyZXQ="));
    // A store that speaks S3.
    let ran = run(
        &host,
        "pull -q s3://bucket/words pulled.bloom",
        &[("http_proxy", &address), ("AWS_ENDPOINT", "http://store.invalid:9000")],
    );
    assert!(ran.ends(2).err.contains("is not there (404"), "the server knows no buckets");
    assert_eq!(proxy.asked()[0].0, "store.invalid:9000");
}

/// What another kind of address is for, and hosts that need none, go straight.
#[test]
fn a_proxy_is_left_out_where_it_should_be() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let proxy = Proxy::start(server.url().strip_prefix("http://").unwrap());
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let pull = format!("pull -q {} pulled.bloom", server.url());
    let straight: &[&[(&str, &str)]] = &[
        &[("https_proxy", &address)],
        &[("http_proxy", "")],
        &[("http_proxy", &address), ("no_proxy", "example.org, 127.0.0.1")],
        &[("http_proxy", &address), ("NO_PROXY", "*")],
    ];
    for variables in straight {
        let _ = std::fs::remove_file(host.path("pulled.bloom"));
        run(&host, &pull, variables).ends(0);
        assert_eq!(proxy.asked(), [], "{variables:?}");
    }
    let variables = [("http_proxy", address.as_str()), ("no_proxy", "7.0.0.1,.org")];
    run(&host, &pull, &variables).ends(1);
    assert!(!proxy.asked().is_empty(), "no end of a name is the host");
}

/// A proxy that cannot be used is an error: without it a request would go where it must not.
#[test]
fn a_proxy_that_cannot_be_used() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let pull = format!("pull -q {} pulled.bloom", server.url());
    for (proxy, reason) in [
        ("socks5://user:secret@127.0.0.1:9", "speaks SOCKS5, which this program does not"),
        ("gopher://user:secret@127.0.0.1:9", "cannot be used: "),
    ] {
        for name in ["http_proxy", "ALL_PROXY"] {
            let ran = run(&host, &pull, &[(name, proxy)]).ends(2);
            let told = format!("the proxy that {name} names {reason}");
            assert!(ran.err.contains(&told) && !ran.err.contains("secret"), "{}", ran.err);
            assert!(!host.path("pulled.bloom").exists());
        }
    }
    assert_eq!(server.log(), []);
}

#[test]
fn credentials_that_are_not_there() {
    let host = Host::new();
    host.publish();
    let server = Server::start(&host);
    let endpoint = ("AWS_ENDPOINT_URL", &*server.url());
    let pull = "pull -q s3://site/folder pulled.bloom";
    let ran = run(&host, pull, &[endpoint, ("AWS_ACCESS_KEY_ID", "name")]).ends(2);
    let told = "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set";
    assert!(ran.err.contains(told), "{}", ran.err);
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", refusing.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in refusing.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                line.clear();
            }
            let _ = stream.write_all(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let advice = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set";
    let ran = run(&host, pull, &[("AWS_ENDPOINT", &url)]).ends(2);
    assert!(ran.err.contains("answers 403") && ran.err.contains(advice), "{}", ran.err);
    let check = "check -q s3://site/file 0";
    let ran = run(&host, check, &[("AWS_ENDPOINT", &url)]).ends(2);
    assert!(ran.err.contains("answers 403") && ran.err.contains(advice), "{}", ran.err);
    let keys = [("AWS_ACCESS_KEY_ID", "name"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let ran = run(&host, pull, &[("AWS_ENDPOINT", &url), keys[0], keys[1]]).ends(2);
    assert!(ran.err.contains("answers 403") && !ran.err.contains(advice), "{}", ran.err);
}
