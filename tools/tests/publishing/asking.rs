//! `check` and `inspect` of files at addresses, of which ranges are read.

use crate::host::Host;

/// Without the network an address is refused with a sentence that says so; others always are.
#[test]
fn addresses_that_cannot_be_read() {
    let host = Host::new();
    for command in ["check ftp://example.org/a.bloom key", "inspect ftp://example.org/a.bloom"] {
        let ran = host.run(command).ends(2);
        assert!(ran.err.contains("none of http, https and s3"), "{}", ran.err);
    }
    let ran = host.run("check file:///some/a.bloom key").ends(2);
    assert!(ran.err.contains("give its path, /some/a.bloom"), "{}", ran.err);
    #[cfg(not(feature = "network"))]
    for command in [
        "check http://127.0.0.1:1/a.bloom key",
        "inspect https://127.0.0.1:1/a.bloom",
        "inspect --bytes s3://bucket/a.bloom",
        "inspect --pages --json s3://bucket/a.bloom",
    ] {
        let ran = host.run(command).ends(2);
        assert!(ran.err.contains("was built without the network; install it with"), "{}", ran.err);
        assert_eq!(ran.out, "");
    }
}

#[cfg(feature = "network")]
mod by_ranges {
    use std::net::TcpListener;

    use crate::host::{Host, Ran, random};
    use crate::server::{Fault, Server, Tags};

    /// `asked.bloom` is behind the server: the live filter.
    fn serve(host: &Host) -> Server {
        std::fs::create_dir_all(host.path("site")).unwrap();
        std::fs::copy(host.path("live.bloom"), host.path("site/asked.bloom")).unwrap();
        let server = Server::start(host);
        server.tell_versions(Tags::Strong);
        server
    }

    fn ask(host: &Host, server: &Server, arguments: &str) -> Ran {
        host.run(&format!("check {}/asked.bloom {arguments}", server.url()))
    }

    #[test]
    fn the_answers_are_those_of_the_file() {
        let host = Host::new();
        let server = serve(&host);
        let ran = ask(&host, &server, "0 1 2 absent").ends(0);
        assert_eq!(ran.out, "0\n1\n2\n");
        ask(&host, &server, "absent").ends(1);
        ask(&host, &server, "--all 0 absent").ends(1);
        assert_eq!(ask(&host, &server, "--json 7").ends(0).json()["answer"], "maybe");
        // A list, in several batches; half of it is absent.
        let keys: Vec<String> = (10_000..30_000).map(|key| key.to_string()).collect();
        std::fs::write(host.path("list"), keys.join("\n")).unwrap();
        let here = host.run("check live.bloom --answers --from list").ends(0);
        assert_eq!(ask(&host, &server, "--answers --from list").ends(0).out, here.out);
        assert!(here.out.lines().filter(|line| line.starts_with("no")).count() > 9_000);
        // Another filter takes out what is in it.
        host.run("build -q site/deleted.bloom keys").ends(0);
        let deleted = format!("--except {}/deleted.bloom 0 20000", server.url());
        ask(&host, &server, &deleted).ends(1);
        let ran = host.run(&format!("check live.bloom {deleted}")).ends(1);
        assert_eq!(ran.out, "");
        // What is said of the file itself is the same.
        for options in ["--json --pages", "--pages", "--bytes", "--bytes --json"] {
            let [here, there] = ["live.bloom", &format!("{}/asked.bloom", server.url())]
                .map(|file| host.run(&format!("inspect {file} {options}")).ends(0).out);
            let there = there.replace(&server.url(), "").replace("/asked.bloom", "live.bloom");
            assert!(there == here || options.contains("bytes"), "{options}");
            assert!(!there.is_empty());
        }
        let [here, there] = ["live.bloom", &format!("{}/asked.bloom", server.url())]
            .map(|file| host.run(&format!("inspect --json {file}")).ends(0).json());
        for field in ["uuid", "segments", "file_bytes", "health", "metadata", "capacity"] {
            assert_eq!(here[field], there[field], "{field}");
        }
        let text = host.run(&format!("inspect {}/asked.bloom", server.url())).ends(0).out;
        assert!(text.contains("bloomfile verify asked.bloom"), "{text}");
        for option in ["--digest", "--loads", "--html page.html", "--bytes --all"] {
            let ran = host.run(&format!("inspect {}/asked.bloom {option}", server.url())).ends(2);
            assert!(ran.err.contains("takes all of its data"), "{}", ran.err);
        }
        let ran = ask(&host, &server, "--memory 0").ends(2);
        assert!(ran.err.contains("leave out --memory"), "{}", ran.err);
    }

