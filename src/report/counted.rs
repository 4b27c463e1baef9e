//! How full a filter is, page by page counted, and what that says.

use crate::geometry::{Geometry, Layout, MAX_ROWS, PAGE_BYTES};
use crate::plan::{self, Estimate};

/// The ones of each row of the `rows` layout, or of all rows together for the others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    /// Cells that are set.
    pub(crate) ones: Vec<u64>,
    /// Cells in pages that are all ones, as repairs leave them: they tell nothing of the keys.
    full: Vec<u64>,
}

impl Counted {
    /// Nothing counted yet.
    pub(crate) fn new(geometry: &Geometry, cell_bits: u32) -> Self {
        let rows = (geometry.pages(cell_bits) / geometry.row_pages(cell_bits)) as usize;
        Counted { ones: vec![0; rows], full: vec![0; rows] }
    }

    /// Takes in a page with so many ones.
    pub(crate) fn add(&mut self, geometry: &Geometry, cell_bits: u32, page: u64, ones: u32) {
        let row_pages = geometry.row_pages(cell_bits);
        let (row, ones) = ((page / row_pages) as usize, u64::from(ones));
        self.ones[row] += ones;
        // Asked for a page alone, how many cells it has takes several divisions, and opening a file
        // counts all of its pages. But for the last of a row, a page lacks fewer cells than there
        // can be rows.
        let most = 8 * PAGE_BYTES / u64::from(cell_bits);
        let last = (page + 1).is_multiple_of(row_pages);
        if (last || ones + u64::from(MAX_ROWS) > most)
            && ones == geometry.page_cells(page, cell_bits)
        {
            self.full[row] += ones;
        }
    }

    /// Takes in what was counted elsewhere.
    pub(crate) fn add_all(&mut self, other: &Counted) {
        for (mine, others) in [(&mut self.ones, &other.ones), (&mut self.full, &other.full)] {
            mine.iter_mut().zip(others).for_each(|(mine, other)| *mine += other);
        }
    }

    /// The ones there would be if the full pages were as full as the others: what the number of
    /// keys is estimated from.
    pub(crate) fn sound_ones(&self, geometry: &Geometry) -> Vec<u64> {
        let cells = geometry.cells() / self.ones.len() as u64;
        let extrapolate = |(&ones, &full): (&u64, &u64)| match cells.saturating_sub(full) {
            0 => ones,
            sound => ((ones - full) as f64 * cells as f64 / sound as f64) as u64,
        };
        self.ones.iter().zip(&self.full).map(extrapolate).collect()
    }

    /// The estimated number of keys.
    pub(crate) fn keys(&self, geometry: &Geometry) -> Estimate {
        plan::estimate_keys(geometry, &self.sound_ones(geometry))
    }

    /// The false positive rate now: whatever falls into a full block is "maybe".
    pub(crate) fn rate_now(&self, geometry: &Geometry) -> f64 {
        match geometry.layout() {
            Layout::Rows | Layout::Flat => plan::rate_at_fill(geometry, &self.ones),
            Layout::Page | Layout::Line => {
                let full = self.full[0] as f64 / geometry.cells() as f64;
                full + (1.0 - full) * plan::rate_at_fill(geometry, &self.sound_ones(geometry))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn full_pages_are_those_with_all_their_cells() {
        for rows in 1..=MAX_ROWS {
            let mut geometries = vec![
                Geometry::rows(rows, 70_000 + 13 * u64::from(rows)).unwrap(),
                Geometry::flat(rows, 100_000 + 7 * u64::from(rows)).unwrap(),
                Geometry::page(rows, 3).unwrap(),
            ];
            if rows.is_power_of_two() {
                geometries.push(Geometry::line(rows, 150).unwrap());
            }
            for (geometry, cell_bits) in
                geometries.iter().flat_map(|geometry| [(geometry, 1), (geometry, 4)])
            {
                let (mut all, mut less) =
                    (Counted::new(geometry, cell_bits), Counted::new(geometry, cell_bits));
                for page in 0..geometry.pages(cell_bits) {
                    let cells = geometry.page_cells(page, cell_bits) as u32;
                    all.add(geometry, cell_bits, page, cells);
                    less.add(geometry, cell_bits, page, cells - 1);
                }
                assert_eq!(all.full, all.ones, "{geometry}, {cell_bits} bits");
                assert_eq!(all.ones.iter().sum::<u64>(), geometry.cells(), "{geometry}");
                assert!(less.full.iter().all(|&full| full == 0), "{geometry}, {cell_bits} bits");
            }
        }
    }
}
