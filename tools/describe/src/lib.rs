//! What is said of a bloomfile: in words, in figures, and as a page for a browser.
//!
//! The `bloomfile` command and the bindings say the same of the same file, because they say it with
//! this crate. Its functions follow the command: they change with it, and have no version of their own.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("keys.bloom");
//! # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
//! use bloomfile_describe::{advice, units, words};
//!
//! let inspection = bloomfile::report::inspect(&path)?;
//! assert_eq!(words::kind(&inspection), "Bloom filter");
//! assert_eq!(units::counted(1_000, "key"), "1,000 keys");
//! assert!(advice(&path, &inspection, 0).starts_with("none; bloomfile verify"));
//! # Ok::<(), bloomfile::Error>(())
//! ```

mod advice;
mod html;
pub mod pages;
mod platform;
pub mod text;
pub mod units;
pub mod words;

pub use advice::advice;
#[cfg(feature = "files")]
pub use html::html;
pub use html::{MAP_CELLS, Report, Sections};
pub use platform::NO_INPUT;
