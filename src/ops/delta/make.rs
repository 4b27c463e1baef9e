//! What differs between two files.

use super::apply::chunk_pages;
use super::outline::{old_record, outline_of, parameters, slot_of};
use super::{DeltaSummary, page_bytes};
use crate::error::{Error, Result};
use crate::file::split_on_all_cores;
use crate::format::{
    CHUNK_PAGES, ChunkHead, DeltaForm, DeltaHeader, ENTRY_BYTES, PageEntry, SegmentRecord, Shape,
    code_chunk, table_bytes,
};
use crate::ops::digest::{ContentHasher, GROUP_BYTES, GROUP_PAGES, GroupDigest, digest_groups};
use crate::ops::source::{PAGE, Source};
use crate::ops::stream::{Listener, Progress};
use crate::storage::{PendingFile, Target, WriteMedium};

/// Chunks that are coded before what came of them is written: on all cores, in bounded memory.
const CHUNKS_AT_ONCE: u64 = 32;

/// Pages of two segments that are compared to find out whether one is told by the other.
const SAMPLE: u64 = 8;

/// Writes the delta from one file to another, each given by its segments.
pub(super) fn make(
    old: &[Source<'_>],
    new: &[Source<'_>],
    target: Target,
    listener: Listener<'_>,
) -> Result<DeltaSummary> {
    let [left, right] = [old, new].map(|sources| parameters(sources[0].superblock()));
    for ((parameter, left), (_, right)) in left.into_iter().zip(right) {
        if left != right {
            return Err(new[0].blame(Error::Incompatible { parameter, left, right }));
        }
    }
    let mut header = outline_of(new, None).map_err(|error| new[0].blame(error))?;
    header.old_uuid = old[0].superblock().uuid;
    for (segment, base) in header.new.iter_mut().zip(bases(old, new)?) {
        segment.base = base;
    }
    header.old = old.iter().map(|source| old_record(source.record())).collect();
    let pending = PendingFile::new(target, 0)?;
    let medium = pending.medium()?;
    let mut at = header.encode()?.len() as u64;
    let mut chunks_of_pages = 0;
    let mut described: Vec<Option<Described>> = old.iter().map(|_| None).collect();
    let mut all = ContentHasher::new(&header.superblock);
    let total = new.iter().map(Source::pages).sum();
    let mut done = 0;
    for (index, source) in new.iter().enumerate() {
        let base = header.new[index].base;
        let pair = Pair { index, old: base.map(|base| &old[base]), new: source };
        let (mut before, mut after) = (Described::default(), Described::default());
        pair.each_chunk(|coded| {
            if let Some(bytes) = &coded.bytes {
                medium.write_at(bytes, at).map_err(Error::io("write the delta"))?;
                at += bytes.len() as u64;
                header.chunks += 1;
                chunks_of_pages += u64::from(coded.of_pages);
            }
            done += coded.pages;
            if let Some(listener) = listener {
                let [bytes_done, bytes_total] = [done, total].map(page_bytes);
                listener(Progress { bytes_done, bytes_total });
            }
            before.add(coded.old_groups, &coded.old_entries);
            after.add(coded.new_groups, &coded.new_entries);
            Ok(())
        })?;
        after.describe(&mut header.new[index].record);
        all.segment(source.geometry(), &after.groups);
        if let Some(base) = base {
            described[base] = Some(before);
        }
    }
    header.new_digest = *all.finish().as_bytes();
    header.old_digest = describe_old(old, described, &mut header)?;
    let unverified: u64 = new.iter().map(Source::found_in_doubt).sum();
    header.unverifiable_pages = header.unverifiable_pages.saturating_add(unverified);
    header.delta_bytes = at;
    medium.write_at(&header.encode()?, 0).map_err(Error::io("write the delta"))?;
    let new_bytes = slot_of(&header)?.file_bytes;
    pending.publish()?;
    Ok(DeltaSummary::of(&header, new_bytes, chunks_of_pages))
}

/// Fills in what a delta says of the old segments, and tells the digest of the old file. Those that no
/// segment is told by are read for that alone.
fn describe_old(
    old: &[Source<'_>],
    described: Vec<Option<Described>>,
    header: &mut DeltaHeader,
) -> Result<[u8; 32]> {
    let mut all = ContentHasher::new(old[0].superblock());
    for ((source, described), record) in old.iter().zip(described).zip(&mut header.old) {
        let described = match described {
            Some(described) => described,
            None => {
                let mut described = Described::default();
                // Nothing differs from itself.
                let pair = Pair { index: 0, old: Some(source), new: source };
                pair.each_chunk(|coded| {
                    described.add(coded.old_groups, &coded.old_entries);
                    Ok(())
                })?;
                described
            }
        };
        described.describe(record);
        all.segment(source.geometry(), &described.groups);
    }
    Ok(*all.finish().as_bytes())
}

/// For each new segment the old one that it is told by.
fn bases(old: &[Source<'_>], new: &[Source<'_>]) -> Result<Vec<Option<usize>>> {
    let rotating = matches!(new[0].superblock().shape(), Shape::Rotating(_));
    let bases: Vec<Option<usize>> = new
        .iter()
        .enumerate()
        .map(|(index, segment)| {
            if rotating {
                return nearest(old, segment);
            }
            // A filter that grows keeps its first segments.
            let same = old.get(index).is_some_and(|old| old.geometry() == segment.geometry());
            Ok(same.then_some(index))
        })
        .collect::<Result<_>>()?;
    if bases.iter().all(Option::is_none) {
        let [left, right] = [old, new].map(|sources| sources[0].geometry().to_string());
        return Err(new[0].blame(Error::Incompatible { parameter: "geometry", left, right }));
    }
    Ok(bases)
}

/// The old segment with the fewest cells that differ from a new one, in a sample of pages; `None` if
/// those are more than the new one has set.
fn nearest(old: &[Source<'_>], new: &Source<'_>) -> Result<Option<usize>> {
    let pages = new.pages();
    let sample: Vec<u64> =
        (0..SAMPLE.min(pages)).map(|at| at * pages / SAMPLE.min(pages)).collect();
    let read = |source: &Source<'_>| -> Result<Vec<u8>> {
        let mut all = vec![0; sample.len() * PAGE];
        for (&page, bytes) in sample.iter().zip(all.chunks_exact_mut(PAGE)) {
            source.read_into(page..page + 1, bytes)?;
        }
        Ok(all)
    };
    let wanted = read(new)?;
    let mut best = (None, wanted.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>());
    for (index, source) in old.iter().enumerate() {
        if source.geometry() == new.geometry() {
            let differing = read(source)?.into_iter().zip(&wanted);
            let differing = differing.map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
            // Of two that are as near, an old one: what is the same as nothing has a base then too.
            if differing < best.1 || (differing == best.1 && best.0.is_none()) {
                best = (Some(index), differing);
            }
        }
    }
    Ok(best.0)
}

/// Digests and page table of a segment.
#[derive(Default)]
struct Described {
    groups: Vec<GroupDigest>,
    crc: crc32fast::Hasher,
    pages: u64,
    ones: u64,
}

impl Described {
    fn add(&mut self, groups: Vec<GroupDigest>, entries: &[PageEntry]) {
        self.groups.extend(groups);
        for entry in entries {
            self.crc.update(&entry.encode());
            self.ones += u64::from(entry.ones);
        }
        self.pages += entries.len() as u64;
    }

    /// Fills in what a record says of the table.
    fn describe(&self, record: &mut SegmentRecord) {
        let mut crc = self.crc.clone();
        let padding = table_bytes(self.pages) - self.pages * ENTRY_BYTES as u64;
        crc.update(&vec![0; padding as usize]);
        (record.table_crc, record.ones) = (crc.finalize(), self.ones);
    }
}

/// A segment of the new file, and what it is told by.
struct Pair<'a, 'b> {
    index: usize,
    old: Option<&'a Source<'b>>,
    new: &'a Source<'b>,
}

/// What came of a chunk.
struct CodedChunk {
    /// `None` if nothing differs.
    bytes: Option<Vec<u8>>,
    of_pages: bool,
    pages: u64,
    old_groups: Vec<GroupDigest>,
    new_groups: Vec<GroupDigest>,
    old_entries: Vec<PageEntry>,
    new_entries: Vec<PageEntry>,
}

impl Pair<'_, '_> {
    /// Shows all chunks in order.
    fn each_chunk(&self, mut show: impl FnMut(CodedChunk) -> Result<()>) -> Result<()> {
        let chunks = self.new.pages().div_ceil(CHUNK_PAGES);
        for first in (0..chunks).step_by(CHUNKS_AT_ONCE as usize) {
            let few = (chunks - first).min(CHUNKS_AT_ONCE);
            let parts = split_on_all_cores(few, CHUNK_PAGES, |range| {
                let mut buffers = [Vec::new(), Vec::new()];
                range
                    .map(|chunk| self.code(first + chunk, &mut buffers))
                    .collect::<Result<Vec<_>>>()
            });
            for part in parts {
                part?.into_iter().try_for_each(&mut show)?;
            }
        }
        Ok(())
    }

    fn code(&self, chunk: u64, [before, after]: &mut [Vec<u8>; 2]) -> Result<CodedChunk> {
        let geometry = self.new.geometry();
        let pages = chunk_pages(geometry.pages(), chunk);
        let count = pages.end - pages.start;
        before.resize(page_bytes(count) as usize, 0);
        after.resize(page_bytes(count) as usize, 0);
        let (mut old_groups, mut new_groups) = (Vec::new(), Vec::new());
        let (mut old_entries, mut new_entries) = (Vec::new(), Vec::new());
        let pieces = before.chunks_mut(GROUP_BYTES).zip(after.chunks_mut(GROUP_BYTES));
        // While a group is in the cache: read, hashed, and compared with the other.
        for (first, (before, after)) in pages.clone().step_by(GROUP_PAGES as usize).zip(pieces) {
            let few = first..(first + GROUP_PAGES).min(pages.end);
            match self.old {
                None => before.fill(0),
                Some(source) => {
                    old_entries.extend(source.read_into(few.clone(), before)?);
                    old_groups.extend(digest_groups(before));
                }
            }
            new_entries.extend(self.new.read_into(few, after)?);
            if self.old.is_some() && before == after {
                new_groups.extend(old_groups.last().copied());
            } else {
                new_groups.extend(digest_groups(after));
            }
        }
        let coded = code_chunk(geometry, chunk, before, after, &new_entries);
        let of_pages = coded.as_ref().is_some_and(|coded| coded.form == DeltaForm::Pages);
        let bytes = coded.map(|coded| ChunkHead::encode(self.index as u32, chunk as u32, &coded));
        let pages = count;
        Ok(CodedChunk { bytes, of_pages, pages, old_groups, new_groups, old_entries, new_entries })
    }
}
