//! The context for the functions of a disturbance.

use nagi_client::{Protocol, encode_command};

use super::probe::PREFIX;
use super::scale::Scale;
use super::server::Server;
use super::settings::Settings;
use crate::clock::{SECOND, now_ns};
use crate::wire::Wire;

/// Requests sent before waiting for their answers.
const BATCH: u64 = 200;

/// Approximate bytes that a small key takes with its value and the server's overhead.
pub(crate) const SMALL_KEY_BYTES: u64 = 200;

/// A step on one server.
pub(crate) struct StepContext<'a> {
    pub(crate) server: &'a Server,
    pub(crate) scale: &'a Scale,
    pub(crate) settings: Settings<'a>,
    /// When prepared keys expire, in milliseconds of the system clock.
    pub(crate) due_unix_ms: u64,
}

impl<'a> StepContext<'a> {
    pub(crate) fn new(server: &'a Server, scale: &'a Scale) -> Self {
        StepContext { server, scale, settings: Settings::new(server), due_unix_ms: 0 }
    }

    pub(crate) fn speaks(&self, protocol: Protocol) -> bool {
        self.server.target.protocol == protocol
    }

    /// Writes keys number `range`, each with `bytes` bytes, without expiry.
    ///
    /// # Errors
    /// The server refuses one, or is gone.
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
            wire.send(&request)?;
            for _ in next..end {
                stored(&mut wire)?;
            }
            next = end;
        }
        Ok(())
    }

    /// Waits until only the few keys of the probe are left, for `seconds` at most.
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

/// Takes the answer to one write.
pub(crate) fn stored(wire: &mut Wire) -> Result<(), String> {
    match wire.protocol {
        Protocol::Resp => wire.answer()?.or_error("SET").map(drop),
        Protocol::Memcached => match wire.line()?.as_str() {
            "STORED" => Ok(()),
            text => Err(format!("set: {text}")),
        },
    }
}
