//! Pages and their bytes.

use super::{in_map, reference, values};
use crate::geometry::PAGE_BYTES;
use crate::hash::split_mix;
use crate::kernel::sealed::Kernel;
use crate::kernel::sealed::{PageOutcome, Scratch, build_page};
use crate::sealed::header::Header;
use crate::sealed::shape::least_blocks;
use crate::sealed::*;

const EMPTY: PageBytes = [0; PAGE_BYTES as usize];

/// Builds a page and asks it for each of its keys.
fn build(values: &[u64], kernel: Kernel) -> (PageOutcome, PageBytes) {
    let mut page = [1; PAGE_BYTES as usize];
    let outcome = build_page(&mut values.to_vec(), &mut Scratch::with_kernel(kernel), &mut page);
    let map = in_map(&page);
    for &value in values {
        assert!(kernel.contains(&map, value), "{value:#x} of {} with {kernel:?}", values.len());
    }
    (outcome, page)
}

#[test]
fn f144_pages_without_keys_are_zeros() {
    for kernel in Kernel::found() {
        let (outcome, page) = build(&[], kernel);
        assert_eq!(outcome, PageOutcome { keys: 0, blocks: 0, bandings: 0 });
        assert!(!outcome.is_maybe());
        assert_eq!(page, EMPTY);
        assert!(!kernel.contains(&in_map(&page), 7));
    }
}

/// Numbers of keys at which something changes: blocks, columns, groups of columns, bandings.
fn numbers() -> impl Iterator<Item = u64> {
    let small = [1, 2, 3, 4, 5, 31, 32, 33, 100, 1019, 1020, 1021, 1022, 1052, 1053, 1500];
    // From 8 columns to 9, from 16 to 17 and so on, and from few pairs to many.
    let blocks =
        [42, 43, 59, 60, 63, 64, 113, 114, 127, 128, 169, 170, 254, 255, 339, 340, 509, 510];
    let blocks = blocks.into_iter().flat_map(|blocks| [32 * blocks - 4, 32 * blocks - 3]);
    small.into_iter().chain(blocks).chain([20_000, 27_000])
}

#[test]
fn f146_every_kernel_writes_what_the_rules_say() {
    for number in numbers() {
        let values = values(number, number);
        let page = reference::build(&values);
        for kernel in Kernel::found() {
            let (outcome, built) = build(&values, kernel);
            assert!(built == page, "{number} keys with {kernel:?}: {outcome:?}");
            assert_eq!(u64::from(outcome.keys), number);
            assert!(!outcome.is_maybe());
            Header::decode_with_keys(&page, outcome.keys).unwrap();
        }
    }
}

#[test]
fn f144_the_bytes_are_a_function_of_the_set() {
    for (number, repeated) in [(1, 1), (2, 2), (900, 900), (3000, 1), (4826, 2000), (15_000, 40)] {
        let values = values(number, 77 + number);
        for kernel in Kernel::found() {
            let (outcome, page) = build(&values, kernel);
            let mut others: Vec<u64> =
                values.iter().chain(&values[..repeated as usize]).copied().collect();
            others.push(values[0]);
            for seed in 0..3 {
                // A shuffle: sorted by what a value is mixed to.
                others.sort_unstable_by_key(|&value| split_mix(value, seed));
                let (other_outcome, other) = build(&others, kernel);
                assert_eq!(other_outcome, outcome, "{number} keys");
                assert!(other == page, "{number} keys, order {seed} with {kernel:?}");
            }
        }
    }
}

/// Repetitions that are too many to be sorted by counting: of each value, or in all.
#[test]
fn f144_any_number_of_repetitions_is_one() {
    for (number, times) in [(1, 70_000), (100, 60), (5_000, 8)] {
        let values = values(number, 13);
        let repeated: Vec<u64> = (0..times).flat_map(|_| values.iter().copied()).collect();
        for kernel in Kernel::found() {
            assert!(build(&repeated, kernel) == build(&values, kernel), "{number} keys");
        }
    }
}

/// Every number of keys up to 20,000: no key may be lost. The whole of it:
///
/// ```text
/// cargo test --release --lib kernel::sealed::tests::pages::every_number -- --ignored
/// ```
fn numbers_of_keys(step: usize) {
    let kernels: Vec<_> = Kernel::found().collect();
    for number in (0..=20_000).step_by(step) {
        let kernel = kernels[number % kernels.len()];
        let (outcome, page) = build(&values(number as u64, 3), kernel);
        assert_eq!(outcome.keys as usize, number);
        assert!(!outcome.is_maybe());
        Header::decode_with_keys(&page, outcome.keys).unwrap();
    }
}

#[test]
fn some_numbers_of_keys() {
    numbers_of_keys(79);
}

#[test]
#[ignore = "takes a minute"]
fn every_number_of_keys() {
    numbers_of_keys(1);
}

