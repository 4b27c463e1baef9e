//! Files on their way: each goes on where it was cut off, and counts when its hash is right.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::source::{Kind, Small};
use super::{Item, Source, Trouble, hex};
use crate::failure::{Failure, Result};
use crate::keys::Progress;
use crate::{output, text};

/// Tries without a single byte in between, and the pause before the second of them; each other one is
/// twice as long.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(500);

/// How the names of parts end, after the first digits of the hash of what they are to be.
const PART: &str = ".part";
const DIGITS: usize = 16;

/// Locks a file; false if another process has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Length and SHA-256 of a file.
pub(crate) fn sha256_file(path: &Path) -> Result<(u64, String)> {
    let unreadable = |error| Failure::about(text::path(path), format!("cannot be read: {error}"));
    let mut file = File::open(path).map_err(unreadable)?;
    let (mut hash, mut bytes) = (Sha256::new(), vec![0; 1 << 20]);
    let mut length = 0;
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok((length, hex(&hash.finalize()))),
            Ok(count) => {
                hash.update(&bytes[..count]);
                length += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
}

/// Fetches the files of a publication, next to the file that they are for.
pub(crate) struct Downloads<'a> {
    source: &'a Source,
    /// What the names of parts begin with.
    prefix: PathBuf,
    quiet: bool,
    /// What was fetched, to be taken away when all is done.
    fetched: Vec<PathBuf>,
    /// Bytes that came in all.
    pub(crate) transferred: u64,
}

impl<'a> Downloads<'a> {
    /// For this file. Parts of it are hidden files beside it.
    pub(crate) fn new(source: &'a Source, file: &Path, quiet: bool) -> Self {
        let mut prefix = OsString::from(".");
        prefix.push(file.file_name().unwrap_or_default());
        prefix.push(".");
        let prefix = file.with_file_name(prefix);
        Downloads { source, prefix, quiet, fetched: Vec::new(), transferred: 0 }
    }

    fn part(&self, item: &Item) -> PathBuf {
        let mut name = self.prefix.as_os_str().to_owned();
        name.push(format!("{}{PART}", &item.sha256[..DIGITS]));
        name.into()
    }

    /// A small file with its tag; `None` if it still has the one that is known.
    pub(crate) fn small(
        &mut self,
        name: &str,
        most: u64,
        known: Option<&str>,
    ) -> Result<Option<Small>, Trouble> {
        let mut tries = 0;
        loop {
            match self.source.get_all_unless(name, most, known) {
                Ok(found) => {
                    self.transferred += found.as_ref().map_or(0, |small| small.bytes.len() as u64);
                    return Ok(found);
                }
                Err(trouble) => pause_or_fail(trouble, &mut tries, TRIES)?,
            }
        }
    }

    /// The path of a file that is whole and has its hash. The caller takes it away.
    pub(crate) fn fetch(&mut self, item: &Item) -> Result<PathBuf, Trouble> {
        let path = self.part(item);
        let shown = text::path(&path);
        let local = |error: io::Error| {
            Trouble::local(format!("{shown} cannot be written: {error}{}", advice(&error)))
        };
        let mut file = loop {
            let file = OpenOptions::new().create(true).append(true).read(true).open(&path);
            let file = file.map_err(local)?;
            match try_lock(&file) {
                // Another pull may have taken it away just before.
                Ok(true) if path.exists() => break file,
                Ok(true) => {}
                Ok(false) => {
                    return Err(Trouble::local(format!("{shown}: another pull is writing it")));
                }
                Err(error) => {
                    return Err(Trouble::local(format!("{shown} cannot be locked: {error}")));
                }
            }
        };
        let bar = Progress::new(item.bytes, self.quiet);
        let mut tries = 0;
        // Whether what is there came in this call from its first byte on.
        let mut fresh = false;
        loop {
            let have = file.metadata().map_err(local)?.len();
            if have == item.bytes {
                let (_, found) =
                    sha256_file(&path).map_err(|error| Trouble::local(error.to_string()))?;
                if found == item.sha256.to_ascii_lowercase() {
                    file.sync_all().map_err(local)?;
                    self.fetched.push(path.clone());
                    return Ok(path);
                }
                file.set_len(0).map_err(local)?;
                if fresh {
                    // Nothing of it is of any use.
                    let _ = std::fs::remove_file(&path);
                    return Err(Trouble::wrong(format!(
                        "{} is not what the manifest says: its SHA-256 is {found}",
                        item.name
                    )));
                }
                continue;
            }
            if have > item.bytes {
                file.set_len(0).map_err(local)?;
                continue;
            }
            fresh |= have == 0;
            bar.reached(have);
            match self.go_on(item, &mut file, have, &bar) {
                Ok(came) if came > 0 => tries = 0,
                Ok(_) => {
                    let message = format!("{} was cut short", item.name);
                    pause_or_fail(Trouble::transient(message), &mut tries, TRIES)?;
                }
                Err(trouble) => pause_or_fail(trouble, &mut tries, TRIES)?,
            }
        }
    }

