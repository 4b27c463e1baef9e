//! The header of a delta, and the heads of its chunks (F-161, F-164).

use byteorder::{ByteOrder, LittleEndian as Le};

use super::MAX_PAYLOAD_BYTES;
use super::chunk::Form as ChunkForm;
use crate::error::{Error, Result};
use crate::format::metadata::{Metadata, decode_metadata, encode_metadata};
use crate::format::slot::{METADATA_BYTES, SEGMENT_BYTES, decode_segment, encode_segment};
use crate::format::superblock::RESERVED as SUPERBLOCK_USED;
use crate::format::{
    CRC_OFFSET, MAX_SEGMENTS, SUPERBLOCK_BYTES, SegmentRecord, Superblock, header_crc,
};
use crate::geometry::CellKind;

/// As that of a filter file, with another letter (F-11).
pub(crate) const DELTA_MAGIC: [u8; 8] = [0x89, b'B', b'L', b'D', b'\r', b'\n', 0x1a, b'\n'];

/// The version this code writes and reads.
pub(crate) const DELTA_VERSION: u32 = 1;

// Offsets of the fields: each is the last one's plus its size (F-161).
const VERSION: usize = 8;
const INCOMPATIBLE: usize = VERSION + 4;
const DELTA_BYTES: usize = INCOMPATIBLE + 4;
const CHUNKS: usize = DELTA_BYTES + 8;
const OLD_UUID: usize = CHUNKS + 8;
const OLD_DIGEST: usize = OLD_UUID + 16;
const NEW_DIGEST: usize = OLD_DIGEST + 32;
const SUPERBLOCK: usize = NEW_DIGEST + 32;
const MARK: usize = SUPERBLOCK + SUPERBLOCK_USED;
const UNVERIFIABLE_PAGES: usize = MARK + 8;
const REPAIRED_PAGES: usize = UNVERIFIABLE_PAGES + 8;
const RECOVERIES: usize = REPAIRED_PAGES + 8;
const OLD_SEGMENTS: usize = RECOVERIES + 8;
const NEW_SEGMENTS: usize = OLD_SEGMENTS + 4;
const METADATA_LENGTH: usize = NEW_SEGMENTS + 4;
const RESERVED: usize = METADATA_LENGTH + 4;

/// Bytes of the header whose place does not depend on others.
pub(crate) const FIRST_BYTES: usize = RESERVED + 4;

/// A new segment's record and base.
const NEW_SEGMENT_BYTES: usize = SEGMENT_BYTES + 8;

/// The base of a segment that has none (F-162).
const NO_BASE: u32 = u32::MAX;

/// The name and offset of each field, for the test that holds them against the
/// specification.
#[cfg(test)]
pub(crate) const DELTA_FIELDS: [(&str, usize); 17] = [
    ("magic", 0),
    ("version", VERSION),
    ("incompatible", INCOMPATIBLE),
    ("delta_bytes", DELTA_BYTES),
    ("chunks", CHUNKS),
    ("old_uuid", OLD_UUID),
    ("old_digest", OLD_DIGEST),
    ("new_digest", NEW_DIGEST),
    ("superblock", SUPERBLOCK),
    ("mark", MARK),
    ("unverifiable_pages", UNVERIFIABLE_PAGES),
    ("repaired_pages", REPAIRED_PAGES),
    ("recoveries", RECOVERIES),
    ("old_segments", OLD_SEGMENTS),
    ("new_segments", NEW_SEGMENTS),
    ("metadata_length", METADATA_LENGTH),
    ("reserved", RESERVED),
];

/// A segment of the new file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewSegment {
    pub(crate) record: SegmentRecord,
    /// The old segment that it is told by.
    pub(crate) base: Option<usize>,
}

/// What a delta applies to, and what it leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeltaHeader {
    pub(crate) delta_bytes: u64,
    pub(crate) chunks: u64,
    pub(crate) old_uuid: [u8; 16],
    pub(crate) old_digest: [u8; 32],
    pub(crate) new_digest: [u8; 32],
    pub(crate) superblock: Superblock,
    pub(crate) mark: u64,
    pub(crate) unverifiable_pages: u64,
    pub(crate) repaired_pages: u64,
    pub(crate) recoveries: u64,
    pub(crate) old: Vec<SegmentRecord>,
    pub(crate) new: Vec<NewSegment>,
    pub(crate) metadata: Metadata,
}

