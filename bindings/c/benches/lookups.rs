//! What a look-up costs through the C library, beside the same one in Rust.
//!
//! Run by `bindings/c/bench`, which compiles the loops of C (`loops.c`) against the shared library and
//! names the result in `BLOOMFILE_LOOPS`. Both ways are taken in turns, so that what else the machine
//! does falls on both; the figure is the median of the quotients of neighbouring rounds.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where something is wrong")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::time::Instant;

use bloomfile::{Options, Reader};

/// Look-ups of a round.
const ROUND: usize = 100_000;

/// Rounds of each way.
const ROUNDS: usize = 101;

/// Bytes of a key.
const KEY: usize = 16;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Open = unsafe extern "C" fn(*const c_char, u32, *const c_void, *mut *mut c_void) -> c_int;
type Single =
    unsafe extern "C" fn(*const c_void, *const *const c_void, *const usize, usize) -> usize;
type Hash = unsafe extern "C" fn(*const c_void, *const u64, usize) -> usize;
type Batch = unsafe extern "C" fn(
    *const c_void,
    *const *const c_void,
    *const usize,
    usize,
    *mut bool,
) -> c_int;
type Offsets = unsafe extern "C" fn(
    *const c_void,
    *const c_void,
    usize,
    *const i32,
    usize,
    *mut bool,
) -> c_int;
type HashBatch = unsafe extern "C" fn(*const c_void, *const u64, usize, *mut bool) -> c_int;

/// The loops of C.
struct Loops {
    open: Open,
    single: Single,
    hash: Hash,
    batch: Batch,
    offsets: Offsets,
    hash_batch: HashBatch,
}

impl Loops {
    fn load() -> Self {
        let path = std::env::var("BLOOMFILE_LOOPS").expect("run bindings/c/bench");
        let path = CString::new(path).unwrap();
        // SAFETY: it is a library that stays loaded; RTLD_NOW is 2.
        let library = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!library.is_null(), "{path:?} cannot be loaded");
        let find = |name: &str| {
            let name = CString::new(name).unwrap();
            // SAFETY: the library is loaded, and the name ends in NUL.
            let found = unsafe { dlsym(library, name.as_ptr()) };
            assert!(!found.is_null(), "{name:?} is missing");
            found
        };
        // SAFETY: these are the signatures in loops.c and bloomfile.h.
        unsafe {
            Loops {
                open: std::mem::transmute::<*mut c_void, Open>(find("bloomfile_reader_open")),
                single: std::mem::transmute::<*mut c_void, Single>(find("c_single")),
                hash: std::mem::transmute::<*mut c_void, Hash>(find("c_hash")),
                batch: std::mem::transmute::<*mut c_void, Batch>(find("c_batch")),
                offsets: std::mem::transmute::<*mut c_void, Offsets>(find("c_offsets")),
                hash_batch: std::mem::transmute::<*mut c_void, HashBatch>(find("c_hash_batch")),
            }
        }
    }
}

