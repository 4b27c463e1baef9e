//! A persistent Bloom filter in one versioned, checksummed, memory-mapped file.
//!
//! A filter answers whether a key *may* be in a set: "no" is certain, "maybe" is wrong at a rate
//! chosen beforehand. Here it lives in a file: [`Filter::add`] and [`Filter::contains`] touch the
//! mapped bits directly, from many threads; [`Filter::sync`] makes what was added survive power
//! loss; any number of [`Reader`]s in other processes see it as it grows.
//!
//! ```
//! use bloomfile::{Filter, Options, Reader};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("keys.bloom");
//! let filter = Options::new().capacity(1_000_000).false_positive_rate(0.01).create(&path)?;
//! assert!(filter.add(b"sheep")?);
//! assert!(!filter.add(b"sheep")?, "it was in already");
//! filter.sync()?; // from here on the key outlives a power cut
//! filter.close()?;
//!
//! let reader = Reader::open(&path)?;
//! assert!(reader.contains(b"sheep"));
//! assert!(!reader.contains(b"wolf"));
//! # Ok::<(), bloomfile::Error>(())
//! ```
//!
//! | you have | you want | take |
//! | --- | --- | --- |
//! | keys that arrive over time | add and ask, durably | [`Options::create`], [`Filter::open`] |
//! | all the keys at once | a file to ship | [`Options::build`] |
//! | a file | to ask it | [`Reader`] |
//! | several files | one file, or a smaller one | [`SetOperation`], [`Filter::union_from`] |
//! | two files | to know how they relate | [`compare`] |
//! | many files | to know which may hold a key | [`Readers`], [`Except`] |
//! | a file | to know what it is and whether it is sound | [`inspect`], [`verify`] |
//! | a file | to know what each byte of it is | [`explain()`] |
//! | a damaged file and no copy | to go on, with more "maybe" than before | [`repair()`] |
//! | numbers of keys and rates | to decide on a size | [`plan`] |
//!
//! **A "no" is certain.** Every byte of a file is under a checksum, and a [`Reader`] checks a page
//! when an answer first rests on it: opening reads no data, and look-ups cost nothing more once all
//! pages are checked. A damaged page answers "maybe" for every key; [`Reader::try_contains`] gives the
//! error instead, [`Reader::health`] and [`Reader::stats`] tell what was found so far.
//! [`ReadOptions::verify`] checks everything at opening, [`ReadOptions::trust`] nothing. Damage that
//! comes after a page was checked, and pages that a power cut or a full journal left without a
//! checksum (`pages_unverifiable`), are not seen.
//!
//! Files are replaced by renaming others over them, as [`Options::build`] does. A file that another
//! program cuts short or writes over while it is mapped raises SIGBUS, as does a disk that fails:
//! [`Access::Memory`] maps nothing, [`catch_bus_errors`] ends the process with a message.
//!
//! Look-ups use the AVX-512, AVX2 or NEON instructions where the processor has them. With
//! `BLOOMFILE_KERNEL=portable` in the environment, handles opened from then on do without, and with
//! `BLOOMFILE_KERNEL=simd` without AVX-512 alone; the answers are the same.
//!
//! The bytes of a file are specified in `format-spec.md`.

mod builder;
mod engine;
mod error;
mod examine;
mod fill;
mod filter;
mod format;
mod geometry;
mod hash;
mod kernel;
mod ops;
mod options;
pub mod plan;
mod random;
mod reader;
mod report;
mod storage;
mod sync;

pub use builder::Builder;
pub use error::{Error, Result};
pub use filter::Filter;
pub use format::{CellKind, FORMAT_VERSION, State, WhenFull};
pub use geometry::{
    Geometry, LINE_BLOCK_CELLS, Layout, MAX_CELLS, MAX_ROWS, PAGE_BLOCK_CELLS, PAGE_BYTES,
};
pub use hash::Hasher;
pub use ops::{
    Absorbed, Comparison, Contents, Derivation, Except, InputSummary, PageComparison, PageRun,
    ParameterPair, Progress, Readers, Relation, SetOperation, compare,
};
pub use options::{GrowthStage, Options};
pub use plan::Plan;
pub use reader::{Access, ReadOptions, Reader, ReaderStats};
pub use report::{
    BlockLoads, Detail, Explained, Health, Inspection, LoadBin, PageInspection, Recovery, Repair,
    SegmentInspection, Verification, block_loads, explain, inspect, inspect_pages, repair, verify,
};
pub use storage::{catch_bus_errors, discard_unfinished};

/// Runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
