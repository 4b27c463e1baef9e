//! The real command, run end to end: what it prints, where, and its exit status.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bench;
mod browser;
mod contents;
mod disks;
mod documents;
mod errors;
mod faults;
mod fields;
mod formats;
mod forms;
mod house;
mod inspect;
mod interrupted_calls;
mod interrupts;
mod json;
mod judged;
mod keys;
mod kinds;
mod limits;
mod lists;
mod log_tail;
mod logs;
mod memory;
mod names;
mod operations;
mod outputs;
mod plan;
mod processes;
mod readme;
mod repair;
mod replacing;

mod sandbox;
mod success;