    /// The secret is for those of two files that are keyed, wherever they are.
    #[test]
    fn keyed_and_unkeyed_files_are_asked_together() {
        let host = Host::new();
        let server = serve(&host);
        host.run("keygen a.key").ends(0);
        std::fs::write(host.path("seven"), "7\n").unwrap();
        host.run("build -q site/keyed.bloom seven -n 100 -p 0.01% --key-file a.key").ends(0);
        let keyed = format!("{}/keyed.bloom", server.url());
        let answers = "maybe\t6\nno\t7\nno\tabsent\n";
        let options = format!("--answers --key-file a.key --except {keyed} 6 7 absent");
        assert_eq!(ask(&host, &server, &options).ends(0).out, answers);
        assert_eq!(host.run(&format!("check live.bloom {options}")).ends(0).out, answers);
        let ran = ask(&host, &server, "--key-file a.key 7").ends(2);
        assert!(ran.err.contains("asked.bloom: is not keyed: leave out --key-file"), "{}", ran.err);
        let ran = host.run(&format!("check {keyed} 7")).ends(2);
        assert!(ran.err.contains("keyed.bloom: is keyed: it takes the secret key"), "{}", ran.err);
        host.run(&format!("check {keyed} 7 --key-file a.key")).ends(0);
    }

    /// Headers, entries and pages, each once, and few requests.
    #[test]
    fn what_is_read() {
        let host = Host::new();
        let server = serve(&host);
        let read = |arguments: &str, requests: usize, bytes: usize| {
            server.set(Fault::None);
            ask(&host, &server, arguments).ends(0);
            let log = server.log();
            assert_eq!((log.len(), server.bytes()), (requests, bytes), "{arguments}: {log:?}");
        };
        // With the first record of the second half of its journal.
        read("0", 4, 32_768 + 2 * 4096);
        read("0 0 0", 4, 32_768 + 2 * 4096);
        host.run("compact -q --journal 0 -f live.bloom -o site/asked.bloom").ends(0);
        // The entry of this key is among the first.
        read("0", 2, 16_384 + 4096);
        let all: Vec<String> = (0..3_000).map(|key| key.to_string()).collect();
        server.set(Fault::None);
        ask(&host, &server, &format!("-c {}", all.join(" "))).ends(0);
        let length = std::fs::metadata(host.path("live.bloom")).unwrap().len() as usize;
        assert!(server.log().len() <= 6 && server.bytes() <= length, "{:?}", server.log());
        println!(
            "a key: 2 requests, {} bytes; 3,000 keys: {} requests, {} bytes of {length}",
            16_384 + 4096,
            server.log().len(),
            server.bytes()
        );
        // A server that tells no versions: the page tables are read, too, and hold the pages together.
        for tags in [Tags::None, Tags::Weak] {
            server.tell_versions(tags);
            server.set(Fault::None);
            ask(&host, &server, "0").ends(0);
            assert!(server.bytes() <= (80 << 10) + 3 * 4096, "{:?}", server.log());
        }
    }

    /// A publication: its snapshot has another name in each version.
    #[test]
    fn a_publication_is_asked() {
        let host = Host::new();
        host.publish();
        let server = Server::start(&host);
        server.tell_versions(Tags::Strong);
        let check = |key: &str| host.run(&format!("check {}/ {key}", server.url()));
        check("0").ends(0);
        check("20500").ends(1);
        host.publish_more(1);
        let version = host.manifest()["version"].as_u64().unwrap();
        assert_eq!(version, 2);
        check("21500").ends(0);
        let ran = host.run(&format!("inspect --json {}/", server.url())).ends(0).json();
        assert!(ran["metadata"]["published"].as_str().unwrap().ends_with(" 2"));
        std::fs::write(host.path("site/manifest.json"), "{}").unwrap();
        let ran = check("0").ends(2);
        assert!(ran.err.contains("is not a manifest"), "{}", ran.err);
    }

