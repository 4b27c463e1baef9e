//! Keys that are fields of lines: CSV, JSON lines, white space; and the answers for each.

use crate::sandbox::Sandbox;

/// Four hosts, one of which needs quotes in CSV and escapes in JSON.
const HOSTS: &str = "10.0.0.1\n::1\na \"quoted\", host\nlast\n";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q hosts.bloom -n 1000 -p 1e-6", HOSTS).is(0, "", "");
    sandbox
}

/// The command with one argument in quotes, which may hold spaces.
fn run(sandbox: &Sandbox, arguments: &str, last: &str, input: &str) -> crate::sandbox::Ran {
    use std::io::Write;
    let mut command = sandbox.command(arguments);
    let pipe = std::process::Stdio::piped;
    let mut child = command.arg(last).stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn csv_with_quotes() {
    let sandbox = sandbox();
    let log = "time,host,note\r\n\
               1,10.0.0.1,plain\r\n\
               2,\"::1\",\"in quotes\"\r\n\
               3,\"a \"\"quoted\"\", host\",\"of two\nlines\"\r\n\
               4,absent,x\r\n\
               5,\"last\",\"no end\"";
    sandbox.write("log.csv", log);
    let hits = "1,10.0.0.1,plain\n2,\"::1\",\"in quotes\"\n\
                3,\"a \"\"quoted\"\", host\",\"of two\nlines\"\n5,\"last\",\"no end\"\n";
    // By name and by number; from a file and from a pipe.
    sandbox.run("check hosts.bloom --from log.csv --csv --field host").is(0, hits, "");
    sandbox.run_with("check hosts.bloom --csv --field host", log).is(0, hits, "");
    sandbox.run("check hosts.bloom --from log.csv --csv --field 2").is(0, hits, "");
    sandbox.run("check -v hosts.bloom --from log.csv --csv --field host").is(0, "4,absent,x\n", "");
    sandbox.run("check -c hosts.bloom --from log.csv --csv --field 2 --header").is(0, "4\n", "");
    // Without a header the first record is one as any other.
    sandbox.run("check -cv hosts.bloom --from log.csv --csv --field 2").is(0, "2\n", "");
    // Without --csv the quotes are part of the key.
    sandbox.run("check -c hosts.bloom --from log.csv --field 2 --delimiter ,").is(
        2,
        "",
        "bloomfile: log.csv: line 5 has no field 2; check the options for fields, or pass over such \
         lines with --skip-missing\n",
    );
    let semicolons = "\u{feff}\"host\";note\n\"::1\";x\n";
    sandbox.run_with("check hosts.bloom --csv --delimiter ; --field host", semicolons).is(
        0,
        "\"::1\";x\n",
        "",
    );
    // A filter is built from CSV in the same way.
    sandbox.run("build b.bloom log.csv --csv --field host").is(
        0,
        "b.bloom: 5 keys read: all new; made for 5; 20 KiB\n",
        "",
    );
    sandbox.run_with("check --all -c b.bloom", HOSTS).is(0, "4\n", "");
}

#[test]
fn csv_that_cannot_be_read() {
    let sandbox = sandbox();
    sandbox.run_with("check hosts.bloom --csv --field port", "time,host\n1,::1\n").is(
        2,
        "",
        "bloomfile: standard input: its header has no field port; it has time, host\n",
    );
    sandbox.run_with("check hosts.bloom --csv --field 1", "::1\n\"10.0.0.1\nlast\n").is(
        2,
        "::1\n",
        "bloomfile: standard input: record 2 has a quote that is never closed; is this CSV?\n",
    );
    sandbox.run_with("check hosts.bloom --csv --field 2", "1,::1\n2\n").is(
        2,
        "1,::1\n",
        "bloomfile: standard input: record 2 has no field 2; check the options for fields, or pass \
         over such records with --skip-missing\n",
    );
    sandbox.run_with("check hosts.bloom --csv --field 2 --skip-missing", "1,::1\n2\n3,last").is(
        0,
        "1,::1\n3,last\n",
        "bloomfile: standard input: 1 of 3 records without a field 2 passed over\n",
    );
    for option in ["--csv --field 1", "--each", "--skip-missing --field 1", "--field 1 --header"] {
        let ran = sandbox.run(&format!("add hosts.bloom --resume {option}"));
        assert!(ran.code == Some(2) && ran.err.contains("cannot be used with"), "{}", ran.err);
    }
    sandbox.run("add hosts.bloom --resume --field host").is(
        2,
        "",
        "bloomfile: --resume goes on where there is no header to find a field by its name; give \
         --field its number\n",
    );
}

#[test]
fn json_lines() {
    let sandbox = sandbox();
    let log = r#"{"client":{"ip":"10.0.0.1"},"n":1}
{"n":2,"client":{"ip":"\u003a:1","ports":[80,443]}}
{"client":{"ip":"a \"quoted\", host"},"n":3}
{"client":{"ip":"absent"},"n":4}
"#;
    sandbox.write("log.jsonl", log);
    let lines: Vec<&str> = log.lines().collect();
    let hits = format!("{}\n{}\n{}\n", lines[0], lines[1], lines[2]);
    let check = "check hosts.bloom --from log.jsonl --json-field";
    for path in ["client.ip", ".client.ip", "/client/ip"] {
        sandbox.run(&format!("{check} {path}")).is(0, &hits, "");
    }
    sandbox.run(&format!("{check} client.port")).is(
        2,
        "",
        "bloomfile: log.jsonl: line 1 has no text or number at client.port; check the options for \
         fields, or pass over such lines with --skip-missing\n",
    );
    sandbox.run(&format!("{check} client.ports.1 --skip-missing -c")).is(
        1,
        "0\n",
        "bloomfile: log.jsonl: 3 of 4 lines without a text or number at client.ports.1 passed over\n",
    );
    sandbox.run_with("check hosts.bloom --json-field ip", "{\"ip\":\"::1\"}\nip=::1\n").is(
        2,
        "{\"ip\":\"::1\"}\n",
        "bloomfile: standard input: line 2 is not JSON; --json-field reads one JSON value from each \
         line\n",
    );
    // Numbers are keys as they are written, and every value in a list with --each.
    sandbox.run("build -q numbers.bloom log.jsonl --json-field n").is(0, "", "");
    sandbox.run("check numbers.bloom 1 4 5").is(0, "1\n4\n", "");
    sandbox
        .run_with("build -q ports.bloom --json-field p --each", "{\"p\":[80,443]}\n")
        .is(0, "", "");
    sandbox.run("check ports.bloom 80 443 8080").is(0, "80\n443\n", "");
}

/// The tail of a log of JSON lines.
#[test]
fn json_lines_are_resumed() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 1000 -p 1e-6").is(0, "", "");
    sandbox.write("log", "{\"ip\":\"::1\"}\n{\"ip\":");
    sandbox.run("add a.bloom --from log --resume --json-field ip").is(
        0,
        "a.bloom: 1 key read: all new; mark 1; the last line has not ended: left for the next run\n",
        "",
    );
    sandbox.write("log", "{\"ip\":\"::1\"}\n{\"ip\":\"::2\"}\n");
    sandbox.run("add a.bloom --from log --resume --json-field ip").is(
        0,
        "a.bloom: 1 key skipped, 1 key read: all new; mark 2\n",
        "",
    );
    sandbox.run("check a.bloom ::1 ::2").is(0, "::1\n::2\n", "");
}

