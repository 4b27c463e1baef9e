//! A reader that goes on in the file that takes the place of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use super::{ReadOptions, Reader};
use crate::error::{Error, Result};
use crate::storage::{FileMedium, Owner, open_to_read, unpoisoned};

/// Follows a file name: when another file takes it, look-ups go on in that one.
///
/// Files are replaced by renaming others over them, as every function here does that makes one. A
/// [`Reader`] keeps the file that it opened. A follower looks at the name again
/// ([`refresh`](Self::refresh), or from time to time by itself: [`watch`](Self::watch)), opens and
/// checks a new file while look-ups go on in the old one, and only then lets them switch. Each thread
/// that looks keys up has a [`Followed`] of its own, which never waits: a look-up costs one more load
/// than that of a `Reader`.
///
/// A file that is damaged, or of another kind, seed or secret, is not switched to: that is an error of
/// `refresh`, and the old file stays in use.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// use bloomfile::{Options, reader::Follower};
///
/// let options = Options::new().capacity(1000).false_positive_rate(0.01);
/// options.create(&path)?.close()?;
/// let follower = Follower::open(&path)?;
/// let mut reader = follower.reader();
/// assert!(!reader.contains("sheep"));
///
/// let mut other = options.replace(true).start_build(&path)?;
/// other.add("sheep");
/// other.finish()?;
/// assert!(!reader.contains("sheep"), "still the old file");
/// assert!(follower.refresh()?);
/// assert!(reader.contains("sheep"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub struct Follower {
    shared: Arc<Shared>,
    watcher: Option<Watcher>,
}

/// Copies of what is in use: as long as fewer threads than that switch at once, each finds a free one.
const COPIES: usize = 16;

/// What a follower and its readers share.
struct Shared {
    path: PathBuf,
    options: ReadOptions,
    /// How many files there were: tells a look-up that there is another one.
    generation: AtomicU64,
    /// The same in several places, each held for a few instructions. Look-ups only ever try for one of
    /// them, and take the next if another thread has it.
    current: [Mutex<Current>; COPIES],
    /// Held while the name is looked at and a file is checked.
    refreshing: Mutex<Old>,
}

/// The file in use.
#[derive(Clone)]
struct Current {
    reader: Arc<Reader>,
    generation: u64,
}

/// Files that are not in use.
#[derive(Default)]
struct Old {
    /// Readers that threads may still be looking into: unmapping a large file takes time, which must
    /// not be that of a look-up.
    retired: Vec<Arc<Reader>>,
    /// The file that was not switched to, kept open so that no other file gets its identity.
    refused: Option<Refused>,
}

/// A file as it was when it was refused.
struct Refused {
    medium: FileMedium,
    length: u64,
    modified: Option<SystemTime>,
}

/// A thread that refreshes, and how to end it.
struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
    /// The process that has the thread.
    owner: Owner,
}

