//! A plot without a plotting library: lines over sizes that double twice from step to step.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 20.0;
const COLOURS: [&str; 3] = ["#0b6e99", "#2a9d4a", "#c0562b"];

/// Nanoseconds over bytes, both on logarithmic axes.
pub(crate) fn growth(points: &[(u64, [f64; 3])], names: &[&str; 3]) -> String {
    let most = points.iter().flat_map(|(_, times)| times).fold(10.0f64, |a, &b| a.max(b));
    let decades = most.log10().ceil();
    let x = |at: usize| LEFT + (WIDTH - LEFT - 20.0) * at as f64 / (points.len().max(2) - 1) as f64;
    let y =
        |time: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (time.max(1.0).log10() / decades);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    for decade in 0..=decades as i32 {
        let time = 10f64.powi(decade);
        writeln!(
            svg,
            "<path d=\"M{LEFT} {0:.1}H{1}\" stroke=\"#ddd\"/><text x=\"{2}\" y=\"{3:.1}\" \
             text-anchor=\"end\">{time} ns</text>",
            y(time),
            WIDTH - 20.0,
            LEFT - 6.0,
            y(time) + 4.0
        )
        .unwrap();
    }
    for (at, (bytes, _)) in points.iter().enumerate() {
        let (x, y) = (x(at), HEIGHT - BOTTOM + 18.0);
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
            crate::name(*bytes)
        )
        .unwrap();
    }
    for (line, name) in names.iter().enumerate() {
        let places: Vec<String> = points
            .iter()
            .enumerate()
            .map(|(at, (_, times))| format!("{:.1},{:.1}", x(at), y(times[line])))
            .collect();
        let (colour, legend) = (COLOURS[line], LEFT + 20.0 + 200.0 * line as f64);
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{legend}\" y=\"{}\" fill=\"{colour}\">{name}</text>",
            places.join(" "),
            HEIGHT - 10.0
        )
        .unwrap();
    }
    svg.push_str("</svg>\n");
    svg
}
