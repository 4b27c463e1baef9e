//! The worked numbers of the specification (F-149).

use super::{in_map, reference};
use crate::geometry::PAGE_BYTES;
use crate::hash::Hasher;
use crate::kernel::sealed::Kernel;
use crate::kernel::sealed::{PageOutcome, Scratch, build_page};
use crate::sealed::header::Header;
use crate::sealed::*;

const SPEC: &str = include_str!("../../../../format-spec.md");

/// The rows of a table of the specification.
fn spec_table(name: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = SPEC.split_once(&format!("### Table: {name}\n")).unwrap();
    let rows = rest.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn number(text: &str) -> u64 {
    let text = text.replace(',', "");
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// The page's header as the specification draws it (F-141).
#[test]
fn f141_fields_of_a_page() {
    let rows = spec_table("sealed page");
    let fields: Vec<(u64, u64)> = rows.iter().map(|row| (number(row[0]), number(row[1]))).collect();
    assert_eq!(fields, [(0, 2), (2, 1), (3, 17), (20, 4076)]);
    assert_eq!(crate::sealed::header::BENDS_OFFSET, 3);
    assert_eq!(crate::sealed::header::HEADER_BYTES, 20);
}

fn value(key: &[u8]) -> u64 {
    value_of(Hasher::new(0).hash(key))
}

/// The page of the numbers below one, as 8 bytes each, out of one page.
fn page_of_numbers(keys: u64, kernel: Kernel) -> (PageOutcome, PageBytes) {
    let mut values: Vec<u64> = (0..keys).map(|key| value(&key.to_le_bytes())).collect();
    let mut page = [0; PAGE_BYTES as usize];
    (build_page(&mut values, &mut Scratch::with_kernel(kernel), &mut page), page)
}

#[test]
fn f143_and_f149_a_value_and_its_row() {
    let value = value(b"bloomfile");
    assert_eq!(value, 0x0791_ccdc_9b35_11d6);
    assert_eq!(row_of(value), 0xc527_00bf_6667_eb5d);
    assert_eq!(fingerprint_of(value), 0x9b35_11d6);
}

/// Keys, blocks, columns, the first block that has one more, bandings, CRC-32 of the page.
#[test]
fn f149_pages_of_numbers() {
    let table = spec_table("worked sealed");
    assert_eq!(table.len(), 5);
    let worked = [
        (0, 0, 0, 0, 0, 0xc71c_0011),
        (100, 32, 31, 5, 1, 0x7549_3413),
        (4_000, 126, 8, 115, 1, 0x45b6_4674),
        (20_000, 641, 1, 263, 12, 0x63b3_3b7a),
        (40_000, 0, 0, 0, 0, 0xd86d_75d0),
    ];
    for (row, (keys, ..)) in table.iter().zip(worked) {
        assert_eq!(number(row[0]), keys, "the rows of the specification are these");
    }
    for ((keys, blocks, columns, wide_from, bandings, crc), row) in worked.into_iter().zip(&table) {
        let blocks_stated = if keys == 40_000 { 0xffff } else { u64::from(blocks) };
        assert_eq!((number(row[1]), number(row[2])), (blocks_stated, columns.into()));
        assert!(row[3].is_empty() || number(row[3]) == u64::from(wide_from));
        assert_eq!((number(row[4]), number(row[5])), (bandings.into(), crc.into()));
        for kernel in Kernel::found() {
            let (outcome, page) = page_of_numbers(keys, kernel);
            assert_eq!(outcome, PageOutcome { keys: keys as u32, blocks, bandings });
            assert_eq!(crc32fast::hash(&page), crc, "{keys} keys with {kernel:?}");
            if let Header::Solved(header) = Header::decode(&page).unwrap() {
                assert_eq!(header.columns(), columns);
                assert_eq!(header.shape().wide_from(), wide_from);
            }
        }
    }
}

#[test]
fn f149_a_page_of_one_key() {
    let mut page = [0; PAGE_BYTES as usize];
    build_page(&mut [value(b"bloomfile")], &mut Scratch::new(), &mut page);
    assert_eq!(crc32fast::hash(&page), 0x95f8_23c7);
    let mut header = [0x7f; 20];
    header[..4].copy_from_slice(&[0x20, 0, 0x1f, 0xf4]);
    header[16..].copy_from_slice(&[0x66, 0x49, 0x2c, 0x0f]);
    assert_eq!(page[..20], header);
    assert!(reference::query(&page, value(b"bloomfile")));
    assert!(!reference::query(&page, value(b"a")));
}

#[test]
fn f142_and_f149_a_look_up() {
    let (_, page) = page_of_numbers(4_000, Kernel::Portable);
    let bends = [-12, -4, -13, 5, 8, 8, -1, 0, 1, -1, 11, 12, 15, 12, 20, 20, 12];
    let Header::Solved(header) = Header::decode(&page).unwrap() else { panic!("solved") };
    assert_eq!(*header.bends(), bends);
    let value = value(b"bloomfile");
    let start = header.shape().part(0, bends[0], bends[1]).start(value);
    assert_eq!(start, 100);
    // Block 3, slot 4: three blocks of eight columns.
    let word = |at: usize| u32::from_le_bytes(page[20 + 4 * at..][..4].try_into().unwrap());
    assert_eq!([24, 32, 40].map(word), [0xcf4b_c90f, 0x2fd2_114c, 0x586d_f268]);
    let rows = [0x667e_b5d0, 0x5270_0bf6, 0xc];
    assert_eq!(u128::from(row_of(value)) << 4, 0xc_5270_0bf6_667e_b5d0);
    let odd = (0..8).fold(0, |odd, column| {
        let ones = (0..3).fold(0, |ones, at| ones ^ word(24 + 8 * at + column) & rows[at]);
        odd | (ones.count_ones() & 1) << column
    });
    assert_eq!((odd, value as u8), (0b0100_1001, 0b1101_0110));
    assert!(!Kernel::choose().contains(&in_map(&page), value));
}
