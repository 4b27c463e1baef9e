//! The process whose power is cut: it examines what the last cut left, then adds and syncs from several
//! threads and tells what has become durable.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread::Scope;
use std::time::Duration;

use bloomfile::{Error, Filter, report::verify};

use crate::boot::{boot, die_with_parent, extents};
use crate::ledger::{Ledger, Phase, THREADS};
use crate::random::Random;
use crate::silence::silence;
use crate::task::{Expected, Operation, Task, key};

/// What is not as it was promised.
type Wrong = String;

/// Of the keys of a counting file, the share that may seem to be in more often than they are: many times
/// the rate of the filters.
const FALSE_POSITIVES: f64 = 0.02;

/// Boots the machine and does what it is told until the disk fails, or until it has found something
/// wrong, which it says.
pub(crate) fn run(task: &Task) {
    die_with_parent();
    let ledger = Ledger::open(&task.ledger);
    match boot(&task.disk, &task.file_system, &task.root) {
        Ok(device) => ledger.set_device(device),
        Err(error) => {
            ledger.enter(Phase::NotMounted);
            eprintln!("cannot mount {}: {error}", task.file_system);
            std::process::exit(1);
        }
    }
    remove_other_files(task).unwrap();
    let found = std::fs::read(task.file()).unwrap_or_default();
    let fail = |wrong: Wrong| -> ! {
        // If the power was cut before, this is not heard.
        ledger.enter(Phase::Failed);
        eprintln!("wrong: {wrong}");
        std::fs::write(&task.evidence, &found).unwrap();
        // Without destructors: the filter's would write.
        std::process::exit(1)
    };
    if task.file_system == "xfs" && task.file().exists() {
        let length = task.kind.options().file_bytes().unwrap();
        ledger.set_extents(&extents(&task.file(), length).unwrap());
    }
    if let Some(silenced) = task.silenced {
        silence(silenced.calls());
    }
    ledger.enter(Phase::Booted);
    let mut random = Random::new(task.seed);
    let filter = examine(task, &ledger, &mut random).unwrap_or_else(|wrong| fail(wrong));
    if task.only_examine {
        close_and_verify(filter, task).unwrap_or_else(|wrong| fail(wrong));
        return ledger.enter(Phase::Done);
    }
    ledger.enter(Phase::Working);
    std::thread::scope(|scope| fail(work(scope, task, &filter, &ledger, &mut random)))
}

