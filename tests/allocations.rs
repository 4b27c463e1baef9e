//! Look-ups and adds allocate nothing.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(missing_docs, reason = "tests")]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use bloomfile::{Options, ReadOptions, geometry::Layout};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator does the work; counting takes none of it away.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn look_ups_and_adds_allocate_nothing() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0u8; 100]))), 1, "it counts");
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<[u8; 16]> = (0..1000u128).map(|i| (i * i).to_le_bytes()).collect();
    let long = vec![7; 5000];
    for layout in Layout::BLOOM {
        let path = folder.path().join(layout.name());
        let options = Options::new().capacity(10_000).false_positive_rate(0.01).layout(layout);
        let filter = options.create(&path).unwrap();
        // Checking a page for the first time allocates; look-ups after that do not.
        let reader = ReadOptions::new().verify(true).open(&path).unwrap();
        let mut found = Vec::with_capacity(keys.len());
        filter.add(b"the thread takes its stripe").unwrap();
        let count = allocations(|| {
            for key in &keys {
                assert!(!reader.contains(key) || filter.contains(key));
                filter.add(key).unwrap();
            }
            filter.add(&long).unwrap();
            filter.add_batch(&keys).unwrap();
            filter.contains_batch(&keys, &mut found);
            reader.contains_batch(&keys, &mut found);
            assert!(reader.contains(&long) && found.iter().all(|&found| found));
        });
        assert_eq!(count, 0, "{layout}");
    }
    let path = folder.path().join("sealed");
    let mut builder =
        Options::new().sealed(true).false_positive_rate(0.01).start_build(&path).unwrap();
    builder.add_batch(&keys);
    builder.finish().unwrap();
    let reader = ReadOptions::new().verify(true).open(&path).unwrap();
    let mut found = Vec::with_capacity(keys.len());
    let count = allocations(|| {
        assert!(keys.iter().all(|key| reader.contains(key)) && !reader.contains(&long));
        reader.contains_batch(&keys, &mut found);
        assert!(found.iter().all(|&found| found));
    });
    assert_eq!(count, 0, "sealed");
}
