//! `bloomfile pull`: a published filter, and what changed in it since.

mod between;
mod manifest;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bloomfile::Error;
use clap::Args;

use super::delta::with_progress;
use crate::failure::{Failure, Result};
use crate::options::PrintArgs;
use crate::publication::{
    Delta, Downloads, Kind, Manifest, PUBLISHED, Source, Trouble, Verifier, head_of,
};
use crate::{output, text, units};
use between::Between;
use manifest::{Known, MANIFESTS, PAUSE, fetch_manifest};
use report::report;

#[derive(Args, Debug)]
#[command(after_help = "\
Reads the manifest and takes the cheapest way from FILE, if it is there, to the current version:
nothing, deltas, or the whole snapshot. Everything is verified before it takes the name of FILE;
programs that have the old file open keep it, and readers of the library can follow. What was cut off
goes on where it was. With --every a manifest that did not change is not sent again.

SOURCE is a folder, or with the feature `network` an address: http:// or https://, or s3://BUCKET/FOLDER
of AWS or any store that speaks S3. These variables are read:
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY  sign requests; without them the bucket must be public
  AWS_SESSION_TOKEN                         goes with those that are temporary
  AWS_REGION, AWS_DEFAULT_REGION            us-east-1 if none is set
  AWS_ENDPOINT, AWS_ENDPOINT_URL_S3,        another store; the bucket is part of the path then
    AWS_ENDPOINT_URL
  http_proxy, https_proxy, all_proxy        an HTTP proxy, which must allow CONNECT; no_proxy names
                                            hosts that need none; also in capitals
  SSL_CERT_FILE                             certificates to trust, instead of those built in
Profiles, roles of an instance, gs:// and az:// are not: docs/publishing.md says what to do instead.

Exit status: 0 changed, 1 already current, 2 error: FILE is as it was.

Examples:
  bloomfile pull https://example.org/words words.bloom
  bloomfile pull https://example.org/words words.bloom --verify-key words.pub --every 5m
  bloomfile pull s3://bucket/words words.bloom --json")]
pub(crate) struct PullArgs {
    /// Where it is published: a folder or an address
    pub(crate) source: String,

    /// The file to keep
    pub(crate) file: PathBuf,

    /// Take only what is signed with this public key of minisign: a file, or the key itself
    #[arg(long, value_name = "KEY")]
    verify_key: Option<String>,

    /// Take an older version than the one that is there
    #[arg(long)]
    allow_older: bool,

    /// Go on pulling, so long apart: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = units::parse_interval)]
    every: Option<Duration>,

    #[command(flatten)]
    print: PrintArgs,
}

/// What is in place of the file that is pulled.
struct Local {
    head: String,
    /// Series and version, if it came from a publication.
    published: Option<(String, u64)>,
}

pub(super) fn run(args: &PullArgs) -> Result<ExitCode> {
    let verifier = args.verify_key.as_deref().map(Verifier::new).transpose()?;
    let source = Source::open(&args.source)?;
    between::remove_abandoned(folder_of(&args.file));
    let mut last = None;
    let Some(every) = args.every else { return pull(args, &source, verifier.as_ref(), &mut last) };
    loop {
        if let Err(failure) = pull(args, &source, verifier.as_ref(), &mut last) {
            if matches!(failure, Failure::ClosedPipe) {
                return Err(failure);
            }
            output::note(failure);
        }
        std::thread::sleep(every);
    }
}

fn pull(
    args: &PullArgs,
    source: &Source,
    verifier: Option<&Verifier>,
    last: &mut Option<Known>,
) -> Result<ExitCode> {
    let mut downloads = Downloads::new(source, &args.file, args.print.quiet);
    let about = |message: String| Failure::about(text::key(args.source.as_bytes()), message);
    let (mut tries, mut problems) = (0, Vec::new());
    let (manifest, way, from) = loop {
        tries += 1;
        let manifest = fetch_manifest(&mut downloads, verifier, last).map_err(about)?;
        let local = look_at(&args.file)?;
        refuse_older(args, local.as_ref(), &manifest)?;
        let from = local.as_ref().and_then(|local| version_of(local, &args.file, &manifest));
        // What was removed after the manifest was read is not in the next one.
        let again = tries < MANIFESTS;
        match bring(args, &mut downloads, &manifest, local.as_ref(), from, again, &mut problems) {
            Ok(way) => break (manifest, way, from),
            Err(Stopped::Missing(_)) if again => std::thread::sleep(PAUSE * tries),
            Err(Stopped::Missing(message)) => return Err(about(message)),
            Err(Stopped::Failed(failure)) => return Err(failure),
        }
    };
    downloads.clean();
    report(args, &manifest, way, from, downloads.transferred, problems)
}

