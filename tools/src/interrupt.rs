//! Ctrl-C, kill and the end of a terminal: the work ends in good order and says how far
//! it came. And the signals of limits, which become errors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::EXIT_ERROR;
use crate::failure::{Failure, Result};

/// Exit status of a process that ends because of a signal, as shells show it.
fn status(signal: i32) -> i32 {
    128 + signal
}

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
    watch(&interrupted, end)
        .map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    Ok(interrupted)
}

fn watch(
    interrupted: &Arc<AtomicBool>,
    end: impl FnOnce(i32) + Send + 'static,
) -> std::io::Result<()> {
    let ignored = ignored();
    let signals = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let signals: Vec<i32> = signals.filter(|&signal| !ignored(signal)).collect();
    for &signal in &signals {
        // Looks at the flag before the next line's action sets it: the first signal passes.
        flag::register_conditional_shutdown(signal, status(signal), Arc::clone(interrupted))?;
        flag::register(signal, Arc::clone(interrupted))?;
    }
    let mut signals = Signals::new(signals)?;
    std::thread::Builder::new().spawn(move || {
        if let Some(signal) = signals.forever().next() {
            end(status(signal));
        }
    })?;
    Ok(())
}

/// Tells the signals that this process was started to ignore: by `nohup`, or in the background of a
/// script. Those stay ignored.
fn ignored() -> impl Fn(i32) -> bool {
    // Where the system has no such file, they are taken for wanted, but for the one that nohup is
    // about.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(1 << (SIGHUP - 1));
    move |signal| mask >> (signal - 1) & 1 == 1
}

/// Turns the signals that limits of the process raise into errors: a file that would grow beyond
/// `ulimit -f` makes its write fail, and memory that cannot be had, which is told on standard
/// error, ends the process with the status of an error.
pub(crate) fn survive_limits() {
    // Where it cannot be done, the signals end the process as they did before.
    let _ = flag::register(SIGXFSZ, Arc::default());
    let aborts = Arc::new(AtomicBool::new(true));
    let _ = flag::register_conditional_shutdown(SIGABRT, EXIT_ERROR.into(), aborts);
}
