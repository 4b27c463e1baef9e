//! The form of keys: recorded by those who make a file, applied by those who use it.

use crate::sandbox::Sandbox;

fn metadata(sandbox: &Sandbox, file: &str) -> serde_json::Value {
    let json = sandbox.run(&format!("inspect --json {file}")).out;
    serde_json::from_str::<serde_json::Value>(&json).unwrap()["metadata"].clone()
}

/// Built from upper case or from hex, asked without a word of it.
#[test]
fn the_form_is_recorded_and_applied() {
    for (form, built, record, asked, found) in [
        ("--hex", "00FF\n", serde_json::json!({"keys.form": "hex"}), "00ff 00fe", "00ff\n"),
        (
            "--lower",
            "EXAMPLE.org\n",
            serde_json::json!({"keys.form": "lower"}),
            "Example.ORG x",
            "Example.ORG\n",
        ),
        (
            "--trim --lower",
            " \u{c4}pfel\t\n",
            serde_json::json!({"keys.form": "trim lower"}),
            "\u{e4}PFEL x",
            "\u{e4}PFEL\n",
        ),
        ("--crlf", "a\r\nb\r\n", serde_json::json!({"keys.form": "crlf"}), "a b x", "a\nb\n"),
        (
            "--encoding le64",
            "7\n-1\n",
            serde_json::json!({"keys.encoding": "le64"}),
            "007 18446744073709551615 8",
            "007\n18446744073709551615\n",
        ),
        ("--encoding be64", "7\n", serde_json::json!({"keys.encoding": "be64"}), "7 8", "7\n"),
        (
            "--trim --encoding decimal",
            " +007\n",
            serde_json::json!({"keys.form": "trim", "keys.encoding": "decimal"}),
            "7 8",
            "7\n",
        ),
        ("", "a\n", serde_json::json!({}), "a A", "a\n"),
    ] {
        let sandbox = Sandbox::new();
        let space = if form.is_empty() { "" } else { " " };
        sandbox
            .run_with(&format!("build -q built.bloom -n 100 -p 1e-9{space}{form}"), built)
            .is(0, "", "");
        sandbox
            .run(&format!("create -q added.bloom -n 100 -p 1e-9 --kind counting{space}{form}"))
            .is(0, "", "");
        sandbox.run_with("add -q added.bloom", built).is(0, "", "");
        for file in ["built.bloom", "added.bloom"] {
            assert_eq!(metadata(&sandbox, file), record, "{form}");
            sandbox.run(&format!("check {file} {asked}")).is(0, found, "");
            // The options may be given again.
            sandbox.run(&format!("check{space}{form} {file} {asked}")).is(0, found, "");
        }
        let first = asked.split(' ').next().unwrap();
        let both = format!("{first}\tbuilt.bloom\tadded.bloom\n");
        sandbox.run(&format!("which {first} built.bloom added.bloom")).is(0, &both, "");
        sandbox.run(&format!("remove -q added.bloom {first}")).is(0, "", "");
        sandbox.run(&format!("check added.bloom {first}")).is(1, "", "");
    }
}

/// Encodings are bytes that other programs can make.
#[test]
fn numbers_are_the_bytes_they_are_said_to_be() {
    let sandbox = Sandbox::new();
    for (encoding, keys) in [
        ("le64", [258u64.to_le_bytes().to_vec(), (-2i64).to_le_bytes().to_vec()]),
        ("be64", [258u64.to_be_bytes().to_vec(), (-2i64).to_be_bytes().to_vec()]),
        ("decimal", [b"258".to_vec(), b"-2".to_vec()]),
    ] {
        let file = format!("{encoding}.bloom");
        let command = format!("build -q {file} --encoding {encoding} -n 100 -p 1e-9 --journal 0");
        sandbox.run_with(&command, "258\n-2\n").is(0, "", "");
        let options = bloomfile::Options::new().capacity(100).false_positive_rate(1e-9);
        let options = options.journal_bytes(0).metadata("keys.encoding", encoding);
        let mut builder = options.start_build(sandbox.path("library.bloom")).unwrap();
        assert_eq!(builder.add_batch(&keys), 2);
        builder.finish().unwrap();
        assert_eq!(sandbox.read(&file), sandbox.read("library.bloom"), "{encoding}");
        std::fs::remove_file(sandbox.path("library.bloom")).unwrap();
    }
    sandbox.run("check le64.bloom 1.5").is(
        2,
        "",
        "bloomfile: key argument 1: is not a whole number of 64 bits; with --encoding le64 or be64 \
         a key is written in decimal digits\n",
    );
    sandbox.run_with("check decimal.bloom", "258\n0x10\n").is(
        2,
        "258\n",
        "bloomfile: standard input: line 2 is not a whole number; with --encoding decimal a key is \
         written in decimal digits\n",
    );
}

