//! Counting, growing, rotating and refusing filters.

use crate::sandbox::{Sandbox, numbers};

/// A sandbox with one filter of each kind, which hold the numbers from 1 to `keys`.
fn sandbox(keys: u32) -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, kind) in [
        ("counting", "-n 1000 --kind counting"),
        ("growing", "-n 100 --grow"),
        ("both", "-n 100 --grow --kind counting"),
        ("rotating", "-n 1000 --generations 3 --rotate-after 400"),
        ("refusing", "-n 2000 --when-full refuse"),
    ] {
        let create = format!("create -q {name}.bloom -p 1% --journal 64KiB {kind}");
        sandbox.run(&create).is(0, "", "");
        sandbox.run_with(&format!("add -q {name}.bloom"), numbers(keys)).is(0, "", "");
    }
    sandbox
}

const NAMES: [&str; 5] = ["counting", "growing", "both", "rotating", "refusing"];

#[test]
fn create_says_what_it_made() {
    let sandbox = Sandbox::new();
    for (arguments, made) in [
        ("--kind counting", "88 KiB; counting; for 1,000 keys at a rate of 0.927 %"),
        ("--grow", "84 KiB; for 1,000 keys and then more, at a rate of at most 1 %"),
        ("--when-full grow", "84 KiB; for 1,000 keys and then more, at a rate of at most 1 %"),
        ("--when-full refuse", "84 KiB; for 1,000 keys at a rate of 0.927 %"),
        (
            "--generations 3",
            "108 KiB; 3 generations, each for 1,000 keys; 0.894 % is the rate of all together",
        ),
    ] {
        let create = format!("create -f a.bloom -n 1000 -p 1% --journal 64KiB {arguments}");
        sandbox.run(&create).is(0, &format!("a.bloom: created, {made}\n"), "");
    }
}

#[test]
fn contradictions_are_refused() {
    let sandbox = Sandbox::new();
    for (arguments, error) in [
        ("--grow --when-full refuse", "--grow and --when-full refuse contradict each other\n"),
        ("--grow --when-full allow", "--grow and --when-full allow contradict each other\n"),
        (
            "--generations 3 --when-full grow",
            "--generations and --when-full grow contradict each other: a rotating filter makes \
             room by forgetting\n",
        ),
        ("--grow --generations 3", "the argument '--grow' cannot be used with '--generations <G>'"),
        (
            "--rotate-after 3",
            "the following required arguments were not provided:\n  --generations",
        ),
        ("--generations 0", "--generations cannot be 0; it must be from 2 to 32\n"),
        ("--generations 33", "a.bloom: generations cannot be 33: it must be from 2 to 32\n"),
        (
            "--generations 3 --rotate-after 0",
            "--rotate-after cannot be 0; leave it out to rotate by hand\n",
        ),
        ("--kind fuzzy", "invalid value 'fuzzy' for '--kind <KIND>'"),
    ] {
        let ran = sandbox.run(&format!("create a.bloom -n 100 -p 1% {arguments}"));
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments}");
        assert!(ran.err.starts_with(&format!("bloomfile: {error}")), "{arguments}: {}", ran.err);
    }
    let exact = sandbox.run("create a.bloom -k 3 -m 100 --when-full grow");
    let reason = "a filter that grows needs capacity and rate, not an exact size";
    exact.is(2, "", &format!("bloomfile: a.bloom: when full cannot be grow: {reason}\n"));
    assert!(sandbox.names().is_empty());
}

