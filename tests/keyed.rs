//! Keyed files (format-spec.md, section 14): every kind and layout, what takes the secret and what does
//! not, and what is said when it is the wrong one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};

use bloomfile::geometry::{Geometry, Layout};
use bloomfile::ops::{self, Readers, SetOperation};
use bloomfile::reader::Access;
use bloomfile::report::{self, Health};
use bloomfile::{CellKind, Error, Filter, Key, Options, ReadOptions, Reader, hash::Hasher};
use support::*;

const SECRET: [u8; 16] = *b"\x9fa secret\x00of 16\xff";

fn secret() -> Key {
    Key::from_bytes(SECRET)
}

fn other() -> Key {
    Key::from_bytes(*b"another 16 bytes")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn key(number: u32) -> String {
    format!("key-{number}")
}

fn open(path: &Path, key: &Key) -> Result<Reader, Error> {
    ReadOptions::new().key(key).open(path)
}

fn plain() -> Options {
    Options::new().capacity(3000).false_positive_rate(0.01)
}

/// A keyed file of `plain()` with these keys.
fn build(path: &Path, key_of: &Key, keys: std::ops::Range<u32>) {
    let mut builder = plain().key(key_of).start_build(path).unwrap();
    builder.add_batch(&keys.map(key).collect::<Vec<_>>());
    builder.finish().unwrap();
}

/// Every kind and shape in every layout.
fn kinds() -> Vec<(String, Options)> {
    let mut kinds = Vec::new();
    for layout in Layout::BLOOM {
        let options = || plain().layout(layout).journal_bytes(1 << 16);
        let counting = || options().kind(CellKind::Counting);
        kinds.push((format!("{layout}"), options()));
        kinds.push((format!("{layout}, counting"), counting()));
        kinds.push((format!("{layout}, growing"), options().capacity(700).grow()));
        kinds.push((format!("{layout}, rotating"), options().generations(2)));
        kinds.push((format!("{layout}, counting and rotating"), counting().generations(3)));
    }
    kinds
}

#[test]
fn f150_every_kind_and_layout_is_keyed() {
    let folder = folder();
    for (name, options) in kinds() {
        let path = folder.path().join("filter");
        let filter = options.replace(true).key(&secret()).create(&path).unwrap();
        let keys: Vec<String> = (0..2000).map(key).collect();
        let new = filter.add_batch(&keys[..1000]).unwrap();
        assert!(new > 980, "{name}: {new}");
        keys[1000..].iter().for_each(|key| assert!(filter.add(key).is_ok()));
        assert!(keys.iter().all(|key| filter.contains(key)), "{name}");
        let mut found = Vec::new();
        filter.contains_batch(&keys, &mut found);
        assert!(found.iter().all(|&found| found), "{name}");
        filter.sync_with_mark(7).unwrap();
        filter.close().unwrap();

        let filter = Filter::open_with_key(&path, &secret()).unwrap();
        assert_eq!(filter.mark(), 7);
        filter.add("one more").unwrap();
        assert!(filter.hasher().is_keyed());
        filter.close().unwrap();
        for options in [ReadOptions::new(), ReadOptions::new().access(Access::Memory).verify(true)]
        {
            let reader = options.key(&secret()).open(&path).unwrap();
            assert!(keys.iter().all(|key| reader.contains(key)), "{name}");
            assert!(reader.contains("one more") && reader.try_contains("one more").unwrap());
            reader.contains_batch(&keys, &mut found);
            assert!(found.iter().all(|&found| found), "{name}");
            let hasher = reader.hasher();
            assert!(keys.iter().all(|key| reader.contains_hash(hasher.hash(key))), "{name}");
            let absent = (0..2000).filter(|n| reader.contains(format!("absent {n}"))).count();
            assert!(absent < 100, "{name}: {absent}");
        }
        let inspection = report::inspect(&path).unwrap();
        assert_eq!((inspection.hash, inspection.seed), ("SipHash-2-4", 0));
        assert_eq!(inspection.key_fingerprint, Some(secret().fingerprint()));
        assert!(report::verify(&path).unwrap().is_sound(), "{name}");
        assert_never_in(&path);
    }
}

#[test]
fn f150_sealed_files_are_keyed() {
    let folder = folder();
    let path = folder.path().join("sealed");
    let options = Options::new().false_positive_rate(0.01).kind(CellKind::Sealed).key(&secret());
    let mut builder = options.start_build(&path).unwrap();
    builder.add_batch(&(0..2000).map(key).collect::<Vec<_>>());
    builder.finish().unwrap();
    let reader = open(&path, &secret()).unwrap();
    assert_eq!(reader.kind(), CellKind::Sealed);
    assert!((0..2000).map(key).all(|key| reader.contains(key)));
    let absent = (0..2000).filter(|n| reader.contains(format!("absent {n}"))).count();
    assert!(absent < 100, "{absent}");
    assert!(matches!(Reader::open(&path).unwrap_err().cause(), Error::KeyNeeded { .. }));
    assert!(matches!(open(&path, &other()).unwrap_err().cause(), Error::WrongKey { .. }));
    assert!(report::verify(&path).unwrap().is_sound());
    assert_eq!(report::crowding(&path).unwrap()[0].crowded, 0);
    let inspection = report::inspect(&path).unwrap();
    assert_eq!(inspection.key_fingerprint, Some(secret().fingerprint()));
    assert_never_in(&path);
}

/// F-155: neither the secret nor a half of it, nor the words that SipHash starts from.
fn assert_never_in(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let half = |at: usize| u64::from_le_bytes(SECRET[8 * at..8 * at + 8].try_into().unwrap());
    let start = [
        0x736f_6d65_7073_6575 ^ half(0),
        0x646f_7261_6e64_6f6d ^ half(1),
        0x6c79_6765_6e65_7261 ^ half(0),
        0x7465_6462_7974_6573 ^ half(1),
    ];
    for word in start.into_iter().chain([half(0), half(1)]) {
        assert!(!bytes.windows(8).any(|bytes| bytes == word.to_le_bytes()), "{word:#x}");
    }
}

#[test]
fn f154_wrong_and_missing_secrets_are_errors_of_opening() {
    let folder = folder();
    let (keyed, unkeyed) = (folder.path().join("keyed"), folder.path().join("unkeyed"));
    plain().key(&secret()).create(&keyed).unwrap().close().unwrap();
    plain().create(&unkeyed).unwrap().close().unwrap();
    let bytes = std::fs::read(&keyed).unwrap();
    let without = [
        Reader::open(&keyed).unwrap_err(),
        Filter::open(&keyed).unwrap_err(),
        Readers::open(&[&keyed]).unwrap_err(),
        Reader::from_bytes(&bytes).unwrap_err(),
        ReadOptions::new().access(Access::Memory).open(&keyed).unwrap_err(),
    ];
    for error in without {
        let Error::KeyNeeded { fingerprint } = error.cause() else { panic!("{error}") };
        assert_eq!(*fingerprint, secret().fingerprint());
        assert!(error.to_string().contains("secret key") && !error.is_damage(), "{error}");
    }
    let wrong = [
        open(&keyed, &other()).unwrap_err(),
        Filter::open_with_key(&keyed, &other()).unwrap_err(),
        Readers::open_with(&[&keyed], &ReadOptions::new().key(&other())).unwrap_err(),
        ReadOptions::new().key(&other()).from_bytes(&bytes).unwrap_err(),
    ];
    for error in wrong {
        let Error::WrongKey { expected, found } = error.cause() else { panic!("{error}") };
        assert_eq!((expected, found), (&secret().fingerprint(), &other().fingerprint()));
    }
    for error in [
        open(&unkeyed, &secret()).unwrap_err(),
        Filter::open_with_key(&unkeyed, &secret()).unwrap_err(),
    ] {
        assert!(matches!(error.cause(), Error::NotKeyed), "{error}");
        assert_eq!(error.path(), Some(&*unkeyed));
    }
    let error = plain().seed(3).key(&secret()).create(folder.path().join("both")).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "seed", .. }), "{error}");
    assert_eq!(std::fs::read(&keyed).unwrap(), bytes, "nothing was changed");
}

