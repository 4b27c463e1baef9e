//! Readers that follow a name: what they answer while files replace one another under load, and what
//! they do about a file that is not what it should be.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bloomfile::reader::{Access, Follower};
use bloomfile::{CellKind, Error, Key, Options, ReadOptions};
use common::{Folder, below};

fn options() -> Options {
    Options::new().capacity(2_000).false_positive_rate(1e-9).journal_bytes(0).replace(true)
}

/// A file of one version: the keys that all have, and one that tells which it is.
fn publish(path: &Path, version: u64) {
    let mut file = options().metadata("version", version.to_string()).start_build(path).unwrap();
    for key in 0..1_000 {
        file.add(format!("all {key}"));
    }
    file.add(format!("version {version}"));
    file.finish().unwrap();
}

fn replacements() -> u64 {
    std::env::var("BLOOMFILE_REPLACEMENTS").map_or(1_000, |text| text.parse().unwrap())
}

/// Where the time of a thread goes.
struct Meter {
    /// Tells how long the thread has waited for a processor; `None` where the system does not tell.
    #[cfg(unix)]
    queue: Option<std::fs::File>,
    /// How often the thread had given up its processor of itself when that was last asked.
    waits: std::cell::Cell<Option<u64>>,
}

/// A moment of a thread, or the time between two of them.
#[derive(Clone, Copy, Default)]
struct Spent {
    wall: Duration,
    /// With a processor.
    running: Duration,
    /// Without one, and ready for it.
    queued: Duration,
    /// Interrupts, and what other machines on the same hardware had of the processor.
    disturbed: Duration,
}

impl Spent {
    fn since(self, start: Spent) -> Spent {
        Spent {
            wall: self.wall - start.wall,
            running: self.running - start.running,
            queued: self.queued - start.queued,
            disturbed: Duration::ZERO,
        }
    }

    /// What is neither: the thread waited for a lock, a page or another thread.
    fn blocked(self) -> Duration {
        self.wall.saturating_sub(self.running + self.queued + self.disturbed)
    }
}

/// From here on it is asked whether the thread waited at all.
const WORTH_ASKING: Duration = Duration::from_micros(50);

/// How often this thread gave up the processor of itself, which is what waiting is; `None` where the
/// system does not tell.
fn waits() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let (_, count) = status.split_once("\nvoluntary_ctxt_switches:")?;
    count.split_whitespace().next()?.parse().ok()
}

impl Meter {
    fn of_this_thread() -> Self {
        Meter {
            #[cfg(unix)]
            queue: std::fs::File::open("/proc/thread-self/schedstat").ok(),
            waits: waits().into(),
        }
    }

    #[cfg(unix)]
    fn queued(&self) -> Option<Duration> {
        use std::os::unix::fs::FileExt;
        let mut bytes = [0; 96];
        let length = self.queue.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..length]).ok()?;
        Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
    }

    /// Whether it can tell what a thread is blocked by.
    #[cfg(unix)]
    fn is_exact(&self) -> bool {
        self.queued().is_some()
    }

    #[cfg(unix)]
    fn others(&self) -> Spent {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let running = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        Spent { running, queued: self.queued().unwrap_or_default(), ..Spent::default() }
    }

    #[cfg(not(unix))]
    fn is_exact(&self) -> bool {
        false
    }

    #[cfg(not(unix))]
    fn others(&self) -> Spent {
        Spent::default()
    }

    /// The time that some work takes. The wall clock is read last before it and first behind it: a
    /// thread that loses its processor between two clocks was not blocked.
    fn time<T>(&self, start: Instant, work: impl FnOnce() -> T) -> (T, Spent) {
        let before = self.others();
        let begin = start.elapsed();
        let done = work();
        let wall = start.elapsed() - begin;
        let mut spent = Spent { wall, ..self.others().since(before) };
        if spent.blocked() > WORTH_ASKING {
            let waits = waits();
            if waits.is_some() && waits == self.waits.replace(waits) {
                spent.disturbed = spent.blocked();
            }
        }
        (done, spent)
    }
}

