//! The report as one HTML page, without scripts or references to other files.

use super::outcome::{Report, ServerReport};
use super::text::heading;
use nagi_findings::Diagnosed;
use nagi_load::text;
use nagi_load::text::plain;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:56em;\
padding:0 1em;color:#222}table{border-collapse:collapse}td{padding:.2em 1.2em .2em 0;\
border-bottom:1px solid #ddd}.verdict{font-size:1.25em}.well{color:#2a6}.wrong{color:#b30}\
h2{margin-top:2em}";

fn escaped(text: &str) -> String {
    text::escaped(&plain(text))
}

impl Report {
    pub(crate) fn to_html(&self) -> String {
        let mut out = String::from(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>nagi doctor</title><style>",
        );
        out += STYLE;
        out += "</style></head><body>\n";
        for server in &self.servers {
            of_server(&mut out, server);
        }
        if !self.differences.is_empty() {
            out += "<h2>Where the servers differ</h2>\n";
            list(&mut out, self.differences.iter().map(String::as_str));
        }
        out + "</body></html>\n"
    }
}

fn of_server(out: &mut String, server: &ServerReport) {
    let (observation, diagnosis) = match &server.examined {
        Ok(examined) => examined,
        Err(why) => {
            let text = format!("{}: could not be observed: {why}", server.url);
            *out += &format!("<p class=\"wrong\">{}</p>\n", escaped(&text));
            return;
        }
    };
    *out += &format!("<p>{}</p>\n", escaped(&heading(&server.url, observation)));
    let (class, verdict) = match diagnosis.found.first() {
        Some(first) => ("wrong", &*first.evidence.verdict),
        None => ("well", "Nothing wrong was found from here."),
    };
    *out += &format!("<p class=\"verdict {class}\">{}</p>\n", escaped(verdict));
    for diagnosed in &diagnosis.found {
        details(out, diagnosed);
    }
    if !diagnosis.noticed.is_empty() {
        *out += "<h2>Worth knowing</h2>\n";
        list(out, diagnosis.noticed.iter().map(|it| &*it.evidence.verdict));
    }
    if !diagnosis.healthy.is_empty() {
        *out += "<h2>Checked, nothing wrong</h2>\n";
        let healthy: Vec<&str> = diagnosis.healthy.iter().map(|finding| finding.name).collect();
        *out += &format!("<p>{}</p>\n", escaped(&healthy.join(", ")));
    }
    if !diagnosis.unknown.is_empty() {
        *out += "<h2>Not enough evidence, and what is needed</h2>\n";
        let rows = diagnosis.unknown.iter().map(|(finding, needed)| (finding.name, &**needed));
        table(out, rows);
    }
    if !observation.unseen.is_empty() {
        *out += "<h2>What could not be checked</h2>\n";
        list(out, observation.unseen.iter().map(String::as_str));
    }
}

fn details(out: &mut String, diagnosed: &Diagnosed) {
    *out += &format!("<h2>{}</h2>\n", escaped(diagnosed.finding.name));
    if let Some(cause) = diagnosed.explained_by {
        *out += &format!("<p>Explained by {}: ", escaped(cause));
        *out += &format!("{}</p>\n", escaped(&diagnosed.evidence.verdict));
    }
    table(out, diagnosed.evidence.numbers.iter().map(|(name, value)| (&**name, &**value)));
    if diagnosed.explained_by.is_none() {
        *out += "<p>What to do</p>\n";
        list(out, diagnosed.finding.remedies.iter().copied());
    }
}

fn table<'a>(out: &mut String, rows: impl Iterator<Item = (&'a str, &'a str)>) {
    *out += "<table>\n";
    for (name, value) in rows {
        *out += &format!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value));
    }
    *out += "</table>\n";
}

fn list<'a>(out: &mut String, items: impl Iterator<Item = &'a str>) {
    *out += "<ul>\n";
    for item in items {
        *out += &format!("<li>{}</li>\n", escaped(item));
    }
    *out += "</ul>\n";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_a_page_is_escaped() {
        let report = Report::new(vec![("<script>".to_owned(), Err("\"&\x1b".to_owned()))]);
        let page = report.to_html();
        assert!(!page.contains("<script>") && !page.contains('\x1b'), "{page}");
        assert!(page.contains("&lt;script&gt;") && page.contains("&quot;&amp;"), "{page}");
    }
}
