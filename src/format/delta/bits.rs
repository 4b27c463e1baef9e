//! Strings of bits, from the lowest bit of the first byte on (F-165).

/// Writes bits.
#[derive(Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that are not in `bytes` yet, and how many: fewer than 8 between calls.
    pending: u64,
    count: u32,
}

impl BitWriter {
    pub(super) fn with_capacity(bits: u64) -> Self {
        BitWriter { bytes: Vec::with_capacity((bits / 8 + 8) as usize), ..Self::default() }
    }

    /// The low bits of a number, up to 56 of them; the others are zero.
    #[inline]
    pub(super) fn write(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 56 && value >> bits == 0);
        self.pending |= value << self.count;
        self.count += bits;
        let whole = (self.count / 8) as usize;
        self.bytes.extend_from_slice(&self.pending.to_le_bytes()[..whole]);
        self.pending = self.pending.checked_shr(8 * whole as u32).unwrap_or(0);
        self.count %= 8;
    }

    /// A gap, with `rice` low bits.
    #[inline]
    pub(super) fn write_gap(&mut self, gap: u32, rice: u32) {
        let mut ones = u64::from(gap) >> rice;
        while ones >= 32 {
            self.write(u64::from(u32::MAX), 32);
            ones -= 32;
        }
        // The ones and the zero behind them.
        self.write((1 << ones) - 1, ones as u32 + 1);
        self.write(u64::from(gap) & ((1 << rice) - 1), rice);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.pending as u8);
        }
        self.bytes
    }
}

/// Reads bits; `None` behind the last one.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits that were read.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        BitReader { bytes, at: 0 }
    }

    /// The next bits, at least 56 of them, with zeros behind the last one.
    #[inline]
    fn peek(&self) -> u64 {
        let start = self.at / 8;
        let word = match self.bytes.get(start..start + 8) {
            Some(bytes) => {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }
            None => {
                let rest = self.bytes.get(start..).unwrap_or(&[]);
                rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
            }
        };
        word >> (self.at % 8)
    }

    #[inline]
    fn skip(&mut self, bits: u32) -> Option<()> {
        self.at += bits as usize;
        (self.at <= 8 * self.bytes.len()).then_some(())
    }

    /// A number of up to 56 bits.
    #[inline]
    pub(super) fn read(&mut self, bits: u32) -> Option<u64> {
        let value = self.peek() & ((1 << bits) - 1);
        self.skip(bits)?;
        Some(value)
    }

    /// A gap, with `rice` low bits; `None` also if it is above `most`.
    #[inline]
    pub(super) fn read_gap(&mut self, rice: u32, most: u64) -> Option<u64> {
        let mut high = 0u64;
        loop {
            let ones = self.peek().trailing_ones().min(48);
            high += u64::from(ones);
            if high << rice > most {
                return None;
            }
            if ones < 48 {
                self.skip(ones + 1)?;
                break;
            }
            self.skip(ones)?;
        }
        let gap = high << rice | self.read(rice)?;
        (gap <= most).then_some(gap)
    }

    /// Whether all that is left is zeros that fill the last byte.
    pub(super) fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && self.peek() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        for rice in [0, 1, 5, 31] {
            let gaps = [0, 1, 2, 31, 32, 33, 47, 48, 49, 95, 96, 97, 1000, 60_000];
            let mut writer = BitWriter::default();
            for gap in gaps {
                writer.write_gap(gap, rice);
                writer.write(5, 3);
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for gap in gaps {
                assert_eq!(reader.read_gap(rice, 60_000), Some(gap.into()), "rice {rice}");
                assert_eq!(reader.read(3), Some(5));
            }
            assert!(reader.is_at_end());
            assert_eq!(reader.read(8), None);
        }
    }

    #[test]
    fn no_gap_is_above_its_limit_and_no_read_beyond_the_end() {
        let ones = [0xff; 40];
        assert_eq!(BitReader::new(&ones).read_gap(0, 1 << 40), None);
        assert_eq!(BitReader::new(&ones).read_gap(0, 100), None);
        assert_eq!(BitReader::new(&[]).read(1), None);
        let mut reader = BitReader::new(&[0x0f]);
        assert_eq!(reader.read_gap(0, 3), None);
        assert_eq!(BitReader::new(&[0x0f]).read_gap(0, 4), Some(4));
        assert!(!BitReader::new(&[0x10]).is_at_end());
    }
}
