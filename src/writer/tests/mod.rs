//! The durability protocol on the simulated disk: power cuts, kills, failing syncs and damage.

#![allow(clippy::unwrap_used, reason = "tests")]

mod campaign;
#[cfg(not(shuttle))]
mod counting;
#[cfg(not(shuttle))]
mod crashes;
mod damage;
#[cfg(feature = "digest")]
mod deltas;
#[cfg(not(shuttle))]
mod faults;
#[cfg(not(shuttle))]
mod figures;
mod history;
#[cfg(shuttle)]
mod interleavings;
#[cfg(not(shuttle))]
mod live_damage;
#[cfg(not(shuttle))]
mod reservations;
mod sabotages;
mod steps;
