//! `bloomfile publish`: a folder from which other hosts pull a filter and what changed in it.

mod manifest;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::ops::DeltaOperation;
use bloomfile::report::Inspection;
use clap::Args;
use serde::Serialize;

use super::delta::with_progress;
use crate::failure::{Failure, Result};
use crate::options::PrintArgs;
use crate::pending::Unkept;
use crate::publication::{
    Delta, Item, MOST_MANIFEST_BYTES, Manifest, PUBLISHED, Signer, Version, head_of, try_lock,
};
use crate::{output, text, units};
use manifest::Place;

/// The folder, in that of the publication, where files are made before they have a name. It is that of the
/// process with the lock: other files that are being made beside it may be those of others.
const UNFINISHED: &str = ".bloomfile-publish";

/// Room for metadata in a file (format-spec.md, F-27).
const MOST_METADATA_BYTES: usize = 1_916;

#[derive(Args, Debug)]
#[command(after_help = "\
FOLDER gets a snapshot of FILE under a name of its own, the delta that leads to it from the version
before, and, last of all, manifest.json, which names them with their hashes. Any web server or object
store can serve it as it is. Nothing that others may be reading is changed; what no version needs any
more is removed when the next one is published. FILE may be in use.

With --sign the manifest that is there gets its signature also when nothing is new. A folder with a
signature takes no version without one, which those who ask for signatures would refuse: sign it, or
say --unsigned, which removes the old signature before the new manifest gets its name.

Exit status: 0 published or signed, 1 nothing new, 2 error.

Examples:
  bloomfile publish words.bloom /var/www/words
  minisign -G -W -p words.pub -s words.key
  bloomfile publish words.bloom /var/www/words --sign words.key
  bloomfile pull https://example.org/words words.bloom --verify-key words.pub")]
pub(crate) struct PublishArgs {
    /// The filter
    pub(crate) file: PathBuf,

    /// The folder to publish it in
    pub(crate) folder: PathBuf,

    /// Versions that deltas lead from; those who have an older one pull the snapshot
    #[arg(long, value_name = "N", default_value_t = 30)]
    keep: usize,

    /// Sign the manifest with a secret key of minisign; its password, if it has one, is read from
    /// BLOOMFILE_SIGN_PASSWORD
    #[arg(long, value_name = "KEY_FILE")]
    sign: Option<PathBuf>,

    /// Publish without a signature where the version before has one
    #[arg(long, conflicts_with = "sign")]
    unsigned: bool,

    #[command(flatten)]
    print: PrintArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct PublishOutput {
    schema: u32,
    folder: String,
    published: bool,
    version: u64,
    snapshot: String,
    snapshot_bytes: u64,
    delta: Option<String>,
    delta_bytes: Option<u64>,
    versions: usize,
    signed: bool,
}

pub(super) fn run(args: &PublishArgs) -> Result<ExitCode> {
    // Before any work is done for it.
    let signer = args.sign.as_deref().map(Signer::open).transpose()?;
    make_folder(&args.folder)?;
    let _lock = lock(&args.folder)?;
    let unfinished = unfinished(&args.folder)?;
    let place = Place::new(&args.folder, unfinished.path());
    let last = place.read()?;
    let last_manifest = last.as_ref().map(|(manifest, _)| manifest);
    let made = publish(args, &place, unfinished.path(), last_manifest)?;
    let (manifest, done) = match (made, last) {
        (Some((manifest, files)), last) => {
            place.publish(&manifest, files, signer.as_ref())?;
            clean(&args.folder, &manifest, last.as_ref().map(|(last, _)| last));
            (manifest, Done::Published)
        }
        (None, Some((last, bytes))) => {
            let signed = place.sign(&last, &bytes, signer.as_ref())?;
            (last, if signed { Done::Signed } else { Done::Nothing })
        }
        (None, None) => unreachable!("a first version is always new"),
    };
    report(args, &manifest, done, place.is_signed()?)
}

/// What a call did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Published,
    /// The version that was there got a signature.
    Signed,
    Nothing,
}

