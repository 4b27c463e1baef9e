//! Superblock, slots and page tables (sections 1 to 4 and 7).

use bloomfile::{CellKind, Error, Filter, Options, Reader, WhenFull, ops, report::verify};

use crate::*;

#[test]
fn f1_numbers_are_little_endian() {
    let bytes = sample("growing").bytes();
    assert_eq!(bytes[8..12], [1, 0, 0, 0], "version");
    assert_eq!(bytes[12..16], [0, 16, 0, 0], "page_size");
    assert_eq!(bytes[64..72], [0, 64, 0, 0, 0, 0, 0, 0], "journal_bytes");
    assert_eq!(bytes[72..80], 0.01f64.to_bits().to_le_bytes(), "target_rate");
    assert_eq!(bytes[80..88], [100, 0, 0, 0, 0, 0, 0, 0], "capacity");
}

/// Whatever there is starts on a page (F-2), where F-3, F-28 and F-29 say, is as long as F-57 says, and
/// nothing is between.
#[test]
fn f2_and_f3_and_f28_and_f29_where_things_are() {
    for sample in samples() {
        let (name, bytes) = (sample.name, sample.bytes());
        let slot = newest_slot(&bytes);
        let base = JOURNAL + number(&bytes, "superblock", 0, "journal_bytes") as usize;
        let extents = extents(&bytes);
        let file_bytes = number(&bytes, "slot", slot, "file_bytes") as usize;
        assert_eq!(extents.len() as u64, number(&bytes, "slot", slot, "segment_count"), "{name}");
        assert_eq!(file_bytes, bytes.len(), "{name}");
        for (part, (offset, _)) in parts(&bytes).into_iter().zip(&extents) {
            for start in [*offset, part.data] {
                assert!(start.is_multiple_of(PAGE), "{name}: {start}");
            }
        }
        if name == "rotating" {
            let length = extents[0].1;
            let region = |offset: usize| (offset - base) / length;
            for pair in extents.windows(2) {
                assert_eq!(region(pair[1].0), (region(pair[0].0) + 1) % 4, "{extents:?}");
            }
            assert!(extents.iter().all(|extent| (extent.0 - base).is_multiple_of(length)));
            assert_eq!(file_bytes, base + 4 * length);
            continue;
        }
        assert_eq!(extents.len() > 1, name.contains("growing"), "{name}: {extents:?}");
        let mut end = base;
        for (offset, length) in extents {
            assert_eq!(offset, end, "{name}");
            end = offset + length;
        }
        assert_eq!(file_bytes, end, "{name}");
    }
}

/// Nothing that happens to a file changes its superblock.
#[test]
fn f10_the_superblock_is_written_once() {
    for (name, options) in kinds() {
        let (sample, filter) = written(name, &options);
        let superblock = sample.bytes()[..PAGE].to_vec();
        let unchanged = |what| assert!(sample.bytes()[..PAGE] == superblock, "{name}: {what}");
        filter.set_metadata("a", Some("pair")).unwrap();
        filter.checkpoint().unwrap();
        add(&filter, 1_000..1_400);
        filter.sync_with_mark(3).unwrap();
        if name == "rotating" {
            filter.rotate().unwrap();
        }
        unchanged("written");
        // As if it had been killed: recovered, and then damaged and repaired.
        let live = sample.bytes();
        filter.close().unwrap();
        unchanged("closed");
        std::fs::write(sample.path(), live).unwrap();
        Filter::open(sample.path()).unwrap().close().unwrap();
        unchanged("recovered");
        let mut bytes = sample.bytes();
        let data = parts(&bytes)[0].data;
        bytes[data] ^= 1;
        std::fs::write(sample.path(), bytes).unwrap();
        assert!(ops::repair(sample.path()).unwrap().found_damage(), "{name}");
        unchanged("repaired");
    }
}

