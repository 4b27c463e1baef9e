//! A cache that admits an object on its second request: most objects are asked for only once and
//! would only push out others.
//!
//! `cargo run --release --example admission`. The requests of the last while are in a rotating
//! filter of two generations: when the younger one is full, the older one is dropped and an empty
//! one takes its place. So a request is remembered for one to two fillings, in a fixed space.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error;
use std::path::Path;

use bloomfile::{Filter, Options};

const REQUESTS: u64 = 1_000_000;
const CACHE_SLOTS: usize = 20_000;
const NOTED: u64 = 200_000;

/// The requests of the last while.
struct Seen {
    filter: Filter,
}

impl Seen {
    fn new(path: &Path) -> Result<Self, Box<dyn Error>> {
        let options = Options::new().capacity(NOTED).false_positive_rate(0.01);
        Ok(Seen { filter: options.generations(2).rotate_after(NOTED).create(path)? })
    }

    /// Whether the object was asked for before; notes that it was asked for now.
    fn again(&mut self, object: &[u8]) -> Result<bool, Box<dyn Error>> {
        let new = self.filter.add(object)?;
        Ok(!new)
    }
}

/// A cache that drops what came first.
#[derive(Default)]
struct Cache {
    objects: HashSet<u64>,
    order: VecDeque<u64>,
    hits: u64,
    written: u64,
}

impl Cache {
    fn request(
        &mut self,
        object: u64,
        admit: impl FnOnce() -> Result<bool, Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let admitted = admit()?;
        if self.objects.contains(&object) {
            self.hits += 1;
        } else if admitted {
            self.written += 1;
            self.objects.insert(object);
            self.order.push_back(object);
            if self.order.len() > CACHE_SLOTS {
                self.order.pop_front().map(|oldest| self.objects.remove(&oldest));
            }
        }
        Ok(())
    }
}

/// Requests as caches meet them: about two thirds of the objects asked for are asked for once, the
/// others again and again, a few of them very often.
fn requests() -> impl Iterator<Item = u64> {
    let mut state = 0x5eed_u64;
    (0..REQUESTS).map(move |number| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 11;
        match random % 100 {
            0..30 => 1 << 40 | number,
            // The square makes low numbers likelier.
            _ => {
                let share = (random >> 8) as f64 / (1u64 << 45) as f64;
                (share * share * 150_000.0) as u64
            }
        }
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    requests().for_each(|object| *counts.entry(object).or_default() += 1);
    let once: HashSet<u64> =
        counts.iter().filter(|&(_, &count)| count == 1).map(|(&object, _)| object).collect();

    let folder = tempfile::tempdir()?;
    let mut seen = Seen::new(&folder.path().join("seen.bloom"))?;
    let (mut all, mut second) = (Cache::default(), Cache::default());
    let mut wonders_let_in = 0u64;
    for object in requests() {
        all.request(object, || Ok(true))?;
        let before = second.written;
        second.request(object, || seen.again(&object.to_le_bytes()))?;
        wonders_let_in += u64::from(second.written > before && once.contains(&object));
    }
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
    println!(
        "{REQUESTS} requests for {} objects, {:.1} % of which are asked for once",
        counts.len(),
        percent(once.len() as u64, counts.len() as u64)
    );
    println!(
        "admit all:       {:.1} % hits, {} objects written",
        percent(all.hits, REQUESTS),
        all.written
    );
    println!(
        "on the second:   {:.1} % hits, {} objects written",
        percent(second.hits, REQUESTS),
        second.written
    );
    println!(
        "one-hit wonders kept out: {:.2} %",
        100.0 - percent(wonders_let_in, once.len() as u64)
    );
    assert!(second.written < all.written);
    Ok(())
}
