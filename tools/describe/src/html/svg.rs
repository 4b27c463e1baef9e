//! The charts, drawn with text and shapes alone.

use std::fmt::Write as _;

use bloomfile::plan::false_positive_rate;
use bloomfile::report::{BlockLoads, SegmentInspection};

use super::elements::table;
use crate::pages::PageMap;
use crate::units;

/// Size of a chart, and the frame its axes stand in.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 104.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 52.0;

/// Points of a curve.
const STEPS: u32 = 96;

/// The lowest rate that is drawn: below it no test can tell.
const LOWEST: f64 = 1e-12;

fn chart(height: f64, label: &str, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">\
         <title>{label}</title>\n{body}</svg>"
    )
}

/// One square for each group of pages.
pub(super) fn heat_map(map: &PageMap, damaged: &[u64]) -> String {
    let cells = map.fills.len().max(1);
    // Square cells, as large as a wide chart allows.
    let columns = ((cells as f64 * 2.2).sqrt().ceil() as usize).clamp(1, 48);
    let lines = cells.div_ceil(columns);
    let side = (WIDTH / columns as f64).min(48.0);
    let mut body = String::new();
    for (at, &fill) in map.fills.iter().enumerate() {
        let (column, line) = (at % columns, at / columns);
        let first = at as u64 * map.group;
        let end = (first + map.group).min(map.pages.max(1));
        let broken = damaged.iter().any(|&page| (first..end).contains(&page));
        let level = (fill.clamp(0.0, 1.0) * 8.0).ceil() as usize;
        let class = if broken { "broken".into() } else { format!("h{level}") };
        let pages = match end - first {
            1 => format!("page {first}"),
            _ => format!("pages {first} to {}", end - 1),
        };
        let note = if broken { ", damaged" } else { "" };
        let _ = writeln!(
            body,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             rx=\"1\"><title>{pages}: {}{note}</title></rect>",
            column as f64 * side + 0.5,
            line as f64 * side + 0.5,
            side - 1.0,
            side - 1.0,
            map.tell(fill)
        );
    }
    let legend = lines as f64 * side + 12.0;
    for level in 0..=8 {
        let _ = writeln!(
            body,
            "<rect class=\"h{level}\" x=\"{}\" y=\"{legend:.1}\" width=\"24\" height=\"16\"/>",
            120 + level * 24
        );
    }
    let words = legend + 15.0;
    let _ = writeln!(body, "<text x=\"112\" y=\"{words:.1}\" text-anchor=\"end\">empty</text>");
    let _ = writeln!(body, "<text x=\"344\" y=\"{words:.1}\">full</text>");
    chart(legend + 28.0, &format!("Heat map of the fill of {} pages", map.pages), &body)
}

/// The rates that a segment has with more and more keys.
fn rates(segment: &SegmentInspection) -> Vec<(f64, f64)> {
    let keys = segment.keys.value;
    let most = match segment.capacity {
        Some(capacity) => (2.0 * capacity as f64).max(1.2 * keys),
        // A filter without a purpose: until it is of little use.
        None => (2.0 * keys).max(segment.cells as f64 / 4.0),
    };
    let most = most.max(1.0);
    let step = |at: u32| {
        let keys = (most * f64::from(at) / f64::from(STEPS)).round().max(1.0);
        (keys, false_positive_rate(&segment.geometry, keys as u64))
    };
    (1..=STEPS).map(step).collect()
}

/// Rate as a function of n, with where the filter is.
pub(super) fn rate_curve(segment: &SegmentInspection) -> String {
    let points = rates(segment);
    let most = points.last().map_or(1.0, |&(keys, _)| keys);
    let interest = segment.rate_at_capacity.unwrap_or(0.01).min(segment.rate_now.max(LOWEST));
    let lowest = interest.max(LOWEST).log10().floor().min(-2.0) - 1.0;
    let x = |keys: f64| LEFT + (keys / most).min(1.0) * (RIGHT - LEFT);
    let y = |rate: f64| {
        let share = (rate.max(LOWEST).log10() / lowest).clamp(0.0, 1.0);
        TOP + share * (BOTTOM - TOP)
    };
    let mut body = String::new();
    let decades = -lowest as i32;
    for decade in (0..=decades).step_by((decades as usize).div_ceil(5).max(1)) {
        let (at, text) = (y(10f64.powi(-decade)), units::percent(10f64.powi(-decade)));
        let text = if decade > 6 { format!("1e-{decade}") } else { text };
        let _ = writeln!(body, "<path class=\"axis\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
        let (x, y) = (LEFT - 8.0, at + 5.0);
        let _ = writeln!(body, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
    }
    for share in [0.0, 0.5, 1.0] {
        let anchor = if share == 1.0 { "end" } else { "middle" };
        let (at, keys) = (x(share * most), units::short(share * most));
        let low = BOTTOM + 26.0;
        let _ = writeln!(
            body,
            "<text x=\"{at:.1}\" y=\"{low}\" text-anchor=\"{anchor}\">{keys}</text>"
        );
    }
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">keys</text>",
        LEFT + 0.25 * (RIGHT - LEFT),
        BOTTOM + 26.0
    );
    if let Some(capacity) = segment.capacity {
        let at = x(capacity as f64);
        let _ = writeln!(body, "<path class=\"guide\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>");
        let _ = writeln!(
            body,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">capacity</text>",
            TOP - 10.0
        );
    }
    let mut path = String::new();
    for &(keys, rate) in points.iter().filter(|(_, rate)| rate.log10() >= lowest) {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x(keys), y(rate));
    }
    let _ = writeln!(body, "<path class=\"curve\" d=\"{path}\"/>");
    let (here_x, here_y) = (x(segment.keys.value), y(segment.rate_now));
    let now = units::percent(segment.rate_now);
    let _ = writeln!(
        body,
        "<circle class=\"here\" cx=\"{here_x:.1}\" cy=\"{here_y:.1}\" r=\"8\"><title>now: {now}\
         </title></circle>"
    );
    // Where the words do not leave the frame nor cross the curve, which rises to the right.
    let right = here_x < 0.6 * WIDTH;
    let (anchor, shift) = if right { ("start", 14.0) } else { ("end", -14.0) };
    let below = if right { 24.0 } else { -12.0 };
    let text_y = (here_y + below).clamp(TOP + 14.0, BOTTOM - 8.0);
    let _ = writeln!(
        body,
        "<text class=\"ink\" x=\"{:.1}\" y=\"{text_y:.1}\" text-anchor=\"{anchor}\">you are here\
         </text>",
        here_x + shift
    );
    let label = format!("False positive rate by number of keys; now {now}");
    chart(HEIGHT, &label, &body)
}