#[test]
fn f144_too_many_keys_are_a_maybe() {
    let mut expected = EMPTY;
    expected[..2].fill(0xff);
    for number in [32_605, 40_000, 65_536, 65_537, 100_000] {
        let values = values(number, 5);
        for kernel in Kernel::found() {
            let start = std::time::Instant::now();
            let (outcome, page) = build(&values, kernel);
            let taken = start.elapsed();
            assert_eq!(outcome, PageOutcome { keys: number as u32, blocks: 0, bandings: 0 });
            assert!(outcome.is_maybe() && page == expected);
            assert_eq!(Header::decode(&page).unwrap(), Header::Maybe);
            assert_eq!(crc32fast::hash(&page), MAYBE_PAGE_CRC);
            assert!(taken.as_millis() < 500, "{number} keys took {taken:?} with {kernel:?}");
        }
    }
}

/// Values with equal leading bits: their bands start in the same few slots.
#[test]
fn f144_crafted_values_lose_no_key() {
    for number in [40, 64, 65, 500, 1000, 10_000, 32_604, 100_000] {
        for free_bits in [20, 28, 36, 52, 59, 60] {
            let mask = (1u64 << free_bits) - 1;
            let mut crafted: Vec<u64> = values(number, 9)
                .into_iter()
                .map(|value| 0xa5a5_a5a5 << 32 & !mask | value & mask)
                .collect();
            crafted.sort_unstable();
            crafted.dedup();
            let mut first: Option<(PageOutcome, PageBytes)> = None;
            for kernel in Kernel::found() {
                let start = std::time::Instant::now();
                let built = build(&crafted, kernel);
                let taken = start.elapsed();
                assert_eq!(built.0.keys as usize, crafted.len());
                // All bands start in one slot; more rows than a band has slots are dependent.
                if free_bits <= 28 {
                    assert!(built.0.is_maybe() || number <= 64, "{number} with {free_bits}");
                }
                assert!(!built.0.is_maybe() || number > 40, "{number} with {free_bits}");
                Header::decode_with_keys(&built.1, built.0.keys).unwrap();
                assert!(taken.as_secs() < 2, "{number} with {free_bits}: {taken:?} {kernel:?}");
                let first = first.get_or_insert(built);
                assert!(*first == built, "{number} with {free_bits} free bits, {kernel:?}");
            }
        }
    }
}

/// Some of the values, whose rows sum to nothing, and so do their fingerprints. All start alike.
fn consistent(values: &[u64]) -> Vec<u64> {
    assert!(values.len() <= 128, "one bit for each");
    // Elimination, with a note of which values a sum is of.
    let mut sums: Vec<(u128, u128)> = Vec::new();
    for (at, &value) in values.iter().enumerate() {
        let equation = u128::from(row_of(value)) << 32 | u128::from(fingerprint_of(value));
        let mut sum = (equation, 1 << at);
        for &other in &sums {
            if sum.0 & (other.0 & other.0.wrapping_neg()) != 0 {
                sum = (sum.0 ^ other.0, sum.1 ^ other.1);
            }
        }
        if sum.0 == 0 {
            return (0..values.len())
                .filter(|at| sum.1 >> at & 1 == 1)
                .map(|at| values[at])
                .collect();
        }
        sums.push(sum);
    }
    panic!("there are more values than bits");
}

/// Rows that depend on one another are not taken even where a solution would fulfil them all: whether
/// they go together must not depend on what else is in the page.
#[test]
fn f145_dependent_rows_are_refused_whatever_their_fingerprints() {
    let first = 0x3_1234_5678 << 28;
    let alike: Vec<u64> = values(100, 41).iter().map(|value| first | value >> 36).collect();
    let crafted = consistent(&alike);
    println!("{} values sum to nothing", crafted.len());
    assert!((8..64).contains(&crafted.len()));
    for others in [0, 1_000] {
        let all: Vec<u64> = crafted.iter().copied().chain(values(others, 42)).collect();
        for kernel in Kernel::found() {
            let (outcome, page) = build(&all, kernel);
            assert!(outcome.is_maybe(), "{others} others with {kernel:?}");
            assert!(page == reference::build(&all));
        }
        let independent = &all[1..];
        assert!(!build(independent, Kernel::Portable).0.is_maybe());
    }
}

/// Loads that a plan never has, up to where pages cannot be solved.
#[test]
fn overfull_pages_lose_no_key() {
    for number in [10_000, 21_000, 30_000, 31_500, 32_604] {
        let values = values(number, 21);
        let pages: Vec<_> = Kernel::found().map(|kernel| build(&values, kernel)).collect();
        assert!(pages.iter().all(|page| *page == pages[0]), "{number} keys");
        let least = least_blocks(number as u32);
        assert!(pages[0].0.is_maybe() || pages[0].0.blocks >= least);
        assert!(number > 29_000 || !pages[0].0.is_maybe());
    }
}
