//! The rooms of the house (ARCHITECTURE.md) against the code: who uses whom, where `unsafe` is, and
//! how long files are.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most lines of a source file.
const LINES: usize = 450;

/// The rooms that `unsafe` is in.
const UNSAFE: [&str; 2] = ["storage", "kernel"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rooms in their order, from ARCHITECTURE.md: each knows only those before it.
fn rooms() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, order) = page.split_once("```order\n").expect("the order of the rooms");
    let (order, _) = order.split_once("```").unwrap();
    order.split_whitespace().filter(|word| *word != "→").map(str::to_owned).collect()
}

/// Every source file of the library and the room that it is in.
fn sources() -> Vec<(String, PathBuf)> {
    let source = root().join("src");
    let mut folders = vec![source.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let first = path.strip_prefix(&source).unwrap().components().next().unwrap();
                let room = first.as_os_str().to_str().unwrap().trim_end_matches(".rs");
                files.push((room.to_owned(), path));
            }
        }
    }
    files.sort();
    files
}

/// Whether a file holds tests alone: they may use what they like.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "simulated")
        || path.file_stem().is_some_and(|name| name == "tests" || name == "spec_test")
}

/// The code of a file: comments, and the tests at its end, left out.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let text = text.split("#[cfg(all(test, not(shuttle)))]\nmod tests {").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The rooms that a piece of code names: `crate::room`, also in braces.
fn named(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = code[at + "crate::".len()..].trim_start();
        let word = |text: &str| {
            text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
        };
        let Some(list) = rest.strip_prefix('{') else {
            found.push(word(rest));
            continue;
        };
        let mut depth = 0;
        for (start, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                _ => {}
            }
            let begins = start == 0 || list[..start].trim_end().ends_with(['{', ',']);
            if depth == 0 && begins && c.is_ascii_alphabetic() {
                found.push(word(&list[start..]));
            }
        }
    }
    found
}

/// Edges from a room to one that does not come before it.
fn upward(rooms: &[String], room: &str, code: &str) -> Vec<String> {
    let place = |room: &str| rooms.iter().position(|listed| listed == room);
    let Some(here) = place(room) else { return vec![format!("{room} is in no order")] };
    let not_before = |other: &String| place(other).is_none_or(|there| there > here);
    let mut edges: Vec<String> = named(code).into_iter().filter(not_before).collect();
    edges.dedup();
    edges.into_iter().map(|other| format!("{room} → {other}")).collect()
}

#[test]
fn each_room_knows_only_those_before_it() {
    let rooms = rooms();
    let mut edges: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    let mut seen = 0;
    for (room, path) in sources() {
        if room != "lib" && !is_test(&path) {
            seen += named(&code(&path)).len();
            let found = upward(&rooms, &room, &code(&path));
            if !found.is_empty() {
                edges.insert(path, found);
            }
        }
    }
    assert!(edges.is_empty(), "{edges:#?}");
    assert!(seen > 200, "only {seen} edges were found at all");
    for room in &rooms {
        let there = sources().iter().any(|(listed, _)| listed == room);
        assert!(there, "ARCHITECTURE.md names {room}, which is not there");
    }
}

/// The test above can fail.
#[test]
fn an_edge_upwards_is_noticed() {
    let rooms = rooms();
    let none: Vec<String> = Vec::new();
    assert_eq!(upward(&rooms, "reader", "use crate::file::Snapshot;"), none);
    assert_eq!(upward(&rooms, "file", "use crate::report::inspect;"), ["file → report"]);
    let braces = "use crate::{\n    error::{Error, Result},\n    writer::Engine,\n};";
    assert_eq!(upward(&rooms, "kernel", braces), ["kernel → writer"]);
    assert_eq!(upward(&rooms, "format", "fn f() { crate::unknown::g() }"), ["format → unknown"]);
}

/// How often code has the keyword `unsafe`, in front of a block, a function or whatever else, or lets
/// the lint of it pass. What stands in strings is none of it.
fn count_unsafe(code: &str) -> usize {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let lines = code.lines().map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join(" "));
    let keywords = |line: String| {
        line.split(|c| !word(c)).filter(|word| ["unsafe", "unsafe_code"].contains(word)).count()
    };
    lines.map(keywords).sum()
}

#[test]
fn unsafe_is_in_two_rooms_only() {
    let mut found = BTreeMap::<String, usize>::new();
    for (room, path) in sources() {
        *found.entry(room).or_default() += count_unsafe(&code(&path));
    }
    found.retain(|_, count| *count != 0);
    assert!(found.keys().all(|room| UNSAFE.contains(&room.as_str())), "{found:?}");
    assert_eq!(found.len(), UNSAFE.len(), "{found:?}");
}

/// The test above can fail, by each form.
#[test]
fn every_form_of_unsafe_is_noticed() {
    for code in [
        "unsafe { f() }",
        "unsafe fn f() {}",
        "unsafe impl Send for F {}",
        "unsafe extern \"C\" {}",
        "#[unsafe(no_mangle)]",
        "f(\"a\", unsafe {",
        "#![allow(unsafe_code, reason = \"a\")]",
    ] {
        assert_eq!(count_unsafe(code), 1, "{code}");
    }
    assert_eq!(count_unsafe("\"this is unsafe\"; is_unsafe(); unsafe_op"), 0);
}

#[test]
fn no_source_file_is_long() {
    for (_, path) in sources() {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LINES, "{} has {lines} lines", path.display());
    }
}
