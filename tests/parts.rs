//! Filters built in parts (F-180 to F-185): the same bytes as those of one build, and nothing but
//! whole sets of sound parts is joined.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(missing_docs, reason = "tests")]

use std::path::{Path, PathBuf};

use bloomfile::{
    CellKind, Error, Key, Options, Reader,
    geometry::{Geometry, Layout},
    parts::{Join, PartPlan},
    report::verify,
};

const KEYS: u64 = 60_000;

fn key(number: u64) -> [u8; 8] {
    // Every fifth key comes again.
    let number = if number % 5 == 4 { number / 3 } else { number };
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn keys() -> Vec<[u8; 8]> {
    (0..KEYS).map(key).collect()
}

/// Builds all parts, each from all keys; their files.
fn build_parts(plan: &PartPlan, folder: &Path, secret: Option<&Key>) -> Vec<PathBuf> {
    let bytes = plan.to_bytes().unwrap();
    let keys = keys();
    let mut taken = 0;
    let files = (1..=plan.parts()).map(|number| {
        let file = folder.join(format!("{number}-of-{}.part", plan.parts()));
        let mut part = PartPlan::from_bytes(&bytes).unwrap().part(number).replace(true);
        if let Some(key) = secret {
            part = part.key(key);
        }
        let mut builder = part.start(&file).unwrap();
        assert!(!builder.plan().pages_of(number).is_empty() || builder.add_batch(&keys) == 0);
        let own = keys.iter().filter(|key| plan.part_of(builder.hasher().hash(key)) == number);
        let own = own.count() as u64;
        if number % 2 == 0 {
            assert_eq!(builder.add_batch(&keys), own);
        } else {
            builder.extend(&keys);
        }
        let built = builder.finish().unwrap();
        assert_eq!((built.part, built.taken), (number, own));
        assert_eq!(built.file_bytes, std::fs::metadata(&file).unwrap().len());
        taken += own;
        file
    });
    let files = files.collect();
    assert_eq!(taken, KEYS, "every key is in one part");
    files
}

fn shapes() -> Vec<(&'static str, Options)> {
    let options = || Options::new().capacity(KEYS).false_positive_rate(0.01);
    vec![
        ("line", options().metadata("keys", "numbers")),
        ("line of 4 rows", Options::new().geometry(Geometry::line(4, 10_001).unwrap())),
        ("page", options().layout(Layout::Page).seed(7)),
        ("low rate", options().false_positive_rate(1e-6)),
        ("journal", options().journal_bytes(16_384)),
        ("identity", options().uuid(*b"sixteen bytes!!!")),
        ("sealed", options().sealed(true)),
        ("sealed and crowded", Options::new().geometry(Geometry::sealed(3).unwrap())),
    ]
}

#[test]
fn f185_any_number_of_parts_gives_the_bytes_of_one_build() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, options) in shapes() {
        let mut builder = options.clone().replace(true).start_build(at("once.bloom")).unwrap();
        builder.add_batch(&keys());
        let once = builder.finish().unwrap();
        let expected = std::fs::read(at("once.bloom")).unwrap();
        for count in [1, 2, 7, 64] {
            let plan = options.plan_parts(count).unwrap();
            assert_eq!(plan.file_bytes(), expected.len() as u64);
            let mut files = build_parts(&plan, folder.path(), None);
            files.reverse();
            let joined = Join::new().replace(true).run(&files, at("joined.bloom")).unwrap();
            assert_eq!(joined, once, "{name} in {count} parts");
            let found = std::fs::read(at("joined.bloom")).unwrap();
            assert!(found == expected, "{name} in {count} parts");
        }
        assert!(verify(at("joined.bloom")).unwrap().is_sound());
        let reader = Reader::open(at("joined.bloom")).unwrap();
        assert!((0..KEYS).all(|number| reader.contains(key(number))));
    }
}

#[test]
fn keyed_filters_take_their_secret() {
    let folder = tempfile::tempdir().unwrap();
    let secret = Key::from_bytes(*b"no secret at all");
    let options = Options::new().capacity(KEYS).false_positive_rate(0.01).key(&secret);
    let plan = options.plan_parts(3).unwrap();
    assert!(!plan.to_bytes().unwrap().windows(16).any(|bytes| bytes == b"no secret at all"));
    let error = plan.part(1).start(folder.path().join("x")).err().unwrap();
    assert!(matches!(error.cause(), Error::KeyNeeded { .. }));
    let files = build_parts(&plan, folder.path(), Some(&secret));
    let [joined, once] = ["joined.bloom", "once.bloom"].map(|name| folder.path().join(name));
    Join::new().run(&files, &joined).unwrap();
    let mut builder = options.start_build(&once).unwrap();
    builder.add_batch(&keys());
    builder.finish().unwrap();
    assert!(std::fs::read(joined).unwrap() == std::fs::read(once).unwrap());
}

