//! MIGRATE: moves keys to another server. The script thread executes it, since that thread may
//! block: the keys stay claimed until they have been moved. Only requests for these keys, and
//! scripts, wait.

use crate::runtime::gate;
use crate::runtime::migration::Migration;
use crate::scripting::caller::execute_unchecked;
use crate::scripting::run::{Run, ThreadContext};
use crate::scripting::server::ScriptingServer;
use nagi_proto::{Args, Output};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Maximum RESTORE requests that are sent before their replies are read.
const PENDING: usize = 64;
/// The interval in which a wait for the other server checks whether MIGRATE must end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum length of a line in a reply, in bytes.
const LINE_BYTES: usize = 64 * 1024;
/// Maximum capacity of the buffer that is kept for the next value, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// The result: whether any of the keys existed, or the error for the client.
pub(super) type Migrated = Result<bool, Vec<u8>>;

/// Executes a MIGRATE request, whose keys have been claimed.
pub(super) fn migrate(
    server: &impl ScriptingServer,
    context: &ThreadContext,
    run: &mut Run,
    migration: &Migration<'_>,
    keys: Args<'_>,
) -> Migrated {
    let mut values = Values { server, context, run, output: Output::default() };
    let present: Vec<&[u8]> = keys.from(0).filter(|key| values.ttl_ms(key).is_some()).collect();
    if present.is_empty() {
        return Ok(false);
    }
    let (number, started) = (values.run.number, values.run.started);
    let is_slow = Cell::new(false);
    let is_to_end = || {
        is_slow.set(is_slow.get() || gate::note_if_slow(server, started));
        server.scripts().is_to_end(number)
    };
    move_keys(&mut values, migration, &present, &is_to_end).map(|()| true)
}

/// Sends keys to the other server, and deletes here those that it has accepted, unless they are
/// copied.
fn move_keys<S: ScriptingServer>(
    values: &mut Values<'_, S>,
    migration: &Migration<'_>,
    keys: &[&[u8]],
    is_to_end: &dyn Fn() -> bool,
) -> Result<(), Vec<u8>> {
    let mut target = Target::connect(migration, is_to_end)?;
    target.prepare(migration)?;
    let mut moved = Vec::new();
    let sent = target.send_keys(values, migration, keys, &mut moved);
    if !migration.copies {
        // Keys that have been restored there are deleted here, even if others failed.
        for key in &moved {
            values.run_words(&[b"DEL", key]);
            // Clients may be waiting for a change of the key (XREADGROUP).
            values.run.note_changed(values.server.store().key(key));
        }
    }
    sent
}

/// Reads and deletes keys by running commands of this server.
struct Values<'a, S> {
    server: &'a S,
    context: &'a ThreadContext,
    run: &'a mut Run,
    output: Output,
}

impl<S: ScriptingServer> Values<'_, S> {
    fn run_words(&mut self, words: &[&[u8]]) {
        self.output.clear(KEPT_BYTES);
        execute_unchecked(self.server, self.context, self.run, words, &mut self.output);
    }

    fn reply(&self) -> Vec<u8> {
        self.output.slices().flatten().copied().collect()
    }

    /// Returns the time to live of a key in milliseconds from now, 0 for no expiry; `None` if the
    /// key does not exist or has expired.
    fn ttl_ms(&mut self, key: &[u8]) -> Option<u64> {
        // Commands see the time at which the request began.
        let passed_ms = self.server.store().now_ms().saturating_sub(self.run.now_ms);
        self.run_words(&[b"PTTL", key]);
        let reply = self.reply();
        let number = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
        match nagi_store::parse_i64(number)? {
            -1 => Some(0),
            ttl => u64::try_from(ttl).ok()?.checked_sub(passed_ms).map(|ttl_ms| ttl_ms.max(1)),
        }
    }

    /// Returns a key's value in the format of DUMP; `None` if the key does not exist.
    fn payload(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.run_words(&[b"DUMP", key]);
        let mut reply = self.reply();
        let end = reply.windows(2).position(|pair| pair == b"\r\n")?;
        if !reply.starts_with(b"$") || reply.starts_with(b"$-1") {
            return None;
        }
        reply.drain(..end + 2);
        reply.truncate(reply.len().saturating_sub(2));
        Some(reply)
    }
}

/// The connection to the other server.
struct Target<'a> {
    stream: TcpStream,
    timeout: Duration,
    is_to_end: &'a dyn Fn() -> bool,
    input: Vec<u8>,
}

