//! How full a filter is, page by page counted, and what that says.

use super::{Estimate, estimate_keys, rate_at_fill};
use crate::geometry::{Geometry, Layout, MAX_ROWS};

/// The ones of each row of the `rows` layout, or of all rows together for the others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Occupancy {
    /// Cells that are set.
    pub(crate) ones: Vec<u64>,
    /// Cells in pages that are all ones, as repairs leave them: they tell nothing of the keys.
    full: Vec<u64>,
}

impl Occupancy {
    /// Nothing counted yet.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let rows = (geometry.pages() / geometry.row_pages()) as usize;
        Occupancy { ones: vec![0; rows], full: vec![0; rows] }
    }

    /// Takes in a page with so many ones.
    pub(crate) fn add(&mut self, geometry: &Geometry, page: u64, ones: u32) {
        let row_pages = geometry.row_pages();
        let (row, ones) = ((page / row_pages) as usize, u64::from(ones));
        self.ones[row] += ones;
        // Asked for a page alone, how many cells it has takes several divisions, and opening a file
        // counts all of its pages. But for the last of a row, a page lacks fewer cells than there
        // can be rows.
        let most = geometry.cells_per_page();
        let last = (page + 1).is_multiple_of(row_pages);
        if (last || ones + u64::from(MAX_ROWS) > most) && ones == geometry.page_cells(page) {
            self.full[row] += ones;
        }
    }

    /// Takes in what was counted elsewhere.
    pub(crate) fn add_all(&mut self, other: &Occupancy) {
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
        estimate_keys(geometry, &self.sound_ones(geometry))
    }

    /// The false positive rate now: whatever falls into a full block is "maybe".
    pub(crate) fn rate_now(&self, geometry: &Geometry) -> f64 {
        match geometry.layout() {
            Layout::Rows | Layout::Flat => rate_at_fill(geometry, &self.ones),
            Layout::Page | Layout::Line => {
                let full = self.full[0] as f64 / geometry.cells() as f64;
                full + (1.0 - full) * rate_at_fill(geometry, &self.sound_ones(geometry))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::geometry::CellKind;

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
            let kinds = [CellKind::Plain, CellKind::Counting];
            let geometries = geometries
                .into_iter()
                .flat_map(|geometry| kinds.map(|kind| geometry.with_cells(kind)));
            for geometry in geometries {
                let geometry = &geometry;
                let (mut all, mut less) = (Occupancy::new(geometry), Occupancy::new(geometry));
                for page in 0..geometry.pages() {
                    let cells = geometry.page_cells(page) as u32;
                    all.add(geometry, page, cells);
                    less.add(geometry, page, cells - 1);
                }
                assert_eq!(all.full, all.ones, "{geometry:?}");
                assert_eq!(all.ones.iter().sum::<u64>(), geometry.cells(), "{geometry}");
                assert!(less.full.iter().all(|&full| full == 0), "{geometry:?}");
            }
        }
    }
}