fn key(number: u64) -> [u8; KEY] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; KEY];
    key[..8].copy_from_slice(&mixed.to_le_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Nanoseconds per look-up of a round, and how many were "maybe".
fn time(work: impl FnOnce() -> usize) -> (f64, usize) {
    let start = Instant::now();
    let maybe = black_box(work());
    (start.elapsed().as_secs_f64() * 1e9 / ROUND as f64, maybe)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Takes both ways in turns, and tells.
fn compare(
    size: &str,
    name: &str,
    mut rust: impl FnMut(usize) -> usize,
    mut c: impl FnMut(usize) -> usize,
) {
    let (mut rusts, mut cs, mut quotients) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS + 2 {
        // Each goes first in every other round.
        let ((by_rust, found), (by_c, found_c)) = if round % 2 == 0 {
            let first = time(|| rust(round));
            (first, time(|| c(round)))
        } else {
            let first = time(|| c(round));
            (time(|| rust(round)), first)
        };
        assert_eq!(found, found_c, "both give the same answers");
        if round >= 2 {
            rusts.push(by_rust);
            cs.push(by_c);
            quotients.push(by_c / by_rust);
        }
    }
    let (rust, c, quotient) = (median(rusts), median(cs), median(quotients));
    println!("| {size} | {name} | {rust:.2} | {c:.2} | {quotient:.3} |");
}

fn main() {
    // Cargo passes `--bench`; a test run has nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let loops = Loops::load();
    println!("| filter | look-ups | Rust, ns | C, ns | C / Rust |");
    println!("| --- | --- | --- | --- | --- |");
    for (size, keys) in [("256 KiB", 200_000u64), ("16 MiB", 12_800_000), ("256 MiB", 205_000_000)]
    {
        let asked = std::env::var("BLOOMFILE_BENCH_SIZE");
        if asked.is_err() || asked.is_ok_and(|asked| asked == size) {
            measure(&loops, size, keys);
        }
    }
}

fn measure(loops: &Loops, size: &str, capacity: u64) {
    let path = std::env::temp_dir().join(format!("bloomfile-c-bench-{}", std::process::id()));
    let options = Options::new().capacity(capacity).false_positive_rate(0.01).replace(true);
    let mut builder = options.start_build(&path).unwrap();
    let hasher = builder.hasher();
    let mut number = 0;
    while number < capacity {
        let end = (number + 1_000_000).min(capacity);
        let hashes: Vec<u64> = (number..end).map(|number| hasher.hash(key(2 * number))).collect();
        builder.add_hash_batch(&hashes);
        number = end;
    }
    builder.finish().unwrap();
    // Both check every page now, and none later.
    let reader = bloomfile::ReadOptions::new().verify(true).warm_up(true).open(&path).unwrap();
    let mut c_reader = std::ptr::null_mut();
    let c_path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: as bloomfile(3) asks for.
    let code = unsafe { (loops.open)(c_path.as_ptr(), 1 | 8, std::ptr::null(), &raw mut c_reader) };
    assert_eq!(code, 0);
    std::fs::remove_file(&path).unwrap();

    // Every other key is absent; each round has others.
    let rounds: Vec<Round> = (0..8).map(|round| Round::new(&reader, capacity, round)).collect();
    let round = |number: usize| &rounds[number % rounds.len()];
    let mut found = vec![false; ROUND];
    let mut c_found = vec![false; ROUND];
    let sum = |found: &[bool]| found.iter().map(|&found| usize::from(found)).sum::<usize>();

    compare(
        size,
        "single keys",
        |number| round(number).keys().filter(|key| reader.contains(key)).count(),
        |number| {
            let round = round(number);
            // SAFETY: arrays of this length.
            unsafe {
                (loops.single)(c_reader, round.pointers.as_ptr(), round.lengths.as_ptr(), ROUND)
            }
        },
    );
    compare(
        size,
        "single hashes",
        |number| round(number).hashes.iter().filter(|&&hash| reader.contains_hash(hash)).count(),
        // SAFETY: an array of this length.
        |number| unsafe { (loops.hash)(c_reader, round(number).hashes.as_ptr(), ROUND) },
    );
    compare(
        size,
        "batches of keys",
        |number| {
            let slices = &round(number).slices;
            reader.contains_batch(slices, &mut found);
            sum(&found)
        },
        |number| {
            let Round { pointers, lengths, .. } = round(number);
            let (pointers, lengths) = (pointers.as_ptr(), lengths.as_ptr());
            // SAFETY: arrays of this length.
            let code =
                unsafe { (loops.batch)(c_reader, pointers, lengths, ROUND, c_found.as_mut_ptr()) };
            assert_eq!(code, 0);
            sum(&c_found)
        },
    );
    compare(
        size,
        "batches in one buffer",
        |number| {
            let Round { data, offsets, .. } = round(number);
            let key = |at: usize| &data[offsets[at] as usize..offsets[at + 1] as usize];
            reader.contains_batch_by(key, &mut found);
            sum(&found)
        },
        |number| {
            let Round { data, offsets, .. } = round(number);
            let (bytes, length) = (data.as_ptr().cast(), data.len());
            let offsets = offsets.as_ptr();
            let found = c_found.as_mut_ptr();
            // SAFETY: a buffer of this length, and one offset more than keys.
            let code = unsafe { (loops.offsets)(c_reader, bytes, length, offsets, ROUND, found) };
            assert_eq!(code, 0);
            sum(&c_found)
        },
    );
    compare(
        size,
        "batches of hashes",
        |number| {
            reader.contains_hash_batch(&round(number).hashes, &mut found);
            sum(&found)
        },
        |number| {
            let hashes = round(number).hashes.as_ptr();
            // SAFETY: arrays of this length.
            let code = unsafe { (loops.hash_batch)(c_reader, hashes, ROUND, c_found.as_mut_ptr()) };
            assert_eq!(code, 0);
            sum(&c_found)
        },
    );
}

/// The keys of a round, in the forms in which they are asked for.
struct Round {
    data: &'static [u8],
    offsets: Vec<i32>,
    slices: Vec<&'static [u8]>,
    pointers: Vec<*const c_void>,
    lengths: Vec<usize>,
    hashes: Vec<u64>,
}

impl Round {
    fn new(reader: &Reader, capacity: u64, round: u64) -> Self {
        let asked = (0..ROUND as u64).map(|at| {
            let mixed = (round * ROUND as u64 + at).wrapping_mul(0xd134_2543_de82_ef95) >> 16;
            key(2 * (mixed % capacity) + at % 2)
        });
        // For the rest of the run.
        let data: &'static [u8] = asked.flatten().collect::<Vec<u8>>().leak();
        let slices: Vec<&'static [u8]> = data.chunks(KEY).collect();
        Round {
            data,
            offsets: (0..=ROUND).map(|at| (at * KEY) as i32).collect(),
            pointers: slices.iter().map(|key| key.as_ptr().cast()).collect(),
            lengths: slices.iter().map(|key| key.len()).collect(),
            hashes: slices.iter().map(|key| reader.hasher().hash(key)).collect(),
            slices,
        }
    }

    fn keys(&self) -> impl Iterator<Item = &'static [u8]> {
        self.slices.iter().copied()
    }
}
