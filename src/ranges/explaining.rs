//! What each byte of a file is, without reading its data.

use std::ops::ControlFlow;

use super::pieces::Pieces;
use super::{Step, Task};
use crate::error::Result;
use crate::report::{DataPages, Detail, Explained, Verification, explain_medium};

/// Tells what the bytes of a file are, as [`report::explain`](crate::report::explain), damaged or not;
/// of its data pages, what a check that was made before says.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?.close()?;
/// use bloomfile::ranges::{Explaining, Source, run};
///
/// let file = std::fs::File::open(&path).unwrap();
/// let explained = run(Explaining::new(file.length().unwrap()), &file)?;
/// assert_eq!(explained[0].field, "magic");
/// assert_eq!(explained.last().unwrap().range.end, file.length().unwrap());
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub struct Explaining {
    pieces: Pieces,
    verification: Option<Verification>,
}

impl Explaining {
    /// Of a file of this length, of which no page was checked.
    pub fn new(length: u64) -> Self {
        Explaining { pieces: Pieces::new(length), verification: None }
    }

    /// With what a check of all pages gave.
    pub fn verified(mut self, verification: Verification) -> Self {
        self.verification = Some(verification);
        self
    }
}

impl Task for Explaining {
    type Output = Vec<Explained>;

    fn step(&mut self) -> Result<Step<Vec<Explained>>> {
        let data = DataPages::Known(self.verification.as_ref());
        self.pieces.run(|pieces| {
            let mut all = Vec::new();
            explain_medium(pieces, Detail::Summary, data, &mut |explained| {
                all.push(explained);
                ControlFlow::Continue(())
            })?;
            Ok(all)
        })
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        self.pieces.give(start, bytes)
    }
}
