//! `publish` and `pull` from a folder, and with the feature `network` from a web server that does what it
//! should not, from nginx and from an object store; `check` and `inspect` of files that are there.
//!
//! `cargo test -p bloomfile-cli --features network --test publishing`

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod asking;
mod folder;
mod histories;
mod host;
#[cfg(feature = "network")]
mod proxies;
#[cfg(feature = "network")]
mod server;
#[cfg(feature = "network")]
mod servers;
#[cfg(feature = "sign")]
mod signed;
#[cfg(feature = "network")]
mod unreliable;
