//! Commands over a WebSocket (RFC 6455), as with webdis: `/.json` takes lists in JSON, `/.raw`
//! requests in RESP, and each reply is a separate message.
//!
//! A socket has an exclusive worker connection. Replies arrive in the order of the commands; a
//! message that arrives while no reply is awaited was published. A socket ends with the closing
//! handshake: to a client that gets no Close frame, the connection is broken.

use super::budget::Reservation;
use super::decoder::{Decoder, Part};
use super::format::{Formatter, Kind};
use super::metered::Metered;
use super::refusal::{Refused, failed, refuse, status_of};
use super::service::{Messages, Service};
use super::socket_replies::SocketReplies;
use super::upstash;
use super::worker_connection::{Failure, Unsent, WorkerConnection};
use crate::connections;
use crate::guard::Caller;
use crate::response::{self, ResponseBody};
use crate::site::Rule;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// The longest message, in bytes.
const LONGEST: usize = 64 << 20;
/// The key of a handshake.
const KEY_BYTES: usize = 16;
/// Commands whose replies are awaited at a time; further ones wait to be read.
const MAX_AWAITED: usize = 1024;
/// Bytes of an unknown command's name that the refusal repeats.
const NAME_BYTES: usize = 128;
/// How long a client may stall while data is waiting.
const STALL: Duration = Duration::from_secs(60);
/// How long the bytes of a client are read that has been told why its socket is closed.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes that are read and dropped at a time.
const DROPPED_BYTES: usize = 16 << 10;

type Socket = WebSocketStream<Metered<TokioIo<Upgraded>>>;

/// The format of a socket's messages and its database, if the path is that of a socket.
pub(super) fn form(path: &str) -> Option<(Kind, usize)> {
    let (database, name) = path.strip_prefix('/')?.rsplit_once('/').unwrap_or(("0", path));
    let kind = match name.trim_start_matches('/') {
        ".json" => Kind::Json,
        ".raw" => Kind::Raw,
        _ => return None,
    };
    Some((kind, database.parse().ok()?))
}

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Opens a socket for a client.
pub(super) async fn open(
    service: &Arc<Service>,
    mut request: Request<Incoming>,
    caller: Caller,
) -> Result<Response<ResponseBody>, Refused> {
    let caller = Caller { is_web_socket: true, ..caller };
    let stream = request.extensions_mut().remove::<Arc<TcpStream>>();
    let stream = stream.ok_or_else(|| refuse(400, "a WebSocket needs an Upgrade header"))?;
    let (kind, database) = form(request.uri().path())
        .ok_or_else(|| refuse(404, "WebSockets are at /.json and /.raw"))?;
    let accepted = accept(request.version(), request.headers())?;
    let mut connection = service.connection(&caller, true).map_err(|it| failed(&it))?;
    if let Some(error) = connection.select(database).await.map_err(|it| failed(&it))? {
        return Err(refuse(status_of(&error), &String::from_utf8_lossy(&error)));
    }
    let upgrade = hyper::upgrade::on(request);
    let ends = (caller, stream, connection);
    spawn_local(run(upgrade, Conversation::new(Arc::clone(service), ends, kind)));
    let plain = HeaderValue::from_static("text/plain");
    let mut response = response::value(101, plain, ResponseBody::Whole(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    Ok(response)
}

/// The answer to the key of a handshake (RFC 6455, 4.2.1).
fn accept(version: Version, headers: &HeaderMap) -> Result<HeaderValue, Refused> {
    let is_known = headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|it| it == "13");
    if !is_known {
        let mut refused = refuse(400, "the version of a WebSocket is 13");
        let known = HeaderValue::from_static("13");
        refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, known);
        return Err(refused);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| refuse(400, "a WebSocket needs a key"))?;
    let options = headers.get_all(header::CONNECTION).iter().filter_map(|it| it.to_str().ok());
    let mut options = options.flat_map(|it| it.split(','));
    if version != Version::HTTP_11 || !options.any(|it| it.trim().eq_ignore_ascii_case("upgrade")) {
        return Err(refuse(400, "a WebSocket needs HTTP/1.1 and Connection: Upgrade"));
    }
    let wrong = || refuse(400, "the key of a WebSocket is 16 bytes in base64");
    if STANDARD.decode(key.as_bytes()).map_or(0, |bytes| bytes.len()) != KEY_BYTES {
        return Err(wrong());
    }
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| wrong())
}

async fn run(upgrade: OnUpgrade, mut conversation: Conversation) {
    let Ok(upgraded) = upgrade.await else { return };
    let _open = conversation.service.web_sockets.open(&conversation.service.site);
    let config =
        WebSocketConfig::default().max_message_size(Some(LONGEST)).max_frame_size(Some(LONGEST));
    let io = Metered::new(TokioIo::new(upgraded), &conversation.service.budget);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let end = match conversation.go_on(&mut socket).await {
        Ok(end) => end,
        Err(failure) => {
            tracing::debug!(?failure, "a WebSocket lost its connection to a worker");
            End::of_failure(&failure)
        }
    };
    // Its subscriptions end now; the socket counts until it is closed.
    let _lasting = conversation.connection.lasting.take();
    drop(conversation);
    let _ = close(socket, end).await;
}

