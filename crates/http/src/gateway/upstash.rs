//! Commands as lists in JSON, in the format of Upstash's REST interface
//! (<https://upstash.com/docs/redis/features/restapi>).

use super::event_request;
use super::exchange;
use super::format::Kind;
use super::refusal::{JSON, Refused, failed, json_error, no_room, status_of, write_error};
use super::reply;
use super::reply_list::ReplyList;
use super::request::Options;
use super::service::{Messages, Service};
use super::worker_connection::WorkerConnection;
use crate::guard::Caller;
use crate::response::ResponseBody;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::value::RawValue;

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

/// Whether a request uses these forms, as far as its head shows: a client that does parses every
/// response as JSON.
pub(super) fn is_asked_for(request: &Parts) -> bool {
    let (method, path, headers) = (&request.method, request.uri.path(), &request.headers);
    let has = |name: HeaderName, begin: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut begins = values.filter_map(|value| value.get(..begin.len()));
        begins.any(|it| it.eq_ignore_ascii_case(begin))
    };
    match path {
        "/pipeline" | "/multi-exec" => method == Method::POST,
        // The body may be the path of a command instead.
        "/" => {
            let may_be_list =
                has(header::CONTENT_TYPE, JSON) || has(header::AUTHORIZATION, "bearer ");
            method == Method::POST && may_be_list
        }
        path => {
            event_request::are_wanted(method, headers) && event_request::command(path).is_some()
        }
    }
}

