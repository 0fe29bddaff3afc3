//! The connection to one server: opened when it is needed, given up when it fails, and not tried
//! again for a while, so that a dead server costs one time-out and not one per request.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::failure::Reason;
use super::settings::Settings;
use crate::Address;
use crate::ring::Server;
use crate::wire::{Answer, Decoder, Request};

/// Bytes received at once.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A server and perhaps a connection.
#[derive(Debug)]
pub(super) struct Link {
    server: Server,
    address: Option<Address>,
    open: Option<Open>,
    dead_until: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    socket: OwnedFd,
    decoder: Decoder,
    input: Vec<u8>,
}

impl Link {
    pub(super) fn new(server: Server) -> Self {
        Link { server, address: None, open: None, dead_until: None }
    }

    /// Sends bytes over the connection, which is opened first where there is none.
    pub(super) fn send(&mut self, settings: &Settings, mut bytes: &[u8]) -> Result<(), Reason> {
        let open = self.connected(settings)?;
        while !bytes.is_empty() {
            let sent = retry_on_intr(|| send(&open.socket, bytes, SendFlags::NOSIGNAL));
            match sent {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN) => return Err(Reason::TimedOut),
                Err(errno) => return Err(Reason::Broken(std::io::Error::from(errno).to_string())),
            }
        }
        Ok(())
    }

    /// Waits until `deadline` for the answer to `request`, the oldest that is unanswered.
    pub(super) fn receive(
        &mut self,
        request: &Request<'_>,
        deadline: Instant,
    ) -> Result<Answer, Reason> {
        let closed = || Reason::Broken("closed by the server".to_owned());
        let open = self.open.as_mut().ok_or_else(closed)?;
        loop {
            match open.decoder.next(request, &open.input) {
                Ok(Some((len, answer))) => {
                    open.input.drain(..len);
                    return Ok(answer);
                }
                Ok(None) => {}
                Err(_) => {
                    let start = open.input.get(..64).unwrap_or(&open.input);
                    return Err(Reason::Protocol(start.escape_ascii().to_string()));
                }
            }
            wait(&open.socket, deadline)?;
            open.input.reserve(RECEIVE_BYTES);
            let received = retry_on_intr(|| {
                recv(&open.socket, spare_capacity(&mut open.input), RecvFlags::empty())
            });
            match received {
                Ok((_, 0)) => return Err(closed()),
                Ok(_) => {}
                Err(errno) => return Err(Reason::Broken(std::io::Error::from(errno).to_string())),
            }
        }
    }

    /// Gives the connection up. After a time-out the server is left alone for `retry_after`.
    pub(super) fn fail(&mut self, reason: &Reason, retry_after: Duration) {
        self.open = None;
        if matches!(reason, Reason::TimedOut | Reason::Connect(_)) {
            self.dead_until = Some(Instant::now() + retry_after);
        }
    }

    fn connected(&mut self, settings: &Settings) -> Result<&mut Open, Reason> {
        if self.dead_until.is_some_and(|until| Instant::now() < until) {
            return Err(Reason::Dead);
        }
        // A server that was restarted has closed the connection; a write must not go there.
        let open = match self.open.take().filter(|open| !is_closed(&open.socket)) {
            Some(open) => open,
            None => {
                let connect = |error: crate::Error| match error {
                    crate::Error::Connect { source, .. } => Reason::Connect(source.to_string()),
                    error => Reason::Connect(error.to_string()),
                };
                let address = match self.address.take() {
                    Some(address) => address,
                    None if self.server.is_unix() => Address::Unix((&self.server.host).into()),
                    None => Address::tcp(&self.server.host, self.server.port).map_err(connect)?,
                };
                let socket = self.address.insert(address).connect_within(settings.timeout);
                let socket = socket.map_err(connect)?;
                let prepared = set_socket_timeout(&socket, Timeout::Send, Some(settings.timeout))
                    .and_then(|()| match self.server.is_unix() {
                        true => Ok(()),
                        false => set_tcp_nodelay(&socket, settings.tcp_nodelay),
                    });
                prepared
                    .map_err(|errno| Reason::Connect(std::io::Error::from(errno).to_string()))?;
                self.dead_until = None;
                Open { socket, decoder: Decoder::new(settings.dialect), input: Vec::new() }
            }
        };
        Ok(self.open.insert(open))
    }
}

fn is_closed(socket: &OwnedFd) -> bool {
    let mut byte = [0; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    // Bytes that answer no request make a connection unusable, as its end does.
    !matches!(retry_on_intr(|| recv(socket, &mut byte[..], flags)), Err(Errno::AGAIN))
}

fn wait(socket: &OwnedFd, deadline: Instant) -> Result<(), Reason> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut polled, Some(&time)) {
            Ok(0) => return Err(Reason::TimedOut),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Reason::Broken(std::io::Error::from(errno).to_string())),
        }
    }
}
