//! Pages that were read and checked, as many as are worth keeping.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::kernel::loose::LoosePage;

/// Pages of tables and of data that are kept: 16 MiB.
const MOST: usize = 4096;

/// A page that was judged.
pub(super) enum Judged {
    /// What it has to be, with what the journal adds.
    Sound(LoosePage),
    Damaged {
        /// It has fewer ones than it had.
        lost: bool,
    },
}

/// The number of a segment in the slot's list, and of a page in it.
pub(super) type PageNumber = (usize, u64);

/// The last pages that were read.
#[derive(Default)]
pub(super) struct Cache {
    pages: BTreeMap<PageNumber, Arc<Judged>>,
    /// Pages of the page tables.
    tables: BTreeMap<PageNumber, Arc<Vec<u8>>>,
    /// In the order in which they came; true for those of tables.
    order: VecDeque<(bool, PageNumber)>,
}

impl Cache {
    pub(super) fn page(&self, page: PageNumber) -> Option<Arc<Judged>> {
        self.pages.get(&page).cloned()
    }

    pub(super) fn table(&self, page: PageNumber) -> Option<Arc<Vec<u8>>> {
        self.tables.get(&page).cloned()
    }

    pub(super) fn keep_page(&mut self, number: PageNumber, page: Arc<Judged>) {
        if self.pages.insert(number, page).is_none() {
            self.keep((false, number));
        }
    }

    pub(super) fn keep_table(&mut self, number: PageNumber, bytes: Arc<Vec<u8>>) {
        if self.tables.insert(number, bytes).is_none() {
            self.keep((true, number));
        }
    }

    fn keep(&mut self, entry: (bool, PageNumber)) {
        self.order.push_back(entry);
        if self.order.len() <= MOST {
            return;
        }
        match self.order.pop_front() {
            Some((true, number)) => drop(self.tables.remove(&number)),
            Some((false, number)) => drop(self.pages.remove(&number)),
            None => {}
        }
    }
}
