//! A host that publishes a filter and one that pulls it, in a folder of their own.

use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

pub(crate) const BLOOMFILE: &str = env!("CARGO_BIN_EXE_bloomfile");

/// The folder: `live.bloom` is published in `site`, and pulled to `pulled.bloom`.
pub(crate) struct Host(TempDir);

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().expect("an exit status, no signal");
        Ran { code, out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

/// Output `index` of SplitMix64 from `seed`.
pub(crate) fn random(seed: u64, index: u64) -> u64 {
    let mut x = seed
        .wrapping_mul(0xd134_2543_de82_ef95)
        .wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Host {
    /// With a filter of 20,000 keys, in room for a million.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let host = Host(folder);
        host.run("create -q live.bloom --capacity 1M --journal 64KiB").ends(0);
        host.add(0, 20_000);
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(BLOOMFILE);
        command.args(arguments.split(' ')).current_dir(self.0.path());
        for name in
            ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
        {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    /// Adds keys to the live filter.
    pub(crate) fn add(&self, from: u64, count: u64) {
        let keys: String = (from..from + count).map(|key| format!("{key}\n")).collect();
        std::fs::write(self.path("keys"), keys).unwrap();
        self.run("add -q live.bloom --from keys").ends(0);
    }

    pub(crate) fn publish(&self) -> serde_json::Value {
        self.run("publish --json live.bloom site").ends(0).json()
    }

    /// Publishes versions, each with 1,000 keys more.
    pub(crate) fn publish_more(&self, versions: u64) {
        for _ in 0..versions {
            let version = self.manifest()["version"].as_u64().unwrap();
            self.add(20_000 + version * 1_000, 1_000);
            self.publish();
        }
    }

    pub(crate) fn manifest(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.path("site/manifest.json")).unwrap()).unwrap()
    }

    /// The file that a version is, by its place in the manifest.
    pub(crate) fn snapshot(&self) -> PathBuf {
        self.path("site").join(self.manifest()["snapshot"]["name"].as_str().unwrap())
    }

    /// The file that was pulled is the snapshot, to the last byte, and nothing is left beside it.
    #[track_caller]
    pub(crate) fn is_current(&self) {
        let [pulled, snapshot] = [self.path("pulled.bloom"), self.snapshot()];
        assert!(std::fs::read(pulled).unwrap() == std::fs::read(snapshot).unwrap(), "other bytes");
        let hidden: Vec<String> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with('.'))
            .collect();
        assert!(hidden.is_empty(), "{hidden:?}");
    }
}
