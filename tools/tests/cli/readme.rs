//! The README's commands, run as they stand, and their output as it stands there.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::sandbox::{BLOOMFILE, Ran, Sandbox};

/// `cargo run … -- ARGUMENTS` runs the command under test; other uses of cargo do nothing here.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = run ] || exit 0
while [ "$1" != -- ]; do shift; done
shift
exec bloomfile "$@"
"#;

/// A fenced piece of the README.
struct Block {
    language: String,
    text: String,
}

fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for line in markdown.lines() {
        match line.strip_prefix("```") {
            Some(language) if !open => {
                blocks.push(Block { language: language.into(), text: String::new() });
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let text = &mut blocks.last_mut().unwrap().text;
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    blocks
}

/// A sandbox that looks like a clone, with `cargo` and `bloomfile` to be found first.
fn clone(repository: &Path) -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["README.md", "format-spec.md", "src", "tools"] {
        symlink(repository.join(name), sandbox.path(name)).unwrap();
    }
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    sandbox.write("bin/cargo", CARGO);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(sandbox.path("bin/cargo"), executable).unwrap();
    symlink(BLOOMFILE, sandbox.path("bin/bloomfile")).unwrap();
    sandbox
}

/// The text with what a file made just now has for itself in place of its identity.
fn without_identity(text: &str) -> String {
    let is_uuid = |word: &str| word.len() == 36 && word.split('-').count() == 5;
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        words
            .iter()
            .map(|word| if is_uuid(word) { "UUID" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Each section in a folder of its own: a tour needs nothing but itself.
#[test]
fn the_commands_work_when_pasted() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = std::fs::read_to_string(repository.join("README.md")).unwrap();
    let mut compared = Vec::new();
    let mut outputs = Vec::new();
    for section in readme.split("\n## ") {
        let title = section.lines().next().unwrap();
        let blocks = blocks(section);
        let sandbox = clone(repository);
        let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap());
        for (at, block) in blocks.iter().enumerate() {
            if block.language != "sh" {
                assert!(["rust", "text", "toml"].contains(&block.language.as_str()));
                continue;
            }
            let mut shell = Command::new("sh");
            shell.args(["-euc", &block.text]).current_dir(sandbox.folder()).env("PATH", &path);
            let ran: Ran = shell.output().unwrap().into();
            assert_eq!(ran.code, Some(0), "{}\n{}{}", block.text, ran.out, ran.err);
            if let Some(expected) = blocks.get(at + 1).filter(|next| next.language == "text") {
                let [found, expected] =
                    [&ran.out, &expected.text].map(|text| without_identity(text));
                assert_eq!(found, expected, "{}", block.text);
                compared.push(title);
            }
            outputs.push(ran.out);
        }
    }
    compared.dedup();
    let tours = ["In front of a database", "Shared between hosts", "Handed a file"];
    assert!(compared.starts_with(&tours), "{compared:?}");
    // The main job answers, and shows the filter it made.
    assert!(outputs[0].contains("\ncheckpoint\njournal\n"), "{}", outputs[0]);
    assert!(outputs[0].contains("words.bloom: a Bloom filter"), "{}", outputs[0]);
}

/// Each tour says what can go wrong, and the dangers that people met are among it.
#[test]
fn the_tours_say_what_can_go_wrong() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = std::fs::read_to_string(repository.join("README.md")).unwrap();
    for (title, dangers) in [
        ("In front of a database", &["in the database and not in the filter", "look alike"][..]),
        ("Shared between hosts", &["`cp` over", "Network file systems", "Overlay file systems"]),
        ("Handed a file", &["another file", "damaged", "look alike", "tells a stranger"]),
    ] {
        let tour = readme.split("\n## ").find(|section| section.starts_with(title)).unwrap();
        let (_, wrong) = tour.split_once("What can go wrong:").expect(title);
        for danger in dangers {
            assert!(wrong.contains(danger), "{title}: {danger}");
        }
    }
    assert!(repository.join("SECURITY.md").exists() && readme.contains("(SECURITY.md)"));
    // Figures stand in one table, and the command that makes them beside it.
    let figures = readme.split("\n## ").find(|section| section.starts_with("Figures")).unwrap();
    assert_eq!(figures.matches("\n| --- |").count(), 1, "{figures}");
    assert!(figures.contains("`cargo bench --bench speed`"));
    for path in readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let is_heading = |heading: &str| {
            let slug = heading.to_lowercase().replace(' ', "-");
            path.strip_prefix('#') == Some(&slug)
        };
        let headings = readme.lines().filter_map(|line| line.split_once("# ").map(|(_, it)| it));
        let there = repository.join(path).exists() || headings.into_iter().any(is_heading);
        assert!(there, "{path} is not there");
    }
}
