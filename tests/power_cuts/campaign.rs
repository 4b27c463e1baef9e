//! The campaign: boot, examine what the last power cut left, work, cut, and again.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::disk::{Fate, Keep};
use crate::in_namespace;
use crate::ledger::{Ledger, Phase, Told};
use crate::machine::{FileSystem, Machine};
use crate::random::Random;
use crate::task::{Expected, History, KINDS, Kind, Silenced, Task};

/// Cuts that a file goes through before another one takes its place.
const CUTS_OF_A_FILE: u64 = 6;

/// Some cuts come within the first number of writes and flushes after a boot, so that they meet a
/// recovery or the making of a file; the others within the second.
const EARLY: u64 = 24;
const LATE: u64 = 500;

/// How long a process may take until its power is cut, or until it has examined a file: much less than
/// this, on any machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What a campaign is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    pub(crate) file_system: &'static FileSystem,
    pub(crate) cuts: u64,
    pub(crate) silenced: Option<Silenced>,
    /// Whether it ends at the first failure.
    pub(crate) stop: bool,
    pub(crate) seed: u64,
}

/// What a campaign has seen.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) cuts: u64,
    pub(crate) creations_cut: u64,
    pub(crate) recoveries_cut: u64,
    pub(crate) examinations_cut: u64,
    pub(crate) files: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    pub(crate) fate: Fate,
    /// Operations that were synced before a cut.
    pub(crate) synced: u64,
    /// Keys that were looked for in files that recovery had made whole.
    pub(crate) looked_for: u64,
    pub(crate) replayed: u64,
    pub(crate) unverifiable: u64,
    pub(crate) failures: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { cuts, creations_cut, recoveries_cut, examinations_cut, files, .. } = self;
        let Report { writes, flushes, fate, synced, looked_for, replayed, unverifiable, .. } = self;
        write!(
            f,
            "{cuts} cuts of {files} files, {creations_cut} while one was made, {recoveries_cut} during \
             a recovery, {examinations_cut} between recovery and work; {writes} writes and {flushes} \
             flushes; {} sectors not flushed, {} of them dropped; {synced} operations synced, \
             {looked_for} look-ups, {replayed} records replayed, {unverifiable} pages not verifiable; \
             {} failures",
            fate.kept + fate.dropped,
            fate.dropped,
            self.failures.len()
        )
    }
}

/// A campaign under way.
struct Campaign<'a> {
    orders: Orders,
    machine: &'a Machine,
    folder: &'a Path,
    random: Random,
    report: Report,
    runs: u64,
}

/// A file under test.
struct Subject {
    name: String,
    kind: Kind,
    history: History,
}

/// Runs a campaign in this process, which must have a mount namespace of its own.
pub(crate) fn run(orders: Orders, folder: &Path) -> Report {
    let machine = Machine::new(orders.file_system, folder);
    let mut campaign = Campaign {
        orders,
        machine: &machine,
        folder,
        random: Random::new(orders.seed),
        report: Report::default(),
        runs: 0,
    };
    while campaign.cuts_left() > 0 && !campaign.is_stopped() {
        campaign.life_of_a_file();
    }
    let requests = machine.disk.requests();
    campaign.report.writes = requests.writes;
    campaign.report.flushes = requests.flushes;
    campaign.report
}

