//! The real command, run end to end: what it prints, where, and its exit status.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bench;
mod browser;
mod disks;
mod documents;
mod errors;
mod formats;
mod inspect;
mod interrupts;
mod json;
mod keys;
mod kinds;
mod lists;
mod operations;
mod plan;
mod processes;
mod readme;
mod repair;

mod sandbox;
mod success;