fn report(args: &PublishArgs, manifest: &Manifest, done: Done, signed: bool) -> Result<ExitCode> {
    let Manifest { version, snapshot, .. } = manifest;
    let delta = manifest.deltas.first();
    if args.print.format.json {
        output::json(&PublishOutput {
            schema: 1,
            folder: args.folder.display().to_string(),
            published: done == Done::Published,
            version: *version,
            snapshot: snapshot.name.clone(),
            snapshot_bytes: snapshot.bytes,
            delta: delta.map(|delta| delta.item.name.clone()),
            delta_bytes: delta.map(|delta| delta.item.bytes),
            versions: manifest.versions.len(),
            signed,
        })?;
    } else if !args.print.quiet {
        let folder = text::path(&args.folder);
        let told = match (done, delta) {
            (Done::Nothing, _) => " is current: nothing new".to_owned(),
            (Done::Signed, _) => " is current: nothing new but its signature".to_owned(),
            (Done::Published, None) => {
                format!(": a snapshot of {}, no delta", units::size(snapshot.bytes))
            }
            (Done::Published, Some(delta)) => format!(
                ": a snapshot of {}, a delta of {} from version {}",
                units::size(snapshot.bytes),
                units::size(delta.item.bytes),
                delta.from
            ),
        };
        output::line(format_args!("{folder}: version {version}{told}"))?;
    }
    Ok(if done == Done::Nothing { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A version to be published: its manifest, and the files that are new in it.
type Made = (Manifest, Vec<Unkept>);

/// Makes snapshot and delta of the next version; `None` if nothing differs from the last one.
fn publish(
    args: &PublishArgs,
    place: &Place,
    unfinished: &Path,
    last: Option<&Manifest>,
) -> Result<Option<Made>> {
    let series = last.map_or_else(random_name, |last| last.series.clone());
    let version = last.map_or(1, |last| last.version + 1);
    let made = Unkept::new(unfinished.join("snapshot"));
    let digest = with_progress(args.print.quiet, |operation| {
        operation.replace(true).clean_copy(&args.file, made.path(), 0, |pairs| {
            pairs.insert(PUBLISHED.into(), format!("{series} {version}"));
            make_room(pairs);
        })
    });
    let digest = digest.map_err(Failure::file(&args.file))?.to_string();
    let old = last.map(|last| args.folder.join(&last.snapshot.name));
    if let Some((last, old)) = last.zip(old.as_deref())
        && last.current().digest == digest
        && said(old).is_some_and(|old| said(made.path()) == Some(old))
    {
        return Ok(None);
    }
    if args.sign.is_none() && !args.unsigned && place.is_signed()? {
        return Err(Failure::about(
            text::path(&args.folder),
            "its manifest is signed, and those who ask for a signature would refuse one without; \
             sign it with --sign KEY_FILE, or publish without a signature from now on with \
             --unsigned",
        ));
    }
    let head = head_of(made.path())?;
    let mut snapshot = Item::of(made.path(), String::new())?;
    snapshot.name = names::snapshot(version, &snapshot.sha256);
    let file = name(made, &args.folder, &snapshot.name)?;
    let this = Version { version, head, digest };
    let mut manifest = Manifest::first(series, snapshot, this);
    let mut files = Vec::new();
    if let Some((last, old)) = last.zip(old.as_deref())
        && let Some((delta, file)) = delta(args, unfinished, last, old, file.path(), &manifest)?
    {
        manifest.versions.extend(last.versions.iter().cloned());
        manifest.deltas.push(delta);
        manifest.deltas.extend(last.deltas.iter().cloned());
        shorten(&mut manifest, args.keep);
        files.push(file);
    }
    files.push(file);
    Ok(Some((manifest, files)))
}

/// Gives a file its name in the publication.
fn name(made: Unkept, folder: &Path, name: &str) -> Result<Unkept> {
    let path = folder.join(name);
    made.renamed(path.clone()).map_err(|error| {
        Failure::about(text::path(&path), format!("cannot be given its name: {error}"))
    })
}

/// Leaves out what a snapshot has no room for: what a merge says of its inputs, which takes all the room
/// there is, and if that is not enough the number of the version.
fn make_room(pairs: &mut BTreeMap<String, String>) {
    for dispensable in ["provenance", PUBLISHED] {
        let bytes: usize = pairs.iter().map(|(key, value)| 4 + key.len() + value.len()).sum();
        if bytes > MOST_METADATA_BYTES {
            pairs.remove(dispensable);
        }
    }
}

/// The delta from the last version; `None` where there is none, or it is no smaller than the snapshot.
fn delta(
    args: &PublishArgs,
    unfinished: &Path,
    last: &Manifest,
    old: &Path,
    new: &Path,
    manifest: &Manifest,
) -> Result<Option<(Delta, Unkept)>> {
    if args.keep == 0 {
        return Ok(None);
    }
    let (from, to) = (last.version, manifest.version);
    let file = Unkept::new(unfinished.join("delta"));
    let made = with_progress(args.print.quiet, |operation: DeltaOperation<'_>| {
        operation.replace(true).make(old, new, file.path())
    });
    match made {
        Ok(made) if made.bytes < manifest.snapshot.bytes => {
            let item = Item::of(file.path(), names::delta(from, to, &manifest.snapshot.sha256))?;
            let file = name(file, &args.folder, &item.name)?;
            Ok(Some((Delta { from, to, item }, file)))
        }
        Ok(_) => Ok(None),
        Err(error) => {
            // Those who have the last version pull the snapshot.
            output::warn(&args.folder, format_args!("no delta from version {from}: {error}"));
            Ok(None)
        }
    }
}

/// Leaves deltas out, the oldest first, that are not needed: beyond `keep`, those with which a chain is
/// longer than the snapshot, and those of which a manifest cannot tell that is to be read.
fn shorten(manifest: &mut Manifest, keep: usize) {
    let mut bytes = 0;
    let most = manifest.snapshot.bytes;
    let cheaper = manifest.deltas.iter().take_while(|delta| {
        bytes += delta.item.bytes;
        bytes < most
    });
    let count = cheaper.count().min(keep);
    truncate(manifest, count);
    let fits = |manifest: &Manifest| manifest.encode().len() as u64 <= MOST_MANIFEST_BYTES;
    if fits(manifest) {
        return;
    }
    let counts: Vec<usize> = (0..count).collect();
    let fitting = counts.partition_point(|&count| {
        let mut shorter = manifest.clone();
        truncate(&mut shorter, count);
        fits(&shorter)
    });
    // With none it always does.
    truncate(manifest, fitting.saturating_sub(1));
}

/// Leaves the newest deltas, and the versions that they lead from.
fn truncate(manifest: &mut Manifest, count: usize) {
    manifest.deltas.truncate(count);
    let known: BTreeSet<u64> = manifest.deltas.iter().map(|delta| delta.from).collect();
    let current = manifest.version;
    manifest
        .versions
        .retain(|version| version.version == current || known.contains(&version.version));
}

/// What a snapshot says that is no part of its digest.
fn said(path: &Path) -> Option<(BTreeMap<String, String>, u64, u64)> {
    let Inspection { mut metadata, mark, segments, .. } = bloomfile::report::inspect(path).ok()?;
    metadata.remove(PUBLISHED);
    metadata.remove("provenance");
    Some((metadata, mark, segments.iter().map(|segment| segment.adds).sum()))
}

/// Removes what neither this version nor the last one names: others may be reading by the last one.
fn clean(folder: &Path, manifest: &Manifest, last: Option<&Manifest>) {
    let named: BTreeSet<&str> = [Some(manifest), last]
        .into_iter()
        .flatten()
        .flat_map(Manifest::items)
        .map(|item| item.name.as_str())
        .collect();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| names::is_one(name) && !named.contains(name)) {
            // It is in no one's way: the next call tries again.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The folder for unfinished files, which is gone at the end.
fn unfinished(folder: &Path) -> Result<Unkept> {
    let path = folder.join(UNFINISHED);
    // One that is there was left by a process that was killed: it had the lock that this one has.
    Unkept::empty_folder(path.clone())
        .map_err(|error| Failure::about(text::path(&path), format!("cannot be made: {error}")))
}

/// Keeps another process from publishing in the same folder.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(".lock");
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(|error| {
        Failure::about(text::path(&path), format!("cannot be written: {error}"))
    })?;
    match try_lock(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(Failure::about(
            text::path(folder),
            "another process is publishing there; wait for it",
        )),
        Err(error) => Err(Failure::about(text::path(&path), format!("cannot be locked: {error}"))),
    }
}

fn make_folder(folder: &Path) -> Result<()> {
    let made = match std::fs::metadata(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(folder)
        }
        found => found.map(drop),
    };
    made.map_err(|error| Failure::about(text::path(folder), format!("cannot be used: {error}")))
}

/// A name that no other publication has.
fn random_name() -> String {
    let word = || std::hash::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}
