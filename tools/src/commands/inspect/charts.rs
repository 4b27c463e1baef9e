//! Pictures for the terminal: bars, heat map, histogram.

use bloomfile::plan::LoadVerdict;
use bloomfile::{
    geometry::Layout,
    report::{BlockLoads, SegmentInspection},
};
use bloomfile_describe::pages::{page_maps, verdict};

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
    let maps = page_maps(segments, MAP_COLUMNS * MAP_LINES, |take| subject.pages(take));
    for map in maps? {
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
