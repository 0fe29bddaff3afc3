//! Runs as they are kept: a file for each size of data, of which the newest counts. So one size
//! can be measured again without the others.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::contestants::Contestant;
use super::super::report;
use super::row::Row;

/// Every server with one size of data.
pub(super) struct Run {
    pub(super) gigabytes: f64,
    /// Where and when, in a sentence.
    pub(super) about: String,
    pub(super) rows: Vec<Row>,
    /// Everything that its file says.
    pub(super) all: Value,
}

impl Run {
    pub(super) fn new(machine: &Value, contestants: &[Contestant], rows: Vec<Row>) -> Self {
        let results: Vec<Value> = rows.iter().map(Row::as_json).collect();
        Run::of(report::everything(machine, contestants, &results), rows)
    }

    fn of(all: Value, rows: Vec<Row>) -> Self {
        let gigabytes = rows.first().map_or(0.0, |row| row.gigabytes);
        Run { gigabytes, about: report::about(&all), rows, all }
    }

    fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let all: Value = serde_json::from_slice(&text)?;
        let rows = serde_json::from_value(all.get("results").cloned().unwrap_or_default())?;
        Ok(Run::of(all, rows))
    }

    /// Writes it down, in place of an earlier one of the same day.
    pub(super) fn keep(&self) -> Result<()> {
        report::keep(&format!("snapshot-{}gb", self.gigabytes), &self.all)
    }
}

/// The newest run with each size that there is one of, the smallest first.
pub(super) fn newest() -> Result<Vec<Run>> {
    let folder = report::folder();
    let names = fs::read_dir(&folder)?.flatten().filter_map(|it| it.file_name().into_string().ok());
    let runs = newest_of(names.collect()).into_iter().map(|name| Run::read(&folder.join(name)));
    let mut runs = runs.collect::<Result<Vec<Run>>>()?;
    runs.sort_by(|a, b| a.gigabytes.total_cmp(&b.gigabytes));
    Ok(runs)
}

/// Of names such as `2026-11-22-snapshot-4gb.json` the last of each size.
fn newest_of(mut names: Vec<String>) -> Vec<String> {
    const DATE_LEN: usize = "2026-11-22".len();
    names.sort();
    let mut newest = BTreeMap::new();
    for name in names {
        let size = name.get(DATE_LEN..).and_then(|rest| rest.strip_prefix("-snapshot-"));
        if let Some(size) = size.and_then(|rest| rest.strip_suffix("gb.json")) {
            newest.insert(size.to_owned(), name.clone());
        }
    }
    newest.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::newest_of;

    #[test]
    fn the_last_of_each_size_counts() {
        let names = [
            "2026-11-22-snapshot-4gb.json",
            "2026-11-23-snapshot-1gb.json",
            "2026-11-21-snapshot-1gb.json",
            "2026-11-22-snapshot.json",
            "2026-11-24-memory.json",
            "x",
        ];
        let newest = newest_of(names.map(str::to_owned).to_vec());
        assert_eq!(newest, ["2026-11-23-snapshot-1gb.json", "2026-11-22-snapshot-4gb.json"]);
    }
}
