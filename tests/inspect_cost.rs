//! Inspecting and opening a file read its headers and page table, and no data page.
//!
//! Alone in its file: what a process reads is counted for the process as a whole.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::ops::ControlFlow;
use std::path::Path;

use bloomfile::{Options, Reader, report::inspect_pages};

const MIB: u64 = 1 << 20;

/// What an operation takes of the process.
struct Cost {
    /// Bytes that came through read calls.
    read_bytes: u64,
    /// Most memory held at once beyond what was held before; mapped pages count when touched.
    memory_bytes: u64,
}

/// The number after a label in a file of the kernel's.
fn figure(file: &str, label: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(label)).unwrap();
    value.split_whitespace().next().unwrap().parse().unwrap()
}

fn cost(mut operation: impl FnMut()) -> Cost {
    operation();
    let before = figure("/proc/self/io", "rchar:");
    // Sets the peak back to what is held now.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let held = figure("/proc/self/status", "VmRSS:");
    operation();
    let peak = figure("/proc/self/status", "VmHWM:");
    let after = figure("/proc/self/io", "rchar:");
    Cost { read_bytes: after - before, memory_bytes: 1024 * peak.saturating_sub(held) }
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
            ("inspect", cost(|| drop(bloomfile::report::inspect(&path).unwrap()))),
            ("open", cost(|| drop(Reader::open(&path).unwrap()))),
        ] {
            let Cost { read_bytes, memory_bytes } = cost;
            // The three headers, the table a few times over, and what the figures take.
            let most = 64 * 1024 + 3 * table_bytes;
            assert!(read_bytes < most, "{what} of {data_bytes}: {read_bytes} bytes read");
            assert!(memory_bytes < 16 * MIB, "{what} of {data_bytes}: {memory_bytes} bytes held");
        }
        // Of the table, what was shown and little more.
        let mut shown = 0;
        let first = cost(|| {
            let mut left = 10;
            let count = |page: bloomfile::report::PageInspection| {
                (shown, left) = (page.page + 1, left - 1);
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            inspect_pages(&path, count).unwrap();
        });
        assert_eq!(shown, 10);
        let read_bytes = first.read_bytes;
        assert!(read_bytes < 384 * 1024, "ten pages of {data_bytes}: {read_bytes} bytes read");
    }
}
