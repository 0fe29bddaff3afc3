//! One command and its reply, both streamed: a body is passed to the worker, and a reply to the
//! client, as it arrives.

use super::body::{self, Pieces};
use super::event::{COMMENT, SILENCE};
use super::format::{Formatter, Kind};
use super::refusal::{Refused, failed, json_error, refuse, status_of};
use super::reply::{Beginning, Reply, ReplyBody};
use super::request::{Options, PathCommand};
use super::service::Service;
use super::worker_connection::{self, ConnectionPool, Failure, WorkerConnection, encode};
use crate::guard::Caller;
use crate::response::{self, ResponseBody};
use crate::site::GatewaySettings;
use hyper::Response;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

/// Replies up to this length are buffered, so that they have a length and an ETag.
pub(super) const HELD_BYTES: usize = 64 << 10;
/// Maximum pieces of messages that wait for their client.
const PIECES: usize = 2;

/// A command and the requested format.
pub(super) struct Command {
    pub(super) caller: Caller,
    pub(super) path: PathCommand,
    /// The body, if it is the last argument.
    pub(super) body: Option<Argument>,
    /// The ETags that the client has.
    pub(super) known: Option<HeaderValue>,
}

/// The last argument of a command.
pub(super) enum Argument {
    /// A body with a length, which is passed on as it arrives.
    Arriving(Incoming),
    /// A body without one, which has arrived.
    Whole(Pieces),
}

/// Runs a command and responds with its reply, or with its messages as they arrive.
pub(super) async fn run(
    service: &Service,
    command: Command,
    is_stream: bool,
    settings: &GatewaySettings,
) -> Result<Response<ResponseBody>, Refused> {
    let Command { caller, path, body, known } = command;
    let may_last = is_stream || service.site.may_wait(&path.words);
    let mut connection = service.connection(&caller, may_last).map_err(|it| failed(&it))?;
    if let Some(error) = connection.select(path.database).await.map_err(|it| failed(&it))? {
        // The connection is closed: it may be in a database that its user may not leave.
        return Err(refuse(status_of(&error), &String::from_utf8_lossy(&error)));
    }
    match body {
        None => connection.send(&path.words).await.map_err(|it| failed(&it))?,
        Some(body) => send_with_body(&mut connection, &path.words, body, settings).await?,
    }
    let verb = path.words.first().cloned().unwrap_or_default();
    let reply = Reply::new(connection, &verb, &path.options);
    if is_stream {
        return Messages { reply, verb, options: path.options }.respond(&service.pool).await;
    }
    respond(reply, &service.pool, &path.options, known).await
}

/// Sends a command whose last argument is the body of the request.
async fn send_with_body(
    connection: &mut WorkerConnection,
    words: &[Bytes],
    body: Argument,
    settings: &GatewaySettings,
) -> Result<(), Refused> {
    let len = match &body {
        Argument::Whole(pieces) => Some(pieces.len() as u64),
        Argument::Arriving(body) => body.size_hint().exact(),
    };
    let Some(len) = len else {
        return Err(refuse(411, "the request needs a Content-Length"));
    };
    if len > settings.longest_argument as u64 {
        return Err(body::longer_than_arguments());
    }
    let mut head = Vec::new();
    encode(words, words.len() + 1, &mut head);
    worker_connection::head(b'$', usize::try_from(len).unwrap_or(usize::MAX), &mut head);
    connection.send_bytes(&head).await.map_err(|it| failed(&it))?;
    match body {
        Argument::Whole(pieces) => pieces.send(connection).await.map_err(|it| failed(&it))?,
        Argument::Arriving(mut body) => {
            let mut left = len;
            while left > 0 {
                // Otherwise the connection is closed, and the worker drops its partial request.
                let data = body::next(&mut body).await?;
                let data = data.ok_or_else(|| refuse(400, "the body cannot be read"))?;
                left = left.saturating_sub(data.len() as u64);
                connection.send_bytes(&data).await.map_err(|it| failed(&it))?;
            }
        }
    }
    connection.send_bytes(b"\r\n").await.map_err(|it| failed(&it))
}

