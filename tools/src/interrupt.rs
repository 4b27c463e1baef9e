//! Ctrl-C, kill and the end of a terminal: the work ends in good order and says how far it came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::{Failure, Result};
use crate::platform;

/// How far a piece of work has come, held by the thread that goes on with it.
///
/// The main thread holds it while there are keys at hand, and lets go of it while it waits for
/// more. The thread that is told of a signal then takes it, to the end.
pub(crate) struct Interruptible<P: 'static> {
    progress: &'static Mutex<P>,
    held: Option<MutexGuard<'static, P>>,
    interrupted: Arc<AtomicBool>,
}

impl<P: Send> Interruptible<P> {
    /// When the process is asked to end, `end` says how far it came, makes that safe and tells the
    /// exit status.
    pub(crate) fn new(
        progress: P,
        end: impl FnOnce(&mut P, i32) -> i32 + Send + 'static,
    ) -> Result<Self> {
        // One for each process, which ends with it.
        let progress: &'static Mutex<P> = Box::leak(Box::new(Mutex::new(progress)));
        let interrupted =
            on_interrupt(move |status| std::process::exit(end(&mut lock(progress), status)))?;
        Ok(Interruptible { progress, held: None, interrupted })
    }

    /// Takes hold of it, if that is not so already.
    pub(crate) fn hold(&mut self) -> &mut P {
        self.held.get_or_insert_with(|| lock(self.progress))
    }

    /// The same, unless the process was asked to end: then this does not return.
    pub(crate) fn hold_or_end(&mut self) -> &mut P {
        if self.interrupted.load(Ordering::Relaxed) {
            self.let_go();
            loop {
                // The thread that was told of the signal ends the process.
                std::thread::park();
            }
        }
        self.hold()
    }

    pub(crate) fn let_go(&mut self) {
        self.held = None;
    }
}

fn lock<P>(progress: &Mutex<P>) -> MutexGuard<'_, P> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `end` with an exit status, in a thread of its own, when the process is asked to end. That
/// works also while the main thread waits for input. A second signal ends the process at once.
///
/// The flag becomes true with the first signal, for a main thread that is busy.
pub(crate) fn on_interrupt(end: impl FnOnce(i32) + Send + 'static) -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    platform::watch(&interrupted, end)
        .map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    Ok(interrupted)
}
