//! What a working process is told: its file, and what must be in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use bloomfile::{CellKind, Filter, Key, Options, ReadOptions, Reader};

use crate::ledger::{THREADS, Told};

/// The kinds of files that a campaign works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Counting,
    Growing,
    Rotating,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Plain, Kind::Counting, Kind::Growing, Kind::Rotating];

/// Generations of a rotating file, and the adds to each of them.
const GENERATIONS: u64 = 4;
const ROTATE_AFTER: u64 = 1_500;

impl Kind {
    /// Files of a few dozen pages, with journals that are full every few hundred adds.
    pub(crate) fn options(self) -> Options {
        let mut options = Options::new().false_positive_rate(0.001).journal_bytes(16 << 10);
        if let Some(secret) = self.secret() {
            options = options.key(&secret);
        }
        match self {
            Kind::Plain => options.capacity(60_000),
            Kind::Counting => options.capacity(30_000).kind(CellKind::Counting),
            Kind::Growing => options.capacity(500).grow(),
            Kind::Rotating => {
                options.capacity(2_000).generations(GENERATIONS).rotate_after(ROTATE_AFTER)
            }
        }
    }

    /// The secret of the files of a kind: some are keyed, and the others not.
    fn secret(self) -> Option<Key> {
        let keyed = matches!(self, Kind::Counting | Kind::Growing);
        keyed.then(|| Key::from_bytes(*b"a secret of cuts"))
    }

    pub(crate) fn open(self, path: &Path) -> bloomfile::Result<Filter> {
        match self.secret() {
            Some(secret) => Filter::open_with_key(path, &secret),
            None => Filter::open(path),
        }
    }

    pub(crate) fn open_to_read(self, path: &Path) -> bloomfile::Result<Reader> {
        match self.secret() {
            Some(secret) => ReadOptions::new().key(&secret).open(path),
            None => Reader::open(path),
        }
    }

    /// The number of adds behind a key that it outlives. The generation that takes the adds and the
    /// one before it are never the oldest of four, and so on.
    fn remembered(self) -> u64 {
        if self == Kind::Rotating { (GENERATIONS - 1) * ROTATE_AFTER } else { u64::MAX }
    }

    /// Operation `number` of a thread: in a counting file one in eight takes out the key of an
    /// earlier one.
    pub(crate) fn operation(self, number: u64) -> Operation {
        if self == Kind::Counting && number % 8 == 7 {
            Operation::Remove(number - REMOVED_AFTER)
        } else {
            Operation::Add(number)
        }
    }
}

/// A key is taken out after this number of further operations, if at all.
const REMOVED_AFTER: u64 = 4;

/// What a thread does; keys have the number of the operation that adds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add(u64),
    Remove(u64),
}

/// What must be true of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Present,
    Absent,
}

/// A process that worked on the file, and how far it had come when the power was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) synced: [u64; THREADS],
    pub(crate) begun: [u64; THREADS],
}

impl Run {
    /// Operations that may be in the file.
    fn all(&self) -> u64 {
        self.begun.iter().sum()
    }
}

/// What is known of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// A process was told that the file is there.
    pub(crate) exists: bool,
    /// The mark is not below the first and not above the second.
    pub(crate) mark: (u64, u64),
    pub(crate) runs: Vec<Run>,
}

impl History {
    /// Takes in what a process had told when the power was cut.
    pub(crate) fn take(&mut self, run: u64, told: &Told) {
        self.exists |= told.exists;
        if told.begun.iter().any(|&begun| begun > 0) || told.mark_begun > 0 {
            let (least, most) = self.mark;
            self.mark = (told.mark.max(least), told.mark_begun.max(most));
            self.runs.push(Run { number: run, synced: told.synced, begun: told.begun });
        }
    }

