//! Stores completed repetitions of disturbances, so that an interrupted run can be resumed: a
//! repetition takes more than a quarter of an hour.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::contestants::Contestant;
use super::super::machine;
use crate::workspace;

/// The repetitions of a run, one file for each.
pub(super) struct Saved {
    folder: PathBuf,
    /// The versions of the servers, which must be the same for all repetitions.
    servers: Value,
}

impl Saved {
    /// Begins a run. Continues the last one if `resume` is set.
    pub(super) fn begin(contestants: &[&Contestant], resume: bool) -> Result<Self> {
        let revision = machine::revision();
        let folder = workspace::root().join(format!("target/calm-{revision}"));
        if resume {
            ensure!(!revision.ends_with("dirty"), "--resume needs a clean revision: commit first");
        } else if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let server = |it: &&Contestant| json!([it.name, it.version, it.program()]);
        Ok(Saved { folder, servers: contestants.iter().map(server).collect() })
    }

    /// Returns a repetition if it has been completed.
    pub(super) fn load(&self, repetition: u32) -> Result<Option<Value>> {
        let file = self.file(repetition);
        if !file.exists() {
            return Ok(None);
        }
        let name = || file.display().to_string();
        let mut saved: Value =
            serde_json::from_slice(&fs::read(&file).with_context(name)?).with_context(name)?;
        let is_same = saved.get("servers") == Some(&self.servers);
        ensure!(is_same, "{} was measured with other servers: run without --resume", name());
        println!("bench: {} has been measured before", name());
        Ok(saved.get_mut("run").map(Value::take))
    }

    /// Stores a completed repetition.
    pub(super) fn keep(&self, repetition: u32, run: &Value) -> Result<()> {
        let file = self.file(repetition);
        let part = file.with_extension("part");
        let saved = json!({ "servers": self.servers, "run": run });
        fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&part, saved.to_string()))
            .and_then(|()| fs::rename(&part, &file))
            .with_context(|| file.display().to_string())
    }

    /// Removes the files when the run is complete.
    pub(super) fn finish(self) -> Result<()> {
        match self.folder.exists() {
            true => {
                fs::remove_dir_all(&self.folder).with_context(|| self.folder.display().to_string())
            }
            false => Ok(()),
        }
    }

    fn file(&self, repetition: u32) -> PathBuf {
        self.folder.join(format!("{repetition}.json"))
    }
}
