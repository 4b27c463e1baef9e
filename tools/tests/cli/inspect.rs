//! The views of `inspect`.

use crate::attacker::{self, Attacker};
use crate::sandbox::{Sandbox, hex_lines, no_folder, numbers};

#[test]
fn rows_have_a_bar_each_and_pages_a_heat_map() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --layout rows -n 60", numbers(60)).is(0, "", "");
    let out = sandbox.run("inspect a.bloom").out;
    let expected = "
  fill           0 ███████▌············ 37.5 %
                 1 ███████▌············ 37.5 %
                 2 ███████▌············ 37.5 %
                 3 ███████▌············ 37.5 %
                 4 ████████▏··········· 40.6 %
                 5 ███████▉············ 39.1 %
                 6 ███████▍············ 36.7 %
  pages         ▃▃▃▃▄▄▃
                Each cell is a page; emptiest 36.7 % (page 6), fullest 40.6 % (page 4)
";
    assert!(out.contains(expected), "{out}");
    assert!(!out.contains('\x1b'), "colours are for terminals");
}

#[test]
fn a_summary_fits_on_a_screen() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom -n 1M", numbers(1000)).is(0, "", "");
    sandbox.run_with("build -q b.bloom -k 32 -m 100k", numbers(1000)).is(0, "", "");
    for file in ["a.bloom", "b.bloom"] {
        let out = sandbox.run(&format!("inspect {file}")).out;
        assert!(out.lines().count() <= 30, "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    }
}

/// Runs a command with a terminal for its output, as `script` makes one.
fn on_a_terminal(sandbox: &Sandbox, environment: &[(&str, &str)]) -> Option<String> {
    let command = format!("{} inspect a.bloom", crate::sandbox::BLOOMFILE);
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(sandbox.folder());
    script.env("TERM", "xterm-256color").env_remove("NO_COLOR").envs(environment.iter().copied());
    match script.stdin(std::process::Stdio::null()).output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) => {
            eprintln!("skipped: there is no script(1) to make a terminal: {error}");
            None
        }
    }
}

#[test]
fn colours_are_for_terminals_of_those_who_want_them() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom", numbers(9000)).is(0, "", "");
    let Some(colours) = on_a_terminal(&sandbox, &[]) else { return };
    assert!(colours.contains("\x1b[38;5;"), "{colours}");
    for without in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = on_a_terminal(&sandbox, &[without]).unwrap();
        assert!(plain.contains("Each cell is a page") && !plain.contains('\x1b'), "{plain}");
    }
}

#[test]
fn loads_are_held_against_the_law() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --journal 0", numbers(100_000)).is(0, "", "");
    let out = sandbox.run("inspect --loads a.bloom").out;
    assert!(out.contains("  block loads   1,976 blocks with 50.6 keys on average,\n"), "{out}");
    assert!(out.contains("as chance would have it: the keys are spread well\n"), "{out}");
    assert!(out.contains("(law: "), "{out}");
    // A tenth of the file as a repair would leave it.
    let mut bytes = sandbox.read("a.bloom");
    let data = bytes.len() - 31 * 4096;
    bytes[data..data + 3 * 4096].fill(0xff);
    sandbox.write("a.bloom", bytes);
    let out = sandbox.run("inspect --loads a.bloom").out;
    assert!(out.contains("skewed: some blocks are far fuller than chance allows"), "{out}");
}

#[test]
fn pages_are_listed() {
    let sandbox = Sandbox::with_filter();
    sandbox.run("inspect --pages a.bloom").is(
        0,
        "segment         page  crc        ones  fill
      0            0  e66f9126  5,566  54.4 %
",
        "",
    );
}