fn damaged(reason: impl Into<String>) -> Error {
    Error::DamagedDelta { reason: reason.into() }
}

fn field(name: &str, value: impl std::fmt::Display) -> Error {
    damaged(format!("{name} cannot be {value}"))
}

impl DeltaHeader {
    /// The bytes of the header, its CRC included.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let metadata = encode_metadata(&self.metadata)?;
        let mut bytes = vec![0; FIRST_BYTES];
        bytes[..DELTA_MAGIC.len()].copy_from_slice(&DELTA_MAGIC);
        Le::write_u32(&mut bytes[VERSION..], DELTA_VERSION);
        Le::write_u64(&mut bytes[DELTA_BYTES..], self.delta_bytes);
        Le::write_u64(&mut bytes[CHUNKS..], self.chunks);
        bytes[OLD_UUID..OLD_DIGEST].copy_from_slice(&self.old_uuid);
        bytes[OLD_DIGEST..NEW_DIGEST].copy_from_slice(&self.old_digest);
        bytes[NEW_DIGEST..SUPERBLOCK].copy_from_slice(&self.new_digest);
        let superblock = self.superblock.encode();
        bytes[SUPERBLOCK..MARK].copy_from_slice(&superblock[..SUPERBLOCK_USED]);
        Le::write_u64(&mut bytes[MARK..], self.mark);
        Le::write_u64(&mut bytes[UNVERIFIABLE_PAGES..], self.unverifiable_pages);
        Le::write_u64(&mut bytes[REPAIRED_PAGES..], self.repaired_pages);
        Le::write_u64(&mut bytes[RECOVERIES..], self.recoveries);
        Le::write_u32(&mut bytes[OLD_SEGMENTS..], self.old.len() as u32);
        Le::write_u32(&mut bytes[NEW_SEGMENTS..], self.new.len() as u32);
        Le::write_u32(&mut bytes[METADATA_LENGTH..], metadata.len() as u32);
        for record in &self.old {
            push_record(&mut bytes, record);
        }
        for NewSegment { record, base } in &self.new {
            push_record(&mut bytes, record);
            bytes.extend_from_slice(&base.map_or(NO_BASE, |base| base as u32).to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        bytes.extend_from_slice(&metadata);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }

    /// Length of the whole header, from its [first bytes](FIRST_BYTES): it has to be known to read
    /// the rest.
    pub(crate) fn length(first: &[u8]) -> Result<usize> {
        debug_assert_eq!(first.len(), FIRST_BYTES);
        if first[..DELTA_MAGIC.len()] != DELTA_MAGIC {
            let known = crate::format::recognise(first).is_ok();
            let kind = if known { "it is a filter" } else { "its first bytes are others" };
            return Err(Error::NotADelta { kind: kind.into() });
        }
        // Where the CRC stands follows from these; the CRC tells whether they are right.
        let [old, new, metadata] = [OLD_SEGMENTS, NEW_SEGMENTS, METADATA_LENGTH]
            .map(|at| Le::read_u32(&first[at..]) as usize);
        let version = Le::read_u32(&first[VERSION..]);
        if version != DELTA_VERSION {
            return Err(Error::Version { found: version, supported: DELTA_VERSION });
        }
        for (name, count) in [("old_segments", old), ("new_segments", new)] {
            if !(1..=MAX_SEGMENTS).contains(&count) {
                return Err(field(name, count));
            }
        }
        if metadata > METADATA_BYTES {
            return Err(field("metadata_length", metadata));
        }
        Ok(FIRST_BYTES + old * SEGMENT_BYTES + new * NEW_SEGMENT_BYTES + metadata + 4)
    }

    /// Reads a header of this [`length`](Self::length).
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let (bytes, crc) = bytes.split_at(bytes.len() - 4);
        if crc32fast::hash(bytes) != Le::read_u32(crc) {
            return Err(damaged("the checksum of its header is wrong"));
        }
        let unknown = Le::read_u32(&bytes[INCOMPATIBLE..]);
        if unknown != 0 {
            return Err(Error::Features { word: "incompatible", bits: unknown, read_only: false });
        }
        if Le::read_u32(&bytes[RESERVED..]) != 0 {
            return Err(field("a reserved byte", "other than 0"));
        }
        let superblock = decode_superblock(&bytes[SUPERBLOCK..MARK])?;
        let old_count = Le::read_u32(&bytes[OLD_SEGMENTS..]) as usize;
        let new_count = Le::read_u32(&bytes[NEW_SEGMENTS..]) as usize;
        let (old, rest) = bytes[FIRST_BYTES..].split_at(old_count * SEGMENT_BYTES);
        let (new, metadata) = rest.split_at(new_count * NEW_SEGMENT_BYTES);
        let record = |bytes: &[u8]| {
            decode_segment(bytes, superblock.cells).map_err(|error| damaged(error.to_string()))
        };
        let old: Vec<SegmentRecord> =
            old.chunks_exact(SEGMENT_BYTES).map(record).collect::<Result<_>>()?;
        if old.iter().any(|old| (old.capacity, old.adds, old.offset, old.table) != (0, 0, 0, 0)) {
            return Err(field("an old segment", "more than its cells"));
        }
        let new = new.chunks_exact(NEW_SEGMENT_BYTES).map(|bytes| {
            let (bytes, base) = bytes.split_at(SEGMENT_BYTES);
            let mut record = record(bytes)?;
            record.bound_adds();
            let (base, zeros) = (Le::read_u32(base), Le::read_u32(&base[4..]));
            let base = (base != NO_BASE).then_some(base as usize);
            let fits = base.is_none_or(|base| {
                old.get(base).is_some_and(|old: &SegmentRecord| old.geometry == record.geometry)
            });
            if !fits || zeros != 0 || record.table != 0 {
                return Err(damaged("a segment has no such base"));
            }
            Ok(NewSegment { record, base })
        });
        let (new, digest) = (new.collect::<Result<Vec<_>>>()?, |at: usize| {
            let mut digest = [0; 32];
            digest.copy_from_slice(&bytes[at..at + 32]);
            digest
        });
        let mut old_uuid = [0; 16];
        old_uuid.copy_from_slice(&bytes[OLD_UUID..OLD_DIGEST]);
        Ok(DeltaHeader {
            delta_bytes: Le::read_u64(&bytes[DELTA_BYTES..]),
            chunks: Le::read_u64(&bytes[CHUNKS..]),
            old_uuid,
            old_digest: digest(OLD_DIGEST),
            new_digest: digest(NEW_DIGEST),
            superblock,
            mark: Le::read_u64(&bytes[MARK..]),
            unverifiable_pages: Le::read_u64(&bytes[UNVERIFIABLE_PAGES..]),
            repaired_pages: Le::read_u64(&bytes[REPAIRED_PAGES..]),
            recoveries: Le::read_u64(&bytes[RECOVERIES..]),
            old,
            new,
            metadata: decode_metadata(metadata).map_err(|error| damaged(error.to_string()))?,
        })
    }
}