    /// Hands every key of which something is known to a function.
    pub(crate) fn each_key(&self, kind: Kind, mut check: impl FnMut([u8; 24], Expected)) {
        let mut later = 0;
        for run in self.runs.iter().rev() {
            for thread in 0..THREADS {
                let mut check_number = |number: u64, expected| {
                    // Of the adds of this run, at least those of the same thread came before.
                    let behind = later + run.all() - number - 1;
                    if behind < kind.remembered() {
                        check(key(run.number, thread, number), expected);
                    }
                };
                for number in 0..run.synced[thread] {
                    let removal = number + REMOVED_AFTER;
                    match kind.operation(number) {
                        Operation::Remove(removed) => check_number(removed, Expected::Absent),
                        // It may have been taken out already, or not.
                        Operation::Add(_)
                            if kind.operation(removal) == Operation::Remove(number)
                                && removal < run.begun[thread] => {}
                        Operation::Add(_) => check_number(number, Expected::Present),
                    }
                }
            }
            later += run.all();
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{} {} {}", u64::from(self.exists), self.mark.0, self.mark.1);
        for Run { number, synced, begun } in &self.runs {
            text += &format!(" {number}");
            synced.iter().chain(begun).for_each(|count| text += &format!(" {count}"));
        }
        text
    }

    fn from_text(text: &str) -> Self {
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let run = |numbers: &[u64]| Run {
            number: numbers[0],
            synced: numbers[1..=THREADS].try_into().unwrap(),
            begun: numbers[1 + THREADS..].try_into().unwrap(),
        };
        History {
            exists: numbers[0] != 0,
            mark: (numbers[1], numbers[2]),
            runs: numbers[3..].chunks_exact(1 + 2 * THREADS).map(run).collect(),
        }
    }
}

/// The key of an operation; no two runs have one in common.
pub(crate) fn key(run: u64, thread: usize, number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&run.to_le_bytes());
    key[8..16].copy_from_slice(&(thread as u64).to_le_bytes());
    key[16..].copy_from_slice(&number.to_le_bytes());
    key
}

/// System calls that do nothing in the working process: what a control leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silenced {
    Fdatasync,
    Msync,
}

/// What a campaign may leave out: nothing, or a control.
pub(crate) const SILENCED: [Option<Silenced>; 3] =
    [None, Some(Silenced::Fdatasync), Some(Silenced::Msync)];

impl Silenced {
    pub(crate) fn calls(self) -> &'static [libc::c_long] {
        match self {
            Silenced::Fdatasync => &[libc::SYS_fdatasync],
            Silenced::Msync => &[libc::SYS_msync],
        }
    }
}

/// What a process is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// The disk, as a file.
    pub(crate) disk: PathBuf,
    pub(crate) file_system: String,
    /// Where the disk is mounted.
    pub(crate) root: PathBuf,
    /// The filter's name there.
    pub(crate) name: String,
    /// The page that it tells on.
    pub(crate) ledger: PathBuf,
    /// Where it leaves a copy of a file that is not as it should be.
    pub(crate) evidence: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) run: u64,
    pub(crate) seed: u64,
    /// Whether it ends once the file is examined.
    pub(crate) only_examine: bool,
    pub(crate) silenced: Option<Silenced>,
    pub(crate) history: History,
}

/// The task in the environment of the process: paths and names in lines, numbers, the history.
const TASK: [&str; 3] =
    ["BLOOMFILE_TEST_NAMES", "BLOOMFILE_TEST_NUMBERS", "BLOOMFILE_TEST_HISTORY"];

