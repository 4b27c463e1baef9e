//! The committed header is what cbindgen makes of the sources, and the map lists its functions.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn made() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(root()).with_config(config).generate();
    let mut header = Vec::new();
    bindings.unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

/// The functions that a text names.
fn functions(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("bloomfile_")).map(str::to_owned).collect()
}

/// The functions that a header declares: those that an opening parenthesis follows.
fn declared(header: &str) -> BTreeSet<String> {
    let code: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let before: String = code
        .split('(')
        .map(|part| {
            part.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .next()
                .unwrap_or_default()
                .to_owned()
                + " "
        })
        .collect();
    functions(&before)
}

#[test]
fn the_header_is_current() {
    let path = root().join("include/bloomfile.h");
    let made = made();
    if std::env::var_os("BLOOMFILE_WRITE_HEADER").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "include/bloomfile.h is not current: run make header");
}

#[test]
fn the_header_names_the_version_of_the_package() {
    let header = std::fs::read_to_string(root().join("include/bloomfile.h")).unwrap();
    for (name, value) in
        [("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")), ("MINOR", env!("CARGO_PKG_VERSION_MINOR"))]
    {
        assert!(header.contains(&format!("#define BLOOMFILE_ABI_{name} {value}\n")), "{name}");
    }
}

/// Each function has a version, and each is tested and in the manual.
#[test]
fn every_function_is_versioned_tested_and_described() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let declared = declared(&read("include/bloomfile.h"));
    assert!(declared.len() > 80, "{declared:?}");
    assert_eq!(functions(&read("libbloomfile.map")), declared);
    for name in ["tests/bloomfile_test.c", "man/bloomfile.3"] {
        let named = functions(&read(name));
        let missing: Vec<_> = declared.difference(&named).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}");
    }
}
