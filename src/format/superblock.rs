//! The superblock: what never changes in a file (F-10 to F-19).

use byteorder::{ByteOrder, LittleEndian as Le};

use super::{CRC_OFFSET, JOURNAL_OFFSET, JournalLayout, MAX_SEGMENTS, first_nonzero, header_crc};
use crate::error::{Error, Result};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::hash::{Hasher, Key, fingerprint};

/// Bytes of the superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = PAGE_BYTES as usize;

/// The version this code writes and reads (F-12).
///
/// ```
/// assert_eq!(bloomfile::FORMAT_VERSION, 1);
/// ```
pub const FORMAT_VERSION: u32 = 1;

/// SeaHash (F-40).
pub(crate) const HASH_SEAHASH: u32 = 1;

/// SipHash-2-4, in a keyed file (F-150).
pub(crate) const HASH_SIPHASH: u32 = 2;

/// Largest journal (F-17).
pub(crate) const MAX_JOURNAL_BYTES: u64 = 1 << 30;

/// The journal has two halves of whole pages (F-17).
pub(crate) const JOURNAL_STEP: u64 = 2 * PAGE_BYTES;

/// The length of a journal of at least this number of bytes.
pub(crate) fn journal_length(bytes: u64) -> Result<u64> {
    if bytes > MAX_JOURNAL_BYTES {
        return Err(Error::parameter("journal size", bytes, "the limit is 2^30 bytes"));
    }
    Ok(bytes.next_multiple_of(JOURNAL_STEP))
}

/// High bit, name, and line ends of both kinds around an end-of-file mark: what a text-mode
/// transfer does to it can be told (F-11).
pub(crate) const MAGIC: [u8; 8] = [0x89, b'B', b'L', b'M', b'\r', b'\n', 0x1a, b'\n'];

// Offsets of the fields: each is the last one's plus its size (F-10).
pub(crate) const VERSION: usize = 8;
pub(crate) const PAGE_SIZE: usize = VERSION + 4;
pub(crate) const INCOMPATIBLE: usize = PAGE_SIZE + 4;
pub(crate) const READ_ONLY_COMPATIBLE: usize = INCOMPATIBLE + 4;
pub(crate) const COMPATIBLE: usize = READ_ONLY_COMPATIBLE + 4;
pub(crate) const HASH_ID: usize = COMPATIBLE + 4;
pub(crate) const UUID: usize = HASH_ID + 4;
pub(crate) const HASH_SEED: usize = UUID + 16;
pub(crate) const CELL_BITS: usize = HASH_SEED + 8;
pub(crate) const WHEN_FULL: usize = CELL_BITS + 4;
pub(crate) const JOURNAL_BYTES: usize = WHEN_FULL + 4;
pub(crate) const TARGET_RATE: usize = JOURNAL_BYTES + 8;
pub(crate) const CAPACITY: usize = TARGET_RATE + 8;
pub(crate) const GENERATIONS: usize = CAPACITY + 8;
pub(crate) const ROTATE_AFTER: usize = GENERATIONS + 8;
pub(crate) const KEY_CHECK: usize = ROTATE_AFTER + 8;
pub(crate) const RESERVED: usize = KEY_CHECK + 8;

/// Cells are 4-bit counters.
pub(crate) const COUNTING: u32 = 1 << 0;
/// Several segments, each appended to the file.
pub(crate) const GROWING: u32 = 1 << 1;
/// Segments take turns in a fixed set of regions.
pub(crate) const ROTATING: u32 = 1 << 2;
/// Pages hold equations in place of cells, and are never changed.
pub(crate) const SEALED: u32 = 1 << 3;
/// The hash depends on a secret that is not in the file.
pub(crate) const KEYED: u32 = 1 << 4;

/// Most generations of a rotating file: as many as a slot can list.
pub(crate) const MAX_GENERATIONS: u64 = MAX_SEGMENTS as u64;

