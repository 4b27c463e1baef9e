//! What the commands do when all is well, and when the answer is no.

use crate::sandbox::{Sandbox, numbers};

#[test]
fn create_makes_an_empty_filter() {
    let sandbox = Sandbox::new();
    sandbox.run("create a.bloom --capacity 1000 --fpr 1% --meta keys=words --journal 0").is(
        0,
        "a.bloom: created, 20 KiB; for 1,000 keys at a rate of 0.927 %\n",
        "",
    );
    sandbox.run("create -q b.bloom --rows 3 --row-bits 5 --layout flat").is(0, "", "");
    // The rate is that of build, if none is given.
    sandbox.run("create c.bloom --capacity 1000 --journal 0").is(
        0,
        "c.bloom: created, 20 KiB; for 1,000 keys at a rate of 0.927 %\n",
        "",
    );
    let plan = sandbox.run("plan -n 1000").out;
    assert!(plan.starts_with("  for           1,000 keys, rate at most 1 %\n"), "{plan}");
    let inspection = sandbox.run("inspect a.bloom");
    assert!(inspection.out.contains("holds         nothing; 0 adds changed it\n"));
    assert!(inspection.out.contains("metadata      keys = words\n"));
    assert_eq!(sandbox.names(), ["a.bloom", "b.bloom", "c.bloom"]);
}

#[test]
fn create_replaces_when_asked() {
    let sandbox = Sandbox::with_filter();
    sandbox.run("create -q a.bloom --capacity 7 --fpr 1% --force").is(0, "", "");
    assert!(sandbox.run("inspect a.bloom").out.contains("made for      7 keys, rate at most 1 %"));
    assert_eq!(sandbox.names(), ["a.bloom"]);
}

#[test]
fn build_counts_the_keys_first() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build a.bloom", "one\ntwo\ntwo\nthree").is(
        0,
        "a.bloom: 4 keys read: 3 new, 1 already present or false positive; made for 3 distinct ones; 20 KiB\n",
        "",
    );
    sandbox.run("check --all a.bloom one two three").is(0, "one\ntwo\nthree\n", "");
}

/// A list in which every key stands ten times gets the filter of one in which it stands once.
#[test]
fn build_makes_no_room_for_repeats() {
    let sandbox = Sandbox::new();
    let capacity = |input: String| {
        let json = sandbox.run_with("build a.bloom --force --json", input).out;
        let output: serde_json::Value = serde_json::from_str(&json).unwrap();
        output["capacity"].as_u64().unwrap()
    };
    assert_eq!(capacity(numbers(4_000).repeat(10)), 4_000);
    assert_eq!(capacity(numbers(50_000)), 50_000);
    let repeated = capacity(numbers(50_000).repeat(10));
    assert!((49_500..51_500).contains(&repeated), "{repeated}");
}

/// Distinct keys that do not change the filter are no duplicates: they are false positives.
#[test]
fn build_and_add_say_what_is_new() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build a.bloom --journal 8KiB", numbers(30_000)).is(
        0,
        "a.bloom: 30,000 keys read: 29,943 new, 57 already present or false positive; made for \
         30,000; 64 KiB\n",
        "",
    );
    sandbox.run("add a.bloom 1 2").is(
        0,
        "a.bloom: 2 keys read: 0 new, 2 already present or false positive\n",
        "",
    );
}

#[test]
fn build_reads_files_and_standard_input() {
    let sandbox = Sandbox::new();
    sandbox.write("1.txt", "one\n");
    sandbox.write("2.txt", "two");
    sandbox
        .run_with("build -q a.bloom 1.txt - 2.txt --capacity 10 --fpr 0.1%", "three\n")
        .is(0, "", "");
    sandbox.run("check -c a.bloom one two three four").is(0, "3\n", "");
    // Counting first comes to the same file as naming the capacity.
    sandbox.run("build -q b.bloom 1.txt 2.txt").is(0, "", "");
    sandbox.run("build -q c.bloom 1.txt 2.txt --capacity 2 --fpr 0.01").is(0, "", "");
    assert_eq!(sandbox.read("b.bloom"), sandbox.read("c.bloom"));
}

