//! The disk as a file: a file system in user space with one file for each boot, spoken to in the
//! kernel's own protocol.
//!
//! The protocol of `linux/fuse.h` is spoken here directly: the disk needs ten of its requests, and a
//! crate for all of them would bring thirty others into every build of the tests.
//!
//! Each write must get here at once and each flush must be seen. So the cache for delayed writes
//! (`FUSE_WRITEBACK_CACHE`) is not asked for, the file is opened with `FOPEN_DIRECT_IO`, which leaves
//! the kernel no cache for it at all, and `FSYNC` is answered: were it unknown here (`ENOSYS`), the
//! kernel would take every later one for done. A loop device makes an fsync of a flush, and has the
//! block layer make a flush behind the write of a write that must be durable when it returns (FUA).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::disk::{Disk, NoPower};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;

/// Version of the protocol that is spoken: what came later is not needed.
const VERSION: (u32, u32) = (7, 31);

/// Several reads at a time, and direct writes that the loop device need not wait for.
const FUSE_ASYNC_READ: u32 = 1 << 0;
const FUSE_BIG_WRITES: u32 = 1 << 5;
const FUSE_ASYNC_DIO: u32 = 1 << 15;
const FUSE_MAX_PAGES: u32 = 1 << 22;

const FOPEN_DIRECT_IO: u32 = 1 << 0;

const IN_HEADER: usize = 40;
const OUT_HEADER: usize = 16;
const WRITE_IN: usize = 40;

/// Bytes of the largest write.
const MAX_WRITE: usize = 1 << 20;

/// Number of the folder; that of the file of boot n is n behind it.
const ROOT: u64 = 1;

/// A running file system in user space; ends when dropped.
pub(crate) struct Server {
    folder: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Mounts the disk's files on a folder and serves them in a thread.
    pub(crate) fn start(disk: Arc<Disk>, folder: &Path) -> Self {
        let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("bloomfile-test-disk", folder, "fuse", flags, options).unwrap();
        let thread = std::thread::spawn(move || serve(device, &disk));
        Server { folder: folder.to_owned(), thread: Some(thread) }
    }

    /// The disk of a boot, as a file.
    pub(crate) fn file(&self, boot: u64) -> PathBuf {
        self.folder.join(boot.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread ends when the file system is gone. If that fails, both end with the process.
        if unmount(&self.folder, UnmountFlags::DETACH).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn serve(mut device: File, disk: &Disk) {
    let mut request = vec![0; IN_HEADER + WRITE_IN + MAX_WRITE];
    loop {
        let length = match device.read(&mut request) {
            Ok(length) => length,
            // A request that was taken back before it was read.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // Unmounted.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => return,
            Err(error) => panic!("cannot read a request to the disk: {error}"),
        };
        let request = Request(&request[..length]);
        let (error, body) = match answer(disk, &request) {
            Some(Ok(body)) => (0, body),
            Some(Err(error)) => (-error.raw_os_error(), Vec::new()),
            None => continue,
        };
        let mut reply = Fields::default();
        reply.u32((OUT_HEADER + body.len()) as u32).u32(error as u32).u64(request.unique());
        reply.0.extend_from_slice(&body);
        match device.write_all(&reply.0) {
            Ok(()) => {}
            // The process that asked was killed.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => return,
            Err(error) => panic!("cannot answer a request to the disk: {error}"),
        }
    }
}

/// A request as the kernel wrote it.
struct Request<'a>(&'a [u8]);

impl Request<'_> {
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64_at(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    fn operation(&self) -> u32 {
        self.u32_at(4)
    }

    fn unique(&self) -> u64 {
        self.u64_at(8)
    }

    fn node(&self) -> u64 {
        self.u64_at(16)
    }

    fn body(&self) -> &[u8] {
        &self.0[IN_HEADER..]
    }
}

/// Fields of an answer, one behind the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn zeros(&mut self, bytes: usize) -> &mut Self {
        self.0.resize(self.0.len() + bytes, 0);
        self
    }

    /// `fuse_attr`
    fn attributes(&mut self, node: u64, length: usize) -> &mut Self {
        let (kind, length) =
            if node == ROOT { (libc::S_IFDIR, 0) } else { (libc::S_IFREG, length as u64) };
        self.u64(node).u64(length).u64(length / 512).zeros(3 * 8 + 3 * 4);
        self.u32(kind | 0o600).u32(1).zeros(3 * 4).u32(4096).zeros(4)
    }
}

/// The answer to a request; `None` where the kernel wants none.
fn answer(disk: &Disk, request: &Request) -> Option<Result<Vec<u8>, Errno>> {
    let mut fields = Fields::default();
    let node = request.node();
    let boot = node.wrapping_sub(ROOT);
    // What follows the header starts here.
    let body = IN_HEADER;
    let done = match request.operation() {
        FORGET | BATCH_FORGET | INTERRUPT => return None,
        INIT => {
            let offered = request.u32_at(body + 12);
            let wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES;
            fields.u32(VERSION.0).u32(VERSION.1).u32(0).u32(offered & wanted);
            fields.u16(64).u16(48).u32(MAX_WRITE as u32).u32(1);
            fields.u16((MAX_WRITE / 4096) as u16).zeros(2 + 8 * 4);
            Ok(())
        }
        LOOKUP => match name(request.body()) {
            // Names and attributes are not to be remembered: their times are 0.
            Some(boot) => {
                let node = ROOT + boot;
                fields.u64(node).zeros(8 + 8 + 8 + 4 + 4).attributes(node, disk.length());
                Ok(())
            }
            None => Err(Errno::NOENT),
        },
        GETATTR => {
            fields.zeros(16).attributes(node, disk.length());
            Ok(())
        }
        OPEN => {
            fields.u64(0).u32(FOPEN_DIRECT_IO).u32(0);
            Ok(())
        }
        READ => {
            fields.zeros(request.u32_at(body + 16) as usize);
            disk.read(boot, request.u64_at(body + 8), &mut fields.0)
                .map(|length| fields.0.truncate(length))
                .map_err(|NoPower| Errno::IO)
        }
        WRITE => {
            let length = request.u32_at(body + 16);
            let bytes = &request.body()[WRITE_IN..WRITE_IN + length as usize];
            fields.u32(length).u32(0);
            disk.write(boot, request.u64_at(body + 8), bytes).map_err(|NoPower| Errno::IO)
        }
        FSYNC => disk.flush(boot).map_err(|NoPower| Errno::IO),
        STATFS => {
            fields.zeros(5 * 8).u32(4096).u32(255).u32(4096).zeros(7 * 4);
            Ok(())
        }
        RELEASE | DESTROY => Ok(()),
        _ => Err(Errno::NOSYS),
    };
    Some(done.map(|()| fields.0))
}

/// The boot that a name stands for: a number, closed by a zero.
fn name(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes.strip_suffix(b"\0")?).ok()?.parse().ok()
}