/// Makes room: what was worked on before has been examined.
fn remove_other_files(task: &Task) -> std::io::Result<()> {
    for entry in std::fs::read_dir(&task.root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "bloom") && path != task.file() {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn failed(what: &'static str) -> impl FnOnce(Error) -> Wrong {
    move |error| format!("{what}: {error}")
}

/// Opens the file and holds it against its history, or makes it.
fn examine(task: &Task, ledger: &Ledger, random: &mut Random) -> Result<Filter, Wrong> {
    let path = &task.file();
    if !path.exists() {
        if task.history.exists {
            return Err("the file is gone".into());
        }
        ledger.enter(Phase::Creating);
        let filter = task.kind.options().create(path).map_err(failed("create"))?;
        ledger.file_exists();
        return Ok(filter);
    }
    ledger.enter(Phase::Recovering);
    let verification = verify(path).map_err(failed("verify"))?;
    if !verification.pages_damaged.is_empty() {
        return Err(format!("pages are damaged: {verification:?}"));
    }
    let reader = task.kind.open_to_read(path).map_err(failed("open to read"))?;
    check_keys(task, |key| reader.contains(key)).map_err(|wrong| format!("reader: {wrong}"))?;
    drop(reader);

    let filter = task.kind.open(path).map_err(failed("open"))?;
    ledger.enter(Phase::Examining);
    ledger.file_exists();
    if let Some(recovery) = filter.recovery() {
        ledger.recovered(recovery.records_replayed, recovery.pages_unverifiable);
    }
    check_keys(task, |key| filter.contains(key))?;
    check_counts(task, &filter)?;
    let (least, most) = task.history.mark;
    let mark = filter.mark();
    if !(least..=most).contains(&mark) {
        return Err(format!("the mark is {mark}; {least} was synced, {most} the last begun"));
    }
    if random.below(2) == 0 {
        return Ok(filter);
    }
    close_and_verify(filter, task)?;
    let filter = task.kind.open(path).map_err(failed("open again"))?;
    check_keys(task, |key| filter.contains(key)).map_err(|wrong| format!("closed: {wrong}"))?;
    if filter.mark() != mark {
        return Err(format!("the mark was {mark}, after a close it is {}", filter.mark()));
    }
    Ok(filter)
}

/// Whether all keys are there that must be.
fn check_keys(task: &Task, contains: impl Fn(&[u8]) -> bool) -> Result<(), Wrong> {
    let (mut keys, mut lost) = (0, 0);
    task.history.each_key(task.kind, |key, expected| {
        if expected == Expected::Present {
            keys += 1;
            lost += u64::from(!contains(&key));
        }
    });
    if lost > 0 { Err(format!("{lost} of {keys} synced keys are lost")) } else { Ok(()) }
}

/// Whether keys of a counting file that were taken out are gone, and those that were added once are
/// counted once: changes must not be made twice by recovery. Not for readers of an open file, which may
/// take a key for there that the journal takes out (F-107).
fn check_counts(task: &Task, filter: &Filter) -> Result<(), Wrong> {
    let (mut keys, mut wrong) = (0, 0);
    task.history.each_key(task.kind, |key, expected| {
        if let Some(count) = filter.count_estimate(key) {
            keys += 1;
            wrong += u64::from(count > u8::from(expected == Expected::Present));
        }
    });
    if wrong as f64 > 2.0 + keys as f64 * FALSE_POSITIVES {
        return Err(format!("{wrong} of {keys} keys are counted more often than they are in"));
    }
    Ok(())
}

/// A file that was closed has nothing that cannot be verified now.
fn close_and_verify(filter: Filter, task: &Task) -> Result<(), Wrong> {
    filter.close().map_err(failed("close"))?;
    let verification = verify(task.file()).map_err(failed("verify after close"))?;
    if !verification.is_as_written() {
        return Err(format!("not as written after close: {verification:?}"));
    }
    Ok(())
}

/// Adds and syncs from several threads until a call fails: when the power is off, all do.
fn work<'a>(
    scope: &'a Scope<'a, '_>,
    task: &'a Task,
    filter: &'a Filter,
    ledger: &'a Ledger,
    random: &mut Random,
) -> Wrong {
    let mark = filter.mark() + 1;
    let (sender, failures) = std::sync::mpsc::channel();
    let mut write_back = random.split();
    scope.spawn(move || write_back_by_chance(task, &mut write_back));
    // Of a single thread, what a sync leaves undone is not done by the next thread's.
    let threads = [THREADS, THREADS, THREADS / 2, 1][random.below(4) as usize];
    for number in 0..threads {
        let (mut random, sender) = (random.split(), sender.clone());
        let mut thread = Thread { task, filter, ledger, number, done: 0, mark };
        scope.spawn(move || {
            let error = loop {
                if let Err(error) = thread.add_and_sync(&mut random) {
                    break error;
                }
            };
            // One failure is enough.
            let _ = sender.send(format!("thread {number}: {error}"));
        });
    }
    failures.recv().unwrap()
}

/// A thread that adds.
struct Thread<'a> {
    task: &'a Task,
    filter: &'a Filter,
    ledger: &'a Ledger,
    number: usize,
    /// Operations so far.
    done: u64,
    mark: u64,
}

impl Thread<'_> {
    /// Some operations, and a sync that is told of.
    fn add_and_sync(&mut self, random: &mut Random) -> bloomfile::Result<()> {
        // Now and then more than there is room for in the journal. The last thread syncs seldom, so
        // that there is always something in the data that is not synced.
        let operations = match random.below(40) {
            0 => 1_200,
            _ if self.number == THREADS - 1 => 1 + random.below(400),
            1..8 => 1 + random.below(100),
            _ => 1 + random.below(6),
        };
        for _ in 0..operations {
            self.ledger.begin(self.number, self.done + 1);
            let key = |number| key(self.task.run, self.number, number);
            match self.task.kind.operation(self.done) {
                Operation::Add(number) => drop(self.filter.add(key(number))?),
                Operation::Remove(number) => self.filter.remove(key(number))?,
            }
            self.done += 1;
        }
        if self.number == 0 {
            self.ledger.begin_mark(self.mark);
            self.filter.sync_with_mark(self.mark)?;
            self.ledger.synced_mark(self.mark);
            self.mark += 1;
        } else if self.number == 1 && random.below(6) == 0 {
            self.filter.checkpoint()?;
        } else {
            self.filter.sync()?;
        }
        self.ledger.synced(self.number, self.done);
        Ok(())
    }
}

/// Has the kernel write pages of the file that no one has synced, as it does by itself after a while.
fn write_back_by_chance(task: &Task, random: &mut Random) {
    let Ok(file) = File::open(task.file()) else { return };
    loop {
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
        let Ok(metadata) = file.metadata() else { return };
        let pages = metadata.len() / 4096;
        let start = random.below(pages) * 4096;
        let length = (1 + random.below(pages)) * 4096;
        // SAFETY: works on an open file; no memory is passed. An error shows elsewhere as well.
        unsafe {
            libc::sync_file_range(
                file.as_raw_fd(),
                start as libc::off64_t,
                length as libc::off64_t,
                libc::SYNC_FILE_RANGE_WRITE,
            )
        };
    }
}