#[test]
fn build_honours_the_seed() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --seed 7", numbers(1000)).is(0, "", "");
    sandbox.run_with("build -q b.bloom --seed 7 --capacity 1000", numbers(1000)).is(0, "", "");
    sandbox.run_with("check -cv a.bloom", numbers(1000)).is(0, "0\n", "");
    assert_eq!(sandbox.read("a.bloom"), sandbox.read("b.bloom"));
    assert!(sandbox.run("inspect a.bloom").out.contains("hash          SeaHash, seed 7\n"));
}

#[test]
fn build_keeps_many_hashes_outside_memory() {
    let sandbox = Sandbox::new();
    // More than the million that are kept in memory.
    let keys = numbers(1_100_000);
    sandbox.run_with("build -q a.bloom --journal 0", &keys).is(0, "", "");
    sandbox.run_with("check -cv a.bloom", &keys).is(0, "0\n", "");
    assert!(sandbox.run("inspect a.bloom").out.contains("made for      1,100,000 keys"));
}

#[test]
fn build_and_add_warn_of_too_many_keys() {
    let sandbox = Sandbox::new();
    let warning = "warning: holds 1,000 keys, made for 100: its rate is higher than planned; \
                   build a larger one\n";
    sandbox.run_with("build a.bloom --capacity 100 --fpr 1e-9", numbers(1000)).is(
        0,
        "a.bloom: 1,000 keys read: all new; 20 KiB\n",
        &format!("bloomfile: a.bloom: {warning}"),
    );
    let create = "create -qf b.bloom --capacity 100 --fpr 1e-9 --journal";
    sandbox.run(&format!("{create} 1M")).is(0, "", "");
    sandbox.run_with("add b.bloom", numbers(1000)).is(
        0,
        "b.bloom: 1,000 keys read: all new\n",
        &format!("bloomfile: b.bloom: {warning}"),
    );
    // Without records nothing tells which of a page's bits are new.
    sandbox.run(&format!("{create} 0")).is(0, "", "");
    let ran = sandbox.run_with("add b.bloom", numbers(50));
    let told = "b.bloom: 50 keys read: all new; 1 page with a new checksum that no records prove\n";
    assert_eq!(ran.out, told);
    for (expected, keys) in [(1, 100), (0, 100)] {
        let ran = sandbox.run_with("add --json b.bloom", numbers(keys));
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(json["pages_unverified"], expected, "{}", ran.out);
    }
    sandbox.run("add -q b.bloom x").is(0, "", "");
}

#[test]
fn add_takes_arguments_files_and_standard_input() {
    let sandbox = Sandbox::with_filter();
    sandbox.write("more.txt", "from a file\n");
    sandbox.run("add a.bloom cow 1 --from more.txt").is(
        0,
        "a.bloom: 3 keys read: 2 new, 1 already present or false positive\n",
        "",
    );
    sandbox.run_with("add -q a.bloom", "from stdin").is(0, "", "");
    sandbox.run_with("add -q a.bloom -", "from -").is(0, "", "");
    sandbox.write("asked.txt", "cow\nfrom a file\nfrom stdin\nfrom -\n");
    sandbox.run("check --all a.bloom --from asked.txt").is(
        0,
        "cow\nfrom a file\nfrom stdin\nfrom -\n",
        "",
    );
}

#[test]
fn check_prints_what_may_be_present() {
    let sandbox = Sandbox::with_filter();
    sandbox.run("check a.bloom sheep 1 wolf 1000").is(0, "1\n1000\n", "");
    sandbox.run("check a.bloom sheep wolf").is(1, "", "");
    sandbox.run("check -v a.bloom sheep 1 wolf").is(0, "sheep\nwolf\n", "");
    sandbox.run("check -v a.bloom sheep").is(1, "sheep\n", "");
    sandbox.run("check -c a.bloom sheep 1 2").is(0, "2\n", "");
    sandbox.run("check -cv a.bloom sheep 1 2").is(0, "1\n", "");
    sandbox.run("check -c a.bloom sheep").is(1, "0\n", "");
    sandbox.run("check -q a.bloom sheep 1").is(0, "", "");
    sandbox.run("check -q a.bloom sheep").is(1, "", "");
    sandbox.run("check --all a.bloom 1 2").is(0, "1\n2\n", "");
    sandbox.run("check --all a.bloom 1 sheep 2").is(1, "1\n2\n", "");
    sandbox.run("check -q --all a.bloom 1 sheep").is(1, "", "");
    sandbox.run("check a.bloom").is(1, "", "");
}

