//! Reports: JSON for programs, Markdown for readers.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::contestants::Contestant;
use crate::workspace;

/// The document for benchmarks that have no separate document.
pub(super) const DOCUMENT: &str = "docs/benchmarks.md";
const SUMMARY: &str = "README.md";

/// The report of a benchmark.
pub(super) struct Report {
    /// The name of the report's file and of its section in the document, such as `throughput` or
    /// `memory`.
    pub(super) name: &'static str,
    /// The section of the document, in Markdown.
    pub(super) table: String,
    /// Text for the terminal only; may be empty.
    pub(super) details: String,
    /// The text for the README, in Markdown; may be empty.
    pub(super) summary: String,
    /// The figures for the JSON file, one object for each row: medians, without samples.
    pub(super) results: Vec<Value>,
    /// The path of the document that contains the tables.
    pub(super) document: &'static str,
    /// The plots: file names and SVG.
    pub(super) pictures: Vec<(&'static str, String)>,
}

impl Report {
    /// Writes bench/results/NAME.json, the tables in the document, and the table in the README.
    pub(super) fn write(&self, machine: &Value, contestants: &[Contestant]) -> Result<()> {
        let all = everything(machine, contestants, &self.results);
        keep(self.name, &all)?;
        self.rewrite(&about(&all))
    }

    /// Writes the results of an incomplete run, including plots, to the temporary folder.
    pub(super) fn keep_apart(&self, machine: &Value, contestants: &[Contestant]) -> Result<()> {
        if self.pictures.is_empty() {
            return Ok(());
        }
        let folder = std::env::temp_dir().join(format!("nagi-bench-{}", self.name));
        fs::create_dir_all(&folder)?;
        let all = everything(machine, contestants, &self.results);
        write_results(&folder.join("results.json"), &all)?;
        self.draw(&folder)?;
        println!("bench: plots and figures are in {}", folder.display());
        Ok(())
    }

    /// Writes tables and plots, preceded by the description `about` of the measurement.
    pub(super) fn rewrite(&self, about: &str) -> Result<()> {
        self.put(self.document, &format!("{about}\n{}", self.table))?;
        println!("bench: wrote {}", self.document);
        if !self.summary.is_empty() {
            self.put(SUMMARY, &self.summary)?;
            println!("bench: wrote {SUMMARY}");
        }
        let document = workspace::root().join(self.document);
        self.draw(document.parent().unwrap_or(workspace::root()))?;
        Ok(())
    }

    fn draw(&self, folder: &Path) -> Result<()> {
        for (name, picture) in &self.pictures {
            let path = folder.join(name);
            fs::write(&path, picture)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Replaces a section of a document.
    fn put(&self, document: &str, section: &str) -> Result<()> {
        let path = workspace::root().join(document);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {document}"))?;
        let replaced = replace_between_markers(&text, self.name, section)
            .with_context(|| format!("{document} has no place for {}", self.name))?;
        fs::write(&path, replaced).with_context(|| format!("cannot write {document}"))
    }
}

/// The folder of results.
pub(super) fn folder() -> PathBuf {
    workspace::root().join("bench/results")
}

/// Stores the results of a benchmark under `name`, replacing earlier ones.
pub(super) fn keep(name: &str, all: &Value) -> Result<()> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    write_results(&folder.join(format!("{name}.json")), all)
}

/// Returns the contents of a results file.
pub(super) fn everything(machine: &Value, contestants: &[Contestant], results: &[Value]) -> Value {
    let versions: serde_json::Map<String, Value> = contestants
        .iter()
        .map(|it| (it.name.to_owned(), Value::from(it.version.clone())))
        .collect();
    json!({ "machine": machine, "versions": versions, "results": results })
}

fn write_results(path: &Path, all: &Value) -> Result<()> {
    fs::write(path, line_by_line(all))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("bench: wrote {}", path.display());
    Ok(())
}

/// Formats JSON with one line for each member of the values in `all`, and with rounded numbers.
fn line_by_line(all: &Value) -> String {
    let nothing = serde_json::Map::new();
    let sections = all.as_object().unwrap_or(&nothing).iter().map(|(name, section)| {
        let (opening, closing, lines) = match section {
            Value::Object(members) => {
                let member =
                    |(key, it): (&String, &Value)| format!("{}: {}", json!(key), rounded(it));
                ('{', '}', members.iter().map(member).collect::<Vec<_>>())
            }
            Value::Array(rows) => {
                ('[', ']', rows.iter().map(|it| rounded(it).to_string()).collect())
            }
            other => return format!("  {}: {other}", json!(name)),
        };
        format!("  {}: {opening}\n    {}\n  {closing}", json!(name), lines.join(",\n    "))
    });
    format!("{{\n{}\n}}\n", sections.collect::<Vec<_>>().join(",\n"))
}

/// Rounds each number that is not an integer to six digits.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            Value::from(format!("{number:.5e}").parse().unwrap_or(number))
        }
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, it)| (name.clone(), rounded(it))).collect::<Value>()
        }
        other => other.clone(),
    }
}

