//! The pages of a new file, from those of the old one and what differs.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::page_bytes;
use super::read::Chunks;
use crate::error::{Error, Result};
use crate::file::{has_stray_bits, split_on_all_cores, write_pages};
use crate::format::{CHUNK_PAGES, DeltaHeader, NewSegment, PageEntry, apply_chunk};
use crate::geometry::CellKind;
use crate::ops::digest::{ContentHasher, Digest, GROUP_BYTES, GroupDigest, digest_groups};
use crate::ops::source::{PAGE, Source};
use crate::ops::stream::{Listener, Progress};
use crate::storage::WriteMedium;

/// Writes the data and page tables of the file that a header describes, and tells the digest of what it
/// wrote.
pub(super) fn rebuild<M: WriteMedium>(
    header: &DeltaHeader,
    old: &[Source<'_>],
    chunks: &Chunks<'_>,
    medium: &M,
    listener: Listener<'_>,
) -> Result<Digest> {
    let total: u64 = header.new.iter().map(|segment| segment.record.geometry.pages()).sum();
    let done = AtomicU64::new(0);
    let mut all = ContentHasher::new(&header.superblock);
    for (index, segment) in header.new.iter().enumerate() {
        let base = segment.base.map(|base| &old[base]);
        let task = Task { index, segment, base, chunks, medium };
        let pages = segment.record.geometry.pages();
        let parts = split_on_all_cores(pages.div_ceil(CHUNK_PAGES), CHUNK_PAGES, |range| {
            let mut groups = Vec::new();
            let mut buffer = Vec::new();
            for chunk in range {
                let pages = task.chunk(chunk, &mut buffer, &mut groups)?;
                let done = done.fetch_add(pages, Ordering::Relaxed) + pages;
                if let Some(listener) = listener {
                    let [bytes_done, bytes_total] = [done, total].map(page_bytes);
                    listener(Progress { bytes_done, bytes_total });
                }
            }
            Ok(groups)
        });
        let groups: Vec<Vec<GroupDigest>> = parts.into_iter().collect::<Result<_>>()?;
        all.segment(&segment.record.geometry, &groups.concat());
    }
    Ok(all.finish())
}

/// A segment that is being made.
struct Task<'a, M> {
    index: usize,
    segment: &'a NewSegment,
    base: Option<&'a Source<'a>>,
    chunks: &'a Chunks<'a>,
    medium: &'a M,
}

impl<M: WriteMedium> Task<'_, M> {
    /// Makes the pages of one chunk, and tells how many they are.
    fn chunk(&self, chunk: u64, bytes: &mut Vec<u8>, groups: &mut Vec<GroupDigest>) -> Result<u64> {
        let geometry = &self.segment.record.geometry;
        let pages = chunk_pages(geometry.pages(), chunk);
        let count = pages.end - pages.start;
        bytes.resize(page_bytes(count) as usize, 0);
        let sealed = geometry.cell_kind() == CellKind::Sealed;
        let mut ones = vec![0; count as usize];
        match self.base {
            None => bytes.fill(0),
            Some(base) => {
                let entries = base.read_into(pages.clone(), bytes)?;
                if sealed {
                    ones.iter_mut().zip(entries).for_each(|(ones, entry)| *ones = entry.ones);
                }
            }
        }
        if let Some((head, payload)) = self.chunks.get(self.index, chunk)? {
            let damaged = |reason: &str| Error::DamagedDelta {
                reason: format!("chunk {chunk} of segment {}: {reason}", self.index),
            };
            apply_chunk(geometry, &head, &payload, bytes, &mut ones).map_err(damaged)?;
            for (page, bytes) in pages.clone().zip(bytes.chunks_exact(PAGE)) {
                if !sealed && has_stray_bits(geometry, page, bytes) {
                    return Err(damaged("it sets what no key can set"));
                }
            }
        }
        let mut entries: Vec<PageEntry> = Vec::with_capacity(count as usize);
        // While a group is in the cache: described and hashed.
        for group in bytes.chunks(GROUP_BYTES) {
            for page in group.chunks_exact(PAGE) {
                entries.push(match geometry.cell_kind() {
                    CellKind::Sealed => {
                        let ones = ones[entries.len()];
                        PageEntry { crc: crc32fast::hash(page), ones }
                    }
                    cells => PageEntry::of(page, cells),
                });
            }
            groups.extend(digest_groups(group));
        }
        if sealed {
            let pages = bytes.chunks_exact(PAGE).zip(&entries);
            if pages.into_iter().any(|(page, entry)| !entry.is_of(page, CellKind::Sealed)) {
                let reason = "it holds a page that no sealed file can have".into();
                return Err(Error::DamagedDelta { reason });
            }
        }
        let extent = self.segment.record.extent();
        write_pages(self.medium, &extent, pages.start, bytes, &entries)?;
        Ok(count)
    }
}

/// The pages of a chunk, of a segment with `pages` in all.
pub(super) fn chunk_pages(pages: u64, chunk: u64) -> Range<u64> {
    let first = chunk * CHUNK_PAGES;
    first..(first + CHUNK_PAGES).min(pages)
}
