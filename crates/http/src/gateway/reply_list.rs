//! The replies to a list of commands, in the format of Upstash's REST interface. Commands are sent
//! and replies passed on while there is room for them, so that neither all commands nor all replies
//! have to be in memory, and a worker whose replies are not read yet may keep commands waiting.

use super::budget::Reservation;
use super::decoder::Part;
use super::exchange::HELD_BYTES;
use super::refusal::{JSON, Refused, failed, status_of, write_error};
use super::reply::{ReplyBody, Source};
use super::result_object::ResultList;
use super::worker_connection::{ConnectionPool, Failure, Unsent, WorkerConnection};
use crate::response::{self, ResponseBody};
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Maximum commands that have been sent and not answered.
const AHEAD: usize = 64;

/// The replies to a pipeline or a transaction.
pub(super) struct ReplyList {
    connection: WorkerConnection,
    requests: Requests,
    /// The meaning of the replies that are due, the next one first.
    expected: VecDeque<Expected>,
    writer: ListWriter,
    /// The memory of the commands.
    _reservation: Reservation,
}

/// The meaning of a reply.
#[derive(Clone, Copy)]
enum Expected {
    /// An item of the list.
    Item,
    /// There is no reply: the command was refused with this error, which is an item.
    Refused(&'static [u8]),
    /// It says that a command of a transaction was queued, or why not.
    Queued,
    /// The reply to EXEC, whose elements are items.
    Executed,
}

/// Commands that have not been sent completely.
struct Requests {
    commands: VecDeque<Vec<Bytes>>,
    /// The command that is being sent.
    unsent: Unsent,
    /// The number of commands whose sending has begun and that have no reply.
    unanswered: usize,
}

/// The text of the response.
struct ListWriter {
    list: ResultList,
    /// The first error of a transaction's commands before EXEC.
    queue_error: Option<Vec<u8>>,
    /// The status of the response, known once there is text.
    status: u16,
    out: Vec<u8>,
}

impl ReplyList {
    /// The replies to the commands of a pipeline, some of which were refused with an error.
    pub(super) fn of_pipeline(
        commands: Vec<Result<Vec<Bytes>, &'static [u8]>>,
        connection: WorkerConnection,
        reservation: Reservation,
        is_base64: bool,
    ) -> Self {
        let (mut permitted, mut expected) = (VecDeque::new(), VecDeque::new());
        for command in commands {
            expected.push_back(match command {
                Ok(words) => {
                    permitted.push_back(words);
                    Expected::Item
                }
                Err(error) => Expected::Refused(error),
            });
        }
        ReplyList::new(permitted, expected, connection, reservation, is_base64)
    }

    /// The replies to the commands of a transaction, after MULTI.
    pub(super) fn of_transaction(
        commands: Vec<Vec<Bytes>>,
        connection: WorkerConnection,
        reservation: Reservation,
        is_base64: bool,
    ) -> Self {
        let mut commands = VecDeque::from(commands);
        let mut expected: VecDeque<_> = commands.iter().map(|_| Expected::Queued).collect();
        commands.push_back(vec![Bytes::from_static(b"EXEC")]);
        expected.push_back(Expected::Executed);
        ReplyList::new(commands, expected, connection, reservation, is_base64)
    }

    fn new(
        commands: VecDeque<Vec<Bytes>>,
        expected: VecDeque<Expected>,
        connection: WorkerConnection,
        reservation: Reservation,
        is_base64: bool,
    ) -> Self {
        let requests = Requests { commands, unsent: Unsent::default(), unanswered: 0 };
        let list = ResultList::new(is_base64);
        let writer = ListWriter { list, queue_error: None, status: 200, out: Vec::new() };
        ReplyList { connection, requests, expected, writer, _reservation: reservation }
    }

    /// Responds with the list: as a whole if it is short, or streamed.
    pub(super) async fn respond(
        mut self,
        pool: &Arc<ConnectionPool>,
    ) -> Result<Response<ResponseBody>, Refused> {
        while !self.is_over() && self.writer.out.len() < HELD_BYTES {
            poll_fn(|cx| self.poll_next(cx)).await.map_err(|it| failed(&it))?;
        }
        let status = self.writer.status;
        let body = if self.is_over() {
            pool.give_back(self.connection);
            ResponseBody::Whole(Some(self.writer.out.into()))
        } else {
            ResponseBody::Made(Box::pin(ReplyBody::new(self, None, pool)))
        };
        Ok(response::value(status, HeaderValue::from_static(JSON), body))
    }
}

impl Source for ReplyList {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let ReplyList { connection, requests, expected, writer, .. } = self;
        requests.send(connection, cx)?;
        let Some(&next) = expected.front() else { return Poll::Ready(Ok(())) };
        if let Expected::Refused(error) = next {
            writer.list.error(error, &mut writer.out);
        } else {
            ready!(connection.poll_part(cx, |part, _| writer.write(next, part)))?;
            if !connection.is_over() {
                return Poll::Ready(Ok(()));
            }
            requests.unanswered = requests.unanswered.saturating_sub(1);
        }
        expected.pop_front();
        if expected.is_empty() {
            writer.end();
        }
        Poll::Ready(Ok(()))
    }

    fn is_over(&self) -> bool {
        self.expected.is_empty()
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.writer.out
    }

    fn into_connection(self) -> WorkerConnection {
        self.connection
    }
}

