//! Headers: what they say, and which ones there are.

use super::values;
use crate::error::Error;
use crate::geometry::PAGE_BYTES;
use crate::kernel::sealed::{Scratch, build_page};
use crate::sealed::header::Header;
use crate::sealed::shape::{FEWEST_BLOCKS, MOST_BLOCKS, Shape};
use crate::sealed::*;

fn page_of_keys(number: u64) -> PageBytes {
    let mut page = [0; PAGE_BYTES as usize];
    build_page(&mut values(number, 2), &mut Scratch::new(), &mut page);
    page
}

/// The field that a header is refused for.
fn refused(page: &PageBytes) -> &'static str {
    match Header::decode(page) {
        Err(error @ Error::Field { field, .. }) => {
            assert!(error.is_damage());
            field
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn f141_the_blocks_of_every_shape_fill_the_page() {
    for blocks in FEWEST_BLOCKS..=MOST_BLOCKS {
        let shape = Shape::of_blocks(blocks);
        let mut word = 0;
        for block in 0..blocks {
            assert_eq!(shape.word_of(block), word, "block {block} of {blocks}");
            word += shape.columns_of(block);
        }
        assert_eq!(word, 1019, "{blocks} blocks");
        assert_eq!(Shape::in_page(blocks, shape.columns()), Some(shape));
        assert!((1..=31).contains(&shape.columns()));
    }
}

#[test]
fn f147_no_shape_that_a_look_up_accepts_leaves_the_page() {
    let mut accepted = 0;
    for blocks in 0..=0xffff {
        for columns in 0..=0xff {
            let Some(shape) = Shape::in_page(blocks, columns) else { continue };
            accepted += 1;
            let last = shape.word_of(blocks - 1) + shape.columns_of(blocks - 1);
            assert!(last <= 1019, "{blocks} blocks of {columns} columns");
        }
    }
    // 1,019 is a prime number: its one block per word has two descriptions.
    assert_eq!(accepted, MOST_BLOCKS - FEWEST_BLOCKS + 2);
}

#[test]
fn f148_what_builds_make_is_possible() {
    for number in [0, 1, 2, 10, 100, 1000, 1021, 4826, 12_000, 30_000, 40_000] {
        let page = page_of_keys(number);
        let header = Header::decode_with_keys(&page, number as u32).unwrap();
        match header {
            Header::Empty => assert_eq!(number, 0),
            Header::Maybe => assert!(number > 29_000),
            Header::Solved(solved) => {
                assert!(number > 0 && u64::from(solved.most_keys()) >= number);
                let mut again = [0xaa; PAGE_BYTES as usize];
                header.encode(&mut again);
                assert_eq!(again[..20], page[..20]);
            }
        }
        // A page table with another number of keys is not this page's.
        assert_eq!(Header::decode_with_keys(&page, 0).is_ok(), number == 0);
        let many = Header::decode_with_keys(&page, 32_605);
        assert_eq!(many.is_ok(), header == Header::Maybe);
    }
}

/// Bends at their limits: all keys in one part, in the first, in the last, and in two.
#[test]
fn f148_what_builds_make_of_skewed_values_is_possible() {
    for (number, parts) in
        [(40, vec![0]), (40, vec![15]), (50, vec![7]), (900, vec![15]), (3000, vec![0, 15])]
            .into_iter()
            .chain((0..16).map(|part| (600, vec![part])))
    {
        let mut skewed: Vec<u64> = values(number, 4)
            .into_iter()
            .enumerate()
            .map(|(at, value)| parts[at % parts.len()] << 60 | value >> 4)
            .collect();
        let mut page = [0; PAGE_BYTES as usize];
        let outcome = build_page(&mut skewed, &mut Scratch::new(), &mut page);
        Header::decode_with_keys(&page, outcome.keys).unwrap();
    }
}

#[test]
fn f148_impossible_headers_are_told() {
    let sound = page_of_keys(4826);
    let with = |at: usize, byte: u8| {
        let mut page = sound;
        page[at] = byte;
        page
    };
    for columns in (0..=0xff).filter(|&columns| columns != sound[2]) {
        assert_eq!(refused(&with(2, columns)), "columns");
    }
    for bend in (0..=0xff).filter(|&bend| bend != sound[3]) {
        assert_eq!(refused(&with(3, bend)), "bends");
    }
    for bend in (0..=0xff).filter(|&bend| bend != sound[19]) {
        assert_eq!(refused(&with(19, bend)), "bends");
    }
    for blocks in (0..=0xffffu16).filter(|blocks| !(32..=1019).contains(blocks)) {
        let mut page = sound;
        page[..2].copy_from_slice(&blocks.to_le_bytes());
        let field = if matches!(blocks, 0 | 0xffff) { "page" } else { "blocks" };
        assert_eq!(refused(&page), field, "{blocks} blocks");
    }
    for kind in [0, 0xff] {
        let mut page = [0; PAGE_BYTES as usize];
        page[..2].fill(kind);
        Header::decode(&page).unwrap();
        for at in 2..page.len() {
            page[at] = 1;
            assert_eq!(refused(&page), "page", "byte {at}");
            page[at] = 0;
        }
    }
}

/// Bends that run backwards, or that leave more room at the end than there is.
#[test]
fn f148_impossible_bends_are_told() {
    let mut page = [0; PAGE_BYTES as usize];
    page[0] = 40;
    page[2] = 25;
    let mut check = |bends: [i8; 17]| {
        for (byte, bend) in page[3..20].iter_mut().zip(bends) {
            *byte = bend.cast_unsigned();
        }
        Header::decode(&page).is_ok()
    };
    let mut bends = [0; 17];
    (bends[0], bends[16]) = (-12, 12);
    assert!(check(bends));
    // A part has 38 pairs of slots and keeps one.
    (bends[5], bends[6], bends[7]) = (100, 63, 26);
    assert!(check(bends));
    bends[6] = 62;
    assert!(!check(bends));
    // The parts end 12 pairs behind the slots that a band can start in, unless the last ones have no
    // room left.
    (bends[5], bends[6], bends[7]) = (0, 0, 0);
    (bends[15], bends[16]) = (38 + 12, 13);
    assert!(check(bends));
    (bends[15], bends[16]) = (38 + 13, 14);
    assert!(!check(bends));
    (bends[13], bends[14], bends[15], bends[16]) = (126, 126 - 37, 126 - 74, 126 - 111);
    assert!(check(bends));
    bends[16] += 1;
    assert!(!check(bends));
}
