//! Which boot of the machine this is (F-114).

use std::sync::OnceLock;

use crate::format::BootId;

/// The boot that this process runs in; zeros where the system does not tell.
pub(super) fn boot_id() -> BootId {
    static KNOWN: OnceLock<BootId> = OnceLock::new();
    *KNOWN.get_or_init(|| ask().and_then(|text| parse(&text)).unwrap_or_default())
}

#[cfg(target_os = "linux")]
fn ask() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

#[cfg(target_os = "macos")]
fn ask() -> Option<String> {
    use std::ffi::{c_char, c_int, c_void};
    unsafe extern "C" {
        fn sysctlbyname(
            name: *const c_char,
            old: *mut c_void,
            old_length: *mut usize,
            new: *mut c_void,
            new_length: usize,
        ) -> c_int;
    }
    let mut text = [0u8; 64];
    let mut length = text.len();
    // SAFETY: the name ends with a zero, `length` is that of the buffer, which the call fills no
    // further than that, and nothing is set.
    let result = unsafe {
        sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    let text = std::ffi::CStr::from_bytes_until_nul(&text).ok().filter(|_| result == 0)?;
    text.to_str().ok().map(str::to_owned)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn ask() -> Option<String> {
    None
}

/// The 16 bytes of a UUID in its usual form.
fn parse(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text
        .trim()
        .chars()
        .filter(|&digit| digit != '-')
        .map(|digit| digit.to_digit(16).map(|value| value as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (digits.len() == 32).then(|| bytes.try_into().ok().map(BootId)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f114_a_boot_id_is_the_bytes_of_a_uuid() {
        let id = parse("00112233-4455-6677-8899-aabbccddeeFF\n").map(|id| id.0);
        let bytes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(|at: u8| at * 0x11);
        assert_eq!(id, Some(bytes));
        for wrong in ["", "0011", "00112233-4455-6677-8899-aabbccddeeFg", "not a uuid"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_boot_is_known_and_stays_the_same() {
        assert_ne!(boot_id(), BootId::default());
        assert_eq!(boot_id(), boot_id());
    }
}
