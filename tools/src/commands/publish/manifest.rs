//! The manifest of a publication and its signature: two files, of which a reader sees one after the
//! other.

use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::pending::{Prepared, Target, Unkept};
use crate::publication::{MANIFEST, Manifest, SIGNATURE, Signer};
use crate::{platform, text};

/// Where the two are.
pub(super) struct Place {
    folder: PathBuf,
    /// Where files are made that have no name yet.
    unfinished: PathBuf,
    manifest: PathBuf,
    signature: PathBuf,
}

impl Place {
    pub(super) fn new(folder: &Path, unfinished: &Path) -> Self {
        Place {
            folder: folder.to_owned(),
            unfinished: unfinished.to_owned(),
            manifest: folder.join(MANIFEST),
            signature: folder.join(SIGNATURE),
        }
    }

    /// The manifest that is there, and its bytes, which are what is signed.
    pub(super) fn read(&self) -> Result<Option<(Manifest, Vec<u8>)>> {
        let Some(bytes) = read(&self.manifest)? else { return Ok(None) };
        match Manifest::decode(&bytes) {
            Ok(manifest) => Ok(Some((manifest, bytes))),
            Err(reason) => Err(Failure::about(
                text::path(&self.manifest),
                format!("{reason}; publish in another folder"),
            )),
        }
    }

    /// Whether there is a signature; without a key it is not known whose.
    pub(super) fn is_signed(&self) -> Result<bool> {
        Ok(read(&self.signature)?.is_some())
    }

    /// Puts a manifest in the place of the one before; `files` are what it names and that did not.
    ///
    /// A reader takes the manifest first and then the signature. Whatever it finds between the steps
    /// here is refused by those who ask for a signature, and read again; a process that ends between
    /// them leaves that to the next call, which replaces both or signs what is there.
    pub(super) fn publish(
        &self,
        manifest: &Manifest,
        files: Vec<Unkept>,
        signer: Option<&Signer>,
    ) -> Result<()> {
        let bytes = manifest.encode();
        // All that takes space is done before a name changes: a signature that no manifest follows
        // would lock those out who ask for one.
        let prepared = self.prepare(&self.manifest, &bytes)?;
        match signer {
            Some(signer) => {
                let signature = signature(manifest, &bytes, signer)?;
                let signature = self.prepare(&self.signature, &signature)?;
                // The files that it names have theirs first, after a power cut as well.
                self.make_names_durable()?;
                signature.publish()?;
            }
            None => {
                // The old one under a new manifest would look like a forgery.
                self.remove_signature()?;
                self.make_names_durable()?;
            }
        }
        prepared.publish_with(files)?;
        self.make_names_durable()
    }

    /// Signs the manifest that is there, unless that is done: whether it was not.
    pub(super) fn sign(
        &self,
        manifest: &Manifest,
        bytes: &[u8],
        signer: Option<&Signer>,
    ) -> Result<bool> {
        let Some(signer) = signer else { return Ok(false) };
        let there = read(&self.signature)?;
        if there.is_some_and(|there| signer.has_signed(bytes, &there)) {
            return Ok(false);
        }
        let signature = signature(manifest, bytes, signer)?;
        self.prepare(&self.signature, &signature)?.publish()?;
        self.make_names_durable()?;
        Ok(true)
    }

    fn prepare(&self, path: &Path, bytes: &[u8]) -> Result<Prepared> {
        Target::new(path, None, true)?.prepare(&self.unfinished, bytes)
    }

    fn remove_signature(&self) -> Result<()> {
        match std::fs::remove_file(&self.signature) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Failure::about(
                text::path(&self.signature),
                format!("cannot be removed: {error}"),
            )),
        }
    }

    fn make_names_durable(&self) -> Result<()> {
        platform::sync_folder(&self.folder).map_err(|error| {
            Failure::about(text::path(&self.folder), format!("cannot be synced: {error}"))
        })
    }
}

fn signature(manifest: &Manifest, bytes: &[u8], signer: &Signer) -> Result<Vec<u8>> {
    signer.sign(bytes, &format!("bloomfile manifest, version {}", manifest.version))
}

/// The bytes of a file, if it is there.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::about(text::path(path), format!("cannot be read: {error}"))),
    }
}