/// Sealed parts whose hashes do not fit into the memory they are given.
#[test]
fn sealed_parts_keep_hashes_aside() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let count = 6_000_000u64;
    let hashes: Vec<u64> = (0..count).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let options = Options::new().sealed(true).capacity(count).false_positive_rate(0.01);
    let plan = options.plan_parts(2).unwrap();
    let files = [1, 2].map(|part| at(&format!("{part}.part")));
    for (part, file) in (1..).zip(&files) {
        let mut builder = plan.part(part).memory(32 << 20).start(file).unwrap();
        builder.add_hash_batch(&hashes);
        builder.finish().unwrap();
    }
    Join::new().run(&files, at("joined.bloom")).unwrap();
    let mut builder = options.start_build(at("once.bloom")).unwrap();
    builder.add_hash_batch(&hashes);
    builder.finish().unwrap();
    assert!(std::fs::read(at("joined.bloom")).unwrap() == std::fs::read(at("once.bloom")).unwrap());
}

/// Pages that got more keys than they can tell apart are told of the part that they are in.
#[test]
fn parts_tell_of_pages_that_answer_maybe() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let plan = Options::new().geometry(Geometry::sealed(4).unwrap()).plan_parts(2).unwrap();
    // All in the first quarter of the hashes: 40,000 are more than a page can tell apart.
    let hashes: Vec<u64> =
        (0..40_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2).collect();
    for (part, maybe) in [(1, 1), (2, 0)] {
        let mut builder = plan.part(part).start(at(&part.to_string())).unwrap();
        builder.add_hash_batch(&hashes);
        let built = builder.finish().unwrap();
        assert_eq!((built.pages, built.maybe_pages), (2, maybe), "part {part}");
    }
    let joined = Join::new().run(&[at("1"), at("2")], at("joined.bloom")).unwrap();
    assert_eq!(joined.maybe_pages, 1);
}

#[test]
fn f181_pages_and_parts_agree() {
    for (blocks, count) in [(1, 1), (64, 7), (6400, 7), (10_001, 64), (640, 1 << 20)] {
        let options = Options::new().geometry(Geometry::line(8, blocks).unwrap());
        let plan = options.plan_parts(count).unwrap();
        let mut end = 0;
        for part in 1..=count {
            let pages = plan.pages_of(part);
            assert_eq!(pages.start, end);
            end = pages.end;
        }
        assert_eq!(end, plan.plan().geometry().pages());
        let mut last = 1;
        for step in 0..10_000u64 {
            let hash = step * (u64::MAX / 10_000);
            let part = plan.part_of(hash);
            let page = plan.plan().geometry().block(hash) / 64;
            assert!(plan.pages_of(part).contains(&page));
            assert!(part >= last, "parts are in the order of hashes");
            last = part;
        }
    }
}

