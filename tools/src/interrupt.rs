//! Ctrl-C and the polite kill: the work ends in good order and says how far it came.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Exit status of a process that ends because of a signal, as shells show it.
fn status(signal: i32) -> i32 {
    128 + signal
}

/// Calls `end` with an exit status, in a thread of its own, when the process is asked to end. That
/// works also while the main thread waits for input. A second signal ends the process at once.
///
/// The flag becomes true with the first signal, for a main thread that is busy.
pub(crate) fn on_interrupt(end: impl FnOnce(i32) + Send + 'static) -> io::Result<Arc<AtomicBool>> {
    const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // Looks at the flag before the next line's action sets it: the first signal passes.
        flag::register_conditional_shutdown(signal, status(signal), Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut signals = Signals::new(SIGNALS)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            end(status(signal));
        }
    });
    Ok(interrupted)
}
