//! The tables of a plan: layouts side by side, and stages of growth.

use bloomfile::{geometry::Layout, options::GrowthStage};

use super::LayoutOutput;
use crate::units;

/// The layouts side by side, the one that is taken marked.
pub(super) fn table(layouts: &[LayoutOutput], chosen: Layout) -> String {
    let mut text = format!(
        "  {:<8}{:>5}{:>14}{:>12}{:>11}{:>13}{:>7}\n",
        "layout", "k", "bits per key", "data", "rate", "cache lines", "pages"
    );
    for layout in layouts {
        let mark = if layout.layout == chosen { '*' } else { ' ' };
        text += &format!(
            "{mark} {:<8}{:>5}{:>14.2}{:>12}{:>11}{:>13}{:>7}\n",
            layout.layout.name(),
            if layout.rows == 0 { "–".into() } else { layout.rows.to_string() },
            layout.bits_per_key.unwrap_or_default(),
            units::size(layout.data_bytes),
            units::percent(layout.expected_rate.unwrap_or_default()),
            layout.lines_per_lookup,
            layout.pages_per_lookup,
        );
    }
    text += "  * taken; choose another with --layout";
    if layouts.iter().any(|layout| layout.layout == Layout::Sealed) {
        text += "; a sealed one is never added to";
    }
    text + "\n"
}

/// What a filter becomes as it grows.
pub(super) fn stages(growth: &[GrowthStage]) -> String {
    let mut text = format!(
        "  {:<9}{:>14}{:>14}{:>12}{:>12}{:>11}\n",
        "segments", "keys", "bits per key", "data", "file", "rate"
    );
    for stage in growth {
        text += &format!(
            "  {:<9}{:>14}{:>14.2}{:>12}{:>12}{:>11}\n",
            stage.segments,
            units::count(stage.capacity),
            stage.bits_per_key,
            units::size(stage.data_bytes),
            units::size(stage.file_bytes),
            units::percent(stage.expected_rate),
        );
    }
    text + "  as it grows; a look-up asks every segment\n"
}
