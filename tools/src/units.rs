//! Counts, sizes and rates: how they are read (`10M`, `64MiB`, `1%`). How they are shown is in
//! `bloomfile-describe`.

pub(crate) use bloomfile_describe::units::*;

/// A number of keys or bits: `1000000`, `1_000_000`, `10M`, `1e7`, `2.5k`, `64Ki`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    parse_whole(text, "", "a whole number such as 1000000, 10M or 1e7")
}

/// A number of bytes: `4096`, `4k`, `64MiB`, `1GB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    parse_whole(text, "B", "a whole number of bytes such as 65536, 64KiB or 1M")
}

/// A share: `0.01`, `1%`, `1e-5`.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let wrong = || "not a rate such as 0.01, 1% or 1e-5".to_owned();
    let (number, divisor) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? / divisor;
    if !(rate > 0.0 && rate < 1.0) {
        return Err("a rate lies above 0 and below 1 (100%)".into());
    }
    Ok(rate)
}

/// A time in milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if time >= 0.0 && time.is_finite() => Ok(time),
        _ => Err("not a number of milliseconds such as 0.5".into()),
    }
}

/// A share of a whole, or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    Share(f64),
    Number(u64),
}

impl Amount {
    /// How many of `whole` it is.
    pub(crate) fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Share(share) => (share * whole as f64).round() as u64,
            Amount::Number(number) => number.min(whole),
        }
    }
}

/// Time between two things: `30s`, `5m`, `1h`, `2d`; a number alone is seconds.
pub(crate) fn parse_interval(text: &str) -> Result<std::time::Duration, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3_600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let number: Option<u64> = number.parse().ok().filter(|&number| number > 0);
    let seconds = number.and_then(|number| number.checked_mul(unit));
    seconds.map(std::time::Duration::from_secs).ok_or_else(|| "write 30s, 5m, 1h or 2d".into())
}

/// A share, or a number of at least 1 (or 0).
pub(crate) fn parse_amount(text: &str) -> Result<Amount, String> {
    if let Ok(number) = parse_count(text) {
        return Ok(Amount::Number(number));
    }
    match (text, parse_rate(text)) {
        ("100%", _) => Ok(Amount::Share(1.0)),
        (_, Ok(share)) => Ok(Amount::Share(share)),
        _ => Err("not a share such as 2% or 0.02, nor a number such as 2000".into()),
    }
}

/// A hash seed: decimal, or hexadecimal with `0x` in front.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "not a number from 0 to 2^64 - 1, such as 7 or 0x5eed".into())
}

/// A single byte, or `\t` or `\0` for one that is hard to type.
pub(crate) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        b"\\0" => Ok(0),
        &[byte] => Ok(byte),
        _ => Err("not one byte, such as , or ; or \\t for a tab".into()),
    }
}

/// A pair `KEY=VALUE`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("not a pair KEY=VALUE, such as source=orders.csv".into()),
    }
}

