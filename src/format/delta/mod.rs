//! Deltas: what turns one version of a file into another (F-160 to F-170).

mod bits;
mod chunk;
mod header;

pub(crate) use chunk::{Coded, Form as DeltaForm, apply_chunk, code_chunk};
#[cfg(test)]
pub(crate) use header::{CHUNK_FIELDS, DELTA_FIELDS, DELTA_MAGIC, DELTA_VERSION};
pub(crate) use header::{CHUNK_HEAD_BYTES, ChunkHead, DeltaHeader, FIRST_BYTES, NewSegment};

/// Pages that a chunk is about (F-164).
pub(crate) const CHUNK_PAGES: u64 = 1024;

/// Bytes of an entry of the form pages (F-168).
pub(crate) const PAGE_ENTRY_BYTES: usize = 8 + crate::geometry::PAGE_BYTES as usize;

/// Most bytes of a payload (F-164): all pages of a chunk.
pub(crate) const MAX_PAYLOAD_BYTES: usize = CHUNK_PAGES as usize * PAGE_ENTRY_BYTES;