/// Incompatible features this code understands (F-18).
const KNOWN_INCOMPATIBLE: u32 = COUNTING | GROWING | ROTATING | SEALED | KEYED;
/// Read-only compatible features this code understands (F-18).
const KNOWN_READ_ONLY_COMPATIBLE: u32 = 0;
/// Compatible features this code understands (F-18).
const KNOWN_COMPATIBLE: u32 = 0;

/// What an add does once the filter holds as many keys as it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum WhenFull {
    /// Adds go on and the rate rises.
    Allow,
    /// New keys are refused with [`Error::Full`].
    Refuse,
    /// A larger segment with a tighter rate is appended, so that all together keep the rate.
    Grow,
}

/// How the segments of a file come and go (F-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One segment for good.
    Fixed,
    /// Further segments are appended.
    Growing,
    /// A number of generations takes turns in one region more.
    Rotating(u64),
}

/// The parameters fixed at creation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Superblock {
    /// Features a program that does not know them may read but not write.
    pub(crate) read_only_compatible: u32,
    /// Features that may be ignored.
    pub(crate) compatible: u32,
    /// Names this file among all others.
    pub(crate) uuid: [u8; 16],
    /// Seed of the hash; 0 in a keyed file.
    pub(crate) hash_seed: u64,
    /// What tells the secret of a keyed file from a wrong one; `None` in any other.
    pub(crate) key_check: Option<u64>,
    /// Bits or counters.
    pub(crate) cells: CellKind,
    /// What happens at capacity.
    pub(crate) when_full: WhenFull,
    /// Length of the journal region.
    pub(crate) journal_bytes: u64,
    /// The rate asked for at creation; 0 when the geometry was given instead.
    pub(crate) target_rate: f64,
    /// The number of keys asked for at creation; 0 when none was named.
    pub(crate) capacity: u64,
    /// Generations of a rotating file; else 0.
    pub(crate) generations: u64,
    /// Adds after which a rotating file rotates by itself; 0 when only told to.
    pub(crate) rotate_after: u64,
}

