//! A sealed part keeps to the memory that it is given, however few of all hashes are its own.
//!
//! Alone in its file: the memory of a process is told for the process as a whole.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(missing_docs, reason = "tests")]

use bloomfile::Options;

/// A figure of the kernel's, in bytes.
fn figure(label: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(label)).unwrap();
    1024 * line.trim_end_matches("kB").trim().parse::<u64>().unwrap()
}

#[test]
fn a_sealed_part_of_many_keeps_to_its_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| folder.path().join(name);
    let (count, parts) = (8_000_000u64, 2_000);
    let options = Options::new().sealed(true).capacity(parts * count).false_positive_rate(0.01);
    let plan = options.plan_parts(parts).unwrap();
    // Hashes of one part alone: less than a 1,024th of all.
    let pages = plan.plan().geometry().pages();
    let own = plan.pages_of(701);
    let start = |page: u64| (u128::from(page) << 64).div_ceil(pages.into());
    let (first, end) = (start(own.start), start(own.end));
    let hash = |number: u64| {
        let random = u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (first + ((random * (end - first)) >> 64)) as u64
    };
    for (name, memory) in [("little", 32 << 20), ("enough", 1 << 30)] {
        // Sets the peak back to what is held now.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let held = figure("VmRSS:");
        let mut builder = plan.part(701).memory(memory).start(at(name)).unwrap();
        assert!((0..count).all(|number| builder.add_hash(hash(number))));
        let built = builder.finish().unwrap();
        let peak = figure("VmHWM:") - held;
        println!("{name}: {peak} bytes");
        assert_eq!((built.keys, built.maybe_pages), (count, 0));
        // A quarter beside it: what threads take depends on how many there are.
        assert!(peak < memory + memory / 4, "{peak} bytes of memory in place of {memory}");
    }
    assert!(std::fs::read(at("little")).unwrap() == std::fs::read(at("enough")).unwrap());
}
