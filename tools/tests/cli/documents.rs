//! Help texts, manual pages and completions: made from one definition, and tested as they are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sandbox::{BLOOMFILE, Sandbox, has, no_folder};

/// All commands, as the help lists them.
fn commands(sandbox: &Sandbox) -> Vec<String> {
    let help = sandbox.run("--help").out;
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names =
        lines.filter_map(|line| line.split_whitespace().next()).filter(|&name| name != "help");
    names.map(str::to_owned).collect()
}

/// The help of every command is that of the snapshot. `BLOOMFILE_SNAPSHOT=1` writes it again.
#[test]
fn help_is_as_it_was() {
    let sandbox = Sandbox::new();
    let snapshot = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/help.txt");
    let mut found = String::new();
    let names = commands(&sandbox);
    let pages = std::iter::once(String::new()).chain(names.into_iter().map(|name| name + " "));
    for page in pages {
        let mut command = sandbox.command(&format!("{page}--help"));
        let help = command.env("COLUMNS", "100").output().unwrap();
        assert!(help.status.success() && help.stderr.is_empty());
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        found += &format!("$ bloomfile {page}--help\n{help}\n");
    }
    if std::env::var_os("BLOOMFILE_SNAPSHOT").is_some() {
        std::fs::write(snapshot, &found).unwrap();
    }
    let expected = std::fs::read_to_string(snapshot).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert_eq!(differs, None, "run with BLOOMFILE_SNAPSHOT=1 and look at the difference");
    assert_eq!(expected.lines().count(), found.lines().count());
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("man1")).unwrap();
    let commands = commands(&sandbox);
    let pages = commands.len() + 1;
    sandbox.run("man --out man1").is(0, &format!("man1: {pages} pages written\n"), "");
    for name in commands {
        let page = String::from_utf8(sandbox.read(&format!("man1/bloomfile-{name}.1"))).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES"] {
            let title = if section.contains(' ') {
                format!(".SH \"{section}\"\n")
            } else {
                format!(".SH {section}\n")
            };
            assert_eq!(page.matches(&title).count(), 1, "{name}: {section}: {page}");
        }
        assert!(!page.contains(".SH EXTRA") && !page.contains("Exit status:"), "{name}: {page}");
        assert!(page.contains(&format!("\nbloomfile {name}")), "{name}: an example of it");
    }
    let page = sandbox.run("man").out;
    assert!(page.contains(".TH bloomfile 1") && page.contains(".SH SUBCOMMANDS"), "{page}");
    assert!(
        page.contains(".SH \"EXIT STATUS\"\n0 done, 2 error. check and which: 0 some key"),
        "{page}"
    );
    assert!(page.contains(".SH EXAMPLES\n.nf\nbloomfile build words.bloom words.txt"), "{page}");
    let page = std::path::Path::new("no").join("bloomfile.1");
    let error = format!("bloomfile: {}: cannot be written: {}\n", page.display(), no_folder());
    sandbox.run("man --out no").is(2, "", &error);
}

/// Prints what bash completes a line to, with the script of its first argument.
const ASK_BASH: &str = r#"
source "$0"
COMP_WORDS=(LINE) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_bloomfile bloomfile "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
echo "${COMPREPLY[@]}"
"#;

/// The same for zsh, which completes only at a terminal: a second one is given one and a Tab.
const ASK_ZSH: &str = r#"
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell "autoload -Uz compinit; compinit -D -u; source ${(q)0}"
zpty -w -n shell $'LINE\t'
# Waits for what is expected.
zpty -r shell list '*PATTERN*'
print -r -- "$list"
"#;

/// The same for fish.
const ASK_FISH: &str = r#"
source "$argv[1]"
complete -C "LINE"
"#;

/// What each shell completes a line to, where it is installed. It takes its completions without a
/// complaint. `pattern` is what zsh shows in the end.
fn complete(sandbox: &Sandbox, line: &str, pattern: &str) -> Vec<(&'static str, String)> {
    let folder = Path::new(BLOOMFILE).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> =
        std::iter::once(folder.into()).chain(std::env::split_paths(&path)).collect();
    let mut completed = Vec::new();
    for (shell, options, check, ask) in [
        ("bash", &["--norc", "--noprofile"][..], "-n", ASK_BASH),
        ("zsh", &["-f"], "-n", ASK_ZSH),
        ("fish", &["--no-config"], "--no-execute", ASK_FISH),
    ] {
        let script = sandbox.run(&format!("completions {shell}")).out;
        assert!(script.contains("bloomfile") && script.contains("inspect"), "{shell}");
        if !has(shell) {
            continue;
        }
        sandbox.write("script", &script);
        let script = sandbox.path("script");
        // A shell that waits for ever shall not make the tests wait.
        let run = |arguments: &[&OsStr]| {
            let mut command = Command::new("timeout");
            command.args(["60", shell]).args(options).args(arguments);
            // Shells keep what they remember in folders of the user's.
            command.env("HOME", sandbox.folder()).env("TERM", "dumb");
            command.env("XDG_CONFIG_HOME", sandbox.folder()).env("XDG_DATA_HOME", sandbox.folder());
            command.env("PATH", std::env::join_paths(&path).unwrap());
            let output = command.stdin(Stdio::null()).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && errors.is_empty(), "{shell}: {line}: {errors}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        run(&[check.as_ref(), script.as_ref()]);
        let ask = ask.replace("LINE", line).replace("PATTERN", pattern);
        completed.push((shell, run(&["-c".as_ref(), ask.as_ref(), script.as_ref()])));
    }
    completed
}

#[test]
fn shells_complete_commands() {
    let sandbox = Sandbox::new();
    // In its list, both have what they do beside them.
    for (shell, completed) in complete(&sandbox, "bloomfile in", "inspect *intersect * in common") {
        for (name, there) in [("inspect", true), ("intersect", true), ("merge", false)] {
            assert_eq!(completed.contains(name), there, "{shell}, {name}: {completed}");
        }
    }
    let ran = sandbox.run("completions cobol");
    assert!(ran.code == Some(2) && ran.err.contains("[possible values: bash,"), "{}", ran.err);
}

/// Options come after the file and the keys as often as before.
#[test]
fn shells_complete_options_after_arguments() {
    let sandbox = Sandbox::new();
    for (line, option) in [
        ("bloomfile check --mem", "--memory"),
        ("bloomfile check a.bloom --mem", "--memory"),
        ("bloomfile check a.bloom key --answ", "--answers"),
        ("bloomfile verify a.bloom b.bloom --js", "--json"),
    ] {
        for (shell, completed) in complete(&sandbox, line, &option.replace('-', r"\-")) {
            assert!(completed.contains(option), "{shell}: {line}: {completed}");
        }
    }
}
