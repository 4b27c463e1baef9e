//! A machine with a disk in user space, as the campaign sees it: its file system, its boots.
//!
//! The campaign's process serves the disk, so it must never wait for that disk, not even when it ends:
//! it would wait for an answer that only it can give. All that touches the mounted file system is done
//! by other processes (`boot.rs`), each in a mount namespace of its own. When such a process ends, in
//! whatever way, the file system is unmounted, and the loop device lets go of its file. The campaign
//! itself is in another namespace, which holds the disk's file and the boot id.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::mount::mount_bind;

use crate::disk::{Disk, SECTOR};
use crate::fuse::Server;

/// Where Linux tells which boot this is (F-114).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A kind of file system, how one is made, and what it takes for granted.
#[derive(Debug)]
pub(crate) struct FileSystem {
    pub(crate) name: &'static str,
    /// Bytes of the disk.
    pub(crate) bytes: u64,
    /// The command that makes one in a file, whose name comes behind.
    pub(crate) make: &'static str,
    /// Bytes that a disk is taken to write as one, but for those of files.
    pub(crate) block: usize,
    /// Longer parts that it is taken to write as one.
    pub(crate) whole: &'static [Range<usize>],
}

/// Its journal holds whole blocks, so that sectors of any write may be lost; but it writes its super
/// block beside the journal, with a checksum in the second of two sectors.
pub(crate) const EXT4: FileSystem = FileSystem {
    name: "ext4",
    bytes: 64 << 20,
    make: "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0",
    block: SECTOR,
    whole: &[0..4096],
};

/// It takes a block of metadata that says that it is newer than a record of its log for whole, and
/// leaves the record alone: sectors of such a block must not be lost.
pub(crate) const XFS: FileSystem =
    FileSystem { name: "xfs", bytes: 300 << 20, make: "mkfs.xfs -q", block: 4096, whole: &[] };

/// It writes everything to free space, but for the super blocks, which have a checksum each.
pub(crate) const BTRFS: FileSystem = FileSystem {
    name: "btrfs",
    bytes: 128 << 20,
    make: "mkfs.btrfs -q",
    block: SECTOR,
    whole: &[64 << 10..68 << 10, 64 << 20..(64 << 20) + 4096],
};

pub(crate) const FILE_SYSTEMS: [&FileSystem; 3] = [&EXT4, &XFS, &BTRFS];

impl FileSystem {
    pub(crate) fn of_name(name: &str) -> &'static Self {
        FILE_SYSTEMS.into_iter().find(|known| known.name == name).unwrap()
    }

    /// Makes a file system in a new file.
    fn make(&self, path: &Path) {
        File::create_new(path).unwrap().set_len(self.bytes).unwrap();
        let script = format!("{} \"$0\"", self.make);
        let output = Command::new("sh").args(["-c", &script]).arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.make);
    }
}

/// A machine with a disk.
pub(crate) struct Machine {
    pub(crate) disk: Arc<Disk>,
    server: Server,
    /// Where its file system is mounted.
    pub(crate) root: PathBuf,
    /// The file that stands in the place of the kernel's boot id.
    boot_id: PathBuf,
}

impl Machine {
    /// A machine with a new file system on its disk, switched off. The folder is for its files.
    pub(crate) fn new(file_system: &FileSystem, folder: &Path) -> Self {
        let image = folder.join("image");
        file_system.make(&image);
        // SAFETY: no other program knows this file.
        let bytes = unsafe { memmap2::Mmap::map(&File::open(&image).unwrap()) }.unwrap();
        let disk = Arc::new(Disk::new(&bytes, file_system.block, file_system.whole));
        drop(bytes);
        std::fs::remove_file(image).unwrap();
        let [files, root] = ["disk", "root"].map(|name| folder.join(name));
        std::fs::create_dir(&files).unwrap();
        std::fs::create_dir(&root).unwrap();
        let boot_id = folder.join("boot_id");
        std::fs::write(&boot_id, "").unwrap();
        mount_bind(&boot_id, BOOT_ID).unwrap();
        let server = Server::start(disk.clone(), &files);
        Machine { disk, server, root, boot_id }
    }

    /// Turns the power on; gives the file that is the disk in this boot.
    pub(crate) fn power_on(&self) -> PathBuf {
        let boot = self.disk.power_on();
        std::fs::write(&self.boot_id, format!("b0070000-0000-4000-8000-{boot:012x}\n")).unwrap();
        self.server.file(boot)
    }

    /// Settles what the end of the machine's process has left: btrfs remembers devices that it has
    /// seen, and refuses another one with the same file system in an older state, which is what a
    /// power cut can leave.
    pub(crate) fn forget(&self, file_system: &FileSystem, device: u64) {
        if file_system.name == "btrfs" {
            let device = format!("/dev/loop{device}");
            let _ = Command::new("btrfs").args(["device", "scan", "--forget", &device]).output();
        }
    }
}
