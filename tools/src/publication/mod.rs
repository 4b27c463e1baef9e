//! A published filter: a folder that any web server or object store can serve, with a manifest of the
//! current snapshot and of the deltas that lead to it.

mod download;
#[cfg(feature = "network")]
mod http;
#[cfg(feature = "network")]
mod proxy;
mod signature;
mod source;

#[cfg(feature = "network")]
pub(crate) use download::pause_or_fail;
pub(crate) use download::{Downloads, sha256_file, try_lock};
#[cfg(feature = "network")]
pub(crate) use http::{Tag, Web};
pub(crate) use signature::{Signer, Verifier};
pub(crate) use source::{Kind, Source, Trouble, other_way};

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Result};

/// The name of the manifest.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The name of its signature.
pub(crate) const SIGNATURE: &str = "manifest.json.minisig";

/// Most bytes of a manifest: that of thousands of versions has less.
pub(crate) const MOST_MANIFEST_BYTES: u64 = 4 << 20;

/// The version of the manifest's form.
const FORM: u32 = 1;

/// What stands in front of the first segment of a snapshot, which has no journal.
const HEAD_BYTES: u64 = 12_288;

/// The metadata pair that tells the version of a file: series and number.
pub(crate) const PUBLISHED: &str = "published";

/// What a publication holds. Described in `docs/publishing.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) bloomfile_manifest: u32,
    /// Names this publication among others.
    pub(crate) series: String,
    /// The number of the current version.
    pub(crate) version: u64,
    pub(crate) snapshot: Item,
    /// The current version and those that deltas lead from, newest first.
    pub(crate) versions: Vec<Version>,
    /// Newest first; each leads to the version that the one before it leads from.
    pub(crate) deltas: Vec<Delta>,
}

/// A file of a publication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// What a version is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) version: u64,
    /// SHA-256 of the first 12,288 bytes of its snapshot: superblock and slots.
    pub(crate) head: String,
    /// The digest of its contents.
    pub(crate) digest: String,
}

/// A delta from one version to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delta {
    pub(crate) from: u64,
    pub(crate) to: u64,
    #[serde(flatten)]
    pub(crate) item: Item,
}

impl Manifest {
    /// The manifest of a first version.
    pub(crate) fn first(series: String, snapshot: Item, version: Version) -> Self {
        Manifest {
            bloomfile_manifest: FORM,
            series,
            version: version.version,
            snapshot,
            versions: vec![version],
            deltas: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("texts and numbers are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a manifest that came from anywhere.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Form {
            bloomfile_manifest: u32,
        }
        let unreadable = |error: serde_json::Error| format!("is not a manifest: {error}");
        let form: Form = serde_json::from_slice(bytes).map_err(unreadable)?;
        if form.bloomfile_manifest != FORM {
            let found = form.bloomfile_manifest;
            return Err(format!(
                "has form {found}, this program reads {FORM}; use a newer bloomfile"
            ));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(unreadable)?;
        manifest.check().map_err(|reason| format!("cannot be right: {reason}"))?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        for item in self.items() {
            item.check()?;
        }
        let current = self.versions.first().map(|version| version.version);
        if current != Some(self.version) {
            return Err("the current version is not the first of its versions".into());
        }
        let mut to = self.version;
        for delta in &self.deltas {
            if delta.to != to || delta.from >= delta.to {
                return Err(format!("a delta leads from {} to {}", delta.from, delta.to));
            }
            to = delta.from;
        }
        Ok(())
    }

    /// All files that it names.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        std::iter::once(&self.snapshot).chain(self.deltas.iter().map(|delta| &delta.item))
    }

    pub(crate) fn current(&self) -> &Version {
        &self.versions[0]
    }

    /// The deltas that lead from a version to the current one, in their order.
    pub(crate) fn chain(&self, from: u64) -> Option<Vec<&Delta>> {
        let place = self.deltas.iter().position(|delta| delta.from == from)?;
        Some(self.deltas[..=place].iter().rev().collect())
    }
}

impl Item {
    /// The file at a path, as it is now.
    pub(crate) fn of(path: &Path, name: String) -> Result<Self> {
        let (bytes, sha256) = sha256_file(path)?;
        Ok(Item { name, bytes, sha256 })
    }

    /// A name from elsewhere must not lead out of the folder.
    fn check(&self) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if self.name.starts_with('.') || self.name.is_empty() || !self.name.chars().all(plain) {
            return Err(format!("{:?} is no name for a file", self.name));
        }
        if self.sha256.len() != 64 || !self.sha256.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(format!("{:?} is no SHA-256", self.sha256));
        }
        Ok(())
    }
}

/// The hexadecimal digits of a hash.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of what stands in front of the first segment of a snapshot. Two that have it in common claim
/// to be the same version: page tables and metadata have their checksums there.
pub(crate) fn head_of(path: &Path) -> Result<String> {
    let unreadable =
        |error| Failure::about(crate::text::path(path), format!("cannot be read: {error}"));
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(unreadable)?;
    Ok(hex(&Sha256::digest(&head)))
}