fn push_record(bytes: &mut Vec<u8>, record: &SegmentRecord) {
    let start = bytes.len();
    bytes.resize(start + SEGMENT_BYTES, 0);
    encode_segment(record, &mut bytes[start..]);
}

/// The superblock of the new file, from the part of it that is not zeros.
fn decode_superblock(used: &[u8]) -> Result<Superblock> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    bytes[..used.len()].copy_from_slice(used);
    let crc = header_crc(&bytes);
    Le::write_u32(&mut bytes[CRC_OFFSET..], crc);
    let superblock = Superblock::decode(&bytes).map_err(|error| match error {
        Error::Features { .. } | Error::Version { .. } => error,
        error => damaged(error.to_string()),
    })?;
    if superblock.reserved_in_use() {
        return Err(field("the feature bits of the new file", "ones that it may not have"));
    }
    Ok(superblock)
}

// Offsets of the fields of a chunk's head (F-164).
const SEGMENT: usize = 0;
const CHUNK: usize = SEGMENT + 4;
const FORM: usize = CHUNK + 4;
const RICE: usize = FORM + 1;
const HEAD_RESERVED: usize = RICE + 1;
const COUNT: usize = HEAD_RESERVED + 2;
const LENGTH: usize = COUNT + 4;
const HEAD_CRC: usize = LENGTH + 4;

