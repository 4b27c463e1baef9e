//! `inspect --html`: one page for a browser, with everything in it and nothing from elsewhere.

mod svg;

use std::fmt::Write as _;
use std::path::Path;

use bloomfile::{
    CellKind,
    report::{BlockLoads, Health, Inspection, SegmentInspection, Verification},
};

use super::charts::{self, PageMap};
use crate::commands::InspectArgs;
use crate::failure::{Failure, Result, explain};
use crate::pending::Target;
use crate::{output, text, units};

/// Cells of a heat map at most.
const MAP_CELLS: usize = 1024;

const STYLE: &str = include_str!("page.css");

/// Everything the page shows.
struct Report {
    file: String,
    inspection: Inspection,
    maps: Vec<PageMap>,
    loads: Vec<BlockLoads>,
    /// What checking every page gave, or why that could not be.
    verification: std::result::Result<Verification, String>,
    advice: String,
}

pub(super) fn run(args: &InspectArgs, target: &Path) -> Result<()> {
    let pending = match target.as_os_str().as_encoded_bytes() {
        b"-" => None,
        _ => Some(Target::new(target, Some(&args.file), args.force)?),
    };
    let failed = Failure::file(&args.file);
    let inspection = bloomfile::report::inspect(&args.file).map_err(&failed)?;
    let file = text::path(&args.file).to_string();
    let report = Report {
        maps: charts::page_maps(&args.file, &inspection.segments, MAP_CELLS)?,
        loads: bloomfile::report::block_loads(&args.file).map_err(&failed)?,
        verification: bloomfile::report::verify(&args.file).map_err(|error| explain(&error)),
        advice: super::advice(&args.file, &inspection),
        inspection,
        file,
    };
    let page = report.page();
    let Some(pending) = pending else { return output::print(page) };
    pending.write(page.as_bytes())?;
    let (target, size) = (text::path(target), units::size(page.len() as u64));
    output::line(format_args!("{target}: written, {size}; open it in a browser"))
}

