//! `bloomfile bench`: how fast this file answers, on this machine, now.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use bloomfile::{ReadOptions, Reader, reader::Access};
use clap::Args;

use crate::failure::{Failure, Result};
use crate::options::SecretArgs;
use crate::output::Listing;
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Looks up random keys of 16 bytes, which are hardly ever in, and changes nothing.

Exit status: 0 done, 2 error.

Examples:
  bloomfile bench seen.bloom")]
pub(crate) struct BenchArgs {
    /// The filter
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Number of keys to look up
    #[arg(short = 'n', long, value_name = "N", default_value = "1M")]
    #[arg(value_parser = units::parse_count)]
    pub(crate) keys: u64,

    #[command(flatten)]
    pub(crate) secret: SecretArgs,
}

/// Rounds of each measurement: the fastest counts, the others were disturbed.
const ROUNDS: usize = 5;

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let mut listing = Listing::default();
    let start = Instant::now();
    let mapped = open(args, Access::Mapped)?;
    listing.row("open", format_args!("{:.3} ms", start.elapsed().as_secs_f64() * 1e3));
    let keys: Vec<[u8; 16]> = (0..args.keys.max(1)).map(key).collect();
    let first = time(keys.len(), 1, || look_up(&mapped, &keys));
    listing.row("first look-up", per_key(first, "as the cache was"));
    rows(&mut listing, "mapped", &mapped, &keys);
    rows(&mut listing, "in memory", &open(args, Access::Memory)?, &keys);
    let found = look_up(&mapped, &keys);
    listing.row(
        "found",
        format_args!(
            "{} of {} random keys ({})",
            units::count(found),
            units::count(keys.len() as u64),
            units::percent(found as f64 / keys.len() as f64)
        ),
    );
    output::print(format_args!("{}\n{listing}", text::path(&args.file)))?;
    Ok(ExitCode::SUCCESS)
}

fn open(args: &BenchArgs, access: Access) -> Result<Reader> {
    let options = args.secret.apply_to_reading(ReadOptions::new().access(access))?;
    options.open(&args.file).map_err(Failure::file(&args.file))
}

/// A key of 16 random bytes; hardly one that is in.
fn key(number: u64) -> [u8; 16] {
    (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_le_bytes()
}

fn look_up(reader: &Reader, keys: &[[u8; 16]]) -> u64 {
    keys.iter().filter(|key| reader.contains(&key[..])).count() as u64
}

fn rows(listing: &mut Listing, what: &str, reader: &Reader, keys: &[[u8; 16]]) {
    let one = time(keys.len(), ROUNDS, || look_up(reader, keys));
    listing.row(what, per_key(one, "one by one"));
    let mut found = Vec::new();
    let batch = time(keys.len(), ROUNDS, || {
        reader.contains_batch(keys, &mut found);
        found.len() as u64
    });
    listing.row("", per_key(batch, "in batches"));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = keys.len().div_ceil(threads).max(1);
    let all = time(keys.len(), ROUNDS, || {
        std::thread::scope(|scope| {
            let mut shares = keys.chunks(share);
            let own = shares.next().unwrap_or_default();
            for keys in shares {
                let work = || black_box(look_up(reader, keys));
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    // No more threads can be had: the figure is that of fewer.
                    black_box(look_up(reader, keys));
                }
            }
            black_box(look_up(reader, own));
        });
        0
    });
    listing.row("", per_key(all, &format!("on {}", units::counted(threads as u64, "thread"))));
}

/// Nanoseconds per key, in the best round.
fn time(keys: usize, rounds: usize, mut work: impl FnMut() -> u64) -> f64 {
    let times = (0..rounds).map(|_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64() * 1e9 / keys as f64
    });
    times.fold(f64::MAX, f64::min)
}

fn per_key(nanoseconds: f64, how: &str) -> String {
    format!("{nanoseconds:.1} ns per key, {how}")
}
