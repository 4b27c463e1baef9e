//! What a plan says, of filters of all kinds.

use crate::sandbox::Sandbox;

#[test]
fn plan_shows_what_would_be_made() {
    let sandbox = Sandbox::new();
    sandbox.run("plan --capacity 10M --fpr 1%").is(
        0,
        "  for           10,000,000 keys, rate at most 1 %
  layout        line: 197632 lines with 8 rows of 64 cells
  bits per key  10.12
  expected rate 0.991 % (1 in 101)
  file          13.6 MiB: 12.1 MiB of data, 1.57 MiB of journal, tables and headers
  a look-up     touches at most 1 cache line in 1 page

  layout      k  bits per key        data       rate  cache lines  pages
* line        8         10.12    12.1 MiB    0.991 %            1      1
  page        7          9.65    11.5 MiB    0.977 %            7      1
  rows        7          9.63    11.5 MiB     0.98 %            7      7
  flat        7          9.59    11.4 MiB    0.999 %            7      7
  sealed      –          6.79    8.09 MiB    0.998 %            4      1
  * taken; choose another with --layout; a sealed one is never added to
",
        "",
    );
    let plan = sandbox.run("plan -n 5M -p 1e-5 --layout page");
    assert!(plan.out.contains("layout        page: "), "{}", plan.out);
    assert!(sandbox.names().is_empty());
}

#[test]
fn plan_shows_what_a_precheck_saves() {
    let sandbox = Sandbox::new();
    let plan = "plan -n 1M -p 3%";
    let precheck = "--precheck --lookups 102k --present 2k --database-ms 500 --filter-ms 1";
    let out = sandbox.run(&format!("{plan} {precheck}")).out;
    let expected = "  without it    51,000 s for 102,000 look-ups
  with it       2,602 s:
                102 s in the filter
                1,000 s for 2,000 keys that are there
                1,500 s for 3,000 keys asked for needlessly
  saves         94.9 % of the time: 19.6 times as fast
";
    assert!(out.contains(expected), "{out}");
    // A filter that is slower than what it stands in front of.
    let out = sandbox.run(&format!("{plan} --precheck --present 2% --database-ms 1 --filter-ms 2"));
    assert!(out.out.contains("saves         nothing: asking the filter first takes longer\n"));
    let exact = sandbox.run("plan -k 3 -m 50 --precheck --present 2% --database-ms 1");
    exact.is(2, "", "bloomfile: --precheck needs a rate; give --capacity\n");
}

/// A layout that cannot reach a rate is not compared; the others are.
#[test]
fn plan_compares_what_can_be_had() {
    let out = Sandbox::new().run("plan -n 1M -p 1e-8").out;
    assert!(
        !out.contains("  line  ") && out.contains("* page  ") && out.contains("  flat  "),
        "{out}"
    );
}

#[test]
fn plan_warns_of_a_useless_filter() {
    let plan = Sandbox::new().run("plan --rows 30 --row-bits 900k --capacity 5M");
    assert_eq!(plan.code, Some(0));
    assert!(plan.out.contains("expected rate 89 %\n"), "{}", plan.out);
    assert!(
        plan.out.contains("warning       the false positive rate will be 89 % with"),
        "{}",
        plan.out
    );
}

#[test]
fn plan_knows_the_kinds() {
    let sandbox = Sandbox::new();
    let plan = |arguments: &str| sandbox.run(&format!("plan -n 1M -p 1% {arguments}"));
    plan("--kind counting --when-full refuse").is(
        0,
        "  for           1,000,000 keys, rate at most 1 %
  kind          counting: each cell is a counter of 4 bits
  when full     refuses new keys
  layout        line: 19840 lines with 8 rows of 64 cells
  bits per key  40.63
  expected rate 0.972 % (1 in 103)
  file          5.49 MiB: 4.84 MiB of data, 660 KiB of journal, tables and headers
  a look-up     touches at most 4 cache lines in 1 page

  layout      k  bits per key        data       rate  cache lines  pages
* line        8         40.63    4.84 MiB    0.972 %            4      1
  page        7         38.54    4.59 MiB    0.983 %            7      4
  rows        7         38.54    4.59 MiB     0.98 %            7      7
  flat        7         38.54    4.59 MiB     0.98 %            7      7
  * taken; choose another with --layout
",
        "",
    );
    let out = plan("--generations 24 --rotate-after 1M").out;
    let expected =
        "  for           24 generations, each for 1,000,000 keys, rate of all together at most 1 %
  when full     rotates after 1,000,000 adds: the oldest generation goes
  layout        line: 36096 lines with 8 rows of 64 cells
  bits per key  18.48
  expected rate 0.0406 % (1 in 2,460) of each, 0.971 % of all together
  file          55.8 MiB: 55.1 MiB of data in 24 generations and a spare one, 700 KiB of journal, \
         tables and headers
  a look-up     touches at most 24 cache lines in 24 pages
";
    assert!(out.starts_with(expected), "{out}");
    let out = plan("--grow").out;
    for part in [
        "  for           1,000,000 keys and then more, rate at most 1 %\n",
        " of the first segment, at most 1 % of all together\n",
        " at first: ",
        " of each segment\n",
        "\n  segments           keys  bits per key        data        file       rate\n",
        "\n  8           255,000,000 ",
        "\n  as it grows; a look-up asks every segment\n",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // The time that a rotating filter saves follows from the rate of all its generations.
    let out = plan("--generations 24 --precheck --lookups 100 --present 0 --database-ms 1000").out;
    assert!(out.contains(" for 1 key asked for needlessly\n"), "{out}");
    plan("--generations 33").is(
        2,
        "",
        "bloomfile: generations cannot be 33: it must be from 2 to 32\n",
    );
}
