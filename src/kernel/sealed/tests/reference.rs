//! The rules of format-spec.md once more, as they are written there: one key, one slot and one column
//! at a time. What the kernels do is held against this.

use crate::sealed::{PageBytes, fingerprint_of, row_of};

const WORDS: u64 = 1019;

/// F-142.
fn start(x: u64, m: i64, d: &[i8; 17]) -> usize {
    let j = (x >> 60) as usize;
    let a = j as i64 * (m - 2) + i64::from(d[j]);
    let length = 2 * (m - 2 + i64::from(d[j + 1]) - i64::from(d[j]));
    let p = 2 * a + ((((x << 4) >> 32) as i64 * length) >> 32);
    p.clamp(0, 32 * (m - 2) - 1) as usize
}

/// First word and number of columns of a block (F-141).
fn columns(m: u64, r: u64, block: u64) -> (usize, usize) {
    let wide = m * (r + 1) - WORDS;
    ((r * block + block.saturating_sub(wide)) as usize, (r + u64::from(block >= wide)) as usize)
}

/// F-144: the bends.
fn bends(xs: &[u64], m: i64) -> [i8; 17] {
    let (n, s) = (xs.len() as i64, 32 * (m - 2));
    let mut d = [0; 17];
    let mut before = -1_000_000;
    for (j, d) in d.iter_mut().enumerate() {
        let cum = xs.iter().filter(|&&x| (x >> 60) < j as u64).count() as i64;
        let half = (cum * (s + 48) / n - 24).div_euclid(2);
        let bend = (half.max(before + 1) - j as i64 * (m - 2)).clamp(-128, 127);
        *d = bend as i8;
        before = j as i64 * (m - 2) + bend;
    }
    d
}

/// F-145.
fn band(xs: &[u64], m: i64, d: &[i8; 17]) -> Option<(Vec<u64>, Vec<u32>)> {
    let mut coefficients = vec![0; 32 * m as usize];
    let mut results = vec![0; 32 * m as usize];
    for &x in xs {
        let (mut p, mut c, mut f) = (start(x, m, d), row_of(x), fingerprint_of(x));
        loop {
            if coefficients[p] == 0 {
                (coefficients[p], results[p]) = (c, f);
                break;
            }
            c ^= coefficients[p];
            f ^= results[p];
            if c == 0 {
                return None;
            }
            p += c.trailing_zeros() as usize;
            c >>= c.trailing_zeros();
        }
    }
    Some((coefficients, results))
}

/// F-144 to F-146.
pub(super) fn build(xs: &[u64]) -> PageBytes {
    let mut page = [0; 4096];
    let mut xs = xs.to_vec();
    xs.sort_unstable();
    xs.dedup();
    if xs.is_empty() {
        return page;
    }
    let mut m = (xs.len() as i64 + 4 + 31) / 32;
    m = m.max(32);
    let mut tries = 0;
    loop {
        if m > 1019 || tries == 128 {
            page[..2].fill(0xff);
            return page;
        }
        let d = bends(&xs, m);
        tries += 1;
        if let Some((coefficients, results)) = band(&xs, m, &d) {
            let r = WORDS / m as u64;
            page[..2].copy_from_slice(&(m as u16).to_le_bytes());
            page[2] = r as u8;
            for j in 0..17 {
                page[3 + j] = d[j] as u8;
            }
            let mut state = [0u64; 32];
            for block in (0..m as u64).rev() {
                let (word, count) = columns(m as u64, r, block);
                for i in (32 * block as usize..32 * block as usize + 32).rev() {
                    for (k, state) in state[..count].iter_mut().enumerate() {
                        let t = *state << 1;
                        let ones = (coefficients[i] & t).count_ones();
                        *state = t | u64::from((ones ^ (results[i] >> k)) & 1);
                    }
                }
                for (k, state) in state[..count].iter().enumerate() {
                    let at = 20 + 4 * (word + k);
                    page[at..at + 4].copy_from_slice(&(*state as u32).to_le_bytes());
                }
            }
            return page;
        }
        m += 1 + tries / 8;
    }
}

/// F-147.
pub(super) fn query(page: &PageBytes, x: u64) -> bool {
    let m = u64::from(u16::from_le_bytes([page[0], page[1]]));
    let r = u64::from(page[2]);
    let total = (m * (r + 1)) as i64;
    if !(32..=WORDS).contains(&m) || !(0..=m as i64).contains(&(total - WORDS as i64)) {
        return m != 0;
    }
    let d: [i8; 17] = std::array::from_fn(|j| page[3 + j] as i8);
    let s = start(x, m as i64, &d);
    let word = |at: usize| u32::from_le_bytes(page[20 + 4 * at..][..4].try_into().unwrap());
    let block = s as u64 / 32;
    let row = u128::from(row_of(x)) << (s % 32);
    let (_, count) = columns(m, r, block);
    (0..count).all(|k| {
        let mut v = 0;
        for i in 0..3 {
            let (first, _) = columns(m, r, block + i);
            v ^= word(first + k) & (row >> (32 * i)) as u32;
        }
        (v.count_ones() ^ (x >> k) as u32) & 1 == 0
    })
}
