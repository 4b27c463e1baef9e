//! Reading a delta: its header, and where its chunks are.

#[cfg(feature = "files")]
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::split_on_all_cores;
use crate::format::{
    CHUNK_HEAD_BYTES, CHUNK_PAGES, ChunkHead, DeltaForm, DeltaHeader, FIRST_BYTES,
};
use crate::storage::ReadMedium;
#[cfg(feature = "files")]
use crate::storage::open_to_read;

/// A delta that is being read.
pub(super) struct DeltaFile<'a> {
    pub(super) header: DeltaHeader,
    pub(super) chunks: Chunks<'a>,
}

/// The chunks of a delta.
pub(super) struct Chunks<'a> {
    medium: Option<Box<dyn ReadMedium + 'a>>,
    /// In the order of segments and numbers.
    all: Vec<Chunk>,
}

struct Chunk {
    head: ChunkHead,
    bytes: [u8; CHUNK_HEAD_BYTES],
    /// Where its payload begins.
    offset: u64,
}

fn damaged(reason: &str) -> Error {
    Error::DamagedDelta { reason: reason.into() }
}

fn read<const N: usize>(medium: &dyn ReadMedium, offset: u64) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    medium.read_at(&mut bytes, offset).map_err(Error::io("read the delta"))?;
    Ok(bytes)
}

impl<'a> DeltaFile<'a> {
    #[cfg(feature = "files")]
    pub(super) fn open(path: &Path) -> Result<Self> {
        let medium = open_to_read(path).map_err(|error| match error {
            Error::NotABloomfile { kind } => Error::NotADelta { kind },
            error => error,
        })?;
        Self::read(Box::new(medium))
    }

    /// Reads the header and finds the chunks. Memory is taken for those that are really there.
    pub(super) fn read(medium: Box<dyn ReadMedium + 'a>) -> Result<Self> {
        let length = medium.length().map_err(Error::io("read the delta"))?;
        if length < FIRST_BYTES as u64 {
            return Err(Error::NotADelta { kind: format!("it has {length} bytes") });
        }
        let header_bytes = DeltaHeader::length(&read::<FIRST_BYTES>(&*medium, 0)?)?;
        if length < header_bytes as u64 {
            return Err(damaged("it was cut short"));
        }
        let mut bytes = vec![0; header_bytes];
        medium.read_at(&mut bytes, 0).map_err(Error::io("read the delta"))?;
        let header = DeltaHeader::decode(&bytes)?;
        if header.delta_bytes != length {
            let how = if length < header.delta_bytes { "cut short" } else { "extended" };
            return Err(damaged(&format!("it was {how}")));
        }
        let chunks = Chunks::find(medium, &header, header_bytes as u64)?;
        Ok(DeltaFile { header, chunks })
    }
}

impl<'a> Chunks<'a> {
    /// No chunk at all.
    #[cfg(feature = "files")]
    pub(super) fn none() -> Self {
        Chunks { medium: None, all: Vec::new() }
    }

    fn find(medium: Box<dyn ReadMedium + 'a>, header: &DeltaHeader, mut at: u64) -> Result<Self> {
        let mut all: Vec<Chunk> = Vec::new();
        while at < header.delta_bytes {
            if header.delta_bytes - at < CHUNK_HEAD_BYTES as u64 {
                return Err(damaged("it ends inside a chunk"));
            }
            let bytes = read(&*medium, at)?;
            let head = ChunkHead::decode(&bytes, header.superblock.cells)?;
            let offset = at + CHUNK_HEAD_BYTES as u64;
            at = offset + u64::from(head.length);
            let place = (head.segment, head.chunk);
            let last = all.last().map(|chunk| (chunk.head.segment, chunk.head.chunk));
            let pages = header.new.get(head.segment as usize);
            let pages = pages.map_or(0, |segment| segment.record.geometry.pages());
            if last >= Some(place) || u64::from(head.chunk) >= pages.div_ceil(CHUNK_PAGES) {
                return Err(damaged("a chunk is not in its place"));
            }
            all.push(Chunk { head, bytes, offset });
        }
        if at != header.delta_bytes || all.len() as u64 != header.chunks {
            return Err(damaged("it does not end with its last chunk"));
        }
        Ok(Chunks { medium: Some(medium), all })
    }

    /// The chunk of a segment with this number, if anything differs there: head and payload.
    pub(super) fn get(&self, segment: usize, chunk: u64) -> Result<Option<(ChunkHead, Vec<u8>)>> {
        let place = |chunk: &Chunk| (chunk.head.segment as usize, u64::from(chunk.head.chunk));
        match self.all.binary_search_by_key(&(segment, chunk), place) {
            Ok(at) => self.read(&self.all[at]).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn read(&self, chunk: &Chunk) -> Result<(ChunkHead, Vec<u8>)> {
        let Some(medium) = &self.medium else { return Err(damaged("it has no chunks")) };
        let mut payload = vec![0; chunk.head.length as usize];
        medium.read_at(&mut payload, chunk.offset).map_err(Error::io("read the delta"))?;
        chunk.head.check(&chunk.bytes, &payload)?;
        Ok((chunk.head, payload))
    }

    /// An error unless all chunks are what was written.
    pub(super) fn check_all(&self) -> Result<()> {
        let check = |range: std::ops::Range<u64>| {
            let mut chunks = self.all[range.start as usize..range.end as usize].iter();
            chunks.try_for_each(|chunk| self.read(chunk).map(drop))
        };
        split_on_all_cores(self.all.len() as u64, CHUNK_PAGES / 16, check).into_iter().collect()
    }

    /// Chunks that hold whole pages.
    pub(super) fn of_pages(&self) -> u64 {
        self.all.iter().filter(|chunk| chunk.head.form == DeltaForm::Pages).count() as u64
    }
}
