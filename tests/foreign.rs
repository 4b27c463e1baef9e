//! Files that are no bloomfile, or no longer one: the error says so, and names the kind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use bloomfile::{
    Error, Filter, Reader,
    report::{inspect, verify},
};

/// Writes a file and collects the errors of everyone who opens it.
fn errors(folder: &Path, bytes: &[u8]) -> Vec<Error> {
    let path = folder.join("file");
    std::fs::write(&path, bytes).unwrap();
    let errors = vec![
        Reader::open(&path).unwrap_err().into_cause(),
        Filter::open(&path).unwrap_err().into_cause(),
        inspect(&path).unwrap_err().into_cause(),
        verify(&path).unwrap_err().into_cause(),
    ];
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "opening changed it");
    errors
}

#[test]
fn foreign_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let long = |start: &[u8]| [start, &[7; 20_000]].concat();
    let utf8 = "grüße, 世界\r\n".repeat(2000);
    let kinds: [(&[u8], &str); 22] = [
        (b"", "the file is empty"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "gzip"),
        (&long(b"\x1f\x8b\x08"), "gzip"),
        (&long(b"PK\x03\x04"), "zip archive"),
        (&long(b"\x28\xb5\x2f\xfd"), "Zstandard"),
        (&long(b"\xfd7zXZ\0"), "xz"),
        (&long(b"BZh9"), "bzip2"),
        (&long(b"\x7fELF"), "ELF program"),
        (&long(b"SQLite format 3\0"), "SQLite database"),
        (&long(b"PAR1"), "Parquet"),
        (&long(b"%PDF-1.7"), "PDF"),
        (&long(b"\x89PNG\r\n\x1a\n"), "PNG"),
        (&long(b"\x89HDF\r\n\x1a\n"), "HDF5"),
        (b"{\"keys\": []}\n", "JSON"),
        (b"hello\n", "text"),
        (utf8.as_bytes(), "text"),
        (b"\0", "zeros"),
        (&[0; 100_000], "zeros"),
        (b"\x89", "not a bloomfile's"),
        (b"\x89BLM", "not a bloomfile's"),
        (b"BLMSLOT\0", "not a bloomfile's"),
        (&long(b"\x01\x02\x03\x04"), "not a bloomfile's"),
    ];
    for (bytes, kind) in kinds {
        for error in errors(folder.path(), bytes) {
            assert!(matches!(error, Error::NotABloomfile { .. }), "{kind}: {error}");
            let message = error.to_string();
            assert!(message.starts_with("is not a bloomfile: "), "{message}");
            assert!(message.contains(kind), "{kind}: {message}");
            assert!(error.is_bad_file() && !error.is_damage());
        }
    }
}

/// Only the beginning of a bloomfile: it was cut short, and is not taken for something else.
#[test]
fn the_magic_alone_is_a_file_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    for error in errors(folder.path(), b"\x89BLM\r\n\x1a\n") {
        assert!(matches!(error, Error::Length { found: 8, .. }), "{error}");
        assert!(error.to_string().contains("cut short"), "{error}");
    }
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut result = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(from) {
            result.extend_from_slice(to);
            at += from.len();
        } else {
            result.push(bytes[at]);
            at += 1;
        }
    }
    result
}

#[test]
fn text_mode_damage_is_named() {
    let golden: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/line.bloom");
    let sound = std::fs::read(golden).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let latin: String = sound.iter().copied().map(char::from).collect();
    let damages = [
        (replace(&sound, b"\r\n", b"\n"), "CR LF became LF"),
        (replace(&sound, b"\n", b"\r\n"), "LF became CR LF"),
        (replace(&replace(&sound, b"\r\n", b"\n"), b"\n", b"\r\n"), "LF became CR LF"),
        (replace(&sound, b"\n", b"\r"), "LF became CR"),
        (replace(&sound, b"\r\n", b"\r"), "LF became CR"),
        (sound.iter().map(|byte| byte & 0x7f).collect(), "high bit"),
        (latin.into_bytes(), "Latin-1 was recoded as UTF-8"),
        (String::from_utf8_lossy(&sound).into_owned().into_bytes(), "decoded as UTF-8 text"),
    ];
    for (bytes, how) in damages {
        for error in errors(folder.path(), &bytes) {
            assert!(matches!(error, Error::TextMode { .. }), "{how}: {error}");
            assert!(error.to_string().contains(how), "{how}: {error}");
            assert!(error.is_damage());
        }
    }
}

#[test]
fn a_folder_is_no_filter_and_a_missing_file_is_a_system_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for open in
        [|path: &Path| Reader::open(path).map(drop), |path: &Path| Filter::open(path).map(drop)]
    {
        let error = open(folder.path()).unwrap_err().into_cause();
        assert!(matches!(error, Error::NotABloomfile { .. }), "{error}");
        let error = open(&missing).unwrap_err().into_cause();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(!error.is_bad_file());
    }
}
