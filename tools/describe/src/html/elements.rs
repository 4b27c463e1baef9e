//! The elements that the page is made of.

use std::fmt::Write as _;

/// A chart with its words and its figures.
pub(super) fn figure(title: &str, chart: &str, caption: &str, figures: &str) -> String {
    let body = format!(
        "<figure>{chart}<figcaption>{caption}</figcaption></figure>\n\
         <details><summary>Figures</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{title}: figures\">{figures}</div></details>"
    );
    section(title, "", &body)
}

pub(super) fn section(title: &str, class: &str, body: &str) -> String {
    format!(
        "<section class=\"{class}\" aria-label=\"{title}\"><h2>{title}</h2>\n{body}\n</section>\n"
    )
}

/// A table of names and what they say; both are HTML already.
pub(super) fn facts(rows: impl IntoIterator<Item = [String; 2]>) -> String {
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
pub(super) fn escape(text: &str) -> String {
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
