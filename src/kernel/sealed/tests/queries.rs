//! Look-ups: all kernels agree, also on pages that no build makes, and none reads outside its page.

use memmap2::MmapMut;

use super::{in_map, reference, values};
use crate::geometry::PAGE_BYTES;
use crate::hash::split_mix;
use crate::kernel::sealed::Kernel;
use crate::kernel::sealed::Query;
use crate::sealed::*;

/// A multiple of the system's page size, whatever that is.
const SPAN: usize = 1 << 16;

/// Two pages, between memory that no one may read: one begins where some ends, the other ends
/// where some begins. Where the system is not asked to guard them (Windows), kernels are compared all
/// the same.
struct Guarded {
    map: MmapMut,
}

impl Guarded {
    fn new() -> Self {
        let mut map = MmapMut::map_anon(3 * SPAN).unwrap();
        for guard in [0, 2] {
            Self::guard(map.as_mut_ptr().wrapping_add(guard * SPAN));
        }
        Guarded { map }
    }

    #[cfg(unix)]
    fn guard(start: *mut u8) {
        use rustix::mm::{MprotectFlags, mprotect};
        // SAFETY: a part of the map, of which no reference is ever made.
        unsafe { mprotect(start.cast(), SPAN, MprotectFlags::empty()).unwrap() };
    }

    #[cfg(not(unix))]
    fn guard(_: *mut u8) {}

    fn offsets() -> [usize; 2] {
        [SPAN, 2 * SPAN - PAGE_BYTES as usize]
    }

    fn put(&mut self, page: &PageBytes) {
        for offset in Self::offsets() {
            self.map[offset..][..page.len()].copy_from_slice(page);
        }
    }

    fn pages(&self) -> [&PageInMap; 2] {
        Self::offsets().map(|offset| {
            // SAFETY: a page of the map that may be read, aligned, and not changed while it is looked
            // at.
            unsafe { &*self.map.as_ptr().add(offset).cast() }
        })
    }
}

