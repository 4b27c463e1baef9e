//! The real command, run end to end: what it prints, where, and its exit status.

#![allow(clippy::unwrap_used, reason = "tests")]

// Beside the library's tests, which attack its filters with it.
#[path = "../../../tests/attacker/mod.rs"]
mod attacker;
mod bench;
mod browser;
mod contents;
mod deltas;
mod documents;
mod errors;
mod fields;
mod formats;
mod forms;
mod house;
mod inspect;
mod json;
mod judged;
mod keyed;
mod keys;
mod kinds;
mod lists;
mod log_tail;
mod logs;
mod operations;
mod parts;
mod plan;
mod processes;
mod repair;
mod sandbox;
mod sealed;
mod success;

// What these are about is not there on other systems: signals, limits of a process, traced system
// calls, mounts, owners and modes, names of any bytes, shells.
#[cfg(unix)]
mod disks;
#[cfg(unix)]
mod faults;
#[cfg(unix)]
mod interrupted_calls;
#[cfg(unix)]
mod interrupts;
#[cfg(unix)]
mod limits;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(unix)]
mod names;
#[cfg(unix)]
mod outputs;
#[cfg(unix)]
mod readme;
#[cfg(unix)]
mod replacing;
