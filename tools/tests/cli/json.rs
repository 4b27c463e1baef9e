//! `--json`: it parses, and its fields are those that are documented.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sandbox::{Sandbox, numbers};

const DOCUMENT: &str = include_str!("../../json-output.md");

/// The section on commands that make a file of others.
const DERIVED: &str = "merge, intersect, shrink, compact, export";

fn parse(sandbox: &Sandbox, arguments: &str) -> Value {
    let ran = sandbox.run(arguments);
    assert_eq!(ran.err, "");
    serde_json::from_str(&ran.out).unwrap()
}

/// The fields that the document lists for a command.
fn documented(command: &str) -> BTreeSet<String> {
    let section = DOCUMENT.split("\n## ").find_map(|section| section.strip_prefix(command));
    section
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(field, _)| field.to_owned())
        .collect()
}

/// Every path to a value; what the user named himself is left out.
fn collect(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if path != "metadata" => {
            // An object that may be absent is listed itself.
            if path == "files[].verification" {
                found.insert(path.into());
            }
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                collect(value, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(values) if values.is_empty() => {
            found.insert(format!("{path}[]"));
        }
        Value::Array(values) => {
            for value in values {
                collect(value, &format!("{path}[]"), found);
            }
        }
        _ => {
            found.insert(path.into());
        }
    }
}

fn fields(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(value, "", &mut found);
    found
}

#[test]
fn the_fields_are_those_documented() {
    let sandbox = Sandbox::with_filter();
    let precheck = "--precheck --database-ms 5 --present 2%";
    let mut plan = documented("plan");
    for absent in ["precheck", "layouts[]", "growth[]"] {
        assert!(plan.remove(absent), "listed itself, because it may be absent");
    }
    let growing = format!("plan --json -n 10M -p 1% --grow {precheck}");
    assert_eq!(fields(&parse(&sandbox, &growing)), plan);
    let mut inspect = documented("inspect");
    assert!(inspect.remove("loads[]"), "listed itself, because it may be absent");
    let of_sealed = |field: &String| field.starts_with("segments[].sealed.");
    let sealed: BTreeSet<String> =
        inspect.iter().filter(|field| of_sealed(field)).cloned().collect();
    inspect.retain(|field| !of_sealed(field));
    assert_eq!(fields(&parse(&sandbox, "inspect --json --loads --digest a.bloom")), inspect);
    inspect.retain(|field| !field.starts_with("loads[]") && field != "digest");
    assert_eq!(fields(&parse(&sandbox, "inspect --json a.bloom")), inspect);
    assert_eq!(fields(&parse(&sandbox, "inspect --json --pages a.bloom")), documented("pages"));
    assert_eq!(fields(&parse(&sandbox, "inspect --json --bytes a.bloom")), documented("bytes"));
    assert_eq!(fields(&parse(&sandbox, "verify --json a.bloom")), documented("verify"));
    assert_eq!(fields(&parse(&sandbox, "repair --json a.bloom")), documented("repair"));
    let recovered = parse(&sandbox, "repair --recover --json a.bloom");
    assert_eq!(fields(&recovered), documented("repair --recover"));
    assert_eq!(recovered["crashed"], false);
    sandbox.run("create -q b.bloom -n 1000 -p 1%").is(0, "", "");
    assert_eq!(fields(&parse(&sandbox, "which --json 1 a.bloom")), documented("which"));
    assert_eq!(fields(&parse(&sandbox, "check --json a.bloom 1")), documented("check"));
    sandbox.write("keys.txt", "sheep\n");
    for (arguments, section) in [
        ("create --json c.bloom -n 9 -p 1%", "create"),
        ("build --json d.bloom keys.txt -n 9 --journal 8KiB", "build"),
        ("build --json --sealed k.bloom keys.txt", "build"),
        ("build --json 1.part keys.txt -n 9 --part 1/1", "build --part"),
        ("join --json -o m.bloom 1.part", "join"),
        ("add --json d.bloom cow", "add"),
        ("merge --json -o e.bloom a.bloom b.bloom", DERIVED),
        ("intersect --json -o f.bloom a.bloom b.bloom", DERIVED),
        ("shrink --json -o g.bloom a.bloom --factor 2", DERIVED),
        ("compact --json -o l.bloom a.bloom", DERIVED),
        ("create --json h.bloom -n 9 -p 1% --kind counting --generations 2", "create"),
        ("rotate --json h.bloom", "rotate"),
        ("add --json h.bloom cow", "add"),
        ("remove --json h.bloom cow", "remove"),
        ("inspect --json h.bloom", "inspect"),
        ("create --json i.bloom -n 9 -p 1% --kind counting", "create"),
        ("export --json -o j.bloom i.bloom", DERIVED),
        ("delta --json a.bloom a.bloom -o b.delta", "delta, apply"),
        ("apply --json b.delta a.bloom -o q.bloom", "delta, apply"),
        ("publish --json a.bloom site", "publish"),
        ("pull --json site r.bloom", "pull"),
    ] {
        let mut documented = documented(section);
        documented.retain(|field| {
            !field.starts_with("loads[]") && field != "digest" && !of_sealed(field)
        });
        assert_eq!(fields(&parse(&sandbox, arguments)), documented, "{arguments}");
    }
    assert_eq!(sealed.len(), 9);
    inspect.extend(sealed);
    assert_eq!(fields(&parse(&sandbox, "inspect --json k.bloom")), inspect);
    let mut compared = fields(&parse(&sandbox, "compare --json a.bloom b.bloom"));
    // Only two files that cannot be compared have it.
    compared.insert("contents.incomparable.reason".into());
    assert_eq!(compared, documented("compare"));
}

#[test]
fn plan_in_json() {
    let sandbox = Sandbox::new();
    let plan = parse(&sandbox, "plan --json --capacity 10M --fpr 1%");
    assert_eq!(plan["schema"], 1);
    assert_eq!(plan["layout"], "line");
    assert_eq!(plan["blocks"], 197_632);
    assert_eq!(plan["capacity"], 10_000_000);
    assert_eq!(plan["warning"], Value::Null);
    assert_eq!((&plan["kind"], &plan["when_full"]), (&"plain".into(), &"allow".into()));
    assert_eq!(plan["rate_together"], plan["expected_rate"]);
    assert_eq!((&plan["generations"], &plan["growth"]), (&Value::Null, &serde_json::json!([])));
    let exact = parse(&sandbox, "plan --json -k 3 -m 5");
    assert_eq!((&exact["bits"], &exact["expected_rate"]), (&15.into(), &Value::Null));
}

/// A plan is what the file turns out to be, of whatever kind.
#[test]
fn plans_come_true() {
    let sandbox = Sandbox::new();
    for kind in [
        "",
        " --kind counting",
        " --when-full refuse",
        " --grow",
        " --grow --kind counting",
        " --generations 5",
        " --generations 5 --kind counting --layout rows",
    ] {
        let plan = parse(&sandbox, &format!("plan --json -n 300 -p 1%{kind}"));
        sandbox.run(&format!("create -q -f a.bloom -n 300 -p 1%{kind}")).is(0, "", "");
        let inspection = parse(&sandbox, "inspect --json a.bloom");
        for field in ["file_bytes", "kind", "when_full", "generations", "capacity", "target_rate"] {
            assert_eq!(plan[field], inspection[field], "{kind}: {field}");
        }
        let segment = &inspection["segments"][0];
        assert_eq!(plan["expected_rate"], segment["rate_at_capacity"], "{kind}");
        let cell_bits = plan["cell_bits"].as_f64().unwrap();
        assert_eq!(cell_bits, if kind.contains("counting") { 4.0 } else { 1.0 });
        let bits = segment["cells"].as_f64().unwrap() * cell_bits;
        assert_eq!(plan["bits_per_key"], bits / 300.0, "{kind}");
        let regions = plan["generations"].as_u64().map_or(1, |generations| generations + 1);
        assert_eq!(plan["data_bytes"], segment["data_bytes"].as_u64().unwrap() * regions, "{kind}");

        let stages = plan["growth"].as_array().unwrap();
        assert_eq!(stages.len(), if kind.contains("grow") { 8 } else { 0 }, "{kind}");
        if let Some(stage) = stages.get(3) {
            sandbox.run_with("add -q a.bloom", numbers(3000)).is(0, "", "");
            let inspection = parse(&sandbox, "inspect --json a.bloom");
            let segments = inspection["segments"].as_array().unwrap();
            assert_eq!(stage["segments"], segments.len());
            assert_eq!(stage["file_bytes"], inspection["file_bytes"], "{kind}");
            let sum = |field: &str| -> u64 {
                segments.iter().map(|segment| segment[field].as_u64().unwrap()).sum()
            };
            assert_eq!(stage["capacity"], sum("capacity"), "{kind}");
            assert_eq!(stage["data_bytes"], sum("data_bytes"), "{kind}");
            let bits = sum("cells") as f64 * cell_bits / sum("capacity") as f64;
            let planned = stage["bits_per_key"].as_f64().unwrap();
            assert!((planned - bits).abs() < 1e-9, "{kind}: {planned} is not {bits}");
        }
    }
    let rotating = parse(&sandbox, "plan --json -n 1M -p 1% --generations 24");
    let [each, together] =
        ["expected_rate", "rate_together"].map(|rate| rotating[rate].as_f64().unwrap());
    assert!((together - (1.0 - (1.0 - each).powi(24))).abs() < 1e-12);
    assert_eq!(rotating["lines_per_lookup"], 24);
}

#[test]
fn inspect_in_json() {
    let sandbox = Sandbox::new();
    sandbox.run("create -q a.bloom -n 9 -p 1% --meta keys=words --seed 0xffffffffffffffff");
    let inspection = parse(&sandbox, "inspect --json a.bloom");
    assert_eq!(inspection["file"], "a.bloom");
    assert_eq!(inspection["health"], "clean");
    assert_eq!(inspection["metadata"]["keys"], "words");
    assert_eq!(inspection["seed"], u64::MAX);
}

#[test]
fn repair_in_json() {
    let sandbox = Sandbox::with_filter();
    assert_eq!(parse(&sandbox, "repair --json a.bloom")["outcome"], "sound");
    let mut bytes = sandbox.read("a.bloom");
    *bytes.last_mut().unwrap() ^= 1;
    sandbox.write("a.bloom", &bytes);
    let repair = parse(&sandbox, "repair --json a.bloom");
    assert_eq!((&repair["schema"], &repair["file"]), (&1.into(), &"a.bloom".into()));
    assert_eq!(repair["outcome"], "repaired");
    assert_eq!(repair["pages_repaired"], serde_json::json!([0]));
    assert_eq!(repair["rate_now"], 1.0);
}

#[test]
fn infinity_becomes_null() {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom -k 1 -m 64", numbers(5000)).is(0, "", "");
    let inspection = parse(&sandbox, "inspect --json a.bloom");
    let keys = &inspection["segments"][0]["keys"];
    assert_eq!(keys["high"], Value::Null);
    assert!(keys["low"].is_f64());
}

#[test]
fn verify_in_json() {
    let sandbox = Sandbox::with_filter();
    let mut bytes = sandbox.read("a.bloom");
    *bytes.last_mut().unwrap() ^= 1;
    sandbox.write("b.bloom", &bytes);
    bytes.truncate(5000);
    sandbox.write("c.bloom", &bytes);
    let ran = sandbox.run("verify --json a.bloom b.bloom c.bloom missing");
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    let files = value["files"].as_array().unwrap();
    let verdicts: Vec<_> = files.iter().map(|file| file["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["sound", "damaged", "damaged", "unknown"]);
    assert_eq!(files[0]["reason"], Value::Null);
    assert_eq!(files[1]["verification"]["pages_damaged"], serde_json::json!([0]));
    assert_eq!(files[2]["verification"], Value::Null);
    assert!(files[3]["reason"].as_str().unwrap().starts_with("cannot open the file"));
}
