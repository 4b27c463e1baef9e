//! How full the pages of a file are, in few figures.

use std::ops::ControlFlow;

use bloomfile::plan::LoadVerdict;
use bloomfile::report::{BlockLoads, PageInspection, SegmentInspection};

use crate::units;

/// The fill of neighbouring pages of one segment.
#[derive(Clone, Debug, Default)]
pub struct PageMap {
    /// Mean fill of each group of pages.
    pub fills: Vec<f64>,
    /// Pages in a group; the last one may have fewer.
    pub group: u64,
    /// All pages.
    pub pages: u64,
    /// In a sealed filter, twice the mean keys of a page: fills are shares of that.
    pub many_keys: Option<f64>,
    /// The page with the least fill, and that.
    pub emptiest: Option<(u64, f64)>,
    /// The page with the most.
    pub fullest: Option<(u64, f64)>,
}

/// A map of each segment, in at most `cells` groups, from the page tables alone; `visit` hands over
/// every page, as [`inspect_pages`](bloomfile::report::inspect_pages_bytes) does.
pub fn page_maps<E>(
    segments: &[SegmentInspection],
    cells: usize,
    visit: impl FnOnce(&mut dyn FnMut(PageInspection) -> ControlFlow<()>) -> Result<(), E>,
) -> Result<Vec<PageMap>, E> {
    let mut maps = PageMaps::new(segments, cells);
    visit(&mut |page| {
        maps.add(&page);
        ControlFlow::Continue(())
    })?;
    Ok(maps.finish())
}

/// Maps that are being made, where pages come a few at a time.
#[derive(Clone, Debug)]
pub struct PageMaps(Vec<PageMap>);

impl PageMaps {
    /// A map of each segment, in at most `cells` groups.
    pub fn new(segments: &[SegmentInspection], cells: usize) -> Self {
        let new = |segment: &SegmentInspection| {
            let group = segment.pages.div_ceil(cells as u64).max(1);
            let fills = vec![0.0; segment.pages.div_ceil(group) as usize];
            let many = segment.sealed.as_ref().map(|sealed| (2.0 * sealed.keys_per_page).max(1.0));
            PageMap { fills, group, many_keys: many, ..PageMap::default() }
        };
        PageMaps(segments.iter().map(new).collect())
    }

    /// Takes a page, each once.
    pub fn add(&mut self, page: &PageInspection) {
        // A writer may have appended a segment since.
        if let Some(map) = self.0.get_mut(page.segment) {
            map.add(page);
        }
    }

    /// The maps of all pages that were taken.
    pub fn finish(self) -> Vec<PageMap> {
        let mut maps = self.0;
        for map in &mut maps {
            let (pages, group) = (map.pages, map.group);
            for (at, fill) in map.fills.iter_mut().enumerate() {
                *fill /= group.min(pages.saturating_sub(at as u64 * group)).max(1) as f64;
            }
        }
        maps
    }
}

impl PageMap {
    fn add(&mut self, page: &PageInspection) {
        let fill = match self.many_keys {
            Some(many) => f64::from(page.ones) / many,
            None => page.fill(),
        };
        if let Some(sum) = self.fills.get_mut((page.page / self.group) as usize) {
            *sum += fill;
        }
        self.pages += 1;
        if self.emptiest.is_none_or(|(_, least)| fill < least) {
            self.emptiest = Some((page.page, fill));
        }
        if self.fullest.is_none_or(|(_, most)| fill > most) {
            self.fullest = Some((page.page, fill));
        }
    }

    /// A fill in words.
    pub fn tell(&self, fill: f64) -> String {
        match self.many_keys {
            Some(many) => units::counted((fill * many).round() as u64, "key"),
            None => units::percent(fill),
        }
    }

    /// What its cells show.
    pub fn shows(&self) -> &'static str {
        if self.many_keys.is_some() { "keys of a page" } else { "bits set" }
    }

    /// In words: how the pages differ.
    pub fn caption(&self) -> String {
        let each = match self.group {
            1 => "Each cell is a page".into(),
            group => format!("Each cell is {} pages", units::count(group)),
        };
        match (self.emptiest, self.fullest) {
            (Some((low_page, low)), Some((high_page, high))) if self.pages > 1 => format!(
                "{each}; emptiest {} (page {}), fullest {} (page {})",
                self.tell(low),
                units::count(low_page),
                self.tell(high),
                units::count(high_page)
            ),
            _ => each,
        }
    }
}

/// What the loads mean.
pub fn verdict(loads: &BlockLoads) -> &'static str {
    match loads.verdict {
        LoadVerdict::Empty if loads.blocks == 0 => {
            "too small: there is no whole block of 512 cells"
        }
        LoadVerdict::Empty => "no keys, so there is nothing to compare",
        LoadVerdict::TooFull => "too full to tell how many keys met in a block",
        LoadVerdict::AsExpected => "as chance would have it: the keys are spread well",
        LoadVerdict::Uneven => {
            "skewed: some blocks are far fuller than chance allows; the hashes are bad, or pages \
             were damaged or repaired"
        }
        LoadVerdict::Crowded => {
            "crowded: some blocks hold more keys than chance brings together; someone chose the \
             keys, or pages were repaired"
        }
        LoadVerdict::TooEven => {
            "skewed: the blocks are more alike than chance allows; the hashes follow a pattern"
        }
        _ => "",
    }
}
