//! Batches in files of several segments, of counters, or with limits: the memory of many keys is asked
//! for before the first of them is dealt with.

use super::Engine;
use crate::error::{Error, Result};
use crate::geometry::CellKind;
use crate::storage::Medium;

/// Hashes of a batch that are asked of one segment after the other.
const PIECE: usize = 256;

impl<M: Medium> Engine<M> {
    /// Shows the hashes of a batch piece by piece.
    fn pieces(
        count: usize,
        mut hash: impl FnMut(usize) -> u64,
        mut see: impl FnMut(&[u64]) -> Result<()>,
    ) -> Result<()> {
        let mut hashes = [0; PIECE];
        for first in (0..count).step_by(PIECE) {
            let hashes = &mut hashes[..PIECE.min(count - first)];
            for (at, place) in hashes.iter_mut().enumerate() {
                *place = hash(first + at);
            }
            see(hashes)?;
        }
        Ok(())
    }

    /// [`contains_batch`](Self::contains_batch) of several segments, or of counters.
    #[inline(never)]
    pub(super) fn contains_batch_slow(&self, hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        let mut left = &mut *found;
        let seen = Self::pieces(left.len(), hash, |hashes| {
            let (here, rest) = std::mem::take(&mut left).split_at_mut(hashes.len());
            self.contains_piece(hashes, here);
            left = rest;
            Ok(())
        });
        debug_assert!(seen.is_ok());
    }

    /// Which of some hashes may be in.
    fn contains_piece(&self, hashes: &[u64], found: &mut [bool]) {
        let mut here = [false; PIECE];
        let here = &mut here[..hashes.len()];
        found.fill(false);
        let same = self.segments.while_same(|segment| {
            segment.seen().contains_batch(|at| hashes[at], here);
            found.iter_mut().zip(&*here).for_each(|(found, &here)| *found |= here);
        });
        if !same {
            for (found, &hash) in found.iter_mut().zip(hashes) {
                *found = *found || self.contains_hash(hash);
            }
        }
    }

    /// Asks for the memory of some hashes in all segments.
    fn prefetch(&self, hashes: &[u64]) {
        for segment in self.segments.newest_first() {
            hashes.iter().for_each(|&hash| segment.seen().prefetch(hash));
        }
    }

    /// [`add_batch`](Self::add_batch) of several segments, of counters, or with limits.
    #[inline(never)]
    pub(super) fn add_batch_slow(
        &self,
        count: usize,
        hash: impl FnMut(usize) -> u64,
    ) -> Result<u64> {
        let mut new = 0;
        let counting = self.superblock.cells == CellKind::Counting;
        Self::pieces(count, hash, |hashes| {
            if counting {
                self.prefetch(hashes);
                for &hash in hashes {
                    new += u64::from(self.add_hash(hash)?);
                }
                return Ok(());
            }
            let segments = self.segments.active();
            let mut known = [false; PIECE];
            self.contains_piece(hashes, &mut known[..hashes.len()]);
            for (&hash, &known) in hashes.iter().zip(&known) {
                // What was added to the newest segment since is found again on the way.
                let changed = if self.segments.active() != segments {
                    self.add_hash(hash)?
                } else {
                    self.refuse_if_dead()?;
                    self.add_as(hash, known)?
                };
                new += u64::from(changed);
            }
            Ok(())
        })?;
        Ok(new)
    }

    /// Takes one from the counters of many hashes; how many were in.
    pub(crate) fn remove_batch(&self, count: usize, hash: impl FnMut(usize) -> u64) -> Result<u64> {
        let mut removed = 0;
        Self::pieces(count, hash, |hashes| {
            self.prefetch(hashes);
            for &hash in hashes {
                match self.remove_hash(hash) {
                    Ok(()) => removed += 1,
                    Err(Error::NotPresent) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })?;
        Ok(removed)
    }
}
