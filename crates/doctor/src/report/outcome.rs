//! What a run has found, before it is text, a page or JSON.

use super::differences;
use crate::findings::Diagnosis;
use crate::observation::Observation;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a run has found, of all servers.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) servers: Vec<Seen>,
    /// In what servers differ, one line each.
    pub(super) differences: Vec<String>,
    pub(super) unix_seconds: u64,
}

/// What was seen of a server.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its URL without its password.
    pub(super) url: String,
    /// Why it could not be looked at, where that is so.
    pub(super) looked: Looked,
}

/// What was seen and what it means, or why nothing could be seen.
pub(crate) type Looked = Result<(Observation, Diagnosis), String>;

impl Report {
    pub(crate) fn new(servers: Vec<(String, Looked)>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let servers: Vec<Seen> =
            servers.into_iter().map(|(url, looked)| Seen { url, looked }).collect();
        let differences = differences::between(
            servers.iter().filter_map(|seen| Some((&*seen.url, &seen.looked.as_ref().ok()?.0))),
        );
        Report { servers, differences, unix_seconds: now.as_secs() }
    }

    pub(crate) fn has_seen_nothing(&self) -> bool {
        self.servers.iter().all(|seen| seen.looked.is_err())
    }

    /// # Errors
    /// Servers could not be looked at, and nothing is known to be wrong with the rest; one line.
    pub(crate) fn is_anything_wrong(&self) -> Result<bool, String> {
        let mut looked = self.servers.iter().filter_map(|seen| seen.looked.as_ref().ok());
        if looked.any(|(_, diagnosis)| !diagnosis.found.is_empty()) {
            return Ok(true);
        }
        let reasons = self.servers.iter().filter_map(|seen| seen.looked.as_ref().err());
        let reasons: Vec<&str> = reasons.map(String::as_str).collect();
        if reasons.is_empty() { Ok(false) } else { Err(reasons.join("; ")) }
    }

    /// What was found, by name.
    pub(crate) fn names(&self) -> String {
        let found = self.servers.iter().filter_map(|seen| seen.looked.as_ref().ok());
        let names = found.flat_map(|(_, diagnosis)| &diagnosis.found);
        let names: Vec<&str> = names.map(|it| it.finding.name).collect();
        if names.is_empty() { "nothing is wrong".to_owned() } else { names.join(", ") }
    }

    /// When, as UTC.
    pub(crate) fn time(&self) -> String {
        let of_day = self.unix_seconds % 86_400;
        format!("{:02}:{:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60, of_day % 60)
    }
}
