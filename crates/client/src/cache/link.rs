//! The connection to one server. It is opened when needed and closed after a failure. After a
//! timeout or a failure to connect, the server is skipped for a while, so that a dead server costs
//! one timeout instead of one per request.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay};
use rustix::net::{RecvFlags, recv};

use super::failure::Reason;
use super::identity::Identity;
use super::settings::{OnFailure, RespVersion, Settings};
use super::socket::Socket;
use crate::ring::Server;
use crate::wire::{Answer, Decoder, Dialect, Request};
use crate::{Address, Error};

/// Maximum number of bytes received at once.
const RECEIVE_BYTES: usize = 64 * 1024;

/// The start of memcached's answer to requests sent before a login.
const NOT_LOGGED_IN: &str = "CLIENT_ERROR unauthenticated";

/// Maximum capacity of an unused buffer, in bytes.
const IDLE_BYTES: usize = 256 * 1024;

/// How long a server may take for each part of its answers if servers that were read before it have
/// taken all of the timeout.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// How long the answers on a connection are awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerDeadline {
    deadline: Instant,
    /// After the deadline, how long each part of an answer may take, until `last`.
    pause: Duration,
    last: Instant,
}

impl AnswerDeadline {
    /// Waits for the timeout from now on.
    pub(super) fn start(settings: &Settings) -> Self {
        let deadline = Instant::now() + settings.timeout;
        AnswerDeadline { deadline, pause: Duration::ZERO, last: deadline }
    }

    /// The same deadline, for a connection whose turn comes now. Its answers may have arrived in
    /// the meantime, or its server waits until some of them are read.
    pub(super) fn for_turn(self, settings: &Settings) -> Self {
        let last = Instant::now() + settings.timeout;
        AnswerDeadline { pause: settings.timeout.min(LEAST_PAUSE), last, ..self }
    }

    fn until(&self) -> Instant {
        self.deadline.max((Instant::now() + self.pause).min(self.last))
    }
}

/// A server, and the connection to it if one is open.
#[derive(Debug)]
pub(super) struct Link<S> {
    server: Server,
    /// The address that was resolved last.
    address: Option<Address>,
    open: Option<Open<S>>,
    dead_until: Option<Instant>,
    /// Time-outs and refused connections since the last answer.
    pub(super) failures: u32,
    /// The identity of the process that answered on the newest connection, and when it answered;
    /// only if servers may be ejected.
    pub(super) identity: Option<(Instant, Identity)>,
}

impl<S: Socket> Link<S> {
    pub(super) fn new(server: Server) -> Self {
        let (address, open, dead_until) = (None, None, None);
        Link { server, address, open, dead_until, failures: 0, identity: None }
    }

    /// Sends the bytes of `requests` requests. Opens the connection first if none is open.
    pub(super) async fn send(
        &mut self,
        settings: &Settings,
        bytes: &[u8],
        requests: usize,
    ) -> Result<(), Reason> {
        let mut open = self.connected(settings).await?;
        open.owed += requests;
        let sent = open.socket.send(bytes, settings.timeout).await;
        self.open = Some(open);
        sent.map_err(reason)
    }

    /// Waits for the answer to `request`, the oldest unanswered request.
    pub(super) async fn receive(
        &mut self,
        settings: &Settings,
        request: &Request<'_>,
        deadline: AnswerDeadline,
    ) -> Result<Answer, Reason> {
        let open = self.open.as_mut().ok_or_else(closed)?;
        let answer = open.receive(settings, request, deadline).await?;
        self.failures = 0;
        Ok(answer)
    }

    /// Sends one request and waits for its answer.
    pub(super) async fn ask(
        &mut self,
        settings: &Settings,
        request: &Request<'_>,
    ) -> Result<Answer, Reason> {
        let mut bytes = Vec::new();
        request.encode(settings.dialect, &mut bytes).map_err(Reason::Request)?;
        self.send(settings, &bytes, 1).await?;
        self.receive(settings, request, AnswerDeadline::start(settings)).await
    }

