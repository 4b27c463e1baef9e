//! Each kind of error: a sentence on standard error, exit status 2, and nothing left behind.

use crate::sandbox::{Sandbox, TEMPORARY_FOLDER, no_file, no_folder, numbers};

/// Commands that open an existing filter, with what comes before and after its name.
const OPENING: [(&str, &str); 3] = [("add", " key"), ("check", " key"), ("inspect", "")];

/// Asserts that every command refuses `a.bloom` for this reason, and how `verify` judges it.
#[track_caller]
fn refused(sandbox: &Sandbox, reason: &str, damaged: bool) {
    for (command, rest) in OPENING {
        let ran = sandbox.run(&format!("{command} a.bloom{rest}"));
        ran.is(2, "", &format!("bloomfile: a.bloom: {reason}\n"));
    }
    let verified = sandbox.run("verify a.bloom");
    if damaged {
        verified.is(1, &format!("a.bloom: damaged: {reason}\n"), "");
    } else {
        verified.is(2, "", &format!("bloomfile: a.bloom: {reason}\n"));
    }
}

#[test]
fn a_missing_file() {
    let sandbox = Sandbox::new();
    let reason = format!("{}; check the path\n", no_file());
    for (command, action) in [
        ("add a.bloom key", "open the file for writing"),
        ("check a.bloom key", "open the file"),
        ("inspect a.bloom", "open the file"),
        ("verify a.bloom", "open the file"),
    ] {
        let error = format!("bloomfile: a.bloom: cannot {action}: {reason}");
        sandbox.run(command).is(2, "", &error);
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn files_that_are_something_else() {
    let sandbox = Sandbox::new();
    for (bytes, kind) in [
        (&b""[..], "the file is empty"),
        (b"sheep\nwolf\n", "it looks like text"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "it looks like gzip data; decompress it first"),
        (b"\x7fELF\x02\x01\x01", "it looks like an ELF program"),
        (b"\x01\x02\x03\x04", "its first bytes are not a bloomfile's"),
    ] {
        sandbox.write("a.bloom", bytes);
        refused(&sandbox, &format!("is not a bloomfile: {kind}; check the path"), false);
    }
    sandbox.write("a.bloom", b"\x89BLM\n\x1a\n and so on");
    let reason = "was damaged by a text-mode transfer (CR LF became LF); copy it again in binary \
                  mode from the original";
    refused(&sandbox, reason, true);
}

#[test]
fn a_file_cut_short() {
    let sandbox = Sandbox::with_filter();
    let bytes = sandbox.read("a.bloom");
    sandbox.write("a.bloom", &bytes[..bytes.len() - 1]);
    let reason = format!(
        "is {} bytes long, its headers say {}: it was cut short; copy it again from the original",
        bytes.len() - 1,
        bytes.len()
    );
    refused(&sandbox, &reason, true);
}

#[test]
fn a_flipped_bit_in_the_superblock() {
    let sandbox = Sandbox::with_filter();
    let mut bytes = sandbox.read("a.bloom");
    bytes[100] ^= 1;
    sandbox.write("a.bloom", &bytes);
    for command in ["add a.bloom key", "check a.bloom key", "inspect a.bloom"] {
        let ran = sandbox.run(command);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
        assert!(
            ran.err.starts_with("bloomfile: a.bloom: the superblock is damaged (checksum "),
            "{}",
            ran.err
        );
    }
    let ran = sandbox.run("verify a.bloom");
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert!(ran.out.starts_with("a.bloom: damaged: the superblock is damaged"), "{}", ran.out);
}

#[test]
fn a_newer_version() {
    const CRC: usize = 4092;
    let sandbox = Sandbox::with_filter();
    let mut bytes = sandbox.read("a.bloom");
    bytes[8] = 2;
    let crc = crc32fast::hash(&bytes[..CRC]);
    bytes[CRC..CRC + 4].copy_from_slice(&crc.to_le_bytes());
    sandbox.write("a.bloom", &bytes);
    let reason = "has format version 2, this program reads version 1; use a newer bloomfile";
    refused(&sandbox, reason, false);
}

#[test]
fn damaged_data_is_never_an_absent_key() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom", numbers(20_000)).is(0, "", "");
    let mut bytes = sandbox.read("a.bloom");
    // 512 bytes of the data's second page, zeroed.
    let second = bytes.len() - 5 * 4096;
    bytes[second..second + 512].fill(0);
    sandbox.write("a.bloom", &bytes);
    let damage = "1 data page is damaged (first: page 2 of segment 0: bits were lost); restore \
                  the file from a copy, or run repair, which answers \"maybe\" for what was lost";
    let error = format!("bloomfile: a.bloom: {damage}\n");
    sandbox.run("check a.bloom 1 sheep").is(2, "", &error);
    sandbox.run("check -q a.bloom sheep").is(2, "", &error);
    sandbox.run("add a.bloom sheep").is(2, "", &error);
    assert_eq!(sandbox.read("a.bloom"), bytes, "a damaged file is left as it is");
    sandbox.run("verify a.bloom").is(
        1,
        "a.bloom: damaged: 1 of 7 pages not as written (page 2); restore the file from a copy or \
         build it again, or run repair, which answers \"maybe\" for what was lost\n",
        "",
    );
    sandbox.run("verify -q a.bloom").is(1, "", "");
    // Without a check beforehand, no key of the page is denied, and the damage is told in the end.
    sandbox.run_with("check -v --no-verify a.bloom", numbers(20_000)).is(2, "", &error);
    sandbox.run_with("which --no-verify a.bloom --from -", numbers(1)).is(0, "1\ta.bloom\n", "");
}

#[test]
fn verify_tells_damaged_from_unknown_files() {
    let sandbox = Sandbox::with_filter();
    let mut bytes = sandbox.read("a.bloom");
    *bytes.last_mut().unwrap() ^= 1;
    sandbox.write("b.bloom", bytes);
    let ran = sandbox.run("verify a.bloom missing b.bloom");
    assert_eq!(ran.code, Some(1), "damage is the worse news");
    assert!(ran.out.starts_with("a.bloom: sound: "), "{}", ran.out);
    assert!(ran.out.contains("b.bloom: damaged: 1 of 1 page not as written (page 0)"));
    assert!(ran.err.starts_with("bloomfile: missing: cannot open the file: "), "{}", ran.err);
    let quiet = sandbox.run("verify -q a.bloom missing");
    assert_eq!((quiet.code, quiet.out.as_str()), (Some(2), ""));
    assert!(quiet.err.starts_with("bloomfile: missing: cannot open the file: "), "{}", quiet.err);
}

#[test]
fn an_existing_file_is_kept() {
    let sandbox = Sandbox::with_filter();
    let before = sandbox.read("a.bloom");
    let error =
        "bloomfile: a.bloom: already exists; choose another name, or replace it with --force\n";
    sandbox.run("create a.bloom --capacity 10 --fpr 1%").is(2, "", error);
    sandbox.run_with("build a.bloom", "key\n").is(2, "", error);
    sandbox.run_with("build a.bloom --capacity 10", "key\n").is(2, "", error);
    assert_eq!(sandbox.read("a.bloom"), before);
    assert_eq!(sandbox.names(), ["a.bloom"]);
}

#[test]
fn no_temporary_file_is_left_after_a_failure() {
    let sandbox = Sandbox::new();
    let missing =
        format!("bloomfile: no.txt: cannot open the keys: {}; check the path\n", no_file());
    sandbox.run("build a.bloom no.txt").is(2, "", &missing);
    sandbox.run("build a.bloom no.txt --capacity 10").is(2, "", &missing);
    sandbox.run("build a.bloom").is(
        2,
        "",
        "bloomfile: a.bloom: the inputs hold no key; give --capacity to make an empty filter\n",
    );
    assert_eq!(sandbox.run_with("build --hex a.bloom -n 9", "00\nxx\n").code, Some(2));
    sandbox.run("create no/a.bloom -n 9 -p 1%").is(
        2,
        "",
        &format!(
            "bloomfile: no/a.bloom: cannot create a file in the folder: {}; check the path\n",
            no_folder()
        ),
    );
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}

#[test]
fn hashes_that_cannot_be_kept_aside() {
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", numbers(1_100_000));
    let mut command = sandbox.command("build a.bloom keys.txt");
    let output = command.env(TEMPORARY_FOLDER, sandbox.path("no")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    let start = format!("bloomfile: {}", sandbox.path("no").display());
    assert!(error.starts_with(&start), "{error}");
    assert!(error.contains(": cannot keep the keys' hashes"), "{error}");
    let end = format!("; set {TEMPORARY_FOLDER} to another folder, or give --capacity\n");
    assert!(error.ends_with(&end), "{error}");
    assert_eq!(sandbox.names(), ["keys.txt"]);
}

#[test]
fn bad_numbers_are_explained() {
    let sandbox = Sandbox::new();
    for (arguments, explanation) in [
        ("-n ten -p 1%", "invalid value 'ten' for '--capacity <N>': not a whole number such as"),
        ("-n 1.5 -p 1%", "invalid value '1.5' for '--capacity <N>': not a whole number such as"),
        ("-n 1e30 -p 1%", "invalid value '1e30' for '--capacity <N>': too large"),
        ("-n 0 -p 1%", "capacity cannot be 0: it must be at least 1"),
        ("-n 9 -p 0", "invalid value '0' for '--fpr <P>': a rate lies above 0 and below 1"),
        ("-n 9 -p 100%", "invalid value '100%' for '--fpr <P>': a rate lies above 0 and below 1"),
        ("-n 9 -p NaN", "invalid value 'NaN' for '--fpr <P>': a rate lies above 0 and below 1"),
        ("-n 9 -p 1e-30", "false positive rate cannot be "),
        ("-n 1e18 -p 1%", "capacity cannot be 1000000000000000000: a filter has at most 2^52"),
        ("-k 33 -m 5", "rows cannot be 33: it must be from 1 to 32"),
        ("-k 3 -m 0", "row bits cannot be 0: it must be from 1 to 2^52"),
        ("-n 9 -p 1% --layout cube", "invalid value 'cube' for '--layout <LAYOUT>'"),
    ] {
        for command in ["plan", "create a.bloom"] {
            let ran = sandbox.run(&format!("{command} {arguments}"));
            assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments}");
            assert!(ran.err.contains(explanation), "{arguments}: {}", ran.err);
        }
    }
    for (option, explanation) in [
        ("--seed x", "invalid value 'x' for '--seed <S>': not a number from 0 to 2^64 - 1"),
        ("--meta x", "invalid value 'x' for '--meta <KEY=VALUE>': not a pair KEY=VALUE"),
        ("--meta a=1 --meta a=2", "metadata key cannot be a: it is given twice"),
        ("--journal 1.5", "invalid value '1.5' for '--journal <SIZE>': not a whole number of"),
        ("--journal 1T", "journal size cannot be 1000000000000: the limit is "),
    ] {
        let ran = sandbox.run(&format!("create a.bloom -n 9 -p 1% {option}"));
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{option}");
        assert!(ran.err.contains(explanation), "{option}: {}", ran.err);
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn contradictory_flags_are_refused_before_anything_is_done() {
    let sandbox = Sandbox::new();
    for (arguments, explanation) in [
        ("create a.bloom -n 9 -p 1% -k 3 -m 5", "cannot be used with"),
        ("create a.bloom -k 3", "--row-bits <M>"),
        ("create a.bloom -m 3", "--rows <K>"),
        ("create a.bloom -k 3 -m 5 --layout page", "exact rows go with the layouts rows and flat"),
        ("build a.bloom --crlf --null", "cannot be used with"),
        ("build a.bloom - -", "-: standard input is named twice; it can be read only once"),
        ("add a.bloom - --from -", "-: standard input is named twice"),
        ("check a.bloom -q -c key", "cannot be used with"),
        ("verify", "<FILE>..."),
        ("verify -q --json a.bloom", "cannot be used with"),
        ("inspect a.bloom b.bloom", "unexpected argument 'b.bloom'"),
        ("chekc a.bloom", "a similar subcommand exists: 'check'"),
        ("create a.bloom --capcity 9", "a similar argument exists: '--capacity'"),
    ] {
        let ran = sandbox.run_with(arguments, "key\n");
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments}");
        assert!(ran.err.starts_with("bloomfile: "), "{arguments}: {}", ran.err);
        assert!(ran.err.contains(explanation), "{arguments}: {}", ran.err);
    }
    for command in ["plan --fpr 1%", "create a.bloom", "create a.bloom --fpr 1%"] {
        sandbox.run(command).is(
            2,
            "",
            "bloomfile: --capacity is missing; give --capacity and --fpr, or --rows and \
             --row-bits\n",
        );
    }
    assert!(sandbox.names().is_empty());
}

#[cfg(unix)]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::with_filter();
    for command in
        ["inspect a.bloom", "inspect --json a.bloom", "check a.bloom 1", "verify a.bloom"]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let Ok(full) = full else {
            eprintln!("skipped: this system has no /dev/full");
            return;
        };
        let output = sandbox.command(command).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "bloomfile: standard output: cannot be written: No space left on device (os error \
             28)\n",
        );
    }
}
