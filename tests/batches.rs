//! Batches of adds do what adding one by one does.

#![allow(clippy::unwrap_used, reason = "tests")]

use bloomfile::{CellKind, Filter, Options, Reader, geometry::Layout};

/// A key of a set.
fn key(set: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&set.to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

fn new_filter(folder: &tempfile::TempDir, name: &str, layout: Layout) -> Filter {
    let options = Options::new().capacity(20_000).false_positive_rate(0.01).layout(layout);
    options.create(folder.path().join(name)).unwrap()
}

/// The data, which stands at the end of the file.
fn data(folder: &tempfile::TempDir, name: &str, filter: Filter) -> Vec<u8> {
    let bytes = filter.geometry().pages() as usize * 4096;
    filter.close().unwrap();
    let file = std::fs::read(folder.path().join(name)).unwrap();
    file[file.len() - bytes..].to_vec()
}

#[test]
fn a_batch_gives_the_bits_and_the_count_of_adding_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    for layout in Layout::BLOOM {
        // Few keys and many; some more than once, within a batch and between batches.
        for length in [0, 1, 7, 8, 15, 16, 17, 24, 25, 127, 128, 1023, 1024, 1025, 9000] {
            let (one, many) =
                (new_filter(&folder, "one", layout), new_filter(&folder, "many", layout));
            for round in 0..2 {
                let keys: Vec<_> = (0..length).map(|i| key(round, i % 700 + i / 900)).collect();
                let new = keys.iter().filter(|key| one.add(&key[..]).unwrap()).count();
                let what = format!("{layout}, {length} keys, round {round}");
                assert_eq!(many.add_batch(&keys).unwrap(), new as u64, "{what}");
                assert_eq!(many.adds(), one.adds(), "{what}");
                let hashes: Vec<u64> = keys.iter().map(|key| one.hasher().hash(key)).collect();
                assert_eq!(many.add_hash_batch(&hashes).unwrap(), 0, "{what}: nothing is new");
            }
            assert!(data(&folder, "one", one) == data(&folder, "many", many), "{layout} {length}");
            std::fs::remove_file(folder.path().join("one")).unwrap();
            std::fs::remove_file(folder.path().join("many")).unwrap();
        }
    }
}

#[test]
fn batches_of_several_threads_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for layout in [Layout::Line, Layout::Page] {
        let name = layout.to_string();
        let filter = new_filter(&folder, &name, layout);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let filter = &filter;
                scope.spawn(move || {
                    for batch in 0..10 {
                        // Half of the keys are those of another thread too.
                        let keys: Vec<_> =
                            (0..500).map(|i| key(thread / (1 + i % 2), 500 * batch + i)).collect();
                        filter.add_batch(&keys).unwrap();
                        assert!(keys.iter().all(|key| filter.contains(&key[..])));
                    }
                    filter.sync().unwrap();
                });
            }
        });
        let check = |filter: &Filter| {
            for thread in 0..4 {
                for i in 0..5000 {
                    assert!(filter.contains(key(thread / (1 + i % 2), i)), "{layout}");
                }
            }
        };
        check(&filter);
        filter.close().unwrap();
        check(&Filter::open(folder.path().join(name)).unwrap());
    }
}

/// Files of every kind: what a batch adds, removes and finds is what happens one by one, through the
/// writer, through a reader beside it, and through one of the closed file.
#[test]
fn batches_in_every_kind_do_what_single_calls_do() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::new().false_positive_rate(0.01);
    let kinds = |layout| {
        let rotating = options().capacity(400).generations(5).rotate_after(350);
        [
            ("growing", options().capacity(100).grow()),
            ("rotating", rotating.clone()),
            ("counting", options().capacity(2_000).kind(CellKind::Counting)),
            ("growing and counting", options().capacity(100).grow().kind(CellKind::Counting)),
            ("rotating and counting", rotating.kind(CellKind::Counting)),
        ]
        .map(|(kind, options)| (format!("{kind}, {layout}"), options.layout(layout)))
    };
    for (kind, options) in Layout::BLOOM.into_iter().flat_map(kinds) {
        let paths = ["one", "many"].map(|name| folder.path().join(name));
        let [one, many] = paths.clone().map(|path| options.create(path).unwrap());
        let reader = Reader::open(&paths[1]).unwrap();
        let asked: Vec<_> = (0..3_000).map(|number| key(number % 4, number / 3)).collect();
        let agree = |found: &[bool], contains: &dyn Fn(&[u8]) -> bool| {
            asked.iter().zip(found).all(|(key, &found)| contains(key) == found)
        };
        for round in 0..4 {
            // Some of them twice in a batch, and in pieces of several lengths.
            let keys: Vec<_> =
                (0..410 + round).map(|number| key(round, number - number % 7 / 6)).collect();
            let new = keys.iter().filter(|key| one.add(&key[..]).unwrap()).count();
            assert_eq!(many.add_batch(&keys).unwrap(), new as u64, "{kind}");
            if one.kind() == CellKind::Counting && round == 2 {
                let removed: Vec<_> = (0..60).map(|number| key(1, 5 * number)).collect();
                let by_one = removed.iter().map(|key| one.remove(key)).collect::<Vec<_>>();
                let ambiguous = |result: &bloomfile::Result<()>| matches!(result, Err(error) if !matches!(error.cause(), bloomfile::Error::NotPresent));
                if !by_one.iter().any(ambiguous) {
                    let count = by_one.iter().filter(|result| result.is_ok()).count() as u64;
                    assert_eq!(many.remove_batch(&removed).unwrap(), count, "{kind}");
                } else {
                    removed.iter().for_each(|key| drop(many.remove(key)));
                }
            }
            [&one, &many].iter().for_each(|filter| filter.sync().unwrap());
            let mut found = Vec::new();
            many.contains_batch(&asked, &mut found);
            assert!(agree(&found, &|key| one.contains(key)), "{kind}: by the writer");
            reader.contains_batch(&asked, &mut found);
            assert!(agree(&found, &|key| one.contains(key)), "{kind}: by a reader beside it");
            assert_eq!(one.segments(), many.segments(), "{kind}");
        }
        [one, many].into_iter().for_each(|filter| filter.close().unwrap());
        let readers = paths.each_ref().map(|path| Reader::open(path).unwrap());
        let mut found = Vec::new();
        readers[1].contains_batch(&asked, &mut found);
        assert!(agree(&found, &|key| readers[0].contains(key)), "{kind}: of the closed file");
        assert!(found.iter().any(|&found| found) && !found.iter().all(|&found| found));
        paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