/// Connects to an address, as long as `goes_on` returns `true`.
fn connect(address: SocketAddr, goes_on: &dyn Fn() -> bool) -> io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Err(Errno::INPROGRESS) => {}
        outcome => outcome?,
    }
    let interval = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
    while goes_on() {
        let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
        match poll(&mut polled, Some(&interval)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                rustix::net::sockopt::socket_error(&socket)??;
                let stream = TcpStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// The other server's reply to a request: success, or the text of an error.
type Outcome = Result<(), String>;

impl<'a> Target<'a> {
    fn connect(
        migration: &Migration<'_>,
        is_to_end: &'a dyn Fn() -> bool,
    ) -> Result<Self, Vec<u8>> {
        let failed = || b"IOERR error or timeout connecting to the client".to_vec();
        let host = String::from_utf8_lossy(migration.host);
        let addresses = (&*host, migration.port).to_socket_addrs().map_err(|_| failed())?;
        let due = Instant::now() + migration.timeout;
        let goes_on = || Instant::now() < due && !is_to_end();
        let mut streams = addresses.filter_map(|address| connect(address, &goes_on).ok());
        let stream = streams.next().ok_or_else(failed)?;
        let is_set = stream.set_nodelay(true).and(stream.set_read_timeout(Some(POLL_INTERVAL)));
        is_set.and(stream.set_write_timeout(Some(POLL_INTERVAL))).map_err(|_| failed())?;
        Ok(Target { stream, timeout: migration.timeout, is_to_end, input: Vec::new() })
    }

    /// Logs in if MIGRATE has AUTH, and selects the database.
    fn prepare(&mut self, migration: &Migration<'_>) -> Result<(), Vec<u8>> {
        if !migration.login.is_empty() {
            let words: Vec<&[u8]> =
                [&b"AUTH"[..]].into_iter().chain(migration.login.iter().copied()).collect();
            self.send(&words)?;
            refused(self.reply()?)?;
        }
        self.send(&[b"SELECT", migration.database])?;
        refused(self.reply()?)
    }

    /// Sends keys, and adds those that the other server has accepted to `moved`. After an error for
    /// one key, the remaining keys are still sent.
    fn send_keys<'k, S: ScriptingServer>(
        &mut self,
        values: &mut Values<'_, S>,
        migration: &Migration<'_>,
        keys: &[&'k [u8]],
        moved: &mut Vec<&'k [u8]>,
    ) -> Result<(), Vec<u8>> {
        let mut outcome = Ok(());
        for keys in keys.chunks(PENDING) {
            let mut pending = Vec::new();
            for key in keys {
                let Some(ttl_ms) = values.ttl_ms(key) else { continue };
                let Some(payload) = values.payload(key) else { continue };
                let ttl_ms = ttl_ms.to_string();
                let mut words = vec![&b"RESTORE"[..], key, ttl_ms.as_bytes(), &payload];
                words.extend(migration.replaces.then_some(&b"REPLACE"[..]));
                self.send(&words)?;
                pending.push(*key);
            }
            for key in pending {
                match self.reply()? {
                    Ok(()) => moved.push(key),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
        }
        refused(outcome)
    }

    fn send(&mut self, words: &[&[u8]]) -> Result<(), Vec<u8>> {
        let failed = || b"IOERR error or timeout writing to target instance".to_vec();
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        let (mut rest, mut due) = (&request[..], Instant::now() + self.timeout);
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(failed()),
                Ok(sent) => {
                    rest = rest.get(sent..).unwrap_or_default();
                    due = Instant::now() + self.timeout;
                }
                Err(error) if self.may_wait(&error, due) => {}
                Err(_) => return Err(failed()),
            }
        }
        Ok(())
    }

    /// Reads a reply of one line.
    fn reply(&mut self) -> Result<Outcome, Vec<u8>> {
        let failed = || b"IOERR error or timeout reading from target instance".to_vec();
        let due = Instant::now() + self.timeout;
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).take(end).collect();
                return match line.split_first() {
                    Some((b'+', _)) => Ok(Ok(())),
                    Some((b'-', error)) => Ok(Err(String::from_utf8_lossy(error).into_owned())),
                    _ => Err(failed()),
                };
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(failed()),
                Ok(read) if self.input.len() <= LINE_BYTES => {
                    self.input.extend_from_slice(bytes.get(..read).unwrap_or_default());
                }
                Err(error) if self.may_wait(&error, due) => {}
                Ok(_) | Err(_) => return Err(failed()),
            }
        }
    }

    fn may_wait(&self, error: &std::io::Error, due: Instant) -> bool {
        let is_early = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
        is_early.contains(&error.kind()) && Instant::now() < due && !(self.is_to_end)()
    }
}

/// Wraps an error of the other server in the error for the client.
fn refused(outcome: Outcome) -> Result<(), Vec<u8>> {
    outcome.map_err(|error| format!("ERR Target instance replied with error: {error}").into_bytes())
}
