//! Merging, intersecting, shrinking, comparing, and asking many files.

use crate::sandbox::{Sandbox, no_file, numbers};

/// A sandbox with `small.bloom` (1 to 2000) and `large.bloom` (1001 to 4000), four times as large.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q small.bloom -n 10k --journal 0", numbers(2000)).is(0, "", "");
    let keys: String = numbers(4000).split_inclusive('\n').skip(1000).collect();
    sandbox.run_with("build -q large.bloom -n 40k --journal 0", keys).is(0, "", "");
    sandbox
}

#[test]
fn merge_folds_the_larger_file_and_says_so() {
    let sandbox = sandbox();
    sandbox.run("merge -o all.bloom small.bloom large.bloom").is(
        0,
        "all.bloom: union of 2 files; about 4,004 keys (3,984 to 4,024), rate 0.00663 %; 32 KiB
  large.bloom was folded by 4: the rate of its keys goes from 5.09e-9 to 0.00123 %
",
        "",
    );
    let check = sandbox.run_with("check --all --count all.bloom", numbers(4000));
    check.is(0, "4000\n", "");
    sandbox.run("verify all.bloom").is(0, "all.bloom: sound: 4 pages as written\n", "");
    let inspection = sandbox.run("inspect all.bloom").out;
    assert!(inspection.contains("metadata      provenance = union of 2 files\n"), "{inspection}");
    assert!(inspection.contains("made for      10,000 keys, rate at most 1 %\n"), "{inspection}");
    // The order of the files makes no difference to a single byte.
    sandbox.run("merge -q -o other.bloom large.bloom small.bloom").is(0, "", "");
    assert_eq!(sandbox.read("other.bloom"), sandbox.read("all.bloom"));
}

#[test]
fn intersect_keeps_what_is_common() {
    let sandbox = sandbox();
    let ran = sandbox.run("intersect -o both.bloom small.bloom large.bloom");
    assert!(ran.out.starts_with("both.bloom: intersection of 2 files; as full as with about 1,1"));
    let common: String = numbers(2000).split_inclusive('\n').skip(1000).collect();
    sandbox.run_with("check --all --count both.bloom", common).is(0, "1000\n", "");
    sandbox.run("check both.bloom 5 3999 8000").is(1, "", "");
}

#[test]
fn shrink_by_a_factor_or_to_a_rate() {
    let sandbox = sandbox();
    sandbox.run("shrink -o four.bloom large.bloom --factor 4").is(
        0,
        "four.bloom: fold by 4; about 3,001 keys (2,986 to 3,015), rate 0.00122 %; 32 KiB
  large.bloom was folded by 4: the rate of its keys goes from 5.09e-9 to 0.00123 %
",
        "",
    );
    let ran = sandbox.run("shrink -o rate.bloom large.bloom --fpr 1%");
    assert!(ran.out.starts_with("rate.bloom: fold by 12; about 3,00"), "{}", ran.out);
    let keys: String = numbers(4000).split_inclusive('\n').skip(1000).collect();
    sandbox.run_with("check --all --count rate.bloom", keys).is(0, "3000\n", "");
    sandbox.run("shrink -o none.bloom large.bloom --factor 7").is(
        2,
        "",
        "bloomfile: large.bloom: fold factor cannot be 7: it must divide the 792 blocks\n",
    );
    assert_eq!(sandbox.run("shrink -o none.bloom large.bloom --fpr 1e-12").code, Some(2));
    assert_eq!(sandbox.run("shrink -o none.bloom large.bloom").code, Some(2));
    assert_eq!(sandbox.run("shrink -o none.bloom large.bloom --factor 2 --fpr 1%").code, Some(2));
    assert_eq!(sandbox.names(), ["four.bloom", "large.bloom", "rate.bloom", "small.bloom"]);
}

#[test]
fn what_cannot_be_combined_is_refused_and_nothing_is_made() {
    let sandbox = sandbox();
    sandbox.run("create -q seed.bloom -n 10k -p 1% --seed 7").is(0, "", "");
    sandbox.run("merge -o out.bloom small.bloom seed.bloom").is(
        2,
        "",
        "bloomfile: seed.bloom: seed differs: 0 and 7; only filters built alike can be combined: \
         with the same --capacity, --fpr, --layout and --seed\n",
    );
    let mut bytes = sandbox.read("large.bloom");
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[last] = 0;
    sandbox.write("damaged.bloom", bytes);
    for command in ["merge", "intersect"] {
        sandbox.run(&format!("{command} -o out.bloom small.bloom damaged.bloom")).is(
            2,
            "",
            "bloomfile: damaged.bloom: 1 data page is damaged (first: page 12 of segment 0: bits \
             were lost); restore the file from a copy, or run repair, which answers \"maybe\" for \
             what was lost\n",
        );
    }
    sandbox.run("merge -o small.bloom small.bloom large.bloom").is(
        2,
        "",
        "bloomfile: small.bloom: already exists; choose another name, or replace it with --force\n",
    );
    sandbox.run("merge -o out.bloom small.bloom missing.bloom").is(
        2,
        "",
        &format!("bloomfile: missing.bloom: cannot open the file: {}; check the path\n", no_file()),
    );
    assert!(!sandbox.names().iter().any(|name| name.contains("out")), "{:?}", sandbox.names());
    sandbox.run("merge -q --force -o small.bloom small.bloom large.bloom").is(0, "", "");
    sandbox.run("check small.bloom 4000").is(0, "4000\n", "");
}