    /// Closes the connection. After a timeout or a failure to connect, the server is skipped for a
    /// while.
    pub(super) fn fail(&mut self, reason: &Reason, settings: &Settings) {
        self.close(settings);
        if matches!(reason, Reason::TimedOut | Reason::Connect(_)) {
            self.dead_until = Some(Instant::now() + settings.retry_after);
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Closes the connection and forgets the server's failures.
    pub(super) fn reset(&mut self, settings: &Settings) {
        self.close(settings);
        (self.dead_until, self.failures) = (None, 0);
    }

    fn close(&mut self, settings: &Settings) {
        let Some(open) = self.open.take() else { return };
        if matches!(settings.on_failure, OnFailure::Eject(_)) && !self.server.is_unix() {
            // A reset discards unsent bytes. They must not reach the server later, because the
            // client continues without this server.
            set_socket_linger(&open.socket, Some(Duration::ZERO)).ok();
        }
    }

    /// Takes the connection, or opens one. The caller must put it back, so that a cancelled
    /// operation closes it.
    async fn connected(&mut self, settings: &Settings) -> Result<Open<S>, Reason> {
        if self.dead_until.is_some_and(|until| Instant::now() < until) {
            return Err(Reason::Dead);
        }
        // A server that was restarted has closed the connection, and a write sent on it would be
        // lost.
        let usable = |open: &mut Open<S>| open.owed == 0 && !is_closed(&open.socket);
        if let Some(open) = self.open.take_if(usable) {
            return Ok(open);
        }
        self.close(settings);
        let mut open = self.connect(settings).await?;
        open.greet(settings).await?;
        if matches!(settings.on_failure, OnFailure::Eject(_)) {
            let identity = open.identify(settings).await;
            // The request that waits for the connection has not been sent, so this counts as a
            // failure to connect.
            let identity = identity.map_err(|reason| Reason::Connect(reason.cause()))?;
            self.identity = identity.map(|identity| (Instant::now(), identity));
        }
        self.dead_until = None;
        Ok(open)
    }

    async fn connect(&mut self, settings: &Settings) -> Result<Open<S>, Reason> {
        let failed = |error: Error| match error {
            Error::Connect { source, .. } => Reason::Connect(source.to_string()),
            error => Reason::Connect(error.to_string()),
        };
        // A server may have moved to another address under the same name, so the name is resolved
        // again.
        let resolved = match self.server.is_unix() {
            true => Ok(Address::Unix((&self.server.host).into())),
            false => S::resolve(&self.server).await,
        };
        let address = match (resolved, &mut self.address) {
            (Ok(address), known) => known.insert(address),
            // The name server may be temporarily unavailable, so the last address is used.
            (Err(_), Some(known)) => known,
            (Err(error), None) => return Err(failed(error)),
        };
        let socket = S::connect(address, settings.timeout).await.map_err(failed)?;
        if !self.server.is_unix() {
            let prepared = set_tcp_nodelay(&socket, settings.tcp_nodelay);
            prepared.map_err(|errno| Reason::Connect(io::Error::from(errno).to_string()))?;
        }
        let decoder = Decoder::new(settings.dialect);
        Ok(Open { socket, decoder, input: Vec::new(), read: 0, owed: 0 })
    }
}

/// An open connection.
#[derive(Debug)]
struct Open<S> {
    socket: S,
    decoder: Decoder,
    /// Received bytes, the first `read` of which have been processed.
    input: Vec<u8>,
    read: usize,
    /// Number of requests that were sent, at least in part, and have no answer. If a call is
    /// cancelled, the next call could not tell its own answers from the outstanding ones.
    owed: usize,
}

impl<S: Socket> Open<S> {
    async fn receive(
        &mut self,
        settings: &Settings,
        request: &Request<'_>,
        deadline: AnswerDeadline,
    ) -> Result<Answer, Reason> {
        loop {
            let unread = self.input.get(self.read..).unwrap_or_default();
            let limit_bytes = settings.reply_limit_bytes;
            match self.decoder.next(request, unread) {
                Ok(Some((len, answer))) if len <= limit_bytes => {
                    self.take(len);
                    return Ok(answer);
                }
                Ok(None) if unread.len() < limit_bytes => {}
                Ok(_) => return Err(Reason::TooLong { limit_bytes }),
                Err(_) => {
                    let start = unread.get(..64).unwrap_or(unread);
                    return Err(Reason::Protocol(start.escape_ascii().to_string()));
                }
            }
            self.input.drain(..self.read);
            self.read = 0;
            self.input.reserve(RECEIVE_BYTES);
            match self.socket.receive(&mut self.input, deadline.until()).await {
                Ok(0) => return self.ended(request, closed()),
                Ok(_) => {}
                Err(error) => return self.ended(request, reason(error)),
            }
        }
    }

    /// Returns the answer to a request whose connection has failed. A server that wants a login
    /// refuses the first read of a batch and closes the connection before the end of the batch.
    fn ended(&mut self, request: &Request<'_>, reason: Reason) -> Result<Answer, Reason> {
        match (request, &reason) {
            (Request::Get { .. }, Reason::Broken(_)) => self.decoder.refusal().ok_or(reason),
            _ => Err(reason),
        }
    }

    /// Removes an answer of `len` bytes from `input`.
    fn take(&mut self, len: usize) {
        self.read += len;
        self.owed = self.owed.saturating_sub(1);
        if self.read == self.input.len() {
            self.read = 0;
            self.input.clear();
            self.input.shrink_to(IDLE_BYTES);
        }
    }

    /// Returns the identity of the server's process; `None` if the server does not report one.
    async fn identify(&mut self, settings: &Settings) -> Result<Option<Identity>, Reason> {
        Ok(match self.ask(settings, &Request::Stats { section: "" }).await? {
            Answer::Pairs(pairs) => Identity::read(&pairs),
            _ => None,
        })
    }

    /// Logs in, and selects the version of RESP.
    async fn greet(&mut self, settings: &Settings) -> Result<(), Reason> {
        let is_three = settings.dialect == Dialect::Resp && settings.resp == RespVersion::Three;
        if settings.login.is_some()
            && matches!(settings.dialect, Dialect::Text | Dialect::Meta)
            && !self.is_login_required(settings).await?
        {
            return Ok(());
        }
        let request = match &settings.login {
            login if is_three => Request::Hello { login: login.as_ref() },
            Some(login) => Request::Login { login },
            None => return Ok(()),
        };
        match self.ask(settings, &request).await {
            Ok(Answer::Refused(text)) => Err(Reason::Refused(text)),
            Ok(_) => Ok(()),
            Err(reason @ (Reason::Request(_) | Reason::Protocol(_))) => Err(reason),
            // The request that waits for the connection has not been sent, so this counts as a
            // failure to connect.
            Err(reason) => Err(Reason::Connect(reason.cause())),
        }
    }

    /// Whether a server with memcached's text protocols refuses requests before a login. The login
    /// is a `set`, which a server that requires no login would store.
    async fn is_login_required(&mut self, settings: &Settings) -> Result<bool, Reason> {
        let request = Request::Get { keys: vec![b"login"] };
        // In the classic protocol the request is a single line, so it has one answer even before a
        // login.
        let classic = Settings { dialect: Dialect::Text, ..settings.clone() };
        let usual = std::mem::replace(&mut self.decoder, Decoder::new(Dialect::Text));
        let answer = self.ask(&classic, &request).await;
        self.decoder = usual;
        match answer {
            Ok(Answer::Refused(text)) => Ok(text.starts_with(NOT_LOGGED_IN)),
            Ok(_) => Ok(false),
            Err(reason @ (Reason::Request(_) | Reason::Protocol(_))) => Err(reason),
            Err(reason) => Err(Reason::Connect(reason.cause())),
        }
    }

    async fn ask(&mut self, settings: &Settings, request: &Request<'_>) -> Result<Answer, Reason> {
        let mut bytes = Vec::new();
        request.encode(settings.dialect, &mut bytes).map_err(Reason::Request)?;
        self.owed += 1;
        self.socket.send(&bytes, settings.timeout).await.map_err(reason)?;
        self.receive(settings, request, AnswerDeadline::start(settings)).await
    }
}

fn closed() -> Reason {
    Reason::Broken("closed by the server".to_owned())
}

fn reason(error: io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::TimedOut => Reason::TimedOut,
        _ => Reason::Broken(error.to_string()),
    }
}

fn is_closed(socket: impl AsFd) -> bool {
    let mut byte = [0; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    // Unexpected bytes make a connection unusable, just as the end of the stream does.
    !matches!(retry_on_intr(|| recv(&socket, &mut byte[..], flags)), Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::TcpListener;

    use super::super::socket::{Blocking, ready};
    use super::*;

    thread_local! {
        /// The port that the host name resolves to; `None` makes the lookup fail.
        static PORT: RefCell<Option<u16>> = const { RefCell::new(None) };
    }

    /// A socket whose host name resolves to changing addresses.
    #[derive(Debug)]
    struct Moving(Blocking);

    impl AsFd for Moving {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Socket for Moving {
        async fn resolve(server: &Server) -> Result<Address, Error> {
            let port = PORT.with_borrow(|port| *port);
            Address::tcp(port.map_or("", |_| &server.host), port.unwrap_or(1))
        }

        async fn connect(address: &Address, timeout: Duration) -> Result<Self, Error> {
            Blocking::connect(address, timeout).await.map(Moving)
        }

        async fn send(&mut self, bytes: &[u8], timeout: Duration) -> io::Result<()> {
            self.0.send(bytes, timeout).await
        }

        async fn receive(&mut self, input: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
            self.0.receive(input, deadline).await
        }
    }

    #[test]
    fn a_server_that_moves_is_found_where_its_name_points() {
        let hosts = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = hosts.each_ref().map(|host| host.local_addr().unwrap().port());
        let settings = Settings::default();
        let mut link = Link::<Moving>::new(Server::new("127.0.0.1", 1));
        let mut send = |port: Option<u16>| {
            PORT.set(port);
            let sent = ready(link.send(&settings, b"version\r\n", 1));
            link.reset(&settings);
            sent
        };
        assert!(matches!(send(None), Err(Reason::Connect(_))), "no name was ever found");
        assert_eq!(send(Some(ports[0])), Ok(()));
        assert_eq!(send(Some(ports[1])), Ok(()));
        assert_eq!(send(None), Ok(()), "where it was last, while names are not found");
        for (host, connections) in hosts.iter().zip([1, 2]) {
            host.set_nonblocking(true).unwrap();
            assert_eq!(host.incoming().take_while(Result::is_ok).count(), connections);
        }
    }
}
