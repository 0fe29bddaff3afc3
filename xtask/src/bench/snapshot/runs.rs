//! Stored runs: one file for each size of data, so that a size can be measured again separately.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::contestants::Contestant;
use super::super::{machine, report};
use super::row::Row;

/// The results of every server with one size of data.
pub(super) struct Run {
    pub(super) gigabytes: f64,
    /// A sentence that says where and when the run was measured.
    pub(super) about: String,
    pub(super) rows: Vec<Row>,
    /// The contents of the run's file.
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

    /// Returns the settings of the run, unless they are the default settings.
    pub(super) fn unusual_settings(&self) -> Option<&str> {
        let settings = self.all.pointer("/machine/settings")?.as_str()?;
        Some(settings).filter(|settings| *settings != machine::SETTINGS)
    }

    /// Stores the run, replacing an earlier one.
    pub(super) fn keep(&self) -> Result<()> {
        report::keep(&format!("snapshot-{}gb", self.gigabytes), &self.all)
    }
}

/// Returns the last run of each stored size, the smallest size first.
pub(super) fn last() -> Result<Vec<Run>> {
    let folder = report::folder();
    let names = fs::read_dir(&folder)?.flatten().filter_map(|it| it.file_name().into_string().ok());
    let runs = names.filter(|name| is_of_snapshots(name)).map(|name| Run::read(&folder.join(name)));
    let mut runs = runs.collect::<Result<Vec<Run>>>()?;
    runs.sort_by(|a, b| a.gigabytes.total_cmp(&b.gigabytes));
    Ok(runs)
}

/// Whether the name of a file has the form `snapshot-4gb.json`.
fn is_of_snapshots(name: &str) -> bool {
    let size = name.strip_prefix("snapshot-").and_then(|rest| rest.strip_suffix("gb.json"));
    size.is_some_and(|size| size.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::is_of_snapshots;

    #[test]
    fn files_of_one_size_each_are_found() {
        assert!(is_of_snapshots("snapshot-4gb.json") && is_of_snapshots("snapshot-0.25gb.json"));
        for other in ["snapshot.json", "snapshot-gb.json", "memory.json", "x"] {
            assert!(!is_of_snapshots(other), "{other}");
        }
    }
}
