//! One chunk of a column: its keys, or their hashes.

use std::ffi::CStr;
use std::ops::Range;

use pyo3::prelude::*;

use super::ffi::{ArrowArray, ArrowSchema};
use super::unsupported;
use crate::keys::{Encoding, Rules, needs_encoding};

/// What the values of a column are.
#[derive(Clone)]
pub(crate) struct ColumnType {
    kind: Kind,
    /// The column is the only one of a table.
    in_struct: bool,
    /// Values are indices into this.
    dictionary: Option<Box<ColumnType>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Text or binary, with offsets of 32 bits.
    Small,
    /// The same with offsets of 64 bits.
    Large,
    /// The same as views.
    Views,
    /// Binary of this length.
    Fixed(usize),
    /// Whole numbers of this number of bytes.
    Integer { bytes: usize, signed: bool },
    /// Nothing but nulls.
    Null,
}

impl ColumnType {
    pub(super) fn of_schema(schema: &ArrowSchema) -> PyResult<Self> {
        // SAFETY: a schema that is not released has a format, which ends in a zero.
        let format = unsafe { CStr::from_ptr(schema.format) }.to_string_lossy();
        if format == "+s" {
            if schema.n_children != 1 {
                let message =
                    format!("keys are one column, and this has {}: select one", schema.n_children);
                return Err(pyo3::exceptions::PyTypeError::new_err(message));
            }
            // SAFETY: there is one child, which lives as long as its parent.
            let child = unsafe { &**schema.children };
            let child = Self::of_schema(child)?;
            if child.in_struct {
                return Err(unsupported("+s"));
            }
            return Ok(ColumnType { in_struct: true, ..child });
        }
        let integer = |bytes, signed| Kind::Integer { bytes, signed };
        let kind = match &*format {
            "u" | "z" => Kind::Small,
            "U" | "Z" => Kind::Large,
            "vu" | "vz" => Kind::Views,
            "c" => integer(1, true),
            "C" => integer(1, false),
            "s" => integer(2, true),
            "S" => integer(2, false),
            "i" => integer(4, true),
            "I" => integer(4, false),
            "l" => integer(8, true),
            "L" => integer(8, false),
            "n" => Kind::Null,
            other => match other.strip_prefix("w:").and_then(|width| width.parse().ok()) {
                Some(width) => Kind::Fixed(width),
                None => return Err(unsupported(other)),
            },
        };
        let dictionary = if schema.dictionary.is_null() {
            None
        } else {
            // SAFETY: it lives as long as the schema.
            Some(Box::new(Self::of_schema(unsafe { &*schema.dictionary })?))
        };
        Ok(ColumnType { kind, in_struct: false, dictionary })
    }

    /// A chunk of this type.
    pub(super) fn column(&self, array: ArrowArray) -> PyResult<Column> {
        let (length, offset) = (array.length, array.offset);
        let mut values: *const ArrowArray = &array;
        let mut first = 0;
        if self.in_struct {
            if array.null_count != 0 && !buffer(&array, 0).is_null() {
                return Err(pyo3::exceptions::PyTypeError::new_err("rows of the table are null"));
            }
            // SAFETY: the schema says that there is one child; it lives as long as its parent.
            values = unsafe { *array.children };
            first = offset;
        }
        // SAFETY: as above; what it points to does not move when the parent does, and of the parent
        // itself all that is needed is read here.
        let view = unsafe { View::of(self, &*values, first, length)? };
        Ok(Column { view, _owner: array })
    }
}

/// A chunk.
pub(crate) struct Column {
    view: View,
    /// What the view points into.
    _owner: ArrowArray,
}

/// Where the values of an array are.
struct View {
    kind: Kind,
    /// Number of the first value in the buffers.
    first: usize,
    length: usize,
    validity: *const u8,
    /// Offsets, views or values.
    values: *const u8,
    /// The bytes behind offsets.
    data: *const u8,
    /// The buffers behind views.
    pieces: Vec<*const u8>,
    dictionary: Option<Box<View>>,
}

// SAFETY: the buffers of an array are not changed as long as it is not released, and it can be read
// on any thread.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}
// SAFETY: as above; the owner is only dropped.
unsafe impl Sync for Column {}

