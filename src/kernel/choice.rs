//! Which inner loop suits a geometry and this processor.

use super::{simd, wide};
use crate::geometry::{Geometry, Layout};

/// Environment variable that, set to `portable`, keeps handles from using SIMD instructions, and,
/// set to `simd`, from using those whose registers hold a whole line.
pub(super) const KERNEL_VARIABLE: &str = "BLOOMFILE_KERNEL";

/// The inner loop that suits a geometry and this processor, chosen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// With a whole line in one register: lines of 4, 8 and 16 rows.
    WideLine4,
    WideLine8,
    WideLine16,
    /// The same with other SIMD instructions.
    SimdLine4,
    SimdLine8,
    SimdLine16,
    /// Any number of rows in one line.
    PortableLine,
    /// Cells drawn one by one: `page`, `rows` and `flat`.
    Drawn,
    /// Counters, in any layout.
    Counting,
}

impl Kernel {
    /// The kernel for any processor.
    pub(super) fn portable(geometry: &Geometry) -> Self {
        match geometry.layout() {
            Layout::Line => Kernel::PortableLine,
            Layout::Page | Layout::Rows | Layout::Flat => Kernel::Drawn,
        }
    }

    /// The kernel with a line in one register, if there is one.
    pub(super) fn wide(geometry: &Geometry) -> Option<Self> {
        let kernels = [Kernel::WideLine4, Kernel::WideLine8, Kernel::WideLine16];
        Self::of_rows(geometry, kernels).filter(|_| wide::found())
    }

    /// The kernel with other SIMD instructions, if there is one.
    pub(super) fn simd(geometry: &Geometry) -> Option<Self> {
        let kernels = [Kernel::SimdLine4, Kernel::SimdLine8, Kernel::SimdLine16];
        Self::of_rows(geometry, kernels).filter(|_| simd::found())
    }

    /// The one of kernels for lines of 4, 8 and 16 rows that suits a geometry.
    fn of_rows(geometry: &Geometry, [four, eight, sixteen]: [Self; 3]) -> Option<Self> {
        match (geometry.layout(), geometry.row_count()) {
            (Layout::Line, 4) => Some(four),
            (Layout::Line, 8) => Some(eight),
            (Layout::Line, 16) => Some(sixteen),
            _ => None,
        }
    }

    /// The best kernel for this processor that the environment allows.
    pub(super) fn choose(geometry: &Geometry) -> Self {
        match std::env::var_os(KERNEL_VARIABLE) {
            Some(name) if name == "portable" => None,
            Some(name) if name == "simd" => Self::simd(geometry),
            _ => Self::wide(geometry).or_else(|| Self::simd(geometry)),
        }
        .unwrap_or_else(|| Self::portable(geometry))
    }
}

/// Calls a function of the kernel: `wide::$name::<ROWS>` or `simd::$name::<ROWS>` with SIMD
/// instructions, else one of two others.
macro_rules! with_kernel {
    ($kernel:expr, $name:ident ( $($argument:expr),* ), $line:expr, $drawn:expr) => {
        match $kernel {
            // SAFETY: whoever chose the kernel found its instructions, and the caller of this macro
            // vouches for the pointer: see there.
            Kernel::WideLine8 => unsafe { wide::$name::<8>($($argument),*) },
            // SAFETY: as above.
            Kernel::WideLine16 => unsafe { wide::$name::<16>($($argument),*) },
            // SAFETY: as above.
            Kernel::WideLine4 => unsafe { wide::$name::<4>($($argument),*) },
            // SAFETY: as above.
            Kernel::SimdLine8 => unsafe { simd::$name::<8>($($argument),*) },
            // SAFETY: as above.
            Kernel::SimdLine16 => unsafe { simd::$name::<16>($($argument),*) },
            // SAFETY: as above.
            Kernel::SimdLine4 => unsafe { simd::$name::<4>($($argument),*) },
            Kernel::PortableLine => $line,
            Kernel::Drawn | Kernel::Counting => $drawn,
        }
    };
}
