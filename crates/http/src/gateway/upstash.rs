//! Commands as lists in JSON, in the format of Upstash's REST interface
//! (<https://upstash.com/docs/redis/features/restapi>).

use super::budget::Reservation;
use super::format::json_string;
use super::refusal::{Refused, failed, status_of};
use super::service::{Messages, Service};
use super::worker_connection::{Failure, Reply, WorkerConnection};
use crate::guard::Caller;
use crate::response::{self, ResponseBody};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

const JSON: &str = "application/json";
/// Maximum commands of a list that are sent before the first reply is read.
const AHEAD: usize = 64;

/// The contents of a body, and the format of replies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) many: Many,
    is_base64: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Many {
    /// One command.
    One,
    /// Commands, each with a separate reply.
    Pipeline,
    /// Commands of a transaction.
    Transaction,
}

impl Form {
    pub(super) fn of(path: &str, headers: &HeaderMap) -> Self {
        let many = match path {
            "/pipeline" => Many::Pipeline,
            "/multi-exec" => Many::Transaction,
            _ => Many::One,
        };
        let encoding = headers.get("upstash-encoding");
        Form { many, is_base64: encoding.is_some_and(|it| it.as_bytes() == b"base64") }
    }
}

/// Whether a body is a list.
pub(super) fn is_list(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"[")
}

/// Runs the commands of a body.
pub(super) async fn serve(
    service: &Service,
    form: Form,
    body: &[u8],
    caller: &Caller,
) -> Result<Response<ResponseBody>, Refused> {
    let mut reservation = service.budget.reservation();
    reservation.grow(parsed_bytes(body)).map_err(|it| failed(&it.into()))?;
    let commands = commands(form.many, body)?;
    let mut refused = Vec::with_capacity(commands.len());
    for words in &commands {
        let checked = service.check(caller, words, true, Messages::None);
        match checked.map_err(|refused| (refused.status(), error_of(refused.status()))) {
            Err((status, text)) if form.many != Many::Pipeline => {
                return Err(error(error_status(status), text));
            }
            checked => refused.push(checked.err().map(|(_, text)| text)),
        }
    }
    let permitted = commands.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
    let permitted: Vec<_> = permitted.map(|(words, _)| &**words).collect();
    let may_wait = form.many != Many::Transaction
        && permitted.iter().any(|words| service.site.may_wait(words));
    let mut connection = service.connection(caller, may_wait).map_err(|it| failed(&it))?;
    connection.select(0).await.map_err(|it| failed(&it))?;
    let replies = match form.many {
        Many::One | Many::Pipeline => run_all(&mut connection, &permitted, &mut reservation).await,
        Many::Transaction => run_transaction(&mut connection, &permitted, &mut reservation).await,
    };
    let mut replies = replies.map_err(|it| failed(&it))?;
    service.pool.give_back(connection);
    if form.many == Many::Pipeline {
        replies = with_refused(replies, &refused);
    }
    let mut out = Vec::new();
    let status = write(form, commands.len(), &replies, &mut out);
    drop((commands, replies));
    reservation.clear();
    reservation.grow(out.len()).map_err(|it| failed(&it.into()))?;
    let body = ResponseBody::Whole(Some(reservation.attach(out)));
    Ok(response::value(status, HeaderValue::from_static(JSON), body))
}

/// Appends the replies to `commands` commands. Returns the status of the response.
pub(super) fn write(form: Form, commands: usize, replies: &[Reply], out: &mut Vec<u8>) -> u16 {
    match (form.many, replies) {
        (Many::One, [reply]) => item(reply, form, out),
        // A transaction that was not executed.
        (Many::Transaction, [Reply::Error(error)]) if commands != 1 || is_abort(error) => {
            item(&Reply::Error(error.clone()), form, out)
        }
        (_, replies) => {
            out.push(b'[');
            for (number, reply) in replies.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                item(reply, form, out);
            }
            out.push(b']');
            200
        }
    }
}

fn is_abort(error: &[u8]) -> bool {
    error.starts_with(b"EXECABORT")
}

