//! How keys are read.

use crate::sandbox::Sandbox;

#[test]
fn a_newline_is_no_part_of_a_key() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --capacity 100", "a\n\nb\r\nlast").is(0, "", "");
    sandbox.run("check a.bloom a last b").is(0, "a\nlast\n", "");
    // The empty line is the empty key; the CR is kept.
    sandbox.run_with("check --all a.bloom", "\nb\r\nlast").is(0, "\nb\r\nlast\n", "");
}

#[test]
fn crlf_is_taken_off_when_asked() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --crlf", "a\r\nb\nc\r").is(0, "", "");
    sandbox.run("check --all a.bloom a b c").is(0, "a\nb\nc\n", "");
    // What is printed is the line as it was.
    sandbox.run_with("check --crlf a.bloom", "a\r\nx\r\n").is(0, "a\r\n", "");
}

#[test]
fn null_separates_keys() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --null", "one\ntwo\0three").is(0, "", "");
    sandbox.run_with("check -0 a.bloom", "one\ntwo\0x\0three\0").is(0, "one\ntwo\0three\0", "");
    sandbox.run("check a.bloom one two").is(1, "", "");
}

#[test]
fn hex_is_decoded() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --hex", "00ff\n63617420\n").is(0, "", "");
    sandbox.run("check --hex a.bloom 00FF 00fe 63617420").is(0, "00FF\n63617420\n", "");
    sandbox.run_with("check --no-form a.bloom", "cat \n").is(0, "cat \n", "");
    sandbox.run("check a.bloom 00 0").is(
        2,
        "",
        "bloomfile: key argument 2: is not hex; with --hex a key is written as two digits for \
         each byte\n",
    );
}

#[test]
fn keys_of_a_mebibyte_work() {
    let sandbox = Sandbox::new();
    let long = vec![b'k'; 1 << 20];
    let mut other = long.clone();
    *other.last_mut().unwrap() = b'l';
    sandbox.run_with("build -q a.bloom", &long).is(0, "", "");
    sandbox.run_with("check -c a.bloom", &long).is(0, "1\n", "");
    sandbox.run_with("check -c a.bloom", &other).is(1, "0\n", "");
}

#[test]
fn a_key_that_looks_like_an_option_follows_two_dashes() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom", "--all\n-\n").is(0, "", "");
    sandbox.run("check a.bloom -- --all").is(0, "--all\n", "");
    // The key "-" itself can be given through an input.
    sandbox.run_with("check a.bloom -", "-\n").is(0, "-\n", "");
}

#[test]
fn add_says_how_far_it_came() {
    let sandbox = Sandbox::with_filter();
    sandbox.run_with("add -q --hex a.bloom", "aaaa\nbbbb\nnot hex\ncccc\n").is(
        2,
        "",
        "bloomfile: standard input: line 3 is not hex; with --hex a key is written as two digits \
         for each byte; 2 keys were added before it\n",
    );
    sandbox.run("check --hex a.bloom aaaa bbbb cccc").is(0, "aaaa\nbbbb\n", "");
    sandbox.run("verify -q a.bloom").is(0, "", "");
}

#[test]
fn a_field_is_the_key_and_the_line_is_printed() {
    let sandbox = Sandbox::new();
    let log = "10.0.0.1 GET /sheep\n10.0.0.2 GET /cow\n";
    let mut build = sandbox.command("build -q a.bloom log --field 1 --delimiter");
    sandbox.write("log", log);
    assert!(build.arg(" ").status().unwrap().success());
    sandbox.run("check --all a.bloom 10.0.0.1 10.0.0.2").is(0, "10.0.0.1\n10.0.0.2\n", "");
    sandbox.write("users.csv", "7,10.0.0.2,cow\r\n8,10.0.0.3,wolf\r\n9,10.0.0.1\r\n");
    let csv = "--from users.csv --field 2 --delimiter ,";
    // The CR behind the last field is no part of it.
    sandbox.run(&format!("check --crlf a.bloom {csv}")).is(
        0,
        "7,10.0.0.2,cow\r\n9,10.0.0.1\r\n",
        "",
    );
    sandbox.run(&format!("check -cv a.bloom {csv}")).is(0, "2\n", "");
    // A key given as an argument is the key.
    sandbox.run("check a.bloom 10.0.0.1 --field 3").is(0, "10.0.0.1\n", "");
    sandbox.run_with("check a.bloom --field 2", "x\t10.0.0.1\ty\n").is(0, "x\t10.0.0.1\ty\n", "");
}

#[test]
fn a_line_without_the_field_is_an_error() {
    let sandbox = Sandbox::with_filter();
    sandbox.run_with("check a.bloom --field 2 --delimiter ,", "a,1\na,sheep\nb\na,2\n").is(
        2,
        "a,1\n",
        "bloomfile: standard input: line 3 has no field 2; check the options for fields, or pass \
         over such lines with --skip-missing\n",
    );
    for (arguments, explanation) in [
        ("--field 0", "invalid value '0' for '--field <FIELD>': fields are counted from 1"),
        ("--field 1 --delimiter ab", "not one byte, such as , or ; or \\t for a tab"),
        ("--delimiter ,", "<--field <FIELD>|--each>"),
        ("--csv", "<--field <FIELD>|--each>"),
        ("--field 1 --each", "cannot be used with"),
        ("--json-field a --field 1", "cannot be used with"),
        ("--json-field a..b", "not a path such as user.name"),
        ("--csv --field 1 --null", "cannot be used with"),
        ("--hex --lower", "cannot be used with"),
        ("--encoding le16", "[possible values: le64, be64, decimal]"),
    ] {
        let ran = sandbox.run(&format!("check a.bloom {arguments}"));
        assert!(ran.code == Some(2) && ran.err.contains(explanation), "{}", ran.err);
    }
}
