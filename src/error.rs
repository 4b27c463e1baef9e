//! One error for everything: each variant says what is wrong and what to do about it.

mod asking;
mod making;
pub(crate) mod memory;

use std::io;
use std::path::PathBuf;

use making::advice;

/// What can go wrong, with a sentence the user can act on.
///
/// What is about a file comes as [`Error::File`], which names it; [`Error::cause`] is what is wrong
/// with it. Every message reads as a sentence, and says in it what the system said: so no error has a
/// source that would be printed a second time.
///
/// ```
/// use bloomfile::{Error, Options};
///
/// let error = Options::new().capacity(0).false_positive_rate(0.01).plan().unwrap_err();
/// assert!(matches!(error, Error::Parameter { name: "capacity", .. }));
/// assert_eq!(error.to_string(), "capacity cannot be 0: it must be at least 1");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused or failed something.
    #[error("cannot {action}: {error}{}", advice(error))]
    Io {
        /// What was being done, as in "cannot …".
        action: &'static str,
        /// What the system said.
        error: io::Error,
    },

    /// A data page cannot be read.
    #[error("cannot read data page {page} of segment {segment}: {error}; the disk may be failing")]
    Page {
        /// The segment it is in.
        segment: u32,
        /// Its number within the segment.
        page: u64,
        /// What the system said.
        error: io::Error,
    },

    /// A parameter that makes no sense or cannot be reached.
    #[error("{name} cannot be {value}: {reason}")]
    Parameter {
        /// The parameter's name.
        name: &'static str,
        /// The value it was given.
        value: String,
        /// Why that is impossible and what would be possible.
        reason: String,
    },

    /// The file is something else.
    #[error("is not a bloomfile: {kind}; check the path")]
    NotABloomfile {
        /// What it looks like instead.
        kind: String,
    },

    /// The file is no part of a filter.
    #[error("is not a part of a filter: {kind}; give the files that were built as parts")]
    NotAPart {
        /// What it looks like instead.
        kind: String,
    },

    /// The file was sent through something that rewrites line ends or strips a bit.
    #[error(
        "was damaged by a text-mode transfer ({how}); copy it again in binary mode from the original"
    )]
    TextMode {
        /// What was found in place of the magic.
        how: &'static str,
    },

    /// The file was written by a later version of the format.
    #[error(
        "has format version {found}, this program reads version {supported}; use a newer bloomfile"
    )]
    Version {
        /// Version in the file.
        found: u32,
        /// Version this program reads.
        supported: u32,
    },

    /// The file uses features this program does not know.
    #[error(
        "needs features this program does not know ({word} feature bits {bits:#x}); use a newer bloomfile{}",
        if *read_only { ", or open it for reading only" } else { "" }
    )]
    Features {
        /// Which feature word.
        word: &'static str,
        /// The unknown bits.
        bits: u32,
        /// Whether the file can still be read.
        read_only: bool,
    },

    /// A checksum does not match what it protects.
    #[error(
        "{what} is damaged (checksum {expected:08x} expected, {found:08x} found); restore the file from a copy or build it again"
    )]
    Checksum {
        /// The structure that is damaged.
        what: String,
        /// The checksum stored.
        expected: u32,
        /// The checksum of what is there.
        found: u32,
    },

    /// The page table does not match its checksum.
    #[error(
        "the page table is damaged (checksum {expected:08x} expected, {found:08x} found); restore the file from a copy, or run repair, which answers \"maybe\" for what was lost"
    )]
    PageTable {
        /// The checksum stored.
        expected: u32,
        /// The checksum of what is there.
        found: u32,
    },

    /// The page table holds an entry that no page can have.
    #[error(
        "the page table is damaged (no page can have what it says of page {page}: checksum {crc:08x}, {ones} ones); restore the file from a copy, or run repair, which answers \"maybe\" for what was lost"
    )]
    PageEntry {
        /// The page, within its segment.
        page: u64,
        /// The checksum in the entry.
        crc: u32,
        /// The number of ones in the entry.
        ones: u32,
    },

    /// A field of a header holds a value that the format forbids.
    #[error(
        "{what} holds an impossible value ({field} = {value}: {reason}); restore the file from a copy or build it again"
    )]
    Field {
        /// The structure.
        what: &'static str,
        /// The field's name in format-spec.md.
        field: &'static str,
        /// What it holds.
        value: String,
        /// What the format asks for.
        reason: String,
    },

    /// The file is shorter or longer than its headers say.
    #[error(
        "is {found} bytes long, its headers say {expected}: it was {}; copy it again from the original",
        if found < expected { "cut short" } else { "extended" }
    )]
    Length {
        /// Length the headers ask for.
        expected: u64,
        /// Length of the file.
        found: u64,
    },

    /// Neither slot can be read.
    #[error(
        "both state slots are damaged, so it is not known what the file held; restore it from a copy or build it again"
    )]
    NoSlot,

    /// The newest slot was damaged after the file had been written on from it.
    #[error(
        "the newest state slot is lost (the journal holds records from after number {found}), so keys would be missing; restore the file from a copy or build it again"
    )]
    SlotLost {
        /// Sequence number of the newest slot that can be read.
        found: u64,
    },

    /// A counter of the slots is so near its end that a writer could not close the file again.
    #[error(
        "has no numbers left for a writer's next slots ({field} {value}); it can still be read: make a new file of it, by a merge or an export, and write to that"
    )]
    NumbersSpent {
        /// The counter's name in format-spec.md.
        field: &'static str,
        /// What it holds.
        value: u64,
    },

    /// Data pages that do not match their checksums.
    #[error(
        "{count} data {} damaged (first: page {page} of segment {segment}{}); restore the file from a copy, or run repair, which answers \"maybe\" for what was lost",
        if *count == 1 { "page is" } else { "pages are" },
        if *lost { ": bits were lost" } else { "" }
    )]
    Damaged {
        /// Number of damaged pages: of a file that another process has locked, those that were found
        /// before it was refused.
        count: u64,
        /// Segment of the first one.
        segment: u32,
        /// Number of the first one within its segment.
        page: u64,
        /// Whether the first one has fewer ones than it must have.
        lost: bool,
    },

    /// A record that had been made durable is missing from the journal.
    #[error(
        "journal record {index} is damaged although it had been synced; restore the file from a copy, or run repair"
    )]
    Journal {
        /// The record's number in the journal.
        index: u64,
    },

    /// Another process has the file open for writing.
    #[error("is being written by another process; wait for it to finish, or open it for reading")]
    Locked,

    /// A writer changed the file each time it was read.
    #[error("was changed by its writer each time it was read; try again")]
    Busy,

    /// The file is another one than it was when it was opened: it was written or replaced since.
    #[error("was changed while it was read; open it again")]
    Changed,

    /// A file of that name is there already.
    #[error("already exists; choose another name, or ask for it to be replaced")]
    Exists,

    /// A handle whose file could not be written: nothing more is done through it.
    #[error(
        "an earlier call failed ({first}), so this handle does nothing more; open the file again: all that was synced is in it"
    )]
    Poisoned {
        /// What the first call that failed said.
        first: String,
        /// What kind of failure that was, when the system reported it.
        kind: Option<io::ErrorKind>,
    },

    /// A handle that was opened before a fork, used in the child.
    #[error(
        "this handle belongs to the process that this one was forked from, and only that one may write through it; open the file again in this process once the other has closed it"
    )]
    Forked,

    /// The filter holds as many keys as it was made for.
    #[error("is full: {reason} (made for {capacity} keys); build a larger one")]
    Full {
        /// The number of keys it was made for.
        capacity: u64,
        /// Why it takes no more.
        reason: &'static str,
    },

    /// A sealed filter, asked for what only a filter of cells can do.
    #[error(
        "is sealed, and cannot be {action}: its pages are solutions for the keys it was built from; build a new file from all the keys"
    )]
    Sealed {
        /// What cannot be done to it, as in "cannot be …".
        action: &'static str,
    },

    /// The file is keyed (see [`Key`](crate::Key)), and no secret was given.
    #[error("is keyed: it takes the secret key with the fingerprint {fingerprint}; give that one")]
    KeyNeeded {
        /// What the file says of its secret.
        fingerprint: String,
    },

    /// Another secret than the one that the file was made with: every answer would be a "no".
    #[error(
        "was made with another secret key: its fingerprint is {expected}, that of the key given {found}; give the one it was made with"
    )]
    WrongKey {
        /// What the file says of its secret.
        expected: String,
        /// That of the secret given.
        found: String,
    },

    /// A secret was given for a file that has none: it may be another file than the one meant.
    #[error("is not keyed, and a secret key was given; ask it without one if it is the right file")]
    NotKeyed,

    /// A file that should hold a secret key.
    #[error("cannot be used as a key file: {reason}")]
    KeyFile {
        /// Why not, and what to do.
        reason: String,
    },

    /// A key to be taken out that is certainly not in.
    #[error("the key is not in the filter; nothing was changed")]
    NotPresent,

    /// A key to be taken out of a filter with several segments, more than one of which seems to
    /// hold it.
    #[error(
        "more than one segment seems to hold the key, and taking it out of the wrong one would lose others; nothing was changed"
    )]
    Ambiguous,

    /// Something is wrong with a file.
    #[error("{}: {error}", path.to_string_lossy().escape_debug())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<Error>,
    },

    /// A file that is there is not what the options would make.
    #[error(
        "has {parameter} {found}, and {wanted} is asked for; open it as it is, or choose another name"
    )]
    Different {
        /// The first parameter that differs.
        parameter: &'static str,
        /// Its value in the file.
        found: String,
        /// The value that was asked for.
        wanted: String,
    },

    /// A file that took the place of another one, and that those who follow do not switch to.
    #[error(
        "was replaced by a file with another {parameter} ({old} before, {new} now); look-ups go on in the old one: open the new one by itself if it is the right file"
    )]
    Replaced {
        /// The first parameter that differs.
        parameter: &'static str,
        /// Its value in the file in use.
        old: String,
        /// Its value in the new one.
        new: String,
    },

    /// A file that should be a delta.
    #[error("is not a delta: {kind}; check the path")]
    NotADelta {
        /// What it looks like instead.
        kind: String,
    },

    /// A delta whose bytes were changed or lost.
    #[error("is a damaged delta ({reason}); get it again")]
    DamagedDelta {
        /// What is wrong with it.
        reason: String,
    },

    /// A delta for another file, or for another version of this one.
    #[error(
        "the delta is for another version of the file: {parameter} is {found}, and the delta is for {expected}; get the one for this version, or the whole file"
    )]
    OtherVersion {
        /// The first parameter that differs.
        parameter: &'static str,
        /// Its value in the file.
        found: String,
        /// The value that the delta is for.
        expected: String,
    },

    /// A file that is made in memory and would take more of it than was allowed.
    #[error(
        "leads to a file of {bytes} bytes, and at most {most} are allowed; allow more, or make the new one from files (DeltaOperation::apply)"
    )]
    TooLong {
        /// Length of the file that would be made.
        bytes: u64,
        /// Most bytes that it may have.
        most: u64,
    },

    /// A delta that an open filter cannot take in.
    #[error(
        "the delta cannot be applied in place: {reason}; make a new file of it that takes the name of the old one (DeltaOperation::apply)"
    )]
    NotInPlace {
        /// What stands against it.
        reason: String,
    },

    /// Two filters that cannot be combined.
    #[error("{parameter} differs: {left} and {right}; only filters built alike can be combined")]
    Incompatible {
        /// The first parameter that differs.
        parameter: &'static str,
        /// Its value in the first filter.
        left: String,
        /// Its value in the other one.
        right: String,
    },
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
