//! Ed25519 signatures in minisign's form.

use std::path::Path;

use crate::failure::{Failure, Result};
#[cfg(feature = "sign")]
use crate::text;

/// The password of a secret key that has one.
#[cfg(feature = "sign")]
const PASSWORD: &str = "BLOOMFILE_SIGN_PASSWORD";

#[cfg(not(feature = "sign"))]
fn unavailable() -> Failure {
    Failure::new(
        "this bloomfile was built without signatures; install it with --features sign, or check the \
         manifest with minisign",
    )
}

/// Signs manifests.
pub(crate) struct Signer {
    #[cfg(feature = "sign")]
    key: minisign::SecretKey,
}

impl Signer {
    /// The secret key in a file that `minisign -G` made.
    #[cfg(feature = "sign")]
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let about = |message: String| Failure::about(text::path(path), message);
        let key = std::fs::read_to_string(path)
            .map_err(|error| about(format!("cannot read the secret key: {error}")))?;
        let key = match std::env::var(PASSWORD).ok().filter(|password| !password.is_empty()) {
            Some(password) => {
                let key = minisign::SecretKeyBox::from(key).into_secret_key(Some(password));
                key.map_err(|error| format!("{error}"))
            }
            None => unprotected(&key),
        };
        let key = key.map_err(|error| about(format!("cannot be used as a secret key: {error}")))?;
        Ok(Signer { key })
    }

    #[cfg(not(feature = "sign"))]
    pub(crate) fn open(_: &Path) -> Result<Self> {
        Err(unavailable())
    }

    /// The signature of a manifest, as minisign writes it; `comment` is signed with it.
    #[cfg(feature = "sign")]
    pub(crate) fn sign(&self, manifest: &[u8], comment: &str) -> Result<Vec<u8>> {
        let data = std::io::Cursor::new(manifest);
        let untrusted = "signature of a bloomfile manifest";
        minisign::sign(None, &self.key, data, Some(comment), Some(untrusted))
            .map(|signature| signature.to_string().into_bytes())
            .map_err(|error| Failure::new(format!("cannot sign the manifest: {error}")))
    }

    #[cfg(not(feature = "sign"))]
    pub(crate) fn sign(&self, _: &[u8], _: &str) -> Result<Vec<u8>> {
        Err(unavailable())
    }

    /// Whether a signature is that of this key under this manifest.
    #[cfg(feature = "sign")]
    pub(crate) fn has_signed(&self, manifest: &[u8], signature: &[u8]) -> bool {
        minisign::PublicKey::from_secret_key(&self.key)
            .is_ok_and(|key| Verifier { key }.verify(manifest, signature).is_ok())
    }

    #[cfg(not(feature = "sign"))]
    pub(crate) fn has_signed(&self, _: &[u8], _: &[u8]) -> bool {
        false
    }
}

/// A key without a password. Minisign gives it a checksum of zeros, which the crate refuses.
#[cfg(feature = "sign")]
fn unprotected(text: &str) -> Result<minisign::SecretKey, String> {
    use ct_codecs::{Base64, Decoder};

    let line = text.lines().nth(1).ok_or("it has no second line, as those of minisign have")?;
    let bytes = Base64::decode_to_vec(line.trim(), None).map_err(|error| error.to_string())?;
    // Which way the password is used: none.
    if bytes.get(2..4).is_some_and(|way| way != [0, 0]) {
        return Err(format!("it has a password; put that in {PASSWORD}"));
    }
    minisign::SecretKey::from_bytes(&bytes).map_err(|error| error.to_string())
}

/// Knows whose signature a manifest must have.
pub(crate) struct Verifier {
    #[cfg(feature = "sign")]
    key: minisign::PublicKey,
}

impl Verifier {
    /// A public key: the file that `minisign -G` made, or the text in it.
    #[cfg(feature = "sign")]
    pub(crate) fn new(key: &str) -> Result<Self> {
        let parsed = match minisign::PublicKey::from_base64(key) {
            Ok(parsed) => Ok(parsed),
            Err(_) => minisign::PublicKey::from_file(key),
        };
        let key = parsed.map_err(|error| {
            let reason = format!("is neither a public key nor a file with one: {error}");
            Failure::about(text::key(key.as_bytes()), reason)
        })?;
        Ok(Verifier { key })
    }

    #[cfg(not(feature = "sign"))]
    pub(crate) fn new(_: &str) -> Result<Self> {
        Err(unavailable())
    }

    /// Why a signature is not the one that this manifest must have.
    #[cfg(feature = "sign")]
    pub(crate) fn verify(&self, manifest: &[u8], signature: &[u8]) -> Result<(), String> {
        let signature = String::from_utf8_lossy(signature);
        minisign::SignatureBox::from_string(&signature)
            .and_then(|signature| {
                let data = std::io::Cursor::new(manifest);
                minisign::verify(&self.key, &signature, data, true, false, false)
            })
            .map_err(|error| error.to_string())
    }

    #[cfg(not(feature = "sign"))]
    pub(crate) fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), String> {
        Err(unavailable().to_string())
    }
}