/// How the file was brought to the current version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Current,
    Deltas(usize),
    Snapshot,
}

/// Why it was not.
enum Stopped {
    /// A file that the manifest names is not there.
    Missing(String),
    Failed(Failure),
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Self {
        match trouble.kind {
            Kind::Missing => Stopped::Missing(trouble.message),
            _ => Stopped::Failed(Failure::new(trouble.message)),
        }
    }
}

/// What is there; `None` if nothing is.
fn look_at(path: &Path) -> Result<Option<Local>> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::about(text::path(path), format!("cannot be looked up: {error}")));
        }
        Ok(_) => {}
    }
    let inspection = match bloomfile::report::inspect(path) {
        Ok(inspection) => Some(inspection),
        // A snapshot takes its place.
        Err(error) if error.is_damage() => None,
        Err(error) => return Err(Failure::file(path)(error)),
    };
    let published = inspection.and_then(|inspection| {
        let (series, version) = inspection.metadata.get(PUBLISHED)?.split_once(' ')?;
        Some((series.to_owned(), version.parse().ok()?))
    });
    Ok(Some(Local { head: head_of(path)?, published }))
}

fn refuse_older(args: &PullArgs, local: Option<&Local>, manifest: &Manifest) -> Result<()> {
    let here = local.and_then(|local| local.published.as_ref());
    match here {
        Some((series, version))
            if *series == manifest.series && *version > manifest.version && !args.allow_older =>
        {
            Err(Failure::about(
                text::path(&args.file),
                format!(
                    "is version {version}, and the source has only version {}; take that with \
                     --allow-older",
                    manifest.version
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// The version that a file is, by its headers or by its contents.
fn version_of(local: &Local, path: &Path, manifest: &Manifest) -> Option<u64> {
    let by_head = manifest.versions.iter().find(|version| version.head == local.head);
    if let Some(version) = by_head {
        return Some(version.version);
    }
    // A damaged file is no version.
    let digest = bloomfile::ops::digest(path).ok()?.to_string();
    manifest.versions.iter().find(|version| version.digest == digest).map(|version| version.version)
}

fn bring(
    args: &PullArgs,
    downloads: &mut Downloads<'_>,
    manifest: &Manifest,
    local: Option<&Local>,
    from: Option<u64>,
    again: bool,
    problems: &mut Vec<String>,
) -> Result<Way, Stopped> {
    if local.is_some_and(|local| local.head == manifest.current().head) {
        return Ok(Way::Current);
    }
    if let Some(chain) = from.and_then(|from| manifest.chain(from)) {
        let bytes: u64 = chain.iter().map(|delta| delta.item.bytes).sum();
        if bytes < manifest.snapshot.bytes {
            match follow(args, downloads, manifest, &chain) {
                Ok(()) => return Ok(Way::Deltas(chain.len())),
                Err(Followed::Stopped(failure)) => return Err(Stopped::Failed(failure)),
                Err(Followed::Missing(reason)) if again => return Err(Stopped::Missing(reason)),
                Err(Followed::Missing(reason) | Followed::Useless(reason)) => {
                    let told =
                        format!("cannot take deltas ({reason}), and is replaced by a snapshot");
                    // Once, if the snapshot is not there and both are tried again.
                    if !problems.contains(&reason) {
                        output::warn(&args.file, told);
                        problems.push(reason);
                    }
                }
            }
        }
    }
    let path = downloads.fetch(&manifest.snapshot)?;
    install(args, manifest, &path)?;
    Ok(Way::Snapshot)
}

/// Why a chain was not gone.
enum Followed {
    /// A snapshot would not help.
    Stopped(Failure),
    /// A delta is not there.
    Missing(String),
    /// A delta, or the file that is there, is not what it should be.
    Useless(String),
}

impl From<Trouble> for Followed {
    fn from(trouble: Trouble) -> Self {
        match trouble.kind {
            Kind::Missing => Followed::Missing(trouble.message),
            Kind::Wrong => Followed::Useless(trouble.message),
            _ => Followed::Stopped(Failure::new(trouble.message)),
        }
    }
}

/// Applies deltas one after the other; the last one replaces the file.
fn follow(
    args: &PullArgs,
    downloads: &mut Downloads<'_>,
    manifest: &Manifest,
    chain: &[&Delta],
) -> Result<(), Followed> {
    // All of them first: what takes long must not be interrupted by the network.
    let mut fetched: Vec<(&Delta, PathBuf)> = Vec::new();
    for &delta in chain {
        fetched.push((delta, downloads.fetch(&delta.item)?));
    }
    for (delta, path) in &fetched {
        let made = bloomfile::ops::inspect_delta(path)
            .map_err(|error| blame(&delta.item.name, path, error))?;
        let to = manifest.versions.iter().find(|version| version.version == delta.to);
        if to.is_none_or(|to| to.digest != made.new_digest.to_string()) {
            let Delta { to, item, .. } = delta;
            let reason =
                format!("{} does not lead to version {to} as the manifest says", item.name);
            return Err(Followed::Useless(reason));
        }
    }
    let folder = folder_of(&args.file);
    let between = Between::new(folder).map_err(|error| {
        Followed::Stopped(Failure::about(text::path(folder), format!("cannot be written: {error}")))
    })?;
    let mut old = args.file.clone();
    for (number, (delta, path)) in fetched.iter().enumerate() {
        let last = number + 1 == fetched.len();
        let new = if last { args.file.clone() } else { between.version(number) };
        with_progress(args.print.quiet, |operation| {
            operation.replace(true).apply(path, &old, &new)
        })
        .map_err(|error| {
            let is_of_delta = number > 0 || error.path() == Some(path);
            let file = text::path(&args.file).to_string();
            let subject = if is_of_delta { &delta.item.name } else { &file };
            blame(subject, &args.file, error)
        })?;
        if number > 0 {
            // Whatever is left goes with the folder.
            let _ = std::fs::remove_file(&old);
        }
        old = new;
    }
    Ok(())
}

/// What an error while a delta was used means. The subject is what is wrong where a snapshot helps, and the
/// path what the error is about where it does not.
fn blame(subject: &str, path: &Path, error: Error) -> Followed {
    let other = matches!(
        error.cause(),
        Error::OtherVersion { .. }
            | Error::NotADelta { .. }
            | Error::Version { .. }
            | Error::Features { .. }
    );
    if other || error.is_damage() {
        Followed::Useless(format!("{subject}: {}", error.cause()))
    } else {
        Followed::Stopped(Failure::file(path)(error))
    }
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Puts a snapshot in the place of the file, once each page of it is verified.
fn install(args: &PullArgs, manifest: &Manifest, path: &Path) -> Result<(), Stopped> {
    let fail = |failure| Stopped::Failed(failure);
    let wrong = |what: &str| {
        let reason = format!("has another {what} than the manifest says");
        fail(Failure::about(text::key(manifest.snapshot.name.as_bytes()), reason))
    };
    if head_of(path).map_err(fail)? != manifest.current().head {
        return Err(wrong("head"));
    }
    let digest = bloomfile::ops::digest(path).map_err(|error| fail(Failure::file(path)(error)))?;
    if digest.to_string() != manifest.current().digest {
        return Err(wrong("digest"));
    }
    with_progress(args.print.quiet, |operation| {
        operation.replace(true).clean_copy(path, &args.file, 0, |_| ())
    })
    .map_err(|error| fail(Failure::file(&args.file)(error)))?;
    Ok(())
}