/// Why a socket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// There is no connection left.
    Lost,
    /// The client has sent a Close frame.
    Asked,
    /// The server closes it with this code.
    Fault(CloseCode, &'static str),
}

impl End {
    fn of_failure(failure: &Failure) -> Self {
        match failure {
            Failure::Full => End::Fault(CloseCode::Again, "requests use too much memory"),
            _ => End::Fault(CloseCode::Error, "the connection to the worker has ended"),
        }
    }

    /// The end of a socket whose next message cannot be read.
    fn of_error(error: &Error) -> Self {
        match error {
            Error::Capacity(_) => End::Fault(CloseCode::Size, "a message has at most 64 MiB"),
            Error::Utf8(_) => End::Fault(CloseCode::Invalid, "a text must be UTF-8"),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => End::Lost,
            Error::Protocol(_) => End::Fault(CloseCode::Protocol, "the frame breaks RFC 6455"),
            Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                End::of_failure(&Failure::Full)
            }
            _ => End::Lost,
        }
    }
}

/// Sends the Close frame. What the client has sent in the meantime is read and dropped: a socket
/// that is closed with unread bytes is reset, and the client may lose the frame.
async fn close(mut socket: Socket, end: End) -> Result<(), Error> {
    let told = async {
        match end {
            End::Lost => Err(Error::ConnectionClosed),
            // The answer is queued.
            End::Asked => socket.flush().await,
            End::Fault(code, reason) => {
                socket
                    .close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }))
                    .await
            }
        }
    };
    tokio::time::timeout(STALL, told).await.unwrap_or(Err(Error::ConnectionClosed))?;
    let stream = socket.get_mut();
    let dropped = async {
        stream.shutdown().await?;
        let mut bytes = vec![0; DROPPED_BYTES];
        while stream.read(&mut bytes).await? > 0 {
            stream.taken();
        }
        Ok(())
    };
    tokio::time::timeout(LINGER, dropped).await.unwrap_or(Ok(()))
}

/// The commands and replies of a socket.
struct Conversation {
    service: Arc<Service>,
    caller: Caller,
    /// The client's connection.
    stream: Arc<TcpStream>,
    connection: WorkerConnection,
    /// The command that is being sent. Replies are read meanwhile: a worker whose replies are not
    /// read receives nothing.
    unsent: Unsent,
    unsent_reservation: Reservation,
    kind: Kind,
    replies: SocketReplies,
    /// The reservation for the reply that is arriving.
    reservation: Reservation,
}

impl Conversation {
    fn new(
        service: Arc<Service>,
        (caller, stream, connection): (Caller, Arc<TcpStream>, WorkerConnection),
        kind: Kind,
    ) -> Self {
        Conversation {
            reservation: service.budget.reservation(),
            unsent_reservation: service.budget.reservation(),
            service,
            caller,
            stream,
            connection,
            unsent: Unsent::default(),
            kind,
            replies: SocketReplies::new(kind),
        }
    }

    /// Passes on commands and sends replies until the socket is closed.
    async fn go_on(&mut self, socket: &mut Socket) -> Result<End, Failure> {
        loop {
            while let Some(refusal) = self.replies.take_refusal() {
                if !self.send(socket, refusal).await {
                    return Ok(End::Lost);
                }
            }
            let may_read = self.replies.awaited() < MAX_AWAITED && self.unsent.is_empty();
            let stream = Arc::clone(&self.stream);
            tokio::select! {
                // Otherwise reading finds the end.
                () = connections::ended(&stream), if !may_read => return Ok(End::Lost),
                message = socket.next(), if may_read => {
                    let message = match message {
                        Some(Ok(message)) => message,
                        Some(Err(error)) => return Ok(End::of_error(&error)),
                        None => return Ok(End::Lost),
                    };
                    socket.get_mut().taken();
                    match message {
                        Message::Text(text) => self.take(text.as_bytes())?,
                        Message::Binary(bytes) => self.take(&bytes)?,
                        Message::Close(_) => return Ok(End::Asked),
                        _ => {}
                    }
                }
                reply = self.advance() => {
                    let Some(reply) = reply? else { continue };
                    if !self.send(socket, reply).await {
                        return Ok(End::Lost);
                    }
                    self.reservation.clear();
                }
            }
        }
    }

