//! Names and keys as they are shown: a file name or a key may hold anything, and must neither
//! steer the terminal nor pass for another line or another command.

use std::fmt::{self, Write as _};
use std::path::Path;

use crate::platform;

/// A name or key in a message: as it is if every character of it shows and none of them could be
/// mistaken for the words around it, otherwise in double quotes with escapes.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    bytes: &'a [u8],
    /// Whether a backslash stands for itself.
    backslash: bool,
}

/// A path in a message.
pub fn path(path: &Path) -> Shown<'_> {
    let bytes = path.as_os_str().as_encoded_bytes();
    Shown { bytes, backslash: platform::BACKSLASH_SEPARATES }
}

/// A key in a message.
pub fn key(key: &[u8]) -> Shown<'_> {
    Shown { bytes: key, backslash: false }
}

/// Whether a character stands for itself and for nothing else.
fn is_plain(character: char) -> bool {
    !matches!(character, '"' | '\'' | '`') && !character.is_whitespace() && shows(character)
}

/// Whether a character shows: not a control, not one that turns or joins the text around it.
fn shows(character: char) -> bool {
    match character {
        ' '..='~' => true,
        ..'\u{a0}' => false,
        // Behind another one, as marks that combine with it stand.
        _ => {
            let mut buffer = [b'a'; 5];
            let end = 1 + character.encode_utf8(&mut buffer[1..]).len();
            String::from_utf8_lossy(&buffer[..end]).escape_debug().count() == 2
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keeps = |character| character != '\\' || self.backslash;
        let is_plain = |character| is_plain(character) && keeps(character);
        match str::from_utf8(self.bytes) {
            Ok(text) if !text.is_empty() && text.chars().all(is_plain) => f.write_str(text),
            _ => {
                f.write_char('"')?;
                escape(f, self.bytes, |character| character != '"' && keeps(character))?;
                f.write_char('"')
            }
        }
    }
}

/// Writes bytes with escapes for what does not show and for what `keep` does not want as it is.
fn escape(f: &mut impl fmt::Write, bytes: &[u8], keep: impl Fn(char) -> bool) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                _ if shows(character) && keep(character) => f.write_char(character)?,
                '"' | '\'' | '\\' => write!(f, "\\{character}")?,
                _ => write!(f, "{}", character.escape_debug())?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// A path as a word of a shell's command line, to be copied from an advice.
pub fn word(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    // What starts with a hyphen would be taken for an option.
    let prefix = if bytes.first() == Some(&b'-') { "./" } else { "" };
    let is_bare = |byte: &u8| byte.is_ascii_alphanumeric() || platform::BARE.contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_bare) {
        return format!("{prefix}{}", String::from_utf8_lossy(bytes));
    }
    match str::from_utf8(bytes) {
        Ok(text) if text.chars().all(shows) => {
            format!("'{prefix}{}'", text.replace('\'', r"'\''"))
        }
        // Only this form of quotes has escapes.
        _ => {
            let mut word = format!("$'{prefix}");
            for &byte in bytes {
                match byte {
                    b'\'' | b'\\' => word.extend(['\\', char::from(byte)]),
                    b' '..=b'~' => word.push(char::from(byte)),
                    // Three octal digits: what follows cannot be taken for one more of them.
                    _ => word.push_str(&format!("\\{byte:03o}")),
                }
            }
            word + "'"
        }
    }
}

/// Text of several lines, with everything else that does not show escaped.
pub fn lines(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            escaped.push('\n');
        }
        // A string takes all of it.
        let _ = escape(&mut escaped, line.as_bytes(), |_| true);
    }
    escaped
}

/// A record of an input for a terminal: as it is, but for what does not show.
pub fn record(record: &[u8], text: &mut Vec<u8>) {
    let mut escaped = String::new();
    for (number, field) in record.split(|&byte| byte == b'\t').enumerate() {
        if number > 0 {
            escaped.push('\t');
        }
        let _ = escape(&mut escaped, field, |_| true);
    }
    text.extend_from_slice(escaped.as_bytes());
}

/// JSON with escapes for what does not show: such characters stand in strings only, where an escape
/// means the same.
pub fn json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || shows(character) {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of any bytes, on systems that have such names.
    #[cfg(unix)]
    fn of(bytes: &[u8]) -> &Path {
        use std::os::unix::ffi::OsStrExt;
        Path::new(std::ffi::OsStr::from_bytes(bytes))
    }

    #[cfg(windows)]
    #[test]
    fn separators_are_shown_as_they_are() {
        let shown = |name| path(Path::new(name)).to_string();
        assert_eq!(shown(r"C:\Users\a.bloom"), r"C:\Users\a.bloom");
        assert_eq!(shown(r"C:\Program Files\a.bloom"), r#""C:\Program Files\a.bloom""#);
        assert_eq!(word(Path::new(r"C:\Users\a.bloom")), r"C:\Users\a.bloom");
        assert_eq!(key(br"a\b").to_string(), r#""a\\b""#);
    }

    #[test]
    fn names_that_show_are_shown_as_they_are() {
        for name in ["a.bloom", "/tmp/x-1_2,3.bloom", "häuser.bloom", "日本.bloom", "a$(b)"] {
            assert_eq!(path(Path::new(name)).to_string(), name);
        }
    }

    #[cfg(unix)]
    #[test]
    fn other_names_stand_in_quotes() {
        for (name, shown) in [
            (&b"a b"[..], r#""a b""#),
            (b"", r#""""#),
            (b"a\nb: sound", r#""a\nb: sound""#),
            (b"\x1b[31mred", r#""\u{1b}[31mred""#),
            (b"say \"hi\"", r#""say \"hi\"""#),
            (b"it's", r#""it's""#),
            (b"back\\slash", r#""back\\slash""#),
            (b"\xff\xfe", r#""\xff\xfe""#),
            ("c1 \u{9b}31m".as_bytes(), r#""c1 \u{9b}31m""#),
            ("turned \u{202e}moolb".as_bytes(), r#""turned \u{202e}moolb""#),
        ] {
            assert_eq!(path(of(name)).to_string(), shown);
        }
    }

    #[cfg(unix)]
    #[test]
    fn words_of_a_shell() {
        for (name, expected) in [
            (&b"a.bloom"[..], "a.bloom"),
            (b"-f", "./-f"),
            (b"-f x", "'./-f x'"),
            (b"a b", "'a b'"),
            (b"", "''"),
            (b"$(reboot)", "'$(reboot)'"),
            (b"it's", r"'it'\''s'"),
            (b"a\nb", r"$'a\012b'"),
            (b"it's\x1b[1m\xff", r"$'it\'s\033[1m\377'"),
        ] {
            assert_eq!(word(of(name)), expected);
        }
    }

    #[test]
    fn json_has_no_controls() {
        let text = "a\u{9b}\u{7f}\u{202e}é\u{1b}\"\\";
        let plain = serde_json::to_string_pretty(&[text]).unwrap();
        let escaped = json(&plain);
        assert_eq!(escaped, "[\n  \"a\\u009b\\u007f\\u202eé\\u001b\\\"\\\\\"\n]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&escaped).unwrap(), [text]);
    }
}
