//! How the command's sources are kept: a file for each command, none too long, plain words.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;

/// Most lines of a source file.
const LINES: usize = 400;

/// Words that a reader should not have to look up, or that the field has others for.
const WORDS: [&str; 5] = ["whoever", "nobody", "so many", "anew", "meanwhile"];

/// Names for which the field has others: the second of each pair says which.
const NAMES: [(&str, &str); 13] = [
    ("Shortcut", "fast path"),
    ("_otherwise", "_slow or _general"),
    ("Draft", "pending file"),
    ("Examined", "snapshot"),
    ("Allotment", "reservation"),
    ("settle", "fill gaps, or recheck"),
    ("has_news", "has unsynced records"),
    ("exhaust(", "stop logging until the checkpoint"),
    ("turnover", "rollover"),
    ("make_way", "handle full"),
    ("take_place", "reserve"),
    ("Alone<", "cache padded"),
    ("fn take", "what is done: drain, reserve, apply, note"),
];

/// Folders of what compilers and package managers made.
const MADE: [&str; 2] = ["target", "node_modules"];

/// The files below a folder whose paths end in this way.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !MADE.iter().any(|made| path.ends_with(made)) {
                    folders.push(path);
                }
            } else if path.to_str().unwrap().ends_with(end) {
                files.push(path);
            }
        }
    }
    files
}

fn tools() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_command_has_a_file_with_its_arguments() {
    let mut found = 0;
    for name in &subcommands() {
        let folder = tools().join("src/commands");
        let file = folder.join(format!("{name}.rs"));
        let file = if file.exists() { file } else { folder.join(name).join("mod.rs") };
        let source = std::fs::read_to_string(&file).unwrap();
        let (first, rest) = name.split_at(1);
        let arguments = format!("pub(crate) struct {}{rest}Args ", first.to_uppercase());
        assert!(source.contains(&arguments), "{name}: {arguments}");
        found += 1;
    }
    assert!(found > 15, "{found}");
}

/// The subcommands of the program.
fn subcommands() -> Vec<String> {
    let help = Sandbox::new().run("--help").out;
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|&name| name != "help").map(str::to_owned).collect()
}

/// Subcommands that touch no file.
#[cfg(unix)]
const NOT_IN_FAULTS: [&str; 2] = ["plan", "completions"];

/// Subcommands that make no filter of their own.
#[cfg(unix)]
const MAKE_NO_FILTER: [&str; 15] = [
    "plan",
    "add",
    "remove",
    "rotate",
    "check",
    "inspect",
    "verify",
    "bench",
    "repair",
    "delta",
    "compare",
    "which",
    "keygen",
    "completions",
    "man",
];

/// Lists of commands in tests, and of what makes files, have every subcommand: a new one cannot be
/// forgotten.
#[cfg(unix)]
#[test]
fn lists_of_commands_have_all_of_them() {
    use crate::{limits, names};
    let subcommands = subcommands();
    assert!(subcommands.len() > 25, "{subcommands:?}");
    let missing = |lines: &[&str], but: &[&str]| -> Vec<String> {
        let has = |name: &str| {
            lines.iter().any(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            })
        };
        let missing = subcommands.iter().filter(|name| !but.contains(&&***name) && !has(name));
        missing.cloned().collect()
    };
    let none = [] as [String; 0];
    assert_eq!(missing(&names::COMMANDS, &[]), none, "names.rs");
    assert_eq!(missing(&limits::COMMANDS, &[]), none, "limits.rs");

    // What stands in quotes, at the beginnings of lines or of pairs.
    let quoted =
        |text: &'static str| -> Vec<&'static str> { text.split('"').skip(1).step_by(2).collect() };
    let (_, faults) = include_str!("faults.rs").split_once("const COMMANDS").unwrap();
    let (faults, _) = faults.split_once("];").unwrap();
    assert_eq!(missing(&quoted(faults), &NOT_IN_FAULTS), none, "faults.rs");
    let replacing = quoted(include_str!("../../../tests/replacing.rs"));
    let pulled = [&MAKE_NO_FILTER[..], &["pull"]].concat();
    assert_eq!(missing(&replacing, &pulled), none, "tests/replacing.rs");
    let slots = quoted(include_str!("../../../tests/two_slots.rs"));
    // An empty file has no keys to lose.
    let created = [&pulled[..], &["create"]].concat();
    assert_eq!(missing(&slots, &created), none, "tests/two_slots.rs");
}

#[test]
fn no_source_is_too_long() {
    let describe = tools().join("describe/src");
    let mut paths = files(&tools().join("src"), ".rs");
    paths.extend(files(&describe, ".rs"));
    for path in paths {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LINES, "{} has {lines} lines", path.display());
    }
}

