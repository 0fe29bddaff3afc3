//! Determines whether a returning server is still the same process.
//!
//! A process keeps its identifier, and its uptime only grows, whatever clock the server uses. The
//! time of day is not compared, because it jumps when the clock is set and after a machine has been
//! suspended.

/// The identity of a server's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Redis' `run_id`, which differs after each start.
    run: Option<String>,
    process: Option<String>,
    uptime_seconds: Option<u64>,
}

impl Identity {
    /// Reads the identity from memcached's `stats` or Redis' INFO. Returns `None` if they do not
    /// identify the process.
    pub(super) fn read(pairs: &[(String, String)]) -> Option<Self> {
        let identity = Identity {
            run: field(pairs, "run_id").map(str::to_owned),
            process: field(pairs, "pid").or(field(pairs, "process_id")).map(str::to_owned),
            uptime_seconds: field(pairs, "uptime")
                .or(field(pairs, "uptime_in_seconds"))
                .and_then(|seconds| seconds.parse().ok()),
        };
        (identity.run.is_some() || identity.process.is_some()).then_some(identity)
    }

    /// Whether the process with this identity certainly started after the process with the
    /// `earlier` identity answered. In containers, different processes may have the same
    /// identifier.
    pub(super) fn is_newer_than(&self, earlier: &Identity) -> bool {
        if let (Some(run), Some(earlier)) = (&self.run, &earlier.run) {
            return run != earlier;
        }
        if let (Some(process), Some(earlier)) = (&self.process, &earlier.process)
            && process != earlier
        {
            return true;
        }
        let ages = self.uptime_seconds.zip(earlier.uptime_seconds);
        ages.is_some_and(|(age, earlier)| age < earlier)
    }
}

/// Whether a server reports that it started empty: memcached in `stats settings`, Redis since 7.0
/// in the persistence section of INFO. A server that loads a dump file would restore old values.
pub(super) fn starts_empty(pairs: &[(String, String)]) -> bool {
    let is = |name, expected| field(pairs, name) == Some(expected);
    is("memory_file", "(null)") || is("aof_enabled", "0") && is("rdb_last_load_keys_loaded", "0")
}

fn field<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let (_, value) = pairs.iter().find(|(key, _)| key == name)?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn only_certain_signs_count_as_a_restart() {
        let is_newer = |now, earlier| {
            let read = |text| Identity::read(&pairs(text)).unwrap();
            read(now).is_newer_than(&read(earlier))
        };
        for (now, earlier, expected) in [
            ("pid=7 uptime=100 time=5000", "pid=7 uptime=90 time=1", false),
            ("pid=8 uptime=100", "pid=7 uptime=90", true),
            ("pid=1 uptime=3", "pid=1 uptime=90", true),
            ("pid=1 uptime=90", "pid=1 uptime=90", false),
            ("run_id=a process_id=1 uptime_in_seconds=3", "run_id=a process_id=1", false),
            ("run_id=b process_id=1", "run_id=a process_id=1", true),
            // After the clock is set back, Redis reports a lower uptime.
            ("run_id=a uptime_in_seconds=3", "run_id=a uptime_in_seconds=9", false),
        ] {
            assert_eq!(is_newer(now, earlier), expected, "{now}, earlier {earlier}");
        }
        assert_eq!(Identity::read(&pairs("uptime=7")), None);
    }

    #[test]
    fn servers_that_load_values_do_not_start_empty() {
        for (text, expected) in [
            ("memory_file=(null)", true),
            ("memory_file=/mnt/pmem/file", false),
            ("maxbytes=67108864", false),
            ("aof_enabled=0 rdb_last_load_keys_loaded=0", true),
            ("aof_enabled=1 rdb_last_load_keys_loaded=0", false),
            ("aof_enabled=0 rdb_last_load_keys_loaded=12", false),
            ("aof_enabled=0", false),
        ] {
            assert_eq!(starts_empty(&pairs(text)), expected, "{text}");
        }
    }
}
