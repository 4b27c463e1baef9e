//! A digest of what a file holds: the same for the same keys and options, whatever it went through.
//! (The segments of one that grows or rotates depend on the order of the keys.)

use std::fmt;
#[cfg(feature = "files")]
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::source::{PAGE, Source};
use crate::error::{Error, Result};
use crate::file::split_on_all_cores;
use crate::format::{Superblock, layout_id};
use crate::geometry::Geometry;
use crate::storage::Bytes;

/// Pages that have one digest of their own, from which that of all is made: 1 MiB.
pub(super) const GROUP_PAGES: u64 = 256;

/// The bytes of those.
pub(super) const GROUP_BYTES: usize = GROUP_PAGES as usize * PAGE;

/// What is hashed at first, so that nothing else has the same digest.
const NAME: &[u8] = b"bloomfile contents 1\n";

/// SHA-256 of the parameters and the data of a file; made by [`digest`]. Shown as 64 hex digits, and
/// read from them.
///
/// It is the hash of, one after the other: the text `bloomfile contents 1` and a newline; the
/// superblock, with zeros for identity, journal size and checksum; for each segment, oldest first,
/// layout (its number in the file less 1), rows, blocks, cells in a row and data pages as little-endian
/// numbers of 8 bytes; and the SHA-256 of each MiB of its data, with what the journal of an open file
/// adds (format-spec.md, F-160). Identity, journal, slots and metadata are no part of it.
///
/// ```
/// use bloomfile::ops::Digest;
///
/// let text = "00".repeat(31) + "ff";
/// let digest: Digest = text.parse()?;
/// assert_eq!((digest.to_string(), digest.as_bytes()[31]), (text, 0xff));
/// assert!("0x12".parse::<Digest>().is_err());
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    /// The bytes of it.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::parameter("digest", text, "it must be 64 hex digits");
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(invalid()) };
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Digest).ok_or_else(invalid)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The digest of what a file holds: whether it is the right file, and whether two that were made on
/// different machines have the same contents.
///
/// Every page is read and verified: a damaged file is an error. A file that a crash left has the
/// digest that it has once it is recovered; of one that is being written, it is that of the cells
/// that are found, and soon another.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Options, ops::digest};
///
/// let options = Options::new().capacity(1000).false_positive_rate(0.01);
/// let mut built = options.clone().journal_bytes(0).start_build(at("built"))?;
/// built.add("sheep");
/// built.finish()?;
/// let filter = options.create(at("added"))?;
/// assert_ne!(digest(at("added"))?, digest(at("built"))?);
/// filter.add("sheep")?;
/// filter.close()?;
/// assert_eq!(digest(at("added"))?, digest(at("built"))?);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn digest(path: impl AsRef<Path>) -> Result<Digest> {
    digest_of(&Source::open_all(path.as_ref())?)
}

/// As [`digest`], for a file whose bytes are in memory.
pub fn digest_bytes(bytes: impl AsRef<[u8]>) -> Result<Digest> {
    digest_of(&Source::all_of(Arc::new(Bytes(bytes.as_ref())), None)?)
}

fn digest_of(segments: &[Source<'_>]) -> Result<Digest> {
    let mut all = ContentHasher::new(segments[0].superblock());
    for segment in segments {
        all.segment(segment.geometry(), &segment_groups(segment)?);
    }
    Ok(all.finish())
}

/// The digests of the groups of pages of a segment.
pub(super) fn segment_groups(segment: &Source<'_>) -> Result<Vec<GroupDigest>> {
    let groups = segment.pages().div_ceil(GROUP_PAGES);
    let parts = split_on_all_cores(groups, GROUP_PAGES, |groups| {
        groups.map(|group| digest_group(segment, group)).collect::<Result<Vec<_>>>()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// The digest of [`GROUP_PAGES`] pages.
pub(super) type GroupDigest = [u8; 32];

/// Makes the digest of a file out of those of its groups of pages (F-160).
pub(super) struct ContentHasher(Sha256);

impl ContentHasher {
    /// The digest of a file with this superblock, whose segments are to come.
    pub(super) fn new(superblock: &Superblock) -> Self {
        // What of it is chosen by those who make a file, and decides about its contents.
        let superblock = Superblock { uuid: [0; 16], journal_bytes: 0, ..superblock.clone() };
        let mut all = Sha256::new();
        all.update(NAME);
        all.update(superblock.encode_without_checksum());
        ContentHasher(all)
    }

    /// Takes in the next segment.
    pub(super) fn segment(&mut self, geometry: &Geometry, groups: &[GroupDigest]) {
        for number in [
            u64::from(layout_id(geometry.layout()) - 1),
            geometry.row_count().into(),
            geometry.blocks(),
            geometry.row_cells(),
            geometry.pages(),
        ] {
            self.0.update(number.to_le_bytes());
        }
        groups.iter().for_each(|digest| self.0.update(digest));
    }

    pub(super) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// The digests of pages that begin where a group does.
pub(super) fn digest_groups(pages: &[u8]) -> impl Iterator<Item = GroupDigest> {
    pages.chunks(GROUP_BYTES).map(|group| Sha256::digest(group).into())
}

/// The digest of some pages.
fn digest_group(segment: &Source<'_>, group: u64) -> Result<GroupDigest> {
    let first = group * GROUP_PAGES;
    let pages = first..(first + GROUP_PAGES).min(segment.pages());
    let mut bytes = vec![0; (pages.end - pages.start) as usize * PAGE];
    segment.read_into(pages, &mut bytes)?;
    Ok(Sha256::digest(&bytes).into())
}
