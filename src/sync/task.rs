//! A part of some work, on a thread of its own if the system has one to give.

use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::storage::unpoisoned;

/// Work that a thread does, or that is left to the thread that waits for it: a process may have as
/// many threads as it is allowed, which is no reason to fail.
pub(crate) enum Task<'scope, T, F> {
    Running(ScopedJoinHandle<'scope, T>),
    Waiting(F),
}

impl<'scope, T: Send + 'scope, F: FnOnce() -> T + Send + 'scope> Task<'scope, T, F> {
    pub(crate) fn start(scope: &'scope Scope<'scope, '_>, work: F) -> Self {
        // The work is lost with a thread that cannot be started, unless it is kept apart.
        let work = Arc::new(Mutex::new(Some(work)));
        let take = |work: &Mutex<Option<F>>| unpoisoned(work).take();
        let theirs = Arc::clone(&work);
        let started = Builder::new().spawn_scoped(scope, move || {
            let Some(work) = take(&theirs) else { unreachable!("the thread that was started") };
            work()
        });
        if let Ok(thread) = started {
            return Task::Running(thread);
        }
        let Some(work) = take(&work) else { unreachable!("no thread was started") };
        Task::Waiting(work)
    }

    pub(crate) fn finish(self) -> T {
        match self {
            Task::Running(thread) => {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            Task::Waiting(work) => work(),
        }
    }
}
