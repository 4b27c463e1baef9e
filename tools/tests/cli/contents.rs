//! What a file holds: the digest of it, and figures that count what the journal adds.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Sandbox, numbers};

fn inspect(sandbox: &Sandbox, file: &str, options: &str) -> Value {
    let ran = sandbox.run(&format!("inspect --json {file}{options}"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{file}");
    serde_json::from_str(&ran.out).unwrap()
}

fn digest(sandbox: &Sandbox, file: &str) -> String {
    inspect(sandbox, file, " --digest")["digest"].as_str().unwrap().to_owned()
}

/// The same keys and options, whatever else differs: how they came in, in what order, after how many
/// syncs, with which journal, metadata and identity.
#[test]
fn the_digest_is_that_of_the_contents() {
    let sandbox = Sandbox::new();
    let mut backwards: Vec<u32> = (1..=2000).collect();
    backwards.reverse();
    let backwards: String = backwards.iter().map(|number| format!("{number}\n")).collect();
    for layout in ["line", "page", "rows", "flat"] {
        let shape = format!("-n 3000 -p 0.1% --layout {layout}");
        sandbox.run_with(&format!("build -q -f a.bloom {shape}"), numbers(2000)).is(0, "", "");
        let other = format!("create -q -f b.bloom {shape} --journal 64KiB --meta keys=numbers");
        sandbox.run(&other).is(0, "", "");
        assert_ne!(digest(&sandbox, "b.bloom"), digest(&sandbox, "a.bloom"), "{layout}");
        sandbox.run_with("add -q b.bloom --sync-every 100", &backwards).is(0, "", "");
        let expected = digest(&sandbox, "a.bloom");
        assert!(expected.len() == 64 && expected.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(digest(&sandbox, "b.bloom"), expected, "{layout}");
        let identity = |file| inspect(&sandbox, file, "")["uuid"].clone();
        assert_ne!(identity("a.bloom"), identity("b.bloom"));

        // One more key, another seed, another capacity.
        sandbox.run("add -q b.bloom wolf").is(0, "", "");
        assert_ne!(digest(&sandbox, "b.bloom"), expected, "{layout}");
        for other in ["--seed 1", "-p 1%"] {
            let build = format!("build -q -f c.bloom -n 3000 --layout {layout} {other}");
            sandbox.run_with(&build, numbers(2000)).is(0, "", "");
            assert_ne!(digest(&sandbox, "c.bloom"), expected, "{layout}, {other}");
        }
    }
    // Shown on the screen and on the page too.
    let expected = digest(&sandbox, "a.bloom");
    let out = sandbox.run("inspect a.bloom --digest").out;
    assert!(out.contains(&format!("\n  digest        {expected}\n")), "{out}");
    assert!(!sandbox.run("inspect a.bloom").out.contains("digest"), "which reads no data");
    let page = sandbox.run("inspect a.bloom --html -").out;
    assert!(page.contains(&expected), "{page}");
}

/// A digest that was once computed stays what it is: other programs keep it.
#[test]
fn the_digest_is_as_it_is_described() {
    use sha2::Digest as _;

    let sandbox = Sandbox::with_filter();
    let bytes = sandbox.read("a.bloom");
    let mut superblock = bytes[..4096].to_vec();
    // uuid, journal_bytes and the checksum (format-spec.md, section 2).
    superblock[32..48].fill(0);
    superblock[64..72].fill(0);
    superblock[4092..].fill(0);
    let json = inspect(&sandbox, "a.bloom", "");
    let segment = &json["segments"][0];
    let number = |value: &Value| value.as_u64().unwrap();
    let geometry = &segment["geometry"];
    assert_eq!(geometry["layout"], "line");
    let numbers = [
        3,
        number(&geometry["rows"]),
        number(&geometry["blocks"]),
        number(&geometry["row_cells"]),
        number(&segment["pages"]),
    ];
    let data = &bytes[bytes.len() - number(&segment["data_bytes"]) as usize..];
    let mut expected = sha2::Sha256::new();
    expected.update(b"bloomfile contents 1\n");
    expected.update(superblock);
    numbers.iter().for_each(|number| expected.update(number.to_le_bytes()));
    data.chunks(1 << 20).for_each(|chunk| expected.update(sha2::Sha256::digest(chunk)));
    let expected: String = expected.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest(&sandbox, "a.bloom"), expected);
    assert_eq!(bloomfile::ops::digest_bytes(&bytes).unwrap().to_string(), expected);
}

#[test]
fn several_segments_and_counters_have_a_digest() {
    let sandbox = Sandbox::new();
    for kind in ["--grow", "--generations 3 --rotate-after 700", "--kind counting"] {
        for (file, sync) in [("a.bloom", 0), ("b.bloom", 50)] {
            sandbox.run(&format!("create -q -f {file} -n 1000 {kind}")).is(0, "", "");
            let add = format!("add -q {file} --sync-every {sync}");
            sandbox.run_with(&add, numbers(2000)).is(0, "", "");
        }
        assert_eq!(digest(&sandbox, "a.bloom"), digest(&sandbox, "b.bloom"), "{kind}");
        sandbox.run("add -q b.bloom wolf").is(0, "", "");
        assert_ne!(digest(&sandbox, "a.bloom"), digest(&sandbox, "b.bloom"), "{kind}");
    }
}

#[test]
fn verify_expects_a_digest() {
    let sandbox = Sandbox::with_filter();
    let expected = digest(&sandbox, "a.bloom");
    sandbox.run(&format!("verify a.bloom --expect {expected}")).is(
        0,
        "a.bloom: sound: 1 page as written; the digest is the one expected\n",
        "",
    );
    let upper = expected.to_uppercase();
    assert_eq!(sandbox.run(&format!("verify -q a.bloom --expect {upper}")).code, Some(0));
    sandbox.run("add -q a.bloom wolf").is(0, "", "");
    let found = digest(&sandbox, "a.bloom");
    let told = format!("a.bloom: not what was expected: the digest of its contents is {found}\n");
    sandbox.run(&format!("verify a.bloom --expect {expected}")).is(1, &told, "");
    let json = sandbox.run(&format!("verify --json a.bloom --expect {expected}"));
    assert_eq!(json.code, Some(1));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["files"][0]["verdict"], "different");
    assert_eq!(json["files"][0]["digest"], found.as_str());
    let json: Value = serde_json::from_str(&sandbox.run("verify --json a.bloom").out).unwrap();
    assert_eq!(json["files"][0]["digest"], Value::Null);
    sandbox.run("verify a.bloom --expect 1234").is(
        2,
        "",
        "bloomfile: invalid value '1234' for '--expect <DIGEST>': not 64 hex digits, as inspect \
         --digest prints them\n\nFor more information, try '--help'.\n",
    );

    // A damaged file is damaged, whatever it was expected to be.
    let mut bytes = sandbox.read("a.bloom");
    *bytes.last_mut().unwrap() ^= 1;
    sandbox.write("a.bloom", bytes);
    let ran = sandbox.run(&format!("verify a.bloom --expect {found}"));
    assert!(ran.code == Some(1) && ran.out.starts_with("a.bloom: damaged: "), "{}", ran.out);
    let ran = sandbox.run("inspect a.bloom --digest");
    assert!(ran.code == Some(2) && ran.err.contains("1 data page is damaged"), "{}", ran.err);
}

/// What a live writer has synced, and what a crash left in the journal, is in the figures.
#[test]
fn figures_count_the_journal() {
    let sandbox = Sandbox::new();
    // Room for all, so that no checkpoint takes them out of the journal.
    sandbox.run("create -q a.bloom -n 40k --journal 8MiB").is(0, "", "");
    sandbox.run_with("build -q whole.bloom -n 40k", numbers(29_000)).is(0, "", "");
    let mut writer = sandbox.command("add a.bloom --sync-every 1000");
    let mut writer = writer.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = writer.stdin.take().unwrap();
    input.write_all(numbers(29_000).as_bytes()).unwrap();
    input.flush().unwrap();
    let whole = inspect(&sandbox, "whole.bloom", "");
    let is_whole = |found: &Value| {
        let (found, whole) = (&found["segments"][0], &whole["segments"][0]);
        ["ones", "fill", "keys", "rate_now", "row_ones"].iter().all(|&f| found[f] == whole[f])
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let live = loop {
        let live = inspect(&sandbox, "a.bloom", "");
        if is_whole(&live) {
            break live;
        }
        assert!(Instant::now() < deadline, "{live}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((&live["health"], &live["journal_full"]), (&"live".into(), &false.into()));
    writer.kill().unwrap();
    writer.wait().unwrap();

    let crashed = inspect(&sandbox, "a.bloom", "");
    assert_eq!(crashed["health"], "crashed");
    assert!(is_whole(&crashed), "{crashed}");
    let adds = crashed["segments"][0]["adds"].as_u64().unwrap();
    assert!(adds > 28_500 && adds <= 29_000, "{adds}");
    let records = crashed["journal_records"].as_u64().unwrap();
    assert_eq!(records, adds);
    let out = sandbox.run("inspect a.bloom").out;
    assert!(out.contains("\n  holds         about 29,0") || out.contains("about 28,9"), "{out}");
    let thousands = |number: u64| format!("{},{:03}", number / 1000, number % 1000);
    let counted =
        format!("\n                {} adds in the journal, counted above\n", thousands(records));
    assert!(out.contains(&counted), "{out}");
    let expected = digest(&sandbox, "whole.bloom");
    assert_eq!(digest(&sandbox, "a.bloom"), expected, "as it is once it is recovered");
    sandbox.run("add -q a.bloom").is(0, "", "");
    assert_eq!(digest(&sandbox, "a.bloom"), expected);
}

/// Readers refuse a clean file beside whose slot there is a damaged one, if a page is not what it
/// says: no word of good order, then.
#[test]
fn a_damaged_slot_is_no_good_order() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 1000 --journal 0").is(0, "", "");
    sandbox.run("add -q a.bloom sheep").is(0, "", "");
    let bytes = sandbox.read("a.bloom");
    let sequence = |slot: usize| u64::from_le_bytes(bytes[slot + 8..][..8].try_into().unwrap());
    let newest = if sequence(4096) > sequence(8192) { 4096 } else { 8192 };
    for (slot, is_newest) in [(newest, true), (4096 + 8192 - newest, false)] {
        let mut bytes = bytes.clone();
        bytes[slot + 40] ^= 1;
        sandbox.write("a.bloom", bytes);
        assert_eq!(inspect(&sandbox, "a.bloom", "")["slot_damaged"], true);
        let out = sandbox.run("inspect a.bloom").out;
        let told = "\n                one of its two slots is damaged: what was written last may be \
                    lost\n";
        assert!(out.contains(told), "{out}");
        if inspect(&sandbox, "a.bloom", "")["health"] == "clean" {
            let advice = "\n  advice        bloomfile verify a.bloom tells whether anything is lost; \
                          if so, restore it from a copy\n";
            assert!(out.ends_with(advice), "{out}");
        }
        let page = sandbox.run("inspect a.bloom --html -").out;
        assert!(page.contains("damaged; it may be the newer one"), "{page}");
        if !is_newest {
            sandbox.run("check a.bloom sheep").is(0, "sheep\n", "");
        }
    }
    sandbox.write("a.bloom", &bytes);
    assert_eq!(inspect(&sandbox, "a.bloom", "")["slot_damaged"], false);
}