    /// Appends what comes: how many bytes that are.
    fn go_on(
        &mut self,
        item: &Item,
        file: &mut File,
        have: u64,
        bar: &Progress,
    ) -> Result<u64, Trouble> {
        let answer = self.source.get(&item.name, have)?;
        if let Some(total) = answer.total.filter(|&total| total != item.bytes) {
            return Err(Trouble::wrong(format!(
                "{} has {total} bytes, and the manifest says {}",
                item.name, item.bytes
            )));
        }
        let written = |error: io::Error| {
            Trouble::local(format!("cannot write {}: {error}{}", item.name, advice(&error)))
        };
        let mut at = have;
        if answer.start != have {
            // All of it, from a server that knows no ranges.
            file.set_len(0).map_err(written)?;
            at = 0;
        }
        let (mut body, mut bytes, mut came) =
            (answer.body.take(item.bytes - at), vec![0; 1 << 16], 0);
        loop {
            match body.read(&mut bytes) {
                Ok(0) => return Ok(came),
                Ok(count) => {
                    file.write_all(&bytes[..count]).map_err(written)?;
                    came += count as u64;
                    self.transferred += count as u64;
                    bar.reached(at + came);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What came stays.
                Err(_) if came > 0 => return Ok(came),
                Err(error) => {
                    return Err(Trouble::transient(format!(
                        "{} was cut short: {error}",
                        item.name
                    )));
                }
            }
        }
    }

    /// Takes away what was fetched, and what earlier calls left of other versions.
    pub(crate) fn clean(&self) {
        for path in &self.fetched {
            let _ = std::fs::remove_file(path);
        }
        let Some(folder) = self.prefix.parent() else { return };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if self.is_part(&entry.file_name()) {
                remove_unless_held(&entry.path());
            }
        }
    }

    /// Whether a name is that of a part of this file, and of no other one whose name begins like its.
    fn is_part(&self, name: &OsStr) -> bool {
        let prefix = self.prefix.file_name().unwrap_or_default().as_encoded_bytes();
        let hash = name.as_encoded_bytes().strip_prefix(prefix);
        let hash = hash.and_then(|rest| rest.strip_suffix(PART.as_bytes()));
        hash.is_some_and(|hash| hash.len() == DIGITS && hash.iter().all(u8::is_ascii_hexdigit))
    }
}

/// Removes a part, unless another pull is writing it.
fn remove_unless_held(path: &Path) {
    // What is no regular file is not a pull's, and opening it may never return.
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return;
    }
    // One that is not the user's to remove is no reason to fail.
    if let Ok(file) = OpenOptions::new().append(true).open(path)
        && try_lock(&file).is_ok_and(|free| free)
    {
        let _ = std::fs::remove_file(path);
    }
}

/// Waits before another try, unless that is of no use.
pub(crate) fn pause_or_fail(trouble: Trouble, tries: &mut u32, most: u32) -> Result<(), Trouble> {
    *tries += 1;
    if trouble.kind != Kind::Transient || *tries >= most {
        return Err(trouble);
    }
    let pause = PAUSE * 2u32.pow(*tries - 1);
    output::note(format_args!("{}; trying again in {:.1} s", trouble.message, pause.as_secs_f64()));
    std::thread::sleep(pause);
    Ok(())
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; free some space",
        _ => "",
    }
}