/// Bytes of the head of a chunk.
pub(crate) const CHUNK_HEAD_BYTES: usize = HEAD_CRC + 4;

#[cfg(test)]
pub(crate) const CHUNK_FIELDS: [(&str, usize); 8] = [
    ("segment", SEGMENT),
    ("chunk", CHUNK),
    ("form", FORM),
    ("rice", RICE),
    ("reserved", HEAD_RESERVED),
    ("count", COUNT),
    ("length", LENGTH),
    ("crc", HEAD_CRC),
];

/// What a chunk is about, and how it is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHead {
    pub(crate) segment: u32,
    pub(crate) chunk: u32,
    pub(crate) form: ChunkForm,
    pub(crate) rice: u8,
    pub(crate) count: u32,
    pub(crate) length: u32,
    crc: u32,
}

impl ChunkHead {
    /// The bytes of a chunk: its head and its payload.
    pub(crate) fn encode(segment: u32, chunk: u32, coded: &super::Coded) -> Vec<u8> {
        let mut bytes = vec![0; CHUNK_HEAD_BYTES];
        Le::write_u32(&mut bytes[SEGMENT..], segment);
        Le::write_u32(&mut bytes[CHUNK..], chunk);
        bytes[FORM] = coded.form.id();
        bytes[RICE] = coded.rice;
        Le::write_u32(&mut bytes[COUNT..], coded.count);
        Le::write_u32(&mut bytes[LENGTH..], coded.payload.len() as u32);
        let crc = crc(&bytes, &coded.payload);
        Le::write_u32(&mut bytes[HEAD_CRC..], crc);
        bytes.extend_from_slice(&coded.payload);
        bytes
    }

    /// Reads a head, whose checksum [`check`](Self::check) holds against the payload.
    pub(crate) fn decode(bytes: &[u8], cells: CellKind) -> Result<Self> {
        debug_assert_eq!(bytes.len(), CHUNK_HEAD_BYTES);
        let head = ChunkHead {
            segment: Le::read_u32(&bytes[SEGMENT..]),
            chunk: Le::read_u32(&bytes[CHUNK..]),
            form: ChunkForm::ALL
                .into_iter()
                .find(|form| form.id() == bytes[FORM])
                .ok_or_else(|| field("the form of a chunk", bytes[FORM]))?,
            rice: bytes[RICE],
            count: Le::read_u32(&bytes[COUNT..]),
            length: Le::read_u32(&bytes[LENGTH..]),
            crc: Le::read_u32(&bytes[HEAD_CRC..]),
        };
        let most_rice = if head.form == ChunkForm::Pages { 0 } else { 31 };
        if head.rice > most_rice {
            return Err(field("rice of a chunk", head.rice));
        }
        if Le::read_u16(&bytes[HEAD_RESERVED..]) != 0 {
            return Err(field("a reserved byte", "other than 0"));
        }
        if head.count == 0 || head.length as usize > MAX_PAYLOAD_BYTES {
            return Err(field("the length of a chunk", head.length));
        }
        if cells == CellKind::Sealed && head.form != ChunkForm::Pages {
            return Err(field("the form of a chunk of a sealed file", head.form.id()));
        }
        Ok(head)
    }

    /// An error unless head and payload are what was written; `bytes` are those of the head.
    pub(crate) fn check(&self, bytes: &[u8], payload: &[u8]) -> Result<()> {
        if crc(bytes, payload) == self.crc {
            return Ok(());
        }
        let ChunkHead { segment, chunk, .. } = self;
        Err(damaged(format!("chunk {chunk} of segment {segment} has a wrong checksum")))
    }
}

fn crc(head: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..HEAD_CRC]);
    crc.update(payload);
    crc.finalize()
}
