//! What systems do differently: one file for each of them, with the same functions.
//!
//! `unix` is what Linux, macOS and others have in common; `linux`, `apple` and `other` are what they
//! have not; `plain` is what is done where a system has nothing special to offer. All else in this
//! room is written once, against the functions here.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(unix)]
mod bus;
#[cfg(target_os = "linux")]
mod extents;
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
mod holes;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, not(any(target_os = "linux", target_vendor = "apple"))))]
mod other;
#[cfg(not(target_os = "linux"))]
mod plain;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_vendor = "apple")]
pub(super) use apple::*;
#[cfg(unix)]
pub(crate) use bus::catch_bus_errors;
#[cfg(target_os = "linux")]
pub(super) use extents::unwritten;
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) use holes::next_hole;
#[cfg(target_os = "linux")]
pub(super) use linux::*;
#[cfg(all(unix, not(any(target_os = "linux", target_vendor = "apple"))))]
pub(super) use other::*;
#[cfg(not(target_os = "linux"))]
pub(super) use plain::*;
#[cfg(unix)]
pub(super) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// What tells a file from all others of the machine: its volume, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    volume: u64,
    number: u128,
}
