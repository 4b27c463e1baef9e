//! What the kernels have in common.

/// The functions of a kernel's module that are written alike in all of them, but for the instructions
/// that they are compiled with: whatever is inlined into them is compiled so too, which it would not
/// be if they stood in one place. The module has `two_bytes` and `evaluate`.
macro_rules! kernel_functions {
    ($(#[$attribute:meta])?) => {
        /// What [`solution`](crate::sealed::solution) does.
        $(#[$attribute])?
        pub(super) fn solve(
            system: &crate::sealed::banding::System,
            shape: &crate::sealed::shape::Shape,
            page: &mut crate::sealed::PageBytes,
        ) {
            crate::sealed::solution::solve(system, shape, page);
        }

        /// Whether a page may hold a value.
        $(#[$attribute])?
        pub(super) fn contains(page: &crate::sealed::PageInMap, value: u64) -> bool {
            evaluate(page, &crate::sealed::place::Place::of(page, value, |page, at| two_bytes(page, at)))
        }

        /// Whether the page of each hash may hold it.
        $(#[$attribute])?
        pub(super) fn contains_batch(
            pages: &[crate::sealed::PageInMap],
            hash: impl FnMut(usize) -> u64,
            found: &mut [bool],
        ) {
            crate::kernel::sealed::query::ring(
                pages,
                hash,
                found,
                |page, value| {
                    crate::sealed::place::Place::of(page, value, |page, at| two_bytes(page, at))
                },
                |page, place| evaluate(page, place),
            );
        }
    };
}

/// [`banding`](crate::sealed::banding), for the kernels that have nothing better.
macro_rules! banding_function {
    ($(#[$attribute:meta])?) => {
        /// What [`banding`](crate::sealed::banding) does.
        $(#[$attribute])?
        pub(super) fn band(
            values: &[u64],
            below: &[u32; crate::sealed::shape::PARTS + 1],
            shape: &crate::sealed::shape::Shape,
            bends: &[i8; crate::sealed::shape::PARTS + 1],
            system: &mut crate::sealed::banding::System,
        ) -> bool {
            crate::sealed::banding::prepare(values, below, shape, bends, &mut system.keys);
            crate::sealed::banding::band(&system.keys, &mut system.slots, shape.slots())
        }
    };
}