#[test]
fn spaces_in_a_row_count_as_one() {
    let sandbox = sandbox();
    let log = "  1   ::1  GET\n 22   absent POST\n333 10.0.0.1   GET\n";
    let hits = "  1   ::1  GET\n333 10.0.0.1   GET\n";
    run(&sandbox, "check hosts.bloom --field 2 --delimiter", " ", log).is(0, hits, "");
    sandbox.run_with("check hosts.bloom --field 2 --whitespace", log).is(0, hits, "");
    // Tabs are white space too, and so is the CR of a line end.
    sandbox.run_with("check hosts.bloom --field 2 --whitespace", "1\t \t::1\r\n2 x\r\n").is(
        0,
        "1\t \t::1\r\n",
        "",
    );
    // Between two tabs there is an empty field.
    sandbox.run_with("check -c hosts.bloom --field 2", "1\t\t::1\n").is(1, "0\n", "");
    sandbox.run_with("check -c hosts.bloom --field 3", "1\t\t::1\n").is(0, "1\n", "");
}

#[test]
fn each_field_is_asked() {
    let sandbox = sandbox();
    let log = "1,::1,x\n2,,y\n\"a \"\"quoted\"\", host\",3,\n";
    let hits = "1,::1,x\n\"a \"\"quoted\"\", host\",3,\n";
    sandbox.run_with("check hosts.bloom --csv --each", log).is(0, hits, "");
    sandbox.run_with("check -v hosts.bloom --csv --each", log).is(0, "2,,y\n", "");
    sandbox.run_with("check -c hosts.bloom --csv --each", log).is(0, "2\n", "");
    sandbox.run_with("check --all -q hosts.bloom --csv --each", log).is(1, "", "");
    sandbox.run_with("check hosts.bloom --each --whitespace", "GET ::1 from\n- last\n- -\n").is(
        0,
        "GET ::1 from\n- last\n",
        "",
    );
    sandbox
        .run_with("check hosts.bloom --json-field . --each", "{\"a\":[{\"b\":\"::1\"}]}\n{}\n")
        .is(0, "{\"a\":[{\"b\":\"::1\"}]}\n", "");
    // Each of them becomes a key, except empty ones.
    sandbox.run_with("build b.bloom --csv --each", log).is(
        0,
        "b.bloom: 7 keys read: all new; made for 7; 20 KiB\n",
        "",
    );
    sandbox.run("check b.bloom 1 x y 3 z").is(0, "1\nx\ny\n3\n", "");
    sandbox.run_with("check -c b.bloom", "\n").is(1, "0\n", "");
    sandbox.run_with("which --each --whitespace --from - b.bloom hosts.bloom", "x ::1\n").is(
        0,
        "x ::1\tb.bloom\thosts.bloom\n",
        "",
    );
}