/// Responds with the reply: as a whole if it is short, or streamed.
pub(super) async fn respond(
    mut reply: Reply,
    pool: &Arc<ConnectionPool>,
    options: &Options,
    known: Option<HeaderValue>,
) -> Result<Response<ResponseBody>, Refused> {
    let beginning = reply.advance().await.map_err(|it| failed(&it))?;
    let is_long = beginning.len.is_some_and(|len| len > HELD_BYTES as u64);
    while !is_long && !reply.connection.is_over() && reply.out.len() < HELD_BYTES {
        reply.advance().await.map_err(|it| failed(&it))?;
    }
    let is_whole = reply.connection.is_over();
    let is_absent = beginning.is_nil && matches!(options.kind, Kind::Text(_));
    let status = if is_absent { 404 } else { beginning.status };
    let may_be_kept = is_whole && status == 200 && !matches!(options.kind, Kind::Result { .. });
    let tag = may_be_kept.then(|| entity_tag(&reply.out));
    let body = if is_whole {
        let text = reply.connection.take_long_line().attach(reply.out);
        pool.give_back(reply.connection);
        ResponseBody::Whole(Some(text))
    } else {
        ResponseBody::Made(Box::pin(ReplyBody::new(reply, beginning.len, pool)))
    };
    let is_known = tag.as_ref().zip(known).is_some_and(|(tag, known)| has_tag(&known, tag));
    let mut response = match is_known {
        true => response::value(304, media_type(options), ResponseBody::Whole(None)),
        false => response::value(status, media_type(options), body),
    };
    let headers = response.headers_mut();
    tag.into_iter().for_each(|tag| {
        headers.insert(header::ETAG, tag);
    });
    if let Some(name) = &options.filename
        && let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""))
    {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

pub(super) fn media_type(options: &Options) -> HeaderValue {
    let known = match (&options.media_type, &options.callback) {
        (Some(media_type), _) => {
            let plain = HeaderValue::from_static("application/octet-stream");
            return HeaderValue::from_str(media_type).unwrap_or(plain);
        }
        (None, Some(_)) if options.kind == Kind::Json => "application/javascript",
        _ => options.kind.media_type(),
    };
    HeaderValue::from_static(known)
}

/// Bytes of the hash in an ETag.
const TAG_BYTES: usize = 16;

/// A strong ETag: a hash of the bytes.
fn entity_tag(body: &[u8]) -> HeaderValue {
    let digit = |number: u8| char::from_digit(number.into(), 16).unwrap_or_default() as u8;
    let hash = Sha256::digest(body);
    let mut tag = Vec::with_capacity(TAG_BYTES * 2 + 2);
    tag.push(b'"');
    for byte in hash.iter().take(TAG_BYTES) {
        tag.extend([digit(byte >> 4), digit(byte & 0xf)]);
    }
    tag.push(b'"');
    HeaderValue::from_maybe_shared(Bytes::from(tag)).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether an If-None-Match header has a tag (RFC 9110, 13.1.2).
fn has_tag(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(known), Ok(tag)) = (known.to_str(), tag.to_str()) else { return false };
    known.split(',').map(str::trim).any(|it| it == "*" || it.trim_start_matches("W/") == tag)
}

/// Messages to a client, each a separate reply.
struct Messages {
    reply: Reply,
    verb: Bytes,
    options: Options,
}

impl Messages {
    /// Responds with messages until the client disconnects, or with an error.
    async fn respond(mut self, pool: &ConnectionPool) -> Result<Response<ResponseBody>, Refused> {
        let is_of_events = self.options.kind == Kind::Events;
        let media_type = media_type(&self.options);
        let beginning = self.advance().await.map_err(|it| failed(&it))?;
        if let Some(error) = beginning.error {
            let text = self.reply.connection.take_long_line().attach(self.reply.out);
            pool.give_back(self.reply.connection);
            if is_of_events {
                return Err(json_error(beginning.status, &error));
            }
            let body = ResponseBody::Whole(Some(text));
            return Ok(response::value(beginning.status, media_type, body));
        }
        let (sender, pieces) = mpsc::channel(PIECES);
        spawn_local(self.pump(sender, is_of_events));
        Ok(response::value(200, media_type, ResponseBody::Pieces(pieces)))
    }

    /// Waits for the next part of a message, as [`Reply::advance`] does.
    async fn advance(&mut self) -> Result<Beginning, Failure> {
        let beginning = self.reply.advance().await?;
        if self.reply.connection.is_over() {
            let Options { kind, separator, .. } = &self.options;
            self.reply.formatter = Formatter::new(*kind, &self.verb, separator);
        }
        Ok(beginning)
    }

    /// Waits for messages: all that have arrived, or a piece of long ones. It is cancel-safe.
    async fn next(&mut self) -> Result<Bytes, Failure> {
        loop {
            let is_whole = self.is_between() && self.reply.connection.is_empty();
            let held = self.reply.out.len();
            if held >= HELD_BYTES || is_whole && held > 0 {
                let text = std::mem::take(&mut self.reply.out);
                return Ok(self.reply.connection.take_long_line().attach(text));
            }
            self.advance().await?;
        }
    }

    /// Whether the stream is between two messages.
    fn is_between(&self) -> bool {
        self.reply.connection.is_over()
    }

    async fn pump(mut self, sender: mpsc::Sender<Bytes>, is_of_events: bool) {
        loop {
            let piece = tokio::select! {
                biased;
                arrived = self.next() => match arrived {
                    Ok(piece) => piece,
                    Err(_) => return,
                },
                () = tokio::time::sleep(SILENCE), if is_of_events => match self.is_between() {
                    true => COMMENT,
                    false => continue,
                },
                () = sender.closed() => return,
            };
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::worker_connection::TestWorker;
    use tokio::task::LocalSet;

    /// The pieces of a response to SUBSCRIBE, and the worker.
    async fn subscribed() -> (mpsc::Receiver<Bytes>, TestWorker) {
        let (connection, mut worker) = TestWorker::connect();
        worker.write_all(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n").await;
        let options = Options { kind: Kind::Events, ..Options::default() };
        let reply = Reply::new(connection, b"SUBSCRIBE", &options);
        let messages = Messages { reply, verb: Bytes::from_static(b"SUBSCRIBE"), options };
        let response = messages.respond(&ConnectionPool::default()).await.ok();
        match response.unwrap().into_body() {
            ResponseBody::Pieces(pieces) => (pieces, worker),
            ResponseBody::Made(_) | ResponseBody::Whole(_) => panic!("it ends"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_between_events_alone() {
        let test = async {
            let (mut pieces, mut worker) = subscribed().await;
            assert_eq!(pieces.recv().await.unwrap(), "data: subscribe,c,1\n\n");
            let start = tokio::time::Instant::now();
            assert_eq!(pieces.recv().await.unwrap(), COMMENT);
            assert!(start.elapsed() >= SILENCE);
            worker.write_all(b"*3\r\n$7\r\nmessage\r\n$1\r\nc").await;
            let quiet = tokio::time::timeout(SILENCE * 3, pieces.recv());
            assert!(quiet.await.is_err(), "there is half a message");
            worker.write_all(b"\r\n$1\r\nx\r\n").await;
            assert_eq!(pieces.recv().await.unwrap(), "data: message,c,x\n\n");
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn long_messages_come_in_pieces() {
        let test = async {
            let (mut pieces, mut worker) = subscribed().await;
            let text = vec![b'x'; HELD_BYTES * 10];
            let head = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n", text.len());
            let message = [head.as_bytes(), &text, b"\r\n"].concat();
            let sent = spawn_local(async move { worker.write_all(&message).await });
            let (mut received, wanted) = (Vec::new(), text.len() + "data: message,c,\n\n".len());
            assert_eq!(pieces.recv().await.unwrap(), "data: subscribe,c,1\n\n");
            while received.len() < wanted {
                let piece = pieces.recv().await.unwrap();
                assert!(piece.len() < HELD_BYTES * 3, "{}", piece.len());
                received.extend(piece);
            }
            assert_eq!(received.len(), wanted);
            sent.await.unwrap();
        };
        LocalSet::new().run_until(test).await;
    }
}
