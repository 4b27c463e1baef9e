//! For programs that end, or are ended, in the middle of things.

#[cfg(unix)]
pub use crate::storage::catch_bus_errors;
pub use crate::storage::discard_unfinished;
