//! A log of a million lines, as CSV with quotes and as JSON lines: every line of an exact set is
//! found, and the others only at the rate of the filter.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Instant;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Lines of the log, and keys of the set.
const LINES: u32 = 1_000_000;
const KEYS: u32 = 50_000;

/// Every how many lines there is a key of the set.
const HIT_EVERY: u32 = 10;

/// The agent of a line, with what makes CSV and JSON hard: delimiters, quotes, line ends, letters.
fn agent(number: u32) -> String {
    match number % 5 {
        0 => format!("Mozilla/5.0 (X11; \"Linux\", {number})"),
        1 => format!("plain-{number}"),
        2 => format!("two\nlines {number}"),
        3 => format!("\u{e4}\\{number}\t\u{1f600}"),
        _ => format!("\"{number}\""),
    }
}

/// The key of a line: one of the set, or one that no other line has.
fn key(line: u32) -> String {
    if line.is_multiple_of(HIT_EVERY) { agent(line / HIT_EVERY % KEYS) } else { agent(KEYS + line) }
}

fn csv(text: &str) -> String {
    if text.contains(['"', ',', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Checks a log whose lines have their number at the beginning.
fn check(sandbox: &Sandbox, log: &str, options: &str, line: impl Fn(u32) -> String) {
    let started = Instant::now();
    let mut text = String::new();
    (0..LINES).for_each(|number| text.push_str(&line(number)));
    sandbox.write(log, &text);
    let written = started.elapsed();
    let output = sandbox.command(&format!("check a.bloom --from {log} {options}")).output();
    let output = output.unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    // Records are printed as they are, in their order.
    let (mut hits, mut wrong, mut rest) = (0u32, 0u32, printed.as_str());
    for number in 0..LINES {
        if let Some(after) = rest.strip_prefix(&line(number)) {
            rest = after;
            *(if number.is_multiple_of(HIT_EVERY) { &mut hits } else { &mut wrong }) += 1;
        }
    }
    assert_eq!(rest, "", "{log}: what is printed is no line of it");
    assert_eq!(hits, LINES / HIT_EVERY, "{log}: every line with a key of the set");
    let absent = f64::from(LINES - hits);
    let json = sandbox.run("inspect --json a.bloom").out;
    let json: Value = serde_json::from_str(&json).unwrap();
    let promised = json["segments"][0]["rate_now"].as_f64().unwrap();
    let rate = f64::from(wrong) / absent;
    // Five standard deviations, and 3 %.
    let room = 5.0 * (promised / absent).sqrt() + 0.03 * promised;
    println!(
        "{log}: {LINES} lines, all {hits} hits, {wrong} false positives ({:.3} %, {:.3} % promised), \
         written in {written:.1?}, checked after {:.1?}",
        100.0 * rate,
        100.0 * promised,
        started.elapsed()
    );
    assert!((rate - promised).abs() < room, "{log}: {rate}, not {promised}");
}

#[test]
fn a_million_lines_of_csv_and_of_json() {
    let sandbox = Sandbox::new();
    let set: HashSet<String> = (0..KEYS).map(agent).collect();
    assert_eq!(set.len(), KEYS as usize);
    let keys: String = (0..KEYS).fold(String::new(), |mut text, number| {
        let _ = write!(text, "{}\0", agent(number));
        text
    });
    sandbox.run_with("build -q a.bloom --null", keys).is(0, "", "");
    assert!(
        (0..LINES)
            .step_by(7)
            .all(|line| set.contains(&key(line)) == line.is_multiple_of(HIT_EVERY))
    );
    check(&sandbox, "log.csv", "--csv --field 2", |number| {
        format!("{number},{},\"GET, /{number}\"\n", csv(&key(number)))
    });
    check(&sandbox, "log.jsonl", "--json-field client.agent", |number| {
        let agent = serde_json::to_string(&key(number)).unwrap();
        format!("{{\"time\":{number},\"client\":{{\"agent\":{agent},\"ip\":\"::1\"}}}}\n")
    });
}
