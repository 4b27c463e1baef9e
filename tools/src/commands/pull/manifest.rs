//! The manifest of a publication, and its signature.

use std::time::Duration;

use crate::failure::Result;
use crate::publication::{
    Downloads, Kind, MANIFEST, MOST_MANIFEST_BYTES, Manifest, SIGNATURE, Verifier,
};

/// How often the manifest is read again: its signature may be that of the next one, and files may be
/// gone that it names.
pub(super) const MANIFESTS: u32 = 4;
pub(super) const PAUSE: Duration = Duration::from_millis(300);

/// The manifest that was read last, with what the server calls this version of it.
pub(super) struct Known {
    tag: String,
    manifest: Manifest,
}

/// Reads the manifest, unless it is the one that was read last.
pub(super) fn fetch_manifest(
    downloads: &mut Downloads<'_>,
    verifier: Option<&Verifier>,
    last: &mut Option<Known>,
) -> Result<Manifest, String> {
    let mut tries = 0;
    let manifest = loop {
        tries += 1;
        let tag = last.as_ref().map(|last| last.tag.as_str());
        let found = downloads.small(MANIFEST, MOST_MANIFEST_BYTES, tag);
        let manifest = match (found.map_err(|it| it.message)?, &*last) {
            (Some(found), _) => found,
            // It was verified when it came.
            (None, Some(last)) => return Ok(last.manifest.clone()),
            (None, None) => return Err(format!("{MANIFEST} did not come")),
        };
        let Some(verifier) = verifier else { break manifest };
        let signature =
            downloads.small(SIGNATURE, MOST_MANIFEST_BYTES, None).map_err(|trouble| {
                if trouble.kind == Kind::Missing {
                    format!("{MANIFEST} is not signed, and --verify-key asks for a signature")
                } else {
                    trouble.message
                }
            })?;
        let signature = signature.ok_or_else(|| format!("{SIGNATURE} did not come"))?;
        match verifier.verify(&manifest.bytes, &signature.bytes) {
            Ok(()) => break manifest,
            // Between the two files another version may have been published.
            Err(_) if tries < MANIFESTS => std::thread::sleep(PAUSE),
            Err(reason) => {
                return Err(format!("{MANIFEST} is not signed with the key given: {reason}"));
            }
        }
    };
    let tag = manifest.tag;
    let manifest = Manifest::decode(&manifest.bytes);
    let manifest = manifest.map_err(|reason| format!("{MANIFEST} {reason}"))?;
    *last = tag.map(|tag| Known { tag, manifest: manifest.clone() });
    Ok(manifest)
}
