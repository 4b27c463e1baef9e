//! `delta` and `apply`: what they make, what they say, and what is refused, in which case nothing changes.

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, numbers};

/// The numbers from `first` to `last`, one per line.
fn range(first: u32, last: u32) -> String {
    (first..=last).map(|number| format!("{number}\n")).collect()
}

/// Every kind that takes keys, with what it is created with, what opens it, and how many segments the
/// old and the new version of it have.
const KINDS: [(&str, &str, &str, usize, usize); 8] = [
    ("line", "-n 10000", "", 1, 1),
    ("page", "-n 10000 --layout page", "", 1, 1),
    ("rows", "-n 10000 --layout rows", "", 1, 1),
    ("flat", "-n 10000 --layout flat", "", 1, 1),
    ("counting", "-n 10000 --kind counting", "", 1, 1),
    ("growing", "-n 400 --grow", "", 2, 3),
    ("rotating", "-n 10000 --generations 3", "", 1, 2),
    ("keyed", "-n 10000", " --key-file key", 1, 1),
];

/// A sandbox with `old.bloom` (1 to 1000), `new.bloom` (1 to 1500) and the delta between them.
fn versions(options: &str, secret: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    if !secret.is_empty() {
        assert_eq!(sandbox.run("keygen key").code, Some(0));
    }
    let create = format!("create -q old.bloom {options} -p 1% --journal 64KiB{secret}");
    sandbox.run(&create).is(0, "", "");
    sandbox.run_with(&format!("add -q old.bloom{secret}"), numbers(1000)).is(0, "", "");
    sandbox.write("new.bloom", sandbox.read("old.bloom"));
    sandbox.run_with(&format!("add -q new.bloom{secret}"), range(1001, 1500)).is(0, "", "");
    if options.contains("--generations") {
        sandbox.run("rotate -q new.bloom").is(0, "", "");
    }
    sandbox.run("delta -q old.bloom new.bloom -o it.delta").is(0, "", "");
    sandbox
}

/// The digest of a file, as `inspect` tells it.
fn digest(sandbox: &Sandbox, name: &str) -> String {
    let report = json(&sandbox.run(&format!("inspect --json --digest {name}")));
    report["digest"].as_str().unwrap().to_owned()
}

#[track_caller]
fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// `FILE` holds what `new.bloom` holds, and is sound.
#[track_caller]
fn is_new(sandbox: &Sandbox, name: &str, secret: &str) {
    assert_eq!(digest(sandbox, name), digest(sandbox, "new.bloom"), "{name}");
    assert_eq!(sandbox.run(&format!("verify -q {name}")).code, Some(0), "{name}");
    let check = format!("check --all --count {name}{secret}");
    sandbox.run_with(&check, numbers(1500)).is(0, "1500\n", "");
}

#[test]
fn every_kind_becomes_the_new_version() {
    for (kind, options, secret, ..) in KINDS {
        let sandbox = versions(options, secret);
        let old = sandbox.read("old.bloom");
        let (bytes, size) = (sandbox.read("it.delta").len(), sandbox.read("new.bloom").len());
        assert!(bytes < size / 10, "{kind}: {bytes} of {size}");
        let ran = sandbox.run("apply it.delta old.bloom -o made.bloom");
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{kind}");
        let told = format!(", digest {}\n", digest(&sandbox, "new.bloom"));
        assert!(ran.out.starts_with("made.bloom: ") && ran.out.ends_with(&told), "{}", ran.out);
        is_new(&sandbox, "made.bloom", secret);
        assert!(sandbox.read("old.bloom") == old, "{kind}: changed");
        // In place of the old one, to the same bytes.
        sandbox.run("apply -q it.delta old.bloom").is(0, "", "");
        assert!(sandbox.read("old.bloom") == sandbox.read("made.bloom"), "{kind}");
        let before = sandbox.read("old.bloom");
        let again = sandbox.run("apply it.delta old.bloom");
        assert_eq!((again.code, again.out.as_str()), (Some(2), ""), "{kind}");
        assert!(again.err.contains("the delta is for another version"), "{}", again.err);
        assert!(sandbox.read("old.bloom") == before, "{kind}: changed");
        // And back.
        sandbox.write("old.bloom", old);
        sandbox.run("delta -q new.bloom old.bloom -o back.delta").is(0, "", "");
        sandbox.run("apply -q back.delta new.bloom").is(0, "", "");
        assert_eq!(digest(&sandbox, "new.bloom"), digest(&sandbox, "old.bloom"), "{kind}");
        let names = sandbox.names();
        assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
    }
}

