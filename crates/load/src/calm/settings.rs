//! Changes settings for a step, and restores the previous values when the step ends, even if it
//! fails.

use std::io::Write as _;

use nagi_client::Protocol;

use super::server::Server;
use crate::clock::SECOND;
use crate::interrupt::Interrupt;
use crate::text::plain;
use crate::wire::Answer;

/// How long restoring a setting may take: the server may still be busy with the step.
const RESTORE_TIMEOUT_NS: u64 = 60 * SECOND;

/// Changed settings and their previous values, which are restored on drop.
pub(crate) struct Settings<'a> {
    server: &'a Server,
    changed: Vec<Changed>,
}

/// A changed setting, with its previous and its new value.
pub(crate) struct Changed {
    pub(crate) name: String,
    pub(crate) before: String,
    pub(crate) value: String,
}

impl<'a> Settings<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        Settings { server, changed: Vec::new() }
    }

    /// Changes a setting with CONFIG SET, and keeps its previous value.
    ///
    /// # Errors
    /// The server refuses.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let mut wire = self.server.connect()?;
        let found = wire.run(&format!("CONFIG GET {name}"))?;
        let Answer::Array(pair) = found else {
            return Err(format!("CONFIG GET {name}: no such setting"));
        };
        let before = pair.get(1).map(Answer::text).ok_or_else(|| format!("no setting {name}"))?;
        // If the answer is lost, the setting may have been changed.
        self.changed.push(Changed { name: name.to_owned(), before, value: value.to_owned() });
        let answer = wire.command(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()])?;
        let set = answer.or_error(&format!("CONFIG SET {name}"));
        set.inspect_err(|_| drop(self.changed.pop())).map(drop)
    }

    /// Changes memcached's memory limit, in MB, and keeps its previous value.
    ///
    /// # Errors
    /// The server refuses, or its previous limit could not be restored.
    pub(crate) fn set_memlimit(&mut self, megabytes: u64) -> Result<(), String> {
        let before = self.server.limit_bytes()?.ok_or("stats have no limit_maxbytes")?;
        let before = whole_megabytes(before)?.to_string();
        let (name, value) = ("cache_memlimit".to_owned(), megabytes.to_string());
        let mut wire = self.server.connect()?;
        self.changed.push(Changed { name, before, value });
        match wire.lines(&format!("cache_memlimit {megabytes}"))?.concat().as_str() {
            "OK" => Ok(()),
            text => {
                self.changed.pop();
                Err(format!("cache_memlimit {megabytes}: {text}"))
            }
        }
    }

    /// The settings that are changed and not restored.
    pub(crate) fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// Restores all settings, the last change first.
    ///
    /// # Errors
    /// A setting could not be restored; the error names the setting and its previous value.
    pub(crate) fn restore(&mut self) -> Result<(), String> {
        let mut failures = Vec::new();
        while let Some(Changed { name, before, .. }) = self.changed.pop() {
            if let Err(why) = self.restore_one(&name, &before) {
                failures.push(format!(
                    "{}: {name} could not be restored to \"{before}\": {why}",
                    self.server.target.name
                ));
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    fn restore_one(&self, name: &str, value: &str) -> Result<(), String> {
        // Settings are restored after an interrupt as well.
        let mut wire = crate::wire::Wire::open(&self.server.target, &Interrupt::default())?;
        wire.set_answer_timeout(RESTORE_TIMEOUT_NS);
        if self.server.target.protocol == Protocol::Memcached {
            let answer = wire.lines(&format!("{name} {value}"))?.concat();
            return if answer == "OK" { Ok(()) } else { Err(answer) };
        }
        wire.command(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()])?
            .or_error("CONFIG SET")
            .map(drop)
    }
}

/// Converts a memory limit to megabytes, the unit of `cache_memlimit`.
///
/// # Errors
/// The limit is not a whole number of megabytes, as nagi's `maxmemory` may be.
pub(crate) fn whole_megabytes(limit_bytes: u64) -> Result<u64, String> {
    if !limit_bytes.is_multiple_of(1 << 20) {
        return Err(format!(
            "its limit of {limit_bytes} bytes is not a whole number of MB, so cache_memlimit could \
             not restore it: set such a limit, or use redis://"
        ));
    }
    Ok(limit_bytes >> 20)
}

impl Drop for Settings<'_> {
    fn drop(&mut self) {
        if let Err(why) = self.restore() {
            // A failure to write the message does not change the outcome.
            let _ = writeln!(std::io::stderr(), "nagi calm: {}", plain(&why));
        }
    }
}
