//! The charts of the segments, and of all of them together.

use bloomfile::report::{BlockLoads, SegmentInspection};

use super::elements::{escape, figure, section, table};
use super::{Report, svg};
use crate::pages::{PageMap, verdict};
use crate::{units, words};

impl Report {
    /// All charts. Those of several segments are folded away behind one of the whole.
    pub(super) fn segments(&self) -> String {
        let segments = self.inspection.segments.len();
        if segments == 1 {
            return self.charts(0);
        }
        let folded: String = (0..segments).map(|index| self.folded(index)).collect();
        self.whole() + &folded
    }

    /// What one segment is called.
    fn name(&self, index: usize) -> String {
        let newest = self.inspection.segments.len() - 1;
        let age = match index {
            0 => ", the oldest",
            _ if index == newest => ", the newest",
            _ => "",
        };
        format!("segment {index}{age}")
    }

    /// How full all segments are, and what that comes to.
    fn whole(&self) -> String {
        let inspection = &self.inspection;
        let segments = &inspection.segments;
        let shares = segments.iter().enumerate().map(|(index, segment)| {
            let share = match segment.capacity {
                Some(capacity) => segment.keys.value / capacity as f64,
                None => segment.fill,
            };
            (format!("segment {index}"), share)
        });
        let shares: Vec<(String, f64)> = shares.collect();
        let rows = segments.iter().enumerate().map(|(index, segment)| {
            [
                self.name(index),
                units::count(segment.keys.value.round() as u64),
                segment.capacity.map_or_else(|| "–".into(), units::count),
                units::percent(segment.fill),
                units::percent(segment.rate_now),
            ]
        });
        let what = if inspection.capacity.is_some() {
            "Keys in each segment, as a share of those it is for"
        } else {
            "Share of the bits that are set in each segment"
        };
        let at_capacity = match (inspection.rate_at_capacity(), words::full_segments(inspection)) {
            (Some(rate), Some(full)) => format!("; {} with {full}", units::percent(rate)),
            _ => String::new(),
        };
        figure(
            "All segments together",
            &svg::bars(&shares, what),
            &format!(
                "{what}. Together about {}, at a rate of {}{at_capacity}.",
                units::counted(inspection.keys().value.round() as u64, "key"),
                units::percent(inspection.rate_now()),
            ),
            &table(["segment", "keys, about", "it is for", "bits set", "rate"], rows),
        )
    }

    /// The charts of one of several segments, folded away unless something is wrong with it.
    fn folded(&self, index: usize) -> String {
        let segment = &self.inspection.segments[index];
        let damaged = self.damaged(index).len() as u64;
        let (open, damage) = match damaged {
            0 => ("", String::new()),
            count => (" open", format!(", {} damaged", units::counted(count, "page"))),
        };
        let of = segment.capacity.map(|capacity| format!(" of {}", units::count(capacity)));
        let summary = format!(
            "about {}{} keys, rate {}{damage}",
            units::count(segment.keys.value.round() as u64),
            of.unwrap_or_default(),
            units::percent(segment.rate_now)
        );
        let body = format!(
            "<details class=\"folded\"{open}><summary>Charts: {summary}</summary>\n{}</details>",
            self.charts(index)
        );
        let name = self.name(index);
        let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        section(&title, "", &body)
    }

    /// The damaged pages of a segment, counted from its first.
    fn damaged(&self, index: usize) -> Vec<u64> {
        let segments = &self.inspection.segments;
        // Verification numbers the pages of all segments in one go.
        let first: u64 = segments[..index].iter().map(|other| other.pages).sum();
        let here = first..first + segments[index].pages;
        let found = self.verification.iter().flatten();
        let damaged = found.flat_map(|found| &found.pages_damaged);
        damaged.filter(|page| here.contains(page)).map(|page| page - first).collect()
    }

    /// The charts of one segment.
    fn charts(&self, index: usize) -> String {
        let segment = &self.inspection.segments[index];
        let name = match self.inspection.segments.len() {
            1 => String::new(),
            _ => format!(" of segment {index}"),
        };
        let mut html = String::new();
        if let Some(map) = self.maps.get(index) {
            html += &figure(
                &match segment.sealed {
                    Some(_) => format!("Keys per page{name}"),
                    None => format!("Page fill{name}"),
                },
                &svg::heat_map(map, &self.damaged(index)),
                &format!("{}.", escape(&map.caption())),
                &map_table(map),
            );
        }
        html += &figure(
            &format!("False positive rate{name} by number of keys"),
            &svg::rate_curve(segment),
            &rate_caption(segment),
            &svg::rate_table(segment),
        );
        if let Some(loads) = self.loads.iter().find(|loads| loads.segment == index) {
            html += &figure(
                &format!("Keys per block{name}, against the Poisson law"),
                &svg::histogram(loads),
                &format!(
                    "{} with {} keys on average. The spread is {:.2} times that of the law: {}.",
                    units::counted(loads.blocks, "block"),
                    units::decimal(loads.mean),
                    loads.dispersion,
                    escape(verdict(loads))
                ),
                &loads_table(loads),
            );
        }
        if segment.row_ones.len() > 1 {
            let cells = segment.geometry.row_cells() as f64;
            let fill = |(row, &ones): (usize, &u64)| (format!("row {row}"), ones as f64 / cells);
            let bars: Vec<(String, f64)> = segment.row_ones.iter().enumerate().map(fill).collect();
            let rows = bars.iter().map(|(name, fill)| [name.clone(), units::percent(*fill)]);
            html += &figure(
                &format!("Fill of each row{name}"),
                &svg::bars(&bars, "Share of the bits that are set"),
                "Share of the bits that are set; a filter is at its best at about a half.",
                &table(["row", "bits set"], rows),
            );
        }
        html
    }
}

fn rate_caption(segment: &SegmentInspection) -> String {
    let now = units::percent(segment.rate_now);
    let keys = units::counted(segment.keys.value.round() as u64, "key");
    match segment.capacity.zip(segment.rate_at_capacity) {
        Some((capacity, rate)) => format!(
            "Now {now} with about {keys}; {} at the {} it is for.",
            units::percent(rate),
            units::count(capacity)
        ),
        None => format!("Now {now} with about {keys}."),
    }
}

fn map_table(map: &PageMap) -> String {
    let rows = map.fills.iter().enumerate().map(|(at, fill)| {
        let first = at as u64 * map.group;
        let last = (first + map.group).min(map.pages.max(1)) - 1;
        let pages = if first == last {
            units::count(first)
        } else {
            format!("{}–{}", units::count(first), units::count(last))
        };
        [pages, map.tell(*fill)]
    });
    table(["pages", map.shows()], rows)
}

fn loads_table(loads: &BlockLoads) -> String {
    let rows = loads.bins.iter().map(|bin| {
        [
            format!("{}–{}", units::count(bin.first), units::count(bin.last)),
            units::count(bin.observed),
            units::count(bin.expected.round() as u64),
        ]
    });
    table(["keys in a block", "blocks", "by the law"], rows)
}
