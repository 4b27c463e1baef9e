//! Keyed filters: the key file, and what is said when it is not the right one.

use crate::sandbox::{Sandbox, numbers};

fn with_keys() -> Sandbox {
    let sandbox = Sandbox::in_memory();
    for name in ["a.key", "b.key"] {
        let ran = sandbox.run(&format!("keygen {name}"));
        assert_eq!((ran.code, &*ran.err), (Some(0), ""));
        assert!(ran.out.starts_with(&format!("{name}: a new secret key, fingerprint ")), "{ran:?}");
    }
    sandbox
}

/// What the command calls a key.
fn fingerprint(sandbox: &Sandbox, file: &str) -> String {
    let json = sandbox.run(&format!("inspect --json {file}")).out;
    let (_, rest) = json.split_once("\"key_fingerprint\":").unwrap();
    rest.trim_start().trim_start_matches('"')[..8].to_owned()
}

#[test]
fn every_command_takes_the_key_file() {
    let sandbox = with_keys();
    sandbox.run("create -q a.bloom -n 1k -p 0.01% --key-file a.key --kind counting").is(0, "", "");
    sandbox.run("add -q a.bloom --key-file a.key sheep goat").is(0, "", "");
    sandbox.run("check a.bloom --key-file a.key sheep wolf").is(0, "sheep\n", "");
    sandbox.run("remove -q a.bloom --key-file a.key sheep").is(0, "", "");
    sandbox.run("check a.bloom --key-file a.key sheep").is(1, "", "");
    sandbox.run_with("build -q b.bloom --key-file a.key", "goat\n").is(0, "", "");
    sandbox.run_with("build -q c.bloom -n 10 --key-file a.key", "sheep\n").is(0, "", "");
    let ran = sandbox.run("which -k goat b.bloom c.bloom a.bloom --key-file a.key");
    ran.is(0, "goat\tb.bloom\ta.bloom\n", "");
    let ran = sandbox.run("bench -n 1000 b.bloom --key-file a.key");
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let ran = sandbox.run("inspect b.bloom");
    assert!(ran.out.starts_with("b.bloom: a keyed Bloom filter"), "{ran:?}");
    sandbox.run_with("build -q s.bloom --sealed --key-file a.key", "goat\n").is(0, "", "");
    let ran = sandbox.run("inspect s.bloom");
    assert!(ran.out.starts_with("s.bloom: a keyed sealed filter"), "{ran:?}");
    let shown =
        format!("SipHash-2-4 under a secret key, fingerprint {}", fingerprint(&sandbox, "b.bloom"));
    assert!(ran.out.contains(&shown), "{ran:?}");
}

#[test]
fn what_is_made_is_said_to_be_keyed() {
    let sandbox = with_keys();
    sandbox.run("create -q a.bloom -n 1k -p 1% --key-file a.key").is(0, "", "");
    let told = format!("; keyed, fingerprint {}\n", fingerprint(&sandbox, "a.bloom"));
    for command in [
        "create -f a.bloom -n 1k -p 1%",
        "build -f a.bloom keys",
        "build -f a.bloom keys -n 10",
        "build -f a.bloom keys --sealed",
        "build -f a.part keys -n 10 --part 1/1",
    ] {
        sandbox.write("keys", "sheep\n");
        let told_of = |key: &str| {
            let ran = sandbox.run(&format!("{command}{key}"));
            assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{command}");
            let json = sandbox.run(&format!("{command} --json{key}")).out;
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            (ran.out, json["key_fingerprint"].clone())
        };
        let (line, json) = told_of(" --key-file a.key");
        assert!(line.ends_with(&told), "{line}");
        assert!(told.contains(json.as_str().unwrap()), "{json}");
        let (line, json) = told_of("");
        assert!(!line.contains("keyed") && json.is_null(), "{line} {json}");
    }
}

/// A key file that gives its bytes once, as a pipe does.
#[cfg(unix)]
#[test]
fn the_key_file_is_read_once() {
    let sandbox = with_keys();
    sandbox.write("keys", "sheep\n");
    for command in
        ["create c.bloom -n 9 -p 1%", "build b.bloom keys", "build 1.part keys -n 9 --part 1/1"]
    {
        let bloomfile = crate::sandbox::BLOOMFILE;
        let mut shell = std::process::Command::new("sh");
        // A pipe has the mode of its owner alone.
        shell
            .arg("-c")
            .arg(format!("cat a.key | {bloomfile} {command} --key-file /dev/fd/3 3<&0 </dev/null"));
        let ran = crate::sandbox::Ran::from(shell.current_dir(sandbox.path("")).output().unwrap());
        assert!(ran.code == Some(0) && ran.out.contains("; keyed, fingerprint "), "{ran:?}");
    }
}

