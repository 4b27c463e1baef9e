//! The fields of each structure in the words of `format-spec.md`: what a file is explained with.
//!
//! A test holds names, offsets and meanings against the tables of the specification.

use super::CRC_OFFSET;
use super::slot::*;
use super::superblock::*;

/// How the bytes of a field are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A number, of 4 or 8 bytes.
    Number,
    /// A number whose bits matter, of 4 or 8 bytes.
    Hex,
    /// An IEEE 754 number.
    Float,
    /// Bytes as they are.
    Bytes,
    /// A UUID.
    Uuid,
    /// Bytes that must be zero.
    Zeros,
    /// Structures of their own, explained one by one.
    Nested,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Offset within the structure; the field ends where the next one begins.
    pub(crate) offset: usize,
    pub(crate) form: Form,
    pub(crate) meaning: &'static str,
}

const fn field(name: &'static str, offset: usize, form: Form, meaning: &'static str) -> Field {
    Field { name, offset, form, meaning }
}

/// The fields with their ends.
pub(crate) fn with_ends(
    fields: &'static [Field],
    length: usize,
) -> impl Iterator<Item = (&'static Field, usize)> {
    let ends = fields[1..].iter().map(|field| field.offset).chain([length]);
    fields.iter().zip(ends)
}

/// The header of a part.
#[cfg(all(test, feature = "files"))]
pub(crate) const PART_FIELDS: [Field; 12] = {
    use super::part;
    [
        field("magic", 0, Form::Bytes, "89 42 4C 50 0D 0A 1A 0A"),
        field("version", part::VERSION, Form::Number, "1"),
        field(
            "identity",
            part::IDENTITY,
            Form::Number,
            "0 follows from the contents, 1 that of the superblock",
        ),
        field("parts", part::PARTS, Form::Number, "N"),
        field("part", part::PART, Form::Number, "I; 0 in a plan"),
        field(
            "first_page",
            part::FIRST_PAGE,
            Form::Number,
            "number of its first page in the filter",
        ),
        field("pages", part::PAGES, Form::Number, "how many it has"),
        field(
            "adds",
            part::ADDS,
            Form::Number,
            "adds that changed its pages; of a sealed filter, its distinct keys",
        ),
        field("ones", part::ONES, Form::Number, "sum of the ones in its page table"),
        field(
            "table_crc",
            part::TABLE_CRC,
            Form::Hex,
            "CRC-32 of its page table, padding included",
        ),
        field("reserved", part::RESERVED, Form::Zeros, "zeros"),
        field("crc", CRC_OFFSET, Form::Hex, "CRC-32 of the bytes before it (F-4)"),
    ]
};

pub(crate) const SUPERBLOCK_FIELDS: [Field; 19] = [
    field("magic", 0, Form::Bytes, "89 42 4C 4D 0D 0A 1A 0A (F-11)"),
    field("version", VERSION, Form::Number, "1 (F-12)"),
    field("page_size", PAGE_SIZE, Form::Number, "4096 (F-13)"),
    field("incompatible", INCOMPATIBLE, Form::Hex, "feature bits: unknown ones → refuse (F-18)"),
    field(
        "read_only_compatible",
        READ_ONLY_COMPATIBLE,
        Form::Hex,
        "feature bits: unknown ones → open for reading only (F-18)",
    ),
    field("compatible", COMPATIBLE, Form::Hex, "feature bits: unknown ones → ignore (F-18)"),
    field("hash_id", HASH_ID, Form::Number, "1: SeaHash (F-40), 2: SipHash-2-4 (F-150)"),
    field("uuid", UUID, Form::Uuid, "names this file among all others; any value"),
    field("hash_seed", HASH_SEED, Form::Number, "seed of the hash (F-42); 0 in a keyed file"),
    field("cell_bits", CELL_BITS, Form::Number, "1, or 4 in a counting file (F-15)"),
    field("when_full", WHEN_FULL, Form::Number, "0 allow, 1 refuse, 2 grow (F-16)"),
    field("journal_bytes", JOURNAL_BYTES, Form::Number, "length of the journal (F-17)"),
    field(
        "target_rate",
        TARGET_RATE,
        Form::Float,
        "f64: the rate asked for, of the whole file; 0 when the geometry was given (F-16)",
    ),
    field(
        "capacity",
        CAPACITY,
        Form::Number,
        "the number of keys asked for; 0 when none was named",
    ),
    field("generations", GENERATIONS, Form::Number, "of a rotating file; else 0 (F-28)"),
    field(
        "rotate_after",
        ROTATE_AFTER,
        Form::Number,
        "adds after which a rotating file rotates; 0: only when told to",
    ),
    field("key_check", KEY_CHECK, Form::Hex, "tells the key of a keyed file; else 0 (F-153)"),
    field("reserved", RESERVED, Form::Zeros, "zeros (F-19)"),
    field("crc", CRC_OFFSET, Form::Hex, "CRC-32 of the bytes before it (F-4)"),
];