#[test]
fn remove_takes_keys_out() {
    let sandbox = sandbox(300);
    sandbox.run("remove counting.bloom 1 2").is(
        0,
        "counting.bloom: 2 keys read, 2 of them removed\n",
        "",
    );
    sandbox.run("check counting.bloom 1 2 3").is(0, "3\n", "");
    // The keys that are not in are named, the others are removed all the same.
    sandbox.write("gone.txt", "3\n2\n5\nnever\u{1b}[2J\n");
    sandbox.run("remove counting.bloom 4 --from gone.txt").is(
        1,
        "counting.bloom: 5 keys read, 3 of them removed\n",
        "bloomfile: counting.bloom: 2 is not in it\n\
         bloomfile: counting.bloom: \"never\\u{1b}[2J\" is not in it\n",
    );
    sandbox.run("check counting.bloom 3 4 5 6").is(0, "6\n", "");
    sandbox.run_with("remove -q counting.bloom", "2\n6\n").is(1, "", "");
    sandbox.run("check counting.bloom 6").is(1, "", "");
    sandbox.run("remove -q counting.bloom --hex 37").is(0, "", "");
    sandbox.run("check counting.bloom 7 8").is(0, "8\n", "");
    // A key that was added twice is in until it was removed twice.
    sandbox.run("add counting.bloom 8").is(
        0,
        "counting.bloom: 1 key read: 0 new, 1 already present or false positive\n",
        "",
    );
    sandbox.run("remove -q counting.bloom 8").is(0, "", "");
    sandbox.run("check -q counting.bloom 8").is(0, "", "");
    sandbox.run("remove -q counting.bloom 8").is(0, "", "");
    sandbox.run("check -q counting.bloom 8").is(1, "", "");
    sandbox.run("verify counting.bloom").is(0, "counting.bloom: sound: 2 pages as written\n", "");
}

/// A line that means no key ends it; what came before is removed for good, and it says so.
#[test]
fn remove_says_how_far_it_came() {
    let sandbox = sandbox(10);
    sandbox.run_with("remove counting.bloom --hex", "31\n39\nxx\n32\n").is(
        2,
        "",
        "bloomfile: standard input: line 3 is not hex; with --hex a key is written as two digits \
         for each byte; 2 keys before it, 2 of them removed\n",
    );
    sandbox.run("check counting.bloom 1 2 9").is(0, "2\n", "");
}

#[test]
fn remove_needs_counters() {
    let sandbox = sandbox(10);
    let error = "is a plain filter, and only a counting one lets keys be removed; make one with \
                 create --kind counting";
    for name in ["growing", "rotating", "refusing"] {
        let error = format!("bloomfile: {name}.bloom: {error}\n");
        sandbox.run(&format!("remove {name}.bloom 1")).is(2, "", &error);
    }
    let again = sandbox.run_with("check -c growing.bloom", numbers(10));
    again.is(0, "10\n", "");
}

/// Where two parts of a filter seem to hold a key, taking it out of the wrong one would lose
/// another: it stays, and that is an error.
#[test]
fn remove_leaves_what_is_in_doubt() {
    let sandbox = Sandbox::new();
    let create = "create -q a.bloom -n 100 -p 1% --kind counting --generations 2";
    sandbox.run(create).is(0, "", "");
    sandbox.run("add -q a.bloom cow sheep").is(0, "", "");
    sandbox.run("rotate -q a.bloom").is(0, "", "");
    sandbox.run("add -q a.bloom cow").is(0, "", "");
    sandbox.run("remove a.bloom cow sheep wolf").is(
        2,
        "a.bloom: 3 keys read, 1 of them removed\n",
        "bloomfile: a.bloom: cow stays: more than one segment seems to hold it\n\
         bloomfile: a.bloom: wolf is not in it\n",
    );
    sandbox.run("remove -q a.bloom cow wolf").is(
        2,
        "",
        "bloomfile: a.bloom: cow stays: more than one segment seems to hold it\n",
    );
    sandbox.run("check a.bloom cow sheep").is(0, "cow\n", "");
}