/// What the threads of a run saw.
#[derive(Default)]
struct Load {
    look_ups: u64,
    switches: u64,
    /// The longest of all look-ups, by the wall clock and by what blocked them, and of those that
    /// switched.
    longest: Duration,
    blocked: Duration,
    longest_switching: Duration,
    blocked_switching: Duration,
    /// Look-ups that took more than [`LIMIT`] by the wall clock, for whatever reason.
    late: u64,
    /// The longest time that the system counts neither as running nor as waiting.
    disturbed: Duration,
    exact: bool,
}

/// No look-up may be blocked for longer by a switch.
const LIMIT: Duration = Duration::from_millis(1);

impl Load {
    fn join(self, other: Load) -> Load {
        Load {
            look_ups: self.look_ups + other.look_ups,
            switches: self.switches + other.switches,
            longest: self.longest.max(other.longest),
            blocked: self.blocked.max(other.blocked),
            longest_switching: self.longest_switching.max(other.longest_switching),
            blocked_switching: self.blocked_switching.max(other.blocked_switching),
            late: self.late + other.late,
            disturbed: self.disturbed.max(other.disturbed),
            exact: self.exact && other.exact,
        }
    }

    fn count(&mut self, spent: Spent, switched: bool) {
        self.look_ups += 1;
        self.longest = self.longest.max(spent.wall);
        self.blocked = self.blocked.max(spent.blocked());
        self.late += u64::from(spent.wall > LIMIT);
        self.disturbed = self.disturbed.max(spent.disturbed);
        if switched {
            self.switches += 1;
            self.longest_switching = self.longest_switching.max(spent.wall);
            self.blocked_switching = self.blocked_switching.max(spent.blocked());
        }
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Load { look_ups, switches, longest, blocked, late, disturbed, .. } = self;
        write!(f, "{look_ups} look-ups, longest {longest:?}, blocked {blocked:?}, {late} late")?;
        write!(f, ", disturbed {disturbed:?}")?;
        let (wall, blocked) = (self.longest_switching, self.blocked_switching);
        write!(f, "; {switches} switched, longest {wall:?}, blocked {blocked:?}")
    }
}

/// Threads that look up at the same time.
const THREADS: u64 = 4;

/// Four threads look up in the file of one name while that of another, or the same, is replaced: each
/// answer is that of a file that had the name, and none older than one seen before.
fn look_up_under_load(followed: &Path, replaced: &Path, last: u64) -> Load {
    publish(followed, 0);
    publish(replaced, 0);
    let same = followed == replaced;
    let [follower, other] = [followed, replaced].map(|path| Follower::open(path).unwrap());
    let (done, newest) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = AtomicU64::new(0);
    let all = Mutex::new(Vec::new());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut reader = follower.reader();
            let (done, newest, all, started) = (&done, &newest, &all, &started);
            scope.spawn(move || {
                let meter = Meter::of_this_thread();
                let mut load = Load { exact: meter.is_exact(), ..Load::default() };
                let mut seen = 0;
                started.fetch_add(1, Ordering::SeqCst);
                while !done.load(Ordering::SeqCst) || (same && seen < last) {
                    let at_least = newest.load(Ordering::SeqCst);
                    let key = below(thread, load.look_ups, 1_000);
                    let key_of_all = format!("all {key}");
                    // Only these two calls can switch.
                    let followed = &mut reader;
                    let ((found, reader), spent) =
                        meter.time(start, move || (followed.contains(key_of_all), followed.get()));
                    assert!(found, "a key of all versions is denied");
                    assert!(!reader.contains(format!("none {key}")), "no version has this key");
                    let version: u64 = reader.metadata()["version"].parse().unwrap();
                    assert!(reader.contains(format!("version {version}")));
                    assert!(!reader.contains(format!("version {}", version + 1)));
                    assert!(version >= seen, "back to an older file");
                    assert!(!same || version >= at_least, "{version}, and {at_least} is in use");
                    load.count(spent, version > seen);
                    seen = version;
                }
                all.lock().unwrap().push(load);
            });
        }
        while started.load(Ordering::SeqCst) < THREADS {
            std::thread::yield_now();
        }
        for version in 1..=last {
            publish(replaced, version);
            assert!(if same { &follower } else { &other }.refresh().unwrap());
            newest.store(version, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
    });
    // What no thread looks into any more is not kept.
    assert!(!follower.refresh().unwrap());
    let all = all.into_inner().unwrap();
    // Of one thread it cannot be asked: the system may let it wait while the others go on.
    let load = all.into_iter().reduce(Load::join).unwrap();
    assert!(!same || load.switches > last / 10, "few files were looked into: {load}");
    load
}

