//! Building many pages: the same bytes whatever the way.

use super::{reference, values};
use crate::builder::sealed::pages::{Build, PageCounts};
use crate::error::Error;
use crate::hash::split_mix;
use crate::kernel::sealed::PageOutcome;
use crate::sealed::header::Header;
use crate::sealed::*;

/// Builds a range of pages and checks what `write` is shown.
fn build(hashes: &mut [u64], build: &Build, first: u64) -> (Vec<PageBytes>, PageCounts) {
    let mut pages = Vec::new();
    let mut outcomes: Vec<PageOutcome> = Vec::new();
    let pieces = hashes.chunks_mut(hashes.len().div_ceil(3).max(1));
    let built = build
        .run(pieces, |run| {
            assert_eq!(run.first, first + pages.len() as u64, "in order, each once");
            assert_eq!(run.pages.len(), run.outcomes.len());
            pages.extend_from_slice(run.pages);
            outcomes.extend_from_slice(run.outcomes);
            Ok(())
        })
        .unwrap();
    let keys: u64 = outcomes.iter().map(|page| u64::from(page.keys)).sum();
    assert_eq!(built.keys, keys);
    assert_eq!(built.empty_pages, outcomes.iter().filter(|page| page.keys == 0).count() as u64);
    for (page, outcome) in pages.iter().zip(&outcomes) {
        let header = Header::decode_with_keys(page, outcome.keys).unwrap();
        assert_eq!(header == Header::Maybe, outcome.is_maybe());
    }
    (pages, built)
}

#[test]
fn a_build_makes_each_page_of_its_keys() {
    let hashes = values(30_000, 1);
    let (pages, built) = build(&mut hashes.clone(), &Build::new(7), 0);
    assert_eq!((pages.len(), built.keys, built.empty_pages, built.maybe_pages), (7, 30_000, 0, 0));
    for (number, page) in pages.iter().enumerate() {
        let of_page = hashes.iter().filter(|&&hash| page_of(hash, 7) == number as u64);
        let of_page: Vec<u64> = of_page.map(|&hash| value_of(hash)).collect();
        assert!(*page == reference::build(&of_page), "page {number}");
    }
}

#[test]
fn order_repetitions_threads_pieces_and_ranges_do_not_matter() {
    // More pages than regions, some of them empty.
    for (number, count) in [(0, 1), (1, 1), (5, 3), (2000, 1500), (300_000, 700), (100_000, 40)] {
        let hashes = values(number, 8);
        let whole = Build::new(count);
        let (pages, built) = build(&mut hashes.clone(), &whole, 0);
        assert_eq!((pages.len() as u64, built.keys), (count, number));

        let mut shuffled: Vec<u64> =
            hashes.iter().chain(hashes.iter().step_by(3)).copied().collect();
        shuffled.sort_unstable_by_key(|&hash| split_mix(hash, 99));
        let sorted = {
            let mut sorted = hashes.clone();
            sorted.sort_unstable();
            sorted
        };
        for mut hashes in [hashes, shuffled, sorted] {
            for threads in [1, 2, 5] {
                let again = build(&mut hashes, &whole.clone().threads(threads), 0);
                assert_eq!(again.1, built);
                assert!(again.0 == pages, "{number} keys, {count} pages, {threads} threads");
            }
            let mut parts = Vec::new();
            for range in [0..count / 3, count / 3..count - 1, count - 1..count] {
                let mut of_range: Vec<u64> = hashes
                    .iter()
                    .copied()
                    .filter(|&hash| range.contains(&page_of(hash, count)))
                    .collect();
                let first = range.start;
                let part = whole.clone().range(range).threads(2);
                parts.extend(build(&mut of_range, &part, first).0);
            }
            assert!(parts == pages, "{number} keys, {count} pages, in parts");
        }
    }
}

#[test]
fn the_first_error_ends_a_build() {
    for threads in [1, 3] {
        let mut hashes = values(100_000, 3);
        let mut shown = 0;
        let result = Build::new(100).threads(threads).run([&mut hashes[..]], |run| {
            shown += run.pages.len();
            match shown {
                0..50 => Ok(()),
                _ => Err(Error::parameter("page", shown, "the disk is full")),
            }
        });
        assert!(matches!(result, Err(Error::Parameter { name: "page", .. })));
        assert_eq!(shown, 50, "nothing is shown after an error");
    }
}

#[test]
fn a_panic_in_one_thread_ends_the_others() {
    for threads in [1, 4] {
        let mut hashes = values(100_000, 3);
        let mut shown = Vec::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Build::new(100).threads(threads).run([&mut hashes[..]], |run| {
                shown.push(run.first);
                assert!(run.first != 40, "a panic that is part of the test");
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(shown, (0..=40).collect::<Vec<u64>>(), "nothing is shown after a panic");
    }
}

#[test]
#[should_panic(expected = "not to be built")]
fn a_hash_of_another_page_is_not_taken() {
    let hash = u64::MAX / 2 + 1;
    assert_eq!(page_of(hash, 10), 5);
    let _ = Build::new(10).range(0..5).run([&mut [hash][..]], |_| Ok(()));
}

#[test]
fn skewed_hashes_give_maybe_pages_and_lose_nothing() {
    // All of them in three pages of a thousand.
    let mut hashes: Vec<u64> = values(200_000, 6).into_iter().map(|hash| hash >> 9).collect();
    let (pages, built) = build(&mut hashes, &Build::new(1000).threads(2), 0);
    assert_eq!((built.keys, built.empty_pages, built.maybe_pages), (200_000, 998, 2));
    assert!(hashes.iter().all(|&hash| page_of(hash, 1000) < 2));
    assert_eq!(Header::decode(&pages[0]).unwrap(), Header::Maybe);
}