/// A refusal in the error format of this interface, unless it is in JSON already.
pub(super) fn in_json(refusal: Response<ResponseBody>) -> Response<ResponseBody> {
    let (mut parts, body) = refusal.into_parts();
    let json = HeaderValue::from_static(JSON);
    let is_json = parts.headers.get(header::CONTENT_TYPE) == Some(&json);
    match body {
        ResponseBody::Whole(Some(line)) if !is_json => {
            parts.headers.insert(header::CONTENT_TYPE, json);
            let mut out = Vec::new();
            write_error(line.trim_ascii_end(), &mut out);
            Response::from_parts(parts, ResponseBody::Whole(Some(out.into())))
        }
        body => Response::from_parts(parts, body),
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
    match form.many {
        Many::One => serve_one(service, form, body, caller).await,
        Many::Pipeline | Many::Transaction => serve_list(service, form, body, caller).await,
    }
}

/// Runs one command. Its reply is passed on as it arrives.
async fn serve_one(
    service: &Service,
    form: Form,
    body: &[u8],
    caller: &Caller,
) -> Result<Response<ResponseBody>, Refused> {
    let mut reservation = service.budget.reservation();
    reservation.grow(parsed_bytes(body)).map_err(|_| no_room())?;
    let words = commands(form.many, body)?.pop().unwrap_or_default();
    let checked = service.check(caller, &words, true, Messages::None);
    checked.map_err(|refused| as_error(&refused))?;
    let may_wait = service.site.may_wait(&words);
    let mut connection = first_database(service, caller, may_wait).await?;
    connection.send(&words).await.map_err(|it| failed(&it))?;
    let kind = Kind::Result { is_base64: form.is_base64 };
    let options = Options { kind, ..Options::default() };
    let reply = reply::Reply::new(connection, &[], &options);
    exchange::respond(reply, &service.pool, &options, None).await
}

/// A worker connection to database 0, in which all commands in this format are executed.
async fn first_database(
    service: &Service,
    caller: &Caller,
    may_wait: bool,
) -> Result<WorkerConnection, Refused> {
    let mut connection = service.connection(caller, may_wait).map_err(|it| failed(&it))?;
    match connection.select(0).await.map_err(|it| failed(&it))? {
        None => Ok(connection),
        // The connection is closed: its user may not leave its database.
        Some(error) => Err(json_error(status_of(&error), &error)),
    }
}

/// Runs a pipeline or a transaction.
async fn serve_list(
    service: &Service,
    form: Form,
    body: &[u8],
    caller: &Caller,
) -> Result<Response<ResponseBody>, Refused> {
    let mut reservation = service.budget.reservation();
    reservation.grow(parsed_bytes(body)).map_err(|_| no_room())?;
    let mut permitted = Vec::new();
    for words in commands(form.many, body)? {
        let checked = service.check(caller, &words, true, Messages::None);
        match checked.map_err(|refused| (refused.status(), error_of(refused.status()))) {
            Err((status, text)) if form.many == Many::Transaction => {
                return Err(json_error(error_status(status), text));
            }
            checked => permitted.push(checked.map(|_| words).map_err(|(_, text)| text)),
        }
    }
    let may_wait = form.many != Many::Transaction
        && permitted.iter().flatten().any(|words| service.site.may_wait(words));
    let mut connection = first_database(service, caller, may_wait).await?;
    let replies = match form.many {
        Many::Transaction => {
            // Without a transaction, the commands would be executed one by one.
            let begun = connection.error_of(&[Bytes::from_static(b"MULTI")]).await;
            if let Some(error) = begun.map_err(|it| failed(&it))? {
                service.pool.give_back(connection);
                return Err(json_error(status_of(&error), &error));
            }
            let commands = permitted.into_iter().flatten().collect();
            ReplyList::of_transaction(commands, connection, reservation, form.is_base64)
        }
        _ => ReplyList::of_pipeline(permitted, connection, reservation, form.is_base64),
    };
    replies.respond(&service.pool).await
}

/// A refusal in the error format of this interface.
pub(super) fn as_error(refused: &Refused) -> Refused {
    json_error(error_status(refused.status()), error_of(refused.status()))
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

/// The commands of a body.
pub(super) fn commands(many: Many, body: &[u8]) -> Result<Vec<Vec<Bytes>>, Refused> {
    let fault = |reason: &str| {
        json_error(400, format!("ERR failed to parse the command: {reason}").as_bytes())
    };
    let unreadable = |error: serde_json::Error| fault(&error.to_string());
    let lists: Vec<&RawValue> = match many {
        Many::One => vec![serde_json::from_slice(body).map_err(unreadable)?],
        _ if !is_list(body) => return Err(fault("expected a list of commands")),
        _ => serde_json::from_slice(body).map_err(unreadable)?,
    };
    let commands: Option<Vec<_>> =
        lists.into_iter().map(|list| words(list.get().as_bytes())).collect();
    commands
        .filter(|commands| !commands.is_empty())
        .ok_or_else(|| fault("a command must be a list of its name and arguments"))
}

/// The approximate memory of the parsed commands of a JSON text, in bytes: its text, and for each
/// word its place in the text and the word itself, in lists with room for twice as many. A list has
/// room for four initially. Values within words stay text.
pub(super) fn parsed_bytes(text: &[u8]) -> usize {
    const OF_WORD: usize = 2 * (size_of::<&RawValue>() + size_of::<Bytes>());
    const OF_LIST: usize = 4;
    /// Lists within a list of commands are words.
    const DEEPEST: usize = 2;
    let (mut depth, mut is_text, mut is_escaped, mut places) = (0_usize, false, false, 1_usize);
    for byte in text {
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => {
                places += if depth < DEEPEST { OF_LIST } else { 0 };
                depth += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth <= DEEPEST => places += 1,
            _ => {}
        }
    }
    text.len() + places * OF_WORD
}

/// The words of a command in a JSON list.
pub(super) fn words(text: &[u8]) -> Option<Vec<Bytes>> {
    let words: Vec<&RawValue> = serde_json::from_slice(text).ok()?;
    let words: Option<Vec<Bytes>> = words.into_iter().map(word).collect();
    words.filter(|words| !words.is_empty())
}

/// An argument: the content of a string, and the text of any other value, as it was written.
fn word(value: &RawValue) -> Option<Bytes> {
    let text = value.get();
    match text {
        "null" => None,
        _ if text.starts_with('"') => Some(serde_json::from_str::<String>(text).ok()?.into()),
        _ => Some(Bytes::copy_from_slice(text.as_bytes())),
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
        for argument in
            ["1.5", "2.50", "1e2", "-0", "18446744073709551616", r#"{"b": 1,"a":[true, null]}"#]
        {
            let body = format!(r#"["SET","a",{argument} ]"#);
            assert_eq!(words(Many::One, &body), lines(&[&format!("SET a {argument}")]));
        }
        assert_eq!(words(Many::One, r#"["SET","\u00e9\n\""]"#), lines(&["SET \u{e9}\n\""]));
        assert_eq!(words(Many::Pipeline, r#"[["GET","a"],["PING"]]"#), lines(&["GET a", "PING"]));
        for wrong in ["[]", "[null]", "{}", "[[]]", "x", "[\"GET\",null]", "[1,[2]"] {
            let many = if wrong.starts_with("[[") { Many::Pipeline } else { Many::One };
            assert_eq!(words(many, wrong), None::<Vec<String>>, "{wrong}");
        }
    }

    #[test]
    fn all_words_and_lists_are_counted() {
        let pair = size_of::<&RawValue>() + size_of::<Bytes>();
        let lists = format!("[{}]", vec![r#"["A"]"#; 1000].join(","));
        let counted = parsed_bytes(lists.as_bytes());
        assert!(counted >= 1000 * (4 * pair + 2 * size_of::<Vec<Bytes>>()), "{counted}");
        let words = format!("[{}]", vec!["1"; 1000].join(","));
        assert!(parsed_bytes(words.as_bytes()) >= 2000 * pair);
        for inner in ["\"[,{,\\\",\"", "{\"a\":[{},[1,[],2]],\"b\":0}"] {
            let command = format!("[\"SET\",\"a\",{inner}]");
            let plain = "[\"SET\",\"a\",\"\"]";
            let more = command.len() - plain.len();
            let counted = parsed_bytes(command.as_bytes()) - parsed_bytes(plain.as_bytes());
            assert!(counted <= more + 16 * pair, "{inner}: {counted}");
        }
    }
}
