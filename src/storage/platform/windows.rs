//! Windows.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::time::Duration;

use memmap2::MmapRaw;
use tempfile::TempPath;
use windows_sys::Wdk::System::SystemInformation::{
    NtQuerySystemInformation, SystemTimeOfDayInformation,
};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION,
    ERROR_USER_MAPPED_FILE, GENERIC_READ, GENERIC_WRITE,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetKernelObjectSecurity, SetKernelObjectSecurity,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_ID_INFO, FileIdInfo, GetFileInformationByHandle, GetFileInformationByHandleEx,
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, MoveFileExW, UnlockFileEx,
    WRITE_DAC,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};

use super::super::{Usage, retry};
use super::Identity;
use crate::format::BootId;

/// The byte that is locked instead of the file (F-100): a lock keeps other processes from reading
/// what it covers, so it covers what no file reaches.
const LOCKED_BYTE: u64 = 1 << 62;

/// How often, and how long apart, a file is replaced that a process has open. Programs that look
/// after files, against viruses or for a search, open each new one for a moment.
const REPLACE_TRIES: u32 = 20;
const REPLACE_PAUSE: Duration = Duration::from_millis(10);

/// Maps and file have one cache, but what was changed through a map is known to the map alone until
/// it is flushed.
pub(crate) const SYNC_COVERS_MAPS: bool = false;

/// The error that the last call left, unless the call says that all went well.
fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is_code(error: &io::Error, codes: &[u32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&(code as u32)))
}

/// Fills `bytes` from `offset`; an end before that is an error.
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        // The position of the file, which this moves, is never used.
        let read = retry(|| file.seek_read(rest, at))?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (rest, at) = (&mut rest[read..], at + read as u64);
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        let written = retry(|| file.seek_write(rest, at))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        (rest, at) = (&rest[written..], at + written as u64);
    }
    Ok(())
}

/// Sets the length of a file; false where that cannot be done because a part that would go is mapped,
/// or any other part of the file.
pub(crate) fn set_len(file: &File, length: u64) -> io::Result<bool> {
    match file.set_len(length) {
        Err(error) if is_code(&error, &[ERROR_USER_MAPPED_FILE]) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Opens what should be a regular file; a symbolic link as its last part only with `follow`.
pub(crate) fn open(options: &OpenOptions, path: &Path, follow: bool) -> io::Result<File> {
    let flags = if follow { 0 } else { FILE_FLAG_OPEN_REPARSE_POINT };
    options.clone().custom_flags(flags).open(path)
}

/// Creates a file to be written and read. It has the rights that its folder passes on, also with
/// `private`: until it has those of another ([`pass_on_access`]), it is empty.
pub(crate) fn create_new(path: &Path, _private: bool) -> io::Result<File> {
    // `write` is asked for where a file is created; the mode of access is the one that counts.
    let access = GENERIC_READ | GENERIC_WRITE | WRITE_DAC;
    OpenOptions::new().write(true).access_mode(access).create_new(true).open(path)
}

/// What something is that is not a regular file.
pub(crate) fn kind(metadata: &Metadata) -> Option<&'static str> {
    match () {
        () if metadata.is_file() => None,
        () if metadata.is_dir() => Some("a folder"),
        () => Some("a link"),
    }
}

/// Which file an open one is.
pub(crate) fn identity(file: &File) -> io::Result<Identity> {
    let mut id = FILE_ID_INFO::default();
    // SAFETY: the handle is open, and the system writes no more than the size of `id` to it.
    let found = unsafe {
        GetFileInformationByHandleEx(
            file.as_raw_handle(),
            FileIdInfo,
            (&raw mut id).cast(),
            size_of::<FILE_ID_INFO>() as u32,
        )
    };
    if found != 0 {
        let number = u128::from_le_bytes(id.FileId.Identifier);
        return Ok(Identity { volume: id.VolumeSerialNumber, number });
    }
    // A file system without numbers of that length.
    let mut id = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and `id` is what the system writes.
    checked(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut id) })?;
    let number = u128::from(id.nFileIndexHigh) << 32 | u128::from(id.nFileIndexLow);
    Ok(Identity { volume: id.dwVolumeSerialNumber.into(), number })
}

/// Which file a name leads to.
pub(crate) fn identity_at(path: &Path) -> io::Result<Identity> {
    // No access: to be told the number needs none. The flag is for folders.
    let mut options = OpenOptions::new();
    identity(&options.access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?)
}

/// Where the locked byte is, as the system wants to be told.
fn locked_byte() -> OVERLAPPED {
    let place =
        OVERLAPPED_0_0 { Offset: LOCKED_BYTE as u32, OffsetHigh: (LOCKED_BYTE >> 32) as u32 };
    OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: place }, ..OVERLAPPED::default() }
}

/// Takes the exclusive lock, unless another handle has one.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    lock(file, LOCKFILE_EXCLUSIVE_LOCK)
}

/// Takes a shared lock, unless another handle has the exclusive one.
pub(crate) fn try_lock_shared(file: &File) -> io::Result<bool> {
    lock(file, 0)
}