/// Pages with headers that a build would not write, from sound ones that lie about one thing to
/// noise.
fn hostile_page(number: u64) -> PageBytes {
    let random = |at| split_mix(split_mix(0x5ea1, number), at);
    let mut page = [0; PAGE_BYTES as usize];
    for (at, bytes) in page.chunks_exact_mut(8).enumerate() {
        // Mostly ones or mostly zeros, so that columns are often right.
        let word = match number / 5 % 4 {
            0 => random(at as u64),
            1 => 0,
            2 => random(at as u64) & random(at as u64 + 1000) & random(at as u64 + 2000),
            _ => random(at as u64) & 0x0101_0101_0101_0101,
        };
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let blocks = match number % 5 {
        0 => random(5000) as u16,
        1 => [0, 1, 31, 32, 33, 1018, 1019, 1020, 0x7fff, 0xffff][random(5000) as usize % 10],
        _ => 32 + (random(5000) % 988) as u16,
    };
    let columns = match number % 5 {
        0 | 1 => random(5001) as u8,
        2 => (1019 / u32::from(blocks)) as u8,
        3 => (1019u32.div_ceil(blocks.into())) as u8,
        _ => (1019 / u32::from(blocks)).wrapping_add(random(5001) as u32 % 3).wrapping_sub(1) as u8,
    };
    page[..2].copy_from_slice(&blocks.to_le_bytes());
    page[2] = columns;
    for at in 0..17 {
        page[3 + at] = match number % 3 {
            0 => random(6000 + at as u64) as u8,
            1 => [0x80, 0x7f, 0, 0xff][random(6000 + at as u64) as usize % 4],
            _ => 0,
        };
    }
    page
}

/// Values at the ends of parts and page, and random ones.
fn asked(number: u64) -> impl Iterator<Item = u64> {
    let ends = (0..16).flat_map(|part| [part << 60, (part << 60 | 0x0fff_ffff_ffff_ffff)]);
    let ends: Vec<u64> = ends.collect();
    let end =
        move |at: u64| ends[(number + at) as usize % ends.len()] ^ split_mix(number, at) & 0xff;
    (0..6).map(end).chain(values(10, number))
}

#[test]
fn f147_hostile_pages_are_read_alike_and_nothing_else_is() {
    let mut guarded = Guarded::new();
    let pages = 60_000;
    let mut positive = 0;
    for number in 0..pages {
        let page = hostile_page(number);
        guarded.put(&page);
        for value in asked(number) {
            let expected = reference::query(&page, value);
            positive += u64::from(expected);
            for kernel in Kernel::found() {
                for page in guarded.pages() {
                    let found = kernel.contains(page, value);
                    assert_eq!(found, expected, "page {number}, {value:#x}, {kernel:?}");
                }
            }
        }
        // A batch reads in another order, and asks for memory before that.
        for kernel in Kernel::found() {
            for page in guarded.pages() {
                let page = std::slice::from_ref(page);
                let query = Query::with_kernel(1, number % 40_000, kernel);
                let hashes: Vec<u64> = values(3, number);
                let mut found = [false; 3];
                query.contains_batch(page, |at| hashes[at], &mut found);
                for (&hash, found) in hashes.iter().zip(found) {
                    assert_eq!(query.contains(page, hash), found, "page {number}, {kernel:?}");
                }
            }
        }
    }
    let kernels: Vec<Kernel> = Kernel::found().collect();
    println!("{kernels:?}: {positive} of {} answers were \"maybe\"", 16 * pages);
    // Every processor of this kind has NEON.
    assert!(kernels.len() > 1 || !cfg!(all(target_arch = "aarch64", target_endian = "little")));
    // The test would be worth little if nothing but "no" or "maybe" came out.
    assert!((pages..15 * pages).contains(&positive));
}

#[test]
fn f147_kernels_agree_on_sound_pages_with_any_number_of_columns() {
    let mut guarded = Guarded::new();
    for blocks in (32..1000).step_by(3) {
        let number = 32 * blocks * 97 / 100 - 40;
        let page = reference::build(&values(number, blocks));
        guarded.put(&page);
        for value in values(300, blocks).into_iter().chain(values(700, blocks + 1_000_000)) {
            let expected = reference::query(&page, value);
            for kernel in Kernel::found() {
                let [page, other] = guarded.pages();
                assert_eq!(kernel.contains(page, value), expected, "{blocks} {kernel:?}");
                assert_eq!(kernel.contains(other, value), expected, "{blocks} {kernel:?}");
            }
        }
    }
}

/// A key whose one column is wrong is absent, whichever it is.
#[test]
fn f147_every_column_counts() {
    for number in [40, 2000, 4826, 9000] {
        let values = values(number, 31);
        let page = reference::build(&values);
        let map = in_map(&page);
        for &value in values.iter().step_by(7) {
            let mut refused = 0;
            for kernel in Kernel::found() {
                assert!(kernel.contains(&map, value));
                // Another fingerprint and so another row, but the same start: most are absent.
                refused += (0..28).filter(|bit| !kernel.contains(&map, value ^ 1 << bit)).count();
            }
            assert!(refused > 0);
            for column in 0..32 {
                let found = reference::query(&page, value ^ 1 << column);
                for kernel in Kernel::found() {
                    assert_eq!(kernel.contains(&map, value ^ 1 << column), found);
                }
            }
        }
    }
}

#[test]
fn batches_of_every_length_answer_every_key() {
    let pages: Vec<PageInMap> = (0..5)
        .map(|page| {
            let hashes = values(20_000, 1).into_iter();
            let of_page = hashes.filter(|&hash| page_of(hash, 5) == page).map(value_of);
            *in_map(&reference::build(&of_page.collect::<Vec<_>>()))
        })
        .collect();
    let hashes = values(20_000, 1);
    let absent = values(20_000, 2);
    for kernel in Kernel::found() {
        let query = Query::with_kernel(5, 20_000, kernel);
        for length in 0..100 {
            let hash = |at: usize| if at.is_multiple_of(3) { absent[at] } else { hashes[at] };
            let mut found = vec![false; length];
            query.contains_batch(&pages, hash, &mut found);
            for (at, found) in found.into_iter().enumerate() {
                assert_eq!(found, query.contains(&pages, hash(at)), "{at} of {length}, {kernel:?}");
                assert!(found || at.is_multiple_of(3));
            }
        }
        let mut found = vec![false; absent.len()];
        query.contains_batch(&pages, |at| absent[at], &mut found);
        let positive = found.into_iter().filter(|&found| found).count();
        assert!((1..200).contains(&positive), "{positive} of 20,000 absent keys");
    }
}

#[test]
fn the_environment_chooses_among_the_kernels() {
    let all: Vec<_> = Kernel::found().collect();
    assert_eq!(all[0], Kernel::Portable);
    let chosen = Kernel::choose();
    match std::env::var("BLOOMFILE_KERNEL").as_deref() {
        Ok("portable") => assert_eq!(chosen, Kernel::Portable),
        Ok("simd") => assert!(chosen != Kernel::Wide),
        _ => assert_eq!(Some(&chosen), all.last()),
    }
    // Every processor of these has them.
    assert!(all.len() > 1 || !cfg!(all(target_arch = "aarch64", target_endian = "little")));
}