/// Values that the rules forbid are refused by readers and writers.
#[test]
fn f13_and_f15_and_f16_and_f17_forbidden_values_of_the_superblock() {
    let (line, growing, counting) = (sample("line"), sample("growing"), sample("counting"));
    for (sample, name, value) in [
        (&line, "page_size", 8192),
        (&line, "page_size", 0),
        (&line, "cell_bits", 4),
        (&line, "cell_bits", 2),
        (&counting, "cell_bits", 1),
        (&line, "when_full", 2),
        (&line, "when_full", 3),
        (&growing, "when_full", 0),
        (&growing, "when_full", 1),
        (&growing, "capacity", 0),
        (&line, "target_rate", 1f64.to_bits()),
        (&line, "target_rate", (-0.5f64).to_bits()),
        (&line, "target_rate", f64::NAN.to_bits()),
        (&line, "journal_bytes", 4096),
        (&line, "journal_bytes", 16384 + 8),
        (&line, "journal_bytes", (1 << 30) + 8192),
        (&line, "hash_id", 3),
    ] {
        let bytes = with(&sample.bytes(), "superblock", 0, name, value);
        for error in [sample.read(&bytes), sample.write(&bytes)] {
            let error = error.expect_err(name);
            assert!(matches!(error, Error::Field { .. }), "{name} = {value}: {error}");
        }
    }
    let full_at_none = with(&line.bytes(), "superblock", 0, "when_full", 1);
    let error = line.read(&full_at_none).unwrap_err();
    assert!(matches!(error, Error::Field { field: "capacity", .. }), "{error}");
    // The same fields with other values that are allowed.
    for (name, value) in [("target_rate", 0.25f64.to_bits()), ("capacity", 7)] {
        let bytes = with(&line.bytes(), "superblock", 0, name, value);
        assert!(line.read(&bytes).is_ok() && line.write(&bytes).is_ok(), "{name} = {value}");
    }
}

/// What an add does once the newest segment is full.
#[test]
fn f16_what_happens_when_a_file_is_full() {
    let options = || Options::new().capacity(50).false_positive_rate(0.001);
    let folder = tempfile::tempdir().unwrap();
    let added = |name: &str, options: Options| {
        let path = folder.path().join(name);
        let filter = options.create(&path).unwrap();
        let last = (0..500).map(|number| filter.add(key(number))).find_map(Result::err);
        filter.close().unwrap();
        let bytes = std::fs::read(path).unwrap();
        (last.map(Error::into_cause), parts(&bytes).len())
    };
    assert!(matches!(added("allow", options()), (None, 1)));
    let refuse = options().when_full(WhenFull::Refuse);
    assert!(matches!(added("refuse", refuse), (Some(Error::Full { .. }), 1)));
    assert!(matches!(added("grow", options().grow()), (None, 2..)));
    let rotates = options().generations(2).rotate_after(50);
    assert!(matches!(added("rotate", rotates), (None, 2)));
    // Files of other programs: one that rotates is never full, unless it waits to be told.
    for (name, full) in [("rotate", false), ("told", true)] {
        let path = folder.path().join(name);
        if full {
            options().generations(2).create(&path).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, with(&bytes, "superblock", 0, "when_full", 1)).unwrap();
        let filter = Filter::open(&path).unwrap();
        let error = (1_000..1_500).map(|number| filter.add(key(number))).find_map(Result::err);
        assert_eq!(
            matches!(error.map(Error::into_cause), Some(Error::Full { .. })),
            full,
            "{name}"
        );
        filter.rotate().unwrap();
        assert!(filter.add(key(2_000)).unwrap(), "{name}");
    }
}

#[test]
fn f17_every_kind_does_without_a_journal() {
    for (name, options) in kinds() {
        let sample = closed(name, &options.journal_bytes(0));
        let first = if name == "rotating" { 100 } else { 0 };
        let filter = Filter::open(sample.path()).unwrap();
        add(&filter, 300..320);
        filter.sync_with_mark(9).unwrap();
        let killed = sample.bytes();
        filter.close().unwrap();
        assert_eq!(number(&killed, "superblock", 0, "journal_bytes"), 0, "{name}");
        std::fs::write(sample.path(), killed).unwrap();
        let filter = Filter::open(sample.path()).unwrap();
        assert!((first..320).all(|number| filter.contains(key(number))), "{name}");
        assert_eq!(filter.mark(), 9, "{name}");
    }
}

#[test]
fn f18_unknown_features() {
    let sample = sample("line");
    let bytes = sample.bytes();
    let feature = |name, bit: u32| with(&bytes, "superblock", 0, name, 1 << bit);
    for bit in [5, 17, 31] {
        let unknown = feature("incompatible", bit);
        for error in [sample.read(&unknown), sample.write(&unknown)] {
            assert!(matches!(error, Err(Error::Features { read_only: false, .. })), "{bit}");
        }
        let unknown = feature("read_only_compatible", bit);
        assert!(sample.read(&unknown).is_ok(), "{bit}");
        let error = sample.write(&unknown);
        assert!(matches!(error, Err(Error::Features { read_only: true, .. })), "{bit}: {error:?}");
        let unknown = feature("compatible", bit);
        assert!(sample.read(&unknown).is_ok() && sample.write(&unknown).is_ok(), "{bit}");
    }
    // Those that are known, where they do not belong together.
    for bits in [0b110, 0b1001] {
        let both = with(&bytes, "superblock", 0, "incompatible", bits);
        assert!(sample.read(&both).is_err(), "{bits:b}");
    }
}