    /// Sends a message, as binary data if it is not text. Returns whether the client took it.
    async fn send(&self, socket: &mut Socket, bytes: Vec<u8>) -> bool {
        let bytes = Bytes::from(bytes);
        let text = Utf8Bytes::try_from(bytes.clone());
        let message = text.map_or(Message::Binary(bytes), Message::Text);
        let sent = tokio::time::timeout(STALL, socket.send(message)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Begins to pass a command on, or refuses it.
    fn take(&mut self, message: &[u8]) -> Result<(), Failure> {
        let mut parsed = self.service.budget.reservation();
        let words = match self.kind {
            Kind::Raw => {
                parsed.grow(held_bytes(message))?;
                words(message)
            }
            _ => {
                parsed.grow(upstash::parsed_bytes(message))?;
                upstash::words(message)
            }
        };
        let Some(words) = words else {
            self.replies.refuse(self.fault(b"", "ERR the message is not a command"));
            return Ok(());
        };
        let rule = match self.service.check(&self.caller, &words, true, Messages::OnSocket) {
            Ok(rule) => rule,
            Err(refused) => {
                let reason = match refused.status().as_u16() {
                    404 => "ERR unknown command",
                    _ => "NOPERM command not allowed over HTTP",
                };
                // Refusals wait for earlier replies, without a reservation.
                let name = words.first().map_or(&b""[..], |name| name);
                let shown = name.get(..NAME_BYTES).unwrap_or(name);
                self.replies.refuse(self.fault(shown, reason));
                return Ok(());
            }
        };
        self.unsent.push(&words);
        self.unsent_reservation = parsed;
        self.replies.expect(&words, rule == Rule::Stream);
        Ok(())
    }

    /// An error that does not come from a worker.
    fn fault(&self, name: &[u8], reason: &str) -> Vec<u8> {
        let mut out = Vec::new();
        match Formatter::new(self.kind, name, b"") {
            None => out.extend(format!("-{reason}\r\n").bytes()),
            Some(mut formatter) => {
                formatter.write(Part::Error(reason.as_bytes()), &mut out);
                formatter.end(&mut out);
            }
        }
        out
    }

    /// Waits for the next whole reply, or until the command has been sent; the latter returns
    /// `None`. Dropping the future keeps the part that has arrived.
    async fn advance(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        poll_fn(|cx| self.poll_advance(cx)).await
    }

    fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Failure>> {
        let is_sending = !self.unsent.is_empty();
        if is_sending && self.unsent.send(&mut self.connection, cx)? {
            self.unsent_reservation.clear();
            return Poll::Ready(Ok(None));
        }
        loop {
            let replies = &mut self.replies;
            let part = self.connection.poll_part(cx, |part, bytes| replies.take(part, bytes));
            self.reservation.grow(ready!(part)?)?;
            if self.connection.is_over() {
                // The reply has a reservation of its own.
                drop(self.connection.take_long_line());
                return Poll::Ready(Ok(Some(self.replies.end())));
            }
        }
    }
}

/// The approximate maximum memory of the words of a request in RESP, in bytes: the request, and for
/// each word an entry in a list with room for twice as many.
pub(super) fn held_bytes(message: &[u8]) -> usize {
    let words = message.iter().filter(|byte| **byte == b'$').count();
    message.len() + words * 2 * size_of::<Bytes>()
}

/// The words of a request in RESP.
pub(super) fn words(message: &[u8]) -> Option<Vec<Bytes>> {
    let (mut decoder, mut at, mut words, mut count) = (Decoder::default(), 0, Vec::new(), None);
    loop {
        let (part, consumed) = decoder.next(message.get(at..)?).ok()??;
        at += consumed;
        match part {
            Part::Array(len) if count.is_none() => count = Some(len),
            Part::Text(_) | Part::End => {}
            Part::Bytes(bytes, true) => words.push(Bytes::copy_from_slice(bytes)),
            _ => return None,
        }
        if decoder.is_over() {
            let is_whole = at == message.len() && count == Some(words.len());
            return (is_whole && !words.is_empty()).then_some(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_whole() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        for (connection, key, version, expected) in [
            ("Upgrade", key, "13", Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")),
            ("keep-alive, upgrade", key, "13", Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")),
            ("keep-alive", key, "13", None),
            ("Upgrade", "x", "13", None),
            ("Upgrade", "dGhlIHNhbXBsZSBub25j", "13", None),
            ("Upgrade", key, "8", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static(connection));
            headers.insert(header::SEC_WEBSOCKET_KEY, HeaderValue::from_static(key));
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(version));
            let accepted = accept(Version::HTTP_11, &headers).ok();
            assert_eq!(accepted, expected.map(HeaderValue::from_static), "{connection} {key}");
            assert!(accept(Version::HTTP_10, &headers).is_err());
        }
        assert!(accept(Version::HTTP_11, &HeaderMap::new()).is_err());
    }

    #[test]
    fn paths_of_sockets() {
        assert_eq!(form("/.json"), Some((Kind::Json, 0)));
        assert_eq!(form("/7/.raw"), Some((Kind::Raw, 7)));
        for other in ["/", "/x", "/.txt", "/x/.json", "/.json/"] {
            assert_eq!(form(other), None, "{other}");
        }
    }

    #[test]
    fn requests_are_arrays_of_texts() {
        let whole = words(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n").unwrap();
        assert_eq!(whole, [Bytes::from_static(b"GET"), Bytes::from_static(b"a")]);
        for wrong in [
            &b""[..],
            b"GET a\r\n",
            b"*0\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$1\r\na\r\nx",
            b"*1\r\n$2\r\na",
        ] {
            assert_eq!(words(wrong), None);
        }
    }
}
