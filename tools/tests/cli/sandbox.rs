//! A folder of its own for each test, and the command run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// The command under test.
pub(crate) const BLOOMFILE: &str = env!("CARGO_BIN_EXE_bloomfile");

/// A folder that commands run in, so that they print names without a path.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// What a command did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Ran {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Asserts that the command printed exactly this and ended with this status.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, out: &str, err: &str) {
        let expected = Ran { code: Some(code), out: out.into(), err: err.into() };
        assert_eq!(*self, expected);
    }
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    fn of(folder: TempDir) -> Self {
        heed_signals();
        Sandbox { folder }
    }

    /// One on a file system in memory, if there is one: for tests of many rounds to which the disk
    /// does not matter.
    pub(crate) fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::of(folder.unwrap())
    }

    /// A sandbox with `a.bloom`, which was built from the numbers 1 to 1000.
    pub(crate) fn with_filter() -> Self {
        let sandbox = Sandbox::new();
        sandbox.run_with("build -q a.bloom --journal 8KiB", numbers(1000)).is(0, "", "");
        sandbox
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.folder())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The command with arguments that are separated by single spaces.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(BLOOMFILE);
        command.args(arguments.split(' ')).current_dir(self.folder()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Ran {
        let mut command = self.command(arguments);
        let child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        child.wait_with_output().unwrap().into()
    }

    /// Runs the command with an input.
    pub(crate) fn run_with(&self, arguments: &str, input: impl AsRef<[u8]>) -> Ran {
        let mut child = self.spawn(arguments);
        // A command may end without having read everything.
        let _ = child.stdin.take().unwrap().write_all(input.as_ref());
        child.wait_with_output().unwrap().into()
    }

    /// Starts the command with its input, output and errors connected to the test.
    pub(crate) fn spawn(&self, arguments: &str) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        start(&mut command)
    }
}

/// Commands end with a signal also where these tests were started with signals ignored, as `nohup` and
/// a shell's `&` do it: the command keeps to that, and would never end.
fn heed_signals() {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        use std::sync::{Arc, Once, atomic::AtomicBool};
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            for signal in [SIGHUP, SIGINT, SIGTERM] {
                // A handler, which no new program inherits, and which does what is done without one.
                let always = Arc::new(AtomicBool::new(true));
                signal_hook::flag::register_conditional_default(signal, always).unwrap();
            }
        });
    }
}

/// Starts a process. Wine fails to now and then, on a busy machine, with an error that Windows has no
/// cause for.
fn start(command: &mut Command) -> Child {
    const INTERNAL_ERROR: i32 = 1359;
    let mut tries = if cfg!(windows) { 5 } else { 1 };
    loop {
        tries -= 1;
        match command.spawn() {
            Err(error) if tries > 0 && error.raw_os_error() == Some(INTERNAL_ERROR) => {}
            result => return result.unwrap(),
        }
    }
}

/// The numbers from 1, one per line.
pub(crate) fn numbers(last: u32) -> String {
    (1..=last).map(|number| format!("{number}\n")).collect()
}

/// Keys of any bytes, one per line, as they are read with `--hex`.
pub(crate) fn hex_lines<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> String {
    let digits = |key: K| key.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    keys.into_iter().map(|key| digits(key) + "\n").collect()
}

pub(crate) fn works(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether there is a program; says so where there is none.
pub(crate) fn has(program: &str) -> bool {
    let there = works(program);
    if !there {
        eprintln!("skipped: there is no {program}; tests/install-tools brings it");
    }
    there
}

/// What a shell takes input from that is to be empty.
pub(crate) const NO_INPUT: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// The variable that names the folder for temporary files.
pub(crate) const TEMPORARY_FOLDER: &str = if cfg!(windows) { "TMP" } else { "TMPDIR" };

/// What the system says of a file that is not there.
pub(crate) fn no_file() -> String {
    std::io::Error::from_raw_os_error(2).to_string()
}

/// What the system says of a file in a folder that is not there.
pub(crate) fn no_folder() -> String {
    std::io::Error::from_raw_os_error(if cfg!(windows) { 3 } else { 2 }).to_string()
}