/// All texts of the project that people read: code, documents, help.
fn texts() -> Vec<(PathBuf, String)> {
    let root = tools().parent().unwrap();
    let mut paths = vec![tools().join("tests/cli/help.txt"), tools().join("json-output.md")];
    for folder in [
        "src",
        "tests",
        "benches",
        "examples",
        "docs",
        "fuzz/fuzz_targets",
        "tools/describe/src",
        "tools/src",
    ] {
        paths.extend(files(&root.join(folder), ".rs"));
        paths.extend(files(&root.join(folder), ".md"));
    }
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "md") {
            paths.push(path);
        }
    }
    for binding in ["c", "python", "sqlite", "web"] {
        paths.extend(files(&root.join("bindings").join(binding).join("src"), ".rs"));
    }
    let scripts = scripts();
    assert!(scripts.len() > 10, "{scripts:?}");
    paths.extend(scripts);
    assert!(paths.len() > 300, "{}", paths.len());
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(&path).unwrap());
    paths.into_iter().map(read).collect()
}

/// The scripts of the project: they begin with `#!`.
fn scripts() -> Vec<PathBuf> {
    let root = tools().parent().unwrap();
    let folders = [".ci", "benches", "bindings", "examples", "fuzz", "tests", "tools"];
    let mut paths: Vec<_> = folders.iter().flat_map(|name| files(&root.join(name), "")).collect();
    paths.retain(|path| {
        let mut start = [0; 2];
        let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && start == *b"#!"
    });
    paths
}

/// The lines of a text that have a word in them, or where one begins, with their numbers.
fn lines_with<'a>(text: &'a str, word: &str) -> Vec<(usize, &'a str)> {
    let letter = |character: char| character.is_alphanumeric();
    let has = |line: &str| {
        let lower = line.to_lowercase();
        lower.match_indices(word).any(|(at, _)| {
            !lower[..at].ends_with(letter) && !lower[at + word.len()..].starts_with(letter)
        })
    };
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        // What the end of a line cuts in two, in a comment perhaps.
        let (end, begin) = word.rsplit_once(' ').unwrap_or((word, ""));
        let next = lines.peek().map_or("", |(_, next)| next.trim_start_matches(|c| !letter(c)));
        let wrapped = !begin.is_empty()
            && line.to_lowercase().ends_with(&format!(" {end}"))
            && next.split(|c| !letter(c)).next() == Some(begin);
        if has(line) || wrapped {
            found.push((number, line));
        }
    }
    found
}

#[test]
fn words_are_plain() {
    for (path, text) in texts() {
        for word in WORDS {
            let found = lines_with(&text, word);
            assert!(found.is_empty(), "{}: {word}: {found:?}", path.display());
        }
    }
    assert_eq!(lines_with("sets\nAnew, and a renewal\nmanew", "anew").len(), 1);
    assert_eq!(lines_with("# of so\n# many, and also\nmany; so many", "so many").len(), 2);
}

#[test]
fn names_are_those_of_the_field() {
    let root = tools().parent().unwrap();
    for folder in ["src", "tools/describe/src", "tools/src"].map(|name| root.join(name)) {
        for path in files(&folder, ".rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for (number, line) in text.lines().enumerate() {
                let place = format!("{}:{}: {line}", path.display(), number + 1);
                for (name, better) in NAMES {
                    let taken = line.contains("fn taken") || line.contains("fn takes_");
                    assert!(!line.contains(name) || taken, "{place}: say {better}");
                }
            }
        }
    }
}

#[test]
fn bools_are_not_matched() {
    let root = tools().parent().unwrap();
    let folders = ["src", "benches", "bindings", "examples", "fuzz", "tests", "tools"];
    let paths: Vec<_> = folders.iter().flat_map(|name| files(&root.join(name), ".rs")).collect();
    assert!(paths.len() > 400, "{}", paths.len());
    let mut found = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("true => ") {
                found.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "if and else for a bool: {found:#?}");
}

/// What users install has no symbols in it: they are six sevenths of the file.
#[test]
fn release_binaries_are_stripped() {
    let manifest = std::fs::read_to_string(tools().parent().unwrap().join("Cargo.toml")).unwrap();
    let (_, release) = manifest.split_once("\n[profile.release]\n").unwrap();
    let (release, _) = release.split_once("\n[").unwrap();
    assert!(release.lines().any(|line| line == "strip = true"), "{release}");
}

/// ARCHITECTURE.md names files by their paths, those of the library and of the command without `src/`.
#[test]
fn every_path_of_the_architecture_is_there() {
    let root = tools().parent().unwrap();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let named = page.split('`').skip(1).step_by(2).filter(|name| {
        name.contains('/') && name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
    });
    let places = [root.to_owned(), root.join("src"), tools().join("src")];
    let mut seen = 0;
    for name in named {
        assert!(places.iter().any(|place| place.join(name).exists()), "{name} is not there");
        seen += 1;
    }
    assert!(seen > 50, "only {seen} paths were found at all");
}