#[test]
fn f19_reserved_bytes_are_zero() {
    let sample = sample("line");
    let bytes = sample.bytes();
    let slot = newest_slot(&bytes);
    let superblock = ["generations", "rotate_after", "key_check"]
        .map(|name| field("superblock", name).offset)
        .into_iter()
        .chain([112, 2000, 4091])
        .map(|at| (0, at));
    let metadata = field("slot", "metadata").offset;
    let in_slot = [60, 120, SEGMENT_RECORDS + 64, metadata - 1, metadata, 4091];
    for (start, at) in superblock.chain(in_slot.map(|at| (slot, at))) {
        let mut other = bytes.clone();
        other[start + at] = 1;
        fix_header(&mut other, start);
        assert!(sample.read(&other).is_err(), "{start} + {at}");
        assert!(sample.write(&other).is_err(), "{start} + {at}");
        // A feature that this program does not know may own what is named reserved.
        let owned = with(&other, "superblock", 0, "compatible", 1 << 9);
        if at == 120 || start == 0 && at >= 112 {
            assert!(sample.read(&owned).is_ok(), "{start} + {at}");
        }
    }
}

/// Each of two slots is enough to know the state.
#[test]
fn f20_a_slot_is_a_copy_of_the_state() {
    let sample = Sample { folder: tempfile::tempdir().unwrap(), name: "built" };
    let options = Options::new().capacity(100).false_positive_rate(0.01).metadata("a", "b");
    let mut builder = options.start_build(sample.path()).unwrap();
    (0..100).for_each(|number| assert!(builder.add(key(number))));
    builder.finish().unwrap();
    for slot in SLOTS {
        let mut bytes = sample.bytes();
        bytes[slot..slot + PAGE].fill(0xff);
        let reader = Reader::from_bytes(&bytes).unwrap();
        assert!((0..100).all(|number| reader.contains(key(number))));
        assert_eq!(reader.metadata()["a"], "b");
        assert_eq!(reader.capacity(), Some(100));
    }
}

#[test]
fn f22_clean_and_open() {
    for (name, options) in kinds() {
        let (sample, filter) = written(name, &options);
        let state = |bytes: &[u8]| number(bytes, "slot", newest_slot(bytes), "state");
        assert_eq!(state(&sample.bytes()), 2, "{name}");
        filter.close().unwrap();
        let bytes = sample.bytes();
        assert_eq!(state(&bytes), 1, "{name}");
        let journal = number(&bytes, "superblock", 0, "journal_bytes") as usize;
        assert!(bytes[JOURNAL..JOURNAL + journal].iter().all(|&byte| byte == 0), "{name}");
        // The tables describe the data exactly: they are what one makes of the data.
        let mut again = bytes.clone();
        for part in parts(&bytes) {
            fix_entries_of(&mut again, part);
            fix_record_of(&mut again, part);
        }
        assert!(again == bytes, "{name}");
    }
}

/// Oldest first; adds go to the last.
#[test]
fn f24_and_f25_segment_records() {
    let sample = sample("growing");
    let before = sample.bytes();
    let of = |bytes: &[u8], part: &Part, name| number(bytes, "segment", part.record, name);
    let all = parts(&before);
    assert!(all.len() > 1, "{all:?}");
    let slot = newest_slot(&before);
    for (index, part) in all.iter().enumerate() {
        assert_eq!(part.record, slot + 128 + 64 * index);
        assert_eq!(of(&before, part, "capacity"), 100 << index);
        let table = &before[part.table..][..part.table_bytes];
        assert_eq!(of(&before, part, "table_crc"), u64::from(crc32fast::hash(table)));
        let ones: u32 =
            before[part.data..][..part.pages * PAGE].iter().map(|b| b.count_ones()).sum();
        assert_eq!(of(&before, part, "ones"), u64::from(ones));
    }
    let adds: u64 = all.iter().map(|part| of(&before, part, "adds")).sum();
    assert!((290..=300).contains(&adds), "{adds}");
    let filter = Filter::open(sample.path()).unwrap();
    add(&filter, 5_000..5_020);
    filter.close().unwrap();
    let after = sample.bytes();
    let now = parts(&after);
    let newest = now.len() - 1;
    for (index, (old, new)) in all.iter().zip(&now).enumerate() {
        let data = |bytes: &[u8], part: &Part| bytes[part.data..][..part.pages * PAGE].to_vec();
        let changed = data(&before, old) != data(&after, new);
        assert_eq!(changed, index == newest, "segment {index} of {}", now.len());
        assert_eq!(of(&before, old, "adds") != of(&after, new, "adds"), changed);
    }
    assert!(of(&after, &now[newest], "adds") >= 18);
}

