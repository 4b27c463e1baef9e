//! The first bytes of a new file, written before anyone can see it (F-80, F-81).

use super::checkpoint::encode_table;
use super::{PAGE_WORDS, scan};
use crate::error::{Error, Result};
use crate::format::{
    JOURNAL_OFFSET, Metadata, PageEntry, SLOT_OFFSETS, SegmentRecord, Slot, State, Superblock,
    first_extent,
};
use crate::geometry::PAGE_BYTES;
use crate::hash::Hasher;
use crate::plan::Plan;
use crate::random;
use crate::storage::{Medium, Words};

/// Fills a new medium, all of it zero, with an empty filter.
pub(crate) fn create_file<M: Medium>(
    medium: &M,
    superblock: &Superblock,
    plan: &Plan,
    metadata: Metadata,
) -> Result<()> {
    let pages = plan.geometry().pages(superblock.cells.bits());
    let table = vec![PageEntry::empty(); pages as usize];
    let slot = first_slot(superblock, plan, metadata, [medium.salt(), medium.salt()]);
    write_headers(medium, superblock, slot, &table)
}

/// Fills in the headers of a file whose data is complete; the journal is all there is to come.
///
/// With `identity_from_contents` the same keys and options give the same bytes.
pub(crate) fn finish_file<M: Medium>(
    medium: &M,
    mut superblock: Superblock,
    plan: &Plan,
    metadata: Metadata,
    words: &Words,
    adds: u64,
    identity_from_contents: bool,
) -> Result<()> {
    let pages = plan.geometry().pages(superblock.cells.bits());
    let table: Vec<PageEntry> = scan::on_all_cores(pages, |pages| {
        let mut bytes = [0; PAGE_BYTES as usize];
        pages
            .map(|page| {
                words.copy(page as usize * PAGE_WORDS, &mut bytes);
                PageEntry::of(&bytes)
            })
            .collect::<Vec<_>>()
    })
    .concat();
    let mut slot = first_slot(&superblock, plan, metadata, [0, 0]);
    slot.segments[0].adds = adds;
    if identity_from_contents {
        superblock.uuid = [0; 16];
        let mut bytes = superblock.encode();
        bytes.extend(slot.encode()?);
        bytes.extend(encode_table(&table).0);
        let half = |seed| Hasher::new(seed).hash(&bytes);
        superblock.uuid = random::uuid_from([half(1), half(2)], 8);
        (slot.salt, slot.next_salt) = (half(3), half(4));
    } else {
        let salt = |seed| Hasher::new(seed).hash(&superblock.uuid);
        (slot.salt, slot.next_salt) = (salt(3), salt(4));
    }
    write_headers(medium, &superblock, slot, &table)
}

/// The slot of a file that holds nothing yet.
fn first_slot(superblock: &Superblock, plan: &Plan, metadata: Metadata, salts: [u64; 2]) -> Slot {
    let extent = first_extent(superblock, plan.geometry());
    let [salt, next_salt] = salts;
    Slot {
        sequence: 2,
        epoch: 1,
        salt,
        next_salt,
        state: State::Clean,
        mark: 0,
        file_bytes: extent.end(),
        unsynced_pages: 0,
        repaired_pages: 0,
        recoveries: 0,
        segments: vec![SegmentRecord {
            geometry: *plan.geometry(),
            capacity: plan.capacity().unwrap_or(0),
            adds: 0,
            offset: extent.offset,
            table: 0,
            table_crc: 0,
            ones: 0,
        }],
        metadata,
    }
}

fn write_headers<M: Medium>(
    medium: &M,
    superblock: &Superblock,
    mut slot: Slot,
    table: &[PageEntry],
) -> Result<()> {
    let segment = &mut slot.segments[0];
    let extent = segment.extent(superblock.cells.bits());
    let (table, crc, ones) = encode_table(table);
    (segment.table_crc, segment.ones) = (crc, ones);
    let write = |bytes: &[u8], offset| {
        medium.write_at(bytes, offset).map_err(Error::io("write the new file"))
    };
    // Written rather than left to the allocation: a sync of an extent that was never written has
    // to commit metadata as well.
    const CHUNK: u64 = 1 << 20;
    let zeros = vec![0; CHUNK.min(superblock.journal_bytes) as usize];
    for start in (0..superblock.journal_bytes).step_by(CHUNK as usize) {
        let length = CHUNK.min(superblock.journal_bytes - start) as usize;
        write(&zeros[..length], JOURNAL_OFFSET + start)?;
    }
    write(&table, extent.table(0))?;
    write(&slot.encode()?, SLOT_OFFSETS[slot.place()])?;
    write(&superblock.encode(), 0)
}