#[test]
fn in_place_where_that_can_be() {
    for (kind, options, secret, old_segments, new_segments) in KINDS {
        let sandbox = versions(options, secret);
        let before = sandbox.read("old.bloom");
        let ran = sandbox.run("apply --in-place it.delta old.bloom");
        let reason = if kind == "counting" {
            "the cells of a counting filter change both ways".to_owned()
        } else if new_segments > 1 {
            format!(
                "it leads from {old_segments} segments to {new_segments}, and the file has \
                 {old_segments}; only a single one is changed where it is"
            )
        } else {
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{kind}");
            is_new(&sandbox, "old.bloom", secret);
            // A second time does nothing; the identity is that of the file.
            sandbox.run("apply -q --in-place it.delta old.bloom").is(0, "", "");
            is_new(&sandbox, "old.bloom", secret);
            continue;
        };
        ran.is(
            2,
            "",
            &format!(
                "bloomfile: old.bloom: the delta cannot be applied in place: {reason}; leave out \
                 --in-place\n"
            ),
        );
        assert!(sandbox.read("old.bloom") == before, "{kind}: changed");
    }
}

/// Cells that are cleared take a new file.
#[test]
fn in_place_takes_nothing_away() {
    let sandbox = versions("-n 10000", "");
    sandbox.run("delta -q new.bloom old.bloom -o back.delta").is(0, "", "");
    let before = sandbox.read("new.bloom");
    let ran = sandbox.run("apply --in-place back.delta new.bloom");
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.starts_with("bloomfile: new.bloom: the delta cannot be applied in place: "));
    assert!(sandbox.read("new.bloom") == before);
    for with in ["-o made.bloom", "--force"] {
        let ran = sandbox.run(&format!("apply --in-place it.delta old.bloom {with}"));
        assert_eq!(ran.code, Some(2), "{with}");
        assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
    }
}

/// Sealed filters differ in whole pages, and are never written to.
#[test]
fn sealed_filters() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q --sealed old.bloom", numbers(1000)).is(0, "", "");
    sandbox.run_with("build -q --sealed new.bloom", numbers(1500)).is(0, "", "");
    let ran = sandbox.run("delta old.bloom new.bloom -o it.delta");
    let end = " of the new file's 20 KiB; 1 of 1 chunk hold whole pages\n";
    assert!(ran.code == Some(0) && ran.out.ends_with(end), "{ran:?}");
    let before = sandbox.read("old.bloom");
    let ran = sandbox.run("apply --in-place it.delta old.bloom");
    assert!(ran.code == Some(2) && ran.err.contains("is sealed"), "{ran:?}");
    assert!(sandbox.read("old.bloom") == before);
    sandbox.run("apply -q it.delta old.bloom").is(0, "", "");
    is_new(&sandbox, "old.bloom", "");
}

/// Where all is new, a delta is of no use, and says so.
#[test]
fn a_delta_that_saves_nothing() {
    let sandbox = Sandbox::new();
    for (name, first) in [("old", 1), ("new", 1_000_001)] {
        let keys = range(first, first + 299_999);
        sandbox.run_with(&format!("build -q --sealed {name}.bloom"), keys).is(0, "", "");
    }
    let ran = sandbox.run("delta old.bloom new.bloom -o it.delta");
    let end = "hold whole pages; it is hardly smaller than the file: send that\n";
    assert!(ran.code == Some(0) && ran.out.ends_with(end), "{ran:?}");
    sandbox.run("apply -q it.delta old.bloom").is(0, "", "");
    assert_eq!(digest(&sandbox, "old.bloom"), digest(&sandbox, "new.bloom"));
}

