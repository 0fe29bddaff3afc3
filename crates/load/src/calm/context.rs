//! The arguments of a disturbance's functions, with operations that several disturbances share.

use nagi_client::{Protocol, encode_command};

use super::probe::{self, PREFIX};
use super::scale::Scale;
use super::server::Server;
use super::settings::Settings;
use crate::clock::{SECOND, now_ns};
use crate::wire::Wire;

/// Requests sent before waiting for their answers.
const BATCH: u64 = 200;

/// Approximate memory that a small key takes, in bytes, including its value and the server's
/// overhead.
pub(crate) const SMALL_KEY_BYTES: u64 = 200;

/// A step on one server.
pub(crate) struct StepContext<'a> {
    pub(crate) server: &'a Server,
    pub(crate) scale: &'a Scale,
    pub(crate) settings: Settings<'a>,
    /// When the prepared keys expire, in milliseconds since 1970.
    pub(crate) due_unix_ms: u64,
    /// The number of keys when all of them were last checked to be the tool's.
    own_keys: u64,
}

impl<'a> StepContext<'a> {
    pub(crate) fn new(server: &'a Server, scale: &'a Scale) -> Self {
        let settings = Settings::new(server);
        StepContext { server, scale, settings, due_unix_ms: 0, own_keys: 0 }
    }

    pub(crate) fn speaks(&self, protocol: Protocol) -> bool {
        self.server.target.protocol == protocol
    }

    /// Opens a connection for answers that are long on purpose.
    ///
    /// # Errors
    /// The server is gone.
    pub(crate) fn patient(&self) -> Result<Wire, String> {
        let mut wire = self.server.connect()?;
        wire.limit_pauses();
        Ok(wire)
    }

    /// Writes the keys numbered `range`, each with a value of `bytes` bytes, without expiry.
    ///
    /// # Errors
    /// The server refuses a write, or is gone.
    pub(crate) fn fill(&self, range: std::ops::Range<u64>, bytes: usize) -> Result<(), String> {
        self.fill_until(range, bytes, |_| None)
    }

    /// The same, with the expiry of each in milliseconds of the system clock.
    pub(crate) fn fill_until(
        &self,
        range: std::ops::Range<u64>,
        bytes: usize,
        expiry: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), String> {
        let mut wire = self.server.connect()?;
        let value = vec![b'x'; bytes];
        let mut request = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let end = range.end.min(next + BATCH);
            request.clear();
            for number in next..end {
                write(wire.protocol, number, &value, expiry(number), &mut request);
            }
            self.server.written.small_keys(end - next, end);
            wire.send(&request)?;
            for _ in next..end {
                self.stored(&mut wire)?;
            }
            next = end;
        }
        Ok(())
    }

    /// Reads the answer to one write.
    ///
    /// # Errors
    /// The server refuses the write, or is gone.
    pub(crate) fn stored(&self, wire: &mut Wire) -> Result<(), String> {
        let refusal = match wire.protocol {
            Protocol::Resp => wire.answer()?.or_error("SET").err(),
            Protocol::Memcached => Some(wire.line()?)
                .filter(|line| line != "STORED")
                .map(|line| format!("set: {line}")),
        };
        let Some(refusal) = refusal else { return Ok(()) };
        self.server.written.refusal();
        Err(refusal)
    }

    /// Checks that all keys are the tool's, and counts them for [`Self::check_unchanged`]. The
    /// check may take long, so it is part of the preparation.
    ///
    /// # Errors
    /// There are keys of another client, or the server is gone.
    pub(crate) fn check_own(&mut self) -> Result<(), String> {
        let mut wire = self.server.connect()?;
        // All keys of the probe are written now, so that the probe no longer changes the number of
        // keys.
        for number in 0..probe::KEYS {
            let mut request = Vec::new();
            probe::encode(wire.protocol, 2 * number, &mut request);
            self.server.written.probe_key(number + 1);
            wire.send(&request)?;
            self.stored(&mut wire)?;
        }
        self.own_keys = self.server.check_own(&mut wire)?;
        Ok(())
    }

    /// Checks that the number of keys has not changed since [`Self::check_own`]. A flush must
    /// follow at once.
    ///
    /// # Errors
    /// The number of keys has changed, or the server is gone.
    pub(crate) fn check_unchanged(&self, wire: &mut Wire) -> Result<(), String> {
        if self.server.may_destroy {
            return Ok(());
        }
        match self.server.keys_with(wire)? {
            keys if keys == self.own_keys => Ok(()),
            keys => Err(format!(
                "{} keys became {keys} before the flush: nothing is removed",
                self.own_keys
            )),
        }
    }

    /// Waits until only the few keys of the probe are left, for at most `seconds`.
    ///
    /// # Errors
    /// The server is gone, or the user has interrupted the run.
    pub(crate) fn wait_for_few_keys(&self, seconds: u64) -> Result<(), String> {
        let give_up_ns = now_ns() + seconds * SECOND;
        while self.server.keys()? > 1000 && now_ns() < give_up_ns {
            self.server.interrupt.sleep_until(now_ns() + SECOND / 10)?;
        }
        Ok(())
    }
}

/// Appends the request that writes a key.
fn write(protocol: Protocol, number: u64, value: &[u8], expiry: Option<u64>, out: &mut Vec<u8>) {
    let key = format!("{PREFIX}key:{number}");
    match (protocol, expiry) {
        (Protocol::Resp, None) => encode_command(&[b"SET", key.as_bytes(), value], out),
        (Protocol::Resp, Some(unix_ms)) => {
            let at = unix_ms.to_string();
            encode_command(&[b"SET", key.as_bytes(), value, b"PXAT", at.as_bytes()], out);
        }
        (Protocol::Memcached, _) => {
            let unix = expiry.unwrap_or_default().div_ceil(1000);
            out.extend_from_slice(format!("set {key} 0 {unix} {}\r\n", value.len()).as_bytes());
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
}