#[test]
fn options_that_contradict_the_form_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom --hex -n 100 -p 1e-9", "00ff\n").is(0, "", "");
    let error = |options: &str| {
        format!(
            "bloomfile: a.bloom: its keys were made with --hex, and with {options} they would be \
             other ones; leave it out, or give --no-form to ignore what the file records\n"
        )
    };
    for (options, said) in [
        ("--lower", "--lower"),
        ("--encoding le64", "--encoding le64"),
        ("--trim --lower", "--trim --lower"),
    ] {
        for command in ["add a.bloom x", "check a.bloom x", "which x a.bloom"] {
            sandbox.run(&format!("{command} {options}")).is(2, "", &error(said));
        }
    }
    // What stands around keys is a matter of the input.
    sandbox.run_with("check a.bloom --crlf", "00ff\r\n").is(0, "00ff\r\n", "");
    sandbox.run_with("check a.bloom --trim", " 00ff \n").is(0, " 00ff \n", "");
    sandbox.run("check --no-form a.bloom 00ff").is(1, "", "");
    sandbox.run("check --no-form --hex a.bloom 00ff").is(0, "00ff\n", "");

    sandbox.run_with("build -q b.bloom --lower -n 100 -p 1e-9", "x\n").is(0, "", "");
    sandbox.run("check a.bloom --except b.bloom 00ff").is(
        2,
        "",
        "bloomfile: b.bloom: records another form of keys, so that it holds other keys of the same \
         texts; give --no-form and the options for the form that both have\n",
    );
    // Each of several files is asked in its own form.
    sandbox.run_with("build -q c.bloom -n 100 -p 1e-9", "00FF\n").is(0, "", "");
    sandbox.run("which 00FF a.bloom b.bloom c.bloom").is(0, "00FF\ta.bloom\tc.bloom\n", "");
    sandbox.run("which X b.bloom c.bloom").is(0, "X\tb.bloom\n", "");
    sandbox.run("which X b.bloom a.bloom").is(
        2,
        "",
        "bloomfile: key argument 1: is not hex; with --hex a key is written as two digits for each \
         byte\n",
    );
}

#[test]
fn a_form_that_is_not_known_is_refused() {
    let sandbox = Sandbox::new();
    let options = bloomfile::Options::new().capacity(100).false_positive_rate(0.01);
    let filter = options.metadata("keys.form", "rot13").create(sandbox.path("a.bloom")).unwrap();
    filter.add(b"x").unwrap();
    filter.close().unwrap();
    sandbox.run("check a.bloom x").is(
        2,
        "",
        "bloomfile: a.bloom: its keys have a form that this version does not know (keys.form = \
         rot13); use a newer bloomfile, or give --no-form to read keys as the options say\n",
    );
    sandbox.run("check --no-form a.bloom x").is(0, "x\n", "");
    sandbox.run("create b.bloom -n 9 --meta keys.form=hex").is(
        2,
        "",
        "bloomfile: --meta keys.form: this pair records the form of the keys; give the option for \
         the form itself, such as --hex\n",
    );
}

/// A file that was made without a word about its keys learns their form from the first ones.
#[test]
fn the_first_keys_set_the_form() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 100 -p 1e-9").is(0, "", "");
    sandbox.run("add a.bloom --lower Sheep").is(0, "a.bloom: 1 key read: all new\n", "");
    assert_eq!(metadata(&sandbox, "a.bloom"), serde_json::json!({"keys.form": "lower"}));
    sandbox.run("add a.bloom COW").is(0, "a.bloom: 1 key read: all new\n", "");
    sandbox.run("check a.bloom SHEEP cow").is(0, "SHEEP\ncow\n", "");
    // It has keys, and nothing is known of them.
    sandbox.run("create -q b.bloom -n 100 -p 1e-9").is(0, "", "");
    sandbox.run("add -q b.bloom Sheep").is(0, "", "");
    sandbox.run("add b.bloom --lower COW").is(
        0,
        "b.bloom: 1 key read: all new\n",
        "bloomfile: b.bloom: warning: does not record in what form its keys are, and these are made \
         with --lower: only commands with the same options find them\n",
    );
    sandbox.run("check b.bloom Sheep COW cow").is(0, "Sheep\ncow\n", "");
    sandbox.run("check --lower b.bloom COW").is(0, "COW\n", "");
    assert_eq!(metadata(&sandbox, "b.bloom"), serde_json::json!({}));
}