/// Recovery needs no secret: what a power cut left, too.
#[test]
fn a_crashed_file_is_recovered_without_the_secret() {
    use std::io::Write;
    let sandbox = with_keys();
    sandbox.run("create -q a.bloom -n 10k -p 1% --key-file a.key").is(0, "", "");
    sandbox.run_with("add -q a.bloom --key-file a.key", numbers(1000)).is(0, "", "");
    let mut writer = sandbox.spawn("add a.bloom --key-file a.key --sync-every 1");
    writer.stdin.as_mut().unwrap().write_all(b"sheep\ngoat\n").unwrap();
    while sandbox.run("check -q a.bloom --key-file a.key goat").code != Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    // A bit that no record explains, and another boot: what was added and not synced, or damage.
    let mut bytes = sandbox.read("a.bloom");
    let last = bytes.len() - 4096;
    let off = (last..).find(|&at| bytes[at] == 0).unwrap();
    bytes[off] = 1;
    sandbox.write("a.bloom", bytes);
    crate::repair::power_cut(&sandbox);
    let crashed = sandbox.read("a.bloom");
    let ran = sandbox.run("repair a.bloom");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("recover it with bloomfile repair --recover a.bloom,"), "{ran:?}");
    assert!(sandbox.read("a.bloom") == crashed);
    let told =
        "a.bloom: recovered after a crash: 2 adds replayed, 1 page kept that cannot be verified\n";
    sandbox.run("repair --recover a.bloom").is(0, told, "");
    let uncertain = "bloomfile: a.bloom: warning: 1 page cannot be verified: a key that damage took \
                     from there counts as absent, so that a \"no\" is not certain; verify tells more\n";
    let checked = sandbox.run("check a.bloom --key-file a.key sheep goat");
    checked.is(0, "sheep\ngoat\n", uncertain);
    let closed = sandbox.read("a.bloom");
    let told = "a.bloom: nothing to recover: its last writer closed it\n";
    sandbox.run("repair --recover a.bloom").is(0, told, "");
    assert!(sandbox.read("a.bloom") == closed);
    sandbox.write("a.bloom", &crashed);
    let json = sandbox.run("repair --recover --json a.bloom").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["crashed"], &json["pages_unverifiable"]), (&true.into(), &1.into()));
    assert_eq!(json["records_replayed"], 2);
    // Damage is for a repair without it.
    let mut bytes = crashed;
    bytes[last..].fill(0);
    sandbox.write("a.bloom", &bytes);
    let ran = sandbox.run("repair --recover a.bloom");
    assert!(ran.code == Some(2) && ran.err.contains("damaged"), "{ran:?}");
    assert!(sandbox.read("a.bloom") == bytes);
}

#[test]
fn the_variable_names_the_key_file() {
    let sandbox = with_keys();
    let run = |arguments: &str, file: &str| {
        let output = sandbox.command(arguments).env("BLOOMFILE_KEY_FILE", file).output().unwrap();
        crate::sandbox::Ran::from(output)
    };
    run("create -q a.bloom -n 1k -p 1%", "a.key").is(0, "", "");
    run("add -q a.bloom sheep", "a.key").is(0, "", "");
    run("check a.bloom sheep", "a.key").is(0, "sheep\n", "");
    // What is said on the command line counts.
    run("check a.bloom sheep --key-file a.key", "b.key").is(0, "sheep\n", "");
    assert_eq!(run("check a.bloom sheep", "b.key").code, Some(2));
    // An empty one is none.
    run("create -q open.bloom -n 1k -p 1%", "").is(0, "", "");
    sandbox.run("check open.bloom sheep").is(1, "", "");
}

