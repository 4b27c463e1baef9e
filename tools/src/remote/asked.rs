//! A file at an address that is asked for keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bloomfile::ranges::{Answer, AskFile, AskOpening, Opening, Source, run};
use bloomfile::{
    Error, Key,
    hash::{Form, Hasher},
};

use super::about;
use super::object::{FIRST_TO_ASK, Object, VERSIONS, failure, is_change};
use crate::failure::{Failure, Result};
use crate::options::unless_not_keyed;

/// A file at an address. Every answer is that of one version of it: when it was replaced, keys are
/// asked again in the new one.
pub(crate) struct AskedFile {
    address: String,
    key: Option<Key>,
    hasher: Hasher,
    metadata: BTreeMap<String, String>,
    current: Mutex<Arc<Version>>,
    damage: Mutex<Option<Error>>,
}

struct Version {
    object: Object,
    file: AskFile,
}

impl AskedFile {
    /// Opens a file; `None` where there is a secret and the file is not keyed.
    pub(crate) fn open(address: &str, key: Option<Key>) -> Result<Option<Self>> {
        let Some(version) = Version::open(address, key.as_ref())? else { return Ok(None) };
        let hasher = version.file.hasher().map_err(|error| failure(address, &error))?;
        Ok(Some(AskedFile {
            address: address.to_owned(),
            key,
            hasher,
            metadata: version.file.metadata().clone(),
            current: Mutex::new(Arc::new(version)),
            damage: Mutex::default(),
        }))
    }

    pub(crate) fn metadata(&self) -> BTreeMap<String, String> {
        self.metadata.clone()
    }

    pub(crate) fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// Whether keys may be in, by their hashes; `None` where the answer rests on a damaged page.
    pub(crate) fn ask(&self, hashes: &[u64]) -> Result<Vec<Option<bool>>> {
        let mut versions = 0;
        loop {
            versions += 1;
            let version = Arc::clone(&lock(&self.current));
            match run(version.file.ask_hashes(hashes.to_vec()), &version.object) {
                Ok(answers) => return Ok(answers.into_iter().map(|it| self.note(it)).collect()),
                Err(error) if is_change(&error) && versions < VERSIONS => self.renew(&version)?,
                Err(error) => return Err(failure(&self.address, &error)),
            }
        }
    }

    fn note(&self, answer: Answer) -> Option<bool> {
        let answer = answer.into_result();
        answer.map_err(|error| _ = lock(&self.damage).get_or_insert(error)).ok()
    }

    /// Opens the file again, unless another thread did.
    fn renew(&self, old: &Arc<Version>) -> Result<()> {
        let mut current = lock(&self.current);
        if !Arc::ptr_eq(&current, old) {
            return Ok(());
        }
        let new = Version::open(&self.address, self.key.as_ref())?
            .ok_or_else(|| failure(&self.address, &Error::NotKeyed))?;
        let hasher = new.file.hasher().map_err(|error| failure(&self.address, &error))?;
        let form = |metadata| Form::recorded(metadata).ok().flatten();
        if hasher != self.hasher || form(new.file.metadata()) != form(&self.metadata) {
            let message = "was replaced by a file that takes keys in another way; ask again";
            return Err(about(&self.address, message));
        }
        *current = Arc::new(new);
        Ok(())
    }

    /// Pages that nothing proves to be what was written, as far as the headers tell.
    pub(crate) fn pages_unverified(&self) -> u64 {
        lock(&self.current).file.pages_kept_unverified()
    }

    /// The first damage that an answer rested on.
    pub(crate) fn damage(&self) -> Option<Failure> {
        lock(&self.damage).as_ref().map(|error| failure(&self.address, error))
    }
}

impl Version {
    fn open(address: &str, key: Option<&Key>) -> Result<Option<Self>> {
        let mut versions = 0;
        loop {
            versions += 1;
            let object = Object::open(address, FIRST_TO_ASK)?;
            match unless_not_keyed(open_file(&object, key)) {
                Ok(file) => return Ok(file.map(|file| Version { object, file })),
                Err(error) if is_change(&error) && versions < VERSIONS => {}
                Err(error) => return Err(failure(address, &error)),
            }
        }
    }
}

fn open_file(object: &Object, key: Option<&Key>) -> bloomfile::Result<AskFile> {
    let length = object.length().map_err(|error| Error::Io { action: "tell its length", error })?;
    if object.tells_changes() {
        let opening = AskOpening::new(length);
        return run(key.map_or(opening, |key| AskOpening::new(length).key(key)), object);
    }
    // The page tables hold its pages together where the server does not.
    let opening = Opening::new(length);
    run(key.map_or(opening, |key| Opening::new(length).key(key)), object).map(AskFile::from)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
