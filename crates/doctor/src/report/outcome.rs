//! The result of a run, before it is formatted as text, a page or JSON.

use super::differences;
use nagi_findings::Diagnosis;
use nagi_findings::observation::Observation;
use nagi_load::clock::since_1970;

/// The results of a run for all servers.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) servers: Vec<ServerReport>,
    /// Differences between servers, one line each.
    pub(super) differences: Vec<String>,
    pub(super) unix_seconds: u64,
}

/// The report on one server.
#[derive(Debug)]
pub(super) struct ServerReport {
    /// The URL of the server without its password.
    pub(super) url: String,
    /// The observation and its diagnosis, or why the server could not be observed.
    pub(super) examined: Examined,
}

/// An observation and its diagnosis, or why there is none.
pub(crate) type Examined = Result<(Observation, Diagnosis), String>;

impl Report {
    pub(crate) fn new(servers: Vec<(String, Examined)>) -> Self {
        let servers: Vec<ServerReport> =
            servers.into_iter().map(|(url, examined)| ServerReport { url, examined }).collect();
        let differences = differences::between(
            servers
                .iter()
                .filter_map(|server| Some((&*server.url, &server.examined.as_ref().ok()?.0))),
        );
        Report { servers, differences, unix_seconds: since_1970().as_secs() }
    }

    pub(crate) fn has_no_observation(&self) -> bool {
        self.servers.iter().all(|server| server.examined.is_err())
    }

    /// # Errors
    /// Servers could not be observed, and the others have no faults; the error is one line.
    pub(crate) fn has_findings(&self) -> Result<bool, String> {
        let mut examined = self.servers.iter().filter_map(|server| server.examined.as_ref().ok());
        if examined.any(|(_, diagnosis)| !diagnosis.found.is_empty()) {
            return Ok(true);
        }
        let reasons = self.servers.iter().filter_map(|server| server.examined.as_ref().err());
        let reasons: Vec<&str> = reasons.map(String::as_str).collect();
        if reasons.is_empty() { Ok(false) } else { Err(reasons.join("; ")) }
    }

    /// Lists the names of findings, and the servers that could not be observed.
    pub(crate) fn names(&self) -> String {
        let names = self.servers.iter().flat_map(|server| match &server.examined {
            Ok((_, diagnosis)) => {
                diagnosis.found.iter().map(|it| it.finding.name.to_owned()).collect::<Vec<_>>()
            }
            Err(_) => vec![format!("{} could not be observed", server.url)],
        });
        let names: Vec<String> = names.collect();
        if names.is_empty() { "nothing is wrong".to_owned() } else { names.join(", ") }
    }

    /// Formats the time of the run in UTC.
    pub(crate) fn time(&self) -> String {
        let of_day = self.unix_seconds % 86_400;
        format!("{:02}:{:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60, of_day % 60)
    }
}
