//! memcached's meta commands. Statistics, flush and login do not exist there and use the text
//! protocol.

use nagi_proto::MalformedReply;

use super::progress::{Progress, Step};
use super::request::{Answer, Mode, Request, Value, malformed, number, quiet_answer, split_value};
use super::text;

/// memcached's answer to requests before a login. It is sent once for all requests that arrived
/// together.
const NOT_LOGGED_IN: &[u8] = b"CLIENT_ERROR unauthenticated";

pub(super) fn encode(request: &Request<'_>, out: &mut Vec<u8>) {
    encode_with(request, "", out);
}

/// Encodes a request, with `flag` at the end of its line.
fn encode_with(request: &Request<'_>, flag: &str, out: &mut Vec<u8>) {
    let mut put = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
    };
    match request {
        Request::Get { keys } => {
            for key in keys {
                put(&[b"mg ", key, b" f c v k q\r\n"]);
            }
            put(&[b"mn\r\n"]);
        }
        Request::GetAndTouch { key, expiry } => {
            put(&[b"mg ", key, b" f c v k q T", expiry.to_string().as_bytes(), b"\r\nmn\r\n"]);
        }
        Request::Store { mode, key, value, flags, expiry } => {
            let mode = match mode {
                Mode::Set => "MS".to_owned(),
                Mode::Add => "ME".to_owned(),
                Mode::Replace => "MR".to_owned(),
                Mode::Append => "MA".to_owned(),
                Mode::Prepend => "MP".to_owned(),
                Mode::Cas(cas) => format!("C{cas}"),
            };
            let line = format!(" {} F{flags} T{expiry} {mode}{flag}\r\n", value.len());
            put(&[b"ms ", key, line.as_bytes(), value, b"\r\n"]);
        }
        Request::Delete { key } => put(&[b"md ", key, flag.as_bytes(), b"\r\n"]),
        Request::Quietly { writes } => {
            for write in writes {
                encode_with(write, " q", out);
            }
            out.extend_from_slice(b"mn\r\n");
        }
        Request::Count { key, by, down } => {
            let mode: &[u8] = if *down { b" v MD D" } else { b" v MI D" };
            put(&[b"ma ", key, mode, by.to_string().as_bytes(), b"\r\n"]);
        }
        Request::Touch { key, expiry } => {
            put(&[b"mg ", key, b" T", expiry.to_string().as_bytes(), b"\r\n"]);
        }
        Request::Stats { .. }
        | Request::Flush
        | Request::Asking
        | Request::Login { .. }
        | Request::Hello { .. } => text::encode(request, out),
    }
}

/// Parses the next line of an answer, and the value that it announces.
pub(super) fn step(
    progress: &mut Progress,
    request: &Request<'_>,
    input: &[u8],
) -> Result<Step, MalformedReply> {
    let single;
    let keys: &[&[u8]] = match request {
        Request::Get { keys } => keys,
        Request::GetAndTouch { key, .. } => {
            single = [*key];
            &single
        }
        _ => &[],
    };
    let Some(end) = progress.line_end(input) else {
        return Ok(Step::Incomplete { need_bytes: input.len() + 1 });
    };
    let (line, after) = input.split_at_checked(end).ok_or_else(malformed)?;
    let line = line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(line);
    let mut words = line.split(|&byte| byte == b' ');
    let answer = match words.next().unwrap_or_default() {
        b"VA" => {
            let len: u32 = number(words.next().unwrap_or_default())?;
            let bytes = end + len as usize + 2;
            let Some((value, _)) = split_value(after, len as usize)? else {
                return Ok(Step::Incomplete { need_bytes: bytes });
            };
            if keys.is_empty() {
                let answer = Answer::Number(number(value.trim_ascii())?);
                return Ok(Step::Done { bytes, answer });
            }
            let (key, value) = with_flags(words, value)?;
            progress.found.put(keys, key, value)?;
            return Ok(Step::More { bytes });
        }
        b"MN" => match request {
            Request::Quietly { writes } => {
                quiet_answer(writes.len(), progress.refusals, progress.refused.take())
            }
            _ => progress.answer(keys),
        },
        b"HD" => Answer::Done,
        b"EN" | b"NF" => Answer::Missing,
        b"NS" => Answer::NotStored,
        b"EX" => Answer::Changed,
        _ => text::refusal(line).ok_or_else(malformed)?,
    };
    let is_last = line.starts_with(b"MN") || line == NOT_LOGGED_IN;
    // A series of requests ends with the answer to `mn`, even after an error.
    if matches!(request, Request::Quietly { .. }) && !is_last {
        // The removal of a missing key counts as success.
        if answer != Answer::Missing {
            progress.refuse(answer);
        }
        return Ok(Step::More { bytes: end });
    }
    if !keys.is_empty() && !is_last {
        progress.refused = Some(answer);
        return Ok(Step::More { bytes: end });
    }
    Ok(Step::Done { bytes: end, answer })
}

/// Decodes a value and its key from the flags of its line.
fn with_flags<'a>(
    flags: impl Iterator<Item = &'a [u8]>,
    bytes: &[u8],
) -> Result<(&'a [u8], Value), MalformedReply> {
    let mut value = Value { bytes: bytes.to_vec(), flags: 0, cas: None };
    let mut key = &b""[..];
    for flag in flags {
        match flag {
            [b'f', text @ ..] => value.flags = number(text)?,
            [b'c', text @ ..] => value.cas = Some(number(text)?),
            [b'k', text @ ..] => key = text,
            _ => {}
        }
    }
    Ok((key, value))
}
