//! Inspecting and opening a file read its headers and page table, and no data page.
//!
//! Alone in its file: what a process reads is counted for the process as a whole.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use bloomfile::{Options, Reader};

const MIB: u64 = 1 << 20;

/// What the process has read so far.
#[derive(Clone, Copy)]
struct Usage {
    /// Bytes, through read calls.
    bytes: u64,
    /// Page faults, through maps among others.
    faults: u64,
}

impl Usage {
    fn now() -> Self {
        let io = std::fs::read_to_string("/proc/self/io").unwrap();
        let bytes = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        // The name of the program may hold spaces; what follows its bracket does not.
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let faults = [7, 9].iter().map(|&at: &usize| fields[at].parse::<u64>().unwrap()).sum();
        Usage { bytes: bytes.parse().unwrap(), faults }
    }
}

/// What an operation reads, beyond what looking at the figures reads.
fn cost(operation: impl Fn()) -> Usage {
    operation();
    let before = Usage::now();
    operation();
    let after = Usage::now();
    Usage { bytes: after.bytes - before.bytes, faults: after.faults - before.faults }
}

fn make(path: &Path, data_bytes: u64) {
    let options = Options::new().rows(1).row_bits(8 * data_bytes).journal_bytes(0);
    options.create(path).unwrap().close().unwrap();
}

#[test]
fn inspecting_and_opening_read_no_data_page() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("filter");
    for data_bytes in [MIB, 1024 * MIB] {
        std::fs::remove_file(&path).ok();
        make(&path, data_bytes);
        let table_bytes = 8 * data_bytes / 4096;
        for (what, cost) in [
            ("inspect", cost(|| drop(bloomfile::inspect(&path).unwrap()))),
            ("open", cost(|| drop(Reader::open(&path).unwrap()))),
        ] {
            // The three headers, the table a few times over, and the figures' own 4 KiB.
            let most = 64 * 1024 + 3 * table_bytes;
            assert!(cost.bytes < most, "{what} of {data_bytes}: {} bytes read", cost.bytes);
            // Looking at every mapped page takes 16,384 faults or more for a gibibyte, as 16
            // pages come at a time.
            assert!(cost.faults < 2_000, "{what} of {data_bytes}: {} faults", cost.faults);
        }
    }
}
