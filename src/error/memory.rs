//! Memory in proportion to a file: where there is not enough, that is an error and not the end of the
//! process.

use std::io;

use super::{Error, Result};

/// Makes room for `count` more values, or says what needs how much.
pub(crate) fn reserve<T>(values: &mut Vec<T>, count: u64, action: &'static str) -> Result<()> {
    let room = usize::try_from(count).ok();
    if room.is_some_and(|room| values.try_reserve_exact(room).is_ok()) {
        return Ok(());
    }
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    let wanted = format!("there are no {bytes} bytes of memory to be had");
    Err(Error::Io { action, error: io::Error::new(io::ErrorKind::OutOfMemory, wanted) })
}

/// As many values as an iterator has, which must be `count`.
pub(crate) fn collect<T>(
    values: impl Iterator<Item = T>,
    count: u64,
    action: &'static str,
) -> Result<Vec<T>> {
    let mut collected = Vec::new();
    reserve(&mut collected, count, action)?;
    collected.extend(values);
    Ok(collected)
}

/// A buffer of zeros.
pub(crate) fn buffer(length: u64, action: &'static str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reserve(&mut bytes, length, action)?;
    bytes.resize(length as usize, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn too_much_is_an_error_that_says_how_much() {
        assert_eq!(collect(0..3u8, 3, "count").unwrap(), [0, 1, 2]);
        for (count, bytes) in [(1 << 60, 8u64 << 60), (u64::MAX, u64::MAX)] {
            let error = reserve(&mut Vec::<u64>::new(), count, "keep the page table").unwrap_err();
            let said = error.to_string();
            let expected = format!("cannot keep the page table: there are no {bytes} bytes");
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}
