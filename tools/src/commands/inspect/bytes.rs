//! `inspect --pages` and `inspect --bytes`: the file piece by piece.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use bloomfile::report::{Detail, Explained, PageInspection};
use serde::Serialize;

use super::subject::Subject;
use crate::commands::InspectArgs;
use crate::failure::{Failure, Result};
use crate::remote::{self, InspectedFile};
use crate::{text, units};

/// Lists the pages as the page tables describe them.
pub(super) fn pages(args: &InspectArgs) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        #[serde(flatten)]
        page: PageInspection,
        fill: f64,
    }
    let head = format!("{:>7} {:>12}  {:<8} {:>6}  fill", "segment", "page", "crc", "ones");
    let text = |row: &Row| {
        let PageInspection { segment, page, crc, ones, .. } = row.page;
        let (page, fill) = (units::count(page), units::percent(row.fill));
        format!("{segment:>7} {page:>12}  {crc:08x} {:>6}  {fill}", units::count(ones.into()))
    };
    list(args, "pages", &head, text, |take| {
        Subject::of(&args.file)?.pages(&mut |page| take(Row { page, fill: page.fill() }))
    })
}

/// Explains every byte.
pub(super) fn bytes(args: &InspectArgs) -> Result<()> {
    let detail = if args.all { Detail::Everything } else { Detail::Summary };
    let head = format!("{:>12} {:>12}  {:<34} {:<21} value", "from", "to", "structure", "field");
    let text = |row: &Explained| {
        let Explained { range, structure, field, value, note, .. } = row;
        // The last byte, unless nothing is there.
        let last = range.end.saturating_sub(1).max(range.start);
        format!(
            "{:>12} {last:>12}  {structure:<34} {field:<21} {}  -- {note}",
            range.start,
            value.escape_debug(),
            note = text::lines(note)
        )
    };
    list(args, "bytes", &head, text, |take| match remote::address(&args.file) {
        Some(address) => InspectedFile::explain(address, take),
        None => {
            bloomfile::report::explain(&args.file, detail, take).map_err(Failure::file(&args.file))
        }
    })
}

/// Prints rows as they come: as text below a head, or as one JSON document.
fn list<R: Serialize>(
    args: &InspectArgs,
    name: &str,
    head: &str,
    text: impl Fn(&R) -> String,
    rows: impl FnOnce(&mut dyn FnMut(R) -> ControlFlow<()>) -> Result<()>,
) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut first = true;
    let mut written = Ok(());
    let visited = rows(&mut |row| {
        // A file that cannot be read gives an error, and nothing of a document.
        let begin = std::mem::take(&mut first);
        written = match (args.format.json, begin) {
            (false, true) => writeln!(out, "{head}\n{}", text(&row)),
            (false, false) => writeln!(out, "{}", text(&row)),
            (true, true) => json_head(&mut out, args, name).and_then(|()| json_row(&mut out, &row)),
            (true, false) => write!(out, ",\n    ").and_then(|()| json_row(&mut out, &row)),
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written.map_err(Failure::output)?;
    visited?;
    if args.format.json {
        writeln!(out, "\n  ]\n}}").map_err(Failure::output)?;
    }
    out.flush().map_err(Failure::output)
}

fn json_head(out: &mut impl Write, args: &InspectArgs, name: &str) -> io::Result<()> {
    let file = text::json(&serde_json::to_string(&args.file.display().to_string())?);
    write!(out, "{{\n  \"schema\": 1,\n  \"file\": {file},\n  \"{name}\": [\n    ")
}

fn json_row(out: &mut impl Write, row: &impl Serialize) -> io::Result<()> {
    out.write_all(text::json(&serde_json::to_string(row)?).as_bytes())
}
