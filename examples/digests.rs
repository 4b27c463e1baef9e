//! Two hosts that exchange digests of what their caches hold, so that each can ask the other for
//! what it is likely to have before it asks the slow origin.
//!
//! `cargo run --release --example digests`. The hosts are two threads, the network is a pair of
//! channels that carry the bytes of the files.

use std::error::Error;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use bloomfile::{
    Options, Reader,
    ops::{Contents, SetOperation, compare},
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Keys that each host caches; every third of the second one's is in the first one's as well.
const CACHED: u64 = 50_000;

/// What a host learns.
struct Learnt {
    host: &'static str,
    sent: usize,
    /// Objects it lacks that the other one may have, and how many of those it really has.
    offered: u64,
    real: u64,
}

fn objects(host: &str) -> impl Iterator<Item = u64> + Clone {
    let (start, step) = if host == "amsterdam" { (0, 3) } else { (0, 2) };
    (0..CACHED).map(move |number| start + step * number)
}

fn name(object: u64) -> Vec<u8> {
    format!("/objects/{object}").into_bytes()
}

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let (to_warsaw, from_amsterdam) = channel();
    let (to_amsterdam, from_warsaw) = channel();
    std::thread::scope(|scope| {
        let amsterdam =
            scope.spawn(|| run("amsterdam", "warsaw", folder.path(), to_warsaw, from_warsaw));
        let warsaw =
            scope.spawn(|| run("warsaw", "amsterdam", folder.path(), to_amsterdam, from_amsterdam));
        for host in [amsterdam, warsaw] {
            let learnt = host.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            println!(
                "{:<10} sent {} bytes for {CACHED} objects; of its misses, {} may be next door, {} are",
                learnt.host, learnt.sent, learnt.offered, learnt.real
            );
        }
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })?;

    // A host that has both digests can tell how much the caches share, and what they hold together.
    let [a, b] = ["amsterdam", "warsaw"].map(|host| folder.path().join(format!("{host}.bloom")));
    if let Contents::Compared(pages) = compare(&a, &b)?.contents {
        let shared = pages.overlap.intersection;
        println!(
            "both hold about {:.0} objects ({:.0} to {:.0})",
            shared.value, shared.low, shared.high
        );
    }
    let all = SetOperation::new().union(&[a, b], folder.path().join("all.bloom"))?;
    println!("together they hold about {:.0}", all.keys.value);
    Ok(())
}

/// One host: builds its digest, sends it, takes the other's, and asks it.
fn run(
    host: &'static str,
    other: &'static str,
    folder: &Path,
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
) -> Outcome<Learnt> {
    let digest = folder.join(format!("{host}.bloom"));
    let options = Options::new().capacity(CACHED).false_positive_rate(0.01).journal_bytes(0);
    let mut builder = options.metadata("host", host).start_build(&digest)?;
    objects(host).for_each(|object| {
        builder.add(name(object));
    });
    builder.finish()?;
    let bytes = std::fs::read(&digest)?;
    let sent = bytes.len();
    to.send(bytes)?;

    // What comes over a wire is checked before it is believed.
    let received = folder.join(format!("{other}-at-{host}.bloom"));
    std::fs::write(&received, from.recv()?)?;
    let digest = bloomfile::ReadOptions::new().verify(true).open(&received)?;
    let (mut offered, mut real) = (0, 0);
    let mine: std::collections::HashSet<u64> = objects(host).collect();
    let theirs: std::collections::HashSet<u64> = objects(other).collect();
    for object in (0..3 * CACHED).filter(|object| !mine.contains(object)) {
        let there = theirs.contains(&object);
        let perhaps = ask(&digest, object);
        assert!(perhaps || !there, "a digest never denies what its host has");
        offered += u64::from(perhaps);
        real += u64::from(perhaps && there);
    }
    Ok(Learnt { host, sent, offered, real })
}

fn ask(digest: &Reader, object: u64) -> bool {
    digest.contains(name(object))
}
