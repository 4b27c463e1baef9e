//! What someone who chooses the keys can do to a filter: everything without a secret, and with one no
//! more than chance does. The attacks are the same for both, with the same number of keys.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacker;

use attacker::Attacker;
use bloomfile::plan::{LoadVerdict, false_positive_rate};
use bloomfile::report::{block_loads, crowding};
use bloomfile::{CellKind, Error, Filter, Key, Options, WhenFull, geometry::Layout, hash::Hasher};

const RATE: f64 = 0.01;

/// On a file system in memory, if there is one: what a disk does is no matter here.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Keys that the others ask for or add: strangers to the attacker's.
fn stranger(number: u64) -> Vec<u8> {
    format!("https://example.org/{number}").into_bytes()
}

fn options(capacity: u64) -> Options {
    Options::new().capacity(capacity).false_positive_rate(RATE).layout(Layout::Line)
}

/// Keys that are asked for in the short form.
const ASKED: u32 = 400_000;

/// The same attack on an unkeyed filter and on a keyed one; the rates at which they then report
/// absent keys.
fn on_both(options: &Options, attack: impl FnMut(&Filter)) -> [f64; 2] {
    on_both_asked(options, ASKED, attack)
}

fn on_both_asked(options: &Options, asked: u32, mut attack: impl FnMut(&Filter)) -> [f64; 2] {
    let folder = folder();
    let keyed = options.clone().key(&Key::from_bytes(*b"not for the keys"));
    let filters = [options.clone(), keyed].into_iter().zip(["unkeyed", "keyed"]);
    let filters: Vec<Filter> =
        filters.map(|(options, name)| options.create(folder.path().join(name)).unwrap()).collect();
    [0, 1].map(|which| {
        attack(&filters[which]);
        let found = (0..asked).filter(|&number| filters[which].contains(stranger(number.into())));
        found.count() as f64 / f64::from(asked)
    })
}

/// The slack that the accuracy of unkeyed files is held against: 3 %, and three deviations of chance.
fn is_formula(rate: f64, filter_keys: u64, options: &Options) -> bool {
    let formula = false_positive_rate(options.plan().unwrap().geometry(), filter_keys);
    let sigma = (formula * (1.0 - formula) / f64::from(ASKED)).sqrt();
    (rate - formula).abs() <= 0.03 * formula + 3.0 * sigma
}

#[test]
fn the_attacker_chooses_hashes() {
    let attacker = Attacker::new();
    for number in 0..1000u64 {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        assert_eq!(Hasher::new(0).hash(attacker.key(hash, number)), hash);
    }
}

#[test]
fn crafted_collisions_are_no_better_than_chance_under_a_secret() {
    let (attacker, options) = (Attacker::new(), options(100_000));
    let mut new = Vec::new();
    let [unkeyed, keyed] = on_both(&options, |filter| {
        // All of them have the hash of one key.
        let hash = Hasher::new(0).hash("the one");
        let adds = (0..100_000).filter(|&n| filter.add(attacker.key(hash, n)).unwrap()).count();
        new.push((adds, filter.contains("the one")));
    });
    assert_eq!(new[0], (1, true), "one key stands for all");
    assert!(new[1].0 > 99_000, "{new:?}: nearly all are new");
    assert!(unkeyed < 1e-5, "{unkeyed}");
    assert!(is_formula(keyed, 100_000, &options), "{keyed}");
}

#[test]
fn full_lines_cannot_be_made_without_the_secret() {
    let (attacker, options) = (Attacker::new(), options(200_000));
    let geometry = *options.plan().unwrap().geometry();
    let crafted = attacker.full_lines(&geometry, 200_000);
    let [unkeyed, keyed] = on_both(&options, |filter| {
        filter.add_batch(&crafted).unwrap();
    });
    eprintln!("full lines, as many keys as the capacity: unkeyed {unkeyed:.4}, keyed {keyed:.5}");
    assert!(unkeyed > 0.6, "{unkeyed}");
    assert!(is_formula(keyed, 200_000, &options), "{keyed}");
}

