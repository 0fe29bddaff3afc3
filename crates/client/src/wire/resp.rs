//! RESP, the protocol of Redis. Redis has no flags or CAS numbers, so requests with them are
//! refused.

use nagi_proto::resp::Reply;
use nagi_proto::{MalformedReply, split_line};

use super::request::{Answer, Mode, Request, Value, malformed, number};
use crate::client::encode_command;

/// An expiry above this number of seconds is a Unix time, as in memcached.
const MONTH_SECONDS: u32 = 30 * 24 * 3600;

pub(super) fn encode(request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    match request {
        // MGET reports a key of another type as missing.
        Request::Get { keys } if let [key] = keys.as_slice() => {
            encode_command(&[b"GET", key], out);
        }
        Request::Get { keys } => {
            let words: Vec<&[u8]> =
                [&b"MGET"[..]].into_iter().chain(keys.iter().copied()).collect();
            encode_command(&words, out);
        }
        Request::GetAndTouch { key, expiry } => {
            let seconds = expiry.to_string();
            let expiry: &[&[u8]] = match expiry {
                0 => &[b"PERSIST"],
                expiry => &[unit(*expiry), seconds.as_bytes()],
            };
            encode_command(&[&[&b"GETEX"[..], key], expiry].concat(), out);
        }
        Request::Store { flags, .. } if *flags != 0 => {
            return Err("Redis stores no flags with values".to_owned());
        }
        Request::Store { mode, key, value, expiry, .. } => {
            let condition: &[&[u8]] = match mode {
                Mode::Set => &[],
                Mode::Add => &[b"NX"],
                Mode::Replace => &[b"XX"],
                Mode::Append => {
                    encode_command(&[b"APPEND", key, value], out);
                    return Ok(());
                }
                Mode::Prepend => return Err("Redis has no command that prepends".to_owned()),
                Mode::Cas(_) => return Err("Redis has no version numbers of values".to_owned()),
            };
            let seconds = expiry.to_string();
            let expires: &[&[u8]] = match expiry {
                0 => &[],
                expiry => &[unit(*expiry), seconds.as_bytes()],
            };
            encode_command(&[&[&b"SET"[..], key, value], condition, expires].concat(), out);
        }
        Request::Delete { key } => encode_command(&[b"DEL", key], out),
        Request::Count { key, by, down } => {
            let verb: &[u8] = if *down { b"DECRBY" } else { b"INCRBY" };
            encode_command(&[verb, key, by.to_string().as_bytes()], out);
        }
        Request::Touch { key, expiry: 0 } => encode_command(&[b"PERSIST", key], out),
        Request::Touch { key, expiry } => {
            let verb: &[u8] = if *expiry > MONTH_SECONDS { b"EXPIREAT" } else { b"EXPIRE" };
            encode_command(&[verb, key, expiry.to_string().as_bytes()], out);
        }
        Request::Quietly { .. } => return Err("Redis answers every write".to_owned()),
        Request::Stats { section: "" } => encode_command(&[b"INFO"], out),
        Request::Stats { section } => encode_command(&[b"INFO", section.as_bytes()], out),
        Request::Flush => encode_command(&[b"FLUSHALL"], out),
        Request::Asking => encode_command(&[b"ASKING"], out),
        Request::Login { login } => {
            let user = login.user.as_deref().map(str::as_bytes);
            let words: Vec<&[u8]> =
                [&b"AUTH"[..]].into_iter().chain(user).chain([login.password.as_bytes()]).collect();
            encode_command(&words, out);
        }
        Request::Hello { login: None } => encode_command(&[b"HELLO", b"3"], out),
        Request::Hello { login: Some(login) } => {
            let user = login.user.as_deref().unwrap_or("default").as_bytes();
            encode_command(&[b"HELLO", b"3", b"AUTH", user, login.password.as_bytes()], out);
        }
    }
    Ok(())
}

fn unit(expiry: u32) -> &'static [u8] {
    if expiry > MONTH_SECONDS { b"EXAT" } else { b"EX" }
}

/// Decodes a complete reply. Elements that were not requested are not decoded, since they might not
/// fit into memory.
pub(super) fn answer(request: &Request<'_>, reply: &[u8]) -> Result<Answer, MalformedReply> {
    match (request, reply) {
        (Request::Get { keys }, [b'*', rest @ ..]) => return values(keys.len(), rest),
        // HELLO is answered by a description of the server, which is not used.
        (Request::Hello { .. }, [b'%' | b'*', ..]) => return Ok(Answer::Done),
        (Request::Stats { .. }, [b'=', ..]) | (_, [b'+' | b'-' | b':' | b'$' | b'_', ..]) => {}
        _ => return Err(malformed()),
    }
    let (reply, _) = Reply::decode(reply)?.ok_or_else(malformed)?;
    Ok(match (request, reply) {
        (_, Reply::Error(text)) => Answer::Refused(text),
        (Request::Get { keys }, reply) if keys.len() == 1 => Answer::Values(vec![value(reply)?]),
        (Request::GetAndTouch { .. }, reply) => Answer::Values(vec![value(reply)?]),
        (Request::Store { .. }, Reply::Null) => Answer::NotStored,
        (Request::Store { .. } | Request::Flush | Request::Asking | Request::Login { .. }, _) => {
            Answer::Done
        }
        (Request::Delete { .. } | Request::Touch { .. }, Reply::Integer(0)) => Answer::Missing,
        (Request::Delete { .. } | Request::Touch { .. }, Reply::Integer(_)) => Answer::Done,
        (Request::Count { .. }, Reply::Integer(number)) => match u64::try_from(number) {
            Ok(number) => Answer::Number(number),
            Err(_) => Answer::Refused(format!("the number is {number}, below zero")),
        },
        (Request::Stats { .. }, Reply::Bulk(text) | Reply::Verbatim { text, .. }) => {
            let text = String::from_utf8_lossy(&text);
            let pairs = text.lines().filter_map(|line| line.split_once(':'));
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            Answer::Pairs(pairs.map(owned).collect())
        }
        _ => return Err(malformed()),
    })
}

/// Decodes an array that has one element for each of `count` keys.
fn values(count: usize, array: &[u8]) -> Result<Answer, MalformedReply> {
    let (announced, mut rest) = split_line(array).ok_or_else(malformed)?;
    if number::<usize>(announced)? != count {
        return Err(malformed());
    }
    let mut values = Vec::new();
    for _ in 0..count {
        if !matches!(rest, [b'$' | b'_', ..]) {
            return Err(malformed());
        }
        let (reply, bytes) = Reply::decode(rest)?.ok_or_else(malformed)?;
        values.push(value(reply)?);
        rest = rest.get(bytes..).unwrap_or_default();
    }
    Ok(Answer::Values(values))
}

fn value(reply: Reply) -> Result<Option<Value>, MalformedReply> {
    match reply {
        Reply::Bulk(bytes) => Ok(Some(Value { bytes, flags: 0, cas: None })),
        Reply::Null => Ok(None),
        _ => Err(malformed()),
    }
}