#[test]
fn bytes_say_why_a_file_is_refused() {
    let sandbox = Sandbox::with_filter();
    let out = sandbox.run("inspect --bytes a.bloom").out;
    assert!(
        out.contains("superblock                         version               1  -- 1 (F-12)")
    );
    assert!(!out.contains("wrong"), "{out}");
    let all = sandbox.run("inspect --bytes --all a.bloom").out;
    assert!(all.contains("entry 0               crc 0xe66f9126, ones 5566"), "{all}");

    let mut bytes = sandbox.read("a.bloom");
    bytes[100] ^= 1;
    let length = bytes.len();
    bytes.truncate(length - 96);
    sandbox.write("a.bloom", bytes);
    let ran = sandbox.run("inspect --bytes a.bloom");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let wrong: Vec<&str> = ran.out.lines().filter(|line| line.contains("wrong")).collect();
    assert!(wrong[0].contains("superblock") && wrong[0].contains("wrong: the bytes give 0x"));
    assert!(ran.out.contains("96 bytes are missing"), "{}", ran.out);
    sandbox.write("a.bloom", "sheep\n");
    let error = "bloomfile: a.bloom: is not a bloomfile: it looks like text; check the path\n";
    sandbox.run("inspect --bytes a.bloom").is(2, "", error);
    sandbox.run("inspect --bytes --json a.bloom").is(2, "", error);
}

#[test]
fn bytes_do_not_let_metadata_steer_the_terminal() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command("create -q a.bloom -n 9 -p 1%");
    assert!(command.args(["--meta", "note=\x1b[2Jgone"]).status().unwrap().success());
    let out = sandbox.run("inspect --bytes a.bloom").out;
    assert!(out.contains("note = \\u{1b}[2Jgone"), "{out}");
}

/// A filter of 24 generations: one chart of the whole first, those of each behind a fold.
#[test]
fn the_charts_of_many_generations_are_folded_away() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 100 --generations 24 --rotate-after 80").is(0, "", "");
    sandbox.run_with("add -q a.bloom", numbers(2500)).is(0, "", "");
    assert_eq!(sandbox.run("inspect a.bloom --html a.html").code, Some(0));
    let page = String::from_utf8(sandbox.read("a.html")).unwrap();
    let (before, folded) = page.split_once("<details class=\"folded\">").unwrap();
    assert_eq!(before.matches("<svg").count(), 1, "one chart in front of the folds");
    assert!(before.contains("<h2>All segments together</h2>"), "{before}");
    assert!(
        before.contains("Keys in each segment, as a share of those it is for. Together about ")
    );
    assert!(before.contains("; 0.474 % with all 24 generations full.</figcaption>"), "{before}");
    assert_eq!(folded.matches("<details class=\"folded\">").count(), 23);
    assert_eq!(page.matches("you are here").count(), 24);
    assert!(page.contains("<h2>Segment 0, the oldest</h2>"));
    assert!(page.contains("<summary>Charts: about 8"), "{folded}");
    assert!(page.contains("<td>24 times line: "), "made alike, and said once");
    // Where a page is damaged, the fold is open.
    let mut bytes = sandbox.read("a.bloom");
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[last] ^= 1;
    sandbox.write("a.bloom", bytes);
    assert_eq!(sandbox.run("inspect a.bloom --html a.html -f").code, Some(0));
    let page = String::from_utf8(sandbox.read("a.html")).unwrap();
    assert_eq!(page.matches("<details class=\"folded\" open>").count(), 1);
    assert!(page.contains(", 1 page damaged</summary>"));
}

#[test]
fn a_zero_has_no_sign() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        sandbox.run(&format!("create -q {name}.bloom -n 100")).is(0, "", "");
    }
    for command in [
        "inspect --json a.bloom",
        "inspect --json --loads a.bloom",
        "compare --json a.bloom b.bloom",
        "compare a.bloom b.bloom",
        "merge --json -o m.bloom a.bloom b.bloom",
    ] {
        let ran = sandbox.run(command);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{command}");
        assert!(!ran.out.contains("-0.0"), "{command}: {}", ran.out);
    }
    let json = sandbox.run("inspect --json a.bloom").out;
    assert!(json.contains("\"value\": 0.0,\n        \"low\": 0.0,"), "{json}");
}