#[test]
fn every_key_has_an_answer() {
    let sandbox = sandbox();
    sandbox.run("check --answers hosts.bloom ::1 absent last").is(
        0,
        "maybe\t::1\nno\tabsent\nmaybe\tlast\n",
        "",
    );
    sandbox.run_with("check -a hosts.bloom --csv --field 2", "1,\"::1\"\n2,x\n").is(
        0,
        "maybe\t1,\"::1\"\nno\t2,x\n",
        "",
    );
    sandbox.run("check -a hosts.bloom absent").is(1, "no\tabsent\n", "");
    sandbox.run("check --json hosts.bloom ::1 absent").is(
        0,
        "{\"key\":\"::1\",\"answer\":\"maybe\",\"record\":null,\"pages_unverified\":0}\n\
         {\"key\":\"absent\",\"answer\":\"no\",\"record\":null,\"pages_unverified\":0}\n",
        "",
    );
    sandbox.run_with("check --json hosts.bloom --csv --each", "1,\"::1\"\n").is(
        0,
        "{\"key\":\"1\",\"answer\":\"no\",\"record\":\"1,\\\"::1\\\"\",\"pages_unverified\":0}\n\
         {\"key\":\"::1\",\"answer\":\"maybe\",\"record\":\"1,\\\"::1\\\"\",\"pages_unverified\":0}\n",
        "",
    );
    sandbox.run("check --json --all hosts.bloom absent --hex").is(
        2,
        "",
        "bloomfile: key argument 1: is not hex; with --hex a key is written as two digits for each \
         byte\n",
    );
    for options in ["--json -c", "--json -v", "--json -q", "--json -a", "-a -c", "-a -v", "-a -q"] {
        let ran = sandbox.run(&format!("check hosts.bloom {options} x"));
        assert!(ran.code == Some(2) && ran.err.contains("cannot be used with"), "{}", ran.err);
    }
}
