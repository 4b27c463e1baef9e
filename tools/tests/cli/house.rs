//! How the command's sources are kept: a file for each command, none too long, plain words.

use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;

/// Most lines of a source file.
const LINES: usize = 400;

/// Words that a reader should not have to look up, or that the field has others for.
const WORDS: [&str; 5] = ["whoever", "nobody", "so many", "anew", "meanwhile"];

fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
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
    let help = Sandbox::new().run("--help").out;
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let mut found = 0;
    for name in names.filter(|&name| name != "help") {
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

#[test]
fn no_source_is_too_long() {
    for path in files(&tools().join("src"), ".rs") {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LINES, "{} has {lines} lines", path.display());
    }
}

#[test]
fn words_are_plain() {
    let mut paths = files(&tools().join("src"), ".rs");
    paths.push(tools().join("json-output.md"));
    paths.push(tools().join("tests/cli/help.txt"));
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
        for (number, line) in text.lines().enumerate() {
            for word in WORDS {
                let is_word = line.match_indices(word).any(|(at, _)| {
                    let letter = |character: char| character.is_alphanumeric();
                    !line[..at].ends_with(letter) && !line[at + word.len()..].starts_with(letter)
                });
                assert!(!is_word, "{}:{}: {word}: {line}", path.display(), number + 1);
            }
        }
    }
}

/// What users install has no symbols in it: they are six sevenths of the file.
#[test]
fn release_binaries_are_stripped() {
    let manifest = std::fs::read_to_string(tools().parent().unwrap().join("Cargo.toml")).unwrap();
    let (_, release) = manifest.split_once("\n[profile.release]\n").unwrap();
    let (release, _) = release.split_once("\n[").unwrap();
    assert!(release.lines().any(|line| line == "strip = true"), "{release}");
}
