//! Records of a counting file that its journal has no room for: they stand behind the end of the file
//! until the checkpoint that follows them (F-79).
//!
//! A sync makes all changes since the last one durable, with the mark, or none. However many they
//! are, they form one group: a part of them would be counted twice by a program that goes on from
//! the old mark.

use std::sync::atomic::Ordering;

use super::Engine;
use super::journal::Span;
use crate::error::{Error, Result};
use crate::file::PAGE_WORDS;
use crate::format::{Record, Slot};
use crate::geometry::PAGE_BYTES;
use crate::storage::{Map, Mapping, Medium, sabotage};

/// Bytes that are written at once.
const CHUNK: u64 = 64 * PAGE_BYTES;

impl<M: Medium> Engine<M> {
    /// Makes the records of the journal durable, with others that it has no room for behind the end of
    /// the file: what of the half that is, and the others. A checkpoint has to follow.
    pub(super) fn flush_spill(
        &self,
        slot: &Slot,
        mut records: Vec<Record>,
    ) -> Result<(Span, Vec<Record>)> {
        let (first, bytes_each) =
            (self.journal.capacity(), self.superblock.journal().record_bytes());
        if first + records.len() as u64 > u64::from(u32::MAX) {
            let reason = "sync more often: a group has at most 2^32 records";
            return Err(Error::parameter("changes of one sync", records.len(), reason));
        }
        let start = slot.file_bytes;
        let end = start + (records.len() as u64 * bytes_each).next_multiple_of(PAGE_BYTES);
        // Nothing that counts has changed yet: without space the file stays as it is, and the changes
        // stay in memory.
        self.spilled.store(true, Ordering::Relaxed);
        self.medium
            .extend(start, end)
            .map_err(Error::io("make room for the changes of a sync behind the file's end"))?;
        let span = self.journal.use_last_place(&mut records);
        let write = || {
            let epoch = self.journal.epoch();
            let mut bytes = Vec::with_capacity(CHUNK.min(end - start) as usize);
            let mut numbered = (first..).zip(&records);
            for at in (start..end).step_by(CHUNK as usize) {
                let length = CHUNK.min(end - at) as usize;
                bytes.clear();
                for (index, &record) in numbered.by_ref().take(length / bytes_each as usize) {
                    let words = epoch.encode(index as u32, record);
                    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
                }
                bytes.resize(length, 0);
                self.medium.write_at(&bytes, at)?;
            }
            self.journal.flush(&self.medium, &span)?;
            if sabotage!(self.medium, NoFlush) { Ok(()) } else { self.medium.sync() }
        };
        write()
            .map_err(|error| self.poison_with(Error::Io { action: "sync the journal", error }))?;
        Ok((span, records))
    }

    /// Writes records behind the end of the file once more where they are and makes them durable:
    /// after a sync that failed the cache may hold what the disk does not.
    pub(super) fn rewrite_spill(&self, slot: &Slot, records: u64) -> std::io::Result<()> {
        let journal = self.superblock.journal();
        let beyond = records.saturating_sub(journal.records()) * journal.record_bytes();
        if beyond == 0 {
            return Ok(());
        }
        let end = slot.file_bytes + beyond.next_multiple_of(PAGE_BYTES);
        // Through a map, word by word: a sector that is being written could be lost in a power cut.
        let map = self.medium.map(slot.file_bytes..end, Mapping::Shared)?;
        let words = map.words().len();
        for word in (0..words).step_by(PAGE_WORDS) {
            map.store(word, map.words().load(word));
        }
        map.flush(0..words)
    }

    /// Whether records, or what a crash left, may stand behind the end of the file. Called with the
    /// tables locked.
    pub(super) fn has_spilled(&self) -> bool {
        self.spilled.load(Ordering::Relaxed)
    }

    /// Takes away what stands behind the end of the file, once a slot says that nothing of it counts.
    pub(super) fn drop_spill(&self, slot: &Slot) -> Result<()> {
        if !self.spilled.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        // Durably: the next slot may be a clean one, behind which nothing may stand (F-29).
        self.medium
            .truncate(slot.file_bytes)
            .and_then(|()| self.medium.sync())
            .map_err(Error::io("shorten the file to its end"))
    }
}