#[test]
fn merging_keeps_the_form_that_all_have() {
    let sandbox = Sandbox::new();
    for (name, form) in [("a", " --lower"), ("b", " --lower"), ("c", "")] {
        let build = format!("build -q {name}.bloom -n 1000{form}");
        sandbox.run_with(&build, format!("{name}\n")).is(0, "", "");
    }
    sandbox.run("merge -q -o ab.bloom a.bloom b.bloom").is(0, "", "");
    sandbox.run("check ab.bloom A B").is(0, "A\nB\n", "");
    let ran = sandbox.run("merge -o all.bloom a.bloom b.bloom c.bloom");
    assert_eq!(
        ran.err,
        "bloomfile: all.bloom: warning: the files record different forms of keys (--lower; none), \
         and the result none: its keys are found only with the options that they were added with\n"
    );
}

#[test]
fn inputs_that_are_no_lists_get_a_warning() {
    let sandbox = Sandbox::new();
    let binary = "warning: looks like a Parquet file, not like a list of keys; each line of it is \
                  taken as it is\n";
    sandbox.write("x.parquet", b"PAR1\x15\x04\x15\n\x0b\0PAR1");
    sandbox.run("build a.bloom x.parquet -n 100 --journal 8KiB").is(
        0,
        "a.bloom: 2 keys read: all new; 28 KiB\n",
        &format!("bloomfile: x.parquet: {binary}"),
    );
    sandbox.run("check -c a.bloom --from x.parquet").is(
        0,
        "2\n",
        &format!("bloomfile: x.parquet: {binary}"),
    );
    sandbox.run_with("add a.bloom", "a\0b\nc\n").is(
        0,
        "a.bloom: 2 keys read: all new\n",
        "bloomfile: standard input: warning: looks like binary data, not like a list of keys; each \
         line of it is taken as it is\n",
    );
    let crlf = "bloomfile: standard input: warning: its lines end in CR LF, and each CR is taken as \
                part of its key; give --crlf\n";
    sandbox.run_with("build -f a.bloom -n 100", "a\r\nb\r\n").is(
        0,
        "a.bloom: 2 keys read: all new; 20 KiB\n",
        crlf,
    );
    sandbox.run_with("check a.bloom", "a\r\nb\n").is(0, "a\r\n", crlf);
    sandbox.run_with("check -q a.bloom", "a\r\nb\n").is(0, "", "");
    sandbox.run_with("check a.bloom --crlf", "a\r\nb\n").is(1, "", "");
}

/// A list that was meant to be read is not taken for a key without a word.
#[test]
fn a_key_that_names_a_file_gets_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.write("my list.txt", "cow\n");
    sandbox.write("other.txt", "sheep\n");
    let create = "create -q a.bloom -n 100 -p 1e-9 --kind counting";
    sandbox.run(create).is(0, "", "");
    let warning = "is the name of a file, and taken as a key; to read keys from the file, give \
                   --from other.txt\n";
    let warning = format!("bloomfile: other.txt: warning: {warning}");
    sandbox.run("check a.bloom other.txt").is(1, "", &warning);
    sandbox.run("add a.bloom other.txt").is(0, "a.bloom: 1 key read: all new\n", &warning);
    sandbox.run("which other.txt a.bloom").is(0, "other.txt\ta.bloom\n", &warning);
    sandbox.run("remove a.bloom other.txt").is(
        0,
        "a.bloom: 1 key read, 1 of them removed\n",
        &warning,
    );
    let mut command = sandbox.command("check a.bloom x");
    let ran =
        crate::sandbox::Ran::from(command.args(["my list.txt", "other.txt"]).output().unwrap());
    ran.is(
        1,
        "",
        "bloomfile: \"my list.txt\": warning: is the name of a file, and taken as a key (and so is \
         one other after it); to read keys from the file, give --from 'my list.txt'\n",
    );
    // A folder is no list, and those who ask for quiet get it.
    sandbox.run("check a.bloom .").is(1, "", "");
    sandbox.run("check -q a.bloom other.txt").is(1, "", "");
    sandbox.run("add -q a.bloom other.txt").is(0, "", "");
    sandbox.run("check a.bloom --from other.txt").is(1, "", "");
}
