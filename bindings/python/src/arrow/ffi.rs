//! The structures of the Arrow C data interface, as its specification has them.

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub(crate) struct ArrowSchema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut ArrowSchema,
    pub(crate) dictionary: *mut ArrowSchema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(crate) private_data: *mut c_void,
}

#[repr(C)]
pub(crate) struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    pub(crate) dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(crate) private_data: *mut c_void,
}

#[repr(C)]
pub(crate) struct ArrowArrayStream {
    pub(crate) get_schema:
        Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub(crate) get_next:
        Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub(crate) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(crate) private_data: *mut c_void,
}

macro_rules! owned {
    ($name:ident { $($field:ident: $none:expr),* $(,)? }) => {
        impl $name {
            /// One that owns nothing.
            pub(crate) fn empty() -> Self {
                $name { $($field: $none),* }
            }

            /// Takes what a structure owns out of it, and leaves it released.
            ///
            /// # Safety
            /// `from` points to an initialised structure that no other thread uses.
            pub(crate) unsafe fn take(from: *mut Self) -> Self {
                // SAFETY: the caller says that it is there and ours; what replaces it owns nothing,
                // so that it is released once.
                unsafe { std::ptr::replace(from, Self::empty()) }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the producer's own function, called once: it sets itself to null.
                    unsafe { release(self) };
                }
            }
        }

        // SAFETY: the interface lets a consumer use and release a structure on any thread, one at a
        // time.
        unsafe impl Send for $name {}
    };
}

use std::ptr::{null, null_mut};

owned!(ArrowSchema {
    format: null(),
    name: null(),
    metadata: null(),
    flags: 0,
    n_children: 0,
    children: null_mut(),
    dictionary: null_mut(),
    release: None,
    private_data: null_mut(),
});
owned!(ArrowArray {
    length: 0,
    null_count: 0,
    offset: 0,
    n_buffers: 0,
    n_children: 0,
    buffers: null_mut(),
    children: null_mut(),
    dictionary: null_mut(),
    release: None,
    private_data: null_mut(),
});
owned!(ArrowArrayStream {
    get_schema: None,
    get_next: None,
    get_last_error: None,
    release: None,
    private_data: null_mut(),
});
