//! Measured rates and sizes against what the plan says.

use super::{in_map, values};
use crate::builder::sealed::pages::{Build, PageRun};
use crate::error::{Error, Result};
use crate::geometry::Layout;
use crate::geometry::PAGE_BYTES;
use crate::kernel::sealed::{Kernel, Query};
use crate::kernel::sealed::{Scratch, build_page};
use crate::plan::{HIGHEST_SEALED_RATE, LOWEST_SEALED_RATE, Plan};
use crate::sealed::header::Header;
use crate::sealed::shape::{least_blocks, part_of};
use crate::sealed::*;

fn sealed_plan(capacity: u64, rate: f64) -> Result<Plan> {
    Plan::new(capacity, rate, Some(Layout::Sealed))
}

/// What was built as planned.
struct Filter {
    plan: Plan,
    pages: Vec<PageInMap>,
    /// The mean of the rates that the pages' headers tell.
    rate: f64,
}

fn build(plan: Plan, hashes: &mut [u64]) -> Filter {
    let mut pages = Vec::new();
    let mut rates = 0.0;
    let write = |run: PageRun<'_>| {
        rates += run.pages.iter().map(|page| Header::decode(page).unwrap().rate()).sum::<f64>();
        pages.extend(run.pages.iter().map(|page| *in_map(page)));
        Ok(())
    };
    let built = Build::new(plan.geometry().pages()).threads(2).run([hashes], write).unwrap();
    assert_eq!((built.keys, built.maybe_pages), (plan.capacity().unwrap(), 0));
    Filter { plan, rate: rates / pages.len() as f64, pages }
}

impl Filter {
    /// The share of hashes that it reports.
    fn reported(&self, hashes: &[u64]) -> f64 {
        let query = Query::new(self.plan.geometry().pages(), self.plan.capacity().unwrap());
        let mut found = vec![false; hashes.len()];
        query.contains_batch(&self.pages, |at| hashes[at], &mut found);
        found.iter().filter(|&&found| found).count() as f64 / hashes.len() as f64
    }
}

#[test]
fn a_million_keys_have_the_rate_that_was_asked_for() {
    for (rate, absent) in
        [(0.3, 400_000), (0.0625, 2_000_000), (0.01, 4_000_000), (0.001, 8_000_000)]
    {
        let plan = sealed_plan(1_000_000, rate).unwrap();
        let mut hashes = values(1_000_000, 1);
        let filter = build(plan.clone(), &mut hashes);
        assert_eq!(filter.reported(&hashes), 1.0, "no key is lost");
        // The last step to a whole number of pages can lower the rate by this much.
        let step = 1.5 * (1.0 / rate).ln() / plan.geometry().pages() as f64;
        let (expected, measured) =
            (plan.expected_rate().unwrap(), filter.reported(&values(absent, 2)));
        println!("asked {rate}, expected {expected}, pages {}, measured {measured}", filter.rate);
        assert!(expected <= rate && expected > rate * (1.0 - step));
        assert!((filter.rate / expected - 1.0).abs() < 0.006, "{} for {expected}", filter.rate);
        // Four standard deviations.
        let noise = 4.0 * (rate / absent as f64).sqrt();
        assert!((measured - filter.rate).abs() < noise, "{measured} for {}", filter.rate);
    }
}

/// The whole of what is promised of size and rate. Takes some minutes:
///
/// ```text
/// cargo test --release --lib kernel::sealed::tests::rates::ten_million -- --ignored --nocapture
/// ```
#[test]
#[ignore = "takes minutes"]
fn ten_million_keys_have_the_size_and_the_rate_that_are_promised() {
    let promised = [
        (0.4, 1.46, 4),
        (0.0625, 4.08, 40),
        (0.01, 6.85, 40),
        (0.001, 10.25, 40),
        (1e-4, 13.75, 400),
        (1e-5, 17.2, 400),
        (1e-6, 20.7, 400),
    ];
    for (rate, most_bits, rounds) in promised {
        let plan = sealed_plan(10_000_000, rate).unwrap();
        let bits = plan.bits_per_key().unwrap();
        let mut hashes = values(10_000_000, 1);
        let filter = build(plan.clone(), &mut hashes);
        assert_eq!(filter.reported(&hashes), 1.0, "no key is lost");
        let reported = (0..rounds).map(|round| filter.reported(&values(1_000_000, 100 + round)));
        let measured = reported.sum::<f64>() / rounds as f64;
        println!(
            "asked {rate}: {bits:.3} bits per key ({:.4} times the limit), expected {:.4}, by the \
             headers {:.4}, measured {:.4} times what was asked",
            bits / (1.0 / rate).log2(),
            plan.expected_rate().unwrap() / rate,
            filter.rate / rate,
            measured / rate,
        );
        assert!(bits <= most_bits);
        assert!((filter.rate / rate - 1.0).abs() < 0.005);
        let noise = 4.0 * (rate * rounds as f64 * 1e6).sqrt() / (rounds as f64 * 1e6 * rate);
        assert!((measured / filter.rate - 1.0).abs() < noise);
    }
}

