//! Counts, sizes, rates and times, as people read them.

/// A count with its thousands marked: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and the word for what is counted, which takes an `s` unless there is one of it.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Pages that are named one by one.
const PAGES_NAMED: usize = 10;

/// The numbers of pages: `page 3`, or `pages 3, 7, …` for the first of many.
pub fn page_names(pages: &[u64]) -> String {
    let mut names: Vec<String> = pages.iter().take(PAGES_NAMED).copied().map(count).collect();
    if pages.len() > PAGES_NAMED {
        names.push("…".into());
    }
    format!("{} {}", if pages.len() == 1 { "page" } else { "pages" }, names.join(", "))
}

/// A size as people read it: `1.21 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 is where one more digit would be shown than the next unit needs.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value), UNITS[unit])
}

/// A number with three digits.
pub fn decimal(value: f64) -> String {
    match value.abs() {
        1000.0.. => count(value.round() as u64),
        _ => significant(value),
    }
}

/// A time as people read it.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{} s", decimal(seconds)),
        0.001.. => format!("{} ms", decimal(1e3 * seconds)),
        _ => format!("{} µs", decimal(1e6 * seconds)),
    }
}

/// A large number in a few characters: `12.5M`.
pub fn short(value: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    let (mut value, mut unit) = (value, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{}{}", significant(value), UNITS[unit])
}

/// A rate with three digits, as a percentage as long as that is readable.
pub fn percent(rate: f64) -> String {
    let percent = 100.0 * rate;
    if percent == 0.0 || percent >= 0.0001 {
        format!("{} %", significant(percent))
    } else {
        format!("{rate:.2e}")
    }
}

/// A rate, and how many tries it takes to meet it once.
pub fn rate(rate: f64) -> String {
    match rate {
        rate if rate > 0.0 && rate < 0.5 => {
            let tries = 1.0 / rate;
            // As good as never: no number that is of use to anyone.
            if tries > 1e15 {
                return percent(rate);
            }
            // Three digits: what is shown of the rate has no more.
            let step = 10f64.powf((tries.log10().floor() - 2.0).max(0.0));
            let tries = ((tries / step).round() * step) as u64;
            format!("{} (1 in {})", percent(rate), count(tries))
        }
        rate => percent(rate),
    }
}

/// Three significant digits (all of those in front of the point), no trailing zeros.
fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_readably() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(count)[..]);
        assert_eq!(
            ["0 bytes", "1 byte", "4 KiB", "1.21 MiB", "1 MiB", "9.38 GiB"],
            [0, 1, 4096, 1_268_000, (1 << 20) - 10, 10_066_329_600].map(size)[..]
        );
        assert_eq!(
            ["0 %", "1 %", "0.984 %", "100 %", "0.00123 %", "1.23e-7"],
            [0.0, 0.01, 0.009836, 1.0, 1.23e-5, 1.23e-7].map(percent)[..]
        );
        assert_eq!(rate(0.0098), "0.98 % (1 in 102)");
        assert_eq!(rate(2.056e-11), "2.06e-11 (1 in 48,600,000,000)");
        assert_eq!(rate(0.89), "89 %");
        assert_eq!(rate(2.12e-22), "2.12e-22");
        assert_eq!(
            ["51,000 s", "1.5 s", "12 ms", "0.1 µs"],
            [51_000.0, 1.5, 0.012, 1e-7].map(seconds)[..]
        );
        assert_eq!(["0", "999", "1k", "12.5M"], [0.0, 999.0, 1000.0, 12.5e6].map(short)[..]);
    }
}