#[test]
fn damaged_check_values_and_feature_bits_are_refused() {
    let folder = folder();
    let (path, changed) = (folder.path().join("keyed"), folder.path().join("changed"));
    plain().key(&secret()).create(&path).unwrap().close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let check = field("superblock", "key_check");
    assert_eq!(read(&bytes, field("superblock", "incompatible").offset, 4), 1 << 4);
    assert_eq!(read(&bytes, field("superblock", "hash_id").offset, 4), 2);
    let try_with = |name: &str, value: u64, fix: bool| {
        let mut bytes = bytes.clone();
        let field = field("superblock", name);
        write(&mut bytes, field.offset, field.size, value);
        if fix {
            fix_header(&mut bytes, SUPERBLOCK);
        }
        std::fs::write(&changed, bytes).unwrap();
        open(&changed, &secret()).unwrap_err().into_cause()
    };
    let flipped = read(&bytes, check.offset, check.size) ^ 1;
    assert!(matches!(try_with("key_check", flipped, false), Error::Checksum { .. }));
    assert!(matches!(try_with("key_check", flipped, true), Error::WrongKey { .. }));
    for (name, value) in [("hash_id", 1), ("hash_id", 3), ("hash_seed", 1), ("incompatible", 0)] {
        assert!(matches!(try_with(name, value, true), Error::Field { .. }), "{name} = {value}");
    }
    plain().replace(true).create(&path).unwrap().close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    write(&mut bytes, check.offset, check.size, 1);
    fix_header(&mut bytes, SUPERBLOCK);
    std::fs::write(&changed, bytes).unwrap();
    let error = Reader::open(&changed).unwrap_err().into_cause();
    assert!(matches!(error, Error::Field { field: "key check", .. }), "{error}");
}