#[test]
fn wrong_missing_and_needless_keys_are_errors() {
    let sandbox = with_keys();
    sandbox.run("create -q a.bloom -n 1k -p 1% --key-file a.key").is(0, "", "");
    sandbox.run("create -q b.bloom -n 1k -p 1% --key-file b.key").is(0, "", "");
    sandbox.run("create -q open.bloom -n 1k -p 1%").is(0, "", "");
    let [a, b] = ["a.bloom", "b.bloom"].map(|file| fingerprint(&sandbox, file));
    let commands = ["add FILE sheep", "check FILE sheep", "which -k sheep FILE", "bench FILE"];
    for command in commands {
        let needed = format!(
            "bloomfile: a.bloom: is keyed: it takes the secret key with the fingerprint {a}; give \
             that one with --key-file KEY_FILE\n"
        );
        sandbox.run(&command.replace("FILE", "a.bloom")).is(2, "", &needed);
        let wrong = format!(
            "bloomfile: a.bloom: was made with another secret key: its fingerprint is {a}, that of \
             the key given {b}; give the one it was made with\n"
        );
        sandbox.run(&(command.replace("FILE", "a.bloom") + " --key-file b.key")).is(2, "", &wrong);
        let needless = "bloomfile: open.bloom: is not keyed: leave out --key-file and unset \
                        BLOOMFILE_KEY_FILE, if it is the right file\n";
        let ran = sandbox.run(&(command.replace("FILE", "open.bloom") + " --key-file a.key"));
        ran.is(2, "", needless);
    }
    let ran = sandbox.run("merge -o all.bloom a.bloom b.bloom");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains(&format!("secret key differs: {a} and {b}")), "{ran:?}");
    assert!(ran.err.ends_with("with the same --key-file\n"), "{ran:?}");
}

/// Files that are asked together may be keyed or not: the secret is for those that are.
#[test]
fn the_secret_is_for_those_files_that_are_keyed() {
    let sandbox = with_keys();
    for (name, keys, key) in [
        ("open.bloom", "sheep\ngoat\n", ""),
        ("a.bloom", "sheep\nwolf\n", " --key-file a.key"),
        ("b.bloom", "sheep\n", " --key-file b.key"),
    ] {
        sandbox.run_with(&format!("build -q {name} -n 100 -p 0.01%{key}"), keys).is(0, "", "");
    }
    sandbox.run_with("build -q too.bloom -n 100 -p 0.01%", "goat\n").is(0, "", "");
    // Wherever the keyed one stands.
    for (files, sheep) in [
        ("open.bloom too.bloom a.bloom", "open.bloom\ta.bloom"),
        ("a.bloom open.bloom", "a.bloom\topen.bloom"),
        ("open.bloom a.bloom too.bloom", "open.bloom\ta.bloom"),
    ] {
        for read in ["", " --no-verify", " --memory"] {
            let ran = sandbox.run(&format!("which -k sheep {files} --key-file a.key{read}"));
            ran.is(0, &format!("sheep\t{sheep}\n"), "");
        }
    }
    let check = |arguments: &str| sandbox.run(&format!("check -a {arguments} sheep goat wolf"));
    let except = "no\tsheep\nmaybe\tgoat\nno\twolf\n";
    check("open.bloom --except a.bloom --key-file a.key").is(0, except, "");
    let except = "no\tsheep\nno\tgoat\nmaybe\twolf\n";
    check("a.bloom --except open.bloom --key-file a.key").is(0, except, "");
    // Another secret than that of a keyed one, and none, are errors as ever; so is one that no file takes.
    for command in [
        "which -k sheep open.bloom a.bloom b.bloom",
        "check open.bloom --except b.bloom sheep",
        "check b.bloom --except open.bloom sheep",
    ] {
        for (key, message) in [
            (" --key-file a.key", "bloomfile: b.bloom: was made with another secret key: "),
            ("", ".bloom: is keyed: it takes the secret key "),
        ] {
            let ran = sandbox.run(&format!("{command}{key}"));
            assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{command}{key}");
            assert!(ran.err.contains(message), "{command}{key}: {}", ran.err);
        }
    }
    for command in
        ["which -k sheep open.bloom too.bloom", "check open.bloom --except too.bloom sheep"]
    {
        sandbox.run(&format!("{command} --key-file a.key")).is(
            2,
            "",
            "bloomfile: open.bloom: is not keyed: leave out --key-file and unset \
             BLOOMFILE_KEY_FILE, if it is the right file\n",
        );
    }
}