#[test]
fn plans_keep_to_the_sizes_that_are_promised() {
    for (rate, most_bits) in [(0.01, 6.85), (0.001, 10.25), (1e-4, 13.75), (1e-6, 20.7)] {
        for capacity in [10_000_000, 200_000_000, 10_000_000_000] {
            let plan = sealed_plan(capacity, rate).unwrap();
            assert!(plan.bits_per_key().unwrap() <= most_bits);
            assert!(
                plan.expected_rate().unwrap() <= rate
                    && plan.expected_rate().unwrap() > 0.99 * rate
            );
            // The fewest pages.
            assert!(rate_of_filter(capacity, plan.geometry().pages() - 1) > rate);
            assert_eq!(plan.data_bytes(), 4096 * plan.geometry().pages());
        }
    }
}

#[test]
fn tiny_sets_are_one_page() {
    for capacity in [1, 2, 100, 1000] {
        for rate in [LOWEST_SEALED_RATE, 1e-6, 0.01, HIGHEST_SEALED_RATE] {
            assert_eq!(sealed_plan(capacity, rate).unwrap().geometry().pages(), 1);
        }
    }
    let plan = sealed_plan(4_700, 0.01).unwrap();
    assert_eq!(plan.geometry().pages(), 1);
    assert!((0.005..0.01).contains(&plan.expected_rate().unwrap()));
}

#[test]
fn impossible_plans_are_refused() {
    let refused = [
        (1000, 0.0),
        (1000, 1.0),
        (1000, -0.1),
        (1000, f64::NAN),
        (1000, f64::INFINITY),
        (1000, HIGHEST_SEALED_RATE * 1.001),
        (1000, LOWEST_SEALED_RATE * 0.999),
        (1 << 40, 1e-7),
        (u64::MAX, 0.4),
    ];
    for (capacity, rate) in refused {
        let error = sealed_plan(capacity, rate).unwrap_err();
        let expected = "false positive rate";
        assert!(matches!(error, Error::Parameter { name, .. } if name == expected), "{error}");
    }
    for (capacity, rate) in [(1 << 56, 0.4), (1 << 50, 0.01)] {
        let error = sealed_plan(capacity, rate).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "capacity", .. }), "{error}");
    }
    let most = sealed_plan(1 << 29, LOWEST_SEALED_RATE).unwrap();
    assert!(most.expected_rate().unwrap() <= LOWEST_SEALED_RATE);
    assert!(sealed_plan((1 << 29) + 1, LOWEST_SEALED_RATE).is_err());
}

/// The table of extra blocks against pages that are built.
#[test]
fn pages_have_the_rate_that_is_expected_of_their_keys() {
    let mut scratch = Scratch::new();
    let mut page = [0; PAGE_BYTES as usize];
    for (keys, pages) in
        [(600, 200), (1040, 800), (1600, 400), (4826, 200), (9000, 100), (14_000, 50)]
    {
        let mut ratio = 0.0;
        for number in 0..pages {
            // Each number of free slots that a page can have.
            let keys = keys + number % 32;
            build_page(&mut values(keys, number + 1), &mut scratch, &mut page);
            let rate = Header::decode(&page).unwrap().rate();
            ratio += rate / rate_of_keys(keys as u32) / pages as f64;
        }
        assert!((ratio - 1.0).abs() < 0.01, "{ratio} at {keys} keys");
    }
    assert_eq!((Header::Empty.rate(), Header::Maybe.rate()), (0.0, 1.0));
    assert_eq!((rate_of_keys(0), rate_of_keys(32_605)), (0.0, 1.0));
}

