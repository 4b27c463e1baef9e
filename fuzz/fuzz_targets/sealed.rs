//! Sealed pages of any bytes, looked into without a check: all kernels give the same answers, singly
//! and in batches, and none reads outside the page.

#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bloomfile::{ReadOptions, Reader};
use libfuzzer_sys::fuzz_target;

const BASE: &[u8] = include_bytes!("../../tests/golden/sealed-thousands.bloom");
const PAGE: usize = 4096;
const HEADER: usize = 20;

/// What keeps handles from using SIMD instructions.
const KERNELS: [&str; 3] = ["portable", "simd", "wide"];

static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("bloomfile-fuzz-sealed-{}", std::process::id()))
});

/// A file whose last page is made of the input: its header, and words that repeat the rest.
fn file(data: &[u8]) -> Vec<u8> {
    let mut bytes = BASE.to_vec();
    let start = bytes.len() - PAGE;
    let page = &mut bytes[start..];
    let (header, words) = data.split_at(data.len().min(HEADER));
    page[..header.len()].copy_from_slice(header);
    if !words.is_empty() {
        let words = words.iter().cycle();
        page[HEADER..].iter_mut().zip(words).for_each(|(byte, &word)| *byte = word);
    }
    bytes
}

/// Hashes of the last of five pages, from the input and from everywhere.
fn hashes(data: &[u8]) -> Vec<u64> {
    let first = u64::MAX / 5 * 4 + 16;
    let seed = data.iter().fold(1u64, |seed, &byte| seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
    let step = 0x9e37_79b9_7f4a_7c15u64;
    (0..100).map(|at| first.saturating_add(seed.wrapping_add(step.wrapping_mul(at)) / 6)).collect()
}

fuzz_target!(|data: &[u8]| {
    let path = FILE.as_path();
    std::fs::write(path, file(data)).expect("the file can be written");
    let hashes = hashes(data);
    let mut answers: Option<Vec<bool>> = None;
    for kernel in KERNELS {
        // SAFETY: there is one thread.
        unsafe { std::env::set_var("BLOOMFILE_KERNEL", kernel) };
        let reader: Reader = ReadOptions::new().trust(true).open(path).expect("headers are sound");
        let singly: Vec<bool> = hashes.iter().map(|&hash| reader.contains_hash(hash)).collect();
        let mut batch = Vec::new();
        reader.contains_hash_batch(&hashes, &mut batch);
        assert_eq!(singly, batch, "{kernel}");
        assert_eq!(*answers.get_or_insert_with(|| batch.clone()), batch, "{kernel}");
    }
    std::fs::remove_file(path).expect("the file can be removed");
});
