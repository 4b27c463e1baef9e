//! CRC-32 (F-4): by the crate that uses what the processor has for it, and in WebAssembly, which has
//! nothing, by tables that are made when they are first needed. Those of the crate are in the program
//! as 16 KiB, a seventh of what a browser has to fetch.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crc32fast::{Hasher as Crc, hash as crc_of};
#[cfg(target_arch = "wasm32")]
pub(crate) use tables::{Crc, crc_of};

#[cfg(any(test, target_arch = "wasm32"))]
mod tables {
    use std::sync::OnceLock;

    /// For each number of bytes that follow it, what a byte does to the register.
    static TABLES: OnceLock<[[u32; 256]; 8]> = OnceLock::new();

    fn tables() -> &'static [[u32; 256]; 8] {
        TABLES.get_or_init(|| {
            let mut tables = [[0; 256]; 8];
            let step = |register: u32| (register >> 1) ^ (0xedb8_8320 * (register & 1));
            tables[0] = std::array::from_fn(|byte| (0..8).fold(byte as u32, |it, _| step(it)));
            for follow in 1..8 {
                for byte in 0..256 {
                    let before = tables[follow - 1][byte];
                    tables[follow][byte] = (before >> 8) ^ tables[0][(before & 255) as usize];
                }
            }
            tables
        })
    }

    /// The CRC of bytes that come in parts.
    #[derive(Clone, Debug)]
    pub(crate) struct Crc(u32);

    impl Crc {
        pub(crate) fn new() -> Self {
            Crc(u32::MAX)
        }

        pub(crate) fn update(&mut self, bytes: &[u8]) {
            let tables = tables();
            let (words, rest) = bytes.as_chunks::<8>();
            for word in words {
                let word = u64::from_le_bytes(*word) ^ u64::from(self.0);
                let bytes = word.to_le_bytes().into_iter().enumerate();
                self.0 = bytes.fold(0, |crc, (at, byte)| crc ^ tables[7 - at][usize::from(byte)]);
            }
            for byte in rest {
                self.0 = (self.0 >> 8) ^ tables[0][usize::from(self.0 as u8 ^ byte)];
            }
        }

        pub(crate) fn finalize(self) -> u32 {
            !self.0
        }
    }

    /// The CRC of some bytes.
    pub(crate) fn crc_of(bytes: &[u8]) -> u32 {
        let mut crc = Crc::new();
        crc.update(bytes);
        crc.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::tables;

    #[test]
    fn f4_the_tables_give_the_crc_of_the_crate() {
        assert_eq!(tables::crc_of(b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..5000u32).map(|at| (at * at / 7) as u8).collect();
        for length in (0..100).chain([4095, 4096, 5000]) {
            assert_eq!(tables::crc_of(&bytes[..length]), super::crc_of(&bytes[..length]));
        }
        let mut parts = tables::Crc::new();
        bytes.chunks(13).for_each(|part| parts.update(part));
        assert_eq!(parts.finalize(), super::crc_of(&bytes));
    }
}
