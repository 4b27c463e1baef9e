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

/// Leaves open in which boot of the machine the slot at `start` was written (F-114).
pub(crate) fn forget_boot(bytes: &mut [u8], start: usize) {
    let Field { offset, size, .. } = field("slot", "boot_id");
    if bytes[start + offset..start + offset + size].iter().any(|&byte| byte != 0) {
        bytes[start + offset..start + offset + size].fill(0);
        fix_header(bytes, start);
    }
}

/// Makes a file one that was written in another boot of the machine, as after a power cut.
pub(crate) fn power_cut(bytes: &mut [u8]) {
    let slot = newest_slot(bytes);
    let Field { offset, size, .. } = field("slot", "boot_id");
    bytes[slot + offset..slot + offset + size].fill(0xb0);
    fix_header(bytes, slot);
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
    // The data pages and two tables of 8 bytes for each fill the rest.
    let rest = bytes.len() - offset;
    let table_bytes = std::iter::once(PAGE / 2)
        .chain((1..).map(|pages| pages * PAGE))
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

/// A segment of a file that may have several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Its record in the slot that counts.
    pub(crate) record: usize,
    /// Start of the page table that counts, and the length of one.
    pub(crate) table: usize,
    pub(crate) table_bytes: usize,
    /// Start of the data.
    pub(crate) data: usize,
    pub(crate) pages: usize,
    pub(crate) cell_bits: usize,
    /// k; 0 in a sealed file.
    pub(crate) rows: usize,
}

/// Length of a page table (F-5).
pub(crate) fn table_bytes(pages: usize) -> usize {
    if pages <= 256 { 2_048 } else { (8 * pages).next_multiple_of(PAGE) }
}

/// All segments of a sound file, by F-5, F-56 and F-57.
pub(crate) fn parts(bytes: &[u8]) -> Vec<Part> {
    let slot = newest_slot(bytes);
    let number = |structure: &str, start: usize, name: &str| {
        let field = field(structure, name);
        read(bytes, start + field.offset, field.size) as usize
    };
    let cell_bits = number("superblock", SUPERBLOCK, "cell_bits");
    let count = number("slot", slot, "segment_count");
    let part = |index: usize| {
        let record = slot + SEGMENT_RECORDS + 64 * index;
        let at = |name| number("segment", record, name);
        let (rows, row_cells) = (at("rows"), at("row_cells"));
        let row_span = row_cells.next_multiple_of(8 * PAGE / cell_bits);
        let span = match at("layout") {
            1 => rows * row_span,
            2 => row_span,
            3 | 5 => 32_768,
            _ => 512,
        };
        let pages = (at("blocks") * span * cell_bits).div_ceil(8 * PAGE);
        let table_bytes = table_bytes(pages);
        let offset = at("offset");
        Part {
            record,
            table: offset + at("table") * table_bytes,
            table_bytes,
            data: offset + 2 * table_bytes,
            pages,
            cell_bits,
            rows,
        }
    };
    (0..count).map(part).collect()
}

/// Makes the entries of all pages of a segment right.
pub(crate) fn fix_entries_of(bytes: &mut [u8], part: Part) {
    for page in 0..part.pages {
        let content = &bytes[part.data + page * PAGE..][..PAGE];
        let ones: u32 = content
            .iter()
            .map(|byte| match part.cell_bits {
                1 => byte.count_ones(),
                _ => u32::from(byte & 15 != 0) + u32::from(byte >> 4 != 0),
            })
            .sum();
        let crc = crc32fast::hash(content);
        write(bytes, part.table + page * 8, 4, crc.into());
        // A sealed page does not tell its keys: their number stays.
        if part.rows != 0 {
            write(bytes, part.table + page * 8 + 4, 4, ones.into());
        }
    }
}

/// Makes CRC and sum of ones of a segment's table right in its record; the slot's CRC is not.
pub(crate) fn fix_record_of(bytes: &mut [u8], part: Part) {
    let table = &bytes[part.table..][..part.table_bytes];
    let crc = crc32fast::hash(table);
    let ones = (0..part.pages).map(|page| read(table, page * 8 + 4, 4)).sum();
    for (name, value) in [("table_crc", u64::from(crc)), ("ones", ones)] {
        let field = field("segment", name);
        write(bytes, part.record + field.offset, field.size, value);
    }
}

/// What the records of a journal are bound to (F-70 to F-72).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Journal {
    half_bytes: usize,
    /// Bytes of a record.
    pub(crate) record_bytes: usize,
    mask_bits: u32,
    /// The keys of the epochs that the halves belong to: the slot's and the next one.
    keys: [u64; 2],
}

impl Journal {
    /// The journal of a file, as the slot at `slot` has it.
    pub(crate) fn of(bytes: &[u8], slot: usize) -> Self {
        let number = |structure: &str, start: usize, name: &str| {
            let field = field(structure, name);
            read(bytes, start + field.offset, field.size)
        };
        let counting = number("superblock", SUPERBLOCK, "cell_bits") == 4;
        // A damaged slot says anything.
        let newest = number("slot", slot, "segment_count").clamp(1, 32) as usize - 1;
        let rows = number("segment", slot + SEGMENT_RECORDS + 64 * newest, "rows");
        let epoch = number("slot", slot, "epoch");
        let key = |epoch: u64, salt: u64| mix(epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt);
        let mut keys = [
            key(epoch, number("slot", slot, "salt")),
            key(epoch.wrapping_add(1), number("slot", slot, "next_salt")),
        ];
        if epoch % 2 == 1 {
            keys.reverse();
        }
        Journal {
            half_bytes: number("superblock", SUPERBLOCK, "journal_bytes") as usize / 2,
            record_bytes: if counting { 32 } else { 16 },
            mask_bits: if counting { 16 } else { rows.clamp(1, 32) as u32 },
            keys,
        }
    }

    /// Records of both halves.
    pub(crate) fn records(&self) -> usize {
        2 * (self.half_bytes / self.record_bytes)
    }

    /// The bits of a record's last word that are its mask.
    pub(crate) fn mask(&self) -> u64 {
        (1 << self.mask_bits) - 1
    }

    /// Where a record starts in the file, by its number in both halves.
    pub(crate) fn offset(&self, index: usize) -> usize {
        let half = self.records() / 2;
        JOURNAL + index / half * self.half_bytes + index % half * self.record_bytes
    }

    /// Makes the check of the record with this number in both halves right (F-72), as that of a note
    /// if it is to be one, which has no mask.
    pub(crate) fn fix(&self, index: usize, record: &mut [u8], note: bool) {
        let half = self.records() / 2;
        let key = self.keys[index / half];
        let (key, mask_bits) = (if note { !key } else { key }, self.mask_bits);
        let last = self.record_bytes - 8;
        let mask = if note { 0 } else { read(record, last, 8) & self.mask() };
        let mut mixed = mix(read(record, 0, 8) ^ key);
        // Counters before the change.
        for at in (8..last).step_by(8) {
            mixed = mix(mixed ^ read(record, at, 8));
        }
        let place = ((index % half) as u64) << 32 | mask;
        let check = (mix(mixed.wrapping_add(place)) >> mask_bits).max(1);
        write(record, last, 8, mask | check << mask_bits);
    }
}

/// mix of F-44.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