/// For every number of blocks: the rate that the header tells against a count of columns.
#[test]
fn f148_a_header_tells_the_rate_of_any_number_of_blocks() {
    let mut page = [0; PAGE_BYTES as usize];
    for blocks in 32..=1019u16 {
        page[..2].copy_from_slice(&blocks.to_le_bytes());
        page[2] = (1019 / blocks) as u8;
        for at in 0..17 {
            // From −12 to 12 with a bump in the middle.
            page[3 + at] = (3 * at as i8 / 2 - 12 + 20 * i8::from(at == 8)).cast_unsigned();
        }
        let Header::Solved(header) = Header::decode(&page).unwrap() else { panic!("solved") };
        let (shape, bends) = (header.shape(), header.bends());
        let asked = 1 << 12;
        let rates = (0..asked).map(|number| {
            let value = (number << 1 | 1) << (63 - 12);
            let part = part_of(value);
            let start = shape.part(part, bends[part], bends[part + 1]).start(value);
            0.5f64.powi(shape.columns_of(start / 32).cast_signed())
        });
        let counted = rates.sum::<f64>() / asked as f64;
        let told = Header::Solved(header).rate();
        // The slots at either end take more than their share; a step of the count is one in 4,096.
        assert!((told / counted - 1.0).abs() < 3e-4, "{told} for {counted} with {blocks} blocks");
        let narrow = shape.wide_from() >= shape.blocks() - 2;
        assert_eq!(told == 0.5f64.powi(shape.columns().cast_signed()), narrow, "{blocks} blocks");
    }
}

/// A header's rate is that of the page, bends and all: against the answers for very many values.
#[test]
fn f148_a_header_tells_the_rate_of_its_page() {
    for (keys, every, asked) in [(9_000, 25, 400_000), (16_000, 45, 200_000), (22_000, 70, 200_000)]
    {
        let mut page = [0; PAGE_BYTES as usize];
        // Some keys moved to the first half of the values: the bends are far from even.
        let mut skewed = values(keys, 3);
        skewed.iter_mut().step_by(every).for_each(|value| *value >>= 1);
        let outcome = build_page(&mut skewed, &mut Scratch::new(), &mut page);
        assert!(!outcome.is_maybe());
        let map = in_map(&page);
        let kernel = Kernel::choose();
        let absent = values(asked, 4);
        let reported = absent.iter().filter(|&&value| kernel.contains(&map, value)).count() as f64;
        let measured = reported / asked as f64;
        let rate = Header::decode(&page).unwrap().rate();
        let noise = 4.0 * (rate / asked as f64).sqrt();
        assert!((measured - rate).abs() < noise, "{measured} for {rate} at {keys} keys");
    }
}

/// Prints the table in `rate`:
///
/// ```text
/// cargo test --release --lib kernel::sealed::tests::rates::blocks -- --ignored --nocapture
/// ```
#[test]
#[ignore = "prints a table"]
fn blocks_beyond_the_fewest() {
    let mut scratch = Scratch::new();
    let mut page = [0; PAGE_BYTES as usize];
    let mut seed = 0;
    for keys in (1000..3000).step_by(500).chain((3000..=30_000).step_by(1000)) {
        let pages = (40_000_000 / keys).clamp(512, 8192);
        let (mut sum, mut bandings, mut maybe) = (0.0, 0, 0);
        for number in 0..pages {
            seed += 1;
            let keys = keys + number % 32;
            let outcome = build_page(&mut values(keys, seed), &mut scratch, &mut page);
            bandings += outcome.bandings;
            maybe += u32::from(outcome.is_maybe());
            if !outcome.is_maybe() {
                sum += f64::from(outcome.blocks - least_blocks(keys as u32));
            }
        }
        let pages = pages as f64;
        let (sum, bandings) = (sum / pages, f64::from(bandings) / pages);
        println!(
            "{keys} keys: {sum:.4} blocks more, {bandings:.3} bandings, {maybe} are \"maybe\""
        );
    }
}
