//! Help texts, manual pages and completions: made from one definition, and tested as they are.

use std::process::Command;

use crate::sandbox::Sandbox;

/// All commands, as the help lists them.
fn commands(sandbox: &Sandbox) -> Vec<String> {
    let help = sandbox.run("--help").out;
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names =
        lines.filter_map(|line| line.split_whitespace().next()).filter(|&name| name != "help");
    names.map(str::to_owned).collect()
}

/// The help of every command is that of the snapshot. `BLOOMFILE_SNAPSHOT=1` writes it anew.
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
        assert!(page.contains(".SH OPTIONS") && page.contains("bloomfile"), "{name}");
    }
    let page = sandbox.run("man").out;
    assert!(page.contains(".TH bloomfile 1") && page.contains(".SH SUBCOMMANDS"), "{page}");
    let error = "bloomfile: no: cannot write the pages: No such file or directory (os error 2)\n";
    sandbox.run("man --out no").is(2, "", error);
}

/// Each shell takes its completions without a complaint, where it is installed.
#[test]
fn shells_take_the_completions() {
    let sandbox = Sandbox::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = sandbox.run(&format!("completions {shell}")).out;
        assert!(script.contains("bloomfile") && script.contains("inspect"), "{shell}");
        sandbox.write("script", &script);
        match Command::new(shell).arg(check).arg(sandbox.path("script")).output() {
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && errors.is_empty(), "{shell}: {errors}");
            }
            Err(_) => eprintln!("not tried: {shell} is not installed"),
        }
    }
    let ran = sandbox.run("completions cobol");
    assert!(ran.code == Some(2) && ran.err.contains("[possible values: bash,"), "{}", ran.err);
}
