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
//! | keys that arrive over time | add and ask, durably | [`Options::open_or_create`], [`Filter::open`] |
//! | all the keys at once | a file to ship | [`Options::start_build`] |
//! | more keys than a machine holds | a filter all the same | [`parts`] |
//! | a file, or its bytes | to ask it | [`Reader`] |
//! | a file that others replace | to ask the one that is there now | [`reader::Follower`] |
//! | a file far away, in ranges | to ask it without fetching it | [`ranges`] |
//! | several files | one file, or a smaller one | [`ops::SetOperation`], [`Filter::union_from`] |
//! | two versions of a file | to send what differs | `ops::DeltaOperation` (feature `digest`) |
//! | two files | to know how they relate | [`ops::compare`] |
//! | many files | to know which may hold a key | [`ops::Readers`] |
//! | a file | to know what it is and whether it is sound | [`report::inspect`], [`report::verify`] |
//! | a file | to know what each byte of it is | [`report::explain`] |
//! | a damaged file and no copy | to go on, with more "maybe" than before | [`ops::repair`] |
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
//! **Deleting.** Bits cannot be taken out of a filter, because other keys may share them. Counters can
//! ([`CellKind::Counting`], [`Filter::remove`]), in four times the space. Or the deleted keys go into a
//! second filter, and a key counts as held when the first may hold it and the second does not: then a
//! false positive of the second hides a key that was never deleted, so that a "no" of the pair is not
//! certain any more. Ask the second one by [`Reader::try_contains`], so that damage does not delete.
//!
//! **Keys that strangers choose.** Who knows how keys are hashed can choose keys that make a filter
//! useless, in seconds. A filter made with a secret [`Key`] ([`Options::key`]) hashes in a way that
//! cannot be known without it; the secret is not in the file, and every program that adds or asks
//! needs it. `docs/keyed.md` says what that protects and what it does not.
//!
//! **Replacing.** Files are replaced by renaming others over them, as [`Options::start_build`] does. A
//! file that another program cuts short or writes over while it is mapped raises SIGBUS, as does a disk
//! that fails: [`reader::Access::Memory`] maps nothing, [`process::catch_bus_errors`] ends the process
//! with a message.
//!
//! **Threads and tasks.** Handles are shared between threads. Look-ups and adds work in mapped memory;
//! what opens, syncs, checkpoints or closes waits for the disk and does not belong into a task of an
//! asynchronous program: `docs/async.md` has a table, `examples/service` a program with tokio.
//!
//! **Features.** `files` (default): mapping, locks and writing. Without it the crate needs no operating
//! system and compiles for `wasm32-unknown-unknown`: it plans, and reads, inspects, verifies, explains
//! and compares bytes ([`Reader::from_bytes`], [`report::inspect_bytes`] and so on), and reads files in
//! ranges ([`ranges`]). `serde`: reports implement `Serialize`. `digest`: `ops::digest` tells whether
//! files have the same contents, and `ops::DeltaOperation` makes and applies deltas.
//!
//! Look-ups use the AVX-512, AVX2 or NEON instructions where the processor has them. With
//! `BLOOMFILE_KERNEL=portable` in the environment, handles opened from then on do without, and with
//! `BLOOMFILE_KERNEL=simd` without AVX-512 alone; the answers are the same.
//!
//! The bytes of a file are specified in `format-spec.md`.

// What writes files is there for writers: a build without them leaves some of it unused.
#![cfg_attr(not(feature = "files"), allow(dead_code, unused_imports, reason = "parts for writers"))]

#[cfg(feature = "files")]
mod builder;
mod error;
mod file;
#[cfg(feature = "files")]
pub mod filter;
mod format;
pub mod geometry;
pub mod hash;
mod kernel;
pub mod ops;
#[cfg(feature = "files")]
pub mod options;
#[cfg(feature = "files")]
pub mod parts;
pub mod plan;
#[cfg(feature = "files")]
pub mod process;
mod random;
pub mod ranges;
pub mod reader;
pub mod report;
mod sealed;
mod storage;
mod sync;
#[cfg(feature = "files")]
mod writer;

pub use error::{Error, Result};
pub use format::{FORMAT_VERSION, WhenFull};
pub use geometry::CellKind;
pub use hash::Key;
pub use plan::Plan;
pub use reader::{ReadOptions, Reader};
#[cfg(feature = "files")]
pub use {
    builder::{Builder, Built, Spool},
    filter::Filter,
    options::Options,
};

/// Handles are shared between threads: a field that cannot be would be noticed here.
const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Reader>();
    shared_between_threads::<ops::Readers>();
    shared_between_threads::<ranges::RangeFile>();
    #[cfg(feature = "files")]
    {
        shared_between_threads::<Filter>();
        shared_between_threads::<Builder>();
        shared_between_threads::<reader::Follower>();
        shared_between_threads::<reader::Followed>();
    }
};

/// Runs the README's example.
#[cfg(all(doctest, feature = "files"))]
#[doc = include_str!("../README.md")]
struct Readme;
