//! Parts of a page: tables, charts, and escaped text.

use super::history::Series;

/// The size of a chart in its own units; the style sheet sets its displayed size.
const CHART: (f64, f64) = (120.0, 32.0);

/// Draws a time series as a chart, with its name and its last and largest values, formatted by
/// `shown`.
pub(super) fn chart(html: &mut String, series: &Series, shown: impl Fn(u64) -> String) {
    let (width, height) = CHART;
    let largest = series.largest().max(1) as f64;
    let step = width / series.values.len().saturating_sub(1).max(1) as f64;
    let points = series.values.iter().enumerate().map(|(index, value)| {
        let y = height - 1.0 - *value as f64 / largest * (height - 2.0);
        format!("{:.1},{y:.1}", index as f64 * step)
    });
    let points = points.collect::<Vec<_>>().join(" ");
    let (name, now, most) =
        (escaped(&series.name), shown(series.latest()), shown(series.largest()));
    html.push_str(&format!(
        "<figure><figcaption>{name} <b>{now}</b> <small>max {most}</small></figcaption>\
         <svg viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{name}: {now} now, max {most}\">\
         <polygon points=\"0,{height} {points} {width},{height}\"/>\
         <polyline points=\"{points}\"/></svg></figure>\n",
    ));
}

/// The contents of a table's cell.
pub(super) enum Cell {
    /// Text, which will be escaped.
    Text(String),
    Number(String),
    /// One of a few words or letters, which a style sheet may colour.
    State(String),
    /// A share from 0 to 1.
    Share(f64),
}

impl Cell {
    pub(super) fn text(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }

    pub(super) fn number(number: impl ToString) -> Self {
        Cell::Number(number.to_string())
    }

    fn markup(&self) -> String {
        match self {
            Cell::Text(text) => format!("<td class=\"text\">{}</td>", escaped(text)),
            Cell::Number(number) => format!("<td class=\"number\">{}</td>", escaped(number)),
            Cell::State(state) => {
                let state = escaped(state);
                format!("<td><span class=\"state\" data-state=\"{state}\">{state}</span></td>")
            }
            Cell::Share(share) => format!(
                "<td class=\"number\">{:.1} %<meter value=\"{share:.3}\"></meter></td>",
                share * 100.0
            ),
        }
    }
}

pub(super) fn table(
    html: &mut String,
    id: &str,
    caption: &str,
    columns: &[&str],
    rows: impl Iterator<Item = Vec<Cell>>,
) {
    let heads = columns.iter().map(|column| ("<th scope=\"col\"".to_owned(), (*column).to_owned()));
    table_with(html, id, caption, &heads.collect::<Vec<_>>(), rows);
}

/// Writes a table. Each column header has markup: the start of its tag, and its contents.
pub(super) fn table_with(
    html: &mut String,
    id: &str,
    caption: &str,
    heads: &[(String, String)],
    rows: impl Iterator<Item = Vec<Cell>>,
) {
    let mut rows = rows.peekable();
    let first = rows.peek().map_or(&[][..], Vec::as_slice);
    let is_number = |at: usize| matches!(first.get(at), Some(Cell::Number(_) | Cell::Share(_)));
    let heads = heads.iter().enumerate().map(|(at, (tag, contents))| {
        let class = if is_number(at) { " class=\"number\"" } else { "" };
        format!("{tag}{class}>{contents}</th>")
    });
    html.push_str(&format!(
        "<div class=\"wide\"><table id=\"{id}\"><caption>{caption}</caption>\
         <thead><tr>{}</tr></thead>\n<tbody>\n",
        heads.collect::<String>()
    ));
    for row in rows {
        html.push_str(&format!("<tr>{}</tr>\n", row.iter().map(Cell::markup).collect::<String>()));
    }
    html.push_str("</tbody></table></div>\n");
}

/// Whether a page shows a replacement for a character: control characters, and those that change
/// the direction of text, which could make one key look like another.
pub(super) fn is_replaced(character: char) -> bool {
    match character {
        '\0'..'\u{61c}' => character.is_control(),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        _ => false,
    }
}

/// Escapes text for HTML, with a replacement for control characters and changes of direction.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            control if is_replaced(control) => html.push('\u{fffd}'),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_drawn_from_left_to_right() {
        let mut html = String::new();
        let series = Series { name: "a<b".to_owned(), values: vec![0, 10, 5] };
        chart(&mut html, &series, |value| format!("{value} ms"));
        assert!(html.contains("points=\"0.0,31.0 60.0,1.0 120.0,16.0\""), "{html}");
        assert!(html.contains("a&lt;b <b>5 ms</b> <small>max 10 ms"), "{html}");
        chart(&mut html, &Series { name: String::new(), values: Vec::new() }, |it| it.to_string());
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(
            escaped("<b a=\"1\" c='2'>&amp;\u{1b}[0m 凪\u{202e}\u{2067}שלום"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;\u{fffd}[0m 凪\u{fffd}\u{fffd}שלום"
        );
    }
}
