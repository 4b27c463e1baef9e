//! The memory that `build` takes: what the cores need, however many keys there are.

use std::process::Child;
use std::time::Duration;

use crate::sandbox::{Sandbox, numbers};

/// Most memory of its own that a process has had, in MiB, as seen until it ended. What it maps of files
/// does not count: how much of that is there is for the system to say.
fn peak(child: &mut Child) -> f64 {
    let path = format!("/proc/{}/status", child.id());
    let mut peak: f64 = 0.0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        peak = kilobytes.map_or(peak, |kilobytes| peak.max(kilobytes / 1024.0));
        std::thread::sleep(Duration::from_micros(200));
    }
    assert!(child.wait().unwrap().success());
    peak
}

#[test]
fn build_takes_the_memory_that_the_cores_need() {
    if !std::path::Path::new("/proc/self/status").exists() {
        eprintln!("skipped: this system does not tell how much memory a process had");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("few.txt", numbers(1000));
    sandbox.write("keys.txt", numbers(3_000_000));
    let build = |line: &str| peak(&mut sandbox.spawn(&format!("build -q -f a.bloom {line}")));
    // On a busy machine the moment may be missed in which most memory is in use: what is seen is never
    // too much, and the most of several runs is near enough.
    let few = (0..10).map(|_| build("few.txt")).fold(0.0, f64::max);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let most = 8.0 + 4.0 * cores;
    for capacity in ["", " -n 3M"] {
        let noticed = (0..5).any(|_| {
            let more = build(&format!("keys.txt{capacity}")) - few;
            println!("build{capacity} of 3 M keys, {cores} cores: {few:.1} MiB and {more:.1} more");
            assert!(more < most, "{more} MiB, not {most}");
            more > 1.0
        });
        assert!(noticed, "the memory of the keys is not seen");
    }
}
