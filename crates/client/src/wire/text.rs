//! memcached's classic text protocol.

use nagi_proto::{MalformedReply, split_line};

use super::progress::{Found, Progress, Step};
use super::request::{Answer, Mode, Request, Value, malformed, number, quiet_answer, split_value};

pub(super) fn encode(request: &Request<'_>, out: &mut Vec<u8>) {
    encode_with(request, "", out);
}

/// Encodes a request, with `word` at the end of its line.
fn encode_with(request: &Request<'_>, word: &str, out: &mut Vec<u8>) {
    let mut put = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
    };
    match request {
        Request::Get { keys } => {
            put(&[b"gets"]);
            for key in keys {
                put(&[b" ", key]);
            }
            put(&[b"\r\n"]);
        }
        Request::GetAndTouch { key, expiry } => {
            put(&[b"gats ", expiry.to_string().as_bytes(), b" ", key, b"\r\n"]);
        }
        Request::Store { mode, key, value, flags, expiry } => {
            let (verb, cas) = match mode {
                Mode::Set => ("set", None),
                Mode::Add => ("add", None),
                Mode::Replace => ("replace", None),
                Mode::Append => ("append", None),
                Mode::Prepend => ("prepend", None),
                Mode::Cas(cas) => ("cas", Some(cas)),
            };
            let cas = cas.map(|cas| format!(" {cas}")).unwrap_or_default();
            let line = format!(" {flags} {expiry} {}{cas}{word}\r\n", value.len());
            put(&[verb.as_bytes(), b" ", key, line.as_bytes(), value, b"\r\n"]);
        }
        Request::Delete { key } => put(&[b"delete ", key, word.as_bytes(), b"\r\n"]),
        Request::Quietly { writes } => {
            for write in writes {
                encode_with(write, " noreply", out);
            }
            out.extend_from_slice(b"version\r\n");
        }
        Request::Count { key, by, down } => {
            let verb: &[u8] = if *down { b"decr " } else { b"incr " };
            put(&[verb, key, b" ", by.to_string().as_bytes(), b"\r\n"]);
        }
        Request::Touch { key, expiry } => {
            put(&[b"touch ", key, b" ", expiry.to_string().as_bytes(), b"\r\n"]);
        }
        Request::Stats { section: "" } => put(&[b"stats\r\n"]),
        Request::Stats { section } => put(&[b"stats ", section.as_bytes(), b"\r\n"]),
        Request::Flush => put(&[b"flush_all\r\n"]),
        Request::Login { login } => {
            // The login is a `set` whose key the server ignores; the value contains the user and
            // the password.
            let user = login.user.as_deref().unwrap_or_default();
            let value = format!("{user} {}", login.password);
            put(&[b"set login 0 0 ", value.len().to_string().as_bytes(), b"\r\n"]);
            put(&[value.as_bytes(), b"\r\n"]);
        }
        Request::Asking | Request::Hello { .. } => {}
    }
}

/// Parses the next line of the answer to quiet writes. The answer ends with the line of `version`.
pub(super) fn quiet_step(
    progress: &mut Progress,
    count: usize,
    input: &[u8],
) -> Result<Step, MalformedReply> {
    let Some(bytes) = progress.line_end(input) else {
        return Ok(Step::Incomplete { need_bytes: input.len() + 1 });
    };
    let (line, _) = split_line(input).ok_or_else(malformed)?;
    if line.starts_with(b"VERSION ") {
        let answer = quiet_answer(count, progress.refusals, progress.refused.take());
        return Ok(Step::Done { bytes, answer });
    }
    progress.refuse(refusal(line).ok_or_else(malformed)?);
    Ok(Step::More { bytes })
}

/// Decodes a complete reply.
pub(super) fn answer(request: &Request<'_>, reply: &[u8]) -> Result<Answer, MalformedReply> {
    let (line, _) = split_line(reply).ok_or_else(malformed)?;
    if let Some(refused) = refusal(line) {
        return Ok(refused);
    }
    Ok(match (request, line) {
        (Request::Get { keys }, _) => values(keys, reply)?,
        (Request::GetAndTouch { key, .. }, _) => values(&[*key], reply)?,
        (Request::Stats { .. }, _) => statistics(reply)?,
        (_, b"STORED" | b"DELETED" | b"TOUCHED" | b"OK") => Answer::Done,
        (_, b"NOT_FOUND") => Answer::Missing,
        (_, b"NOT_STORED") => Answer::NotStored,
        (_, b"EXISTS") => Answer::Changed,
        (Request::Count { .. }, line) => Answer::Number(number(line.trim_ascii())?),
        _ => return Err(malformed()),
    })
}

/// Returns the server's refusal, if the line is one.
pub(super) fn refusal(line: &[u8]) -> Option<Answer> {
    let is_error = line == b"ERROR"
        || line.starts_with(b"ERROR ")
        || line.starts_with(b"SERVER_ERROR")
        || line.starts_with(b"CLIENT_ERROR");
    is_error.then(|| Answer::Refused(String::from_utf8_lossy(line).into_owned()))
}

fn values(keys: &[&[u8]], mut reply: &[u8]) -> Result<Answer, MalformedReply> {
    let mut found = Found::default();
    loop {
        let (line, rest) = split_line(reply).ok_or_else(malformed)?;
        let Some(line) = line.strip_prefix(b"VALUE ") else {
            return Ok(match refusal(line) {
                Some(refused) => refused,
                None if line == b"END" => found.answer(keys),
                None => return Err(malformed()),
            });
        };
        let mut words = line.split(|&byte| byte == b' ');
        let key = words.next().unwrap_or_default();
        let flags = number(words.next().unwrap_or_default())?;
        let len = number(words.next().unwrap_or_default())?;
        let cas = words.next().map(number).transpose()?;
        let (bytes, rest) = split_value(rest, len)?.ok_or_else(malformed)?;
        found.put(keys, key, Value { bytes: bytes.to_vec(), flags, cas })?;
        reply = rest;
    }
}

fn statistics(mut reply: &[u8]) -> Result<Answer, MalformedReply> {
    let mut pairs = Vec::new();
    while let Some((line, rest)) = split_line(reply) {
        reply = rest;
        let Some(line) = line.strip_prefix(b"STAT ") else {
            // Commands such as `stats reset` and `stats detail on` are answered by a single word.
            let is_end = matches!(line, b"END" | b"RESET" | b"OK");
            return if is_end { Ok(Answer::Pairs(pairs)) } else { Err(malformed()) };
        };
        let text = String::from_utf8_lossy(line);
        let (name, value) = text.split_once(' ').unwrap_or((&text, ""));
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(Answer::Pairs(pairs))
}
