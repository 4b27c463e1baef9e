//! What every reader of a file needs: headers, page tables, the journal of an open file, and whether
//! a page is what was written. The first bytes of a new file, too.

mod blocks;
mod changes;
mod checker;
#[cfg(feature = "files")]
mod create;
mod data;
mod epoch;
mod evidence;
#[cfg(any(feature = "files", feature = "digest"))]
mod finish;
mod judge;
mod load;
mod pages;
mod replay;
mod scan;
mod snapshot;

pub(crate) use blocks::Blocks;
#[cfg(test)]
pub(crate) use changes::Changes;
pub(crate) use changes::Patch;
pub(crate) use checker::PageChecker;
#[cfg(feature = "files")]
pub(crate) use create::{
    create_file, describe_pages, file_bytes, finish_file, first_slot, write_empty_table,
};
#[cfg(feature = "files")]
pub(crate) use data::map_segment;
pub(crate) use data::{Segments, copy_segment, segments};
pub(crate) use epoch::epochs_of;
#[cfg(feature = "files")]
pub(crate) use finish::write_table_part;
#[cfg(any(feature = "files", feature = "digest"))]
pub(crate) use finish::{finish_slot, new_slot, write_pages};
#[cfg(feature = "digest")]
pub(crate) use judge::has_stray_bits;
pub(crate) use judge::{PageJudge, Verdict};
pub(crate) use load::{
    Loaded, SIGNATURE_WORDS, SlotSignature, TableCheck, load, load_hasher, load_with, read_table,
    read_table_as_it_is, read_table_part, signature, visit_table_bytes, visit_table_until,
};
pub(crate) use pages::{FilePages, PAGES_AT_ONCE, Pages};
pub(crate) use replay::JournalContents;
pub(crate) use scan::{
    PageCheck, check_pages, check_segment, check_segment_showing, recheck_pages, split_on_all_cores,
};
pub use snapshot::Health;
pub(crate) use snapshot::{Headers, PAUSE, Snapshot, TRIES, TableCount, is_locked, retry_torn};

use crate::geometry::PAGE_BYTES;

/// Words of a page.
pub(crate) const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;
