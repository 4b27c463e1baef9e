//! One page for a browser, with everything in it and nothing from elsewhere.

mod elements;
mod segments;
mod svg;

use std::fmt::Write as _;
use std::path::Path;

use bloomfile::{
    CellKind,
    report::{BlockLoads, Health, Inspection, SealedInspection, Verification},
};

use crate::advice::advice;
use crate::pages::PageMap;
#[cfg(feature = "files")]
use crate::text;
use crate::{units, words};
use elements::{escape, facts, section};

#[cfg(feature = "files")]
const STYLE: &str = include_str!("page.css");

/// What is known of a file, for a page of a browser.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the file is called.
    pub file: String,
    /// What it says of itself.
    pub inspection: Inspection,
    /// How full its pages are; none where that was not read.
    pub maps: Vec<PageMap>,
    /// How its keys are spread over the blocks; none where that was not counted.
    pub loads: Vec<BlockLoads>,
    /// What checking every page gave, or why that could not be; nothing before that.
    pub verification: Option<std::result::Result<Verification, String>>,
    /// The digest of its contents; none of a file that is damaged.
    pub digest: Option<String>,
}

/// The parts of a report, as HTML.
#[derive(Clone, Debug)]
pub struct Sections {
    /// What to do next, as one section.
    pub advice: String,
    /// The most important figures, as a list.
    pub cards: String,
    /// The charts, as sections.
    pub charts: String,
    /// What was checked, as one section.
    pub checks: String,
    /// What the file was made with, as one section.
    pub parameters: String,
    /// Its metadata, as one section.
    pub metadata: String,
}

/// Cells of the heat map of a report at most.
pub const MAP_CELLS: usize = 1024;

/// The report of a file as one page for a browser: what `bloomfile inspect --html` writes. Everything
/// is read and checked for it.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
/// let page = bloomfile_describe::html(&path)?;
/// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("False positives now"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn html(path: &Path) -> bloomfile::Result<String> {
    let inspection = bloomfile::report::inspect(path)?;
    let report = Report {
        loads: bloomfile::report::block_loads(path)?,
        maps: crate::pages::page_maps(&inspection.segments, MAP_CELLS, |take| {
            bloomfile::report::inspect_pages(path, take)
        })?,
        verification: Some(bloomfile::report::verify(path).map_err(|error| error.to_string())),
        digest: bloomfile::ops::digest(path).ok().map(|digest| digest.to_string()),
        inspection,
        file: text::path(path).to_string(),
    };
    Ok(report.page(&report.sections(path)))
}

impl Report {
    /// What is said of the file, which commands know by this path.
    pub fn sections(&self, path: &Path) -> Sections {
        Sections {
            advice: self.advice(path),
            cards: self.cards(),
            charts: self.segments(),
            checks: self.checks(),
            parameters: self.parameters(),
            metadata: self.metadata(),
        }
    }