#[test]
fn f180_what_has_no_parts_is_refused() {
    let options = Options::new().capacity(1000).false_positive_rate(0.01);
    for layout in [Layout::Rows, Layout::Flat] {
        let error = options.clone().layout(layout).plan_parts(2).unwrap_err();
        assert!(error.to_string().contains("has no parts"), "{error}");
    }
    for options in [
        options.clone().kind(CellKind::Counting),
        options.clone().grow(),
        options.clone().generations(3),
        options.clone().replace(true),
        Options::new().false_positive_rate(0.01),
        Options::new().false_positive_rate(0.01).sealed(true),
    ] {
        assert!(matches!(options.plan_parts(2), Err(Error::Parameter { .. })), "{options:?}");
    }
    for count in [0, (1 << 20) + 1] {
        assert!(matches!(options.plan_parts(count), Err(Error::Parameter { .. })));
    }
    let folder = tempfile::tempdir().unwrap();
    for part in [0, 3] {
        let started = options.plan_parts(2).unwrap().part(part).start(folder.path().join("x"));
        assert!(matches!(started.err().unwrap(), Error::Parameter { name: "part", .. }));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn f185_other_sets_of_parts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options = Options::new().capacity(KEYS).false_positive_rate(0.01);
    let files = build_parts(&options.plan_parts(4).unwrap(), folder.path(), None);
    let refused = |files: &[PathBuf]| {
        let error = Join::new().run(files, at("joined.bloom")).unwrap_err().to_string();
        assert!(!at("joined.bloom").exists());
        error
    };
    assert!(refused(&[]).contains("give all parts"));
    assert!(refused(&files[1..]).contains("part 1 of 4 is missing"));
    assert!(refused(&files[..1]).contains("part 2 of 4 is missing, and 2 more"));
    let twice: Vec<PathBuf> = files.iter().chain(&files[2..3]).cloned().collect();
    assert!(refused(&twice).contains("part 3 is there twice"));
    for (other, what) in [
        (options.clone().seed(1), "seed differs"),
        (options.clone().capacity(2 * KEYS), "size differs"),
        (options.clone().metadata("a", "b"), "metadata differs"),
        (options.clone().journal_bytes(8192), "journal size differs"),
        (options.clone().uuid([1; 16]), "identity differs"),
    ] {
        let mut mixed = files.clone();
        mixed[1] = at("other.part");
        other
            .plan_parts(4)
            .unwrap()
            .part(2)
            .replace(true)
            .start(&mixed[1])
            .unwrap()
            .finish()
            .unwrap();
        let error = refused(&mixed);
        assert!(error.contains(what) && error.contains("other.part"), "{error}");
    }
    let mut mixed = files.clone();
    mixed[0] = at("other.part");
    let others = options.plan_parts(5).unwrap();
    others.part(1).replace(true).start(&mixed[0]).unwrap().finish().unwrap();
    assert!(refused(&mixed).contains("number of parts differs"));

    Join::new().run(&files, at("whole.bloom")).unwrap();
    mixed[0] = at("whole.bloom");
    assert!(refused(&mixed).contains("is not a part of a filter: it is a whole filter"));
    std::fs::write(at("plan"), options.plan_parts(4).unwrap().to_bytes().unwrap()).unwrap();
    mixed[0] = at("plan");
    assert!(refused(&mixed).contains("it is the plan of one"));
    std::fs::write(at("text"), "some text").unwrap();
    mixed[0] = at("text");
    assert!(refused(&mixed).contains("is not a part of a filter"));
    let error = Reader::open(&files[0]).unwrap_err().to_string();
    assert!(error.contains("a part of a filter; join it with the others"), "{error}");
    assert!(matches!(
        Join::new().run(&files, at("whole.bloom")).unwrap_err().cause(),
        Error::Exists
    ));
}

/// Any byte of a part that is changed is noticed, and so is any other length (F-184).
#[test]
fn f184_damage_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for options in [
        Options::new().geometry(Geometry::line(8, 100).unwrap()),
        Options::new().geometry(Geometry::sealed(2).unwrap()),
    ] {
        let plan = options.plan_parts(2).unwrap();
        let files = build_parts(&plan, folder.path(), None);
        let sound = std::fs::read(&files[1]).unwrap();
        let mut damaged = files.clone();
        damaged[1] = at("damaged.part");
        let try_join = |bytes: &[u8]| {
            std::fs::write(&damaged[1], bytes).unwrap();
            Join::new().replace(true).run(&damaged, at("joined.bloom"))
        };
        try_join(&sound).unwrap();
        // Every byte of the fields, and some of all else.
        let places =
            (0..80).chain(4092..4240).chain(8192..8400).chain((80..sound.len()).step_by(37));
        for place in places {
            let mut bytes = sound.clone();
            bytes[place] ^= 1 << (place % 8);
            let error = try_join(&bytes).unwrap_err();
            assert!(error.is_bad_file(), "byte {place}: {error}");
            assert!(error.to_string().contains("damaged.part"), "byte {place}: {error}");
        }
        for length in [0, 7, 100, 4096, 12_287, 12_288, sound.len() - 4096, sound.len() - 1] {
            let error = try_join(&sound[..length]).unwrap_err();
            assert!(error.is_bad_file(), "{length} bytes: {error}");
        }
        assert!(try_join(&[&sound[..], &[0]].concat()).unwrap_err().is_bad_file());
    }
}

/// Headers with any values and the right checksum are refused or understood, and never a panic
/// (F-184).
#[test]
fn f184_hostile_headers() {
    let plan = Options::new().geometry(Geometry::line(8, 1000).unwrap()).plan_parts(3).unwrap();
    let sound = plan.to_bytes().unwrap();
    let mut state = 1u64;
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let (area, place) = ((state >> 33) % 3 * 4096, (state >> 40) % 256);
        let value = [0, 1, 0x7f, 0xff][(state >> 60) as usize % 4];
        let (start, place) = (area as usize, (area + place) as usize);
        bytes[place..place + 4].fill(value);
        let crc = crc32fast::hash(&bytes[start..start + 4092]).to_le_bytes();
        bytes[start + 4092..start + 4096].copy_from_slice(&crc);
        match PartPlan::from_bytes(&bytes) {
            Ok(plan) => {
                assert!((1..=1 << 20).contains(&plan.parts()));
                assert!(plan.part_of(u64::MAX) == plan.parts() || plan.file_bytes() > 0);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 10_000, "{refused}");
}

/// Makes the golden part, as `tests/golden/README.md` describes it.
fn make_golden(path: &Path) {
    let options = Options::new()
        .geometry(Geometry::line(8, 300).unwrap())
        .capacity(200)
        .seed(42)
        .metadata("keys", "key-0, key-1 …")
        .metadata("source", "tests/parts.rs");
    let mut builder = options.plan_parts(3).unwrap().part(2).start(path).unwrap();
    let own = (0..200).filter(|number| builder.add(format!("key-{number}"))).count();
    assert_eq!(own, 77);
    let built = builder.finish().unwrap();
    assert_eq!((built.pages, built.keys), (2, 77));
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/line-2-of-3.part")
}

/// The golden part is made again byte for byte.
#[test]
fn f182_the_golden_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("line-2-of-3.part");
    make_golden(&path);
    assert!(std::fs::read(path).unwrap() == std::fs::read(golden()).unwrap());
}

/// Writes the golden part if it is not there.
#[test]
#[ignore = "writes into the source tree: cargo test --test parts write_missing -- --ignored"]
fn write_missing_golden_part() {
    if !golden().exists() {
        make_golden(&golden());
    }
}