#[test]
fn f27_metadata() {
    let sample = sample("line");
    let filter = Filter::open(sample.path()).unwrap();
    filter.set_metadata("zoë", Some("last")).unwrap();
    filter.set_metadata("a", Some("")).unwrap();
    filter.close().unwrap();
    let bytes = sample.bytes();
    let slot = newest_slot(&bytes);
    let pairs = "\x01\0a\0\0\x04\0zoë\x04\0last".as_bytes();
    let metadata = field("slot", "metadata");
    let stored = &bytes[slot + metadata.offset..][..metadata.size];
    assert_eq!(&stored[..pairs.len()], pairs);
    assert!(stored[pairs.len()..].iter().all(|&byte| byte == 0));
    assert_eq!(number(&bytes, "slot", slot, "metadata_length"), pairs.len() as u64);
    let put = |pairs: &[u8]| {
        let mut other = bytes.clone();
        let place = slot + metadata.offset;
        other[place..place + metadata.size].fill(0);
        other[place..place + pairs.len()].copy_from_slice(pairs);
        let other = with(&other, "slot", slot, "metadata_length", pairs.len() as u64);
        sample.read(&other)
    };
    assert!(put(pairs).is_ok());
    for (what, pairs) in [
        ("not sorted", &b"\x01\0b\0\0\x01\0a\0\0"[..]),
        ("twice", b"\x01\0a\0\0\x01\0a\0\0"),
        ("an empty key", b"\0\0\x01\0v"),
        ("no UTF-8", b"\x01\0\xff\0\0"),
        ("cut short", b"\x01\0a\x05\0v"),
        ("too long", b"\x01\0a\0\0v"),
    ] {
        assert!(put(pairs).is_err(), "{what}");
    }
}

