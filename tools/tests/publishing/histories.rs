//! Random histories of files of every kind, of publications and of pulls that miss versions: what is
//! pulled is what was published, byte for byte.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::host::{Host, random};

/// Kinds, with what they are created with and what opens them.
const KINDS: [(&str, &str, &str); 9] = [
    ("line", "--capacity 20k", ""),
    ("page", "--capacity 20k --layout page", ""),
    ("rows", "--capacity 20k --layout rows", ""),
    ("counting", "--capacity 20k --kind counting", ""),
    ("growing", "--capacity 3k --grow", ""),
    ("growing counting", "--capacity 3k --grow --kind counting", ""),
    ("rotating", "--capacity 10k --generations 3", ""),
    ("keyed", "--capacity 20k", " --key-file key"),
    ("sealed", "", ""),
];

/// What happened: ways of pulls, and changes.
type Counts = BTreeMap<String, u32>;

struct History<'a> {
    host: Host,
    kind: &'static str,
    options: &'static str,
    secret: &'static str,
    seed: u64,
    /// The version of a file that was damaged since it was pulled.
    damaged: Option<Value>,
    counts: &'a mut Counts,
}

impl History<'_> {
    fn note(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    fn create(&self, name: &str, factor: u64) {
        let Self { options, secret, .. } = self;
        // Another size now and then, to which no delta leads.
        let options = match factor {
            1 => (*options).to_owned(),
            _ => options.replace("0k", "5k").replace("3k", "4k"),
        };
        let create = format!("create -q -f {name} {options} --journal 64KiB{secret}");
        self.host.run(&create).ends(0);
    }

    fn write_keys(&self, from: u64, count: u64) {
        let keys: String = (from..from + count).map(|key| format!("{key}\n")).collect();
        std::fs::write(self.host.path("keys"), keys).unwrap();
    }

    /// Changes the live file.
    fn change(&mut self, turn: u64) {
        let seed = self.seed;
        let (kind, secret) = (self.kind, self.secret);
        let (from, count) = (turn * 10_000, 1 + random(seed ^ 2, turn) % 1_500);
        if kind == "sealed" {
            // All keys once more, and some.
            self.write_keys(random(seed ^ 3, turn) % 4 * 500, 2_000 + count);
            self.host.run("build -q -f --sealed live.bloom keys").ends(0);
            return self.note("sealed");
        }
        match random(seed ^ 1, turn) % 8 {
            0..3 => {
                self.write_keys(from, count);
                self.host.run(&format!("add -q live.bloom --from keys{secret}")).ends(0);
                self.note("adds");
            }
            3 if kind.contains("counting") => {
                let ran = self.host.run("remove -q live.bloom --from keys");
                assert!(ran.code <= 1, "{}", ran.err);
                self.note("removals");
            }
            3 if kind == "rotating" => {
                self.host.run("rotate -q live.bloom").ends(0);
                self.note("rotations");
            }
            3 | 4 => {
                let filter = if secret.is_empty() {
                    bloomfile::Filter::open(self.host.path("live.bloom")).unwrap()
                } else {
                    let key = bloomfile::Key::from_file(self.host.path("key")).unwrap();
                    bloomfile::Filter::open_with_key(self.host.path("live.bloom"), &key).unwrap()
                };
                filter.set_metadata("turn", Some(&turn.to_string())).unwrap();
                filter.sync_with_mark(turn).unwrap();
                filter.close().unwrap();
                self.note("notes and marks");
            }
            5 => {
                self.create("other.bloom", 1);
                self.write_keys(from, count);
                self.host.run(&format!("add -q other.bloom --from keys{secret}")).ends(0);
                let ran = self.host.run("merge -q -f -o live.bloom live.bloom other.bloom");
                if ran.code == 0 {
                    self.note("merges");
                } else {
                    // Files of different sizes of those that are not folded.
                    assert!(
                        ran.err.contains("differ") || ran.err.contains("cannot"),
                        "{}",
                        ran.err
                    );
                    self.note("merges that are refused");
                }
            }
            6 => {
                let ran = self.host.run("shrink -q -f -o live.bloom live.bloom --factor 2");
                self.note(if ran.code == 0 { "shrinks" } else { "shrinks that are refused" });
            }
            _ => {
                self.create("live.bloom", 1 + random(seed ^ 4, turn) % 2);
                self.note("new files");
            }
        }
    }

    /// Pulls, and holds what came against the snapshot and the live file.
    fn pull(&mut self, name: &str) {
        let ran = self.host.run(&format!("pull --json site {name}"));
        assert!(ran.code <= 1, "{name}: {}", ran.err);
        let way = ran.json()["way"].as_str().unwrap().to_owned();
        self.note(&way);
        if way == "current" && self.damaged == Some(self.host.manifest()["version"].clone()) {
            // It is the version by its headers; that is what a pull looks at.
            std::fs::remove_file(self.host.path(name)).unwrap();
            self.damaged = None;
            return self.pull(name);
        }
        let [pulled, snapshot, live] =
            [self.host.path(name), self.host.snapshot(), self.host.path("live.bloom")];
        let same = std::fs::read(&pulled).unwrap() == std::fs::read(snapshot).unwrap();
        assert!(same, "{name}: other bytes, by {way}");
        let [pulled, live] = [pulled, live].map(|path| bloomfile::ops::digest(path).unwrap());
        assert_eq!(pulled, live, "{name}, by {way}");
    }

    fn run(&mut self, turns: u64) {
        let seed = self.seed;
        if self.secret.is_empty() {
            self.create_first();
        } else {
            self.host.run("keygen -q key").ends(0);
            self.create_first();
        }
        for turn in 1..=turns {
            for more in 0..=random(seed ^ 5, turn) % 2 {
                self.change(turn * 2 + more);
            }
            let keep = [0, 1, 3, 30, 30, 30][random(seed ^ 6, turn) as usize % 6];
            let ran = self.host.run(&format!("publish --json live.bloom site --keep {keep}"));
            assert!(ran.code <= 1, "{}", ran.err);
            let published: Value = ran.json();
            assert_eq!(published["version"], self.host.manifest()["version"]);
            // Two that pull: one often, one now and then.
            if !random(seed ^ 7, turn).is_multiple_of(3) {
                self.pull("near.bloom");
            }
            if random(seed ^ 8, turn).is_multiple_of(4) {
                self.pull("far.bloom");
            }
            // A damaged one comes back as well.
            let near = self.host.path("near.bloom");
            if random(seed ^ 9, turn).is_multiple_of(6) && near.exists() {
                let mut bytes = std::fs::read(&near).unwrap();
                let place = bytes.len() - 1 - random(seed ^ 10, turn) as usize % 3_000;
                bytes[place] ^= 1;
                std::fs::write(near, bytes).unwrap();
                self.damaged = Some(self.host.manifest()["version"].clone());
                self.note("damaged files");
            }
        }
        for name in ["near.bloom", "far.bloom"] {
            self.pull(name);
        }
    }

    fn create_first(&mut self) {
        if self.kind == "sealed" {
            self.change(0);
        } else {
            self.create("live.bloom", 1);
        }
    }
}

