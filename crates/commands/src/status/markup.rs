//! Pieces of a page: tables, charts, and text that cannot be markup.

use super::history::Series;

/// The size of a chart in its own units; a style sheet says how large it is shown.
const CHART: (f64, f64) = (120.0, 32.0);

/// A line over time, with its name, what it ended with and its largest value, as `shown` shows
/// them.
pub(super) fn chart(html: &mut String, series: &Series, shown: impl Fn(u64) -> String) {
    let (width, height) = CHART;
    let largest = series.largest().max(1) as f64;
    let step = width / series.values.len().saturating_sub(1).max(1) as f64;
    let points = series.values.iter().enumerate().map(|(index, value)| {
        let y = height - 1.0 - *value as f64 / largest * (height - 2.0);
        format!("{:.1},{y:.1}", index as f64 * step)
    });
    let points: Vec<String> = points.collect();
    let (name, now, most) =
        (escaped(&series.name), shown(series.latest()), shown(series.largest()));
    html.push_str(&format!(
        "<figure><figcaption>{name} <b>{now}</b> at most {most}</figcaption>\
         <svg viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{name}: {now} now, at most {most}\">\
         <polyline points=\"{}\"/></svg></figure>\n",
        points.join(" ")
    ));
}

pub(super) fn table(
    html: &mut String,
    id: &str,
    caption: &str,
    columns: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) {
    let heads = columns.iter().map(|column| format!("<th scope=\"col\">{column}</th>"));
    table_with(html, id, caption, &heads.collect::<String>(), rows);
}

/// The same with heads of columns that are markup.
pub(super) fn table_with(
    html: &mut String,
    id: &str,
    caption: &str,
    heads: &str,
    rows: impl Iterator<Item = Vec<String>>,
) {
    html.push_str(&format!(
        "<div class=\"wide\"><table id=\"{id}\"><caption>{caption}</caption>\
         <thead><tr>{heads}</tr></thead>\n<tbody>\n"
    ));
    for row in rows {
        let cells = row.iter().map(|cell| format!("<td class=\"text\">{}</td>", escaped(cell)));
        html.push_str(&format!("<tr>{}</tr>\n", cells.collect::<String>()));
    }
    html.push_str("</tbody></table></div>\n");
}

/// Text as HTML, in which control characters show as what they are not: printable.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            control if control.is_control() => html.push('\u{fffd}'),
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
        assert!(html.contains("a&lt;b <b>5 ms</b> at most 10 ms"), "{html}");
        chart(&mut html, &Series { name: String::new(), values: Vec::new() }, |it| it.to_string());
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(
            escaped("<b a=\"1\" c='2'>&amp;\u{1b}[0m 凪"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;\u{fffd}[0m 凪"
        );
    }
}