    /// Replaced after any number of requests: each answer is that of one of the two files.
    #[test]
    fn a_file_that_is_replaced_is_read_again() {
        let host = Host::new();
        let server = serve(&host);
        let old = std::fs::read(host.path("site/asked.bloom")).unwrap();
        // Of the same geometry, with all keys of the old one and as many again.
        host.add(20_000, 20_000);
        std::fs::copy(host.path("live.bloom"), host.path("site/other.bloom")).unwrap();
        let keys: String = (0..40).map(|key| format!("{} ", random(5, key) % 20_000)).collect();
        for tags in [Tags::Strong, Tags::Weak, Tags::None] {
            server.tell_versions(tags);
            let mut again = 0;
            for requests in 0..12 {
                std::fs::write(host.path("site/asked.bloom"), &old).unwrap();
                server.set(Fault::Replaced(requests));
                let ran = ask(&host, &server, &format!("--all -q {}", keys.trim())).ends(0);
                assert_eq!(ran.err, "");
                let log = server.log();
                again += usize::from(log.iter().any(|(_, status, _)| *status == 412));
                std::fs::write(host.path("site/asked.bloom"), &old).unwrap();
                server.set(Fault::Replaced(requests));
                host.run(&format!("inspect {}/asked.bloom", server.url())).ends(0);
            }
            assert_eq!(again > 1, tags == Tags::Strong, "{again}");
        }
        // By one with another seed: keys have other hashes there.
        server.tell_versions(Tags::Strong);
        std::fs::write(host.path("site/asked.bloom"), &old).unwrap();
        host.run("build -q -f site/other.bloom keys --seed 7").ends(0);
        server.set(Fault::Replaced(2));
        let ran = ask(&host, &server, "0 1 2 3").ends(2);
        assert!(ran.err.contains("takes keys in another way"), "{}", ran.err);
    }

    /// Answers that are wrong are errors, each with a sentence of its own.
    #[test]
    fn answers_that_are_wrong() {
        let host = Host::new();
        let server = serve(&host);
        for (fault, message) in [
            (Fault::NoRanges, "the whole file where a part was asked for (200, not 206)"),
            (Fault::OtherRange, "and was asked for 0 to"),
            (Fault::Nonsense, "no sensible range"),
            (Fault::Truncated(1), "bytes, and says that it has"),
            (Fault::Cut(5_000), "cut short"),
            (Fault::Status(403, 9), "the server answers 403"),
            (Fault::Status(404, 9), "is not there (404"),
            (Fault::Status(416, 9), "the file is empty, and no bloomfile"),
            (Fault::OtherBytes, "is not a bloomfile"),
        ] {
            for command in ["check -q", "inspect"] {
                server.set(fault);
                let key = if command == "inspect" { "" } else { " 0" };
                let ran = host.run(&format!("{command} {}/asked.bloom{key}", server.url())).ends(2);
                assert!(ran.err.contains(message), "{message}: {}", ran.err);
            }
        }
        server.set(Fault::Status(503, 2));
        let ran = ask(&host, &server, "0").ends(0);
        assert!(ran.err.contains("trying again in"), "{}", ran.err);
        // A damaged page is an error where it is asked.
        let length = std::fs::metadata(host.path("live.bloom")).unwrap().len();
        let mut bytes = std::fs::read(host.path("live.bloom")).unwrap();
        bytes[length as usize / 2..].fill(0);
        std::fs::write(host.path("site/asked.bloom"), bytes).unwrap();
        server.set(Fault::None);
        let keys: String = (0..50).map(|key| format!(" {key}")).collect();
        let ran = ask(&host, &server, &format!("--all -q{keys}")).ends(2);
        assert!(ran.err.contains("damaged"), "{}", ran.err);
        // No server.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let ran = host.run(&format!("check -q http://{closed}/a.bloom 0")).ends(2);
        assert!(ran.err.contains("cannot be fetched"), "{}", ran.err);
    }
}
