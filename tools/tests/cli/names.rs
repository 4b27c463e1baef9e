//! Names that steer terminals, forge lines or run commands, in everything that the command prints.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Output, Stdio};

use crate::sandbox::{BLOOMFILE, Sandbox, numbers};

/// Names of files that no one would choose for good reasons.
const NAMES: [&[u8]; 11] = [
    b"two words.bloom",
    b"line\nforged.bloom: sound: 1 page as written",
    b"\x1b]0;title\x07\x1b[31mred.bloom",
    b"c1 \xc2\x9b31mred.bloom",
    b"turned \xe2\x80\xaemoolb.bloom",
    b"quotes'\"`.bloom",
    b"$(touch ran).bloom",
    b"`touch ran`;touch ran;.bloom",
    b"\xff\xfe not text.bloom",
    b"back\\slash\ttab\r.bloom",
    b"-f.bloom",
];

/// What is run, by every command.
pub(crate) const COMMANDS: [&str; 107] = [
    "add FILE FILE",
    "add ABSENT x",
    "add DAMAGED x",
    "add --from ABSENT FILE",
    "add --hex --from FILE FILE",
    "add --json FILE x",
    "add FILE --from FILE",
    "check FILE 1",
    "check ABSENT 1",
    "check DAMAGED 1",
    "check --except ABSENT FILE 1",
    "which -k 1 FILE",
    "which -k 1 --json FILE",
    "which -k FILE ABSENT",
    "inspect FILE",
    "inspect ABSENT",
    "inspect DAMAGED",
    "inspect --json FILE",
    "inspect --pages FILE",
    "inspect --bytes FILE",
    "inspect --bytes --json FILE",
    "inspect --pages --json FILE",
    "inspect --loads FILE",
    "inspect FILE --html MADE",
    "inspect a.bloom --html FILE",
    "inspect FILE --html FILE --force",
    "verify FILE ABSENT DAMAGED",
    "verify --json FILE ABSENT DAMAGED",
    "repair FILE",
    "repair --json FILE",
    "repair DAMAGED",
    "repair ABSENT",
    "bench -n 10 FILE",
    "bench ABSENT",
    "compare FILE a.bloom",
    "compare --json FILE FILE",
    "compare FILE ABSENT",
    "merge -o MADE FILE a.bloom -f",
    "merge -o MADE FILE a.bloom",
    "merge -o FILE ABSENT a.bloom -f",
    "merge --json -o MADE FILE a.bloom -f",
    "intersect -o MADE FILE DAMAGED -f",
    "shrink -o MADE FILE --factor 1 -f",
    "shrink -o MADE FILE --factor 7 -f",
    "intersect -o MADE FILE FILE -f",
    "shrink --json -o MADE FILE --factor 1 -f",
    "compact -o MADE FILE -f",
    "compact -o FILE ABSENT -f",
    "compact --json -o MADE FILE -f",
    "build -f --sealed MADE FILE",
    "build -f --part 1/1 -n 9 -p 1% PART FILE",
    "build -f --part 1/1 -n 9 -p 1% --json PART FILE",
    "join -o MADE PART -f",
    "join -o MADE PART PART -f",
    "join -o FILE PART FILE -f",
    "join --json -o MADE ABSENT -f",
    "delta FILE FILE -o DELTA -f",
    "delta FILE FILE -o DELTA",
    "delta --json FILE ABSENT -o MADE -f",
    "delta FILE DAMAGED -o MADE -f",
    "apply DELTA FILE -o MADE -f",
    "apply DELTA FILE -o MADE",
    "apply --json DELTA FILE -o MADE -f",
    "apply DELTA DAMAGED -o MADE -f",
    "apply FILE ABSENT -o MADE -f",
    "apply --in-place DELTA FILE",
    "apply --in-place DELTA ABSENT",
    "inspect DELTA",
    "publish FILE SITE",
    "publish --json FILE SITE",
    "publish ABSENT SITE",
    "publish FILE DAMAGED",
    "pull SITE MADE",
    "pull --json SITE MADE",
    "pull ABSENT MADE",
    "pull SITE DAMAGED",
    "keygen SECRET",
    "keygen SECRET",
    "keygen --json SECRET",
    "add --key-file SECRET FILE x",
    "check --key-file ABSENT FILE x",
    "create --key-file SECRET -f MADE -n 9 -p 1%",
    "bench -n 10 ABSENT",
    "export -o MADE COUNTING -f",
    "export -o MADE FILE -f",
    "remove COUNTING FILE",
    "remove --json COUNTING FILE",
    "remove FILE x",
    "rotate COUNTING",
    "rotate --json COUNTING",
    "rotate FILE",
    "create FILE -n 9 -p 1%",
    "create MADE/MADE -n 9 -p 1%",
    "create MADE -f -n 9 -p 1%",
    "create MADE -f --json -n 9 -p 1%",
    "build FILE FILE",
    "build -f MADE FILE",
    "build -f MADE ABSENT",
    "build -f --json MADE FILE",
    "man --out FILE",
    "man --out ABSENT",
    "completions FILE",
    "plan -n FILE",
    "FILE",
    "check OPTION=FILE",
    "check FILE FILE FILE --OPTION",
    "create . -f -n 9 -p 1% --meta FILE",
];

