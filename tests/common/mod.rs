//! What several tests need: files of known keys, and their data as bytes.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bloomfile::{Options, geometry::Geometry, report::inspect};

/// A folder of files that goes away with the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    /// One on a file system in memory, if there is one: for tests of many rounds to which the disk
    /// does not matter.
    pub(crate) fn in_memory() -> Self {
        Folder(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The names of all files in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A closed file of this geometry with these keys.
    pub(crate) fn build(
        &self,
        name: &str,
        geometry: Geometry,
        keys: impl Iterator<Item = u64>,
    ) -> PathBuf {
        let path = self.at(name);
        let options = Options::new().geometry(geometry).journal_bytes(0).replace(true);
        let mut builder = options.start_build(&path).unwrap();
        for key in keys {
            builder.add(key.to_le_bytes());
        }
        builder.finish().unwrap();
        path
    }
}

/// Where the data of a file starts.
pub(crate) fn data_start(path: &Path) -> usize {
    let segment = inspect(path).unwrap().segments[0].clone();
    (segment.offset + segment.table_bytes) as usize
}

/// The data pages of a file.
pub(crate) fn data(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    bytes[data_start(path)..].to_vec()
}

/// Writes bytes at an offset, by means that every system has.
pub(crate) fn write_at(mut file: &File, bytes: &[u8], offset: u64) {
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Output `index` of SplitMix64 from `seed`.
pub(crate) fn random(seed: u64, index: u64) -> u64 {
    let mut x = seed
        .wrapping_mul(0xd134_2543_de82_ef95)
        .wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number of the generator below `limit`.
pub(crate) fn below(seed: u64, index: u64, limit: u64) -> u64 {
    ((u128::from(random(seed, index)) * u128::from(limit)) >> 64) as u64
}
