//! Power cuts on real file systems: what was acknowledged is there afterwards.
//!
//! A process with several threads adds and syncs on ext4, xfs or btrfs, which is mounted from a loop
//! device over a disk in user space (`disk.rs`, `fuse.rs`). The disk knows what was flushed. At any
//! write or flush its power is cut: from then on every request fails, and of what was written and not
//! flushed it keeps some sectors and drops the others. Then the machine boots again: the file system
//! is mounted and recovers, and another process opens the filter, which is cut again at any point.
//!
//! The short form runs with the other tests, where this process may mount and the programs are there.
//! The long form needs root and fails without; the number is that of cuts on each file system:
//!
//! `BLOOMFILE_DISK_CUTS=1000 cargo test --release --test power_cuts -- --nocapture`

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges are what is meant")]

mod boot;
mod campaign;
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod fuse;
mod ledger;
mod machine;
mod random;
mod silence;
mod task;
mod work;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use campaign::Orders;
use machine::{BTRFS, EXT4, FILE_SYSTEMS, FileSystem, XFS};
use task::{SILENCED, Silenced, Task};

/// Cuts on each file system of the form that runs with the other tests.
const CUTS: u64 = 72;

/// Cuts within which a control must have failed.
const CONTROL_CUTS: u64 = 600;

/// How long the short form of a campaign waits for a system whose mounts may hang.
const LONGEST: Duration = Duration::from_secs(240);

const SEED: u64 = 20_261_118;

/// Orders for the process that runs a campaign, and the folder it works in.
const ORDERS: &str = "BLOOMFILE_TEST_ORDERS";
const FOLDER: &str = "BLOOMFILE_TEST_FOLDER";

/// Cuts of the long form on each file system, if that was asked for.
fn long_form() -> Option<u64> {
    std::env::var("BLOOMFILE_DISK_CUTS").ok().map(|text| text.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("BLOOMFILE_SEED").map_or(SEED, |text| text.parse().unwrap())
}

/// What this machine lacks for a campaign, if anything.
fn lack(file_system: &FileSystem, folder: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("this needs root".into());
    }
    let opened = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    if let Err(error) = opened {
        return Some(format!("/dev/fuse: {error}"));
    }
    let FileSystem { name, bytes, make, .. } = file_system;
    let script = format!(
        "mkdir probe
         truncate -s {bytes} image
         {make} image
         mount -t {name} -o loop image probe"
    );
    let output =
        Command::new("unshare").args(["-m", "sh", "-ec", &script]).current_dir(folder).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return Some(format!("unshare: {error}")),
    };
    let _ = std::fs::remove_file(folder.join("image"));
    let said = String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| said.lines().last().unwrap_or("no mount").to_owned())
}

/// A command that runs one function of this file as a process in a mount namespace of its own.
fn in_namespace(role: &str) -> Command {
    let mut command = Command::new("unshare");
    command.arg("-m").arg(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]);
    command
}

/// Runs a campaign as a process in a mount namespace of its own, and gives its failures and what it
/// printed; none where it cannot be run.
fn campaign(
    file_system: &FileSystem,
    cuts: u64,
    silenced: Option<Silenced>,
) -> Option<(u64, String)> {
    let folder = common::Folder::in_memory();
    let folder = folder.at("power-cuts");
    std::fs::create_dir(&folder).unwrap();
    let name = file_system.name;
    if let Some(lack) = lack(file_system, &folder) {
        assert!(long_form().is_none(), "power cuts on {name} are not possible here: {lack}");
        eprintln!("skipped: power cuts on {name} ({lack})");
        return None;
    }
    let control = SILENCED.iter().position(|known| *known == silenced).unwrap();
    let stop = u64::from(long_form().is_none() || silenced.is_none());
    // To files: a process that the system cannot end would keep a pipe open.
    let [out, errors] = ["out", "errors"].map(|name| folder.join(name));
    let mut child = in_namespace("runs_a_campaign")
        .env(ORDERS, format!("{name} {cuts} {control} {stop} {}", seed()))
        .env(FOLDER, &folder)
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if long_form().is_none() && started.elapsed() > LONGEST {
            let _ = child.kill();
            eprintln!("skipped: power cuts on {name} (this system's mounts hang)");
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let [said, complained] = [out, errors]
        .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    assert_eq!(status.code(), Some(0), "{status}\n{said}\n{complained}");
    let report = said.lines().find_map(|line| line.strip_prefix("report ")).unwrap();
    let (failures, report) = report.split_once(' ').unwrap();
    let without =
        silenced.map_or(String::new(), |call| format!(" without {call:?}").to_lowercase());
    println!("{name}{without}, seed {}: {report}", seed());
    Some((failures.parse().unwrap(), format!("{report}\n{complained}")))
}

/// The process of a campaign.
#[test]
#[ignore = "started by other tests"]
fn runs_a_campaign() {
    let (Ok(orders), Some(folder)) = (std::env::var(ORDERS), std::env::var_os(FOLDER)) else {
        return;
    };
    boot::die_with_parent();
    let (name, numbers) = orders.split_once(' ').unwrap();
    let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
    let orders = Orders {
        file_system: FileSystem::of_name(name),
        cuts: numbers[0],
        silenced: SILENCED[numbers[1] as usize],
        stop: numbers[2] != 0,
        seed: numbers[3],
    };
    let report = campaign::run(orders, Path::new(&folder));
    for failure in &report.failures {
        eprintln!("{failure}");
    }
    println!("\nreport {} {report}", report.failures.len());
}

/// The process that boots a machine and works there until its power is cut.
#[test]
#[ignore = "started by a campaign"]
fn works_until_the_power_is_cut() {
    if let Some(task) = Task::of_this_process() {
        work::run(&task);
    }
}

fn keys_survive(file_system: &FileSystem) {
    if let Some((failures, said)) = campaign(file_system, long_form().unwrap_or(CUTS), None) {
        assert_eq!(failures, 0, "{said}");
    }
}

#[test]
fn what_was_acknowledged_survives_power_cuts_on_ext4() {
    keys_survive(&EXT4);
}

#[test]
fn what_was_acknowledged_survives_power_cuts_on_xfs() {
    keys_survive(&XFS);
}

#[test]
fn what_was_acknowledged_survives_power_cuts_on_btrfs() {
    keys_survive(&BTRFS);
}

/// Or else the campaign would be worth nothing.
fn keys_are_lost_without(silenced: Silenced) {
    for file_system in FILE_SYSTEMS {
        let cuts = long_form().unwrap_or(CONTROL_CUTS);
        if let Some((failures, said)) = campaign(file_system, cuts, Some(silenced)) {
            assert!(failures > 0, "no failure: {said}");
        }
    }
}

#[test]
fn control_without_fdatasync() {
    keys_are_lost_without(Silenced::Fdatasync);
}

#[test]
fn control_without_msync() {
    keys_are_lost_without(Silenced::Msync);
}
