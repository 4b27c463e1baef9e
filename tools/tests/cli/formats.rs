//! What other programs make of the golden files: `file(1)` with our magic entry, and Kaitai Struct
//! with our description.
//!
//! Where a program is missing (`tests/install-tools` brings them) the test says so and is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, has, works};

const GOLDEN: [&str; 12] = [
    "rows",
    "flat",
    "page",
    "line",
    "session",
    "crashed",
    "counting",
    "growing",
    "rotating",
    "sealed-thousands",
    "sealed-maybe",
    "keyed",
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn golden(name: &str) -> PathBuf {
    repository().join(format!("tests/golden/{name}.bloom"))
}

#[test]
fn file_knows_a_bloomfile() {
    if !has("file") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("text", "\u{89}BLM is not enough\n");
    let identify = |path: &Path| {
        let magic = repository().join("tools/magic/bloomfile");
        let output = Command::new("file").arg("-bm").arg(magic).arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    for (name, expected) in [
        ("rows", ", made for 200 keys, rows layout, k=3, rows of 1000 cells"),
        ("flat", ", made for 200 keys, flat layout, k=5, rows of 2048 cells"),
        ("page", ", page layout, k=7, 2 blocks, rows of 4681 cells"),
        ("line", ", line layout, k=8, 6 blocks, rows of 64 cells"),
        ("session", ", line layout, k=8, 6 blocks, rows of 64 cells"),
        ("crashed", ", line layout, k=8, 6 blocks, rows of 64 cells"),
        ("keyed", ", keyed, line layout, k=8, 6 blocks, rows of 64 cells"),
        ("sealed-one", ", sealed, made for 1 keys, pages of equations"),
        ("sealed-thousands", ", sealed, made for 20000 keys, pages of equations, 5 blocks"),
    ] {
        let expected = format!("bloomfile Bloom filter, version 1{expected}");
        assert_eq!(identify(&golden(name)), expected, "{name}");
    }
    assert!(!identify(&sandbox.path("text")).contains("bloomfile"));
}

/// A folder with the Kaitai Struct compiler and runtime in `node_modules`.
fn kaitai() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kaitai");
    if !folder.join("node_modules/kaitai-struct-compiler").is_dir() || !works("node") {
        eprintln!("skipped: there is no Kaitai; tests/install-tools brings it");
        return None;
    }
    Some(folder)
}

#[test]
fn kaitai_reads_what_inspect_reads() {
    let Some(modules) = kaitai() else { return };
    let tools = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("node")
        .args([tools.join("tests/format/read.js"), modules, tools.join("bloomfile.ksy")])
        .args(GOLDEN.map(golden))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let sandbox = Sandbox::new();
    for (name, read) in GOLDEN.iter().zip(read) {
        let path = golden(name);
        let path = path.to_str().unwrap();
        let inspect = |view: &str| -> Value {
            serde_json::from_str(&sandbox.run(&format!("inspect --json {path}{view}")).out).unwrap()
        };
        let inspection = inspect("");
        let features: &[&str] = match *name {
            "counting" => &["Counting"],
            "growing" => &["Growing"],
            "rotating" => &["Rotating"],
            "sealed-thousands" | "sealed-maybe" => &["Sealed"],
            "keyed" => &["Keyed"],
            _ => &[],
        };
        assert_eq!(read["features"], json!(features), "{name}");
        assert_eq!(read["uuid"], inspection["uuid"].as_str().unwrap().replace('-', ""));
        assert_eq!(read["metadata"], inspection["metadata"]);
        let bytes = std::fs::read(path).unwrap();
        // JavaScript has a number of 53 bits for it.
        let key_check = u64::from_le_bytes(bytes[104..112].try_into().unwrap());
        assert_eq!(read["key_check"].as_f64().unwrap(), key_check as f64, "{name}");
        assert_eq!(key_check != 0, *name == "keyed", "{name}");
        assert_eq!(read["file_bytes"], inspection["file_bytes"]);
        assert_eq!(read["state"], if *name == "crashed" { 2 } else { 1 }, "{name}");
        let record_bytes = if *name == "counting" { 32 } else { 16 };
        let journal = inspection["journal_bytes"].as_u64().unwrap() / record_bytes;
        assert_eq!(read["journal_records"], journal);
        let pages = inspect(" --pages")["pages"].as_array().unwrap().clone();
        let list = |value: &Value| value["segments"].as_array().unwrap().clone();
        let (found, expected) = (list(&read), list(&inspection));
        assert_eq!(found.len(), expected.len(), "{name}");
        for (number, (found, segment)) in found.iter().zip(&expected).enumerate() {
            for field in ["adds", "offset", "pages", "ones"] {
                // What is inspected counts the journal as well.
                if *name != "crashed" || !["adds", "ones"].contains(&field) {
                    assert_eq!(found[field], segment[field], "{name}: {field}");
                }
            }
            for field in ["rows", "blocks", "row_cells"] {
                assert_eq!(found[field], segment["geometry"][field], "{name}: {field}");
            }
            let sealed = name.starts_with("sealed");
            assert_eq!(found.get("sealed_pages").is_some(), sealed, "{name}");
            if sealed {
                let count = segment["pages"].as_u64().unwrap() as usize;
                assert_eq!(found["sealed_pages"], sealed_pages(&bytes, count), "{name}");
            }
            let entries: Vec<Value> = pages
                .iter()
                .filter(|page| page["segment"] == number)
                .map(|page| json!([page["crc"], page["ones"]]))
                .collect();
            assert_eq!(found["entries"], Value::Array(entries), "{name}");
        }
        let end = &found.last().unwrap()["end"];
        assert_eq!(end, &inspection["file_bytes"], "nothing is left over");
    }
}

/// What F-141 says of the pages at the end of a sealed file.
fn sealed_pages(bytes: &[u8], count: usize) -> Value {
    let pages = bytes[bytes.len() - 4096 * count..].chunks(4096).map(|page| {
        let words = page[20..].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        json!({
            "blocks": u16::from_le_bytes([page[0], page[1]]),
            "columns": page[2],
            "bends": page[3..20].iter().map(|&bend| bend as i8).collect::<Vec<_>>(),
            "words": words.collect::<Vec<_>>(),
        })
    });
    Value::Array(pages.collect())
}