impl Campaign<'_> {
    fn is_stopped(&self) -> bool {
        self.orders.stop && !self.report.failures.is_empty()
    }

    /// A file is made, worked on and cut several times, and examined in the end.
    fn life_of_a_file(&mut self) {
        let number = self.report.files;
        let kind = KINDS[number as usize % KINDS.len()];
        let name = format!("{}-{number}.bloom", format!("{kind:?}").to_lowercase());
        let mut subject = Subject { name, kind, history: History::default() };
        self.report.files += 1;
        let cuts = CUTS_OF_A_FILE.min(self.cuts_left());
        for cut in 0..=cuts {
            let only_examine = cut == cuts;
            if let Err(failure) = self.boot_and_cut(&mut subject, only_examine) {
                self.fail(&subject, failure);
                break;
            }
        }
    }

    /// A failure takes the place of a cut, or else a campaign that only fails would not end.
    fn cuts_left(&self) -> u64 {
        self.orders.cuts.saturating_sub(self.report.cuts + self.report.failures.len() as u64)
    }

    fn fail(&mut self, subject: &Subject, failure: String) {
        let cuts = self.report.cuts;
        self.report.failures.push(format!("{}, after {cuts} cuts: {failure}", subject.name));
    }

    /// From power on to power off. A file that is only examined is not cut.
    fn boot_and_cut(&mut self, subject: &mut Subject, only_examine: bool) -> Result<(), String> {
        let task = self.task(subject, only_examine);
        let _ = std::fs::remove_file(&task.evidence);
        let ledger = Arc::new(Ledger::open(&task.ledger));
        ledger.clear();
        if !only_examine {
            let early = self.random.below(5) < 2;
            let request = 1 + self.random.below(if early { EARLY } else { LATE });
            self.machine.disk.cut_during(request, ledger.clone());
        }
        let mut child = start(&task);
        let end = self.wait(&mut child);
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let told = match &end {
            End::Cut(told) => told.clone(),
            End::Ended | End::Hung => ledger.told(),
        };
        // A file system that does not mount says nothing about a filter on it: the disk was worse
        // than the file system allows for.
        assert!(!matches!(told.phase, Phase::Booting | Phase::NotMounted), "{end:?} {said}");
        self.machine.forget(self.orders.file_system, ledger.device());
        self.power_off(&ledger);
        if let Err(wrong) = judge(&end, told.phase, output.status) {
            self.keep_evidence(subject, &task);
            return Err(format!("{wrong}: {said}"));
        }
        self.count(subject, &told);
        subject.history.take(task.run, &told);
        Ok(())
    }

    /// Turns the power on; what the process of this boot is to do.
    fn task(&mut self, subject: &Subject, only_examine: bool) -> Task {
        self.runs += 1;
        Task {
            disk: self.machine.power_on(),
            file_system: self.orders.file_system.name.to_owned(),
            root: self.machine.root.clone(),
            name: subject.name.clone(),
            ledger: self.folder.join("ledger"),
            evidence: self.folder.join("evidence"),
            kind: subject.kind,
            run: self.runs,
            seed: self.random.seed(),
            only_examine,
            silenced: self.orders.silenced,
            history: subject.history.clone(),
        }
    }

    /// Waits for the power cut, or for the end of the process.
    fn wait(&self, child: &mut Child) -> End {
        let cut = |limit| self.machine.disk.wait_for_cut(limit);
        let begin = Instant::now();
        while begin.elapsed() < LIMIT {
            if let Some(told) = cut(Duration::from_millis(5)) {
                return End::Cut(told);
            }
            if child.try_wait().unwrap().is_some() {
                // It may be the cut that has ended it.
                return cut(Duration::ZERO).map_or(End::Ended, End::Cut);
            }
        }
        End::Hung
    }

    /// Decides what is left of the writes that were not flushed.
    fn power_off(&mut self, ledger: &Ledger) {
        let disk = &self.machine.disk;
        disk.cut_now(ledger);
        let way = Keep::WAYS[self.random.below(Keep::WAYS.len() as u64) as usize];
        let fate = disk.settle(way, &ledger.extents(), &mut self.random);
        self.report.fate.kept += fate.kept;
        self.report.fate.dropped += fate.dropped;
    }

    fn count(&mut self, subject: &Subject, told: &Told) {
        let report = &mut self.report;
        report.cuts += u64::from(told.phase != Phase::Done);
        report.creations_cut += u64::from(told.phase == Phase::Creating);
        report.recoveries_cut += u64::from(told.phase == Phase::Recovering);
        report.examinations_cut += u64::from(told.phase == Phase::Examining);
        report.synced += told.synced.iter().sum::<u64>();
        report.replayed += told.replayed;
        report.unverifiable += told.unverifiable;
        if matches!(told.phase, Phase::Working | Phase::Done) {
            subject.history.each_key(subject.kind, |_, expected| {
                report.looked_for += u64::from(expected == Expected::Present);
            });
        }
    }

    /// Keeps the file of a failure as it was before it was opened.
    fn keep_evidence(&self, subject: &Subject, task: &Task) {
        if self.orders.silenced.is_some() || !task.evidence.exists() {
            return;
        }
        let name = format!("{}-{}", self.orders.file_system.name, subject.name);
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::copy(&task.evidence, &path).unwrap();
        eprintln!("the file as it was found is {}; {:?}", path.display(), subject.history);
    }
}

/// How the time of a process came to an end.
#[derive(Debug)]
enum End {
    /// By a power cut, before which it had told this.
    Cut(Told),
    /// By itself.
    Ended,
    /// There was no power cut, although it had all the time that it could need.
    Hung,
}

/// Whether a process came to an end as it should have.
fn judge(end: &End, phase: Phase, status: ExitStatus) -> Result<(), String> {
    match end {
        End::Hung => Err(format!("{phase:?} without end")),
        End::Ended if phase == Phase::Done && status.success() => Ok(()),
        End::Ended => Err(format!("{phase:?}, ended by itself with {status}")),
        End::Cut(_) if phase == Phase::Failed => Err("failed before the power was cut".into()),
        // Without power all that the library does fails, with an error (1) or with a signal for a
        // mapped page that cannot be read, until the process is killed. It does not panic.
        End::Cut(_) => {
            let killed = [Some(libc::SIGKILL), Some(libc::SIGBUS)].contains(&status.signal());
            if killed || status.code() == Some(1) {
                return Ok(());
            }
            Err(format!("{phase:?} when the power was cut, ended with {status}"))
        }
    }
}

/// Starts this program again as the process that works.
fn start(task: &Task) -> Child {
    let mut command = in_namespace("works_until_the_power_is_cut");
    task.pass_to(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}