/// No look-up waits for a switch. With more threads than processors a look-up takes longer by the clock
/// whenever its thread loses the processor: the same load without switches tells how long, and the
/// system how much of the time a thread was ready to run.
#[test]
fn answers_stay_right_through_replacements_under_load() {
    let folder = Folder::in_memory();
    let (followed, other) = (folder.at("followed"), folder.at("other"));
    let last = replacements();
    let load = look_up_under_load(&followed, &followed, last);
    println!("{last} replacements of the file that is followed: {load}");
    // What other programs do on the machine counts here as well: the long form is for a quiet one.
    if std::env::var_os("BLOOMFILE_REPLACEMENTS").is_some() {
        let control = look_up_under_load(&followed, &other, last);
        println!("{last} replacements of another file: {control}");
        assert!(!load.exact || load.blocked < LIMIT, "{load}");
        std::fs::remove_file(other).unwrap();
    }
    assert_eq!(folder.names(), ["followed"]);
}

/// A damaged file, one of another kind or seed, one that is no filter, none at all: the old one stays
/// in use, and the next good one is switched to.
#[test]
fn what_is_not_right_is_refused_and_told() {
    for access in [Access::Mapped, Access::Memory] {
        let folder = Folder::new();
        let path = folder.at("followed");
        publish(&path, 0);
        let follower = ReadOptions::new().access(access).follow(&path).unwrap();
        let mut reader = follower.reader();
        let take_name = |from: &str| std::fs::rename(folder.at(from), &path).unwrap();

        publish(&folder.at("damaged"), 1);
        let mut bytes = std::fs::read(folder.at("damaged")).unwrap();
        let end = bytes.len();
        bytes[end - 4096] ^= 1;
        std::fs::write(folder.at("damaged"), bytes).unwrap();
        take_name("damaged");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Damaged { .. }), "{error}");

        let counting = options().kind(CellKind::Counting).create(folder.at("counting")).unwrap();
        counting.close().unwrap();
        take_name("counting");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Replaced { parameter: "kind", .. }), "{error}");
        let expected = "another kind (plain before, counting now)";
        assert!(error.to_string().contains(expected), "{error}");

        options().seed(9).start_build(folder.at("seed")).unwrap().finish().unwrap();
        take_name("seed");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Replaced { parameter: "seed", .. }), "{error}");

        std::fs::write(folder.at("text"), "no filter").unwrap();
        take_name("text");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::NotABloomfile { .. }), "{error}");

        std::fs::remove_file(&path).unwrap();
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Io { .. }), "{error}");

        assert!(reader.contains("version 0") && !reader.contains("version 1"));
        publish(&path, 2);
        assert!(follower.refresh().unwrap() && !follower.refresh().unwrap());
        assert!(reader.contains("version 2") && !reader.contains("version 0"));
    }
}

