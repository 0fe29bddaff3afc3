//! The protocol of a session. Only this module refers to all protocols.

use crate::net::protocol::Protocol;
use crate::protocols::RequestProtocol as _;
use crate::protocols::binary::Binary;
use crate::protocols::resp::Resp;
use crate::protocols::session_state::SessionState;
use crate::protocols::text::Text;
use crate::session::batch::{self, Batch, BatchSession, SliceContext};
use nagi_commands::{MemcachedProtocol, Server as _};
use nagi_proto::memcached::binary::REQUEST;
use nagi_proto::{Awaited, Output};

/// The protocol of a client.
#[derive(Debug)]
pub(super) enum Dialect {
    Resp(Resp),
    /// One of memcached's; the first byte decides which.
    Memcached,
    Text(Text),
    Binary(Binary),
}

impl Dialect {
    /// The protocol of a listener's clients.
    pub(super) fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Resp => Dialect::Resp(Resp::default()),
            Protocol::Memcached => Dialect::Memcached,
        }
    }

    /// Executes one batch from the start of `input`, which is not empty.
    #[inline]
    pub(super) fn execute(
        &mut self,
        input: &mut [u8],
        session: BatchSession<'_>,
        slice: &mut SliceContext<'_>,
        out: &mut Output,
    ) -> Batch {
        if matches!(self, Dialect::Memcached) {
            let spoken = slice.environment.shared.config().memcached_protocol();
            self.choose(input.first() == Some(&REQUEST), spoken);
        }
        match self {
            Dialect::Resp(resp) => batch::execute(resp, input, session, slice, out),
            Dialect::Text(text) => batch::execute(text, input, session, slice, out),
            Dialect::Binary(binary) => batch::execute(binary, input, session, slice, out),
            // This protocol is not enabled.
            Dialect::Memcached => {
                Batch { consumed: 0, requests: 0, state: Some(SessionState::Closing) }
            }
        }
    }

    /// Chooses the protocol by the client's first byte and by the protocols that are enabled.
    /// `is_binary` tells whether the byte begins a binary request.
    #[cold]
    fn choose(&mut self, is_binary: bool, spoken: MemcachedProtocol) {
        match spoken {
            MemcachedProtocol::Auto | MemcachedProtocol::Binary if is_binary => {
                *self = Dialect::Binary(Binary::default());
            }
            MemcachedProtocol::Auto | MemcachedProtocol::Ascii => {
                *self = Dialect::Text(Text::default());
            }
            MemcachedProtocol::Binary => {}
        }
    }

    /// The large argument that the parser waits for.
    pub(super) fn awaited(&self) -> Option<Awaited> {
        match self {
            Dialect::Resp(resp) => resp.awaited(),
            Dialect::Text(text) => text.awaited(),
            Dialect::Binary(binary) => binary.awaited(),
            Dialect::Memcached => None,
        }
    }

    /// Capacity, in arguments, that is kept for a partial request.
    #[inline]
    pub(super) fn kept_spans(&self) -> usize {
        match self {
            Dialect::Resp(resp) => resp.kept_spans(),
            Dialect::Text(text) => text.kept_spans(),
            Dialect::Binary(_) | Dialect::Memcached => 0,
        }
    }

    /// The length of the input below which nothing more can be parsed; zero between requests.
    #[inline]
    pub(super) fn needed_bytes(&self) -> usize {
        match self {
            Dialect::Resp(resp) => resp.needed_bytes(),
            // All of the input is parsed. The length of requests limits the work: `get` lines have
            // at most 8 MiB, and large values are not parsed.
            Dialect::Text(_) | Dialect::Binary(_) | Dialect::Memcached => usize::MAX / 2,
        }
    }

    /// Continues after the awaited argument, which is complete.
    pub(super) fn skip_awaited(&mut self) {
        match self {
            Dialect::Resp(resp) => resp.skip_awaited(),
            Dialect::Text(text) => text.skip_awaited(),
            Dialect::Binary(binary) => binary.skip_awaited(),
            Dialect::Memcached => {}
        }
    }
}
