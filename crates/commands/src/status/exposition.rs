//! Prometheus' text format and OpenMetrics. They differ in the names of counters, in units, and in
//! the end of a page.

use std::fmt::Write as _;

/// The format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that an Accept header prefers; with equal preference, OpenMetrics if it is named
    /// explicitly.
    #[must_use]
    pub fn accepted(accept: &str) -> Format {
        let open = preference(accept, "application/openmetrics-text");
        let text = preference(accept, "text/plain");
        let is_named = open.range == Range::Exact;
        match open.weight > text.weight || is_named && open.weight == text.weight {
            true if open.weight > 0.0 => Format::OpenMetrics,
            _ => Format::Prometheus,
        }
    }

    /// Its media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The specificity of a range of media types, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Range {
    Nothing,
    Everything,
    OneKind,
    Exact,
}

/// The preference of an Accept header for a media type.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Preference {
    /// The most specific matching range, which takes precedence.
    range: Range,
    /// The weight from 0, a refusal, to 1.
    weight: f64,
}

/// The preference of an Accept header for a media type: RFC 9110, section 12.5.1. Of ranges that
/// differ only in parameters, such as versions, the one with the highest weight counts.
fn preference(accept: &str, wanted: &str) -> Preference {
    let kind = wanted.split('/').next().unwrap_or_default();
    let ranges = accept.split(',').filter_map(|word| {
        let mut parts = word.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let range = match name.split_once('/')? {
            _ if name.eq_ignore_ascii_case(wanted) => Range::Exact,
            ("*", "*") => Range::Everything,
            (named, "*") if named.eq_ignore_ascii_case(kind) => Range::OneKind,
            _ => return None,
        };
        let weight = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or(0.0))
        });
        Some(Preference { range, weight: weight.unwrap_or(1.0) })
    });
    let nothing = Preference { range: Range::Nothing, weight: 0.0 };
    ranges.fold(nothing, |best, next| {
        let is_better = (next.range, next.weight) > (best.range, best.weight);
        if is_better { next } else { best }
    })
}

/// A page being written.
pub(super) struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Exposition { format, text: String::with_capacity(32 << 10) }
    }

    /// Writes a number that may rise and fall. Its name ends with the unit, if any.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.gauges(name, help, [(String::new(), value)]);
    }

    /// Writes such a number for several labels, such as `mode="user"`.
    pub(super) fn gauges<V: std::fmt::Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        self.head(name, name, "gauge", help);
        for (labels, value) in samples {
            self.sample(name, "", &labels, value);
        }
    }

    /// Writes a number that only grows. Its name is given without the suffix `_total`.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.counters(name, help, [(String::new(), value)]);
    }

    /// Writes such a number for several labels.
    pub(super) fn counters<V: std::fmt::Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        match self.format {
            Format::Prometheus => self.head(name, &format!("{name}_total"), "counter", help),
            Format::OpenMetrics => self.head(name, name, "counter", help),
        }
        for (labels, value) in samples {
            self.sample(name, "_total", &labels, value);
        }
    }

    /// Begins a family of histograms.
    pub(super) fn histograms(&mut self, name: &str, help: &str) {
        self.head(name, name, "histogram", help);
    }

    /// Writes constant information: the value 1 with labels.
    pub(super) fn info(&mut self, name: &str, help: &str, labels: &str) {
        match self.format {
            Format::Prometheus => self.head(name, &format!("{name}_info"), "gauge", help),
            Format::OpenMetrics => self.head(name, name, "info", help),
        }
        self.sample(name, "_info", labels, 1);
    }

    /// Writes a line: a name with its suffix, labels, and a value.
    pub(super) fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &str,
        value: impl std::fmt::Display,
    ) {
        // Writing to a string cannot fail.
        let _ = match labels {
            "" => writeln!(self.text, "{name}{suffix} {value}"),
            labels => writeln!(self.text, "{name}{suffix}{{{labels}}} {value}"),
        };
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn head(&mut self, name: &str, family: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}");
        let unit = ["seconds", "bytes", "ratio"]
            .into_iter()
            .find(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')));
        if let Some(unit) = unit.filter(|_| self.format == Format::OpenMetrics) {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_differ_in_names_units_and_the_end() {
        let page = |format| {
            let mut page = Exposition::new(format);
            page.counter("nagi_received_bytes", "Bytes.", 7);
            page.gauges("nagi_busy", "Busy.", [("worker=\"0\"".to_owned(), 0.5)]);
            page.info("nagi_build", "Build.", "version=\"1\"");
            page.finish()
        };
        assert_eq!(
            page(Format::Prometheus),
            "# HELP nagi_received_bytes_total Bytes.\n# TYPE nagi_received_bytes_total counter\n\
             nagi_received_bytes_total 7\n\
             # HELP nagi_busy Busy.\n# TYPE nagi_busy gauge\nnagi_busy{worker=\"0\"} 0.5\n\
             # HELP nagi_build_info Build.\n# TYPE nagi_build_info gauge\n\
             nagi_build_info{version=\"1\"} 1\n"
        );
        assert_eq!(
            page(Format::OpenMetrics),
            "# HELP nagi_received_bytes Bytes.\n# TYPE nagi_received_bytes counter\n\
             # UNIT nagi_received_bytes bytes\nnagi_received_bytes_total 7\n\
             # HELP nagi_busy Busy.\n# TYPE nagi_busy gauge\nnagi_busy{worker=\"0\"} 0.5\n\
             # HELP nagi_build Build.\n# TYPE nagi_build info\n\
             nagi_build_info{version=\"1\"} 1\n# EOF\n"
        );
    }

    #[test]
    fn open_metrics_is_sent_on_request() {
        for (accept, expected) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain;version=0.0.4", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("text/html, application/openmetrics-text;version=1.0.0;q=0.5", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("text/plain, application/openmetrics-text;q=0.1", Format::Prometheus),
            ("text/*;q=0.2, application/openmetrics-text; Q=0.3", Format::OpenMetrics),
            ("*/*;q=0.2, application/openmetrics-text;q=0.1", Format::Prometheus),
            ("*/*, text/plain;q=0.5, application/openmetrics-text;q=0.7", Format::OpenMetrics),
            ("application/openmetrics-text;q=x", Format::Prometheus),
            // The header that Prometheus itself sends.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text;version=1.0.0,text/plain", Format::OpenMetrics),
        ] {
            assert_eq!(Format::accepted(accept), expected, "{accept}");
        }
    }
}
