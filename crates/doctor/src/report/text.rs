//! The report as text for a terminal, 80 columns wide.

use super::outcome::{Report, ServerReport};
use nagi_findings::observation::Observation;
use nagi_findings::{Diagnosed, Diagnosis, all};
use nagi_load::text::plain;
use std::fmt::{self, Display, Formatter, Write};

const COLUMNS: usize = 80;

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for server in &self.servers {
            out.write_str(&of_server(server))?;
        }
        if !self.differences.is_empty() {
            let mut text = "Where the servers differ\n".to_owned();
            for difference in &self.differences {
                wrap(&mut text, "  - ", difference);
            }
            out.write_str(&text)?;
        }
        Ok(())
    }
}

fn of_server(server: &ServerReport) -> String {
    let mut out = String::new();
    let (observation, diagnosis) = match &server.examined {
        Ok(examined) => examined,
        Err(why) => {
            wrap(&mut out, "", &format!("{}: could not be observed: {why}", server.url));
            return out + "\n";
        }
    };
    wrap(&mut out, "", &heading(&server.url, observation));
    out.push('\n');
    verdict(&mut out, diagnosis);
    section(&mut out, "Worth knowing", &diagnosis.noticed);
    let healthy: Vec<&str> = diagnosis.healthy.iter().map(|finding| finding.name).collect();
    if !healthy.is_empty() {
        out += "Checked, nothing wrong\n";
        wrap(&mut out, "  ", &healthy.join(", "));
        out.push('\n');
    }
    if !diagnosis.unknown.is_empty() {
        out += "Not enough evidence, and what is needed\n";
        for (finding, needed) in &diagnosis.unknown {
            wrap(&mut out, &format!("  {:<26}", finding.name), needed);
        }
        out.push('\n');
    }
    if !observation.unseen.is_empty() {
        out += "What could not be checked\n";
        for line in &observation.unseen {
            wrap(&mut out, "  - ", line);
        }
        out.push('\n');
    }
    out
}

/// Formats the heading: the server, the duration, and the observing host.
pub(super) fn heading(url: &str, observation: &Observation) -> String {
    let place = match (observation.host.has_server, &observation.host.process) {
        (true, Some(process)) => format!("on its own host, process {}", process.id),
        (true, None) => "on its own host, but its process is not visible".to_owned(),
        (false, _) => "from another host: socket tables are this host's, and the server's process \
                       is not visible"
            .to_owned(),
    };
    format!(
        "{url}: {}, observed for {:.0} s {place}.",
        observation.server.name, observation.seconds
    )
}

fn verdict(out: &mut String, diagnosis: &Diagnosis) {
    let Some(first) = diagnosis.found.first() else {
        *out += "Nothing wrong was found from here.\n\n";
        return;
    };
    wrap(out, "", &first.evidence.verdict);
    out.push('\n');
    for diagnosed in &diagnosis.found {
        details(out, diagnosed);
    }
}

fn section(out: &mut String, title: &str, all: &[Diagnosed]) {
    if all.is_empty() {
        return;
    }
    *out += title;
    out.push('\n');
    for diagnosed in all {
        wrap(out, &format!("  {}: ", diagnosed.finding.name), &diagnosed.evidence.verdict);
    }
    out.push('\n');
}

fn details(out: &mut String, diagnosed: &Diagnosed) {
    let explained = diagnosed.explained_by.map(|cause| format!(", explained by {cause}"));
    *out += &format!("{}{}\n", diagnosed.finding.name, explained.clone().unwrap_or_default());
    if explained.is_some() {
        wrap(out, "  ", &diagnosed.evidence.verdict);
    }
    for (name, value) in &diagnosed.evidence.numbers {
        *out += &format!("  {:<38} {}\n", plain(name), plain(value));
    }
    if explained.is_none() {
        *out += "  What to do\n";
        for remedy in diagnosed.finding.remedies {
            wrap(out, "  - ", remedy);
        }
    }
    out.push('\n');
}

/// Formats the list of all findings, for --list.
pub(crate) fn list() -> String {
    let mut out = String::new();
    for finding in all() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}", finding.name);
        wrap(&mut out, "    looks at: ", finding.looks_at);
        wrap(&mut out, "    found if: ", finding.threshold);
        if !finding.explained_by.is_empty() {
            wrap(&mut out, "    explained by: ", &finding.explained_by.join(", "));
        }
    }
    out
}

/// Breaks text into lines. The first line follows `lead`; the others are indented to the same
/// column.
pub(super) fn wrap(out: &mut String, lead: &str, text: &str) {
    let indent = lead.chars().count();
    *out += lead;
    let mut column = indent;
    for (index, word) in plain(text).split(' ').enumerate() {
        let len = word.chars().count();
        if index > 0 && column + 1 + len > COLUMNS {
            // Writing to a string cannot fail.
            let _ = write!(out, "\n{:indent$}", "");
            column = indent;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        *out += word;
        column += len;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_findings::diagnose;

    #[test]
    fn lines_are_broken_below_each_other() {
        let mut out = String::new();
        wrap(&mut out, "- ", &["word"; 20].join(" "));
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= COLUMNS), "{out}");
        assert!(lines[0].starts_with("- word") && lines[1].starts_with("  word"), "{out}");
    }

    #[test]
    fn a_report_names_what_could_not_be_observed_or_evaluated() {
        let observation = Observation::default();
        let diagnosis = diagnose(&observation);
        let examined = Ok((observation, diagnosis));
        let report = Report::new(vec![
            ("redis://a".to_owned(), examined),
            ("redis://b".to_owned(), Err("refused".to_owned())),
        ]);
        let text = report.to_string();
        assert!(text.contains("Nothing wrong was found from here."), "{text}");
        assert!(text.contains("Not enough evidence"), "{text}");
        assert!(text.contains("redis://b: could not be observed: refused"), "{text}");
        assert!(report.has_findings().is_err());
        assert_eq!(report.names(), "redis://b could not be observed");
    }
}