/// Of ten million absent keys chance makes less than 1 %, so that nothing is allowed for it.
#[test]
#[ignore = "seconds: cargo test --release --test attack -- --ignored --nocapture"]
fn under_a_secret_the_rate_stays_within_three_percent_of_the_formula() {
    let keys = 1_000_000;
    let (attacker, options) = (Attacker::new(), options(keys));
    let geometry = *options.plan().unwrap().geometry();
    let formula = false_positive_rate(&geometry, keys);
    let collisions = {
        let hash = Hasher::new(0).hash("the one");
        (0..keys).map(|number| attacker.key(hash, number)).collect()
    };
    let crafted: [(&str, Vec<_>); 2] =
        [("collisions", collisions), ("full lines", attacker.full_lines(&geometry, keys as usize))];
    for (name, crafted) in crafted {
        let [unkeyed, keyed] = on_both_asked(&options, 10_000_000, |filter| {
            filter.add_batch(&crafted).unwrap();
        });
        let off = keyed / formula - 1.0;
        println!("{name}: unkeyed {unkeyed:.7}, keyed {keyed:.7}, {:+.2} %", 100.0 * off);
        assert!(off.abs() < 0.03, "{name}: {keyed} and {formula}");
    }
}

#[test]
fn a_chosen_key_becomes_a_maybe_only_without_a_secret() {
    let (attacker, options) = (Attacker::new(), options(100_000));
    let mut hit = Vec::new();
    on_both(&options, |filter| {
        let victims = (0..10_000).map(|n| format!("victim {n}"));
        let mut found = 0;
        for victim in victims {
            filter.add(attacker.key(Hasher::new(0).hash(&victim), 7)).unwrap();
            found += u32::from(filter.contains(&victim));
        }
        hit.push(found);
    });
    assert_eq!(hit[0], 10_000, "each victim");
    // A tenth of the keys that it is for are in: far below the rate at capacity.
    assert!(hit[1] < 20, "{hit:?}");
}