impl Superblock {
    /// The 4,096 bytes of this superblock.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_without_checksum();
        let crc = header_crc(&bytes);
        Le::write_u32(&mut bytes[CRC_OFFSET..], crc);
        bytes
    }

    /// The same with zeros for the checksum.
    pub(crate) fn encode_without_checksum(&self) -> Vec<u8> {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        Le::write_u32(&mut bytes[VERSION..], FORMAT_VERSION);
        Le::write_u32(&mut bytes[PAGE_SIZE..], PAGE_BYTES as u32);
        Le::write_u32(&mut bytes[INCOMPATIBLE..], self.incompatible());
        Le::write_u32(&mut bytes[READ_ONLY_COMPATIBLE..], self.read_only_compatible);
        Le::write_u32(&mut bytes[COMPATIBLE..], self.compatible);
        let hash_id = if self.key_check.is_some() { HASH_SIPHASH } else { HASH_SEAHASH };
        Le::write_u32(&mut bytes[HASH_ID..], hash_id);
        bytes[UUID..HASH_SEED].copy_from_slice(&self.uuid);
        Le::write_u64(&mut bytes[HASH_SEED..], self.hash_seed);
        Le::write_u32(&mut bytes[CELL_BITS..], self.cells.bits());
        let when_full = match self.when_full {
            WhenFull::Allow => 0,
            WhenFull::Refuse => 1,
            WhenFull::Grow => 2,
        };
        Le::write_u32(&mut bytes[WHEN_FULL..], when_full);
        Le::write_u64(&mut bytes[JOURNAL_BYTES..], self.journal_bytes);
        Le::write_f64(&mut bytes[TARGET_RATE..], self.target_rate);
        Le::write_u64(&mut bytes[CAPACITY..], self.capacity);
        Le::write_u64(&mut bytes[GENERATIONS..], self.generations);
        Le::write_u64(&mut bytes[ROTATE_AFTER..], self.rotate_after);
        Le::write_u64(&mut bytes[KEY_CHECK..], self.key_check.unwrap_or(0));
        bytes
    }

    /// Reads a superblock, in the order of checks that F-30 gives.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        debug_assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
        recognise(bytes)?;
        let version = Le::read_u32(&bytes[VERSION..]);
        let expected = Le::read_u32(&bytes[CRC_OFFSET..]);
        let found = header_crc(bytes);
        if expected != found {
            return Err(Error::Checksum { what: "the superblock".into(), expected, found });
        }
        // The CRC stands at the same place in every version, so a newer version that passes it is
        // really newer and not a damaged number.
        if version != FORMAT_VERSION {
            return Err(Error::Version { found: version, supported: FORMAT_VERSION });
        }
        let incompatible = Le::read_u32(&bytes[INCOMPATIBLE..]);
        let unknown = incompatible & !KNOWN_INCOMPATIBLE;
        if unknown != 0 {
            return Err(Error::Features { word: "incompatible", bits: unknown, read_only: false });
        }
        let bad = |field, value: u64, reason: &str| {
            Err(Error::field("the superblock", field, value, reason))
        };
        let page_size = Le::read_u32(&bytes[PAGE_SIZE..]);
        if u64::from(page_size) != PAGE_BYTES {
            return bad("page size", page_size.into(), "version 1 has pages of 4096 bytes");
        }
        let (hash_seed, key_check) = decode_hash(bytes, incompatible & KEYED != 0)?;
        let cells = match Le::read_u32(&bytes[CELL_BITS..]) {
            1 if incompatible & (COUNTING | SEALED) == 0 => CellKind::Plain,
            1 if incompatible & (COUNTING | SEALED) == SEALED => CellKind::Sealed,
            4 if incompatible & (COUNTING | SEALED) == COUNTING => CellKind::Counting,
            other => {
                let reason = "a plain or sealed filter has 1, a counting one 4, and none is both";
                return bad("cell bits", other.into(), reason);
            }
        };
        let when_full = match Le::read_u32(&bytes[WHEN_FULL..]) {
            0 if incompatible & GROWING == 0 => WhenFull::Allow,
            1 if incompatible & GROWING == 0 => WhenFull::Refuse,
            2 if incompatible & GROWING != 0 => WhenFull::Grow,
            other => {
                return bad("when full", other.into(), "a growing filter has 2, another 0 or 1");
            }
        };
        let journal_bytes = Le::read_u64(&bytes[JOURNAL_BYTES..]);
        if !journal_bytes.is_multiple_of(JOURNAL_STEP) || journal_bytes > MAX_JOURNAL_BYTES {
            return bad(
                "journal length",
                journal_bytes,
                "it must be a multiple of 8192, at most 2^30",
            );
        }
        if cells == CellKind::Sealed {
            refuse_changes(incompatible, when_full, journal_bytes)?;
        }
        let target_rate = Le::read_f64(&bytes[TARGET_RATE..]);
        if !(0.0..1.0).contains(&target_rate) {
            let reason = "it must be from 0 to 1";
            return Err(Error::field("the superblock", "target rate", target_rate, reason));
        }
        let capacity = Le::read_u64(&bytes[CAPACITY..]);
        if capacity == 0 && when_full != WhenFull::Allow {
            return bad("capacity", 0, "a filter that is full at some time needs one");
        }
        let generations = Le::read_u64(&bytes[GENERATIONS..]);
        let rotate_after = Le::read_u64(&bytes[ROTATE_AFTER..]);
        if incompatible & ROTATING != 0 {
            if !(2..=MAX_GENERATIONS).contains(&generations) || when_full == WhenFull::Grow {
                return bad("generations", generations, "it must be from 2 to 32, without growth");
            }
        } else if generations != 0 || rotate_after != 0 {
            let (field, value) = match generations {
                0 => ("rotate after", rotate_after),
                _ => ("generations", generations),
            };
            return bad(field, value, "a filter that does not rotate has 0");
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[UUID..HASH_SEED]);
        let superblock = Superblock {
            read_only_compatible: Le::read_u32(&bytes[READ_ONLY_COMPATIBLE..]),
            compatible: Le::read_u32(&bytes[COMPATIBLE..]),
            uuid,
            hash_seed,
            key_check,
            cells,
            when_full,
            journal_bytes,
            target_rate,
            capacity,
            generations,
            rotate_after,
        };
        if !superblock.reserved_in_use()
            && let Some(at) = first_nonzero(&bytes[..CRC_OFFSET], RESERVED)
        {
            return bad("reserved byte", at as u64, "the byte at this offset must be zero");
        }
        Ok(superblock)
    }

    /// Features a program that does not know them must not touch the file without (F-18).
    fn incompatible(&self) -> u32 {
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        bit(self.cells == CellKind::Counting, COUNTING)
            | bit(self.cells == CellKind::Sealed, SEALED)
            | bit(self.shape() == Shape::Growing, GROWING)
            | bit(matches!(self.shape(), Shape::Rotating(_)), ROTATING)
            | bit(self.key_check.is_some(), KEYED)
    }

    /// The hasher of this file: of a keyed one, an error without the secret that it was made with,
    /// because with any other every answer would be a "no" (F-154).
    pub(crate) fn hasher(&self, key: Option<&Key>) -> Result<Hasher> {
        match (self.key_check, key) {
            (None, None) => Ok(Hasher::new(self.hash_seed)),
            (None, Some(_)) => Err(Error::NotKeyed),
            (Some(check), None) => Err(Error::KeyNeeded { fingerprint: fingerprint(check) }),
            (Some(check), Some(key)) if key.check() != check => {
                let (expected, found) = (fingerprint(check), key.fingerprint());
                Err(Error::WrongKey { expected, found })
            }
            (Some(_), Some(key)) => Ok(Hasher::keyed(key)),
        }
    }

    /// What users are told of the secret of a keyed file.
    pub(crate) fn key_fingerprint(&self) -> Option<String> {
        self.key_check.map(fingerprint)
    }

    /// Where the first segment starts (F-3).
    pub(crate) fn base(&self) -> u64 {
        JOURNAL_OFFSET + self.journal_bytes
    }

    /// How the segments come and go.
    pub(crate) fn shape(&self) -> Shape {
        match (self.when_full, self.generations) {
            (WhenFull::Grow, _) => Shape::Growing,
            (_, 0) => Shape::Fixed,
            (_, generations) => Shape::Rotating(generations),
        }
    }

    /// Where the records of the journal are.
    pub(crate) fn journal(&self) -> JournalLayout {
        JournalLayout::new(self.journal_bytes, self.cells)
    }

    /// Whether features that this code may ignore are there, and with them perhaps values in bytes
    /// that are reserved in version 1 (F-19).
    pub(crate) fn reserved_in_use(&self) -> bool {
        (self.read_only_compatible & !KNOWN_READ_ONLY_COMPATIBLE)
            | (self.compatible & !KNOWN_COMPATIBLE)
            != 0
    }

    /// Whether this code may write the file (F-18).
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.cells == CellKind::Sealed {
            return Err(Error::Sealed { action: "written to" });
        }
        self.check_known()
    }

    /// Whether this code knows all features that a writer has to (F-18).
    pub(crate) fn check_known(&self) -> Result<()> {
        let unknown = self.read_only_compatible & !KNOWN_READ_ONLY_COMPATIBLE;
        if unknown == 0 {
            return Ok(());
        }
        Err(Error::Features { word: "read-only compatible", bits: unknown, read_only: true })
    }
}

