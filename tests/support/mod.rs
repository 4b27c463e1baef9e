//! What tests on the bytes of files share. Offsets are read from the tables of format-spec.md.

#![allow(dead_code, reason = "each test file uses its own part")]

/// Where things are (format-spec.md, table of constants).
pub(crate) const PAGE: usize = 4096;
pub(crate) const SUPERBLOCK: usize = 0;
pub(crate) const SLOTS: [usize; 2] = [4096, 8192];
pub(crate) const JOURNAL: usize = 12288;
pub(crate) const SEGMENT_RECORDS: usize = 128;

const SPEC: &str = include_str!("../../format-spec.md");

/// A field of a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// The rows of a table of format-spec.md or of another text with tables like it.
pub(crate) fn table<'a>(text: &'a str, name: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = text.split_once(&format!("### Table: {name}\n")).unwrap();
    rest.trim_start()
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The fields of a structure.
pub(crate) fn fields(structure: &str) -> Vec<Field> {
    table(SPEC, structure)
        .into_iter()
        .map(|row| Field {
            name: row[2],
            offset: row[0].parse().unwrap(),
            size: row[1].parse().unwrap(),
        })
        .collect()
}

/// One field of a structure.
pub(crate) fn field(structure: &str, name: &str) -> Field {
    fields(structure).into_iter().find(|field| field.name == name).unwrap()
}

/// A little-endian number of up to 8 bytes.
pub(crate) fn read(bytes: &[u8], offset: usize, size: usize) -> u64 {
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[offset..offset + size]);
    u64::from_le_bytes(word)
}

/// Writes a little-endian number of up to 8 bytes.
pub(crate) fn write(bytes: &mut [u8], offset: usize, size: usize, value: u64) {
    bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// Makes the CRC of the superblock or slot at `start` right again.
pub(crate) fn fix_header(bytes: &mut [u8], start: usize) {
    let crc = crc32fast::hash(&bytes[start..start + PAGE - 4]);
    write(bytes, start + PAGE - 4, 4, crc.into());
}

/// The slot that counts: where it starts.
pub(crate) fn newest_slot(bytes: &[u8]) -> usize {
    let sequence = field("slot", "sequence");
    let number = |&slot: &usize| read(bytes, slot + sequence.offset, sequence.size);
    SLOTS.into_iter().max_by_key(number).unwrap()
}

/// The parts of the only segment of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// Start of the page table that counts.
    pub(crate) table: usize,
    /// Start of the one that does not.
    pub(crate) other_table: usize,
    /// Length of a page table.
    pub(crate) table_bytes: usize,
    /// Start of the data, which reach to the end of the file.
    pub(crate) data: usize,
}

/// Where the parts of the only segment are.
pub(crate) fn segment(bytes: &[u8]) -> Segment {
    let record = newest_slot(bytes) + SEGMENT_RECORDS;
    let at = |name| {
        let field = field("segment", name);
        read(bytes, record + field.offset, field.size) as usize
    };
    let offset = at("offset");
    // The data pages and two tables of 8 bytes for each, in whole pages, fill the rest.
    let rest = bytes.len() - offset;
    let table_bytes = (1..)
        .map(|pages| pages * PAGE)
        .find(|table_bytes| (rest - 2 * table_bytes) / PAGE * 8 <= *table_bytes)
        .unwrap();
    let table = at("table");
    Segment {
        table: offset + table * table_bytes,
        other_table: offset + (1 - table) * table_bytes,
        table_bytes,
        data: offset + 2 * table_bytes,
    }
}

/// Makes the current page table's CRC and sum of ones in the newest slot right again, and the
/// slot's own CRC.
pub(crate) fn fix_table(bytes: &mut [u8]) {
    let (slot, segment) = (newest_slot(bytes), segment(bytes));
    fix_table_at(bytes, slot, segment);
}

/// As [`fix_table`], for a file whose headers no longer tell where things are.
pub(crate) fn fix_table_at(bytes: &mut [u8], slot: usize, segment: Segment) {
    let pages = (bytes.len() - segment.data) / PAGE;
    let table = &bytes[segment.table..segment.table + segment.table_bytes];
    let crc = crc32fast::hash(table);
    let ones = (0..pages).map(|page| read(table, page * 8 + 4, 4)).sum();
    for (name, value) in [("table_crc", u64::from(crc)), ("ones", ones)] {
        let field = field("segment", name);
        write(bytes, slot + SEGMENT_RECORDS + field.offset, field.size, value);
    }
    fix_header(bytes, slot);
}

/// Makes the table's entry of a data page right again, and all that depends on it.
pub(crate) fn fix_page(bytes: &mut [u8], page: usize) {
    let segment = segment(bytes);
    fix_entry(bytes, segment, page);
    fix_table(bytes);
}

/// Makes the table's entry of a data page right again.
pub(crate) fn fix_entry(bytes: &mut [u8], segment: Segment, page: usize) {
    let start = segment.data + page * PAGE;
    let content = &bytes[start..start + PAGE];
    let ones: u32 = content.iter().map(|byte| byte.count_ones()).sum();
    let crc = crc32fast::hash(content);
    write(bytes, segment.table + page * 8, 4, crc.into());
    write(bytes, segment.table + page * 8 + 4, 4, ones.into());
}
