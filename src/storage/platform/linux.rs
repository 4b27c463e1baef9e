//! Linux.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use memmap2::{Advice, MmapMut, MmapRaw, UncheckedAdvice};
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, SeekFrom, fallocate, linkat, seek};
use rustix::io::Errno;

use super::super::boot::uuid;
use super::super::retry;
use crate::format::BootId;
use crate::geometry::PAGE_BYTES;

/// The kernel keeps one cache for what is mapped and what is written: a sync of the file is one of
/// its maps.
pub(crate) const SYNC_COVERS_MAPS: bool = true;

/// Makes what a file holds durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    retry(|| file.sync_data())
}

/// As [`sync_data`], with all that the system knows of the file.
pub(crate) fn sync_all(file: &File) -> io::Result<()> {
    retry(|| file.sync_all())
}

/// Makes a part of a map durable.
pub(crate) fn flush(map: &MmapRaw, _: &File, bytes: Range<usize>) -> io::Result<()> {
    // Writing the same bytes with `pwritev2` and `RWF_DSYNC` is no faster: taken in turn, 2,000
    // times on ext4, both had a median of 4.2 to 4.3 ms on a busy disk.
    retry(|| map.flush_range(bytes.start, bytes.len()))
}

/// Hands what was changed through a map to the cache that a sync of the file is about.
pub(crate) fn write_back(_: &MmapRaw) -> io::Result<()> {
    Ok(())
}

/// What suits memory that is written all over for the first time.
pub(crate) const FILL: Advice = Advice::HugePage;

/// Asks for huge pages, so that look-ups all over the memory miss the address cache less often.
pub(crate) fn advise_huge(map: &MmapMut) {
    // Advice: where it is not taken, all is as before.
    let _ = map.advise(Advice::HugePage);
}

const PAGE: usize = PAGE_BYTES as usize;

/// A page whose address suits direct reads.
#[derive(Clone)]
#[repr(align(4096))]
struct Aligned(#[expect(dead_code, reason = "seen as bytes of all pages")] [u8; PAGE]);

/// Makes a private map of a file what the file is; false where the system cannot.
///
/// # Safety
///
/// The memory changes: there must be no reference to it.
pub(crate) unsafe fn discard_changes(map: &MmapRaw) -> io::Result<bool> {
    // SAFETY: a map of a file, whose pages are those of the file again; the caller has no reference.
    unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed)? };
    Ok(true)
}

/// Reads whole pages past the cache, where the file system can do that.
pub(crate) fn read_past_cache(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(path_of(file));
    if let Ok(direct) = direct {
        let mut pages = vec![Aligned([0; PAGE]); bytes.len() / PAGE];
        // SAFETY: the bytes of all pages, which lie one behind the other and are nothing but bytes.
        let all = unsafe {
            std::slice::from_raw_parts_mut(
                pages.as_mut_ptr().cast::<u8>(),
                bytes.len() / PAGE * PAGE,
            )
        };
        if all.len() == bytes.len() && direct.read_exact_at(all, offset).is_ok() {
            bytes.copy_from_slice(all);
            return Ok(());
        }
    }
    // A file system without direct reads, one in memory for instance.
    file.read_exact_at(bytes, offset)
}

/// The first offset from `offset` on that is not known to be in a hole.
pub(crate) fn data_from(file: &File, offset: u64) -> io::Result<u64> {
    // The position of the file, which this moves, is never used.
    match seek(file, SeekFrom::Data(offset)) {
        Ok(at) => Ok(at),
        Err(Errno::NXIO) => Ok(retry(|| file.metadata())?.len()),
        // A file system that cannot tell has no holes that matter.
        Err(_) => Ok(offset),
    }
}

/// Puts blocks where there are none, and leaves what is there; false where the file system cannot.
pub(crate) fn reserve(file: &File, start: u64, end: u64) -> io::Result<bool> {
    retry(|| match fallocate(file, FallocateFlags::empty(), start, end - start) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    })
}

/// A file in a folder that has no name, so that nothing is left of it when this process ends;
/// `None` where there is no such thing, or no way to name the file later. With `private` for its owner
/// alone.
pub(crate) fn create_unnamed(folder: &Path, private: bool) -> Option<File> {
    let flags = OFlags::TMPFILE.bits() as i32;
    let mode = if private { 0o600 } else { 0o666 };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).mode(mode).custom_flags(flags).open(folder).ok()?;
    std::fs::symlink_metadata(path_of(&file)).ok()?;
    Some(file)
}

/// Gives a file without a name one that no other has.
pub(crate) fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = path_of(file);
    retry(|| Ok(linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW)?))
}

/// A name of an open file that leads to it wherever it is.
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Which boot of the machine this is.
pub(crate) fn boot() -> Option<BootId> {
    uuid(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

/// A word that is zero in a child after a fork, for as long as the process lives.
pub(crate) fn cleared_on_fork() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    const LENGTH: usize = 4096;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory, at an address that the system chooses.
    let start =
        unsafe { mmap_anonymous(std::ptr::null_mut(), LENGTH, access, MapFlags::PRIVATE).ok()? };
    // SAFETY: the memory that was just mapped, which nothing else refers to.
    let advised = unsafe { madvise(start, LENGTH, Advice::LinuxWipeOnFork) };
    // A page that stays mapped is the lesser evil on a system that does not know the advice.
    advised.ok()?;
    // SAFETY: aligned to a page, readable and writable, never unmapped, and only used as an atomic.
    Some(unsafe { &*start.cast::<AtomicU64>() })
}