fn buffer(array: &ArrowArray, at: usize) -> *const u8 {
    if array.buffers.is_null() || at as i64 >= array.n_buffers {
        return std::ptr::null();
    }
    // SAFETY: there are `n_buffers` of them.
    unsafe { *array.buffers.add(at) }.cast()
}

impl View {
    /// # Safety
    /// The array is of this type, and lives as long as the view.
    unsafe fn of(
        column: &ColumnType,
        array: &ArrowArray,
        first: i64,
        length: i64,
    ) -> PyResult<Self> {
        let validity = if array.null_count == 0 { std::ptr::null() } else { buffer(array, 0) };
        let (mut data, mut pieces) = (std::ptr::null(), Vec::new());
        match column.kind {
            Kind::Small | Kind::Large => data = buffer(array, 2),
            Kind::Views => {
                // Behind the views come their buffers, and last the lengths of these.
                let count = (array.n_buffers - 3).max(0) as usize;
                pieces = (0..count).map(|at| buffer(array, 2 + at)).collect();
            }
            _ => {}
        }
        let dictionary = match &column.dictionary {
            Some(values) if !array.dictionary.is_null() => {
                // SAFETY: the dictionary lives as long as the array.
                let array = unsafe { &*array.dictionary };
                // SAFETY: as said by the caller.
                Some(Box::new(unsafe { View::of(values, array, 0, array.length)? }))
            }
            Some(_) => return Err(unsupported("a dictionary that is missing")),
            None => None,
        };
        Ok(View {
            kind: column.kind,
            first: (first + array.offset) as usize,
            length: length as usize,
            validity,
            values: buffer(array, 1),
            data,
            pieces,
            dictionary,
        })
    }

    fn is_valid(&self, at: usize) -> bool {
        if self.kind == Kind::Null {
            return false;
        }
        let at = self.first + at;
        // SAFETY: the bitmap has a bit for each value.
        self.validity.is_null() || unsafe { *self.validity.add(at / 8) } >> (at % 8) & 1 == 1
    }

    fn may_have_nulls(&self) -> bool {
        self.kind == Kind::Null || !self.validity.is_null()
    }

    /// The value at a place of the buffer of values.
    ///
    /// # Safety
    /// The buffer is of such values, and has this many.
    unsafe fn read<T: Copy>(&self, at: usize) -> T {
        // SAFETY: the caller's; buffers need not be aligned.
        unsafe { self.values.cast::<T>().add(at).read_unaligned() }
    }

    /// The bytes of a value of text or binary.
    fn bytes(&self, at: usize) -> &[u8] {
        let at = self.first + at;
        let (start, length, data) = match self.kind {
            // SAFETY: there is one offset more than there are values.
            Kind::Small => unsafe {
                let (start, end): (i32, i32) = (self.read(at), self.read(at + 1));
                (start as isize, i64::from(end) - i64::from(start), self.data)
            },
            // SAFETY: as above.
            Kind::Large => unsafe {
                let (start, end): (i64, i64) = (self.read(at), self.read(at + 1));
                (start as isize, end - start, self.data)
            },
            Kind::Views => {
                // SAFETY: a view is 16 bytes: a length, and the bytes or where they are.
                let [length, _, piece, offset]: [i32; 4] = unsafe { self.read(at) };
                if length <= 12 {
                    (at as isize * 16 + 4, i64::from(length), self.values)
                } else {
                    let piece = self.pieces.get(piece as usize).copied();
                    (offset as isize, i64::from(length), piece.unwrap_or(std::ptr::null()))
                }
            }
            Kind::Fixed(width) => ((at * width) as isize, width as i64, self.values),
            Kind::Integer { .. } | Kind::Null => return &[],
        };
        if length <= 0 || data.is_null() {
            return &[];
        }
        // SAFETY: the producer says that these bytes are there, and does not change them.
        unsafe { std::slice::from_raw_parts(data.offset(start), length as usize) }
    }

    fn integer(&self, at: usize, bytes: usize, signed: bool) -> i128 {
        let at = self.first + at;
        // SAFETY: the buffer has a number of this type for each value.
        unsafe {
            match (bytes, signed) {
                (1, true) => self.read::<i8>(at).into(),
                (1, false) => self.read::<u8>(at).into(),
                (2, true) => self.read::<i16>(at).into(),
                (2, false) => self.read::<u16>(at).into(),
                (4, true) => self.read::<i32>(at).into(),
                (4, false) => self.read::<u32>(at).into(),
                (_, true) => self.read::<i64>(at).into(),
                (_, false) => self.read::<u64>(at).into(),
            }
        }
    }