#[test]
fn strangers_are_taken_out_only_without_a_secret() {
    let (attacker, options) = (Attacker::new(), options(20_000).kind(CellKind::Counting));
    let mut outcome = Vec::new();
    on_both(&options, |filter| {
        (0..10_000).for_each(|n| assert!(filter.add(stranger(1 << 40 | n)).is_ok()));
        let mut refused = 0;
        for n in 0..1000 {
            let hash = Hasher::new(0).hash(stranger(1 << 40 | n));
            match filter.remove(attacker.key(hash, n)) {
                Ok(()) => {}
                Err(Error::NotPresent) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        let lost = (0..1000).filter(|&n| !filter.contains(stranger(1 << 40 | n))).count();
        outcome.push((refused, lost));
    });
    assert_eq!(outcome[0].0, 0, "every removal of a key that was never added goes through");
    assert!(outcome[0].1 > 990, "{outcome:?}");
    // Removals go through at the rate of a half-full filter, and take what they hit with them.
    assert!(outcome[1].0 > 990 && outcome[1].1 < 10, "{outcome:?}");
}

/// F-156: without a secret such keys are noticed at least.
#[test]
fn f156_a_filter_that_refuses_counts_its_cells_as_well() {
    let folder = folder();
    let options = options(50_000).when_full(WhenFull::Refuse);
    let geometry = *options.plan().unwrap().geometry();
    let crafted = Attacker::new().full_lines(&geometry, 50_000);
    let path = folder.path().join("crafted");
    let mut filter = options.create(&path).unwrap();
    let mut taken = 0;
    let full = loop {
        if taken == 10_000 {
            // The cells are counted on from what the file has.
            filter.close().unwrap();
            filter = Filter::open(&path).unwrap();
        }
        match filter.add(crafted[taken]) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    eprintln!("refused after {taken} of 50,000: {full}");
    assert!(
        matches!(full.cause(), Error::Full { capacity: 50_000, reason } if reason.contains("cells"))
    );
    assert!((30_000..42_000).contains(&taken), "{taken}");
    // Most ordinary keys are a "maybe" by now; those that are not are refused as well.
    let refused = (0..100).filter(|&n| filter.add(stranger(n)).is_err()).count();
    assert!(refused > 10, "{refused}");
    assert!(filter.contains(crafted[0]));
}

/// Ordinary keys are taken up to the capacity, whatever the layout, the rate and the number.
#[test]
fn f156_ordinary_keys_are_not_refused_too_early() {
    let folder = folder();
    let path = folder.path().join("ordinary");
    let kinds = [(CellKind::Plain, 60), (CellKind::Counting, 8)];
    for (kind, rounds) in kinds {
        for layout in Layout::BLOOM {
            for (capacity, rate) in [(1, 0.01), (7, 0.1), (100, 0.01), (3000, 0.3), (5000, 0.001)] {
                for round in 0..rounds {
                    let options = Options::new().capacity(capacity).false_positive_rate(rate);
                    let options = options.layout(layout).kind(kind).when_full(WhenFull::Refuse);
                    let filter = options.journal_bytes(1).replace(true).create(&path).unwrap();
                    let mut keys = (0..).map(|n| format!("{round} {n}"));
                    let mut new = 0;
                    while new < capacity {
                        match filter.add(keys.next().unwrap()) {
                            Ok(changed) => new += u64::from(changed),
                            Err(error) => {
                                panic!(
                                    "{kind:?} {layout} {capacity} {rate} {round}: {new}: {error}"
                                )
                            }
                        }
                    }
                    let refused = keys.take(1000).find_map(|key| filter.add(key).err());
                    assert!(matches!(refused.unwrap().cause(), Error::Full { .. }));
                }
            }
        }
    }
}

#[test]
fn keys_in_one_line_show() {
    let folder = folder();
    let geometry = *options(300_000).plan().unwrap().geometry();
    let cover = attacker::cover(&geometry).len();
    assert!((64..=80).contains(&cover), "{cover} keys fill a line");
    let crafted = Attacker::new().full_lines(&geometry, cover);
    for ordinary in [0u64, 10_000, 150_000, 299_000] {
        let path = folder.path().join("filter");
        let filter = options(300_000).replace(true).create(&path).unwrap();
        let keys: Vec<Vec<u8>> = (0..ordinary).map(stranger).collect();
        filter.add_batch(&keys).unwrap();
        assert_eq!(filter.stats().crowded_blocks, 0, "{ordinary}");
        filter.close().unwrap();
        assert_eq!(crowding(&path).unwrap()[0].crowded, 0, "{ordinary}");
        assert_eq!(block_loads(&path).unwrap()[0].crowded, 0, "{ordinary}");

        let filter = Filter::open(&path).unwrap();
        filter.add_batch(&crafted).unwrap();
        assert_eq!(filter.stats().crowded_blocks, 1, "{ordinary}");
        filter.close().unwrap();
        let (found, loads) = (crowding(&path).unwrap()[0], &block_loads(&path).unwrap()[0]);
        assert_eq!((found.crowded, loads.crowded), (1, 1), "{ordinary}");
        assert_eq!(found.looked_at, found.blocks);
        assert!(matches!(loads.verdict, LoadVerdict::Crowded | LoadVerdict::Uneven), "{ordinary}");
    }
}

/// Chance alone does not look like an attack, in any layout and at any fill.
#[test]
fn ordinary_keys_never_crowd() {
    let folder = folder();
    let path = folder.path().join("filter");
    for layout in Layout::BLOOM {
        for share in [1, 10, 100, 200] {
            for round in 0..10 {
                let options = Options::new().capacity(20_000).false_positive_rate(0.01);
                let options = options.layout(layout).journal_bytes(0).replace(true);
                let mut builder = options.start_build(&path).unwrap();
                builder.extend((0..200 * share).map(|n| format!("{round} {n}")));
                builder.finish().unwrap();
                let found = crowding(&path).unwrap()[0];
                assert_eq!(found.crowded, 0, "{layout}, {share} %, round {round}");
            }
        }
    }
}