/// Refuses what a file that is never changed cannot have (F-140).
fn refuse_changes(incompatible: u32, when_full: WhenFull, journal_bytes: u64) -> Result<()> {
    let changing = incompatible & (GROWING | ROTATING);
    let (field, value) = match (changing, when_full, journal_bytes) {
        (0, WhenFull::Allow, 0) => return Ok(()),
        (0, WhenFull::Allow, bytes) => ("journal length", bytes),
        (0, ..) => ("when full", 1),
        (bits, ..) => ("incompatible", bits.into()),
    };
    Err(Error::field("the superblock", field, value, "a sealed filter is never changed"))
}

/// Seed and check value of a file that is keyed or not (F-150, F-152, F-153).
fn decode_hash(bytes: &[u8], keyed: bool) -> Result<(u64, Option<u64>)> {
    let bad =
        |field, value: u64, reason: &str| Err(Error::field("the superblock", field, value, reason));
    let hash_id = Le::read_u32(&bytes[HASH_ID..]);
    let (seed, check) = (Le::read_u64(&bytes[HASH_SEED..]), Le::read_u64(&bytes[KEY_CHECK..]));
    match (keyed, hash_id) {
        (false, HASH_SEAHASH) if check == 0 => Ok((seed, None)),
        (false, HASH_SEAHASH) => bad("key check", check, "a file that is not keyed has 0"),
        (true, HASH_SIPHASH) if seed == 0 => Ok((0, Some(check))),
        (true, HASH_SIPHASH) => bad("hash seed", seed, "a keyed file has 0"),
        _ => bad("hash id", hash_id.into(), "it must be 1, SeaHash, or 2, SipHash, if keyed"),
    }
}

