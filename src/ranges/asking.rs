//! Look-ups of many keys, a round of pages at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cache::{Judged, PageNumber};
use super::fetch::{Fetch, Fetched};
use super::file::Shared;
use super::{Step, Task};
use crate::error::{Error, Result};
use crate::kernel::loose::{Found, look_up, pages_of};

/// Pages that are read in one round.
const ROUND: usize = 256;

/// What a file says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a damaged page is told here, not as an error"]
pub enum Answer {
    /// It is not in.
    Absent,
    /// It may be in.
    Maybe,
    /// That cannot be told: it rests on a damaged page. A filter that must not miss a key takes this
    /// for "maybe".
    Damaged {
        /// The segment, counted from the oldest.
        segment: u32,
        /// The page, counted from the segment's first.
        page: u64,
        /// Whether it has fewer ones than it must have.
        lost: bool,
    },
}

impl Answer {
    /// Whether the key may be in, or the error that damage is.
    pub fn into_result(self) -> Result<bool> {
        match self {
            Answer::Absent => Ok(false),
            Answer::Maybe => Ok(true),
            Answer::Damaged { segment, page, lost } => {
                Err(Error::Damaged { count: 1, segment, page, lost })
            }
        }
    }
}

/// Looks up many keys; made by [`RangeFile::ask`](super::RangeFile::ask).
///
/// Keys are asked in the order of their hashes, so that each page is read once: the answers are in
/// the order of the keys.
pub struct Asking {
    shared: Arc<Shared>,
    hashes: Vec<u64>,
    /// The places of the hashes, by hash.
    order: Vec<usize>,
    /// How many of them were answered.
    done: usize,
    answers: Vec<Answer>,
    round: Option<Round>,
}

/// Some hashes and the pages that they take.
struct Round {
    /// Where in the order it ends.
    end: usize,
    pages: BTreeMap<PageNumber, Arc<Judged>>,
    fetch: Fetch,
}

impl Asking {
    pub(super) fn new(shared: Arc<Shared>, hashes: Vec<u64>) -> Self {
        let mut order: Vec<usize> = (0..hashes.len()).collect();
        order.sort_unstable_by_key(|&at| hashes[at]);
        let answers = vec![Answer::Absent; hashes.len()];
        Asking { shared, hashes, order, done: 0, answers, round: None }
    }

    /// How many keys were answered so far.
    pub fn answered(&self) -> usize {
        self.done
    }

    fn next_round(&self) -> Round {
        let mut pages = BTreeMap::new();
        let mut missing = BTreeSet::new();
        let mut end = self.done;
        let cache = self.shared.cache();
        while end < self.order.len() && missing.len() < ROUND && pages.len() < ROUND {
            let hash = self.hashes[self.order[end]];
            for (index, segment) in self.shared.segments().iter().enumerate() {
                pages_of(&segment.geometry, hash, |page| {
                    let number = (index, page);
                    if pages.contains_key(&number) {
                        return;
                    }
                    match cache.page(number) {
                        Some(page) => drop(pages.insert(number, page)),
                        None => drop(missing.insert(number)),
                    }
                });
            }
            end += 1;
        }
        drop(cache);
        Round { end, pages, fetch: Fetch::new(Arc::clone(&self.shared), missing) }
    }

    fn answer(&self, pages: &BTreeMap<PageNumber, Arc<Judged>>, hash: u64) -> Answer {
        let mut answer = Answer::Absent;
        for (index, segment) in self.shared.segments().iter().enumerate().rev() {
            let sound = |page| match pages.get(&(index, page)).map(Arc::as_ref) {
                Some(Judged::Sound(page)) => Some(page),
                _ => None,
            };
            match look_up(&segment.geometry, hash, sound) {
                Found::On => return Answer::Maybe,
                Found::Off => {}
                Found::Unsound(page) => {
                    let judged = pages.get(&(index, page)).map(Arc::as_ref);
                    let lost = matches!(judged, Some(Judged::Damaged { lost: true }));
                    answer = Answer::Damaged { segment: index as u32, page, lost };
                }
            }
        }
        answer
    }
}

impl Task for Asking {
    type Output = Vec<Answer>;

    fn step(&mut self) -> Result<Step<Vec<Answer>>> {
        if let Some(held) = self.shared.held() {
            return Ok(Step::Done(self.hashes.iter().map(|&hash| held.ask(hash)).collect()));
        }
        while self.done < self.order.len() {
            let mut round = match self.round.take() {
                Some(round) => round,
                None => self.next_round(),
            };
            match round.fetch.step()? {
                Step::Need(ranges) => {
                    self.round = Some(round);
                    return Ok(Step::Need(ranges));
                }
                Step::Done(found) => {
                    let mut cache = self.shared.cache();
                    for Fetched { number, page, .. } in found {
                        cache.keep_page(number, Arc::clone(&page));
                        round.pages.insert(number, page);
                    }
                }
            }
            for at in self.done..round.end {
                let place = self.order[at];
                self.answers[place] = self.answer(&round.pages, self.hashes[place]);
            }
            self.done = round.end;
        }
        Ok(Step::Done(std::mem::take(&mut self.answers)))
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        match &mut self.round {
            Some(round) => round.fetch.give(start, bytes),
            None => Fetch::new(Arc::clone(&self.shared), []).give(start, bytes),
        }
    }
}