#[test]
fn what_they_say() {
    let sandbox = versions("-n 10000", "");
    let ran = sandbox.run("delta -f old.bloom new.bloom -o it.delta");
    let bytes = sandbox.read("it.delta").len();
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let size = format!("{:.2} KiB", bytes as f64 / 1024.0);
    let told = format!("it.delta: {size}, ");
    assert!(ran.code == Some(0) && ran.out.starts_with(&told), "{ran:?}");
    assert!(ran.out.ends_with(" % of the new file's 96 KiB\n"), "{ran:?}");
    let made = json(&sandbox.run("delta --json -f old.bloom new.bloom -o it.delta"));
    let uuid = json(&sandbox.run("inspect --json old.bloom"))["uuid"].clone();
    let expected = json!({
        "schema": 1,
        "file": "it.delta",
        "old_uuid": uuid,
        "old_digest": digest(&sandbox, "old.bloom"),
        "new_uuid": uuid,
        "new_digest": digest(&sandbox, "new.bloom"),
        "bytes": bytes,
        "new_bytes": sandbox.read("new.bloom").len(),
        "chunks": 1,
        "chunks_of_pages": 0,
    });
    assert_eq!(made, expected);
    for (arguments, file) in [("-o made.bloom", "made.bloom"), ("--in-place", "old.bloom")] {
        let applied = json(&sandbox.run(&format!("apply --json it.delta old.bloom {arguments}")));
        let mut expected = expected.clone();
        expected["file"] = json!(file);
        assert_eq!(applied, expected, "{arguments}");
    }
    // Nothing differs but what stands in the headers.
    let same = sandbox.run("delta new.bloom new.bloom -o same.delta");
    let size = sandbox.read("same.delta").len();
    let told = "the contents are the same, headers may differ";
    same.is(0, &format!("same.delta: {size} bytes; {told}\n"), "");
}

/// What is there already stays, unless it is meant to go.
#[test]
fn outputs_that_are_there() {
    let sandbox = versions("-n 10000", "");
    let exists = "already exists; choose another name, or replace it with --force";
    sandbox.write("there", "before");
    for command in ["delta old.bloom new.bloom", "apply it.delta old.bloom"] {
        let error = format!("bloomfile: there: {exists}\n");
        sandbox.run(&format!("{command} -o there")).is(2, "", &error);
        assert_eq!(sandbox.read("there"), b"before");
    }
    sandbox.run("apply -q it.delta old.bloom -o there --force").is(0, "", "");
    is_new(&sandbox, "there", "");
    sandbox.run("delta -q old.bloom new.bloom -o there --force").is(0, "", "");
    assert!(sandbox.read("there") == sandbox.read("it.delta"), "the same files, the same delta");
    // The output may be one of the files that are read.
    sandbox.run("apply -q it.delta old.bloom -o old.bloom --force").is(0, "", "");
    is_new(&sandbox, "old.bloom", "");
}

