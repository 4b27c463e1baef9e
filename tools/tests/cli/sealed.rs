//! Sealed filters: built, read by every command that reads, refused by those that write.

use crate::attacker::Attacker;
use crate::sandbox::{Ran, Sandbox, TEMPORARY_FOLDER, hex_lines, numbers};

/// A sandbox with a sealed filter of the numbers from 1 to 20,000.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", numbers(20_000));
    sandbox.run("build sealed.bloom keys.txt --sealed").is(
        0,
        "sealed.bloom: 20,000 keys read, 20,000 of them distinct; sealed, 8.19 bits per key; 36 KiB\n",
        "",
    );
    sandbox
}

#[test]
fn the_file_follows_from_the_set_of_keys() {
    let sandbox = sandbox();
    let mut lines: Vec<String> = (1..=20_000).rev().map(|number| format!("{number}\n")).collect();
    lines.extend_from_within(500..9_000);
    let shuffled = lines.concat();
    sandbox.run_with("build again.bloom --sealed --memory 32MiB", shuffled).is(
        0,
        "again.bloom: 28,500 keys read, 20,000 of them distinct; sealed, 8.19 bits per key; 36 KiB\n",
        "",
    );
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("sealed.bloom") == read("again.bloom"));
    for memory in ["", " --memory 32MiB"] {
        let ran = sandbox.run(&format!("build -qf layout.bloom keys.txt --layout sealed{memory}"));
        ran.is(0, "", "");
        assert!(read("sealed.bloom") == read("layout.bloom"));
    }
    for layout in ["", " --layout page"] {
        sandbox.run(&format!("build plain.bloom keys.txt --memory 1GiB{layout}")).is(
            2,
            "",
            "bloomfile: --memory is for sealed filters; give --sealed as well, or leave it out\n",
        );
    }
    // A capacity is the size, and more keys than that are told.
    let ran = sandbox.run("build small.bloom keys.txt --sealed -n 4000");
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("holds 20,000 keys, made for 4,000"), "{}", ran.err);
    sandbox.run_with("check -c small.bloom", numbers(20_000)).is(0, "20000\n", "");
}

#[test]
fn commands_that_read_take_it() {
    let sandbox = sandbox();
    sandbox.run("check sealed.bloom 5 x77 20000").is(0, "5\n20000\n", "");
    sandbox.run_with("check -c sealed.bloom", numbers(20_000)).is(0, "20000\n", "");
    sandbox.run("verify sealed.bloom").is(0, "sealed.bloom: sound: 5 pages as written\n", "");
    sandbox.run("create -q plain.bloom -n 10 -p 1%").is(0, "", "");
    let which = sandbox.run("which -k 7 sealed.bloom plain.bloom");
    assert!(
        which.out.contains("sealed.bloom") && !which.out.contains("plain.bloom"),
        "{}",
        which.out
    );
    let inspect = sandbox.run("inspect --loads sealed.bloom").out;
    for line in [
        "sealed.bloom: a sealed filter (bloomfile format 1), 36 KiB",
        "  made for      20,000 keys, rate at most 1 %",
        "  layout        sealed: 5 pages of equations",
        "  holds         20,000 keys",
        "  in            5 pages with 4,000 keys on average, ",
        "  worst page    ",
        "  space         20 KiB of data, 8.19 bits per key",
        "  block loads   5 blocks with 4,000 keys on average,",
        "  advice        none; bloomfile verify sealed.bloom checks the data",
    ] {
        assert!(inspect.contains(line), "{line}\n{inspect}");
    }
    assert!(!inspect.contains("journal") && !inspect.contains("when full"), "{inspect}");
    let pages = sandbox.run("inspect --pages sealed.bloom").out;
    assert_eq!(pages.lines().filter(|line| line.contains('%') || line.contains(" 4,")).count(), 5);
    let bytes = sandbox.run("inspect --bytes sealed.bloom").out;
    assert!(bytes.contains("pages 0–4") && bytes.contains("solutions"), "{bytes}");
    assert!(bytes.contains("incompatible          0x00000008"), "{bytes}");
}