pub(super) fn rate_table(segment: &SegmentInspection) -> String {
    let rows = rates(segment)
        .into_iter()
        .step_by(8)
        .map(|(keys, rate)| [units::count(keys as u64), units::percent(rate)]);
    table(["keys", "rate"], rows)
}

/// Blocks by their load, with the law on top.
pub(super) fn histogram(loads: &BlockLoads) -> String {
    let bins = &loads.bins;
    let highest = |bin: &bloomfile::report::LoadBin| (bin.observed as f64).max(bin.expected);
    let most = bins.iter().map(highest).fold(1.0, f64::max);
    let width = (RIGHT - LEFT) / bins.len().max(1) as f64;
    let y = |blocks: f64| BOTTOM - blocks / most * (BOTTOM - TOP);
    let mut body = String::new();
    for share in [0.0, 0.5, 1.0] {
        let at = y(share * most);
        let _ = writeln!(body, "<path class=\"axis\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
        let (x, y, text) = (LEFT - 8.0, at + 5.0, units::short(share * most));
        let _ = writeln!(body, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
    }
    let mut law = String::new();
    for (at, bin) in bins.iter().enumerate() {
        let x = LEFT + at as f64 * width;
        let top = y(bin.observed as f64);
        let _ = writeln!(
            body,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{} to {} keys: {} blocks, by the law {:.0}</title></rect>",
            x + 1.0,
            (width - 2.0).max(1.0),
            BOTTOM - top,
            bin.first,
            bin.last,
            bin.observed,
            bin.expected
        );
        let (command, middle) = (if at == 0 { 'M' } else { 'L' }, x + 0.5 * width);
        let _ = write!(law, "{command}{middle:.1} {:.1}", y(bin.expected));
        let _ = writeln!(
            body,
            "<circle class=\"lawdot\" cx=\"{middle:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
            y(bin.expected)
        );
    }
    let _ = writeln!(body, "<path class=\"law\" d=\"{law}\"/>");
    for (bin, x, anchor) in [
        (bins.first(), LEFT, "start"),
        (bins.get(bins.len() / 2), LEFT + 0.5 * (RIGHT - LEFT), "middle"),
        (bins.last(), RIGHT, "end"),
    ] {
        let Some(bin) = bin.filter(|_| bins.len() > 2 || anchor == "middle") else { continue };
        let unit = if anchor == "middle" { " keys in a block" } else { "" };
        let (y, first) = (BOTTOM + 26.0, units::count(bin.first));
        let _ = writeln!(
            body,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{first}{unit}</text>"
        );
    }
    let _ = writeln!(body, "<rect class=\"bar\" x=\"{LEFT}\" y=\"6\" width=\"18\" height=\"14\"/>");
    let _ = writeln!(body, "<text x=\"{}\" y=\"19\">blocks</text>", LEFT + 26.0);
    let _ = writeln!(body, "<path class=\"law\" d=\"M{} 13h28\"/>", LEFT + 150.0);
    let _ = writeln!(body, "<text x=\"{}\" y=\"19\">Poisson law</text>", LEFT + 186.0);
    chart(HEIGHT, "Histogram of keys per block, with the Poisson law", &body)
}

/// A bar for each name, as long as its share.
pub(super) fn bars(rows: &[(String, f64)], label: &str) -> String {
    const STEP: f64 = 34.0;
    let (left, right) = (112.0, WIDTH - 108.0);
    let mut body = String::new();
    for (at, (name, fill)) in rows.iter().enumerate() {
        let y = 6.0 + at as f64 * STEP;
        let (track, full) = (right - left, (right - left) * fill.clamp(0.0, 1.0));
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
             <rect class=\"track\" x=\"{left}\" y=\"{y:.1}\" width=\"{track}\" height=\"22\" rx=\"3\"/>\
             <rect class=\"bar\" x=\"{left}\" y=\"{y:.1}\" width=\"{full:.1}\" height=\"22\" rx=\"3\"/>\
             <text x=\"{}\" y=\"{:.1}\">{}</text>",
            left - 8.0,
            y + 18.0,
            right + 8.0,
            y + 18.0,
            units::percent(*fill)
        );
    }
    chart(12.0 + rows.len() as f64 * STEP, label, &body)
}
