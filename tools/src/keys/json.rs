//! JSON lines: the text or number at a path of each.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::texts::Texts;

/// Lists and objects within one another before a line is refused, as serde_json does it.
const DEEPEST: usize = 128;

/// The way to a value: names of fields and numbers of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath {
    /// As it was given.
    text: String,
    steps: Vec<String>,
}

impl JsonPath {
    /// `user.name` or `.user.name`, `ips.0`; `.` for the whole line; `/user/first.name` as RFC 6901 has
    /// it, where names hold dots.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let steps: Vec<String> = match text {
            "." => Vec::new(),
            _ if text.starts_with('/') => {
                let unescape = |step: &str| step.replace("~1", "/").replace("~0", "~");
                text[1..].split('/').map(unescape).collect()
            }
            _ => text.strip_prefix('.').unwrap_or(text).split('.').map(str::to_owned).collect(),
        };
        if steps.iter().any(String::is_empty) && !text.starts_with('/') {
            return Err("not a path such as user.name, ips.0 or /user/first.name".into());
        }
        Ok(JsonPath { text: text.to_owned(), steps })
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Takes the text or number at a path out of a line, or `each` of those in the list or object there.
/// There is none where the line has nothing at the path, null, or more than one without `each`. An
/// error where it is no JSON.
pub(super) fn select(
    line: &[u8],
    path: &JsonPath,
    each: bool,
    texts: &mut Texts,
) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let value = At(&path.steps).deserialize(&mut json)?;
    json.end()?;
    match value {
        Some(value) => push(value, each, 0, texts),
        None => Ok(()),
    }
}

fn push(value: &RawValue, each: bool, depth: usize, texts: &mut Texts) -> serde_json::Result<()> {
    let text = value.get();
    match text.as_bytes() {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => texts.push(inner),
        [b'"', ..] => texts.push(serde_json::from_str::<String>(text)?.as_bytes()),
        [b'{' | b'[', ..] if each => {
            if depth == DEEPEST {
                return Err(serde_json::Error::custom("too many lists in one another"));
            }
            for value in serde_json::Deserializer::from_str(text).deserialize_any(Inside)? {
                push(value, each, depth + 1, texts)?;
            }
        }
        [b'{' | b'[' | b'n', ..] => {}
        // Numbers as they are written, true and false.
        number => texts.push(number),
    }
    Ok(())
}

/// Finds the value at the end of steps.
struct At<'s>(&'s [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => serde::Deserialize::deserialize(json).map(Some),
            _ => json.deserialize_any(self),
        }
    }
}

/// Visits that lead nowhere: a text or number has no fields.
macro_rules! nothing_in {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E: Error>(self, _: $type) -> Result<Self::Value, E> {
            Ok(None)
        })*
    };
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    nothing_in!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((step, rest)) = self.0.split_first() else { return Ok(None) };
        let mut found = None;
        while let Some(is_step) = map.next_key_seed(Is(step))? {
            if is_step {
                // Of fields with the same name the last one counts, as in most parsers.
                found = map.next_value_seed(At(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Some((step, rest)) = self.0.split_first() else { return Ok(None) };
        let wanted = step.parse::<usize>().ok();
        let mut found = None;
        for number in 0.. {
            if wanted == Some(number) {
                match list.next_element_seed(At(rest))? {
                    Some(value) => found = value,
                    None => break,
                }
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// Whether a name is this one.
struct Is<'s>(&'s str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// The values of a list or object.
struct Inside;

impl<'de> Visitor<'de> for Inside {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some((IgnoredAny, value)) = map.next_entry()? {
            values.push(value);
        }
        Ok(values)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: &str, each: bool) -> Option<Vec<String>> {
        let mut texts = Texts::default();
        let path = JsonPath::parse(path).unwrap();
        select(line.as_bytes(), &path, each, &mut texts).ok()?;
        Some(texts.iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect())
    }

    const LINE: &str =
        r#"{"a":"x","b":{"c.d":"\u00e4\"\n","e":[1,2.50,{"f":null}]},"g":true,"a":"y"}"#;

    #[test]
    fn a_path_leads_to_a_text_or_a_number() {
        for (path, expected) in [
            ("a", &["y"][..]),
            (".a", &["y"]),
            ("/b/c.d", &["ä\"\n"]),
            ("b.e.0", &["1"]),
            ("b.e.1", &["2.50"]),
            ("g", &["true"]),
            ("b.e.2.f", &[]),
            ("b.e.3", &[]),
            ("b.e.x", &[]),
            ("b.e", &[]),
            ("b", &[]),
            ("none", &[]),
            ("a.b", &[]),
        ] {
            assert_eq!(found(path, LINE, false).unwrap(), expected, "{path}");
        }
        assert_eq!(found(".", " 7 ", false).unwrap(), ["7"]);
        assert_eq!(found("a", "7", false).unwrap(), [""; 0]);
    }

    #[test]
    fn each_takes_what_is_inside() {
        assert_eq!(found("b.e", LINE, true).unwrap(), ["1", "2.50"]);
        assert_eq!(found(".", LINE, true).unwrap(), ["x", "ä\"\n", "1", "2.50", "true", "y"]);
        assert_eq!(found("g", LINE, true).unwrap(), ["true"]);
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(found(".", &deep, true), None);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for line in
            ["", "{", "{\"a\":1} x", "{'a':1}", "{\"a\":tru}", "\"\\x\"", "{\"a\":\"\u{1}\"}"]
        {
            assert_eq!(found("a", line, false), None, "{line}");
        }
        for path in ["", "a..b", "..a", "a."] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
        assert_eq!(JsonPath::parse("/a~1b/~0c").unwrap().steps, ["a/b", "~c"]);
    }
}