#[test]
fn what_is_refused_and_changes_nothing() {
    let sandbox = versions("-n 10000", "");
    let delta = sandbox.read("it.delta");
    sandbox.write("other.bloom", sandbox.read("old.bloom"));
    sandbox.run("add -q other.bloom wolf").is(0, "", "");
    sandbox.run("create -q counting.bloom -n 10000 -p 1% --kind counting").is(0, "", "");
    sandbox.run("create -q small.bloom -n 100 -p 1%").is(0, "", "");
    sandbox.write("short", &delta[..delta.len() - 1]);
    sandbox.write("long", [&delta[..], b"\0"].concat());
    sandbox.write("tiny", &delta[..100]);
    sandbox.write("text", numbers(1000));
    for (name, place) in [("head", 90), ("body", delta.len() - 9)] {
        let mut damaged = delta.clone();
        damaged[place] ^= 4;
        sandbox.write(name, damaged);
    }
    let before: Vec<_> =
        sandbox.names().into_iter().map(|name| (sandbox.read(&name), name)).collect();
    for (arguments, error) in [
        ("it.delta other.bloom", "other.bloom: the delta is for another version of the file: "),
        ("it.delta new.bloom", "new.bloom: the delta is for another version of the file: "),
        ("it.delta small.bloom", "small.bloom: the delta is for another version of the file: "),
        ("it.delta counting.bloom", "counting.bloom: "),
        ("short old.bloom", "short: "),
        ("long old.bloom", "long: "),
        ("head old.bloom", "head: "),
        ("body old.bloom", "body: "),
        ("tiny old.bloom", "tiny: is not a delta: it has 100 bytes; check the path\n"),
        ("text old.bloom", "text: is not a delta: its first bytes are others; check the path\n"),
        ("new.bloom old.bloom", "new.bloom: is not a delta: it is a filter; check the path\n"),
        ("it.delta it.delta", "it.delta: "),
        ("missing old.bloom", "missing: cannot open the file"),
        ("it.delta missing", "missing: cannot open the file"),
    ] {
        for with in ["", " -o made.bloom", " --in-place"] {
            // Again in place is no error: that is what helps after a crash in the middle.
            if (arguments, with) == ("it.delta new.bloom", " --in-place") {
                continue;
            }
            let ran = sandbox.run(&format!("apply {arguments}{with}"));
            assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments}{with}: {ran:?}");
            let told = format!("bloomfile: {error}");
            assert!(ran.err.starts_with(&told), "{arguments}{with}: {ran:?}");
        }
    }
    for (arguments, error) in [
        ("old.bloom counting.bloom", "counting.bloom: kind differs: plain and counting; "),
        ("old.bloom small.bloom", "small.bloom: geometry differs: "),
        ("old.bloom missing", "missing: cannot open the file: "),
        ("missing old.bloom", "missing: cannot open the file: "),
        ("old.bloom it.delta", "it.delta: "),
        ("old.bloom text", "text: "),
    ] {
        let ran = sandbox.run(&format!("delta {arguments} -o made.delta"));
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments}: {ran:?}");
        assert!(ran.err.starts_with(&format!("bloomfile: {error}")), "{arguments}: {ran:?}");
    }
    let after: Vec<_> =
        sandbox.names().into_iter().map(|name| (sandbox.read(&name), name)).collect();
    assert!(before == after, "{:?}", sandbox.names());
}

/// A damaged page is no version; a file that a writer has open is replaced by none.
#[test]
fn files_that_cannot_be_used_now() {
    let sandbox = versions("-n 10000", "");
    let mut damaged = sandbox.read("old.bloom");
    let place = damaged.iter().rposition(|&byte| byte != 0).unwrap();
    damaged[place] ^= 1;
    sandbox.write("damaged.bloom", damaged);
    for command in [
        "delta damaged.bloom new.bloom -o x",
        "delta old.bloom damaged.bloom -o x",
        "apply it.delta damaged.bloom",
    ] {
        let ran = sandbox.run(command);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{command}");
        assert!(ran.err.starts_with("bloomfile: damaged.bloom: "), "{command}: {}", ran.err);
    }
    let writer = bloomfile::Filter::open(sandbox.path("old.bloom")).unwrap();
    for with in ["", " --in-place"] {
        let ran = sandbox.run(&format!("apply it.delta old.bloom{with}"));
        assert!(ran.code == Some(2) && ran.err.contains("another process"), "{with}: {ran:?}");
    }
    // A delta is made beside it, and applied to another name.
    sandbox.run("apply -q it.delta old.bloom -o made.bloom").is(0, "", "");
    is_new(&sandbox, "made.bloom", "");
    drop(writer);
    sandbox.run("apply -q it.delta old.bloom").is(0, "", "");
    is_new(&sandbox, "old.bloom", "");
}