impl Requests {
    /// Sends as much as there is room for. If that is not all, the task is woken once more fits.
    fn send(
        &mut self,
        connection: &mut WorkerConnection,
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        while self.unsent.send(connection, cx)? && self.unanswered < AHEAD {
            let Some(words) = self.commands.pop_front() else { break };
            self.unsent.push(&words);
            self.unanswered += 1;
        }
        Ok(())
    }
}

impl ListWriter {
    fn write(&mut self, expected: Expected, part: Part<'_>) {
        match expected {
            Expected::Item => self.list.write(part, &mut self.out),
            Expected::Executed => self.write_executed(part),
            Expected::Queued => {
                if let Part::Error(error) = part
                    && self.queue_error.is_none()
                {
                    self.queue_error = Some(error.to_vec());
                }
            }
            Expected::Refused(_) => {}
        }
    }

    fn write_executed(&mut self, part: Part<'_>) {
        match part {
            // The transaction was not executed. The error of a command says more than EXEC's.
            Part::Error(error) if !self.list.has_begun() => {
                let error = self.queue_error.take().unwrap_or_else(|| error.to_vec());
                self.status = status_of(&error);
                write_error(&error, &mut self.out);
            }
            Part::Array(_) if !self.list.has_begun() => self.list.begin(&mut self.out),
            // The end of EXEC's own array.
            Part::End if self.list.is_between() => {}
            part => self.list.write(part, &mut self.out),
        }
    }

    /// Ends the list, unless there is an error in its place.
    fn end(&mut self) {
        if self.status == 200 {
            self.list.end(&mut self.out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::budget::Budget;
    use crate::gateway::worker_connection::TestWorker;
    use http_body_util::BodyExt as _;
    use tokio::task::{LocalSet, spawn_local};

    /// The response to a pipeline or a transaction that a worker answers with `replies`.
    fn response(commands: &[&str], is_transaction: bool, replies: &[u8]) -> (u16, String) {
        let (commands, replies) = (commands.to_vec(), replies.to_vec());
        let test = async move {
            let (connection, mut worker) = TestWorker::connect();
            spawn_local(async move { worker.write_all(&replies).await });
            let reservation = Budget::default().reservation();
            let words = |name: &&str| vec![Bytes::copy_from_slice(name.as_bytes())];
            let list = if is_transaction {
                let commands = commands.iter().map(words).collect();
                ReplyList::of_transaction(commands, connection, reservation, false)
            } else {
                let command = |name: &&str| match *name {
                    "REFUSED" => Err(&b"NOPERM no"[..]),
                    _ => Ok(words(name)),
                };
                let commands = commands.iter().map(command).collect();
                ReplyList::of_pipeline(commands, connection, reservation, false)
            };
            let response = list.respond(&Arc::default()).await.ok().unwrap();
            let status = response.status().as_u16();
            let (mut body, mut text) = (response.into_body(), Vec::new());
            // A piece is only made once the one before it has been dropped.
            while let Some(frame) = body.frame().await {
                text.extend(frame.unwrap().into_data().unwrap());
            }
            (status, String::from_utf8(text).unwrap())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, test)
    }

    #[test]
    fn refused_commands_have_their_error_in_a_pipeline() {
        for (commands, replies, list) in [
            (&["A", "REFUSED", "B"][..], &b":1\r\n*1\r\n-ERR x\r\n"[..], "[1,NO,[\"ERR x\"]]"),
            (&["REFUSED", "A"], b"-OOM x\r\n", "[NO,OOM]"),
            (&["REFUSED"], b"", "[NO]"),
            (&["A"], b"$-1\r\n", "[null]"),
        ] {
            let (status, body) = response(commands, false, replies);
            let short = body
                .replace("{\"error\":\"NOPERM no\"}", "NO")
                .replace("{\"error\":\"OOM x\"}", "OOM")
                .replace("{\"result\":", "")
                .replace('}', "");
            assert_eq!((status, &*short), (200, list), "{commands:?}");
        }
    }

    #[test]
    fn a_transaction_has_its_results_or_an_error() {
        for (replies, status, body) in [
            ("+QUEUED +QUEUED *2 :1 *1 $-1", 200, r#"[{"result":1},{"result":[null]}]"#),
            ("+QUEUED +QUEUED *2 -ERR :2", 200, r#"[{"error":"ERR"},{"result":2}]"#),
            ("+QUEUED -ERR -EXECABORT", 400, r#"{"error":"ERR"}"#),
            ("-OOM -ERR -EXECABORT", 503, r#"{"error":"OOM"}"#),
            ("+QUEUED +QUEUED -OOM", 503, r#"{"error":"OOM"}"#),
            ("+QUEUED +QUEUED *-1", 200, r#"[{"result":null}]"#),
        ] {
            let lines = format!("{replies} ").replace(' ', "\r\n");
            let expected = (status, body.to_owned());
            assert_eq!(response(&["A", "B"], true, lines.as_bytes()), expected, "{replies}");
        }
    }

    #[test]
    fn long_lists_are_streamed() {
        let commands = vec!["A"; 100 * AHEAD];
        let (status, body) = response(&commands, false, &b"$4\r\nabcd\r\n".repeat(commands.len()));
        let items = vec![r#"{"result":"abcd"}"#; commands.len()].join(",");
        assert_eq!((status, body), (200, format!("[{items}]")));
        let reply = [b"$1000000\r\n", &[b'x'; 1_000_000][..], b"\r\n"].concat();
        let (status, body) = response(&["A", "B"], false, &reply.repeat(2));
        let item = format!("{{\"result\":\"{}\"}}", "x".repeat(1_000_000));
        assert_eq!((status, body), (200, format!("[{item},{item}]")));
    }
}