/// Replies to the commands of a pipeline, with errors in place of those that were refused.
fn with_refused(replies: Vec<Reply>, refused: &[Option<&'static [u8]>]) -> Vec<Reply> {
    let mut replies = replies.into_iter();
    let in_place = refused.iter().map(|refused| match refused {
        Some(error) => Some(Reply::Error(error.to_vec())),
        None => replies.next(),
    });
    in_place.flatten().collect()
}

/// A refusal in the error format of this interface.
pub(super) fn as_error(refused: &Refused) -> Refused {
    error(error_status(refused.status()), error_of(refused.status()))
}

/// The error text for a refusal with this status.
fn error_of(status: StatusCode) -> &'static [u8] {
    match status.as_u16() {
        404 => b"ERR unknown command",
        403 => b"NOPERM command not allowed over HTTP",
        _ => b"ERR the command is refused",
    }
}

/// The status of a response with this error.
fn error_status(status: StatusCode) -> u16 {
    if status == StatusCode::NOT_FOUND { 400 } else { status.as_u16() }
}

/// A response with an error.
pub(super) fn error(status: u16, text: &[u8]) -> Refused {
    let mut out = Vec::new();
    item_error(text, &mut out);
    Box::new(response::value(
        status,
        HeaderValue::from_static(JSON),
        ResponseBody::Whole(Some(out.into())),
    ))
}

/// The commands of a body.
pub(super) fn commands(many: Many, body: &[u8]) -> Result<Vec<Vec<Bytes>>, Refused> {
    let fault =
        |reason: &str| error(400, format!("ERR failed to parse the command: {reason}").as_bytes());
    let body: Value = serde_json::from_slice(body).map_err(|error| fault(&error.to_string()))?;
    let lists = match (many, body) {
        (Many::One, one) => vec![one],
        (_, Value::Array(lists)) => lists,
        _ => return Err(fault("expected a list of commands")),
    };
    let commands: Option<Vec<_>> = lists.into_iter().map(words_of).collect();
    commands
        .filter(|commands| !commands.is_empty())
        .ok_or_else(|| fault("a command must be a list of its name and arguments"))
}

/// The approximate memory of a parsed JSON text, in bytes: its text, and for each of its values the
/// value and the resulting word, in lists with room for twice as many. A list has room for four
/// values initially, and an object for eleven pairs.
pub(super) fn parsed_bytes(text: &[u8]) -> usize {
    const OF_OBJECT: usize = 6;
    let values = text.iter().map(|byte| match byte {
        b',' | b'[' => 1,
        b'{' => OF_OBJECT,
        _ => 0,
    });
    text.len() + (1 + values.sum::<usize>()) * 2 * (size_of::<Value>() + size_of::<Bytes>())
}

/// The words of a command in a JSON list.
pub(super) fn words(text: &[u8]) -> Option<Vec<Bytes>> {
    words_of(serde_json::from_slice(text).ok()?)
}

fn words_of(list: Value) -> Option<Vec<Bytes>> {
    match list {
        Value::Array(words) if !words.is_empty() => words.into_iter().map(word).collect(),
        _ => None,
    }
}

/// An argument: a string as it is, any other value as JSON.
fn word(value: Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Null => None,
        value => Some(value.to_string().into()),
    }
}

async fn run_all(
    connection: &mut WorkerConnection,
    commands: &[&[Bytes]],
    reservation: &mut Reservation,
) -> Result<Vec<Reply>, Failure> {
    let mut replies = Vec::with_capacity(commands.len());
    for batch in commands.chunks(AHEAD) {
        for words in batch {
            connection.send(words).await?;
        }
        for _ in batch {
            replies.push(connection.reply(reservation).await?);
        }
    }
    Ok(replies)
}

/// Runs commands as a transaction. Returns the elements of EXEC's reply.
async fn run_transaction(
    connection: &mut WorkerConnection,
    commands: &[&[Bytes]],
    reservation: &mut Reservation,
) -> Result<Vec<Reply>, Failure> {
    run_all(connection, &[&[Bytes::from_static(b"MULTI")]], reservation).await?;
    let queued = run_all(connection, commands, reservation).await?;
    let mut executed = run_all(connection, &[&[Bytes::from_static(b"EXEC")]], reservation).await?;
    Ok(match executed.pop() {
        Some(Reply::Array(replies)) => replies,
        // The first error says more than that nothing was executed.
        Some(Reply::Error(abort)) => {
            let mut errors = queued.into_iter().filter(|reply| matches!(reply, Reply::Error(_)));
            vec![errors.next().unwrap_or(Reply::Error(abort))]
        }
        other => other.into_iter().collect(),
    })
}

