//! Which boot of the machine this is (F-114).

use std::sync::OnceLock;

use super::platform;
use crate::format::BootId;

/// The boot that this process runs in; zeros where the system does not tell.
pub(super) fn boot_id() -> BootId {
    static KNOWN: OnceLock<BootId> = OnceLock::new();
    *KNOWN.get_or_init(|| platform::boot().unwrap_or_default())
}

/// The 16 bytes of a UUID in its usual form.
#[cfg(any(target_os = "linux", target_vendor = "apple", test))]
pub(super) fn uuid(text: &str) -> Option<BootId> {
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
        let id = uuid("00112233-4455-6677-8899-aabbccddeeFF\n").map(|id| id.0);
        let bytes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(|at: u8| at * 0x11);
        assert_eq!(id, Some(bytes));
        for wrong in ["", "0011", "00112233-4455-6677-8899-aabbccddeeFg", "not a uuid"] {
            assert_eq!(uuid(wrong), None, "{wrong}");
        }
    }

    #[test]
    #[cfg(any(target_os = "linux", windows))]
    fn the_boot_is_known_and_stays_the_same() {
        assert_ne!(boot_id(), BootId::default());
        assert_eq!(boot_id(), boot_id());
    }
}
