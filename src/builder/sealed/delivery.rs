//! Regions in order, from threads that finish them in any.

use std::sync::{Condvar, Mutex, PoisonError};

use super::pages::{PageCounts, PageRun};
use crate::error::Result;

/// Hands regions on in order, whichever thread has built them.
pub(super) struct Delivery<W> {
    state: Mutex<DeliveryState<W>>,
    changed: Condvar,
    count: usize,
}

struct DeliveryState<W> {
    write: W,
    /// The region whose turn it is.
    next: usize,
    /// What came of those before it; no other follows an error.
    result: Result<PageCounts>,
    /// Whether a thread ended before its turn came.
    lost: bool,
}

impl<W: FnMut(PageRun<'_>) -> Result<()>> Delivery<W> {
    pub(super) fn new(count: usize, write: W) -> Self {
        let state =
            DeliveryState { write, next: 0, result: Ok(PageCounts::default()), lost: false };
        Delivery { state: Mutex::new(state), changed: Condvar::new(), count }
    }

    /// The turn of a region: other threads wait for it to be delivered or dropped.
    pub(super) fn turn(&self, region: usize) -> Turn<'_, W> {
        Turn { delivery: self, region, over: false }
    }

    /// What came of all regions.
    pub(super) fn finish(self) -> Result<PageCounts> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(state.next == self.count || state.result.is_err(), "every region was delivered");
        state.result
    }
}

/// The turn of one region.
pub(super) struct Turn<'a, W: FnMut(PageRun<'_>) -> Result<()>> {
    delivery: &'a Delivery<W>,
    region: usize,
    over: bool,
}

impl<W: FnMut(PageRun<'_>) -> Result<()>> Turn<'_, W> {
    /// Waits for the regions before this one, then hands it on; whether to go on.
    pub(super) fn deliver(mut self, run: &PageRun<'_>) -> bool {
        let Delivery { state, changed, .. } = self.delivery;
        let early = |state: &mut DeliveryState<W>| {
            state.next != self.region && state.result.is_ok() && !state.lost
        };
        let waited = state.lock().ok().and_then(|state| changed.wait_while(state, early).ok());
        // Writing panicked.
        let Some(mut guard) = waited else { return false };
        let DeliveryState { write, next, result, lost } = &mut *guard;
        let go_on = !*lost
            && match result {
                Ok(built) => match write(PageRun { ..*run }) {
                    Ok(()) => {
                        run.outcomes.iter().for_each(|page| built.add(page));
                        *next += 1;
                        true
                    }
                    Err(error) => {
                        *result = Err(error);
                        false
                    }
                },
                Err(_) => false,
            };
        self.over = true;
        changed.notify_all();
        go_on
    }
}

impl<W: FnMut(PageRun<'_>) -> Result<()>> Drop for Turn<'_, W> {
    fn drop(&mut self) {
        // Building it panicked, or writing it did: the others must not wait for ever.
        if !self.over {
            let state = self.delivery.state.lock();
            state.unwrap_or_else(PoisonError::into_inner).lost = true;
            self.delivery.changed.notify_all();
        }
    }
}
