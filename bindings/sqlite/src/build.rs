//! `bloom_build`: a file from the keys of all rows.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bloomfile::hash::{Encoding, Hasher};
use bloomfile::{Builder, Options, Spool};
use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context};

use crate::files::{self, Files, KEY_FILE};
use crate::functions::path;
use crate::key::Form;
use crate::{Result, failed, flags};

/// The rate where none is given, as for the command.
const DEFAULT_RATE: f64 = 0.01;

/// Bytes of hashes that are kept in memory; more are in the temporary folder.
const IN_MEMORY: usize = 64 << 20;

/// Hashes that are added at once.
const BATCH: usize = 1 << 20;

pub(crate) fn register(db: &Connection, files: &Arc<Files>) -> rusqlite::Result<()> {
    for arguments in 2..=4 {
        let build = Build { files: Arc::clone(files) };
        db.create_aggregate_function(c"bloom_build", arguments, flags(), build)?;
    }
    Ok(())
}

/// The aggregate.
struct Build {
    files: Arc<Files>,
}

/// What one run of it has so far.
struct Building {
    path: PathBuf,
    options: Options,
    form: Form,
    hasher: Hasher,
    keys: Keys,
}

/// The hashes of the rows so far.
enum Keys {
    /// For a filter whose size follows from their number.
    Counted(Spool),
    /// In a builder that counts by itself.
    Sealed(Box<Builder>),
}

impl Building {
    /// Refuses what can be refused before the first key is taken.
    fn start(context: &Context<'_>) -> Result<Self> {
        let path =
            path(context.get_raw(0))?.ok_or("bloom_build takes the name of a file")?.to_owned();
        let rate = if context.len() > 2 { context.get::<Option<f64>>(2)? } else { None };
        let words = if context.len() > 3 { context.get::<Option<String>>(3)? } else { None };
        let mut options = Options::new().false_positive_rate(rate.unwrap_or(DEFAULT_RATE));
        let (mut form, mut sealed) = (Form::default(), false);
        for word in words.as_deref().unwrap_or_default().split_whitespace() {
            match word {
                "sealed" => sealed = true,
                name if form.encoding.is_none() => form.encoding = Some(name.parse()?),
                _ => return Err("bloom_build takes one encoding".into()),
            }
        }
        if let Some(encoding) = form.encoding {
            options = options.metadata(Encoding::METADATA, encoding.name());
        }
        let key = files::key()?;
        options = options.replace(may_replace(&path, key.is_some())?).sealed(sealed);
        if let Some(key) = &key {
            options = options.key(key);
        }
        let counted = if sealed { options.clone() } else { options.clone().capacity(1) };
        let builder = counted.start_build(&path)?;
        let hasher = builder.hasher();
        let keys = if sealed {
            Keys::Sealed(Box::new(builder))
        } else {
            Keys::Counted(Spool::new(IN_MEMORY))
        };
        Ok(Building { path, options, form, hasher, keys })
    }

    fn take(&mut self, context: &Context<'_>) -> Result<()> {
        if path(context.get_raw(0))? != Some(&self.path) {
            return Err("bloom_build makes one file: its name must be the same in all rows".into());
        }
        let Some(key) = self.form.key(context.get_raw(1))? else { return Ok(()) };
        let hash = self.hasher.hash(key.as_ref());
        match &mut self.keys {
            Keys::Counted(spool) => spool.add_hash(hash).map_err(unkept)?,
            Keys::Sealed(builder) => {
                builder.add_hash(hash);
            }
        }
        Ok(())
    }

    /// Makes the file and gives it its name: the number of its keys.
    fn finish(self) -> Result<u64> {
        let builder = match self.keys {
            Keys::Sealed(builder) => *builder,
            Keys::Counted(spool) => {
                let options = self.options.capacity(spool.keys().capacity().max(1));
                let mut builder = options.start_build(&self.path)?;
                let taken = spool.replay(BATCH, |hashes| {
                    builder.add_hash_batch(hashes);
                });
                taken.map_err(unkept)?;
                builder
            }
        };
        Ok(builder.finish()?.keys)
    }
}

fn unkept(error: std::io::Error) -> String {
    format!("cannot keep the keys in the temporary folder: {error}")
}

/// Whether there is a filter that gives way. What is no filter does not, nor does a keyed one to one that
/// is not: without its secret, those who choose their keys could fill it.
fn may_replace(path: &Path, keyed: bool) -> Result<bool> {
    match bloomfile::report::inspect(path) {
        Ok(found) if found.key_fingerprint.is_some() && !keyed => Err(format!(
            "{}: is keyed, and bloom_build replaces it only by a keyed one: name the key file with \
             {KEY_FILE}",
            path.display()
        )
        .into()),
        Ok(_) => Ok(true),
        Err(error) if error.is_damage() => Ok(true),
        Err(error) if error.is_bad_file() => {
            Err(format!("{error}; bloom_build replaces filters only").into())
        }
        // There is none, most likely; what else it is, the build says.
        Err(_) => Ok(false),
    }
}

/// How far a run of the aggregate is.
enum Run {
    /// No row was seen yet.
    Begun,
    Building(Box<Building>),
    /// A row was refused. SQLite asks for a result all the same, to have what was kept freed.
    Refused,
}

impl Aggregate<AssertUnwindSafe<Run>, Option<i64>> for Build {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<AssertUnwindSafe<Run>> {
        Ok(AssertUnwindSafe(Run::Begun))
    }

    fn step(
        &self,
        context: &mut Context<'_>,
        run: &mut AssertUnwindSafe<Run>,
    ) -> rusqlite::Result<()> {
        let taken = self.take(context, run);
        if taken.is_err() {
            **run = Run::Refused;
        }
        taken.map_err(failed)
    }

    fn finalize(
        &self,
        context: &mut Context<'_>,
        run: Option<AssertUnwindSafe<Run>>,
    ) -> rusqlite::Result<Option<i64>> {
        // Without a row there is no name either.
        let Some(AssertUnwindSafe(Run::Building(building))) = run else { return Ok(None) };
        refuse_if_interrupted(context)?;
        let keys = building.finish().map_err(failed)?;
        Ok(Some(keys.try_into().unwrap_or(i64::MAX)))
    }
}

impl Build {
    fn take(&self, context: &Context<'_>, run: &mut Run) -> Result<()> {
        if matches!(run, Run::Begun) {
            // A writer of this connection would keep the file from being replaced.
            if let Some(path) = path(context.get_raw(0))? {
                self.files.close(path)?;
            }
            *run = Run::Building(Box::new(Building::start(context)?));
        }
        match run {
            Run::Building(building) => building.take(context),
            _ => Ok(()),
        }
    }
}

/// An error if the statement was interrupted: then SQLite asks for a result without all rows having been
/// seen. While it runs, no other statement begins either.
fn refuse_if_interrupted(context: &Context<'_>) -> rusqlite::Result<()> {
    // SAFETY: the connection is used in this call alone.
    let db = unsafe { context.get_connection()? };
    db.query_row("SELECT 1", [], |_| Ok(()))
}