#[test]
fn inspect_says_it_on_one_screen() {
    let sandbox = Sandbox::with_filter();
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.run("inspect --json a.bloom").out).unwrap();
    let screen = "a.bloom: a Bloom filter (bloomfile format 1), 28 KiB

  made for      1,000 keys, rate at most 1 %
  when full     takes more keys, at a higher rate
  layout        line: 20 lines with 8 rows of 64 cells
  holds         about 1,004 keys (987 to 1,021); 997 adds changed it
  full          54.4 % of its bits are set; at 100 % of its capacity
  rate now      0.945 % (1 in 106)
  at capacity   0.927 % (1 in 108)
  space         4 KiB of data, 8 KiB of journal
  hash          SeaHash, seed 0
  identity      UUID
  fill          █████████████████████▊·················· 54.4 %
  health        closed in good order
  advice        fine as it is; at 100 %, so build a larger one before adding more
";
    let screen = screen.replace("UUID", json["uuid"].as_str().unwrap());
    sandbox.run("inspect a.bloom").is(0, &screen, "");
}

#[test]
fn inspect_advises() {
    let sandbox = Sandbox::new();
    let advice = |arguments: &str, keys: u32| {
        sandbox.run_with(&format!("build -q -f a.bloom {arguments}"), numbers(keys)).is(0, "", "");
        let out = sandbox.run("inspect a.bloom").out;
        out.split_once("advice        ").unwrap().1.trim_end().to_owned()
    };
    assert_eq!(
        advice("-n 1000", 500),
        "none; bloomfile verify a.bloom checks the data, which was not checked here"
    );
    assert!(advice("-n 1000", 950).starts_with("fine as it is; at 9"));
    assert!(advice("-n 1000", 1200).starts_with("build a larger one: it holds more keys than"));
    assert!(advice("-n 100", 5000).starts_with("build a larger one: this one says \"maybe\""));
    // Every bit set: the estimate has no upper end.
    sandbox.run_with("build -q -f a.bloom -k 1 -m 64", numbers(5000)).is(0, "", "");
    let out = sandbox.run("inspect a.bloom").out;
    assert!(out.contains("keys or more: too full to tell"), "{out}");
}

#[test]
fn inspect_does_not_let_metadata_steer_the_terminal() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command("create -q a.bloom -n 9 -p 1%");
    assert!(command.args(["--meta", "note=\x1b[2Jgone"]).status().unwrap().success());
    let out = sandbox.run("inspect a.bloom").out;
    assert!(out.contains("metadata      note = \\u{1b}[2Jgone\n"), "{out}");
}

#[test]
fn verify_finds_a_sound_file_sound() {
    let sandbox = Sandbox::with_filter();
    sandbox.run("create -q b.bloom -n 1M -p 1%").is(0, "", "");
    sandbox.run("verify a.bloom b.bloom").is(
        0,
        "a.bloom: sound: 1 page as written\nb.bloom: sound: 310 pages as written\n",
        "",
    );
    sandbox.run("verify -q a.bloom").is(0, "", "");
}

#[test]
fn help_and_version_name_what_there_is() {
    let sandbox = Sandbox::new();
    let help = sandbox.run("--help");
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    for command in ["plan", "create", "build", "add", "check", "inspect", "verify", "repair"] {
        assert!(help.out.contains(&format!("\n  {command} ")), "{command}");
        let help = sandbox.run(&format!("{command} --help"));
        assert_eq!(help.code, Some(0));
        assert!(help.out.contains(&format!("Usage: bloomfile {command}")), "{}", help.out);
    }
    let version = sandbox.run("--version");
    version.is(0, &format!("bloomfile {} (format version 1)\n", env!("CARGO_PKG_VERSION")), "");
}

#[cfg(unix)]
#[test]
fn a_new_file_has_the_permissions_of_any_other() {
    use std::os::unix::fs::PermissionsExt;

    let sandbox = Sandbox::with_filter();
    sandbox.write("other", "");
    let mode = |name| std::fs::metadata(sandbox.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("a.bloom"), mode("other"));
}
