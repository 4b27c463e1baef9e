//! The check of every page, a part of the file at a time.

use std::sync::Arc;

use super::fetch::{Fetch, Fetched};
use super::file::Shared;
use super::{PAGES_AT_ONCE, Step, Task};
use crate::error::Result;
use crate::file::PageCheck;
use crate::report::{Verification, verification_of};

/// Checks every page of a file; made by [`RangeFile::verify`](super::RangeFile::verify).
pub struct Verifying {
    shared: Arc<Shared>,
    checks: Vec<PageCheck>,
    /// Segment and page that come next.
    next: (usize, u64),
    fetch: Option<Fetch>,
    done: u64,
}

impl Verifying {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let checks = vec![PageCheck::default(); shared.segments().len()];
        Verifying { shared, checks, next: (0, 0), fetch: None, done: 0 }
    }

    /// How many pages were checked so far.
    pub fn checked(&self) -> u64 {
        self.done
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.shared.segments().iter().map(|segment| segment.geometry.pages()).sum()
    }

    /// What each segment's pages are.
    pub(super) fn step_checks(&mut self) -> Result<Step<Vec<PageCheck>>> {
        loop {
            if let Some(fetch) = &mut self.fetch {
                match fetch.step()? {
                    Step::Need(ranges) => return Ok(Step::Need(ranges)),
                    Step::Done(found) => {
                        for Fetched { number: (segment, page), verdict, .. } in found {
                            self.checks[segment].note(page, Some(verdict));
                            self.done += 1;
                        }
                    }
                }
                self.fetch = None;
            }
            let (segment, page) = self.next;
            let Some(record) = self.shared.segments().get(segment) else {
                let mut checks = std::mem::take(&mut self.checks);
                checks.iter_mut().for_each(PageCheck::sort);
                return Ok(Step::Done(checks));
            };
            let end = record.geometry.pages().min(page + PAGES_AT_ONCE);
            let wanted = (page..end).map(|page| (segment, page));
            self.fetch = Some(Fetch::new(Arc::clone(&self.shared), wanted));
            let last = end == record.geometry.pages();
            self.next = if last { (segment + 1, 0) } else { (segment, end) };
        }
    }
}

impl Task for Verifying {
    type Output = Verification;

    fn step(&mut self) -> Result<Step<Verification>> {
        Ok(match self.step_checks()? {
            Step::Need(ranges) => Step::Need(ranges),
            Step::Done(checks) => Step::Done(verification_of(&self.shared.snapshot, &checks)),
        })
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        match &mut self.fetch {
            Some(fetch) => fetch.give(start, bytes),
            None => Fetch::new(Arc::clone(&self.shared), []).give(start, bytes),
        }
    }
}