/// Describes the measurement in one paragraph, from the contents of a results file.
pub(super) fn about(all: &Value) -> String {
    let nothing = serde_json::Map::new();
    let versions = all.get("versions").and_then(Value::as_object).unwrap_or(&nothing);
    let machine = all.get("machine").unwrap_or(&Value::Null);
    let fact = |name: &str| match machine.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    // The responder is a part of nagi and has nagi's version.
    let versions = versions.iter().filter(|(name, _)| *name != "responder");
    let versions: Vec<String> = versions
        .filter_map(|(name, version)| Some(format!("{name} {}", version.as_str()?)))
        .collect();
    let versions =
        if versions.is_empty() { String::new() } else { format!("; {}", versions.join(", ")) };
    format!(
        "`{}` on {}, revision {}, {}: {} with {} cores, Linux {}, load average before it \
         {}{versions}.\n",
        fact("command"),
        fact("date"),
        fact("revision"),
        fact("settings"),
        fact("cpu"),
        fact("cores"),
        fact("kernel"),
        fact("load_average_before"),
    )
}

/// Replaces the text between `<!-- NAME:begin -->` and `<!-- NAME:end -->` by `section`. Returns
/// `None` if one of the markers is missing.
pub(crate) fn replace_between_markers(text: &str, name: &str, section: &str) -> Option<String> {
    let begin = format!("<!-- {name}:begin -->");
    let end = format!("<!-- {name}:end -->");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", section.trim()))
}

/// Formats `value` as a multiple of `base`.
pub(super) fn ratio(value: f64, base: f64) -> String {
    format!("{:.2}", value / base)
}

/// A Markdown table with aligned columns.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the rows as objects, whose fields are named like the columns.
    pub(super) fn to_json(&self) -> Vec<Value> {
        let Some((header, rows)) = self.rows.split_first() else { return Vec::new() };
        let value = |cell: &String| match cell.parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::from(cell.clone()),
        };
        let object = |row: &Vec<String>| {
            header.iter().zip(row).map(|(name, cell)| (name.clone(), value(cell))).collect()
        };
        rows.iter().map(object).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for (index, row) in self.rows.iter().enumerate() {
            for (cell, width) in row.iter().zip(&widths) {
                write!(formatter, "| {cell:width$} ")?;
            }
            writeln!(formatter, "|")?;
            if index == 0 {
                for width in &widths {
                    write!(formatter, "|{}", "-".repeat(width + 2))?;
                }
                writeln!(formatter, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, line_by_line, replace_between_markers};
    use serde_json::{Value, json};

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let text = "# A\n<!-- m:begin -->\nold\n<!-- m:end -->\nrest\n";
        let replaced = replace_between_markers(text, "m", "new\n").unwrap();
        assert_eq!(replaced, "# A\n<!-- m:begin -->\n\nnew\n\n<!-- m:end -->\nrest\n");
        assert_eq!(replace_between_markers(text, "other", "new"), None);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["a", "µs"]);
        table.row(vec!["long".into(), "1".into()]);
        assert_eq!(table.to_string(), "| a    | µs |\n|------|----|\n| long | 1  |\n");
        assert_eq!(table.to_json(), [json!({"a": "long", "µs": 1})]);
    }

    #[test]
    fn a_result_is_one_line_with_rounded_numbers() {
        let rows = json!([{"us": 1.234_567_89, "bytes": [104_857_612.0, 7]}, {"us": 0.5}]);
        let written = line_by_line(&json!({"machine": {"cores": 2}, "results": rows}));
        let machine = "\"machine\": {\n    \"cores\": 2\n  }";
        let first = "{\"bytes\":[104858000.0,7],\"us\":1.23457}";
        let results = format!("\"results\": [\n    {first},\n    {{\"us\":0.5}}\n  ]");
        assert_eq!(written, format!("{{\n  {machine},\n  {results}\n}}\n"));
        assert!(serde_json::from_str::<Value>(&written).is_ok());
    }
}