#[test]
fn a_full_filter_refuses() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 100 -p 1% --when-full refuse").is(0, "", "");
    sandbox.run_with("add -q a.bloom", numbers(95)).is(0, "", "");
    let out = sandbox.run("inspect a.bloom").out;
    assert!(out.contains("\n  when full     refuses new keys\n"), "{out}");
    assert!(out.contains("\n  rate now      0.623 % (1 in 160)\n"), "{out}");
    let advice = "build a larger one: at 93.8 % of its capacity, it soon refuses new keys";
    assert!(out.contains(&format!("\n  advice        {advice}\n")), "{out}");
    // The first 95 are known, five more fit.
    sandbox.run_with("add a.bloom --resume", numbers(105)).is(
        2,
        "",
        "bloomfile: a.bloom: is full: it was made to refuse more (made for 100 keys); build a \
         larger one; 100 keys were added before it\n",
    );
    sandbox.run_with("check -c a.bloom", numbers(100)).is(0, "100\n", "");
    assert!(sandbox.run("inspect a.bloom").out.contains("\n  mark          100\n"));
    sandbox.run("add a.bloom 1").is(
        0,
        "a.bloom: 1 key read: 0 new, 1 already present or false positive\n",
        "",
    );
}

#[test]
fn a_growing_filter_grows() {
    let sandbox = sandbox(1000);
    // No part of it holds more than it was made for, so there is nothing to warn of.
    sandbox.run("add growing.bloom sheep").is(0, "growing.bloom: 1 key read: all new\n", "");
    let out = sandbox.run("inspect growing.bloom").out;
    let (identity, rest) = out.split_once("  identity      ").unwrap();
    assert_eq!(
        identity,
        "growing.bloom: a growing Bloom filter (bloomfile format 1), 108 KiB

  made for      100 keys, rate at most 1 %
  when full     grows: a larger segment is appended
  layout        line: 25 lines with 8 rows of 64 cells
  holds         about 991 keys (969 to 1,013); 1,000 adds changed it
  in use        4 segments; the newest is at 37.7 % of its capacity
  rate now      0.29 % (1 in 345)
  at capacity   0.407 % (1 in 245), all 4 segments full
  space         16 KiB of data, 64 KiB of journal
  hash          SeaHash, seed 0
"
    );
    assert_eq!(
        rest.split_once('\n').unwrap().1,
        "  segment 0     ████████············ 40.3 %  about 99 of 100 keys, rate 0.0953 %
  segment 1     ████████············ 39.7 %  about 194 of 200 keys, rate 0.0904 %
  segment 2     ████████············ 40.3 %  about 396 of 400 keys, rate 0.104 %
  segment 3     ███▌················ 17.2 %  about 302 of 800 keys, rate 0.000309 %
  health        closed in good order
  advice        none; bloomfile verify growing.bloom checks the data, which was not checked here
"
    );
    sandbox.run("remove both.bloom 1 1000").is(
        0,
        "both.bloom: 2 keys read, 2 of them removed\n",
        "",
    );
    sandbox.run("check both.bloom 1 2 999 1000").is(0, "2\n999\n", "");
}

/// Merging fills segments beyond what they were made for.
#[test]
fn growing_filters_merge_and_say_what_that_costs() {
    let sandbox = sandbox(300);
    sandbox.run("create -q other.bloom -n 100 -p 1% --grow --journal 64KiB").is(0, "", "");
    let keys: String = numbers(900).split_inclusive('\n').skip(300).collect();
    sandbox.run_with("add -q other.bloom", keys).is(0, "", "");
    sandbox.run("merge -q -o all.bloom growing.bloom other.bloom").is(0, "", "");
    sandbox.run_with("check -c all.bloom", numbers(900)).is(0, "900\n", "");
    let out = sandbox.run("inspect all.bloom").out;
    assert!(out.contains("\n  rate now      6.22 % (1 in 16)\n"), "{out}");
    let advice = "build it again from the keys: merging took its rate above 1 %";
    assert!(out.ends_with(&format!("\n  advice        {advice}\n")), "{out}");
    // One of another size beside them is a segment of its own.
    let ran = sandbox.run("merge -o more.bloom growing.bloom refusing.bloom");
    assert!(ran.err.contains("warning: sizes that do not fold into one another"), "{}", ran.err);
    assert_eq!(ran.code, Some(0));
    sandbox.run_with("check -c more.bloom", numbers(300)).is(0, "300\n", "");
    sandbox.run("verify -q more.bloom").is(0, "", "");
    sandbox.run("merge -o no.bloom rotating.bloom rotating.bloom").is(
        2,
        "",
        "bloomfile: rotating.bloom: input cannot be a rotating filter: this takes filters of one \
         segment; build one from the keys\n",
    );
}

