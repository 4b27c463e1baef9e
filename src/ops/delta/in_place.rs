//! A delta that an open filter takes in.

use std::path::Path;

use super::apply::chunk_pages;
use super::outline::{parameters, slot_of};
use super::read::DeltaFile;
use super::{DeltaSummary, page_bytes};
use crate::error::{Error, Result};
use crate::file::{PAGE_WORDS, has_stray_bits, split_on_all_cores};
use crate::format::{CHUNK_PAGES, DeltaHeader, Doubts, Superblock, apply_chunk};
use crate::geometry::{CellKind, Geometry};
use crate::ops::digest::{ContentHasher, Digest, GroupDigest, digest_groups};
use crate::ops::source::PAGE;
use crate::storage::{Map, Medium, sabotage};
use crate::writer::Engine;

/// Pages that are changed at once: adds of other threads wait for so long.
const PAGES_AT_ONCE: usize = 32;

/// Takes the keys of a delta into an open filter, durably.
///
/// What a delta names is only ever turned on here, so that one that was broken off by a crash can be
/// applied again, and the digest tells whether that is the new version.
pub(crate) fn apply_in_place<M: Medium>(engine: &Engine<M>, path: &Path) -> Result<DeltaSummary> {
    engine.refuse_if_dead()?;
    let blame = |error: Error| match error {
        Error::NotADelta { .. } | Error::DamagedDelta { .. } => error.at(path),
        error => error,
    };
    let delta = DeltaFile::open(path).map_err(|error| error.at(path))?;
    let slot = slot_of(&delta.header).map_err(blame)?;
    refuse_unless_it_fits(engine, &delta.header)?;
    let task = Task { engine, delta: &delta, geometry: delta.header.new[0].record.geometry };
    task.check().map_err(blame)?;
    let header = &delta.header;
    sabotage!(engine.medium(), DeltaMarkEarly => engine.sync(Some(header.mark))?);
    // What the delta was made from is durable before its first cell is: a power cut that took adds
    // which were not synced, and left some of the delta, would leave what it does not apply to.
    if !sabotage!(engine.medium(), DeltaBeforeSync) {
        engine.sync(None)?;
    }
    // Until all cells are there, what was in doubt here is so, and what is in doubt in the new file may
    // come at any time.
    let theirs =
        Doubts { unverifiable: header.unverifiable_pages, repaired: header.repaired_pages };
    engine.set_doubts(|own| Doubts {
        unverifiable: own.unverifiable.max(theirs.unverifiable),
        repaired: own.repaired.max(theirs.repaired),
    });
    task.set_cells().map_err(blame)?;
    // From here on its contents are those of the new file, as their digest told.
    engine.set_doubts(|_| theirs);
    engine.count_adds(header.new[0].record.adds.saturating_sub(engine.adds()));
    // The slot of a checkpoint that was under way would tell the metadata before the cells are there.
    if !sabotage!(engine.medium(), DeltaMetadataEarly) {
        engine.checkpoint()?;
    }
    engine.replace_metadata(header.metadata.clone())?;
    engine.sync(Some(header.mark))?;
    engine.checkpoint()?;
    Ok(DeltaSummary::of(header, slot.file_bytes, delta.chunks.of_pages()))
}

fn not_in_place(reason: impl Into<String>) -> Error {
    Error::NotInPlace { reason: reason.into() }
}

/// An error unless the delta is one between two versions of this file that adds alone lie between, as
/// far as headers tell.
fn refuse_unless_it_fits<M: Medium>(engine: &Engine<M>, header: &DeltaHeader) -> Result<()> {
    let found = parameters(&engine.superblock);
    for ((parameter, expected), (_, found)) in parameters(&header.superblock).into_iter().zip(found)
    {
        if found != expected {
            return Err(Error::OtherVersion { parameter, found, expected });
        }
    }
    let cells = engine.superblock.cells;
    if cells != CellKind::Plain {
        return Err(not_in_place(format!(
            "the cells of a {} filter change both ways",
            cells.name()
        )));
    }
    let here = engine.segments.active().count;
    let [old, new] = [header.old.len(), header.new.len()];
    if [here, old, new] != [1; 3] || header.new[0].base.is_none() {
        return Err(not_in_place(format!(
            "it leads from {old} segments to {new}, and the file has {here}; only a single one is \
             changed where it is"
        )));
    }
    let geometry = engine.segments.newest().data.geometry();
    if *geometry != header.new[0].record.geometry {
        let [found, expected] = [geometry, &header.new[0].record.geometry].map(Geometry::to_string);
        return Err(Error::OtherVersion { parameter: "geometry", found, expected });
    }
    // What is no part of the contents.
    let plain = |superblock: &Superblock| Superblock {
        uuid: [0; 16],
        journal_bytes: 0,
        ..superblock.clone()
    };
    if plain(&engine.superblock).encode() != plain(&header.superblock).encode() {
        return Err(not_in_place("it changes what the file was made for"));
    }
    Ok(())
}

