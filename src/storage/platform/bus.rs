//! SIGBUS: what the system raises when a mapped page of a file cannot be had.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the handler needs: set once, before the handler is there.
struct Caught {
    program: &'static str,
    status: i32,
    before: libc::sigaction,
}

static CAUGHT: OnceLock<Caught> = OnceLock::new();

/// See [`catch_bus_errors`](crate::process::catch_bus_errors).
pub(crate) fn catch_bus_errors(program: &'static str, status: i32) -> io::Result<()> {
    if CAUGHT.get().is_some() {
        return Ok(());
    }
    let mut before = MaybeUninit::uninit();
    // SAFETY: with no new action this only writes the old one to `before`, which it may.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: written by the call above, which succeeded.
    let before = unsafe { before.assume_init() };
    if CAUGHT.set(Caught { program, status, before }).is_err() {
        return Ok(());
    }
    // SAFETY: all zeros are an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handle as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: `handle` has the signature that SA_SIGINFO asks for, and calls only what may be called
    // in a handler.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn handle(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    /// Whether a thread is at it already.
    static BUSY: AtomicBool = AtomicBool::new(false);
    let Some(caught) = CAUGHT.get() else { return };
    if BUSY.swap(true, Ordering::Relaxed) {
        loop {
            // SAFETY: waits, until the other thread ends the process.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the system gives a handler of a SIGBUS its information, with an address in it.
    let address = unsafe { (*info).si_addr() } as u64;
    let mut name = Name::default();
    match find(address, &mut name) {
        Found::NoFile => {
            BUSY.store(false, Ordering::Relaxed);
            // SAFETY: puts back what was there. The access is repeated and raises it again.
            unsafe { libc::sigaction(libc::SIGBUS, &caught.before, std::ptr::null_mut()) };
            return;
        }
        Found::Unknown => name.extend(b"a mapped file"),
        Found::File => {}
    }
    for text in [
        caught.program.as_bytes(),
        b": ",
        name.shown(),
        b": cannot be read where it is mapped: its disk failed, or another program cut it short; \
          to replace a file, rename the new one over it\n",
    ] {
        // SAFETY: the text is readable for its length. Where it cannot be told, it is not.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: ends the process, without anything that would run at a usual end.
    unsafe { libc::_exit(caught.status) };
}

/// Whether a file is mapped at an address.
enum Found {
    File,
    NoFile,
    /// The system does not tell.
    Unknown,
}

/// The name of a file, in a handler, where nothing can be allocated.
struct Name {
    bytes: [u8; 2048],
    length: usize,
}

impl Default for Name {
    fn default() -> Self {
        Name { bytes: [0; 2048], length: 0 }
    }
}

impl Name {
    /// Goes on by bytes, as far as there is space.
    fn extend(&mut self, more: &[u8]) {
        for &byte in more {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
    }

    /// What it shows; bytes that may steer a terminal became question marks.
    fn shown(&mut self) -> &[u8] {
        let mut before = 0;
        for byte in &mut self.bytes[..self.length] {
            let control =
                byte.is_ascii_control() || (before == 0xc2 && (0x80..0xa0).contains(byte));
            before = *byte;
            if control {
                *byte = b'?';
            }
        }
        &self.bytes[..self.length]
    }
}

/// Looks an address up in the system's list of this process's maps.
fn find(address: u64, name: &mut Name) -> Found {
    if cfg!(not(target_os = "linux")) {
        return Found::Unknown;
    }
    // SAFETY: the path ends in a NUL.
    let list = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY) };
    if list < 0 {
        return Found::Unknown;
    }
    let mut search = Search::new(address);
    let mut buffer = [0_u8; 1024];
    loop {
        // SAFETY: the buffer is writable for its length.
        let read = unsafe { libc::read(list, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(bytes @ [_, ..]) = usize::try_from(read).ok().and_then(|read| buffer.get(..read))
        else {
            return Found::NoFile;
        };
        for &byte in bytes {
            if let Some(found) = search.step(byte, name) {
                return if found { Found::File } else { Found::NoFile };
            }
        }
    }
}

/// Reads lines such as `7f00-8f00 r--s 00001000 08:01 42    /tmp/a.bloom`.
struct Search {
    address: u64,
    start: u64,
    number: u64,
    /// Number of the field that the next byte belongs to.
    field: u32,
    /// Whether the byte before was a space.
    space: bool,
    /// Whether the address is in the line's range.
    inside: bool,
}

impl Search {
    fn new(address: u64) -> Self {
        Search { address, start: 0, number: 0, field: 0, space: false, inside: false }
    }

    /// Takes a byte. At the end of the address's line tells whether a file is mapped there; its
    /// name is in `name` then.
    fn step(&mut self, byte: u8, name: &mut Name) -> Option<bool> {
        /// Range, permissions, offset, device, inode.
        const FIELDS_BEFORE_NAME: u32 = 5;
        match byte {
            b'\n' if self.inside => return Some(name.length > 0),
            b'\n' => *self = Search::new(self.address),
            _ if self.field >= FIELDS_BEFORE_NAME && (byte != b' ' || name.length > 0) => {
                // Names in brackets are not files.
                let is_part = self.inside && (name.length > 0 || byte == b'/');
                name.extend(&[byte][..usize::from(is_part)]);
            }
            b' ' => {
                if self.field == 0 {
                    self.inside = (self.start..self.number).contains(&self.address);
                }
                self.field += u32::from(!self.space);
                self.space = true;
                return None;
            }
            b'-' if self.field == 0 => {
                self.start = self.number;
                self.number = 0;
            }
            _ if self.field == 0 => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.number = self.number << 4 | u64::from(digit);
            }
            _ => {}
        }
        self.space = false;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_at_an_address() {
        let list = "00001000-00003000 r--p 00000000 08:01 17                 /usr/bin/x y (deleted)\n\
                    7f0000000000-7f0000004000 rw-p 00000000 00:00 0 \n\
                    7f0000004000-7f0000005000 r--s 00001000 08:01 42         /tmp/a\u{1b}\u{9b}.bloom\n\
                    7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0          [stack]\n";
        let found = |address| {
            let mut name = Name::default();
            let mut search = Search::new(address);
            let found = list.bytes().find_map(|byte| search.step(byte, &mut name));
            (found, String::from_utf8_lossy(name.shown()).into_owned())
        };
        assert_eq!(found(0x1000), (Some(true), "/usr/bin/x y (deleted)".into()));
        assert_eq!(found(0x2fff).0, Some(true));
        assert_eq!(found(0x3000).0, None);
        assert_eq!(found(0x7f00_0000_3fff).0, Some(false));
        assert_eq!(found(0x7f00_0000_4abc).0, Some(true));
        assert!(found(0x7f00_0000_4abc).1.starts_with("/tmp/a?"));
        assert!(!found(0x7f00_0000_4abc).1.contains('\u{9b}'));
        assert_eq!(found(0x7ffd_0000_0001).0, Some(false));
    }
}