#[test]
fn damaged_check_values_and_key_files_are_errors() {
    let sandbox = with_keys();
    sandbox.run("create -q a.bloom -n 1k -p 1% --key-file a.key").is(0, "", "");
    let mut bytes = sandbox.read("a.bloom");
    bytes[104] ^= 1;
    sandbox.write("damaged.bloom", bytes);
    let ran = sandbox.run("check damaged.bloom --key-file a.key sheep");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("bloomfile: damaged.bloom: the superblock is damaged"), "{ran:?}");
    let key = sandbox.read("a.key");
    sandbox.write("b.key", &key[..20]);
    sandbox.run("check a.bloom --key-file b.key sheep").is(
        2,
        "",
        "bloomfile: b.key: cannot be used as a key file: it was cut short: it must hold 32 \
         hexadecimal digits, and has 20\n",
    );
    let ran = sandbox.run("check a.bloom --key-file none.key sheep");
    assert!(ran.err.starts_with("bloomfile: none.key: cannot open the key file"), "{ran:?}");
    let ran = sandbox.run("keygen a.key");
    assert_eq!((ran.code, sandbox.read("a.key") == key), (Some(2), true));
    assert!(ran.err.contains("it is there already"), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn key_files_of_others_are_refused_unless_forced() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = with_keys();
    let mode = |name: &str| sandbox.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("a.key"), 0o600);
    let shared = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(sandbox.path("a.key"), shared).unwrap();
    sandbox.run("create -q a.bloom -n 1k -p 1% --key-file a.key").is(
        2,
        "",
        "bloomfile: a.key: cannot be used as a key file: its mode is 0644, so that others can get at \
         it; give it mode 0600, and make another key if someone may have read it; or take it as it is \
         with --force-key-file\n",
    );
    assert_eq!(sandbox.names(), ["a.key", "b.key"], "nothing was made");
    sandbox.run("create -q a.bloom -n 1k -p 1% --key-file a.key --force-key-file").is(0, "", "");
}

#[test]
fn what_needs_no_hashing_needs_no_key_file() {
    let sandbox = with_keys();
    let build = |name: &str, keys: &str| {
        sandbox.run_with(&format!("build -q {name} -n 2k --key-file a.key"), keys).is(0, "", "");
    };
    build("a.bloom", &numbers(1000));
    build("b.bloom", "sheep\n");
    sandbox.run("merge -q -o all.bloom a.bloom b.bloom").is(0, "", "");
    sandbox.run("intersect -q -o both.bloom a.bloom b.bloom").is(0, "", "");
    sandbox.run("check all.bloom --key-file a.key sheep 7").is(0, "sheep\n7\n", "");
    for command in [
        "verify a.bloom",
        "repair a.bloom",
        "shrink -q -o small.bloom a.bloom --factor 2",
        "inspect --loads a.bloom",
        "inspect --bytes a.bloom",
    ] {
        let ran = sandbox.run(command);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{command}");
    }
    // What is made so is asked with the secret.
    let holds = |name: &str, keys: &str| {
        let asked = sandbox.run(&format!("check {name} --key-file a.key {keys}"));
        asked.is(0, &format!("{}\n", keys.replace(' ', "\n")), "");
    };
    sandbox.run("merge -q -o new.bloom a.bloom b.bloom").is(0, "", "");
    for command in [
        "compact -q -o small.bloom new.bloom -f",
        "publish -q a.bloom folder",
        "pull -q folder pulled.bloom",
        "delta -q a.bloom new.bloom -o change.delta",
        "apply -q change.delta a.bloom -o applied.bloom",
        "apply -q change.delta pulled.bloom --in-place",
        "publish -q new.bloom folder",
        "pull -q folder a.bloom",
    ] {
        sandbox.run(command).is(0, "", "");
    }
    for name in ["small.bloom", "applied.bloom", "pulled.bloom", "a.bloom"] {
        holds(name, "sheep 7 1000");
    }
    sandbox.run("create -q count.bloom -n 100 -p 1% --kind counting --key-file a.key");
    sandbox.run("add -q count.bloom --key-file a.key sheep").is(0, "", "");
    sandbox.run("export -q -o plain.bloom count.bloom").is(0, "", "");
    holds("plain.bloom", "sheep");
    for part in ["1/2", "2/2"] {
        let name = &part[..1];
        let build = format!("build -q {name}.part -n 2k --part {part} --key-file a.key");
        sandbox.run_with(&build, numbers(1000)).is(0, "", "");
    }
    sandbox.run("join -q -o joined.bloom 1.part 2.part").is(0, "", "");
    holds("joined.bloom", "1 7 1000");
    let ran = sandbox.run("compare a.bloom b.bloom");
    assert_eq!((ran.code, &*ran.err), (Some(1), ""), "they differ, in their keys alone");
    sandbox.run("create -q day.bloom -n 1k -p 1% --generations 2 --key-file a.key").is(0, "", "");
    sandbox.run("rotate day.bloom").is(
        0,
        "day.bloom: rotated: 2 generations in use, none was dropped\n",
        "",
    );
}