#[test]
fn rotate_forgets_the_oldest() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 100 -p 1% --generations 2").is(0, "", "");
    sandbox.run("add -q a.bloom monday").is(0, "", "");
    let none = "a.bloom: rotated: 2 generations in use, none was dropped\n";
    sandbox.run("rotate a.bloom").is(0, none, "");
    sandbox.run("add -q a.bloom tuesday").is(0, "", "");
    sandbox.run("check a.bloom monday tuesday").is(0, "monday\ntuesday\n", "");
    let dropped = "a.bloom: rotated: the oldest of 2 generations was dropped\n";
    sandbox.run("rotate a.bloom").is(0, dropped, "");
    sandbox.run("check a.bloom monday tuesday").is(0, "tuesday\n", "");

    sandbox.run_with("add a.bloom", numbers(95)).is(0, "a.bloom: 95 keys read: all new\n", "");
    let out = sandbox.run("inspect a.bloom").out;
    assert!(
        out.contains("  when full     takes more keys, at a higher rate, until it is rotated\n"),
        "{out}"
    );
    assert!(out.contains("  in use        2 segments; the newest is at 94.5 % of its"), "{out}");
    let advice = "rotate it, its newest generation is at 94.5 %: bloomfile rotate a.bloom";
    assert!(out.contains(&format!("\n  advice        {advice}\n")), "{out}");
    let full = sandbox.run_with("add a.bloom", numbers(120));
    let warning = "bloomfile: a.bloom: warning: holds 120 keys, made for 100: its rate is higher \
                   than planned; rotate it\n";
    full.is(0, "a.bloom: 120 keys read: 25 new, 95 already present or false positive\n", warning);

    sandbox.run("create -q b.bloom -n 100 -p 1%").is(0, "", "");
    sandbox.run("rotate b.bloom").is(
        2,
        "",
        "bloomfile: b.bloom: rotate cannot be done on this file: only a filter made with \
         generations rotates\n",
    );
}

#[test]
fn a_filter_rotates_by_itself() {
    let sandbox = sandbox(1500);
    let out = sandbox.run("inspect rotating.bloom").out;
    let title = "rotating.bloom: a rotating Bloom filter of 3 generations (bloomfile format 1)";
    assert!(out.starts_with(title), "{out}");
    let policy = "  when full     rotates after 400 adds: the oldest generation goes\n";
    assert!(out.contains(policy), "{out}");
    assert!(out.contains("  segment 2     ███") && !out.contains("segment 3"), "{out}");
    // The first 400 went with the oldest generation.
    sandbox.run_with("check -c rotating.bloom", numbers(1500)).is(0, "1100\n", "");
    sandbox.run("check -q rotating.bloom 1500").is(0, "", "");
}