/// Whether the first bytes are those of a bloomfile, and if not, what they are (F-11).
pub(crate) fn recognise(bytes: &[u8]) -> Result<()> {
    if bytes.starts_with(&MAGIC) {
        return Ok(());
    }
    let how = match bytes {
        [0x89, b'B', b'L', b'M', b'\n', 0x1a, ..] => "CR LF became LF",
        [0x89, b'B', b'L', b'M', b'\r', b'\r', b'\n', ..]
        | [0x89, b'B', b'L', b'M', b'\r', b'\n', 0x1a, b'\r', ..] => "LF became CR LF",
        [0x89, b'B', b'L', b'M', b'\r', 0x1a, ..]
        | [0x89, b'B', b'L', b'M', b'\r', b'\r', 0x1a, ..] => "LF became CR",
        [0x09, b'B', b'L', b'M', ..] => "the high bit of each byte was cut off",
        [0xc2, 0x89, b'B', b'L', b'M', ..] => "Latin-1 was recoded as UTF-8",
        [0xef, 0xbf, 0xbd, b'B', b'L', b'M', ..] => "its bytes were decoded as UTF-8 text",
        _ => return Err(Error::NotABloomfile { kind: kind_of(bytes) }),
    };
    Err(Error::TextMode { how })
}

/// What a file that is no bloomfile seems to be.
fn kind_of(bytes: &[u8]) -> String {
    const KINDS: [(&[u8], &str); 15] = [
        (b"\x89BLP\r\n\x1a\n", "a part of a filter; join it with the others"),
        (b"\x1f\x8b", "gzip data; decompress it first"),
        (b"\x28\xb5\x2f\xfd", "Zstandard data; decompress it first"),
        (b"\xfd7zXZ\0", "xz data; decompress it first"),
        (b"BZh", "bzip2 data; decompress it first"),
        (b"\x04\x22\x4d\x18", "LZ4 data; decompress it first"),
        (b"PK\x03\x04", "a zip archive; unpack it first"),
        (b"\x7fELF", "an ELF program"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"PAR1", "a Parquet file"),
        (b"%PDF", "a PDF document"),
        (b"\x89PNG", "a PNG picture"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"redb\x1a\n\xa9\x0d\x0a", "a redb database"),
        (b"{", "JSON text"),
    ];
    if bytes.is_empty() {
        return "the file is empty".into();
    }
    if let Some((_, kind)) = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return format!("it looks like {kind}");
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return "it begins with zeros".into();
    }
    let text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
    if bytes.iter().all(text)
        && std::str::from_utf8(&bytes[..bytes.len().min(64)])
            .map_or_else(|error| error.error_len().is_none(), |_| true)
    {
        return "it looks like text".into();
    }
    "its first bytes are not a bloomfile's".into()
}