impl Report {
    fn page(&self) -> String {
        let title = escape(&self.file);
        let segments: String =
            (0..self.inspection.segments.len()).map(|index| self.segment(index)).collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>{title} – bloomfile</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p class=\"soft\">A {kind} (bloomfile format {version}), \
             {size}</p>\n</header>\n{advice}{cards}<div class=\"flow\">\n{segments}{checks}\
             {parameters}{metadata}</div>\n\
             <footer>Made by <code>bloomfile inspect --html</code>, version {tool}. Nothing on this \
             page comes from elsewhere.</footer>\n</main>\n</body>\n</html>\n",
            kind = escape(&super::kind(&self.inspection)),
            version = self.inspection.format_version,
            size = units::size(self.inspection.file_bytes),
            advice = self.advice(),
            cards = self.cards(),
            checks = self.checks(),
            parameters = self.parameters(),
            metadata = self.metadata(),
            tool = env!("CARGO_PKG_VERSION"),
        )
    }

    fn advice(&self) -> String {
        let nothing = self.advice.starts_with("none");
        let (class, text) = match (self.is_sound(), nothing) {
            (false, _) => ("bad", "restore the file from a copy, or build it again".to_owned()),
            (true, true) => ("good", "nothing to do".to_owned()),
            (true, false) => ("warn", self.advice.clone()),
        };
        format!(
            "<section class=\"note {class}\" aria-label=\"Advice\"><b>Advice:</b> {}</section>\n",
            escape(&text)
        )
    }

    fn is_sound(&self) -> bool {
        self.verification.as_ref().is_ok_and(|found| found.pages_damaged.is_empty())
    }

    fn cards(&self) -> String {
        let inspection = &self.inspection;
        let segments = &inspection.segments;
        let keys = inspection.keys().value;
        let rate = inspection.rate_now();
        let (cells, ones) = segments
            .iter()
            .fold((0, 0), |(cells, ones), segment| (cells + segment.cells, ones + segment.ones));
        let share = super::newest_share(inspection).map(units::percent);
        let capacity = match (share, inspection.capacity, segments.len() as u64) {
            (Some(share), Some(capacity), 1) => format!("{share} of {}", units::count(capacity)),
            (Some(share), _, parts) => {
                let parts = units::counted(parts, "segment");
                format!("in {parts}, the newest {share} full")
            }
            _ => "made for no number in particular".into(),
        };
        let full = inspection.rate_at_capacity();
        let full_parts = super::full_parts(inspection);
        let cards = [
            ("Keys, about", units::count(keys.round() as u64), capacity),
            (
                "Bits set",
                units::percent(ones as f64 / cells.max(1) as f64),
                format!("{} of {}", units::count(ones), units::count(cells)),
            ),
            ("False positives now", units::percent(rate), tries(rate)),
            (
                "False positives at capacity",
                full.map_or_else(|| "–".into(), units::percent),
                match (full, full_parts) {
                    (None, _) => "no capacity was named".into(),
                    (Some(rate), None) => tries(rate),
                    (Some(rate), Some(parts)) => format!("{}, {parts}", tries(rate)),
                },
            ),
        ];
        let mut html = String::from("<dl class=\"cards\">\n");
        for (term, value, more) in cards {
            let _ = writeln!(
                html,
                "<div class=\"card\"><dt>{term}</dt><dd>{}</dd><dd>{}</dd></div>",
                escape(&value),
                escape(&more)
            );
        }
        html + "</dl>\n"
    }

    /// The charts of one segment.
    fn segment(&self, index: usize) -> String {
        let segment = &self.inspection.segments[index];
        let name = match self.inspection.segments.len() {
            1 => String::new(),
            _ => format!(" of segment {index}"),
        };
        let mut html = String::new();
        if let Some(map) = self.maps.get(index) {
            // Verification numbers the pages of all segments in one go.
            let first: u64 =
                self.inspection.segments[..index].iter().map(|other| other.pages).sum();
            let here = first..first + segment.pages;
            let damaged = self.verification.iter().flat_map(|found| &found.pages_damaged);
            let damaged: Vec<u64> =
                damaged.filter(|page| here.contains(page)).map(|page| page - first).collect();
            html += &figure(
                &format!("Page fill{name}"),
                &svg::heat_map(map, &damaged),
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
                    escape(charts::verdict(loads))
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
                &svg::bars(&bars),
                "Share of the bits that are set; a filter is at its best at about a half.",
                &table(["row", "bits set"], rows),
            );
        }
        html
    }

    fn checks(&self) -> String {
        let inspection = &self.inspection;
        let mut rows = vec![
            ["Superblock, slot, page tables".into(), "checksums are right".into()],
            ["Health".into(), escape(inspection.health.meaning())],
        ];
        let (class, pages) = match &self.verification {
            Err(reason) => ("bad", escape(reason)),
            Ok(found) if !found.pages_damaged.is_empty() => {
                let all = units::count(found.pages);
                let damaged = found.pages_damaged.len() as u64;
                let first = found.pages_damaged.first().copied().unwrap_or_default();
                let (damaged, first) = (units::count(damaged), units::count(first));
                ("bad", format!("{damaged} of {all} are not as written, the first is page {first}"))
            }
            Ok(found) if !found.pages_busy.is_empty() => (
                "warn",
                format!("{} were being written", units::count(found.pages_busy.len() as u64)),
            ),
            Ok(found) if !found.pages_unverifiable.is_empty() => {
                let (all, some) = (found.pages, found.pages_unverifiable.len() as u64);
                (
                    "warn",
                    format!("{} of {} are not verifiable", units::count(some), units::count(all)),
                )
            }
            Ok(found) => ("good", format!("all {} are as written", units::count(found.pages))),
        };
        rows.push(["Data pages".into(), pages]);
        let records = match inspection.kind {
            CellKind::Counting => "Changes in the journal, to be replayed",
            _ => "Adds in the journal, to be replayed",
        };
        for (count, what) in [
            (inspection.journal_records, records),
            (inspection.recoveries, "Recoveries"),
            (inspection.unverifiable_pages, "Pages not verifiable, kept by recoveries"),
            (inspection.repaired_pages, "Pages repaired: all ones"),
        ] {
            if count > 0 || (what == "Recoveries" && inspection.health != Health::Clean) {
                rows.push([what.into(), units::count(count)]);
            }
        }
        section("Checksums", &format!("note {class}"), &facts(rows))
    }

    fn parameters(&self) -> String {
        let inspection = &self.inspection;
        let mut rows = vec![
            ["Made for".into(), escape(&super::purpose(inspection))],
            ["When full".into(), super::policy(inspection)],
        ];
        for segment in &inspection.segments {
            rows.push(["Layout".into(), escape(&segment.geometry.to_string())]);
            rows.push(["Adds that changed it".into(), units::count(segment.adds)]);
        }
        let data: u64 = inspection.segments.iter().map(|segment| segment.data_bytes).sum();
        rows.extend([
            ["Data".into(), units::size(data)],
            ["Journal".into(), units::size(inspection.journal_bytes)],
            ["Hash".into(), format!("{}, seed {}", inspection.hash, inspection.seed)],
            ["Identity".into(), escape(&inspection.uuid)],
            ["Mark".into(), units::count(inspection.mark)],
            ["Slot, epoch".into(), format!("{}, {}", inspection.sequence, inspection.epoch)],
        ]);
        section("Parameters", "", &facts(rows))
    }

    fn metadata(&self) -> String {
        let pairs = &self.inspection.metadata;
        let body = match pairs.is_empty() {
            true => "<p class=\"soft\">None was given.</p>".into(),
            false => facts(pairs.iter().map(|(key, value)| [escape(key), escape(value)])),
        };
        section("Metadata", "", &body)
    }
}