#[test]
fn the_report_draws_rate_and_keys_per_page() {
    let sandbox = sandbox();
    sandbox.run("inspect sealed.bloom --html page.html");
    let html = String::from_utf8(sandbox.read("page.html")).unwrap();
    for text in ["A sealed filter", "Bits per key", "8.19", "all 5 are as written"] {
        assert!(html.contains(text), "{text}");
    }
    // The part of the page under a heading, up to the next.
    let part = |heading: &str| {
        let (_, rest) = html.split_once(&format!("<h2>{heading}</h2>")).expect(heading);
        rest.split("</section>").next().unwrap().to_owned()
    };
    let json = |arguments: &str| -> serde_json::Value {
        serde_json::from_str(&sandbox.run(arguments).out).unwrap()
    };
    let keys = part("Keys per page");
    assert!(keys.contains("<svg"), "{keys}");
    let listing = json("inspect --json --pages sealed.bloom");
    let pages = listing["pages"].as_array().unwrap();
    assert_eq!(pages.len(), 5);
    for (number, page) in pages.iter().enumerate() {
        let ones = page["ones"].as_u64().unwrap();
        let number_cell = format!("<td class=\"number\">{number}</td>");
        let keys_cell =
            format!("<td class=\"number\">{},{:03} keys</td>", ones / 1000, ones % 1000);
        assert!(keys.contains(&(number_cell + &keys_cell)), "page {number}: {ones}\n{keys}");
    }
    let rate = part("False positive rate by number of keys");
    assert!(rate.contains("<svg") && rate.contains("<path class=\"curve\" d=\"M"), "{rate}");
    let now = json("inspect --json sealed.bloom")["segments"][0]["rate_now"].as_f64().unwrap();
    let caption = format!("Now {:.3} % with about 20,000 keys", 100.0 * now);
    assert!(rate.contains(&caption), "{caption}\n{rate}");
}

/// Keys of one page, more than it has equations for: chosen by one who knows how keys are hashed.
#[test]
fn keys_that_cannot_be_told_apart_are_warned_of() {
    let sandbox = Sandbox::new();
    let attacker = Attacker::new();
    // The upper bits choose the page, of which a capacity of 40,000 has nine.
    let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 6;
    let keys = hex_lines((0..40_000).map(|number| attacker.key(hash(number), number)));
    let built = "40,000 keys read, 40,000 of them distinct; sealed, ";
    let warning = "bloomfile: crowded.bloom: warning: 1 page of 9 got keys that cannot be told apart, \
                   and answer \"maybe\" for every key\n";
    let ran = sandbox.run_with("build crowded.bloom --sealed --hex -n 40000", &keys);
    assert_eq!((ran.code, &*ran.err), (Some(0), warning));
    assert!(ran.out.starts_with(&format!("crowded.bloom: {built}")), "{ran:?}");
    let ran = sandbox.run_with("build -f crowded.bloom --sealed --hex -n 40000 --json", &keys);
    let output: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&output["maybe_pages"], &*ran.err), (&1.into(), warning));
    sandbox.run_with("check -c crowded.bloom", &keys).is(0, "40000\n", "");
    let inspect = sandbox.run("inspect crowded.bloom").out;
    assert!(inspect.contains("  maybe pages   1\n"), "{inspect}");
    // As many keys that no one chose are nothing to warn of.
    sandbox.run_with("build -q fair.bloom --sealed -n 40000", numbers(40_000)).is(0, "", "");
}

