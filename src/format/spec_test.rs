//! format-spec.md against the code: every table of the one is held against the constants of the
//! other, and the worked numbers are worked again.

use super::journal::{COUNTING_RECORD_BYTES, Change, Epoch, RECORD_BYTES, Record};
use super::slot::*;
use super::superblock::*;
use super::table::{ENTRY_BYTES, PageEntry, SHARED_TABLE_BYTES};
use super::*;
use crate::geometry::{
    LANE_MULTIPLIERS, LINE_BLOCK_CELLS, Layout, MAX_CELLS, MAX_ROWS, PAGE_BLOCK_CELLS,
};
use crate::hash::{Hasher, Key};

const SPEC: &str = include_str!("../../format-spec.md");

/// The rows of a table, without its head.
fn table(name: &str) -> Vec<Vec<&'static str>> {
    let title = format!("### Table: {name}\n");
    let (_, rest) = SPEC.split_once(&title).unwrap_or_else(|| panic!("no table {name}"));
    let rows: Vec<Vec<&str>> = rest
        .trim_start()
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(!rows.is_empty(), "table {name} is empty");
    rows
}

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(", ").map(number).collect()
}

/// The tables of superblock and slot, and those of F-25, F-60, F-70 and F-183.
#[test]
fn fields_are_those_of_the_code() {
    let structures: [(&str, &'static [Field], usize); 7] = [
        #[cfg(feature = "files")]
        ("part header", &fields::PART_FIELDS, SUPERBLOCK_BYTES),
        ("superblock", &SUPERBLOCK_FIELDS, SUPERBLOCK_BYTES),
        ("slot", &SLOT_FIELDS, SLOT_BYTES),
        ("segment", &SEGMENT_FIELDS, SEGMENT_BYTES),
        ("entry", &ENTRY_FIELDS, ENTRY_BYTES),
        ("record", &RECORD_FIELDS, RECORD_BYTES as usize),
        ("counting record", &COUNTING_RECORD_FIELDS, COUNTING_RECORD_BYTES as usize),
    ];
    for (name, fields, length) in structures {
        let stated = table(name);
        let fields: Vec<(&Field, usize)> = with_ends(fields, length).collect();
        assert_eq!(stated.len(), fields.len(), "{name}");
        for (row, (field, end)) in stated.iter().zip(fields) {
            assert_eq!(row[2], field.name, "{name}");
            assert_eq!(number(row[0]), field.offset as u64, "{name}: {}", field.name);
            assert_eq!(number(row[1]), (end - field.offset) as u64, "{name}: {}", field.name);
            assert_eq!(row[3].replace('`', ""), field.meaning, "{name}: {}", field.name);
        }
    }
    let entry = PageEntry { crc: 0x0403_0201, ones: 0x0807_0605 };
    assert_eq!(entry.encode(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[cfg(feature = "digest")]
#[test]
fn f161_and_f164_fields_of_deltas_are_those_of_the_code() {
    use super::delta::{CHUNK_FIELDS, DELTA_FIELDS, DELTA_MAGIC, DELTA_VERSION, MAX_PAYLOAD_BYTES};
    type Structure = (&'static str, &'static [(&'static str, usize)], usize);
    let structures: [Structure; 2] =
        [("delta header", &DELTA_FIELDS, FIRST_BYTES), ("chunk", &CHUNK_FIELDS, CHUNK_HEAD_BYTES)];
    for (name, fields, length) in structures {
        let ends = fields[1..].iter().map(|field| field.1).chain([length]);
        let fields: Vec<(&str, u64, u64)> = fields
            .iter()
            .zip(ends)
            .map(|(&(name, offset), end)| (name, offset as u64, (end - offset) as u64))
            .collect();
        let stated: Vec<(&str, u64, u64)> =
            table(name).iter().map(|row| (row[2], number(row[0]), number(row[1]))).collect();
        assert_eq!(stated, fields, "{name}");
    }
    let magic: Vec<String> = DELTA_MAGIC.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(table("delta header")[0][3], format!("`{}`", magic.join(" ")));
    assert_eq!(table("delta header")[1][3], DELTA_VERSION.to_string());
    assert_eq!(MAX_PAYLOAD_BYTES, 4_202_496);
    assert!(SPEC.contains("at most 4,202,496"));
    assert!(SPEC.contains("in *chunks* of 1,024 pages") && CHUNK_PAGES == 1_024);
}

#[test]
fn constants_are_those_of_the_code() {
    let constants = [
        ("format_version", FORMAT_VERSION.into()),
        ("page_bytes", PAGE_BYTES),
        ("superblock_bytes", SUPERBLOCK_BYTES as u64),
        ("slot_bytes", SLOT_BYTES as u64),
        ("slot_0_offset", SLOT_OFFSETS[0]),
        ("slot_1_offset", SLOT_OFFSETS[1]),
        ("journal_offset", JOURNAL_OFFSET),
        ("segment_record_bytes", SEGMENT_BYTES as u64),
        ("max_segments", MAX_SEGMENTS as u64),
        ("max_metadata_bytes", METADATA_BYTES as u64),
        ("max_journal_bytes", MAX_JOURNAL_BYTES),
        ("max_count", MAX_COUNT),
        ("max_rows", MAX_ROWS.into()),
        ("max_cells", MAX_CELLS),
        ("page_block_cells", PAGE_BLOCK_CELLS),
        ("line_block_cells", LINE_BLOCK_CELLS),
        ("hash_seahash", HASH_SEAHASH.into()),
        ("hash_siphash", HASH_SIPHASH.into()),
        ("layout_rows", layout_id(Layout::Rows).into()),
        ("layout_flat", layout_id(Layout::Flat).into()),
        ("layout_page", layout_id(Layout::Page).into()),
        ("layout_line", layout_id(Layout::Line).into()),
        ("layout_sealed", layout_id(Layout::Sealed).into()),
        ("state_clean", state_id(State::Clean).into()),
        ("state_open", state_id(State::Open).into()),
        ("table_entry_bytes", ENTRY_BYTES as u64),
        ("shared_table_bytes", SHARED_TABLE_BYTES),
        ("journal_step", JOURNAL_STEP),
        ("journal_record_bytes", RECORD_BYTES),
        ("counting_record_bytes", COUNTING_RECORD_BYTES),
    ];
    let stated: Vec<(&str, u64)> =
        table("constants").iter().map(|row| (row[0], number(row[1]))).collect();
    assert_eq!(stated, constants);
}

#[test]
fn f11_and_f21_magics_are_those_of_the_code() {
    for (name, magic) in [("superblock", MAGIC), ("slot", SLOT_MAGIC)] {
        let bytes: Vec<String> = magic.iter().map(|byte| format!("{byte:02X}")).collect();
        let stated = table(name)[0][3];
        assert!(stated.starts_with(&format!("`{}`", bytes.join(" "))), "{name}: {stated}");
    }
}

#[test]
fn f43_hashes() {
    for row in table("hashes") {
        let (key, seed) = (row[0].trim_matches('`'), number(row[1]));
        assert_eq!(Hasher::new(seed).hash(key.as_bytes()), number(row[2]), "{row:?}");
    }
}

#[test]
fn f150_to_f153_keyed_hashes() {
    let key = Key::from_bytes(std::array::from_fn(|at| at as u8));
    let hasher = Hasher::keyed(&key);
    for row in table("keyed hashes") {
        let text = row[0].trim_matches('`');
        assert_eq!(hasher.hash(text.as_bytes()), number(row[1]), "{row:?}");
    }
    let check = format!("`key_check` is {:#018x}", key.check());
    let fingerprint = format!("its fingerprint {}.", key.fingerprint());
    let hash = hasher.hash(b"bloomfile");
    let geometry = Geometry::line(8, 100).unwrap();
    let list = |of: &dyn Fn(u32) -> u64| {
        (0..8).map(|row| of(row).to_string()).collect::<Vec<_>>().join(", ")
    };
    let block = format!("falls into block {}, on the cells", geometry.block(hash));
    let cells = list(&|row| geometry.cell(hash, row));
    let addresses = list(&|row| geometry.address(hash, row));
    for stated in [check, fingerprint, block, cells, addresses] {
        assert!(SPEC.contains(&stated), "{stated}");
    }
}

#[test]
fn f55_multipliers() {
    let stated: Vec<u64> = table("multipliers")
        .iter()
        .flat_map(|row| row[1..].iter().map(|text| number(text)))
        .collect();
    assert_eq!(stated, LANE_MULTIPLIERS.map(u64::from));
}

#[test]
fn f56_worked_numbers() {
    let hash = Hasher::new(0).hash(b"bloomfile");
    let mut layouts = Vec::new();
    for row in table("worked") {
        let layout: Layout = row[0].parse().unwrap();
        layouts.push(layout);
        let [rows, blocks, row_cells, block] = [1, 2, 3, 4].map(|at| number(row[at]));
        let geometry = Geometry::new(layout, rows as u32, blocks, row_cells).unwrap();
        assert_eq!(geometry.block(hash), block, "{row:?}");
        let all = |of: &dyn Fn(u32) -> u64| (0..geometry.row_count()).map(of).collect::<Vec<_>>();
        assert_eq!(all(&|row| geometry.cell(hash, row)), numbers(row[5]), "{row:?}");
        assert_eq!(all(&|row| geometry.address(hash, row)), numbers(row[6]), "{row:?}");
        let counters = geometry.with_cells(CellKind::Counting);
        assert_eq!(all(&|row| counters.address(hash, row)), numbers(row[7]), "{row:?}");
    }
    // Sealed pages have no cells: their worked numbers are in a table of their own (F-149).
    layouts.push(Layout::Sealed);
    assert!(Layout::ALL.iter().all(|layout| layouts.contains(layout)));
}

#[test]
fn f61_and_f72_examples() {
    let entry = PageEntry::empty();
    let sentence = format!("is CRC {:#010x}, ones {}", entry.crc, entry.ones);
    assert!(SPEC.contains(&sentence), "{sentence}");
    let epoch = Epoch::plain(7, 0x5a17, 8);
    let hash = 0x9322_d68f_0acb_be55;
    let mut change = Change::new(hash, 2, false);
    [1, 0, 3].into_iter().zip(0..).for_each(|(old, row)| change.set_old(row, old));
    for (epoch, index, record) in [
        (epoch, 3, Record::Key { hash, mask: 0b1011 }),
        (epoch, 4, Record::Sync { mark: 42 }),
        (epoch, 0, Record::Note { count: 0 }),
        (Epoch::counting(7, 0x5a17), 1, Record::Change(change)),
    ] {
        let last = epoch.encode(index, record)[epoch.record_words() - 1];
        assert!(SPEC.contains(&format!("{last:#018x}")), "record {index}: {last:#018x}");
    }
}

/// A citation of a rule that is not there is of no help.
#[test]
fn every_rule_is_stated_once() {
    let rules = |text: &'static str| -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix("- **F-"))
            .filter_map(|line| line.split_once("**").map(|(rule, _)| rule))
            .collect()
    };
    let stated = rules(SPEC);
    assert!(stated.len() > 80, "{stated:?}");
    for section in SPEC.split("\n## ") {
        assert!(rules(section).is_sorted_by_key(|rule| number(rule)), "rules stand in order");
    }
    let mut sorted: Vec<u64> = stated.iter().map(|rule| number(rule)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), stated.len(), "a number is used twice");
    for (path, text) in sources(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))) {
        for (at, _) in text.match_indices("F-").filter(|(at, _)| !text[..*at].ends_with("UT")) {
            let digits: String = text[at + 2..].chars().take_while(char::is_ascii_digit).collect();
            if let Ok(rule) = digits.parse::<u64>() {
                assert!(sorted.contains(&rule), "{} cites F-{rule}", path.display());
            }
        }
    }
}

/// All source files of this crate.
fn sources(folder: &std::path::Path) -> Vec<(std::path::PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.join("src"), folder.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files
}