/// `BLOOMFILE_HISTORIES=N` makes N of each kind, all longer.
#[test]
fn pulled_is_published_over_random_histories() {
    let wanted = std::env::var("BLOOMFILE_HISTORIES").ok();
    let histories: u64 = wanted.as_ref().map_or(2, |count| count.parse().unwrap());
    let turns = if wanted.is_some() { 40 } else { 8 };
    let first: u64 = std::env::var("BLOOMFILE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut all = Counts::new();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut counts = Counts::new();
        while let Some(&(kind, options, secret)) =
            KINDS.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            for seed in first..first + histories {
                // Shown where a test fails.
                println!("{kind}, seed {seed}");
                let host = Host::new();
                let counts = &mut counts;
                History { host, kind, options, secret, seed, damaged: None, counts }.run(turns);
            }
        }
        counts
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            for (what, count) in thread.join().unwrap() {
                *all.entry(what).or_default() += count;
            }
        }
    });
    println!("{histories} histories of each kind, {turns} versions: {all:?}");
    let all_of_it = [
        "adds",
        "removals",
        "rotations",
        "merges",
        "shrinks",
        "sealed",
        "new files",
        "notes and marks",
        "damaged files",
        "current",
        "deltas",
        "snapshot",
    ];
    for what in all_of_it {
        assert!(all.contains_key(what), "no {what}");
    }
}