    #[cfg(feature = "files")]
    fn page(&self, sections: &Sections) -> String {
        let Sections { advice, cards, charts, checks, parameters, metadata } = sections;
        let title = escape(&self.file);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>{title} – bloomfile</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p class=\"soft\">{what}</p>\n</header>\n\
             {advice}{cards}<div class=\"flow\">\n{charts}{checks}{parameters}{metadata}</div>\n\
             <footer>Made by <code>bloomfile inspect --html</code>, version {tool}. Nothing on this \
             page comes from elsewhere.</footer>\n</main>\n</body>\n</html>\n",
            what = escape(&self.what()),
            tool = env!("CARGO_PKG_VERSION"),
        )
    }

    /// In one line, what the file is.
    pub fn what(&self) -> String {
        let kind = words::kind(&self.inspection);
        let (version, size) =
            (self.inspection.format_version, units::size(self.inspection.file_bytes));
        format!("A {kind} (bloomfile format {version}), {size}")
    }

    fn advice(&self, path: &Path) -> String {
        let crowded = self.loads.iter().map(|loads| loads.crowded).sum();
        let advice = advice(path, &self.inspection, crowded);
        let nothing = advice.starts_with("none");
        let (class, text) = match (self.is_sound(), nothing) {
            (false, _) => ("bad", "restore the file from a copy, or build it again".to_owned()),
            (true, true) => ("good", "nothing to do".to_owned()),
            (true, false) => ("warn", advice),
        };
        format!(
            "<section class=\"note {class}\" aria-label=\"Advice\"><b>Advice:</b> {}</section>\n",
            escape(&text)
        )
    }

    fn is_sound(&self) -> bool {
        match &self.verification {
            Some(Ok(found)) => found.pages_damaged.is_empty(),
            Some(Err(_)) => false,
            None => true,
        }
    }

    fn cards(&self) -> String {
        let inspection = &self.inspection;
        let segments = &inspection.segments;
        let keys = inspection.keys().value;
        let rate = inspection.rate_now();
        let sealed = inspection.kind == CellKind::Sealed;
        let (cells, ones) = segments
            .iter()
            .fold((0, 0), |(cells, ones), segment| (cells + segment.cells, ones + segment.ones));
        let share = words::newest_share(inspection).map(units::percent);
        let capacity = match (share, inspection.capacity, segments.len() as u64) {
            (Some(share), Some(capacity), 1) => format!("{share} of {}", units::count(capacity)),
            (Some(share), _, count) => {
                let count = units::counted(count, "segment");
                format!("in {count}, the newest {share} full")
            }
            _ => "made for no number in particular".into(),
        };
        let full = inspection.rate_at_capacity();
        let full_segments = words::full_segments(inspection);
        let cards = [
            (
                if sealed { "Keys" } else { "Keys, about" },
                units::count(keys.round() as u64),
                capacity,
            ),
            match segments.first().and_then(|segment| segment.sealed.as_ref()) {
                Some(sealed) => sealed_card(sealed),
                None => (
                    "Bits set",
                    units::percent(ones as f64 / cells.max(1) as f64),
                    format!("{} of {}", units::count(ones), units::count(cells)),
                ),
            },
            ("False positives now", units::percent(rate), tries(rate)),
            (
                "False positives at capacity",
                full.map_or_else(|| "–".into(), units::percent),
                match (full, full_segments) {
                    (None, _) => "no capacity was named".into(),
                    (Some(rate), None) => tries(rate),
                    (Some(rate), Some(full)) => format!("{}, {full}", tries(rate)),
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

    fn checks(&self) -> String {
        let inspection = &self.inspection;
        let mut rows = vec![
            ["Superblock, slot, page tables".into(), "checksums are right".into()],
            ["Health".into(), escape(inspection.health.meaning())],
        ];
        if inspection.slot_damaged {
            rows.push(["The other slot".into(), "damaged; it may be the newer one".into()]);
        }
        let (class, pages) = match &self.verification {
            None => ("", "not checked yet".into()),
            Some(Err(reason)) => ("bad", escape(reason)),
            Some(Ok(found)) if !found.pages_damaged.is_empty() => {
                let all = units::count(found.pages);
                let damaged = found.pages_damaged.len() as u64;
                let first = found.pages_damaged.first().copied().unwrap_or_default();
                let (damaged, first) = (units::count(damaged), units::count(first));
                ("bad", format!("{damaged} of {all} are not as written, the first is page {first}"))
            }
            Some(Ok(found)) if !found.pages_busy.is_empty() => (
                "warn",
                format!("{} were being written", units::count(found.pages_busy.len() as u64)),
            ),
            Some(Ok(found)) if !found.pages_unverifiable.is_empty() => {
                let (all, some) = (found.pages, found.pages_unverifiable.len() as u64);
                (
                    "warn",
                    format!("{} of {} are not verifiable", units::count(some), units::count(all)),
                )
            }
            Some(Ok(found)) if found.pages_kept_unverified > 0 => (
                "warn",
                "as they were written, some by a recovery that could not verify them".into(),
            ),
            Some(Ok(found)) if found.pages == 1 => ("good", "the only one is as written".into()),
            Some(Ok(found)) => {
                ("good", format!("all {} are as written", units::count(found.pages)))
            }
        };
        rows.push(["Data pages".into(), pages]);
        let records = match inspection.kind {
            CellKind::Counting => "Changes in the journal, counted here",
            _ => "Adds in the journal, counted here",
        };
        for (count, what) in [
            (inspection.journal_records, records),
            (inspection.recoveries, "Recoveries"),
            (inspection.unverifiable_pages, "Pages not verifiable, kept by recoveries"),
            (
                inspection.repaired_pages,
                match inspection.kind {
                    CellKind::Sealed => "Pages repaired: “maybe” for every key",
                    _ => "Pages repaired: all ones",
                },
            ),
        ] {
            if count > 0 || (what == "Recoveries" && inspection.health != Health::Clean) {
                rows.push([what.into(), units::count(count)]);
            }
        }
        section("Checksums", &format!("note {class}"), &facts(rows))
    }

    fn parameters(&self) -> String {
        let inspection = &self.inspection;
        let mut rows = vec![["Made for".into(), escape(&words::purpose(inspection))]];
        if inspection.kind != CellKind::Sealed {
            rows.push(["When full".into(), words::policy_of(inspection)]);
        }
        // Segments that are made alike are not listed one by one.
        let mut layouts: Vec<(String, u64)> = Vec::new();
        for segment in &inspection.segments {
            let layout = segment.geometry.to_string();
            match layouts.last_mut() {
                Some((last, count)) if *last == layout => *count += 1,
                _ => layouts.push((layout, 1)),
            }
        }
        rows.extend(layouts.into_iter().map(|(layout, count)| {
            let times = if count == 1 { String::new() } else { format!("{count} times ") };
            ["Layout".into(), format!("{times}{}", escape(&layout))]
        }));
        let adds =
            inspection.segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.adds));
        rows.push(["Adds that changed it".into(), units::count(adds)]);
        let data: u64 = inspection.segments.iter().map(|segment| segment.data_bytes).sum();
        rows.extend([
            ["Data".into(), units::size(data)],
            ["Journal".into(), units::size(inspection.journal_bytes)],
            ["Hash".into(), escape(&words::hash(inspection))],
            ["Identity".into(), escape(&inspection.uuid)],
            ["Digest".into(), self.digest.clone().unwrap_or_else(|| "–".into())],
            ["Mark".into(), units::count(inspection.mark)],
            ["Slot, epoch".into(), format!("{}, {}", inspection.sequence, inspection.epoch)],
        ]);
        section("Parameters", "", &facts(rows))
    }

    fn metadata(&self) -> String {
        let pairs = &self.inspection.metadata;
        let body = if pairs.is_empty() {
            "<p class=\"soft\">None was given.</p>".into()
        } else {
            facts(pairs.iter().map(|(key, value)| [escape(key), escape(value)]))
        };
        section("Metadata", "", &body)
    }
}

/// What takes the place of set bits in a sealed filter.
fn sealed_card(sealed: &SealedInspection) -> (&'static str, String, String) {
    let bits = sealed.bits_per_key.map_or_else(|| "–".into(), |bits| format!("{bits:.2}"));
    let worst = format!(
        "worst page {}: {} keys, {}",
        units::count(sealed.worst_page),
        units::count(sealed.worst_page_keys),
        units::percent(sealed.worst_page_rate)
    );
    let more = match sealed.maybe_pages {
        0 => worst,
        pages => format!("{} without a solution", units::counted(pages, "page")),
    };
    ("Bits per key", bits, more)
}

fn tries(rate: f64) -> String {
    match units::rate(rate).split_once(" (") {
        Some((_, tries)) => tries.trim_end_matches(')').to_owned(),
        None => "of absent keys".into(),
    }
}