/// Appends a reply as an object. Returns the status of a response with only this reply.
fn item(reply: &Reply, form: Form, out: &mut Vec<u8>) -> u16 {
    if let Reply::Error(error) = reply {
        item_error(error, out);
        return status_of(error);
    }
    out.extend(b"{\"result\":");
    result(reply, form.is_base64, out);
    out.push(b'}');
    200
}

fn item_error(error: &[u8], out: &mut Vec<u8>) {
    out.extend(b"{\"error\":");
    json_string(error, out);
    out.push(b'}');
}

fn result(reply: &Reply, is_base64: bool, out: &mut Vec<u8>) {
    let text = |text: &[u8], out: &mut Vec<u8>| match is_base64 && text != b"OK" {
        true => json_string(STANDARD.encode(text).as_bytes(), out),
        false => json_string(text, out),
    };
    match reply {
        Reply::Status(status) | Reply::Error(status) => text(status, out),
        Reply::Text(bytes) => text(bytes, out),
        Reply::Integer(number) => out.extend(number.to_string().bytes()),
        Reply::Nil => out.extend(b"null"),
        Reply::Array(elements) => {
            out.push(b'[');
            for (number, element) in elements.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                result(element, is_base64, out);
            }
            out.push(b']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_command_or_a_list_of_them() {
        let words = |many, body: &str| {
            commands(many, body.as_bytes()).ok().map(|commands| {
                let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
                commands
                    .iter()
                    .map(|it| it.iter().map(text).collect::<Vec<_>>().join(" "))
                    .collect()
            })
        };
        let lines =
            |texts: &[&str]| Some(texts.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
        assert_eq!(words(Many::One, r#"["SET","a",1.5]"#), lines(&["SET a 1.5"]));
        assert_eq!(
            words(Many::One, r#"["SET","a",{"x":[true]}]"#),
            lines(&[r#"SET a {"x":[true]}"#])
        );
        assert_eq!(words(Many::Pipeline, r#"[["GET","a"],["PING"]]"#), lines(&["GET a", "PING"]));
        for wrong in ["[]", "[null]", "{}", "[[]]", "x", "[\"GET\",null]", "[1,[2]"] {
            let many = if wrong.starts_with("[[") { Many::Pipeline } else { Many::One };
            assert_eq!(words(many, wrong), None::<Vec<String>>, "{wrong}");
        }
    }

    #[test]
    fn lists_within_lists_and_objects_are_counted() {
        for (text, values) in [("[[[[[[[[]]]]]]]]", 7 * 4), (r#"{"":{"":{"":1}}}"#, 3 * 11)] {
            let body = format!("[\"SET\",\"a\"{}]", [",", text].concat().repeat(1000));
            let counted = parsed_bytes(body.as_bytes());
            let held = 1000 * values * size_of::<Value>();
            assert!(counted >= held, "{text}: {counted} bytes are counted, {held} are held");
        }
    }

    #[test]
    fn results_are_objects_and_text_may_be_base64() {
        let reply = Reply::Array(vec![
            Reply::Text(b"a\xff".to_vec()),
            Reply::Integer(1),
            Reply::Nil,
            Reply::Status(b"OK".to_vec()),
        ]);
        for (is_base64, expected) in [
            (false, "{\"result\":[\"a\u{fffd}\",1,null,\"OK\"]}"),
            (true, r#"{"result":["Yf8=",1,null,"OK"]}"#),
        ] {
            let mut out = Vec::new();
            let form = Form { many: Many::One, is_base64 };
            assert_eq!(item(&reply, form, &mut out), 200);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        let form = Form { many: Many::One, is_base64: false };
        assert_eq!(item(&Reply::Error(b"OOM no".to_vec()), form, &mut out), 503);
        assert_eq!(out, br#"{"error":"OOM no"}"#);
    }
}