/// A delta on its way into a filter.
struct Task<'a, M: Medium> {
    engine: &'a Engine<M>,
    delta: &'a DeltaFile<'a>,
    geometry: Geometry,
}

/// The digests of a part of a file, with the named cells turned on, and with their values turned over.
type Digests = (Vec<GroupDigest>, Vec<GroupDigest>);

impl<M: Medium> Task<'_, M> {
    /// What a chunk names, as pages that are all zero but for that; `None` if nothing differs.
    fn named(&self, chunk: u64) -> Result<Option<Vec<u8>>> {
        let Some((head, payload)) = self.delta.chunks.get(0, chunk)? else { return Ok(None) };
        let pages = chunk_pages(self.geometry.pages(), chunk);
        let mut bytes = vec![0; page_bytes(pages.end - pages.start) as usize];
        let damaged = |reason: &str| Error::DamagedDelta {
            reason: format!("chunk {chunk} of segment 0: {reason}"),
        };
        let mut ones = vec![0; (pages.end - pages.start) as usize];
        apply_chunk(&self.geometry, &head, &payload, &mut bytes, &mut ones).map_err(damaged)?;
        for (page, bytes) in pages.zip(bytes.chunks_exact(PAGE)) {
            if has_stray_bits(&self.geometry, page, bytes) {
                return Err(damaged("it sets what no key can set"));
            }
        }
        Ok(Some(bytes))
    }

    /// The pages of a chunk, as they are in the filter.
    fn read(&self, chunk: u64, bytes: &mut Vec<u8>) {
        let pages = chunk_pages(self.geometry.pages(), chunk);
        let words = self.engine.segments.newest().data.words();
        bytes.clear();
        for word in pages.start as usize * PAGE_WORDS..pages.end as usize * PAGE_WORDS {
            bytes.extend_from_slice(&words.load(word).to_le_bytes());
        }
    }

    fn chunks(&self) -> u64 {
        self.geometry.pages().div_ceil(CHUNK_PAGES)
    }

    /// An error unless the filter with the named cells turned on is what the delta promises. Nothing is
    /// changed.
    fn check(&self) -> Result<()> {
        let parts = split_on_all_cores(self.chunks(), CHUNK_PAGES, |chunks| -> Result<Digests> {
            let (mut bytes, mut on, mut over) = (Vec::new(), Vec::new(), Vec::new());
            for chunk in chunks {
                self.read(chunk, &mut bytes);
                let Some(named) = self.named(chunk)? else {
                    let groups: Vec<GroupDigest> = digest_groups(&bytes).collect();
                    on.extend_from_slice(&groups);
                    over.extend(groups);
                    continue;
                };
                let turned: Vec<u8> = bytes.iter().zip(&named).map(|(a, b)| a ^ b).collect();
                over.extend(digest_groups(&turned));
                bytes.iter_mut().zip(&named).for_each(|(a, b)| *a |= b);
                on.extend(digest_groups(&bytes));
            }
            Ok((on, over))
        });
        let (mut on, mut over) = (Vec::new(), Vec::new());
        for part in parts {
            let (part_on, part_over) = part?;
            on.extend(part_on);
            over.extend(part_over);
        }
        let digest = |groups: &[GroupDigest]| {
            let mut all = ContentHasher::new(&self.engine.superblock);
            all.segment(&self.geometry, groups);
            all.finish()
        };
        let promised = Digest::from_bytes(self.delta.header.new_digest);
        if digest(&on) == promised {
            return Ok(());
        }
        if digest(&over) == promised {
            return Err(not_in_place("it clears cells, and readers must not miss a key"));
        }
        Err(Error::OtherVersion {
            parameter: "digest",
            found: format!("{} with what the delta adds", digest(&on)),
            expected: promised.to_string(),
        })
    }

    fn set_cells(&self) -> Result<()> {
        for chunk in 0..self.chunks() {
            let Some(named) = self.named(chunk)? else { continue };
            let first = chunk_pages(self.geometry.pages(), chunk).start;
            for (at, pages) in named.chunks(PAGES_AT_ONCE * PAGE).enumerate() {
                if pages.iter().any(|&byte| byte != 0) {
                    self.engine.or_pages(first + (at * PAGES_AT_ONCE) as u64, pages)?;
                }
            }
        }
        Ok(())
    }
}
