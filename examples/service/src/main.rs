//! A filter in an asynchronous program, here with tokio: which calls a task may make where it is, and
//! which belong on a thread that may wait.
//!
//! `cargo run --release --manifest-path examples/service/Cargo.toml`. Requests come in as tasks: each
//! asks whether its key was seen before, and is answered when the key is durable. Look-ups of many keys
//! go over several threads. At the end the counters are printed as Prometheus would fetch them.
//! `docs/async.md` has the rules in one table.

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use bloomfile::{Filter, Options, ReadOptions, Reader};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const REQUESTS: u64 = 20_000;
const CLIENTS: u64 = 64;

/// A filter, and the task that makes its keys durable.
struct Seen {
    filter: Arc<Filter>,
    /// Asks for a sync. One request that waits to be seen is enough: a sync covers all adds before it.
    wake: watch::Sender<()>,
    /// How many syncs have begun, and how many of them are done.
    begun: watch::Receiver<u64>,
    done: watch::Receiver<u64>,
}

impl Seen {
    /// Opens the file, and starts the task that syncs it.
    async fn open(path: PathBuf) -> Result<(Self, tokio::task::JoinHandle<Result<()>>)> {
        // Opening reads and may recover; the first change of a session writes a slot and waits for
        // the disk. Both are done here, and not by the first request.
        let filter = spawn_blocking(move || -> bloomfile::Result<_> {
            let options = Options::new().capacity(1_000_000).false_positive_rate(0.001);
            let filter = options.open_or_create(path)?;
            filter.set_metadata("served by", Some("example"))?;
            filter.add(b"the first change of this session")?;
            Ok(Arc::new(filter))
        })
        .await??;
        let (wake, mut woken) = watch::channel(());
        let (begin, begun) = watch::channel(0);
        let (finish, done) = watch::channel(0);
        let synced = Arc::clone(&filter);
        let syncer = tokio::spawn(async move {
            // Ends when the last `Seen` is gone.
            while woken.changed().await.is_ok() {
                begin.send_modify(|number| *number += 1);
                let filter = Arc::clone(&synced);
                spawn_blocking(move || filter.sync()).await??;
                finish.send_replace(*begin.borrow());
            }
            Ok(())
        });
        Ok((Seen { filter, wake, begun, done }, syncer))
    }

    /// Whether the key was seen before; notes it, and returns when it is durable.
    async fn again(&self, key: &[u8]) -> Result<bool> {
        // Neither waits for the disk: this is the whole work of most requests.
        if self.filter.contains(key) {
            return Ok(true);
        }
        let new = self.filter.add(key)?;
        // The first sync that begins from here on covers the key.
        let wanted = *self.begun.borrow() + 1;
        self.wake.send_replace(());
        self.done.clone().wait_for(|&number| number >= wanted).await?;
        Ok(!new)
    }
}

/// Counts those of many keys that may be in, over as many threads as there are processors: look-ups in
/// bulk take processor time, which tasks beside them would miss.
async fn count_known(reader: &Arc<Reader>, keys: Vec<Vec<u8>>) -> Result<usize> {
    let threads = std::thread::available_parallelism()?.get();
    let mut parts = JoinSet::new();
    for part in keys.chunks(keys.len().div_ceil(threads).max(1)) {
        let (reader, part) = (Arc::clone(reader), part.to_vec());
        parts.spawn_blocking(move || {
            let mut found = Vec::new();
            reader.contains_batch(&part, &mut found);
            found.into_iter().filter(|&found| found).count()
        });
    }
    Ok(parts.join_all().await.into_iter().sum())
}

/// The counters of writer and reader in the text format of Prometheus. Neither call waits for the disk,
/// and look-ups and adds pay nothing for them.
fn metrics(filter: &Filter, reader: &Reader) -> String {
    let (writer, pages) = (filter.stats(), reader.stats());
    let mut text = String::new();
    for (name, kind, value) in [
        ("syncs_total", "counter", writer.syncs as f64),
        ("flushes_total", "counter", writer.flushes as f64),
        ("longest_sync_seconds", "gauge", writer.longest_sync.as_secs_f64()),
        ("checkpoints_total", "counter", writer.checkpoints as f64),
        ("last_checkpoint_seconds", "gauge", writer.last_checkpoint.as_secs_f64()),
        ("longest_checkpoint_seconds", "gauge", writer.longest_checkpoint.as_secs_f64()),
        ("stalls_total", "counter", writer.stalls as f64),
        ("journal_records", "gauge", writer.journal_records as f64),
        ("journal_capacity", "gauge", writer.journal_capacity as f64),
        ("recoveries_total", "counter", writer.recoveries as f64),
        ("crowded_blocks", "gauge", writer.crowded_blocks as f64),
        ("pages_checked", "gauge", pages.pages_checked as f64),
        ("pages_damaged", "gauge", pages.pages_damaged as f64),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE bloomfile_{name} {kind}\nbloomfile_{name} {value}");
    }
    text
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("seen.bloom");
    let (seen, syncer) = Seen::open(path.clone()).await?;
    let seen = Arc::new(seen);

    // Clients that send every other key a second time.
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let seen = Arc::clone(&seen);
        clients.spawn(async move {
            let mut known = 0;
            for request in (client..REQUESTS).step_by(CLIENTS as usize) {
                let key = format!("request {request}");
                known += u64::from(seen.again(key.as_bytes()).await?);
                if (request / CLIENTS).is_multiple_of(2) {
                    known += u64::from(seen.again(key.as_bytes()).await?);
                }
            }
            Result::Ok(known)
        });
    }
    let mut known = 0;
    while let Some(client) = clients.join_next().await {
        known += client??;
    }
    println!("{REQUESTS} keys, {known} requests for keys seen before");
    assert!((REQUESTS / 2..REQUESTS / 2 + REQUESTS / 100).contains(&known), "{known}");

    // Another reader of the same file, which could be another process. Its pages are read now and
    // checked at once, so that no look-up waits for the disk later.
    let opened = path.clone();
    let reader = spawn_blocking(move || ReadOptions::new().verify(true).open(opened)).await??;
    let reader = Arc::new(reader);
    let keys = (0..2 * REQUESTS).map(|request| format!("request {request}").into_bytes());
    let found = count_known(&reader, keys.collect()).await?;
    println!("{found} of {} keys may be in", 2 * REQUESTS);
    assert!((REQUESTS as usize..REQUESTS as usize + 200).contains(&found), "{found}");

    let text = metrics(&seen.filter, &reader);
    print!("{text}");
    let stats = seen.filter.stats();
    assert!(stats.syncs > 0 && stats.syncs < REQUESTS, "{stats:?}");
    assert_eq!(reader.stats().pages_damaged, 0);

    // No more requests: the syncer ends, and the filter is closed where it may wait. Dropping it would
    // close it as well, on a thread that tasks need, and without a word of an error.
    let filter = Arc::clone(&seen.filter);
    drop(seen);
    syncer.await??;
    let filter = Arc::into_inner(filter).ok_or("the filter is still in use")?;
    spawn_blocking(move || filter.close()).await??;
    Ok(())
}