/// F-154: none of this hashes, so none of it takes the secret.
#[test]
fn what_needs_no_hashing_needs_no_secret() {
    let folder = folder();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    build(&at("a"), &secret(), 0..1000);
    build(&at("b"), &secret(), 500..1500);
    let check = |path: &Path, keys: std::ops::Range<u32>| {
        let reader = open(path, &secret()).unwrap();
        assert!(keys.map(key).all(|key| reader.contains(key)), "{}", path.display());
        assert!(matches!(Reader::open(path).unwrap_err().cause(), Error::KeyNeeded { .. }));
    };
    SetOperation::new().union(&[at("a"), at("b")], at("union")).unwrap();
    check(&at("union"), 0..1500);
    SetOperation::new().intersection(&[at("a"), at("b")], at("both")).unwrap();
    check(&at("both"), 500..1000);
    let comparison = ops::compare(at("a"), at("b")).unwrap();
    assert!(comparison.parameters.iter().all(|pair| pair.a == pair.b || pair.name != "secret key"));
    assert_eq!(report::inspect(at("a")).unwrap().health, Health::Clean);
    assert!(report::verify(at("a")).unwrap().is_sound());
    assert!(report::block_loads(at("a")).unwrap()[0].blocks > 0);
    let mut explained = String::new();
    report::explain(at("a"), report::Detail::Summary, |part| {
        explained.push_str(&format!("{part:?}"));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert!(explained.contains("key_check"));

    // A damaged page is filled, and all keys stay.
    let mut bytes = std::fs::read(at("a")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes[last - 4095] ^= 4;
    std::fs::write(at("damaged"), bytes).unwrap();
    assert_eq!(ops::repair(at("damaged")).unwrap().pages_repaired.len(), 1);
    check(&at("damaged"), 0..1000);
}

#[test]
fn shrinking_and_exporting_take_no_secret() {
    let folder = folder();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    let options = Options::new().geometry(Geometry::line(8, 64).unwrap()).key(&secret());
    let mut builder = options.start_build(at("large")).unwrap();
    builder.extend((0..500).map(key));
    builder.finish().unwrap();
    SetOperation::new().fold(at("large"), 2, at("small")).unwrap();
    let counting = options.kind(CellKind::Counting).create(at("counting")).unwrap();
    (0..500).for_each(|n| assert!(counting.add(key(n)).is_ok()));
    counting.close().unwrap();
    SetOperation::new().export(at("counting"), at("plain")).unwrap();
    for name in ["small", "plain"] {
        let reader = open(&at(name), &secret()).unwrap();
        assert!((0..500).map(key).all(|key| reader.contains(key)), "{name}");
        assert_eq!(reader.kind(), CellKind::Plain);
    }
}

#[test]
fn files_of_different_secrets_are_not_combined() {
    let folder = folder();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    build(&at("mine"), &secret(), 0..10);
    build(&at("yours"), &other(), 0..10);
    plain().create(at("unkeyed")).unwrap().close().unwrap();
    for second in ["yours", "unkeyed"] {
        let inputs = [at("mine"), at(second)];
        for error in [
            SetOperation::new().union(&inputs, at("result")).unwrap_err(),
            SetOperation::new().intersection(&inputs, at("result")).unwrap_err(),
        ] {
            let Error::Incompatible { parameter, left, .. } = error.cause() else {
                panic!("{error}")
            };
            assert_eq!((*parameter, left), ("secret key", &secret().fingerprint()));
        }
    }
    let filter = Filter::open_with_key(at("mine"), &secret()).unwrap();
    let yours = open(&at("yours"), &other()).unwrap();
    let error = filter.union_from(&yours).unwrap_err();
    assert!(matches!(error.cause(), Error::Incompatible { parameter: "secret key", .. }));
    let growing = |name: &str, key: &Key| {
        let options = Options::new().capacity(50).false_positive_rate(0.1).grow().key(key);
        options.create(at(name)).unwrap().close().unwrap();
    };
    growing("grown", &secret());
    growing("grown too", &other());
    let error =
        SetOperation::new().union(&[at("grown"), at("grown too")], at("result")).unwrap_err();
    assert!(
        matches!(error.cause(), Error::Incompatible { parameter: "secret key", .. }),
        "{error}"
    );
}

/// Look-ups in files larger than the caches hash keys with other instructions, where there are some.
#[test]
fn single_keys_are_found_in_large_files_as_in_batches() {
    let folder = folder();
    let path = folder.path().join("large");
    let options = Options::new().capacity(8_000_000).false_positive_rate(0.01).key(&secret());
    let filter = options.create(&path).unwrap();
    let keys: Vec<String> = (0..2000).map(|number| "k".repeat(number % 80) + &key(7)).collect();
    let added: Vec<String> =
        keys.iter().enumerate().map(|(at, key)| format!("{key}{at}")).collect();
    filter.add_batch(&added).unwrap();
    let hasher = Hasher::keyed(&secret());
    let absent: Vec<String> = added.iter().map(|key| format!("{key}+")).collect();
    filter.checkpoint().unwrap();
    let reader = ReadOptions::new().key(&secret()).verify(true).open(&path).unwrap();
    for (keys, expected) in [(&added, added.len()), (&absent, 0)] {
        let found = keys.iter().filter(|key| reader.contains(key)).count();
        assert!((expected..expected + 60).contains(&found), "{found} of {}", keys.len());
        for key in keys {
            let found = reader.contains_hash(hasher.hash(key));
            assert_eq!((reader.contains(key), filter.contains(key)), (found, found), "{key}");
        }
    }
}

/// A file whose writer crashed after a sync, as a copy made before it closes the file.
fn crash(path: &Path, options: Options, keys: std::ops::Range<u32>) {
    let original = path.with_extension("original");
    let filter = options.create(&original).unwrap();
    keys.for_each(|number| assert!(filter.add(key(number)).is_ok()));
    filter.sync().unwrap();
    std::fs::copy(&original, path).unwrap();
    drop(filter);
    std::fs::remove_file(original).unwrap();
}

#[test]
fn recovery_takes_no_secret_and_a_wrong_one_starts_none() {
    let folder = folder();
    let path = folder.path().join("crashed");
    crash(&path, plain().journal_bytes(1 << 16).key(&secret()), 0..300);
    let bytes = std::fs::read(&path).unwrap();
    let error = Filter::open_with_key(&path, &other()).unwrap_err();
    assert!(matches!(error.cause(), Error::WrongKey { .. }));
    assert!(matches!(Filter::open(&path).unwrap_err().cause(), Error::KeyNeeded { .. }));
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was changed");
    let reader = open(&path, &secret()).unwrap();
    assert!((0..300).map(key).all(|key| reader.contains(key)));
    let recovery = ops::recover(&path).unwrap().unwrap();
    assert!(recovery.records_replayed > 290, "{recovery:?}");
    assert!(ops::recover(&path).unwrap().is_none());
    assert_eq!(report::inspect(&path).unwrap().health, Health::Clean);
    let reader = open(&path, &secret()).unwrap();
    assert!((0..300).map(key).all(|key| reader.contains(key)));
}

#[test]
fn rotating_takes_no_secret() {
    let folder = folder();
    let path = folder.path().join("rotating");
    let filter = plain().generations(2).key(&secret()).create(&path).unwrap();
    filter.add("old").unwrap();
    filter.close().unwrap();
    let outcomes = [0, 1, 2].map(|_| {
        let rotation = ops::rotate(&path).unwrap();
        (rotation.generations, rotation.dropped)
    });
    assert_eq!(outcomes, [(2, false), (2, true), (2, true)]);
    assert!(!open(&path, &secret()).unwrap().contains("old"));
    let fixed = folder.path().join("fixed");
    plain().create(&fixed).unwrap().close().unwrap();
    assert!(matches!(ops::rotate(&fixed).unwrap_err(), Error::Parameter { .. }));
}

/// F-155: with the journal of an unkeyed file in hand, short keys are found by trying; under a secret
/// they are not.
#[test]
fn f155_the_journal_gives_no_keys_away() {
    let folder = folder();
    let path = folder.path().join("crashed");
    for keyed in [false, true] {
        let options = plain().journal_bytes(1 << 16).replace(true);
        let options = if keyed { options.key(&secret()) } else { options };
        crash(&path, options, 100..200);
        let bytes = std::fs::read(&path).unwrap();
        let journal = &bytes[JOURNAL..JOURNAL + (1 << 16)];
        let words: Vec<u64> =
            journal.as_chunks().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        let found = (0..1000).filter(|&n| words.contains(&Hasher::new(0).hash(key(n)))).count();
        assert_eq!(found, if keyed { 0 } else { 100 });
        if keyed {
            // They are there all the same, for those who have it.
            let hasher = Hasher::keyed(&secret());
            assert_eq!((0..1000).filter(|&n| words.contains(&hasher.hash(key(n)))).count(), 100);
            assert_never_in(&path);
        }
    }
}

#[test]
fn many_files_with_different_secrets_are_asked_together() {
    let folder = folder();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    build(&at("mine"), &secret(), 0..10);
    build(&at("mine too"), &secret(), 5..15);
    build(&at("yours"), &other(), 5..15);
    let mut builder = plain().start_build(at("open")).unwrap();
    builder.extend((0..10).map(key));
    builder.finish().unwrap();
    let options = ReadOptions::new().key(&secret());
    let mut readers = Readers::open_with(&[at("mine"), at("mine too")], &options).unwrap();
    readers.push(open(&at("yours"), &other()).unwrap());
    readers.push(Reader::open(at("open")).unwrap());
    assert_eq!(readers.which(key(0)), [0, 3]);
    assert_eq!(readers.which(key(7)), [0, 1, 2, 3]);
    assert_eq!(readers.which(key(12)), [1, 2]);
}

#[test]
fn f152_key_files_are_read_and_made_with_care() {
    let folder = folder();
    let path = folder.path().join("secret.key");
    secret().write_new_file(&path).unwrap();
    assert_eq!(Key::from_file(&path).unwrap().expose_bytes(), &SECRET);
    assert_eq!(std::fs::read(&path).unwrap().len(), 33);
    let error = other().write_new_file(&path).unwrap_err();
    assert!(matches!(error.cause(), Error::KeyFile { reason } if reason.contains("already")));
    assert_eq!(Key::from_file(&path).unwrap().expose_bytes(), &SECRET, "it is still there");

    let text = std::fs::read_to_string(&path).unwrap();
    let cases = [
        (&text[..20], "cut short"),
        ("", "empty"),
        ("no key at all, but something else", "hexadecimal"),
        (&format!("{}00\n", text.trim()), "more"),
        (&"00".repeat(1000), "more"),
    ];
    for (text, reason) in cases {
        std::fs::write(&path, text).unwrap();
        let error = Key::from_file(&path).unwrap_err();
        let Error::KeyFile { reason: said } = error.cause() else { panic!("{error}") };
        assert!(said.contains(reason), "{said}");
        assert_eq!(error.path(), Some(&*path));
    }
    for text in [text.trim().to_owned(), format!("{}\r\n", text.trim().to_uppercase())] {
        std::fs::write(&path, &text).unwrap();
        assert_eq!(Key::from_file(&path).unwrap().expose_bytes(), &SECRET, "{text:?}");
    }
    let missing = Key::from_file(folder.path().join("none")).unwrap_err();
    assert!(matches!(missing.cause(), Error::Io { .. }), "{missing}");
    assert!(Key::from_file(folder.path()).is_err());
}

#[cfg(unix)]
#[test]
fn key_files_of_others_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("secret.key");
    secret().write_new_file(&path).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    for shared in [0o644, 0o640, 0o604, 0o620, 0o666] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(shared)).unwrap();
        let error = Key::from_file(&path).unwrap_err();
        let Error::KeyFile { reason } = error.cause() else { panic!("{error}") };
        assert!(reason.contains(&format!("{shared:04o}")) && reason.contains("0600"), "{reason}");
        assert_eq!(Key::from_shared_file(&path).unwrap().expose_bytes(), &SECRET);
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    assert!(Key::from_file(&path).is_ok());
}

#[test]
fn random_keys_differ_and_show_nothing() {
    let keys: Vec<Key> = (0..100).map(|_| Key::random().unwrap()).collect();
    for (at, key) in keys.iter().enumerate() {
        assert!(keys[..at].iter().all(|before| before.expose_bytes() != key.expose_bytes()));
    }
    let options = format!("{:?} {:?}", plain().key(&secret()), ReadOptions::new().key(&secret()));
    assert!(options.contains(&format!("Key({})", secret().fingerprint())), "{options}");
    let folder = folder();
    let path = folder.path().join("keyed");
    let filter = plain().key(&secret()).create(&path).unwrap();
    let shown = format!("{options} {filter:?} {:?} {:?}", open(&path, &secret()), filter.hasher());
    let hex: String = SECRET.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!shown.contains("a secret") && !shown.contains(&hex) && !shown.contains("159, 97"));
}