fn tries(rate: f64) -> String {
    match units::rate(rate).split_once(" (") {
        Some((_, tries)) => tries.trim_end_matches(')').to_owned(),
        None => "of absent keys".into(),
    }
}

fn rate_caption(segment: &SegmentInspection) -> String {
    let now = units::percent(segment.rate_now);
    let keys = units::count(segment.keys.value.round() as u64);
    match segment.capacity.zip(segment.rate_at_capacity) {
        Some((capacity, rate)) => format!(
            "Now {now} with about {keys} keys; {} at the {} it is for.",
            units::percent(rate),
            units::count(capacity)
        ),
        None => format!("Now {now} with about {keys} keys."),
    }
}

fn map_table(map: &PageMap) -> String {
    let rows = map.fills.iter().enumerate().map(|(at, fill)| {
        let first = at as u64 * map.group;
        let last = (first + map.group).min(map.pages.max(1)) - 1;
        let pages = match first == last {
            true => units::count(first),
            false => format!("{}–{}", units::count(first), units::count(last)),
        };
        [pages, units::percent(*fill)]
    });
    table(["pages", "bits set"], rows)
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

/// A chart with its words and its figures.
fn figure(title: &str, chart: &str, caption: &str, figures: &str) -> String {
    let body = format!(
        "<figure>{chart}<figcaption>{caption}</figcaption></figure>\n\
         <details><summary>Figures</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{title}: figures\">{figures}</div></details>"
    );
    section(title, "", &body)
}

fn section(title: &str, class: &str, body: &str) -> String {
    format!(
        "<section class=\"{class}\" aria-label=\"{title}\"><h2>{title}</h2>\n{body}\n</section>\n"
    )
}

/// A table of names and what they say; both are HTML already.
fn facts(rows: impl IntoIterator<Item = [String; 2]>) -> String {
    let rows: String = rows
        .into_iter()
        .map(|[name, value]| format!("<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>\n"))
        .collect();
    format!("<table>{rows}</table>")
}

/// A table of figures.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let head = head.map(|name| format!("<th scope=\"col\" class=\"number\">{name}</th>")).concat();
    let rows: String = rows
        .into_iter()
        .map(|row| {
            let cells = row.map(|cell| format!("<td class=\"number\">{cell}</td>")).concat();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!("<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
}

/// Text that a browser shows as it is.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Would turn the text around it, or is no character of a page at all.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(escaped, "{}", character.escape_unicode());
            }
            control if control.is_control() => {
                let _ = write!(escaped, "{}", control.escape_debug());
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(
            escape("<script>alert(\"1\" + '&')</script>\u{202e}\u{1b}"),
            "&lt;script&gt;alert(&quot;1&quot; + &#39;&amp;&#39;)&lt;/script&gt;\\u{202e}\\u{1b}"
        );
    }
}