fn command(sandbox: &Sandbox, arguments: &[&OsStr]) -> Output {
    let mut command = Command::new(BLOOMFILE);
    command.args(arguments).current_dir(sandbox.folder()).stdin(Stdio::null());
    command.output().unwrap()
}

/// Asserts that a text neither steers a terminal nor is anything but text.
#[track_caller]
fn is_harmless(what: &[u8], name: &[u8], bytes: &[u8]) {
    let text = str::from_utf8(bytes).unwrap_or_else(|_| panic!("{name:?} in {bytes:?}"));
    let bad = |character: char| {
        matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || character.is_control() && character != '\n' && character != '\t'
    };
    let what = String::from_utf8_lossy(what);
    assert!(!text.contains(bad), "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{what}: {text}");
}

/// What every command prints about files with such names, sound, absent, damaged and locked.
#[test]
fn no_command_prints_a_name_that_steers_the_terminal() {
    for name in NAMES {
        let sandbox = Sandbox::with_filter();
        let mut path = OsString::from_vec(name.to_vec());
        if name.starts_with(b"-") {
            path = OsString::from_vec([b"./", name].concat());
        }
        let mut damaged = path.clone();
        damaged.push(".damaged");
        let mut absent = path.clone();
        absent.push(".absent");
        let mut counting = path.clone();
        counting.push(".counting");
        let mut made = path.clone();
        made.push(".made");
        let bytes = sandbox.read("a.bloom");
        std::fs::write(sandbox.folder().join(&path), &bytes).unwrap();
        std::fs::write(sandbox.folder().join(&damaged), &bytes[..bytes.len() - 1]).unwrap();
        let create = ["create", "-q", "-n9", "-p1%", "--kind=counting", "--generations=2", "--"];
        let mut arguments = create.map(OsStr::new).to_vec();
        arguments.push(&counting);
        assert!(command(&sandbox, &arguments).status.success());

        let other = |end: &str| {
            let mut other = path.clone();
            other.push(end);
            other
        };
        let words = |line: &str| -> Vec<OsString> {
            let replaced = |word: &str| match word {
                "FILE" => path.clone(),
                "DAMAGED" => damaged.clone(),
                "ABSENT" => absent.clone(),
                "COUNTING" => counting.clone(),
                "MADE" => made.clone(),
                "PART" => other(".part"),
                "DELTA" => other(".delta"),
                "SITE" => other(".site"),
                "SECRET" => other(".key"),
                "OPTION=FILE" => {
                    let mut option = OsString::from("--no-such=");
                    option.push(&path);
                    option
                }
                other => other.into(),
            };
            line.split(' ').map(replaced).collect()
        };
        for line in COMMANDS {
            let arguments = words(line);
            let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
            let ran = command(&sandbox, &arguments);
            let what = format!("{line} with {}", name.escape_ascii());
            assert!(matches!(ran.status.code(), Some(0..=2)), "{what}: {ran:?}");
            // Keys go to a pipe as they came.
            if !line.starts_with("check FILE FILE") {
                is_harmless(what.as_bytes(), name, &ran.stdout);
            }
            is_harmless(what.as_bytes(), name, &ran.stderr);
        }
        let page = std::fs::read(sandbox.folder().join(&made));
        if let Ok(page) = page
            && page.starts_with(b"<!")
        {
            is_harmless(b"page", name, &page);
        }
    }
}

