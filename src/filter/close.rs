//! The end of a filter that is open.

use std::sync::Arc;

use super::Filter;
use crate::error::Result;
use crate::storage::Medium;

impl Filter {
    /// Closes the file in good order: a checkpoint after which any program may take it.
    ///
    /// Dropping the filter does the same but cannot tell of an error.
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        self.end().map_err(|error| self.blame(error))
    }

    /// As [`close`](Self::close), and tells [`pages_unverified`](Self::pages_unverified) as of the end.
    pub fn close_and_count_unverified(mut self) -> Result<u64> {
        self.closed = true;
        self.end().map_err(|error| self.blame(error))?;
        Ok(self.pages_unverified())
    }

    /// Closes the file, and waits until no other thread has it.
    fn end(&mut self) -> Result<()> {
        let closed = self.engine.close();
        self.background = None;
        // The thread that held it at a fork is not in the child, and never lets go of it.
        if self.engine.medium().is_forked() {
            return closed;
        }
        // The background may be about to let go of it.
        while Arc::strong_count(&self.engine) > 1 {
            std::thread::yield_now();
        }
        closed
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        if !self.closed {
            // There is no caller to tell; the file stays recoverable whatever happens here. In a
            // forked child this does nothing: the file is the parent's. A handle that has failed only
            // lets go of the file: after this it can be opened again.
            let _ = self.end();
        }
    }
}