#[test]
fn compare_shows_both_side_by_side() {
    let sandbox = sandbox();
    sandbox.run("compare small.bloom large.bloom").is(
        1,
        "A: small.bloom
B: large.bloom

  segments      1 in both
  kind          plain in both
  seed          0 in both
  layout        line in both
  rows          8 in both
  blocks        198 in A, 792 in B
  row bits      64 in both
  capacity      10000 in A, 40000 in B
  target rate   0.01 in both
  journal bytes 0 in both
  adds          2000 in A, 3000 in B
  compared at   the smaller size: B folded by 4
  A holds       about 2,004 keys (1,994 to 2,014)
  B holds       about 3,001 keys (2,986 to 3,015)
  together      about 4,004 keys (3,984 to 4,024)
  in common     about 1,001 keys (989 to 1,012)
  Jaccard       24.99 % (24.63 to 25.35 %)
  of A in B     49.93 % (49.35 to 50.51 %)
  of B in A     33.34 % (32.94 to 33.75 %)
  relation      each has bits that the other has not
  pages         4 of 4 pages differ: 0 to 3
",
        "",
    );
    sandbox.run("merge -q -o all.bloom small.bloom large.bloom").is(0, "", "");
    let superset = sandbox.run("compare all.bloom small.bloom").out;
    assert!(superset.contains("relation      A has all bits of B, and more\n"), "{superset}");
    sandbox.run("create -q seed.bloom -n 10k -p 1% --seed 7").is(0, "", "");
    let incomparable = sandbox.run("compare small.bloom seed.bloom").out;
    assert!(incomparable.contains("relation      cannot be told: seed differs: 0 and 7;"));
}

/// Each is full, and together they are too much for the size of one.
#[test]
fn merge_warns_of_a_rate_above_the_one_that_was_asked_for() {
    let sandbox = Sandbox::new();
    let keys =
        |first: u32| (first..first + 10_000).map(|key| format!("{key}\n")).collect::<String>();
    for (name, first) in [("a", 0), ("b", 10_000), ("c", 20_000)] {
        let build = format!("build -q {name}.bloom -n 10k --journal 0");
        sandbox.run_with(&build, keys(first)).is(0, "", "");
    }
    sandbox.run("merge -o all.bloom a.bloom b.bloom c.bloom").is(
        0,
        "all.bloom: union of 3 files; about 30,205 keys (29,984 to 30,429), rate 46.6 %; 32 KiB\n",
        "bloomfile: all.bloom: warning: its rate of 46.6 % is above the 1 % that the files were \
         made for; build a larger one from the keys\n",
    );
    // The same keys twice are no more keys.
    let ran = sandbox.run("merge -o same.bloom a.bloom a.bloom");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    sandbox.run("merge -q -f -o all.bloom a.bloom b.bloom").is(0, "", "");
}

#[test]
fn which_names_the_files_of_each_key() {
    let sandbox = sandbox();
    // The key comes first, as it does for grep.
    sandbox.run("which 1500 small.bloom large.bloom").is(0, "1500\tsmall.bloom\tlarge.bloom\n", "");
    sandbox.run("which 9999 small.bloom").is(1, "9999\n", "");
    sandbox.run("which small.bloom").is(
        2,
        "",
        "bloomfile: name a key, or - for keys from standard input, and then the filters: bloomfile \
         which KEY FILE...\n",
    );
    sandbox.run("which -k 1500 -k 1 -k 9999 small.bloom large.bloom").is(
        0,
        "1500\tsmall.bloom\tlarge.bloom\n1\tsmall.bloom\n9999\n",
        "",
    );
    sandbox.run("which --key 9999 small.bloom large.bloom").is(1, "9999\n", "");
    sandbox.run_with("which - small.bloom large.bloom", "7\n").is(0, "7\tsmall.bloom\n", "");
    sandbox.write("keys.txt", "3999\n");
    sandbox.run("which --json -k 1 --from keys.txt small.bloom large.bloom").is(
        0,
        "{\"key\":\"1\",\"files\":[\"small.bloom\"],\"record\":null,\"pages_unverified\":0}\n\
         {\"key\":\"3999\",\"files\":[\"large.bloom\"],\"record\":null,\"pages_unverified\":0}\n",
        "",
    );
    assert_eq!(sandbox.run("which -k 1 small.bloom missing.bloom").code, Some(2));
}

#[test]
fn check_except_leaves_out_what_the_other_holds() {
    let sandbox = sandbox();
    sandbox.run("check large.bloom --except small.bloom 1500 3500 9999").is(0, "3500\n", "");
    sandbox.run("check -v large.bloom --except small.bloom 1500 3500").is(0, "1500\n", "");
    let help = sandbox.run("check --help").out;
    assert!(help.contains("absent is no\nlonger certain") || help.contains("absent is no longer"));
}