#[test]
fn a_repaired_file_has_advice() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom -n 40k", numbers(20_000)).is(0, "", "");
    let mut bytes = sandbox.read("a.bloom");
    *bytes.last_mut().unwrap() ^= 1;
    sandbox.write("a.bloom", bytes);
    assert_eq!(sandbox.run("repair a.bloom").code, Some(0));
    let out = sandbox.run("inspect a.bloom").out;
    let advice = "restore it from a copy, or build it again: 1 page set to all ones says \"maybe\" \
                  to every key";
    assert!(out.ends_with(&format!("\n  advice        {advice}\n")), "{out}");
    sandbox.run("inspect a.bloom --html a.html");
    let page = String::from_utf8(sandbox.read("a.html")).unwrap();
    assert!(page.contains("<section class=\"note warn\" aria-label=\"Advice\">"), "{page}");
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::with_filter();
    sandbox.run("inspect a.bloom --html no/a.html").is(
        2,
        "",
        &format!("bloomfile: no/a.html: cannot be written: {}\n", no_folder()),
    );
    assert_eq!(sandbox.names(), ["a.bloom"]);
}

/// The rate at capacity is that of all segments together, or of all generations there will be.
#[test]
fn at_capacity_the_whole_counts() {
    let sandbox = Sandbox::new();
    for (name, kind, keys, parts) in [
        ("one", "", 1, ""),
        ("counting", "--kind counting", 1, ""),
        ("young", "--grow", 1, ""),
        ("growing", "--grow", 600, ", all 3 segments full"),
        ("rotating", "--generations 5", 1, ", all 5 generations full"),
    ] {
        sandbox.run(format!("create -q {name} -n 100 -p 1% {kind}").trim_end()).is(0, "", "");
        sandbox.run_with(&format!("add -q {name}"), numbers(keys)).is(0, "", "");
        let json = sandbox.run(&format!("inspect --json {name}")).out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let segments = json["segments"].as_array().unwrap();
        let rate = |segment: &serde_json::Value| segment["rate_at_capacity"].as_f64().unwrap();
        let present: f64 = match json["generations"].as_i64() {
            Some(generations) => (1.0 - rate(&segments[0])).powi(generations as i32),
            None => segments.iter().map(|segment| 1.0 - rate(segment)).product(),
        };
        let expected = 100.0 * (1.0 - present);

        let out = sandbox.run(&format!("inspect {name}")).out;
        let (_, text) = out.split_once("\n  at capacity   ").unwrap();
        let (text, _) = text.split_once('\n').unwrap();
        sandbox.run(&format!("inspect {name} --html page.html --force"));
        let page = String::from_utf8(sandbox.read("page.html")).unwrap();
        let (_, card) = page.split_once("False positives at capacity</dt><dd>").unwrap();
        let (card, _) = card.split_once("</dd></div>").unwrap();
        for shown in [text, card] {
            let percent: f64 = shown.split_once(" %").unwrap().0.parse().unwrap();
            assert!((percent / expected - 1.0).abs() < 0.006, "{name}: {shown}, not {expected}");
            assert_eq!(shown.contains("full"), !parts.is_empty(), "{name}: {shown}");
            assert!(shown.ends_with(parts), "{name}: {shown}");
        }
    }
}

/// Files of several segments, and what is said of each.
#[test]
fn every_kind_is_named_and_each_segment_shown() {
    let sandbox = Sandbox::new();
    let options = || bloomfile::Options::new().capacity(20_000).false_positive_rate(0.01);
    for (name, options, keys, title, segments) in [
        ("a", options().kind(bloomfile::CellKind::Counting), 15_000u32, "counting Bloom filter", 1),
        ("b", options().grow(), 90_000, "growing Bloom filter", 3),
        (
            "c",
            options().generations(3).rotate_after(20_000),
            90_000,
            "rotating Bloom filter of 3 generations",
            3,
        ),
    ] {
        let filter = options.create(sandbox.path(name)).unwrap();
        (0..keys).for_each(|key| {
            filter.add(key.to_le_bytes()).unwrap();
        });
        filter.close().unwrap();
        let out = sandbox.run(&format!("inspect {name}")).out;
        assert!(out.starts_with(&format!("{name}: a {title} (bloomfile format 1)")), "{out}");
        assert_eq!(out.matches("\n  segment ").count(), segments / 2 * 3, "{out}");
        assert_eq!(out.matches("\n  fill").count(), segments % 3, "{out}");
        assert!(out.contains("\n  advice        none; bloomfile verify"), "{out}");
        let html = format!("{name}.html");
        assert_eq!(sandbox.run(&format!("inspect {name} --html {html}")).code, Some(0));
        let page = String::from_utf8(sandbox.read(&html)).unwrap();
        assert!(page.contains(&format!("A {title} (bloomfile format 1)")));
        assert_eq!(page.matches("you are here").count(), segments);
    }
    // Damage in the last segment is shown there.
    let mut bytes = sandbox.read("b");
    *bytes.last_mut().unwrap() ^= 1;
    sandbox.write("b", bytes);
    assert_eq!(sandbox.run("inspect b --html b.html -f").code, Some(0));
    let page = String::from_utf8(sandbox.read("b.html")).unwrap();
    let (before, last) = page.split_once("Page fill of segment 2").unwrap();
    assert!(!before.contains("class=\"broken\"") && last.contains("class=\"broken\""));
}

