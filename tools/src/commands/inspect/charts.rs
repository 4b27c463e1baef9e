//! Pictures for the terminal: bars, heat map, histogram.

use std::ops::ControlFlow;

use bloomfile::plan::LoadVerdict;
use bloomfile::{
    geometry::Layout,
    report::{BlockLoads, PageInspection, SegmentInspection},
};

use super::subject::Subject;
use crate::failure::Result;
use crate::output::{self, Listing};
use crate::units;

/// Cells of a heat map: this many in a line, and this many lines at most.
const MAP_COLUMNS: usize = 60;
const MAP_LINES: usize = 4;

/// Rows that stand below each other before a further column is begun.
const BARS_IN_COLUMN: usize = 8;

/// Width of the widest bar.
const BAR_WIDTH: usize = 40;

/// Height of a cell, by eighths.
const BLOCKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Parts of a column, by eighths.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The fill of neighbouring pages of one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageMap {
    /// Mean fill of each group of pages.
    pub(crate) fills: Vec<f64>,
    /// Pages in a group; the last one may have fewer.
    pub(crate) group: u64,
    pub(crate) pages: u64,
    /// In a sealed filter, twice the mean keys of a page: fills are shares of that.
    pub(crate) many_keys: Option<f64>,
    pub(crate) emptiest: Option<(u64, f64)>,
    pub(crate) fullest: Option<(u64, f64)>,
}