/// A keyed file is followed by files of the same secret alone.
#[test]
fn another_secret_or_none_is_refused() {
    let secrets = [*b"secret number 1.", *b"secret number 2."].map(Key::from_bytes);
    for access in [Access::Mapped, Access::Memory] {
        let folder = Folder::new();
        let path = folder.at("followed");
        let build = |secret: Option<&Key>, key: &str| {
            let options = secret.map_or_else(options, |secret| options().key(secret));
            let mut file = options.start_build(&path).unwrap();
            file.add(key);
            file.finish().unwrap();
        };
        build(Some(&secrets[0]), "old");
        let follower = ReadOptions::new().access(access).key(&secrets[0]).follow(&path).unwrap();
        let mut reader = follower.reader();
        let mut stays = |error: Error| {
            assert!(reader.contains("old") && !reader.contains("new"), "{error}");
            error
        };
        build(Some(&secrets[1]), "new");
        let error = stays(follower.refresh().unwrap_err());
        assert!(matches!(error.cause(), Error::WrongKey { .. }), "{error}");
        build(None, "new");
        let error = stays(follower.refresh().unwrap_err());
        assert!(matches!(error.cause(), Error::NotKeyed), "{error}");
        build(Some(&secrets[0]), "new");
        assert!(follower.refresh().unwrap());
        assert!(reader.contains("new") && !reader.contains("old"));
        // Nor does one without a secret go on in a keyed file.
        build(None, "old");
        let follower = ReadOptions::new().access(access).follow(&path).unwrap();
        build(Some(&secrets[0]), "new");
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::KeyNeeded { .. }), "{error}");
        assert!(follower.reader().contains("old"));
    }
}

#[test]
fn a_sealed_file_is_followed_by_sealed_ones() {
    for access in [Access::Mapped, Access::Memory] {
        let folder = Folder::new();
        let path = folder.at("followed");
        let seal = |key: &str| {
            let sealed = Options::new().sealed(true).false_positive_rate(1e-9).replace(true);
            let mut file = sealed.start_build(&path).unwrap();
            file.extend((0..5_000).map(|number| format!("{key} {number}")));
            file.finish().unwrap();
        };
        seal("old");
        let follower = ReadOptions::new().access(access).follow(&path).unwrap();
        let mut reader = follower.reader();
        seal("new");
        assert!(reader.contains("old 7") && follower.refresh().unwrap());
        assert!((0..5_000).all(|number| reader.contains(format!("new {number}"))));
        assert!(!reader.contains("old 7"));
        publish(&path, 1);
        let error = follower.refresh().unwrap_err();
        assert!(matches!(error.cause(), Error::Replaced { parameter: "kind", .. }), "{error}");
        let expected = "another kind (sealed before, plain now)";
        assert!(error.to_string().contains(expected), "{error}");
        assert!(reader.contains("new 7") && !reader.contains("version 1"));
        seal("newest");
        assert!(follower.refresh().unwrap() && reader.contains("newest 7"));
    }
}

/// The thread that watches tells of every switch, and once of each file that it refused; one that is
/// made right where it is counts after all.
#[test]
fn a_watched_name_is_switched_by_itself() {
    let folder = Folder::new();
    let path = folder.at("followed");
    publish(&path, 0);
    let mut follower = Follower::open(&path).unwrap();
    let mut reader = follower.reader();
    let (tell, told) = channel();
    let every = Duration::from_millis(5);
    follower.watch(every, move |switched| tell.send(switched).unwrap()).unwrap();
    let patience = Duration::from_secs(60);

    publish(&path, 1);
    told.recv_timeout(patience).unwrap().unwrap();
    assert!(reader.contains("version 1"));

    publish(&folder.at("next"), 2);
    let good = std::fs::read(folder.at("next")).unwrap();
    std::fs::write(folder.at("next"), &good[..good.len() - 4096]).unwrap();
    std::fs::rename(folder.at("next"), &path).unwrap();
    let error = told.recv_timeout(patience).unwrap().unwrap_err();
    assert!(matches!(error.cause(), Error::Length { .. }), "{error}");
    assert!(told.recv_timeout(20 * every).is_err(), "told twice of one file");
    assert!(reader.contains("version 1"));

    std::fs::write(&path, &good).unwrap();
    // It may be looked at while it is being written.
    while told.recv_timeout(patience).unwrap().is_err() {}
    assert!(reader.contains("version 2"));

    std::fs::remove_file(&path).unwrap();
    told.recv_timeout(patience).unwrap().unwrap_err();
    assert!(told.recv_timeout(20 * every).is_err(), "told twice of a missing file");
    drop(follower);
    // Its readers outlive it.
    assert!(reader.contains("version 2"));
}