pub(crate) const SLOT_FIELDS: [Field; 20] = [
    field("magic", 0, Form::Bytes, "42 4C 4D 53 4C 4F 54 00: \"BLMSLOT\" and a zero"),
    field("sequence", SEQUENCE, Form::Number, "number of this slot (F-23)"),
    field("epoch", EPOCH, Form::Number, "number of the epoch this slot begins"),
    field("salt", SALT, Form::Hex, "binds journal records to the epoch (F-72)"),
    field("state", STATE, Form::Number, "1 clean, 2 open (F-22)"),
    field("segment_count", SEGMENT_COUNT, Form::Number, "1 to 32 (F-24)"),
    field("mark", MARK, Form::Number, "the user's number; 0 before one was given"),
    field("file_bytes", FILE_BYTES, Form::Number, "length of the file (F-29)"),
    field(
        "metadata_length",
        METADATA_LENGTH,
        Form::Number,
        "bytes of metadata, at most 1,916 (F-27)",
    ),
    field("reserved_1", SLOT_RESERVED_1, Form::Zeros, "zeros"),
    field(
        "unverifiable_pages",
        UNVERIFIABLE_PAGES,
        Form::Number,
        "pages accepted with cells that nothing explains (F-94)",
    ),
    field("repaired_pages", REPAIRED_PAGES, Form::Number, "pages that repairs filled (F-99)"),
    field("recoveries", RECOVERIES, Form::Number, "recoveries this file went through"),
    field("next_salt", NEXT_SALT, Form::Hex, "the salt of the next epoch (F-35)"),
    field("boot_id", BOOT_ID, Form::Uuid, "boot of the machine; zeros in a clean slot (F-114)"),
    field("salt_after_next", SALT_AFTER_NEXT, Form::Hex, "the salt of the epoch after that (F-35)"),
    field("reserved_2", SLOT_RESERVED_2, Form::Zeros, "zeros"),
    field("segments", SEGMENTS, Form::Nested, "segment records, the rest zeros (F-25)"),
    field("metadata", METADATA, Form::Nested, "pairs, the rest zeros (F-27)"),
    field("crc", CRC_OFFSET, Form::Hex, "CRC-32 of the bytes before it (F-4)"),
];

pub(crate) const SEGMENT_FIELDS: [Field; 10] = [
    field(
        "layout",
        SEGMENT_LAYOUT,
        Form::Number,
        "1 rows, 2 flat, 3 page, 4 line, 5 sealed (F-50)",
    ),
    field("rows", SEGMENT_ROWS, Form::Number, "k"),
    field("blocks", SEGMENT_BLOCKS, Form::Number, "B"),
    field("row_cells", SEGMENT_ROW_CELLS, Form::Number, "w"),
    field("capacity", SEGMENT_CAPACITY, Form::Number, "keys this segment is for; 0 when not known"),
    field(
        "adds",
        SEGMENT_ADDS,
        Form::Number,
        "adds that changed the segment, as of this slot (counting: F-130)",
    ),
    field("offset", SEGMENT_OFFSET, Form::Number, "where its page table 0 starts in the file"),
    field("table", SEGMENT_TABLE, Form::Number, "which page table counts: 0 or 1"),
    field("table_crc", SEGMENT_TABLE_CRC, Form::Hex, "CRC-32 of that table, padding included"),
    field("ones", SEGMENT_ONES, Form::Number, "sum of the ones in that table"),
];

pub(crate) const ENTRY_FIELDS: [Field; 2] = [
    field("crc", 0, Form::Hex, "CRC-32 of the page"),
    field("ones", 4, Form::Number, "cells of the page that are not zero; sealed: its keys (F-148)"),
];

pub(crate) const RECORD_FIELDS: [Field; 2] = [
    field("value", 0, Form::Hex, "hash of a key, mark, or number of records"),
    field(
        "mask_and_check",
        8,
        Form::Hex,
        "the low *mask width* bits are the mask, the others the check",
    ),
];

pub(crate) const COUNTING_RECORD_FIELDS: [Field; 4] = [
    field("value", 0, Form::Hex, "hash of a key, mark, or number of records"),
    field("old_0", 8, Form::Hex, "counters of rows 0 to 15 before the change, 4 bits each"),
    field("old_1", 16, Form::Hex, "counters of rows 16 to 31"),
    field("mask_and_check", 24, Form::Hex, "the low 16 bits are the mask, the others the check"),
];