/// A key to a terminal is shown; to anything else it goes as it came.
#[test]
fn keys_steer_no_terminal() {
    if !crate::sandbox::has("script") {
        return;
    }
    let sandbox = Sandbox::new();
    let keys = "plain\tfield\nred \u{1b}[31m\u{9b}1m\n";
    sandbox.run_with("build -q a.bloom", keys).is(0, "", "");
    sandbox.write("keys", keys);
    for command in ["check a.bloom --from keys", "which --from keys a.bloom"] {
        let ran = sandbox.run(command);
        assert!(ran.out.contains("red \u{1b}[31m\u{9b}1m"), "{}", ran.out);
        let line = format!("{BLOOMFILE} {command}");
        let shown = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .current_dir(sandbox.folder())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("plain\tfield"), "{shown:?}");
        assert!(shown.contains("red \\u{1b}[31m\\u{9b}1m"), "{shown:?}");
    }
}

/// The advice is a command line: given to a shell, it does what it says, and nothing else.
#[test]
fn advice_can_be_given_to_a_shell() {
    for name in NAMES {
        let sandbox = Sandbox::new();
        let path = OsStr::from_bytes(name);
        let create = ["create", "-q", "-n", "1000", "-p", "1%", "--"].map(OsStr::new);
        let arguments: Vec<&OsStr> = create.into_iter().chain([path]).collect();
        assert!(command(&sandbox, &arguments).status.success());
        // Killed as it waits for keys, so that it is left open.
        let add = [OsStr::new("add"), "--sync-every".as_ref(), "1".as_ref(), "--".as_ref(), path];
        let mut child = Command::new(BLOOMFILE)
            .args(add)
            .current_dir(sandbox.folder())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"cow\n").unwrap();
        let check = ["check", "-q", "--"].map(OsStr::new);
        let check: Vec<&OsStr> = check.into_iter().chain([path, "cow".as_ref()]).collect();
        while !command(&sandbox, &check).status.success() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let inspect = ["inspect", "--json", "--"].map(OsStr::new);
        let inspect: Vec<&OsStr> = inspect.into_iter().chain([path]).collect();
        let json = command(&sandbox, &inspect).stdout;
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let advice = json["advice"].as_str().unwrap();
        let line = advice.strip_prefix("recover it: bloomfile ").unwrap();
        let script = format!("\"$BLOOMFILE\" {line}");
        let ran = Command::new("bash")
            .args(["-c", &script])
            .env("BLOOMFILE", BLOOMFILE)
            .current_dir(sandbox.folder())
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && err.contains("recovered after a crash"), "{line}: {err}");
        assert_eq!(std::fs::read_dir(sandbox.folder()).unwrap().count(), 1, "{line}");
    }
}

/// What a file says of the form of its keys is no form of a line either.
#[test]
fn forms_that_are_not_known_forge_no_line() {
    for (name, value) in [
        ("keys.encoding", "le16\nforged: sound\u{9b}31m"),
        ("keys.form", "lower\nhex\nforged: sound"),
        ("keys.form", "forged:\u{2028}forged\u{1b}[1m"),
    ] {
        let sandbox = Sandbox::with_filter();
        let filter = bloomfile::Filter::open(sandbox.path("a.bloom")).unwrap();
        filter.set_metadata(name, Some(value)).unwrap();
        filter.close().unwrap();
        for line in ["check a.bloom 1", "which 1 a.bloom", "add a.bloom 1", "inspect a.bloom"] {
            let ran = sandbox.run(line);
            let refused = !line.starts_with("inspect");
            assert_eq!(ran.code == Some(2) && ran.err.contains(name), refused, "{ran:?}");
            is_harmless(line.as_bytes(), value.as_bytes(), ran.out.as_bytes());
            is_harmless(line.as_bytes(), value.as_bytes(), ran.err.as_bytes());
        }
    }
}

/// What metadata hold stays a string of JSON without controls.
#[test]
fn json_has_no_controls() {
    let sandbox = Sandbox::new();
    let meta = "--meta=note=a\u{9b}31m\u{7f}\u{202e}é";
    sandbox.run(&format!("create -q a.bloom -n 9 -p 1% {meta}")).is(0, "", "");
    sandbox.run_with("add -q a.bloom", numbers(3)).is(0, "", "");
    let json = sandbox.run("inspect --json a.bloom").out;
    is_harmless(b"json", b"", json.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["metadata"]["note"], "a\u{9b}31m\u{7f}\u{202e}é");
    let bytes = sandbox.run("inspect --bytes --json a.bloom").out;
    is_harmless(b"bytes", b"", bytes.as_bytes());
}
