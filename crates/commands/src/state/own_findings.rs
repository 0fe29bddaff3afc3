//! Faults that this server has detected in itself, as of the last sample.

use nagi_findings::{Diagnosed, Diagnosis};
use parking_lot::Mutex;
use std::sync::Arc;

/// The latest diagnosis. The sampler sets it once a second, any thread reads.
#[derive(Debug, Default)]
pub(crate) struct OwnFindings(Mutex<Arc<Diagnosis>>);

impl OwnFindings {
    pub(crate) fn set(&self, diagnosis: Arc<Diagnosis>) {
        *self.0.lock() = diagnosis;
    }

    /// A line for each fault, with its first remedy; empty if there are no faults.
    pub(crate) fn lines(&self) -> String {
        // The lock is held: the sampler must be the thread that frees the diagnosis, since it has
        // allocated it as overhead.
        let diagnosis = self.0.lock();
        diagnosis.findings().map(|(level, diagnosed)| line(level, diagnosed)).collect()
    }
}

fn line(level: &str, diagnosed: &Diagnosed) -> String {
    let remedy = diagnosed.finding.remedies.first().copied().unwrap_or_default();
    format!("* {level} {}: {} {remedy}\n", diagnosed.finding.name, diagnosed.evidence.verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_findings::diagnose_from_within;
    use nagi_findings::observation::Observation;

    #[test]
    fn each_finding_is_a_line_with_its_first_remedy() {
        let findings = OwnFindings::default();
        assert_eq!(findings.lines(), "");
        let mut observation = Observation { seconds: 20.0, ..<_>::default() };
        let mut set = |name: &str, value: &str| {
            observation.server.counters.after.insert(name.to_owned(), value.to_owned())
        };
        set("rdb_last_bgsave_status", "err");
        set("connected_clients", "85");
        set("maxclients", "100");
        findings.set(Arc::new(diagnose_from_within(&observation)));
        let text = findings.lines();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("* finding failed-saves: Saving fails: the last save failed"));
        assert!(lines[0].contains("Read the reason in the server's log"), "{text}");
        assert!(lines[1].starts_with("* notice clients-refused: The server will soon refuse"));
    }
}