/// A map of each segment, in at most `cells` groups, from the page tables alone.
pub(crate) fn page_maps(
    subject: &Subject<'_>,
    segments: &[SegmentInspection],
    cells: usize,
) -> Result<Vec<PageMap>> {
    let new = |segment: &SegmentInspection| {
        let group = segment.pages.div_ceil(cells as u64).max(1);
        let fills = vec![0.0; segment.pages.div_ceil(group) as usize];
        let many = segment.sealed.as_ref().map(|sealed| (2.0 * sealed.keys_per_page).max(1.0));
        PageMap { fills, group, many_keys: many, ..PageMap::default() }
    };
    let mut maps: Vec<PageMap> = segments.iter().map(new).collect();
    subject.pages(&mut |page| {
        // A writer may have appended a segment since.
        if let Some(map) = maps.get_mut(page.segment) {
            map.add(&page);
        }
        ControlFlow::Continue(())
    })?;
    for map in &mut maps {
        let (pages, group) = (map.pages, map.group);
        for (at, fill) in map.fills.iter_mut().enumerate() {
            *fill /= group.min(pages.saturating_sub(at as u64 * group)).max(1) as f64;
        }
    }
    Ok(maps)
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
    pub(crate) fn tell(&self, fill: f64) -> String {
        match self.many_keys {
            Some(many) => units::counted((fill * many).round() as u64, "key"),
            None => units::percent(fill),
        }
    }

    /// What its cells show.
    pub(crate) fn shows(&self) -> &'static str {
        if self.many_keys.is_some() { "keys of a page" } else { "bits set" }
    }

    /// In words: how the pages differ.
    pub(crate) fn caption(&self) -> String {
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

/// Bars for what has a fill of its own, and the heat map of the pages.
pub(crate) fn fills(
    listing: &mut Listing,
    subject: &Subject<'_>,
    segments: &[SegmentInspection],
) -> Result<()> {
    let [segment] = segments else {
        for (index, segment) in segments.iter().enumerate() {
            listing.row(&format!("segment {index}"), segment_bar(segment));
        }
        return Ok(());
    };
    if segment.sealed.is_none() {
        listing.row("fill", bars(segment));
    }
    let colour = output::colour();
    for map in page_maps(subject, segments, MAP_COLUMNS * MAP_LINES)? {
        if map.pages < 2 {
            continue;
        }
        let lines: Vec<String> = map
            .fills
            .chunks(MAP_COLUMNS)
            .map(|line| line.iter().map(|&fill| cell(fill, colour)).collect())
            .collect();
        listing.row("pages", format!("{}\n{}", lines.join("\n"), map.caption()));
    }
    Ok(())
}

/// One of several segments on a line.
fn segment_bar(segment: &SegmentInspection) -> String {
    let keys = units::count(segment.keys.value.round() as u64);
    let of = segment.capacity.map(|capacity| format!(" of {}", units::count(capacity)));
    format!(
        "{} {:<7} about {keys}{} keys, rate {}",
        bar(segment.fill, BAR_WIDTH / 2),
        units::percent(segment.fill),
        of.unwrap_or_default(),
        units::percent(segment.rate_now)
    )
}

/// One bar, or one for each row of the `rows` layout.
fn bars(segment: &SegmentInspection) -> String {
    let rows = segment.row_ones.len();
    if segment.geometry.layout() != Layout::Rows || rows < 2 {
        return format!("{} {}", bar(segment.fill, BAR_WIDTH), units::percent(segment.fill));
    }
    let columns = rows.div_ceil(BARS_IN_COLUMN);
    let width = BAR_WIDTH / (2 * columns);
    let cells = segment.geometry.row_cells() as f64;
    let lines = rows.div_ceil(columns);
    let one = |row: usize| {
        let fill = segment.row_ones[row] as f64 / cells;
        format!("{row:>2} {} {:<6}", bar(fill, width), units::percent(fill))
    };
    let line = |line: usize| {
        let rows = (line..rows).step_by(lines).map(one);
        rows.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    (0..lines).map(line).collect::<Vec<_>>().join("\n")
}

/// A bar whose full width is 1.
fn bar(share: f64, width: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * width as f64).round() as usize;
    let solid = "█".repeat(eighths / 8) + PARTS[eighths % 8];
    let empty = width - solid.chars().count();
    format!("{solid}{}", "·".repeat(empty))
}

/// A cell of the heat map: its height is the fill, and so is its colour on a terminal.
fn cell(fill: f64, colour: bool) -> String {
    let level = (fill.clamp(0.0, 1.0) * 8.0).ceil() as usize;
    let block = BLOCKS[level];
    // From blue over green and yellow to red, in the 256 colours that every terminal has.
    const RAMP: [u8; 9] = [240, 27, 33, 38, 41, 76, 220, 208, 196];
    if colour { format!("\x1b[38;5;{}m{block}\x1b[0m", RAMP[level]) } else { block.to_string() }
}

/// The histogram of block loads beside the law.
pub(crate) fn loads(listing: &mut Listing, loads: &BlockLoads) {
    if loads.verdict == LoadVerdict::Empty {
        return listing.row("block loads", verdict(loads));
    }
    let most =
        loads.bins.iter().map(|bin| (bin.observed as f64).max(bin.expected)).fold(1.0, f64::max);
    let mut lines = vec![format!(
        "{} with {} keys on average,\nspread {:.2} times as far as Poisson's law (│) says:",
        units::counted(loads.blocks, "block"),
        units::decimal(loads.mean),
        loads.dispersion
    )];
    for bin in &loads.bins {
        let range = match bin.last - bin.first {
            0 => units::count(bin.first),
            _ => format!("{}–{}", units::count(bin.first), units::count(bin.last)),
        };
        let mut line: Vec<char> = bar(bin.observed as f64 / most, BAR_WIDTH).chars().collect();
        let law = (bin.expected / most * BAR_WIDTH as f64).round() as usize;
        if let Some(mark) = line.get_mut(law.min(BAR_WIDTH - 1)) {
            *mark = '│';
        }
        let line: String = line.into_iter().collect();
        let (found, law) = (units::count(bin.observed), units::count(bin.expected.round() as u64));
        lines.push(format!("{range:>11} {line} {found} (law: {law})"));
    }
    lines.push(verdict(loads).into());
    listing.row("block loads", lines.join("\n"));
}

/// What the loads mean.
pub(crate) fn verdict(loads: &BlockLoads) -> &'static str {
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