    /// Puts the hashes of these values behind those that are there.
    fn hash(&self, rules: &Rules, range: Range<usize>, hashes: &mut Vec<u64>) {
        let hasher = rules.hasher;
        if let Some(dictionary) = &self.dictionary {
            let mut known = Vec::with_capacity(dictionary.length);
            dictionary.hash(rules, 0..dictionary.length, &mut known);
            let Kind::Integer { bytes, signed } = self.kind else { return };
            hashes.extend(range.map(|at| {
                let index = usize::try_from(self.integer(at, bytes, signed)).ok();
                index.and_then(|index| known.get(index)).copied().unwrap_or(0)
            }));
            return;
        }
        match (self.kind, rules.encoding) {
            (Kind::Integer { bytes: 8, .. }, Some(Encoding::Le64)) => {
                // SAFETY: the buffer has 8 bytes for each value.
                let value = |at: usize| unsafe { self.read::<u64>(self.first + at) };
                hashes.extend(range.map(|at| hasher.hash(value(at).to_le_bytes())));
            }
            (Kind::Integer { bytes, signed }, Some(encoding)) => {
                hashes.extend(range.map(|at| {
                    encoding.hash(&hasher, self.integer(at, bytes, signed)).unwrap_or(0)
                }));
            }
            _ => hashes.extend(range.map(|at| hasher.hash(self.bytes(at)))),
        }
    }

    /// Whether a value is there: none is where the dictionary holds a null either.
    fn is_key(&self, at: usize) -> bool {
        let Some(dictionary) = self.dictionary.as_ref().filter(|values| values.may_have_nulls())
        else {
            return self.is_valid(at);
        };
        let Kind::Integer { bytes, signed } = self.kind else { return false };
        let index = |at| usize::try_from(self.integer(at, bytes, signed)).ok();
        self.is_valid(at) && index(at).is_some_and(|index| dictionary.is_valid(index))
    }

    /// Refuses values that are no keys under these rules.
    fn check(&self, rules: &Rules) -> PyResult<()> {
        match (&self.dictionary, self.kind) {
            (Some(dictionary), _) => dictionary.check(rules),
            (None, Kind::Integer { .. }) if rules.encoding.is_none() => {
                Err(needs_encoding("whole numbers"))
            }
            (None, Kind::Small | Kind::Large | Kind::Views) => rules.check_text(),
            _ => Ok(()),
        }
    }
}

impl Column {
    pub(crate) fn len(&self) -> usize {
        self.view.length
    }

    /// Values that are hashed at once: all of a dictionary's, whose own are hashed each time.
    pub(crate) fn batch(&self, most: usize) -> usize {
        if self.view.dictionary.is_some() { self.len().max(1) } else { most }
    }

    /// Which values are there; none if all are.
    pub(crate) fn valid(&self, range: Range<usize>) -> Option<Vec<bool>> {
        let view = &self.view;
        let inner = view.dictionary.as_ref().is_some_and(|values| values.may_have_nulls());
        if !view.may_have_nulls() && !inner {
            return None;
        }
        let valid: Vec<bool> = range.map(|at| view.is_key(at)).collect();
        valid.contains(&false).then_some(valid)
    }

    /// Refuses values that are no keys under these rules.
    pub(crate) fn check(&self, rules: &Rules) -> PyResult<()> {
        self.view.check(rules)
    }

    /// Puts the hashes of these values behind those that are there; that of a null means nothing.
    pub(crate) fn hash(&self, rules: &Rules, range: Range<usize>, hashes: &mut Vec<u64>) {
        self.view.hash(rules, range, hashes);
    }

    /// The numbers themselves, if they are of 64 bits: hashes that were computed before.
    pub(crate) fn words(&self, range: Range<usize>, words: &mut Vec<u64>) -> bool {
        let view = &self.view;
        if !matches!(view.kind, Kind::Integer { bytes: 8, .. }) || view.dictionary.is_some() {
            return false;
        }
        // SAFETY: the buffer has 8 bytes for each value.
        words.extend(range.map(|at| unsafe { view.read::<u64>(view.first + at) }));
        true
    }
}
