//! Which process a handle belongs to.
//!
//! A fork copies the memory of a writer, but not the file: two processes would take the same
//! journal records and checkpoint the same pages, each without knowing of the other. The lock does
//! not help, because parent and child share it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::platform;

/// The process that made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// What the process had in its word when this was made; its id where there is no word.
    token: u64,
    /// `None` where the system cannot clear memory on a fork.
    word: Option<&'static AtomicU64>,
}

/// The last token given out in this process or one that it was forked from.
static TOKENS: AtomicU64 = AtomicU64::new(0);

impl Owner {
    /// This process.
    pub(crate) fn this_process() -> Self {
        static WORD: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
        let Some(word) = WORD.get_or_init(platform::cleared_on_fork) else {
            return Owner { token: std::process::id().into(), word: None };
        };
        let mut token = word.load(Ordering::Relaxed);
        if token == 0 {
            // The first in this process. Another thread may be as far, and then both have its token.
            let new = TOKENS.fetch_add(1, Ordering::Relaxed) + 1;
            token = match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => new,
                Err(theirs) => theirs,
            };
        }
        Owner { token, word: Some(word) }
    }

    /// Whether this process is another one: a child that was forked.
    #[inline(always)]
    pub(crate) fn is_another_process(&self) -> bool {
        match self.word {
            Some(word) => word.load(Ordering::Relaxed) != self.token,
            // Where there is no fork, the process is the same for as long as the handle is there.
            None => cfg!(unix) && u64::from(std::process::id()) != self.token,
        }
    }
}
