//! memcached's meta commands; statistics and the flush, which they lack, go as text.

use nagi_proto::MalformedReply;

use super::request::{
    Answer, Mode, Request, Value, in_order, malformed, number, split_line, split_value,
};
use super::text;

pub(super) fn encode(request: &Request<'_>, out: &mut Vec<u8>) {
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
            let line = format!(" {} F{flags} T{expiry} {mode}\r\n", value.len());
            put(&[b"ms ", key, line.as_bytes(), value, b"\r\n"]);
        }
        Request::Delete { key } => put(&[b"md ", key, b"\r\n"]),
        Request::Count { key, by, down } => {
            let mode: &[u8] = if *down { b" v MD D" } else { b" v MI D" };
            put(&[b"ma ", key, mode, by.to_string().as_bytes(), b"\r\n"]);
        }
        Request::Touch { key, expiry } => {
            put(&[b"mg ", key, b" T", expiry.to_string().as_bytes(), b"\r\n"]);
        }
        Request::Stats | Request::Flush | Request::Asking => text::encode(request, out),
    }
}

pub(super) fn decode(
    request: &Request<'_>,
    input: &[u8],
) -> Result<Option<(usize, Answer)>, MalformedReply> {
    let single;
    let keys: &[&[u8]] = match request {
        Request::Get { keys } => keys,
        Request::GetAndTouch { key, .. } => {
            single = [*key];
            &single
        }
        _ => &[],
    };
    let mut found = Vec::new();
    let mut refused = None;
    let mut rest = input;
    loop {
        let Some((line, behind)) = split_line(rest) else { return Ok(None) };
        let mut words = line.split(|&byte| byte == b' ');
        let answer = match words.next().unwrap_or_default() {
            b"VA" => {
                let len = number(words.next().unwrap_or_default())?;
                let Some((bytes, behind)) = split_value(behind, len)? else { return Ok(None) };
                rest = behind;
                if !keys.is_empty() {
                    found.push(value(words, bytes)?);
                    continue;
                }
                return Ok(Some((
                    input.len() - rest.len(),
                    Answer::Number(number(bytes.trim_ascii())?),
                )));
            }
            b"MN" => refused.take().unwrap_or_else(|| in_order(keys, std::mem::take(&mut found))),
            b"HD" => Answer::Done,
            b"EN" | b"NF" => Answer::Missing,
            b"NS" => Answer::NotStored,
            b"EX" => Answer::Changed,
            _ => text::refusal(line).ok_or_else(malformed)?,
        };
        rest = behind;
        // The end of several is the answer to `mn`, even behind an error.
        if !keys.is_empty() && !line.starts_with(b"MN") {
            refused = Some(answer);
            continue;
        }
        return Ok(Some((input.len() - rest.len(), answer)));
    }
}

fn value<'a>(
    flags: impl Iterator<Item = &'a [u8]>,
    bytes: &[u8],
) -> Result<(Vec<u8>, Value), MalformedReply> {
    let mut value = Value { bytes: bytes.to_vec(), flags: 0, cas: None };
    let mut key = Vec::new();
    for flag in flags {
        match flag {
            [b'f', text @ ..] => value.flags = number(text)?,
            [b'c', text @ ..] => value.cas = Some(number(text)?),
            [b'k', text @ ..] => key = text.to_vec(),
            _ => {}
        }
    }
    Ok((key, value))
}
