//! Real lists, held against exact sets: Debian's words and the SHA-256 sums of its packages.
//!
//! `cargo test -p bloomfile-cli --test cli lists -- --ignored --nocapture` says which lists are
//! missing. Figures are printed.

use std::collections::HashSet;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox};

/// A list with its package.
const WORDS: [(&str, &str); 2] = [
    ("wamerican-insane", "/usr/share/dict/american-english-insane"),
    ("wpolish", "/usr/share/dict/polish"),
];

fn run(sandbox: &Sandbox, arguments: &str) -> Ran {
    let ran = sandbox.run(arguments);
    assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.err);
    ran
}

/// The lines that `check` prints for a file of lines.
fn answered(sandbox: &Sandbox, arguments: &str) -> HashSet<Vec<u8>> {
    let out = sandbox.command(arguments).output().unwrap();
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    lines(&out.stdout).map(<[u8]>::to_vec).collect()
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// Builds, checks, inspects, merges and shrinks filters of a list.
fn examine(name: &str, list: &[u8], form: &str) {
    let sandbox = Sandbox::new();
    // Every second line, so that neighbours that look alike are on different sides.
    let halves: [Vec<&[u8]>; 2] = [0, 1].map(|half| lines(list).skip(half).step_by(2).collect());
    let sets = halves.each_ref().map(|half| half.iter().copied().collect::<HashSet<&[u8]>>());
    sandbox.write("all.txt", list);
    for (half, name) in halves.iter().zip(["even", "odd"]) {
        sandbox.write(&format!("{name}.txt"), half.join(&b'\n'));
        let capacity = half.len();
        run(&sandbox, &format!("build -q{form} {name}.bloom {name}.txt -n {capacity} --journal 0"));
    }
    let check = |file: &str, set: &[&HashSet<&[u8]>]| -> (u64, u64) {
        let found = answered(&sandbox, &format!("check{form} {file} --from all.txt"));
        for key in set.iter().copied().flatten() {
            assert!(found.contains(*key), "{name}: {} is denied", String::from_utf8_lossy(key));
        }
        let absent: HashSet<&[u8]> =
            lines(list).filter(|key| !set.iter().any(|set| set.contains(key))).collect();
        (absent.iter().filter(|key| found.contains(**key)).count() as u64, absent.len() as u64)
    };
    let rate = |(wrong, absent): (u64, u64)| wrong as f64 / absent as f64;
    let inspect = |file: &str| -> Value {
        serde_json::from_str(&run(&sandbox, &format!("inspect --json {file}")).out).unwrap()
    };
    let number = |value: &Value| value.as_f64().unwrap();

    let even = check("even.bloom", &[&sets[0]]);
    let segment = inspect("even.bloom")["segments"][0].clone();
    let promised = number(&segment["rate_now"]);
    // Five standard deviations of as many tries, and 3 %.
    let room = |rate: f64, tries: u64| 0.03 * rate + 5.0 * (rate / tries as f64).sqrt();
    assert!((rate(even) - promised).abs() < room(promised, even.1), "{name}: {even:?}, {promised}");
    let (keys, count) = (&segment["keys"], sets[0].len() as f64);
    // The interval is one of 95 %; twice its width never misses.
    let width = number(&keys["high"]) - number(&keys["low"]);
    assert!((number(&keys["value"]) - count).abs() < width, "{name}: {keys} for {count}");

    run(&sandbox, "merge -q -o both.bloom even.bloom odd.bloom");
    let all: HashSet<&[u8]> = lines(list).collect();
    assert_eq!(check("both.bloom", &[&sets[0], &sets[1]]), (0, 0), "nothing is absent");
    let merged = number(&inspect("both.bloom")["segments"][0]["keys"]["value"]);
    assert!((merged / all.len() as f64 - 1.0).abs() < 0.01, "{name}: {merged} of {}", all.len());

    run(&sandbox, "shrink -q -o small.bloom even.bloom --factor 2");
    let small = check("small.bloom", &[&sets[0]]);
    let shrunk = number(&inspect("small.bloom")["segments"][0]["rate_now"]);
    assert!((rate(small) - shrunk).abs() < room(shrunk, small.1), "{name}: {small:?}, {shrunk}");
    println!(
        "{name}: {} keys, {} built in. False positives: {} of {} ({:.4} %, {:.4} % promised); \
         shrunk to half {:.3} % ({:.3} % promised). Merged: {merged:.0} estimated, {} true.",
        all.len(),
        sets[0].len(),
        even.0,
        even.1,
        100.0 * rate(even),
        100.0 * promised,
        100.0 * rate(small),
        100.0 * shrunk,
        all.len()
    );
}

#[test]
#[ignore = "needs Debian's word lists; takes a minute"]
fn words_of_debian() {
    for (package, path) in WORDS {
        match std::fs::read(path) {
            Ok(list) => examine(package, &list, ""),
            Err(error) => eprintln!("skipped: {path}: {error}; install {package}"),
        }
    }
}

#[test]
#[ignore = "needs Debian's package index"]
fn sums_of_debian_packages() {
    let index = Command::new("apt-cache").arg("dumpavail").output();
    let Some(index) = index.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: there is no apt-cache to list packages");
        return;
    };
    let sums: Vec<&[u8]> =
        lines(&index.stdout).filter_map(|line| line.strip_prefix(b"SHA256: ")).collect();
    if sums.len() < 1000 {
        eprintln!("skipped: the package index is empty; run apt-get update");
        return;
    }
    examine("SHA-256 sums of packages", &sums.join(&b'\n'), " --hex");
}