/// Of several things that are wrong, the first in the order of the rule is told.
#[test]
fn f30_the_order_of_checks() {
    type Defect = (&'static str, fn(&mut Vec<u8>), fn(&Error) -> bool);
    let sample = sample("line");
    let set = |bytes: &mut Vec<u8>, name: &str, value| {
        *bytes = with(bytes, "superblock", 0, name, value);
    };
    // Checksums of the superblock are made right by each that changes it, so the last is made first.
    let defects: [Defect; 9] = [
        ("magic", |bytes| bytes[1] = b'?', |e| matches!(e, Error::NotABloomfile { .. })),
        ("short", |bytes| bytes.truncate(JOURNAL - 1), |e| matches!(e, Error::Length { .. })),
        ("crc", |bytes| bytes[4092] ^= 1, |e| matches!(e, Error::Checksum { .. })),
        ("version", |_| (), |e| matches!(e, Error::Version { .. })),
        ("features", |_| (), |e| matches!(e, Error::Features { .. })),
        ("field", |_| (), |e| matches!(e, Error::Field { field: "page size", .. })),
        ("slots", |bytes| bytes[4096..12288].fill(1), |e| matches!(e, Error::NoSlot)),
        ("length", |bytes| bytes.extend([0; 512]), |e| matches!(e, Error::Length { .. })),
        (
            "table",
            |bytes| {
                let table = segment(bytes).table;
                bytes[table] ^= 1;
            },
            |e| matches!(e, Error::PageTable { .. }),
        ),
    ];
    for first in 0..defects.len() {
        let mut bytes = sample.bytes();
        for (name, defect, _) in defects[first..].iter().rev() {
            defect(&mut bytes);
            match *name {
                "version" => set(&mut bytes, "version", 2),
                "features" => set(&mut bytes, "incompatible", 1 << 20),
                "field" => set(&mut bytes, "page_size", 512),
                _ => {}
            }
        }
        let (name, _, told) = defects[first];
        for error in [sample.read(&bytes), sample.write(&bytes)] {
            let error = error.expect_err(name);
            assert!(told(&error), "{name}: {error}");
        }
    }
}

#[test]
fn f33_offsets_and_lengths() {
    for sample in samples() {
        let (name, bytes) = (sample.name, sample.bytes());
        let slot = newest_slot(&bytes);
        let last = parts(&bytes).pop().unwrap();
        let mut others = Vec::new();
        for change in [4096, 1 << 40] {
            let more = |structure, start, name| {
                with(
                    &bytes,
                    structure,
                    start,
                    name,
                    number(&bytes, structure, start, name) + change,
                )
            };
            others.push(("offset", more("segment", last.record, "offset")));
            others.push(("file_bytes", more("slot", slot, "file_bytes")));
            others.push(("ones", with(&bytes, "segment", last.record, "ones", 1 << 52)));
        }
        others.push(("cut", bytes[..bytes.len() - 1].to_vec()));
        for (what, other) in others {
            assert!(sample.read(&other).is_err(), "{name}: {what}");
            assert!(sample.write(&other).is_err(), "{name}: {what}");
        }
    }
}

#[test]
fn f36_page_tables() {
    for sample in samples() {
        let (name, bytes) = (sample.name, sample.bytes());
        for part in parts(&bytes) {
            let mut flipped = bytes.clone();
            flipped[part.table + 1] ^= 4;
            let error = sample.read(&flipped).unwrap_err();
            let told = matches!(error, Error::PageTable { .. } | Error::PageEntry { .. });
            assert!(told, "{name}: {error}");
            let ones = number(&bytes, "segment", part.record, "ones");
            let other = with(&bytes, "segment", part.record, "ones", ones + 1);
            assert!(sample.read(&other).is_err(), "{name}: a wrong sum");
            assert!(sample.write(&other).is_err(), "{name}: a wrong sum");
        }
    }
}

/// The table that does not count may hold anything, and is written over when it is needed.
#[test]
fn f62_the_other_table_is_scratch() {
    for sample in samples() {
        let (name, mut bytes) = (sample.name, sample.bytes());
        for ((offset, _), part) in extents(&bytes).into_iter().zip(parts(&bytes)) {
            let other = 2 * offset + part.table_bytes - part.table;
            bytes[other..other + part.table_bytes].fill(0xa5);
        }
        std::fs::write(sample.path(), &bytes).unwrap();
        assert!(verify(sample.path()).unwrap().is_sound(), "{name}");
        let filter = Filter::open(sample.path()).unwrap();
        add(&filter, 900..930);
        filter.close().unwrap();
        assert!(verify(sample.path()).unwrap().is_sound(), "{name}");
    }
}

/// The ones of a row are the sum of entries, because each row starts on a page.
#[test]
fn f63_the_table_tells_the_fill_of_each_row() {
    let sample = sample("rows");
    let bytes = sample.bytes();
    let part = parts(&bytes)[0];
    let pages = part.pages / part.rows;
    for row in 0..part.rows {
        let entries = row * pages..(row + 1) * pages;
        let told: u64 = entries.map(|page| read(&bytes, part.table + 8 * page + 4, 4)).sum();
        let data = &bytes[part.data + row * pages * PAGE..][..pages * PAGE];
        let ones: u32 = data.iter().map(|byte| byte.count_ones()).sum();
        // Each of 300 keys takes a cell of each row, and few take the same one.
        assert!((280..=300).contains(&ones), "row {row}: {ones}");
        assert_eq!(told, u64::from(ones), "row {row}");
    }
}

/// Versions that are not known are refused, those that were ever written are read.
#[test]
fn f121_versions() {
    let sample = sample("line");
    for version in [0, 2, 3, u64::from(u32::MAX)] {
        let bytes = with(&sample.bytes(), "superblock", 0, "version", version);
        let error = sample.read(&bytes).unwrap_err();
        assert!(matches!(error, Error::Version { .. }), "{version}: {error}");
    }
    let golden = std::fs::read_dir(source().join("tests/golden")).unwrap();
    let files = golden.map(|entry| entry.unwrap().path());
    let mut plain = 0;
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "bloom")) {
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(number(&bytes, "superblock", 0, "version"), 1);
        let keyed = number(&bytes, "superblock", 0, "hash_id") == 2;
        assert_eq!(sample.read(&bytes).is_ok(), !keyed, "{}", path.display());
        plain += usize::from(!keyed);
    }
    assert!(plain > 8, "{plain}");
}

/// A counting file is told by its feature bit, and no other has cells of 4 bits.
#[test]
fn f15_the_width_of_cells_goes_with_the_feature() {
    for (name, options) in kinds() {
        let sample = closed(name, &options);
        let bytes = sample.bytes();
        let counting = Reader::from_bytes(&bytes).unwrap().kind() == CellKind::Counting;
        let bits = if counting { 4 } else { 1 };
        assert_eq!(number(&bytes, "superblock", 0, "cell_bits"), bits, "{name}");
        let feature = number(&bytes, "superblock", 0, "incompatible") & 1;
        assert_eq!(feature == 1, counting, "{name}");
    }
}
