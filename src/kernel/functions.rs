//! What the SIMD modules have in common.

/// The functions of a SIMD module that are written alike in all of them, but for the instructions
/// that they are compiled with: whatever is inlined into them is compiled so too, which it would not
/// be if they stood in one place.
///
/// The module has `load` and `store` for a line, `bits` for the cells of a hash in one, `off` for the
/// rows whose bits a line lacks, `union` of a line and bits, `contains`, and for 8 rows `prepare` and
/// `holds`: what a look-up does before it knows the line, and after.
macro_rules! simd_functions {
    ($features:literal) => {
        /// One bit for each row whose cell is off.
        ///
        /// # Safety
        /// As for [`load`].
        #[inline]
        #[target_feature(enable = $features)]
        pub(super) unsafe fn missing<const ROWS: usize>(
            line: *const std::sync::atomic::AtomicU64,
            hash: u64,
        ) -> u32 {
            // SAFETY: the caller's.
            off::<ROWS>(unsafe { load(line) }, bits::<ROWS>(hash))
        }

        /// Whether the cells of each hash are on.
        ///
        /// # Safety
        /// The cells are of the `line` layout with `ROWS` rows.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn contains_batch<const ROWS: usize>(
            cells: &super::Cells<impl crate::storage::Map>,
            hash: impl FnMut(usize) -> u64,
            found: &mut [bool],
        ) {
            super::batch::ahead(
                found.len(),
                hash,
                |hash| crate::storage::prefetch(cells.line_pointer(hash)),
                // SAFETY: `line_pointer` points to a whole line.
                |at, hash| found[at] = unsafe { contains::<ROWS>(cells.line_pointer(hash), hash) },
            );
        }

        /// Whether the cells of a hash are on in one of several regions with 8 rows, the last ones of
        /// each slice first: what does not depend on the region is done once.
        ///
        /// # Safety
        /// The processor has the instructions, and the regions have lines.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn contains_in_any(
            newer: &[super::segments::Lines],
            older: &[super::segments::Lines],
            hash: u64,
        ) -> bool {
            let prepared = prepare(hash);
            // SAFETY: `of` points to a whole line.
            let holds = |lines: &super::segments::Lines| unsafe { holds(lines.of(hash), prepared) };
            newer.iter().rev().any(holds) || older.iter().rev().any(holds)
        }

        /// [`Cells::turn_on`](super::Cells::turn_on), without its last part.
        ///
        /// # Safety
        /// As for [`load`] and [`store`].
        #[target_feature(enable = $features)]
        pub(super) unsafe fn turn_on<const ROWS: usize>(
            line: *const std::sync::atomic::AtomicU64,
            hash: u64,
            before: impl FnOnce(u32),
        ) -> u32 {
            let bits = bits::<ROWS>(hash);
            // SAFETY: the caller's.
            let words = unsafe { load(line) };
            let mask = off::<ROWS>(words, bits);
            if mask != 0 {
                before(mask);
                // SAFETY: the caller's.
                unsafe { store(line, union(words, bits)) };
            }
            mask
        }
    };
}