#[test]
fn export_gives_bits_for_counters() {
    let sandbox = sandbox(300);
    sandbox.run("remove -q counting.bloom 1").is(0, "", "");
    sandbox.run("export -o plain.bloom counting.bloom").is(
        0,
        "plain.bloom: export of the counters; about 296 keys (291 to 300), rate 0.00102 %; 84 KiB\n",
        "",
    );
    sandbox.run("check plain.bloom 1 2 300").is(0, "2\n300\n", "");
    sandbox.run("verify plain.bloom").is(0, "plain.bloom: sound: 1 page as written\n", "");
    sandbox.run_with("build -q other.bloom -n 1000 -p 1%", "sheep\n").is(0, "", "");
    sandbox.run("merge -q -o all.bloom plain.bloom other.bloom").is(0, "", "");
    sandbox.run("check all.bloom 2 sheep wolf").is(0, "2\nsheep\n", "");

    let exists = "already exists; choose another name, or replace it with --force";
    let error = format!("bloomfile: plain.bloom: {exists}\n");
    sandbox.run("export -o plain.bloom counting.bloom").is(2, "", &error);
    sandbox.run("export -q -f -o plain.bloom counting.bloom").is(0, "", "");
    sandbox.run("export -o no.bloom other.bloom").is(
        2,
        "",
        "bloomfile: other.bloom: kind cannot be plain: only a counting filter is exported: a plain \
         one can be copied\n",
    );
    sandbox.run("shrink -o no.bloom counting.bloom --factor 2").is(
        2,
        "",
        "bloomfile: counting.bloom: kind cannot be counting: counters cannot be folded: export the \
         plain filter and fold that\n",
    );
    assert!(!sandbox.names().contains(&"no.bloom".to_owned()));
}

/// Every command that reads takes every kind.
#[test]
fn all_kinds_are_read_alike() {
    let sandbox = sandbox(1000);
    for name in NAMES {
        let file = format!("{name}.bloom");
        let verified = sandbox.run(&format!("verify {file}"));
        assert_eq!((verified.code, verified.err.as_str()), (Some(0), ""), "{name}");
        for view in ["", "--loads ", "--pages ", "--bytes ", "--bytes --all ", "--json "] {
            let ran = sandbox.run(&format!("inspect {view}{file}"));
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{name} {view}");
            assert!(!ran.out.contains("wrong"), "{name} {view}: {}", ran.out);
        }
        assert_eq!(sandbox.run(&format!("inspect --html {name}.html {file}")).code, Some(0));
        assert_eq!(sandbox.run(&format!("bench -n 100 {file}")).code, Some(0));
        let out = sandbox.run(&format!("inspect {file}")).out;
        assert!(out.lines().count() <= 30, "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    }
    let files = NAMES.map(|name| format!("{name}.bloom")).join(" ");
    let all = files.replace(' ', "\t");
    sandbox.run(&format!("which -k 1000 {files}")).is(0, &format!("1000\t{all}\n"), "");
}

/// Damage in any part is found, shown and repaired.
#[test]
fn all_kinds_are_repaired() {
    let sandbox = sandbox(1000);
    for (name, pages) in [("counting", 2), ("growing", 4), ("both", 5), ("refusing", 1)] {
        let file = format!("{name}.bloom");
        let mut bytes = sandbox.read(&file);
        let last = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        bytes[last] = 0;
        sandbox.write(&file, bytes);
        let page = pages - 1;
        let ran = sandbox.run(&format!("verify {file}"));
        let noun = if pages == 1 { "page" } else { "pages" };
        let damaged = format!("{file}: damaged: 1 of {pages} {noun} not as written (page {page}");
        assert!(ran.code == Some(1) && ran.out.starts_with(&damaged), "{}", ran.out);
        assert_eq!(sandbox.run(&format!("check {file} 1")).code, Some(2));
        sandbox.run(&format!("inspect --html a.html {file}"));
        let page = String::from_utf8(sandbox.read("a.html")).unwrap();
        assert_eq!(page.matches(", damaged").count(), 1, "{name}: one cell of one map");
        assert_eq!(sandbox.run(&format!("repair {file}")).code, Some(0));
        sandbox.run_with(&format!("check -c {file}"), numbers(1000)).is(0, "1000\n", "");
        assert_eq!(sandbox.run(&format!("verify {file}")).code, Some(0));
    }
}