/// The page that opens files in a browser needs no file to be made.
#[test]
fn the_page_that_opens_files_is_written_without_one() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("inspect --app look.html");
    assert!(ran.out.starts_with("look.html: written, "), "{ran:?}");
    let page = String::from_utf8(sandbox.read("look.html")).unwrap();
    assert!(page.len() < 400 << 10, "{}", page.len());
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Content-Security-Policy"));
    assert!(page.contains("const MODULE = '") && !page.contains("src=\"http"));
    assert_eq!(sandbox.run("inspect --app look.html").code, Some(2), "it is there already");
    assert_eq!(sandbox.run("inspect --app look.html --force").code, Some(0));
    assert_eq!(sandbox.run("inspect --app - a.bloom").code, Some(2));
    assert_eq!(sandbox.run("inspect").code, Some(2));
}

/// Keys that fill one line of a filter: chosen by one who knows how keys are hashed or, in a keyed
/// file, by one who has the secret.
#[test]
fn blocks_with_chosen_keys_are_told() {
    let sandbox = Sandbox::in_memory();
    sandbox.run("keygen a.key");
    sandbox.run("create -q open.bloom -n 10k -p 1% --layout line").is(0, "", "");
    sandbox.run("create -q keyed.bloom -n 10k -p 1% --layout line --key-file a.key").is(0, "", "");
    let file = |name: &str| sandbox.path(name).into_os_string().into_string().unwrap();
    let geometry = bloomfile::report::inspect(file("open.bloom")).unwrap().segments[0].geometry;
    let secret = bloomfile::Key::from_file(file("a.key")).unwrap();
    let hasher = bloomfile::hash::Hasher::keyed(&secret);
    let chosen = hex_lines(Attacker::new().full_lines(&geometry, attacker::cover(&geometry).len()));
    // With the secret, they are found by trying.
    let found = (0u64..).map(u64::to_le_bytes).filter(|key| geometry.block(hasher.hash(key)) == 0);
    let found = hex_lines(found.take(400));
    for (name, key, chosen, advice) in [
        (
            "open.bloom",
            "",
            chosen,
            "if others choose the keys, build it again with a secret key: bloomfile keygen",
        ),
        (
            "keyed.bloom",
            " --key-file a.key",
            found,
            "build it again with another secret key: someone who knows this one chose the keys",
        ),
    ] {
        let inspect = || sandbox.run(&format!("inspect {name}")).out;
        let json = || -> serde_json::Value {
            serde_json::from_str(&sandbox.run(&format!("inspect --json {name}")).out).unwrap()
        };
        sandbox.run_with(&format!("add -q {name}{key}"), numbers(5000)).is(0, "", "");
        assert!(!inspect().contains("crowded"), "{}", inspect());
        assert_eq!(json()["crowding"][0]["crowded"], 0);
        sandbox.run_with(&format!("add -q {name} --hex{key}"), chosen).is(0, "", "");
        for line in [
            "  crowded       1 block holds more keys than chance brings together\n",
            &format!("  advice        {advice}\n"),
        ] {
            assert!(inspect().contains(line), "{line}\n{}", inspect());
        }
        assert_eq!(
            (&json()["crowding"][0]["crowded"], &json()["advice"]),
            (&1.into(), &advice.into())
        );
        sandbox.run(&format!("inspect -f {name} --html page.html"));
        let html = String::from_utf8(sandbox.read("page.html")).unwrap();
        assert!(html.contains(&format!("<b>Advice:</b> {advice}")), "{html}");
    }
}