impl Follower {
    /// Opens a file, to go on in those that replace it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ReadOptions::new().follow(path)
    }

    pub(super) fn with(path: &Path, options: &ReadOptions) -> Result<Self> {
        let current = Current { reader: Arc::new(options.open(path)?), generation: 0 };
        let shared = Shared {
            path: path.to_owned(),
            options: options.clone(),
            generation: AtomicU64::new(0),
            current: std::array::from_fn(|_| Mutex::new(current.clone())),
            refreshing: Mutex::default(),
        };
        Ok(Follower { shared: Arc::new(shared), watcher: None })
    }

    /// A reader for one thread.
    pub fn reader(&self) -> Followed {
        let current = unpoisoned(&self.shared.current[0]).clone();
        Followed { current, shared: Arc::clone(&self.shared) }
    }

    /// Looks whether another file has the name, and if so checks it and switches to it: whether it
    /// did.
    ///
    /// An error if the file cannot be opened, is damaged, or is of another kind: then look-ups go on
    /// in the old one.
    pub fn refresh(&self) -> Result<bool> {
        self.shared.refresh(true)
    }

    /// Refreshes every so often, in a thread of its own, until the follower is dropped. `tell` is
    /// called with what came of it whenever there was another file: `Ok` after a switch, an error once
    /// for each file that was refused.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
    /// use std::time::Duration;
    ///
    /// let mut follower = bloomfile::reader::Follower::open(&path)?;
    /// follower.watch(Duration::from_secs(5), |switched| match switched {
    ///     Ok(()) => println!("in the new file from now on"),
    ///     Err(error) => eprintln!("still in the old file: {error}"),
    /// })?;
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn watch(
        &mut self,
        every: Duration,
        mut tell: impl FnMut(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.stop();
        let (stop, stopped) = channel();
        let shared = Arc::clone(&self.shared);
        let work = move || {
            // What failed to be looked at fails again and again, and is told of once.
            let mut failing = false;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                match shared.refresh(false) {
                    Ok(switched) => {
                        failing = false;
                        if switched {
                            tell(Ok(()));
                        }
                    }
                    Err(error) => {
                        if !failing || unpoisoned(&shared.refreshing).refused.is_some() {
                            tell(Err(error));
                        }
                        failing = true;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("bloomfile follow".into())
            .spawn(work)
            .map_err(Error::io("start a thread"))?;
        self.watcher = Some(Watcher { stop, thread, owner: Owner::this_process() });
        Ok(())
    }

    /// Ends the thread that refreshes.
    fn stop(&mut self) {
        if let Some(Watcher { stop, thread, owner }) = self.watcher.take() {
            drop(stop);
            // A child that was forked does not have the thread, and would wait for ever.
            if owner.is_another_process() {
                return;
            }
            // A panic in what the user gave to be told is none of the follower's.
            let _ = thread.join();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Shared {
    /// As [`Follower::refresh`]; a file that was refused is looked at again if that is asked for or if
    /// it changed.
    fn refresh(&self, refused_too: bool) -> Result<bool> {
        let mut old = unpoisoned(&self.refreshing);
        old.retired.retain(|reader| Arc::strong_count(reader) > 1);
        let Current { reader, generation } = unpoisoned(&self.current[0]).clone();
        if reader.medium().is_some_and(|medium| medium.is_at(&self.path).unwrap_or(false)) {
            old.refused = None;
            return Ok(false);
        }
        if !refused_too && old.refused.as_ref().is_some_and(|refused| refused.is_at(&self.path)) {
            return Ok(false);
        }
        old.refused = None;
        let opened = self.open_like(&reader).inspect_err(|_| {
            old.refused = Refused::at(&self.path);
        })?;
        let current = Current { reader: Arc::new(opened), generation: generation + 1 };
        self.current.iter().for_each(|copy| *unpoisoned(copy) = current.clone());
        self.generation.store(current.generation, Ordering::Release);
        old.retired.push(reader);
        Ok(true)
    }

    /// The file that has the name now, checked, if it answers the same questions.
    fn open_like(&self, reader: &Reader) -> Result<Reader> {
        let verify = !self.options.trust;
        let opened = self.options.clone().verify(verify).open(&self.path)?;
        // Another secret was an error of opening.
        let seed = |reader: &Reader| reader.snapshot.loaded.superblock.hash_seed.to_string();
        let kind = |reader: &Reader| reader.kind().name().to_owned();
        for (parameter, value) in [("kind", &kind as &dyn Fn(&Reader) -> String), ("seed", &seed)] {
            let [old, new] = [reader, &opened].map(value);
            if old != new {
                return Err(Error::Replaced { parameter, old, new }.at(&self.path));
            }
        }
        Ok(opened)
    }
}

impl Refused {
    /// The file that has this name; `None` where it cannot be opened.
    fn at(path: &Path) -> Option<Self> {
        let medium = open_to_read(path).ok()?;
        let found = std::fs::metadata(path).ok()?;
        Some(Refused { medium, length: found.len(), modified: found.modified().ok() })
    }

    /// Whether it has this name and is as it was.
    fn is_at(&self, path: &Path) -> bool {
        let same = |found: std::fs::Metadata| {
            found.len() == self.length && found.modified().ok() == self.modified
        };
        self.medium.is_at(path).unwrap_or(false) && std::fs::metadata(path).is_ok_and(same)
    }
}

/// A thread's reader of the file that a [`Follower`] follows.
///
/// A clone is one for another thread. It keeps the file that it looked into last, until the next
/// look-up.
#[derive(Clone)]
pub struct Followed {
    current: Current,
    shared: Arc<Shared>,
}

impl Followed {
    /// The reader of the file that is in use now, with all that a [`Reader`] can do.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
    /// let mut reader = bloomfile::reader::Follower::open(&path)?.reader();
    /// let mut found = Vec::new();
    /// reader.get().contains_batch(&["sheep", "wolf"], &mut found);
    /// assert_eq!(found, [false, false]);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline]
    pub fn get(&mut self) -> &Reader {
        // A copy may be newer than this number for a moment, and never older.
        if self.shared.generation.load(Ordering::Acquire) > self.current.generation {
            self.switch();
        }
        &self.current.reader
    }

    /// As [`Reader::contains`], in the file that is in use now.
    #[inline]
    pub fn contains(&mut self, key: impl AsRef<[u8]>) -> bool {
        self.get().contains(key)
    }

    /// Takes the new file, from the first copy that no other thread has this very moment: so it never
    /// waits. Where others have all of them, this look-up is still one in the old file, and the next one
    /// tries again.
    #[cold]
    fn switch(&mut self) {
        for copy in &self.shared.current {
            let current = match copy.try_lock() {
                Ok(current) => current,
                Err(TryLockError::Poisoned(current)) => current.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            self.current = current.clone();
            return;
        }
    }
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followed").field("reader", &self.current.reader).finish_non_exhaustive()
    }
}
