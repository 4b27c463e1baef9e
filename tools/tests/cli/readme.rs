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

#[test]
fn the_commands_work_when_pasted() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = std::fs::read_to_string(repository.join("README.md")).unwrap();
    let blocks = blocks(&readme);
    let sandbox = clone(repository);
    let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap());
    let mut compared = 0;
    let mut outputs = Vec::new();
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
            assert_eq!(ran.out, expected.text, "{}", block.text);
            compared += 1;
        }
        outputs.push(ran.out);
    }
    assert!(compared >= 4, "the tour shows its output");
    // The main job answers, and shows the filter it made.
    assert!(outputs[0].contains("\ncheckpoint\njournal\n"), "{}", outputs[0]);
    assert!(outputs[0].contains("words.bloom: a Bloom filter"), "{}", outputs[0]);
}
