//! Look-ups, singly and many at a time.

use super::{Kernel, prefetch};
use crate::kernel::Cells;
use crate::sealed::place::Place;
use crate::sealed::shape::Shape;
use crate::sealed::{PageInMap, page_of, value_of};
use crate::storage::Map;

/// How many keys after a batch has asked for the header of a key's page it asks for the key's words,
/// and after how many more it looks at them. The headers of all pages fall into one set of the
/// first-level cache, which holds 8 to 12 of them: asked for all at once, they push each other out.
/// Measured on a Zen 4 with 16 MiB and 1 GiB at 1 %, in nanoseconds per look-up: 18.8 and 42 with 8,
/// 17.5 and 45 with 12, 16.7 and 43 with 16, 18.8 and 44 with 24, 19.2 and 43 with 32.
const AHEAD: usize = 16;

/// Words of 32 bits in a cache line.
const LINE_WORDS: u32 = 16;

/// Bits of a value that a [guess](Query) is made from: it is good to half a cache line.
const GUESS_BITS: u32 = 7;

/// Words of 32 bits that one entry of a table of guesses stands for.
const GUESS_WORDS: u32 = 4;

/// By how many words the bends and the load of a page move a key's words to either side, but for few.
const GUESS_MARGIN: u32 = 8;

/// What look-ups in the pages of a filter need to know of it.
///
/// Which words of its page a key's equation is in follows from the page's header, but they are near
/// where they would be in a page with the mean number of keys. A look-up asks for these together with
/// the header, which saves the time of one access to memory. Measured on a Zen 4 with 16 MiB and
/// 1 GiB at 1 %, in nanoseconds per look-up: 28 and 105 instead of 43 and 122, and if each waits for
/// the answer of the one before it, 44 and 214 instead of 100 and 331.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    kernel: Kernel,
    /// Cache lines to ask for.
    lines: u32,
    /// For each number that a value can begin with, where in the page.
    guesses: [u8; 1 << GUESS_BITS],
}

impl Query {
    /// For a filter of `keys` distinct keys in `pages` pages, with the best kernel for this processor
    /// that the environment allows. The number of keys is for the speed alone: answers do not depend
    /// on it.
    pub(crate) fn new(pages: u64, keys: u64) -> Self {
        Self::with_kernel(pages, keys, Kernel::choose())
    }

    pub(super) fn with_kernel(pages: u64, keys: u64, kernel: Kernel) -> Self {
        let shape = Shape::of_keys(keys / pages.max(1));
        let guesses = std::array::from_fn(|number| {
            let middle = (2 * number as u64 + 1) << (63 - GUESS_BITS);
            let first = Place::unbent(&shape, middle).words()[0];
            (first.saturating_sub(GUESS_MARGIN) / GUESS_WORDS) as u8
        });
        let words = shape.words_of_band() + 2 * GUESS_MARGIN;
        Query { kernel, lines: words.div_ceil(LINE_WORDS), guesses }
    }

    /// Whether the filter may hold a hash.
    #[inline]
    pub(crate) fn contains(&self, pages: &[PageInMap], hash: u64) -> bool {
        let page = &pages[page_of(hash, pages.len() as u64) as usize];
        let value = value_of(hash);
        let guess = GUESS_WORDS * u32::from(self.guesses[(value >> (64 - GUESS_BITS)) as usize]);
        for line in 0..self.lines {
            prefetch(page, guess + line * LINE_WORDS);
        }
        self.kernel.contains(page, value)
    }

    /// Whether the filter may hold each of many hashes: `hash` gives each, in order, as many as
    /// `found` has room for.
    #[inline]
    pub(crate) fn contains_batch(
        &self,
        pages: &[PageInMap],
        hash: impl FnMut(usize) -> u64,
        found: &mut [bool],
    ) {
        self.kernel.contains_batch(pages, hash, found);
    }
}

/// Asks for the cache lines from one word of a page to another.
#[inline(always)]
fn prefetch_words(page: &PageInMap, first: u32, last: u32) {
    let mut word = first;
    while word < last {
        prefetch(page, word);
        word += LINE_WORDS;
    }
    prefetch(page, last);
}

/// Evaluates many hashes in order. Each goes round a ring: first its page's header is asked for, then
/// the header tells which words to ask for, then the words tell the answer.
#[inline(always)]
pub(super) fn ring(
    pages: &[PageInMap],
    mut hash: impl FnMut(usize) -> u64,
    found: &mut [bool],
    place: impl Fn(&PageInMap, u64) -> Place,
    evaluate: impl Fn(&PageInMap, &Place) -> bool,
) {
    let none = &pages[0];
    let mut headers = [(none, 0); AHEAD];
    let mut places = [(none, Place::default()); AHEAD];
    let count = found.len();
    for at in 0..count + 2 * AHEAD {
        let turn = at % AHEAD;
        if at >= 2 * AHEAD {
            let (page, place) = &places[turn];
            found[at - 2 * AHEAD] = evaluate(page, place);
        }
        if (AHEAD..count + AHEAD).contains(&at) {
            let (page, value) = headers[turn];
            let place = place(page, value);
            prefetch_words(page, place.words()[0], place.last_word());
            places[turn] = (page, place);
        }
        if at < count {
            let hash = hash(at);
            let page = &pages[page_of(hash, pages.len() as u64) as usize];
            prefetch(page, 0);
            headers[turn] = (page, value_of(hash));
        }
    }
}

impl<Q: Map> Cells<Q> {
    /// Says how many keys a sealed filter has, which makes look-ups in it faster.
    pub(crate) fn expect_keys(&mut self, keys: u64) {
        if let Some(query) = &mut self.sealed {
            **query = Query::new(self.geometry.pages(), keys);
        }
    }

    /// What look-ups in the pages need to know.
    #[inline(always)]
    pub(in crate::kernel) fn sealed(&self) -> &Query {
        let Some(query) = &self.sealed else { unreachable!("cells with this kernel have it") };
        query
    }

    /// The pages that keys fall into.
    #[inline(always)]
    pub(in crate::kernel) fn sealed_pages(&self) -> &[PageInMap] {
        let pages = self.geometry.blocks() as usize;
        // SAFETY: the words hold all pages of the geometry (`Cells::new`), for as long as this value.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), pages) }
    }
}
