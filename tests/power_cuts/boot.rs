//! What the process of a machine does to boot it: a loop device over the disk's file, and a mount.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use crate::disk::SECTOR;

/// Ends this process with the campaign's, which would not wait for it if it were killed.
pub(crate) fn die_with_parent() {
    // SAFETY: sets what signal this process gets; no memory is passed.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Mounts what is on a disk; the file system recovers from the last power cut by that. Gives the
/// number of the loop device.
pub(crate) fn boot(disk: &Path, file_system: &str, root: &Path) -> io::Result<u64> {
    let (device, number) = attach(disk)?;
    mount(loop_device(number), root, file_system, MountFlags::empty(), None)?;
    // From here on the mount alone keeps the device.
    drop(device);
    Ok(number)
}

fn loop_device(number: u64) -> String {
    format!("/dev/loop{number}")
}

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_config` of `linux/loop.h`, with the fields that are used.
#[repr(C)]
struct LoopConfig {
    file: u32,
    block_bytes: u32,
    before_flags: [u8; 52],
    flags: u32,
    rest: [u8; 240],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// A loop device over a file, which lets go of it when the last user has.
fn attach(path: &Path) -> io::Result<(File, u64)> {
    let file = File::options().read(true).write(true).open(path)?;
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    let config = LoopConfig {
        file: file.as_raw_fd() as u32,
        block_bytes: SECTOR as u32,
        before_flags: [0; 52],
        flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
        rest: [0; 240],
    };
    loop {
        // SAFETY: takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        let number = u64::try_from(number).map_err(|_| io::Error::last_os_error())?;
        let device = File::options().read(true).write(true).open(loop_device(number))?;
        // SAFETY: reads a `struct loop_config`, which `config` has the layout and length of.
        let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
        if result == 0 {
            return Ok((device, number));
        }
        let error = io::Error::last_os_error();
        // Busy: another program took it since.
        if error.kind() != io::ErrorKind::ResourceBusy {
            return Err(error);
        }
    }
}

const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b;

/// Extents that are asked for at a time.
const EXTENTS: usize = 64;

/// `struct fiemap` of `linux/fiemap.h` with room for extents.
#[repr(C)]
struct FileExtents {
    start: u64,
    length: u64,
    flags: u32,
    found: u32,
    room: u32,
    reserved: u32,
    extents: [FileExtent; EXTENTS],
}

/// `struct fiemap_extent`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FileExtent {
    in_file: u64,
    on_disk: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

/// Where the first bytes of a file are on its disk. Only of file systems that write in place.
pub(crate) fn extents(file: &Path, length: u64) -> io::Result<Vec<Range<u64>>> {
    let file = File::open(file)?;
    let mut map = FileExtents {
        start: 0,
        length,
        flags: 0,
        found: 0,
        room: EXTENTS as u32,
        reserved: 0,
        extents: [FileExtent::default(); EXTENTS],
    };
    // SAFETY: reads and fills a `struct fiemap` with `room` extents behind it, which `map` is.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let found = &map.extents[..map.found as usize];
    let range = |extent: &FileExtent| {
        // What of the extent lies behind the length is not asked for.
        let used = extent.length.min(length.saturating_sub(extent.in_file));
        extent.on_disk..extent.on_disk + used
    };
    Ok(found.iter().map(range).collect())
}
