//! Opening a file, or creating it where there is none.

use std::io;
use std::path::Path;

use super::Options;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::format::Superblock;
use crate::geometry::Geometry;

/// How often a file that comes or goes at the same time is looked for.
const TRIES: u32 = 8;

impl Options {
    /// Opens the file for writing, or creates it if there is none: what a program does at its start.
    ///
    /// A file that is there must be what these options would make: kind, seed, capacity, rate, size,
    /// layout, policy and generations are compared, and the first that differs is
    /// [`Error::Different`]; the file is left as it is. Journal size, identity and metadata may differ,
    /// and stay as they are in the file. It is opened as by [`Filter::open`], with the secret of these
    /// options if they have one: one that a crash left is
    /// recovered, one that another process writes is [`Error::Locked`], and a damaged one is an error,
    /// never replaced. Of several processes that come at the same time, one creates the file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::{Error, Options};
    ///
    /// let options = Options::new().capacity(1000).false_positive_rate(0.01);
    /// options.open_or_create(&path)?.add(b"sheep")?;
    /// assert!(options.open_or_create(&path)?.contains(b"sheep"));
    ///
    /// let error = options.capacity(2000).open_or_create(&path).unwrap_err();
    /// assert!(matches!(error.cause(), Error::Different { parameter: "capacity", .. }));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Filter> {
        if self.replace {
            let reason = "a file that is there is opened, and not replaced";
            return Err(Error::parameter("replace", "set", reason));
        }
        let path = path.as_ref();
        // Refused here if they make no sense, whether there is a file or not.
        let plan = self.plan()?;
        let wanted = (self.superblock(&plan)?, *plan.geometry());
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match Filter::open_as(path, self.key.as_ref()) {
                Ok(filter) => {
                    let found = filter.first_parameters();
                    refuse_other(&found, &wanted).map_err(|error| error.at(path))?;
                    return Ok(filter);
                }
                Err(error) if tries > 0 && is_missing(&error) => {}
                Err(error) => return Err(error),
            }
            match self.create(path) {
                // Another process was faster.
                Err(error) if tries > 0 && matches!(error.cause(), Error::Exists) => {}
                result => return result,
            }
        }
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error.cause(), Error::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
}

/// An error that names the first parameter of a file that is not what was wanted.
fn refuse_other(
    (file, file_geometry): &(Superblock, Geometry),
    (wanted, geometry): &(Superblock, Geometry),
) -> Result<()> {
    let number = |value: u64| if value == 0 { "none".to_owned() } else { value.to_string() };
    let rate = |value: f64| if value == 0.0 { "none".to_owned() } else { value.to_string() };
    let pairs = [
        ("kind", file.cells.name().to_owned(), wanted.cells.name().to_owned()),
        ("seed", file.hash_seed.to_string(), wanted.hash_seed.to_string()),
        ("capacity", number(file.capacity), number(wanted.capacity)),
        ("false positive rate", rate(file.target_rate), rate(wanted.target_rate)),
        ("generations", number(file.generations), number(wanted.generations)),
        ("rotate after", number(file.rotate_after), number(wanted.rotate_after)),
        ("policy when full", policy(file), policy(wanted)),
        ("size", file_geometry.to_string(), geometry.to_string()),
    ];
    match pairs.into_iter().find(|(_, file, wanted)| file != wanted) {
        None => Ok(()),
        Some((parameter, found, wanted)) => Err(Error::Different { parameter, found, wanted }),
    }
}

fn policy(superblock: &Superblock) -> String {
    format!("{:?}", superblock.when_full).to_lowercase()
}
