//! What a writer does to a file without a key in hand: so a keyed file takes no secret for it.

use std::path::Path;

use crate::error::{Error, Result};
use crate::storage::{FileMedium, open_for_writing};
use crate::writer::{Engine, Recovery};

/// What became of a file that [`rotate`] rotated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rotation {
    /// Generations in use now.
    pub generations: usize,
    /// Whether the oldest was dropped: until there are as many as the file was made with, none is.
    pub dropped: bool,
    /// What recovery found first, if the file's last writer had crashed.
    pub recovery: Option<Recovery>,
}

/// Recovers a file whose writer crashed and closes it, as opening it for writing does, and tells what
/// that found; `None` if there was nothing to recover. A keyed file takes no secret for it.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
/// assert!(bloomfile::ops::recover(&path)?.is_none());
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn recover(path: impl AsRef<Path>) -> Result<Option<Recovery>> {
    on_file(path.as_ref(), |engine| Ok(engine.recovery().cloned()))
}

/// Rotates a file, as [`Filter::rotate`](crate::Filter::rotate) does, durably. A keyed file takes no
/// secret for it.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// use bloomfile::{Key, Options, ops};
///
/// let options = Options::new().capacity(1000).false_positive_rate(0.01).generations(2);
/// options.key(&Key::random()?).create(&path)?.close()?;
/// let rotation = ops::rotate(&path)?;
/// assert_eq!((rotation.generations, rotation.dropped), (2, false));
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn rotate(path: impl AsRef<Path>) -> Result<Rotation> {
    on_file(path.as_ref(), |engine| {
        let before = engine.segments.active().count;
        engine.rotate()?;
        let generations = engine.segments.active().count;
        let recovery = engine.recovery().cloned();
        Ok(Rotation { generations, dropped: generations == before, recovery })
    })
}

/// Applies a delta to a file where it is, as [`Filter::apply_delta`](crate::Filter::apply_delta) does,
/// durably. A keyed file takes no secret for it.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Filter, Options, Reader, ops};
///
/// Options::new().capacity(1000).false_positive_rate(0.01).create(at("old"))?.close()?;
/// std::fs::copy(at("old"), at("new")).unwrap();
/// let new = Filter::open(at("new"))?;
/// new.add("sheep")?;
/// new.close()?;
/// ops::DeltaOperation::new().make(at("old"), at("new"), at("delta"))?;
///
/// let reader = Reader::open(at("old"))?;
/// ops::apply_delta(at("delta"), at("old"))?;
/// assert!(reader.contains("sheep"), "in the file that was open before");
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "digest")]
pub fn apply_delta(delta: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<super::DeltaSummary> {
    on_file(path.as_ref(), |engine| super::apply_in_place(engine, delta.as_ref()))
}

/// Opens a file for writing, does something with it and closes it.
fn on_file<T>(path: &Path, work: impl FnOnce(&Engine<FileMedium>) -> Result<T>) -> Result<T> {
    let run = || {
        let engine = Engine::open(open_for_writing(path)?)?;
        let done = work(&engine)?;
        engine.close()?;
        Ok(done)
    };
    run().map_err(|error: Error| match error.path() {
        Some(_) => error,
        None => error.at(path),
    })
}