fn lock(file: &File, flags: u32) -> io::Result<bool> {
    let flags = flags | LOCKFILE_FAIL_IMMEDIATELY;
    let mut place = locked_byte();
    // SAFETY: the handle is open and not for overlapped operations, so that the system is done with
    // `place` when the call returns.
    match checked(unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) }) {
        Ok(()) => Ok(true),
        Err(error) if is_code(&error, &[ERROR_LOCK_VIOLATION, ERROR_IO_PENDING]) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lets the lock of a handle go.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    let mut place = locked_byte();
    // SAFETY: as for the lock.
    checked(unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut place) })
}

/// Gives a new file the list of rights of another.
pub(crate) fn pass_on_access(old: &File, new: &File) -> io::Result<()> {
    // Words, because what is in them is aligned to words.
    let mut rights = vec![0_u64; 64];
    loop {
        let room = size_of_val(rights.as_slice()) as u32;
        let mut needed = 0;
        // SAFETY: the handle is open, and the system writes no more than `room` bytes.
        let told = checked(unsafe {
            GetKernelObjectSecurity(
                old.as_raw_handle(),
                DACL_SECURITY_INFORMATION,
                rights.as_mut_ptr().cast(),
                room,
                &raw mut needed,
            )
        });
        match told {
            Ok(()) => break,
            Err(_) if needed > room => rights = vec![0; (needed as usize).div_ceil(8)],
            Err(error) => return Err(error),
        }
    }
    // SAFETY: the handle is open, and `rights` is what the call before wrote.
    checked(unsafe {
        SetKernelObjectSecurity(
            new.as_raw_handle(),
            DACL_SECURITY_INFORMATION,
            rights.as_mut_ptr().cast(),
        )
    })
}

/// Gives a file the name of another, at once.
///
/// NTFS leaves the other one to those that have it open. File systems that do not want it closed;
/// `let_go` closes it in this process. With that its lock is gone before the name is, but a writer
/// that takes it in between has the file open, and then it is not replaced.
pub(crate) fn replace(from: &Path, to: &Path, let_go: impl FnOnce()) -> io::Result<()> {
    const IN_USE: [u32; 3] = [ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_USER_MAPPED_FILE];
    let mut result = std::fs::rename(from, to);
    if matches!(&result, Err(error) if is_code(error, &IN_USE)) {
        let_go();
        for _ in 0..REPLACE_TRIES {
            result = std::fs::rename(from, to);
            if !matches!(&result, Err(error) if is_code(error, &IN_USE)) {
                break;
            }
            std::thread::sleep(REPLACE_PAUSE);
        }
    }
    match result {
        Err(error) if is_code(&error, &IN_USE) => {
            let reason = "the system does not replace a file that is read-only, or that a process \
                          has open or mapped";
            Err(io::Error::new(error.kind(), format!("{error}: {reason}")))
        }
        result => result,
    }
}

/// Gives a file with a temporary name another one that no file has; an error if one does.
pub(crate) fn rename_new(mut path: TempPath, to: &Path) -> Result<(), (TempPath, io::Error)> {
    let [from, to] = [&*path, to].map(|path| -> Vec<u16> {
        path.as_os_str().encode_wide().chain(std::iter::once(0)).collect()
    });
    // SAFETY: both names end with a zero and stay until the call returns.
    match checked(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), 0) }) {
        Ok(()) => {
            path.disable_cleanup(true);
            Ok(())
        }
        Err(error) => Err((path, error)),
    }
}

/// Makes a new name in a folder durable: the sync of the file after it got its name has done so.
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes what a file holds durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    retry(|| file.sync_data())
}

/// As [`sync_data`], with all that the system knows of the file.
pub(crate) fn sync_all(file: &File) -> io::Result<()> {
    retry(|| file.sync_all())
}

/// Makes a part of a map durable: the view first, then the file.
pub(crate) fn flush(map: &MmapRaw, file: &File, bytes: Range<usize>) -> io::Result<()> {
    retry(|| map.flush_async_range(bytes.start, bytes.len()))?;
    sync_data(file)
}

/// Hands what was changed through a map to the cache that a sync of the file is about.
pub(crate) fn write_back(map: &MmapRaw) -> io::Result<()> {
    retry(|| map.flush_async())
}

/// Which boot of the machine this is: the time at which it came, as the clock showed it then. The
/// system moves that time when the clock is set, and tells by how much.
pub(crate) fn boot() -> Option<BootId> {
    let mut times = [0_u64; 6];
    // SAFETY: the system writes no more than the size of `times` to it.
    let status = unsafe {
        NtQuerySystemInformation(
            SystemTimeOfDayInformation,
            times.as_mut_ptr().cast(),
            size_of_val(&times) as u32,
            std::ptr::null_mut(),
        )
    };
    // SYSTEM_TIMEOFDAY_INFORMATION: the time of the boot, that of now, two about the time zone, and by
    // how much the first was moved.
    let [boot, _, _, _, moved, _] = times;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&boot.wrapping_sub(moved).to_le_bytes());
    (status >= 0).then_some(BootId(id))
}

/// Tells what a map is about to be used for: nothing that could be told is of use here.
pub(crate) fn advise(_: &MmapRaw, _: Usage) {}

/// Nothing is to be caught: where a mapped page cannot be had, the system ends the process with an
/// exception, and it does not let other programs cut a mapped file short.
pub(crate) fn catch_bus_errors(_program: &'static str, _status: i32) -> io::Result<()> {
    Ok(())
}
