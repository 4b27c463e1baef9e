//! Which inner loop suits a geometry and this processor.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{simd, wide};
use crate::geometry::{CellKind, Geometry, Layout};

/// Environment variable that, set to `portable`, keeps handles from using SIMD instructions, and,
/// set to `simd`, from using the widest ones.
pub(super) const KERNEL_VARIABLE: &str = "BLOOMFILE_KERNEL";

/// Kinds of instructions, each with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Instructions {
    /// Those of any processor.
    Portable,
    /// AVX2, NEON.
    Simd,
    /// AVX-512, whose registers hold a whole line.
    Wide,
}

impl Instructions {
    /// The most that the environment allows.
    pub(super) fn allowed() -> Self {
        match std::env::var_os(KERNEL_VARIABLE) {
            Some(name) if name == "portable" => Instructions::Portable,
            Some(name) if name == "simd" => Instructions::Simd,
            _ => Instructions::Wide,
        }
    }
}

/// The inner loop that suits a geometry and this processor, chosen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// With a whole line in one register: lines of 4 and of 8 rows, which are those of default plans.
    WideLine4,
    WideLine8,
    /// The same with other SIMD instructions.
    SimdLine4,
    SimdLine8,
    /// Any number of rows in one line.
    PortableLine,
    /// Cells drawn one by one: `page`, `rows` and `flat`.
    Drawn,
    /// Counters, in any layout.
    Counting,
    /// Counters in lines of 8 rows, with four lines in four registers.
    WideCounting,
    /// Pages of equations.
    Sealed,
}

impl Kernel {
    /// The kernel for any processor.
    pub(super) fn portable(geometry: &Geometry) -> Self {
        match geometry.layout() {
            Layout::Line => Kernel::PortableLine,
            Layout::Page | Layout::Rows | Layout::Flat => Kernel::Drawn,
            Layout::Sealed => Kernel::Sealed,
        }
    }

    /// The kernel with a line in one register, if there is one.
    pub(super) fn wide(geometry: &Geometry) -> Option<Self> {
        Self::of_rows(geometry, [Kernel::WideLine4, Kernel::WideLine8]).filter(|_| wide::found())
    }

    /// The kernel with other SIMD instructions, if there is one.
    pub(super) fn simd(geometry: &Geometry) -> Option<Self> {
        Self::of_rows(geometry, [Kernel::SimdLine4, Kernel::SimdLine8]).filter(|_| simd::found())
    }

    /// The one of kernels for lines of 4 and 8 rows that suits a geometry.
    fn of_rows(geometry: &Geometry, [four, eight]: [Self; 2]) -> Option<Self> {
        match (geometry.layout(), geometry.row_count()) {
            (Layout::Line, 4) => Some(four),
            (Layout::Line, 8) => Some(eight),
            _ => None,
        }
    }

    /// The kernel for counters in registers, if there is one.
    pub(super) fn wide_counting(geometry: &Geometry) -> Option<Self> {
        let lines = (geometry.layout(), geometry.row_count()) == (Layout::Line, 8);
        (lines && wide::found()).then_some(Kernel::WideCounting)
    }

    /// The fast path of look-ups with this kernel.
    pub(super) fn fast_path(self) -> FastPath {
        match self {
            Kernel::WideLine8 => FastPath::Wide,
            Kernel::SimdLine8 => FastPath::Simd,
            _ => FastPath::None,
        }
    }

    /// The best kernel for this processor that the environment allows.
    pub(super) fn choose(geometry: &Geometry) -> Self {
        if geometry.cell_kind() == CellKind::Counting {
            let wide = Instructions::allowed() == Instructions::Wide;
            return Self::wide_counting(geometry).filter(|_| wide).unwrap_or(Kernel::Counting);
        }
        match Instructions::allowed() {
            Instructions::Portable => None,
            Instructions::Simd => Self::simd(geometry),
            Instructions::Wide => Self::wide(geometry).or_else(|| Self::simd(geometry)),
        }
        .unwrap_or_else(|| Self::portable(geometry))
    }
}

/// The way of look-ups that is inlined into their callers, for the geometry that nearly all files
/// have. A handle keeps it beside its cells, as one byte that the compiler can move out of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastPath {
    /// There is none: other cells have a say, or the kernel is a rare one.
    None,
    Wide,
    Simd,
}

/// A fast path that is opened later on.
pub(crate) struct LateFastPath(AtomicU8);

impl LateFastPath {
    pub(crate) const fn new(path: FastPath) -> Self {
        LateFastPath(AtomicU8::new(path as u8))
    }

    pub(crate) fn open(&self, path: FastPath) {
        self.0.store(path as u8, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> FastPath {
        const WIDE: u8 = FastPath::Wide as u8;
        const SIMD: u8 = FastPath::Simd as u8;
        match self.0.load(Ordering::Relaxed) {
            WIDE => FastPath::Wide,
            SIMD => FastPath::Simd,
            _ => FastPath::None,
        }
    }

    /// Whether a path is open now.
    #[inline(always)]
    pub(crate) fn is(&self, path: FastPath) -> bool {
        self.0.load(Ordering::Relaxed) == path as u8
    }
}

/// Calls a function of the kernel: `wide::$name::<ROWS>` or `simd::$name::<ROWS>` with SIMD
/// instructions, else one of two others.
macro_rules! with_kernel {
    ($kernel:expr, $name:ident ( $($argument:expr),* ), $line:expr, $drawn:expr) => {
        match $kernel {
            // SAFETY: the choice of the kernel found its instructions, and the caller of this macro
            // vouches for the pointer: see there.
            Kernel::WideLine8 => unsafe { wide::$name::<8>($($argument),*) },
            // SAFETY: as above.
            Kernel::WideLine4 => unsafe { wide::$name::<4>($($argument),*) },
            // SAFETY: as above.
            Kernel::SimdLine8 => unsafe { simd::$name::<8>($($argument),*) },
            // SAFETY: as above.
            Kernel::SimdLine4 => unsafe { simd::$name::<4>($($argument),*) },
            Kernel::PortableLine => $line,
            Kernel::Drawn | Kernel::Counting | Kernel::WideCounting => $drawn,
            Kernel::Sealed => unreachable!("a sealed filter has no cells"),
        }
    };
}
