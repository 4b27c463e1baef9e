//! How full a filter is, page by page counted, and what that says.

use super::{Estimate, estimate_keys, most_ones, rate_at_fill};
use crate::geometry::{Geometry, Layout, MAX_ROWS};
use crate::sealed::{MAYBE_PAGE_CRC, rate_of_keys};

/// The ones of each row of the `rows` layout, or of all rows together for the others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Occupancy {
    /// Cells that are set; in a sealed filter, its keys.
    pub(crate) ones: Vec<u64>,
    /// Cells in pages that are all ones, as repairs leave them: they tell nothing of the keys.
    full: Vec<u64>,
    /// The pages of a sealed filter.
    pub(crate) sealed: Option<SealedPages>,
}

/// The pages of a sealed filter by their number of keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SealedPages {
    /// How many pages that tell keys apart have each number of keys.
    pub(crate) by_keys: Vec<u64>,
    /// Pages that answer "maybe" for every key.
    pub(crate) maybe: u64,
    /// The page that answers "maybe" most often, or the first of them, and its keys.
    pub(crate) worst: Option<(u64, u32)>,
}

impl SealedPages {
    fn add(&mut self, page: u64, keys: u32, crc: u32) {
        if crc == MAYBE_PAGE_CRC && keys != 0 {
            if self.maybe == 0 {
                self.worst = Some((page, keys));
            }
            self.maybe += 1;
            return;
        }
        if self.maybe == 0 && self.worst.is_none_or(|(_, most)| keys > most) {
            self.worst = Some((page, keys));
        }
        let keys = keys as usize;
        if keys >= self.by_keys.len() {
            self.by_keys.resize(keys + 1, 0);
        }
        self.by_keys[keys] += 1;
    }

    /// The rate of the worst page.
    pub(crate) fn worst_rate(&self) -> f64 {
        match self.worst {
            _ if self.maybe > 0 => 1.0,
            Some((_, keys)) => rate_of_keys(keys),
            None => 0.0,
        }
    }

    /// The mean of the pages' rates (F-148).
    fn rate(&self) -> f64 {
        let by_keys = self.by_keys.iter().zip(0..).filter(|(pages, _)| **pages != 0);
        let rates = by_keys.map(|(&pages, keys)| pages as f64 * rate_of_keys(keys)).sum::<f64>();
        let pages = self.by_keys.iter().sum::<u64>() + self.maybe;
        (rates + self.maybe as f64) / pages.max(1) as f64
    }
}

impl Occupancy {
    /// Nothing counted yet.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let rows = (geometry.pages() / geometry.row_pages()) as usize;
        let sealed = geometry.layout() == Layout::Sealed;
        Occupancy {
            ones: vec![0; rows],
            full: vec![0; rows],
            sealed: sealed.then(SealedPages::default),
        }
    }

    /// Takes in a page of any kind by what its table says of it.
    pub(crate) fn add_entry(&mut self, geometry: &Geometry, page: u64, ones: u32, crc: u32) {
        match &mut self.sealed {
            None => self.add(geometry, page, ones),
            Some(sealed) => {
                sealed.add(page, ones, crc);
                self.ones[0] = self.ones[0].saturating_add(ones.into());
            }
        }
    }

    /// Counts a page with `ones` ones.
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
        if self.sealed.is_some() {
            return self.ones.clone();
        }
        let cells = geometry.cells() / self.ones.len() as u64;
        let extrapolate = |(&ones, &full): (&u64, &u64)| match cells.saturating_sub(full) {
            0 => ones,
            sound => ((ones - full) as f64 * cells as f64 / sound as f64) as u64,
        };
        self.ones.iter().zip(&self.full).map(extrapolate).collect()
    }

    /// Cells that may still be turned on before the ones stand for more keys than `adds`. Pages that
    /// are full do not count if they may be `repaired`.
    pub(crate) fn room(&self, geometry: &Geometry, adds: u64, repaired: bool) -> i64 {
        let [ones, full] = [&self.ones, &self.full].map(|counts| counts.iter().sum::<u64>());
        let full = if repaired { full } else { 0 };
        let cells = geometry.cells();
        let telling = cells.saturating_sub(full) as f64 / cells as f64;
        (most_ones(geometry, adds) * telling).ceil() as i64 - (ones - full) as i64
    }

    /// The estimated number of keys.
    pub(crate) fn keys(&self, geometry: &Geometry) -> Estimate {
        estimate_keys(geometry, &self.sound_ones(geometry))
    }

    /// The false positive rate now: whatever falls into a full block is "maybe".
    pub(crate) fn rate_now(&self, geometry: &Geometry) -> f64 {
        if let Some(sealed) = &self.sealed {
            return sealed.rate();
        }
        match geometry.layout() {
            Layout::Rows | Layout::Flat | Layout::Sealed => rate_at_fill(geometry, &self.ones),
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