impl Task {
    /// The filter.
    pub(crate) fn file(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    pub(crate) fn pass_to(&self, command: &mut Command) {
        let Task { kind, run, seed, only_examine, silenced, history, .. } = self;
        let [disk, root, ledger, evidence] =
            [&self.disk, &self.root, &self.ledger, &self.evidence].map(|path| path.display());
        let names =
            format!("{disk}\n{root}\n{ledger}\n{evidence}\n{}\n{}", self.file_system, self.name);
        let kind = KINDS.iter().position(|known| known == kind).unwrap();
        let silenced = SILENCED.iter().position(|known| known == silenced).unwrap();
        let numbers = format!("{kind} {run} {seed} {} {silenced}", u64::from(*only_examine));
        command.envs(TASK.into_iter().zip([names, numbers, history.to_text()]));
    }

    /// The task of this process; none if it was not started by a campaign.
    pub(crate) fn of_this_process() -> Option<Self> {
        let [names, numbers, history] = TASK.map(|name| std::env::var(name).ok());
        let (names, numbers) = (names?, numbers?);
        let names: Vec<&str> = names.lines().collect();
        let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
        Some(Task {
            disk: names[0].into(),
            root: names[1].into(),
            ledger: names[2].into(),
            evidence: names[3].into(),
            file_system: names[4].into(),
            name: names[5].into(),
            kind: KINDS[numbers[0] as usize],
            run: numbers[1],
            seed: numbers[2],
            only_examine: numbers[3] != 0,
            silenced: SILENCED[numbers[4] as usize],
            history: History::from_text(&history?),
        })
    }
}

mod tests {
    use super::*;

    fn expected(kind: Kind, runs: Vec<Run>) -> (Vec<[u8; 24]>, Vec<[u8; 24]>) {
        let (mut present, mut absent) = (Vec::new(), Vec::new());
        History { runs, ..History::default() }.each_key(kind, |key, expected| match expected {
            Expected::Present => present.push(key),
            Expected::Absent => absent.push(key),
        });
        (present, absent)
    }

    #[test]
    fn synced_keys_are_expected_and_others_are_not() {
        let run = Run { number: 7, synced: [2, 0, 1, 0], begun: [5, 3, 1, 0] };
        let (present, absent) = expected(Kind::Plain, vec![run]);
        assert_eq!(present, [key(7, 0, 0), key(7, 0, 1), key(7, 2, 0)]);
        assert_eq!(absent, [[0; 24]; 0]);
    }

    #[test]
    fn keys_that_may_have_been_taken_out_are_not_expected() {
        // Operation 7 takes out key 3.
        let run = |synced, begun| {
            vec![Run { number: 1, synced: [synced, 0, 0, 0], begun: [begun, 0, 0, 0] }]
        };
        let keys = |numbers: &[u64]| -> Vec<_> { numbers.iter().map(|&n| key(1, 0, n)).collect() };
        let begun = (keys(&[0, 1, 2, 3, 4, 5, 6]), keys(&[]));
        assert_eq!(expected(Kind::Counting, run(7, 7)), begun);
        assert_eq!(expected(Kind::Counting, run(7, 8)), (keys(&[0, 1, 2, 4, 5, 6]), keys(&[])));
        assert_eq!(expected(Kind::Counting, run(8, 8)), (keys(&[0, 1, 2, 4, 5, 6]), keys(&[3])));
    }

    #[test]
    fn keys_that_a_rotation_may_have_dropped_are_not_expected() {
        let remembered = Kind::Rotating.remembered();
        let run = |number, synced, other| Run {
            number,
            synced: [synced, 0, 0, 0],
            begun: [synced, other, 0, 0],
        };
        let (present, _) = expected(Kind::Rotating, vec![run(1, remembered + 5, 2)]);
        assert_eq!(present.len() as u64, remembered - 2);
        assert_eq!(present.last(), Some(&key(1, 0, remembered + 4)));
        let runs = vec![run(1, 10, 0), run(2, 1, remembered - 5)];
        assert_eq!(expected(Kind::Rotating, runs).0.len(), 1 + 4);
    }

    #[test]
    fn a_history_survives_as_text() {
        let run = Run { number: 3, synced: [1, 2, 3, 4], begun: [5, 6, 7, 8] };
        let history = History {
            exists: true,
            mark: (9, 11),
            runs: vec![run.clone(), Run { number: 4, ..run }],
        };
        assert_eq!(History::from_text(&history.to_text()), history);
        assert_eq!(History::from_text(&History::default().to_text()), History::default());
    }
}
