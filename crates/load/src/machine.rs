//! The machine that a measurement was made on.

use serde::Serialize;

/// The description of the machine in a report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// The operating system with its version.
    pub system: String,
    /// The processor's model name.
    pub processor: String,
    /// The number of processors that this process may use.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// Describes this machine.
    #[must_use]
    pub fn this() -> Self {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let system = [uname.sysname(), uname.release(), uname.machine()].map(text).join(" ");
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let memory_kb = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Machine {
            system,
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_kb.unwrap_or_default() * 1024,
        }
    }
}

/// Returns the first value of a field in a file of `/proc`.
fn field(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(left, _)| left.trim() == name);
    found.next().map(|(_, right)| right.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 7\nmodel name\t: Some Processor\nmodel name\t: Other\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some Processor"));
        assert_eq!(field(text, "name"), None);
    }
}
