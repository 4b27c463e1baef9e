//! The form of keys (`bloomfile::hash::Form`) as the options ask for it.

use std::fmt;

use bloomfile::hash::{Conversion, Encoding, Form};

use super::Bad;
use crate::options::FormArgs;

/// Names of pairs that only the options for the form may write.
pub(crate) const RESERVED: [&str; 2] = [Form::METADATA, Encoding::METADATA];

impl From<FormArgs> for Form {
    fn from(args: FormArgs) -> Self {
        let conversion = match args {
            FormArgs { encoding: Some(encoding), .. } => Conversion::Number(encoding),
            FormArgs { hex: true, .. } => Conversion::Hex,
            FormArgs { lower: true, .. } => Conversion::Lower,
            _ => Conversion::None,
        };
        Form { crlf: args.crlf, trim: args.trim, conversion }
    }
}

/// The options that ask for a form.
pub(crate) struct FormOptions(pub(crate) Form);

impl fmt::Display for FormOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Form { crlf, trim, conversion } = self.0;
        let conversion = match conversion {
            Conversion::Lower => Some("--lower".to_owned()),
            Conversion::Hex => Some("--hex".to_owned()),
            Conversion::Number(encoding) => Some(format!("--encoding {}", encoding.name())),
            _ => None,
        };
        let options = [crlf.then(|| "--crlf".into()), trim.then(|| "--trim".into())];
        let options: Vec<String> = options.into_iter().chain([conversion]).flatten().collect();
        f.write_str(&options.join(" "))
    }
}

/// The form for a file that records `recorded`, when options ask for `asked`. None if they contradict
/// each other.
///
/// What goes from around a text may be asked for in addition: it depends on the input, and leaves
/// keys of the same form. Another conversion makes other keys of the same texts.
pub(crate) fn on_file(recorded: Form, asked: Form) -> Option<Form> {
    let agrees = [Conversion::None, recorded.conversion].contains(&asked.conversion);
    agrees.then_some(Form {
        crlf: asked.crlf || recorded.crlf,
        trim: asked.trim || recorded.trim,
        conversion: recorded.conversion,
    })
}

/// The key that a text means, or why it means none; `buffer` is for keys that are not part of the text.
#[inline]
pub(super) fn key<'k>(
    form: Form,
    text: &'k [u8],
    buffer: &'k mut Vec<u8>,
) -> Result<&'k [u8], Bad> {
    form.key(text, buffer).ok_or(match form.conversion {
        Conversion::Number(encoding) => Bad::Number(encoding),
        _ => Bad::Hex,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_may_add_and_must_not_contradict() {
        let form = |words: &str| {
            let pair = match words {
                "le64" | "be64" => Encoding::METADATA,
                _ => Form::METADATA,
            };
            let metadata = [(pair.to_owned(), words.to_owned())].into();
            Form::recorded(&metadata).unwrap().unwrap()
        };
        let plain = Form::default();
        assert_eq!(on_file(form("trim lower"), plain), Some(form("trim lower")));
        assert_eq!(on_file(form("hex"), form("crlf")), Some(form("crlf hex")));
        assert_eq!(on_file(form("hex"), form("hex")), Some(form("hex")));
        assert_eq!(on_file(form("lower"), form("hex")), None);
        assert_eq!(on_file(form("trim"), form("lower")), None);
        assert_eq!(on_file(form("be64"), form("le64")), None);
    }
}