/// Whole numbers are computed without floating point, so that `1e18` is exact.
fn parse_whole(text: &str, unit: &str, example: &str) -> Result<u64, String> {
    let wrong = || format!("not {example}");
    let number_end = text
        .char_indices()
        .find(|&(at, character)| {
            let exponent = matches!(character, 'e' | 'E') && text[at + 1..].starts_with(digit);
            !(character.is_ascii_digit() || matches!(character, '.' | '_') || exponent)
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(number_end);
    let factor = factor(suffix.trim_start(), unit).ok_or_else(wrong)?;
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<u32>().map_err(|_| wrong())?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole, fraction].concat().replace('_', "");
    let digits = digits.parse::<u128>().map_err(|_| wrong())?;
    let fraction_digits = fraction.replace('_', "").len() as u32;

    let too_large = || format!("too large: the most is {}", u64::MAX);
    let power = |exponent| 10u128.checked_pow(exponent).ok_or_else(too_large);
    let scaled = digits
        .checked_mul(factor)
        .zip(power(exponent).ok())
        .and_then(|(digits, power)| digits.checked_mul(power))
        .ok_or_else(too_large)?;
    let divisor = power(fraction_digits)?;
    if !scaled.is_multiple_of(divisor) {
        return Err(wrong());
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large())
}

fn digit(character: char) -> bool {
    character.is_ascii_digit()
}

/// What a suffix multiplies by: `k`, `M`, `G`, `T` by powers of 1000, `Ki`, `Mi` … of 1024.
fn factor(suffix: &str, unit: &str) -> Option<u128> {
    let suffix = suffix.strip_suffix(unit).unwrap_or(suffix);
    let (prefix, base) = match suffix.strip_suffix('i') {
        Some("") => return None,
        Some(prefix) => (prefix, 1024u128),
        None => (suffix, 1000),
    };
    let power = match prefix {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return None,
    };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_exactly() {
        for (text, expected) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("1_000_000", 1_000_000),
            ("10M", 10_000_000),
            ("10 M", 10_000_000),
            ("1e7", 10_000_000),
            ("1E7", 10_000_000),
            ("2.5k", 2_500),
            ("1.5e3", 1_500),
            ("64Ki", 65_536),
            ("0.5Ki", 512),
            ("1e18", 1_000_000_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_count(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_is_refused() {
        for text in [
            "", "-1", "+1", "ten", "1.5", "1e", "e7", "1e-3", "1..5", "1.5.", "10X", "10MB", "i",
            "1i", "0x10", "1e7e7", "nan", "inf", "1 2",
        ] {
            let error = parse_count(text).unwrap_err();
            assert!(error.starts_with("not a whole number"), "{text}: {error}");
        }
        for text in ["18446744073709551616", "1e20", "1e99", "1e4294967295", "20000000T"] {
            assert!(parse_count(text).unwrap_err().starts_with("too large"), "{text}");
        }
    }

    #[test]
    fn sizes_take_a_unit() {
        for (text, expected) in
            [("0", 0), ("64MiB", 1 << 26), ("64Mi", 1 << 26), ("1MB", 1_000_000), ("512B", 512)]
        {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        assert!(parse_size("64MiBB").is_err());
    }

    #[test]
    fn rates_are_shares_or_percentages() {
        for (text, expected) in [("1%", 0.01), ("0.01", 0.01), ("0.1 %", 0.001), ("1e-5", 1e-5)] {
            let rate = parse_rate(text).unwrap();
            assert!((rate - expected).abs() < 1e-12, "{text}: {rate}");
        }
        for text in ["0", "1", "100%", "-0.1", "NaN", "inf", "%", "", "1%%", "a"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seeds_and_pairs() {
        assert_eq!(parse_seed("7"), Ok(7));
        assert_eq!(parse_seed("0x5eed"), Ok(0x5eed));
        assert!(parse_seed("-1").is_err() && parse_seed("0x").is_err());
        assert_eq!(parse_pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(parse_pair("a").is_err() && parse_pair("=b").is_err());
        assert_eq!([",", "\\t", "\\0", " "].map(parse_delimiter), [Ok(b','), Ok(9), Ok(0), Ok(32)]);
        assert!(parse_delimiter("").is_err() && parse_delimiter("ab").is_err());
    }

    #[test]
    fn amounts_and_times() {
        for (text, amount) in [("2%", Amount::Share(0.02)), ("100%", Amount::Share(1.0))] {
            assert_eq!(parse_amount(text), Ok(amount), "{text}");
        }
        for (text, number) in [("2k", 2000), ("0.02", 2), ("500", 100), ("0", 0), ("100%", 100)] {
            let whole = if text == "2k" { 10_000 } else { 100 };
            assert_eq!(parse_amount(text).map(|amount| amount.of(whole)), Ok(number), "{text}");
        }
        assert!(["", "x", "-1", "101%", "1.5"].into_iter().all(|text| parse_amount(text).is_err()));
        assert_eq!(parse_duration("0.5"), Ok(0.5));
        assert!(["-1", "inf", "x"].into_iter().all(|text| parse_duration(text).is_err()));
    }
}