/// The same keys and the same secret give the same file, and another secret another one.
#[test]
fn keyed_builds_are_reproducible() {
    let folder = folder();
    let bytes = ["a", "b", "c"].map(|name| {
        let path = folder.path().join(name);
        let secret = if name == "c" { other() } else { secret() };
        build(&path, &secret, 0..500);
        std::fs::read(&path).unwrap()
    });
    assert!(bytes[0] == bytes[1]);
    assert!(bytes[0] != bytes[2]);
}

/// Keys that a file of `capacity` keys under the secret reports, of `asked` absent ones, and how many the
/// formula expects.
fn reported(options: Options, capacity: u32, asked: u32) -> (f64, f64) {
    let folder = folder();
    let path = folder.path().join("filter");
    let options = options.capacity(capacity.into()).false_positive_rate(0.02).key(&secret());
    let geometry = *options.plan().unwrap().geometry();
    let mut builder = options.start_build(&path).unwrap();
    builder.extend((0..capacity).map(key));
    builder.finish().unwrap();
    let reader = open(&path, &secret()).unwrap();
    let found = (0..asked).filter(|n| reader.contains(format!("absent {n}"))).count();
    let formula = bloomfile::plan::false_positive_rate(&geometry, capacity.into());
    (found as f64, formula * f64::from(asked))
}

/// The rate under a secret is that of the formula, in every layout: 3 %, and three deviations of chance.
#[test]
fn the_rate_is_that_of_the_formula() {
    for layout in Layout::BLOOM {
        let (found, expected) = reported(Options::new().layout(layout), 50_000, 500_000);
        let slack = 0.03 * expected + 3.0 * (expected * 0.98).sqrt();
        assert!((found - expected).abs() < slack, "{layout}: {found} and {expected}");
    }
}

/// The same with nothing allowed for chance, which is below 1 % of ten million absent keys: 3 %.
#[test]
#[ignore = "seconds: cargo test --release --test keyed -- --ignored --nocapture"]
fn the_rate_is_within_three_percent_of_the_formula() {
    for layout in Layout::BLOOM {
        let (found, expected) = reported(Options::new().layout(layout), 1_000_000, 10_000_000);
        let off = found / expected - 1.0;
        println!("{layout}: {found} reported, {:+.2} %", 100.0 * off);
        assert!(off.abs() < 0.03, "{layout}: {found} and {expected}");
    }
}