#[test]
fn commands_that_write_or_combine_say_what_to_do() {
    let sandbox = sandbox();
    let before = std::fs::read(sandbox.path("sealed.bloom")).unwrap();
    sandbox.run("build -q plain.bloom keys.txt").is(0, "", "");
    let instead = "its pages are solutions for the keys it was built from; build a new file from all \
                   the keys\n";
    let written =
        format!("bloomfile: sealed.bloom: is sealed, and cannot be written to: {instead}");
    for arguments in ["add sealed.bloom x", "remove sealed.bloom 5", "rotate sealed.bloom"] {
        sandbox.run(arguments).is(2, "", &written);
    }
    let combined = format!(
        "bloomfile: sealed.bloom: is sealed, and cannot be merged, intersected, made smaller or \
         compared: {instead}"
    );
    for arguments in [
        "merge -o out.bloom sealed.bloom sealed.bloom",
        "merge -o out.bloom plain.bloom sealed.bloom",
        "intersect -o out.bloom sealed.bloom plain.bloom",
        "shrink -o out.bloom sealed.bloom --factor 2",
        "export -o out.bloom sealed.bloom",
        "compare sealed.bloom plain.bloom",
    ] {
        let ran = sandbox.run(arguments);
        assert_eq!((ran.code, &ran.err), (Some(2), &combined), "{arguments}");
    }
    assert!(!sandbox.path("out.bloom").exists());
    assert!(std::fs::read(sandbox.path("sealed.bloom")).unwrap() == before);
    sandbox.run("create c.bloom -n 10 -p 1% --layout sealed").is(
        2,
        "",
        "bloomfile: c.bloom: a sealed filter is made of all of its keys at once: use bloomfile build \
         --sealed\n",
    );
    sandbox.run("build c.bloom plain.bloom --sealed").is(
        2,
        "",
        "bloomfile: plain.bloom: is a filter, and cannot be sealed without its keys: give the keys \
         that it was made of\n",
    );
    // Nor does one that comes through standard input, be it a file or a pipe, or is damaged.
    let plain = sandbox.read("plain.bloom");
    sandbox.write("damaged.bloom", &plain[..5000]);
    let refused = |of: &str| {
        format!(
            "bloomfile: {of}: is a filter, and cannot be sealed without its keys: give the keys \
             that it was made of\n"
        )
    };
    let damaged = refused("damaged.bloom");
    sandbox.run("build c.bloom damaged.bloom --sealed").is(2, "", &damaged);
    for arguments in
        ["c.bloom --sealed", "c.bloom -n 9 --layout sealed", "c.bloom --sealed -n 9 --part 1/1"]
    {
        let piped = sandbox.run_with(&format!("build {arguments}"), &plain);
        piped.is(2, "", &refused("standard input"));
        let mut command = sandbox.command(&format!("build {arguments}"));
        command.stdin(std::fs::File::open(sandbox.path("plain.bloom")).unwrap());
        Ran::from(command.output().unwrap()).is(2, "", &refused("standard input"));
    }
    sandbox.run_with("build c.bloom --sealed", String::new()).is(
        2,
        "",
        "bloomfile: c.bloom: the inputs hold no key; give --capacity to make an empty filter\n",
    );
    sandbox.run("build c.bloom keys.txt --sealed --memory 1M").is(
        2,
        "",
        "bloomfile: c.bloom: memory cannot be 1000000: it must be at least 32 MiB\n",
    );
    for arguments in ["--sealed -k 3 -m 100", "--sealed --layout line", "--sealed --journal 1M"] {
        let ran = sandbox.run(&format!("build c.bloom keys.txt {arguments}"));
        assert!(ran.code == Some(2) && ran.err.contains("cannot be used with"), "{}", ran.err);
    }
    assert!(!sandbox.path("c.bloom").exists());
}

#[test]
fn a_damaged_page_is_told_and_repaired() {
    let sandbox = sandbox();
    let mut bytes = std::fs::read(sandbox.path("sealed.bloom")).unwrap();
    let page_2 = bytes.len() - 3 * 4096;
    bytes[page_2 + 300] ^= 4;
    std::fs::write(sandbox.path("sealed.bloom"), bytes).unwrap();
    let verify = sandbox.run("verify sealed.bloom");
    assert_eq!(verify.code, Some(1));
    assert!(verify.out.starts_with("sealed.bloom: damaged: 1 of 5 pages not as written (page 2)"));
    assert_eq!(sandbox.run_with("check -c sealed.bloom", numbers(20_000)).code, Some(2));
    let repair = sandbox.run("repair sealed.bloom");
    assert_eq!(repair.code, Some(0));
    assert!(
        repair.out.contains("1 of 5 pages made to answer \"maybe\" (page 2)"),
        "{}",
        repair.out
    );
    sandbox.run("verify sealed.bloom").is(0, "sealed.bloom: sound: 5 pages as written\n", "");
    sandbox.run_with("check -c sealed.bloom", numbers(20_000)).is(0, "20000\n", "");
    let inspect = sandbox.run("inspect sealed.bloom").out;
    for line in [
        "  maybe pages   1\n",
        "  worst page    2 with ",
        "1 page repaired: \"maybe\" for every key",
        "  advice        restore it from a copy, or build it again from the keys: 1 page without a solution\n",
    ] {
        assert!(inspect.contains(line), "{line}\n{inspect}");
    }
}

/// Hashes that memory has no room for are kept in the temporary folder; if that cannot be, there is no
/// file, and a message that says why.
#[test]
fn a_temporary_folder_that_is_not_there_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", numbers(3_500_000));
    let mut command = sandbox.command("build sealed.bloom keys.txt --sealed --memory 32MiB");
    let ran: crate::sandbox::Ran =
        command.env(TEMPORARY_FOLDER, "/no/such/folder").output().unwrap().into();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(
        ran.err.starts_with(&format!(
            "bloomfile: sealed.bloom: cannot keep the keys' hashes in the temporary folder \
             ({TEMPORARY_FOLDER}): "
        )),
        "{}",
        ran.err
    );
    assert!(!sandbox.path("sealed.bloom").exists());
}
