//! What JavaScript calls to bring a file to a newer version: conversions, and nothing else.

use bloomfile::ops;
use thrown::{Thrower, thrown};
use wasm_bindgen::prelude::*;

/// The bytes of the file that a delta makes of another one, of which there are at most `most`: a number
/// as JavaScript has them.
#[wasm_bindgen]
pub fn apply(delta: &[u8], old: &[u8], most: f64) -> Thrower<Vec<u8>> {
    ops::apply_delta_bytes(delta, old, most as u64).map_err(thrown)
}

/// The digest of what a file holds.
#[wasm_bindgen]
pub fn digest(bytes: &[u8]) -> Thrower<String> {
    ops::digest_bytes(bytes).map(|digest| digest.to_string()).map_err(thrown)
}
