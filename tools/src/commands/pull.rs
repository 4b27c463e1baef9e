//! `bloomfile pull`: a published filter, and what changed in it since.

mod between;
mod manifest;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bloomfile::Error;
use clap::Args;
use serde::Serialize;

use super::delta::with_progress;
use crate::failure::{Failure, Result};
use crate::options::PrintArgs;
use crate::publication::{
    Delta, Downloads, Manifest, PUBLISHED, Source, Trouble, Verifier, head_of,
};
use crate::{output, text, units};
use between::Between;
use manifest::{Known, MANIFESTS, PAUSE, fetch_manifest};

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

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct PullOutput {
    schema: u32,
    file: String,
    /// `current`, `deltas` or `snapshot`.
    way: &'static str,
    from_version: Option<u64>,
    version: u64,
    deltas: usize,
    transferred_bytes: u64,
    file_bytes: u64,
    new_digest: String,
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
    let mut tries = 0;
    let (manifest, way, from) = loop {
        tries += 1;
        let manifest = fetch_manifest(&mut downloads, verifier, last).map_err(about)?;
        let local = look_at(&args.file)?;
        refuse_older(args, local.as_ref(), &manifest)?;
        let from = local.as_ref().and_then(|local| version_of(local, &args.file, &manifest));
        match bring(args, &mut downloads, &manifest, local.as_ref(), from) {
            Ok(way) => break (manifest, way, from),
            // It was removed after the manifest was read: there is a newer one.
            Err(Stopped::Missing(_)) if tries < MANIFESTS => std::thread::sleep(PAUSE * tries),
            Err(Stopped::Missing(message)) => return Err(about(message)),
            Err(Stopped::Failed(failure)) => return Err(failure),
        }
    };
    downloads.clean();
    report(args, &manifest, way, from, downloads.transferred)
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
        if trouble.missing {
            Stopped::Missing(trouble.message)
        } else {
            Stopped::Failed(Failure::new(trouble.message))
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
) -> Result<Way, Stopped> {
    if local.is_some_and(|local| local.head == manifest.current().head) {
        return Ok(Way::Current);
    }
    if let Some(chain) = from.and_then(|from| manifest.chain(from)) {
        let bytes: u64 = chain.iter().map(|delta| delta.item.bytes).sum();
        if bytes < manifest.snapshot.bytes {
            match follow(args, downloads, manifest, &chain) {
                Ok(()) => return Ok(Way::Deltas(chain.len())),
                Err(Followed::Stopped(stopped)) => return Err(stopped),
                Err(Followed::Local(error)) => {
                    output::warn(
                        &args.file,
                        format_args!("cannot take deltas ({error}), and is replaced by a snapshot"),
                    );
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
    Stopped(Stopped),
    /// The file that is there is not what it says it is.
    Local(Error),
}

/// Applies deltas one after the other; the last one replaces the file.
fn follow(
    args: &PullArgs,
    downloads: &mut Downloads<'_>,
    manifest: &Manifest,
    chain: &[&Delta],
) -> Result<(), Followed> {
    let stop = |trouble: Trouble| Followed::Stopped(trouble.into());
    let fail = |failure| Followed::Stopped(Stopped::Failed(failure));
    // All of them first: what takes long must not be interrupted by the network.
    let fetched: Vec<PathBuf> = chain
        .iter()
        .map(|delta| downloads.fetch(&delta.item).map_err(stop))
        .collect::<Result<_, _>>()?;
    for (path, delta) in fetched.iter().zip(chain) {
        let made = bloomfile::ops::inspect_delta(path)
            .map_err(|error| fail(Failure::file(path)(error)))?;
        let to = manifest.versions.iter().find(|version| version.version == delta.to);
        if to.is_none_or(|to| to.digest != made.new_digest.to_string()) {
            let reason = format!("does not lead to version {} as the manifest says", delta.to);
            return Err(fail(Failure::about(text::key(delta.item.name.as_bytes()), reason)));
        }
    }
    let folder = folder_of(&args.file);
    let unusable =
        |error| fail(Failure::about(text::path(folder), format!("cannot be written: {error}")));
    let between = Between::new(folder).map_err(unusable)?;
    let mut old = args.file.clone();
    for (number, path) in fetched.iter().enumerate() {
        let last = number + 1 == fetched.len();
        let new = if last { args.file.clone() } else { between.version(number) };
        let applied = with_progress(args.print.quiet, |operation| {
            operation.replace(true).apply(path, &old, &new)
        });
        match applied {
            Ok(_) => {}
            Err(error) if number == 0 && is_of_the_file(&error) => {
                return Err(Followed::Local(error));
            }
            Err(error) => return Err(fail(Failure::file(&args.file)(error))),
        }
        if number > 0 {
            // Whatever is left goes with the folder.
            let _ = std::fs::remove_file(&old);
        }
        old = new;
    }
    Ok(())
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether the file that is there is to blame, so that a snapshot helps.
fn is_of_the_file(error: &Error) -> bool {
    matches!(error.cause(), Error::OtherVersion { .. })
        || (error.is_damage() && !matches!(error.cause(), Error::DamagedDelta { .. }))
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

fn report(
    args: &PullArgs,
    manifest: &Manifest,
    way: Way,
    from: Option<u64>,
    transferred: u64,
) -> Result<ExitCode> {
    let version = manifest.version;
    let (name, deltas) = match way {
        Way::Current => ("current", 0),
        Way::Deltas(count) => ("deltas", count),
        Way::Snapshot => ("snapshot", 0),
    };
    if args.print.format.json {
        output::json(&PullOutput {
            schema: 1,
            file: args.file.display().to_string(),
            way: name,
            from_version: from,
            version,
            deltas,
            transferred_bytes: transferred,
            file_bytes: manifest.snapshot.bytes,
            new_digest: manifest.current().digest.clone(),
        })?;
    } else if !args.print.quiet {
        let file = text::path(&args.file);
        let size = units::size(transferred);
        let told = match way {
            Way::Current => format!("version {version} is current"),
            Way::Deltas(count) => {
                let deltas = units::counted(count as u64, "delta");
                format!("version {version} by {deltas} from version {}", from.unwrap_or(0))
            }
            Way::Snapshot => format!("version {version} by a snapshot"),
        };
        output::line(format_args!("{file}: {told}; {size} transferred"))?;
    }
    Ok(if way == Way::Current { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
