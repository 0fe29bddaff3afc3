//! memcached's binary protocol. A packet is a header of 24 bytes, followed by extras, key and
//! value.

use nagi_proto::MalformedReply;

use super::progress::{Progress, Step};
use super::request::{Answer, Mode, Request, Value, malformed, quiet_answer};

const HEADER_BYTES: usize = 24;

/// An expiry with which a count fails if the key is missing, instead of creating it.
const NO_INITIAL: [u8; 4] = [0xff; 4];

const DELETE: u8 = 0x04;
const GET_KEY_QUIETLY: u8 = 0x0d;
const NO_OPERATION: u8 = 0x0a;
const STAT: u8 = 0x10;
const GET_AND_TOUCH: u8 = 0x1d;
const SASL_AUTHENTICATE: u8 = 0x21;

/// Returns the quiet variant of an operation, which is answered only if it fails.
fn quiet(operation: u8) -> u8 {
    match operation {
        0x0e | 0x0f => operation + 0x0b,
        operation => operation + 0x10,
    }
}

pub(super) fn encode(request: &Request<'_>, out: &mut Vec<u8>) {
    match request {
        Request::Get { keys } => {
            for key in keys {
                put(out, GET_KEY_QUIETLY, 0, &[], key, &[]);
            }
            put(out, NO_OPERATION, 0, &[], &[], &[]);
        }
        Request::GetAndTouch { key, expiry } => {
            put(out, GET_AND_TOUCH, 0, &expiry.to_be_bytes(), key, &[]);
        }
        Request::Store { mode, key, value, flags, expiry } => {
            let (operation, cas) = match mode {
                Mode::Set => (0x01, 0),
                Mode::Cas(cas) => (0x01, *cas),
                Mode::Add => (0x02, 0),
                Mode::Replace => (0x03, 0),
                Mode::Append => (0x0e, 0),
                Mode::Prepend => (0x0f, 0),
            };
            let extras = [flags.to_be_bytes(), expiry.to_be_bytes()].concat();
            let has_extras = !matches!(mode, Mode::Append | Mode::Prepend);
            put(out, operation, cas, if has_extras { &extras } else { &[] }, key, value);
        }
        Request::Delete { key } => put(out, DELETE, 0, &[], key, &[]),
        Request::Quietly { writes } => {
            for write in writes {
                let start = out.len();
                encode(write, out);
                if let Some(operation) = out.get_mut(start + 1) {
                    *operation = quiet(*operation);
                }
            }
            put(out, NO_OPERATION, 0, &[], &[], &[]);
        }
        Request::Count { key, by, down } => {
            let extras = [&by.to_be_bytes()[..], &[0; 8], &NO_INITIAL].concat();
            put(out, if *down { 0x06 } else { 0x05 }, 0, &extras, key, &[]);
        }
        Request::Touch { key, expiry } => put(out, 0x1c, 0, &expiry.to_be_bytes(), key, &[]),
        Request::Stats { section } => put(out, STAT, 0, &[], section.as_bytes(), &[]),
        Request::Flush => put(out, 0x08, 0, &[], &[], &[]),
        Request::Login { login } => {
            let user = login.user.as_deref().unwrap_or_default();
            let value = format!("\0{user}\0{}", login.password);
            put(out, SASL_AUTHENTICATE, 0, &[], b"PLAIN", value.as_bytes());
        }
        Request::Asking | Request::Hello { .. } => {}
    }
}

fn put(out: &mut Vec<u8>, operation: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) {
    let body = (extras.len() + key.len() + value.len()) as u32;
    out.extend_from_slice(&[0x80, operation]);
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    out.extend_from_slice(&body.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&cas.to_be_bytes());
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// A packet from the server.
struct Packet<'a> {
    operation: u8,
    status: u16,
    cas: u64,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    len: usize,
}

/// Parses the packet at the start of `input`. If it is incomplete, returns the number of bytes
/// needed.
fn packet(input: &[u8]) -> Result<Result<Packet<'_>, usize>, MalformedReply> {
    if input.first().is_some_and(|&magic| magic != 0x81) {
        return Err(malformed());
    }
    let Some((header, rest)) = input.split_at_checked(HEADER_BYTES) else {
        return Ok(Err(HEADER_BYTES));
    };
    let &[_, operation, k0, k1, extras, _, s0, s1, b0, b1, b2, b3, _, _, _, _, ref cas @ ..] =
        header
    else {
        return Err(malformed());
    };
    let body_bytes = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
    let len = HEADER_BYTES + body_bytes;
    let Some(body) = rest.get(..body_bytes) else { return Ok(Err(len)) };
    let (extras, body) = body.split_at_checked(usize::from(extras)).ok_or_else(malformed)?;
    let key_bytes = usize::from(u16::from_be_bytes([k0, k1]));
    let (key, value) = body.split_at_checked(key_bytes).ok_or_else(malformed)?;
    let cas = cas.first_chunk().copied().map_or(0, u64::from_be_bytes);
    let status = u16::from_be_bytes([s0, s1]);
    Ok(Ok(Packet { operation, status, cas, extras, key, value, len }))
}

/// Parses the next packet of an answer.
pub(super) fn step(
    progress: &mut Progress,
    request: &Request<'_>,
    input: &[u8],
) -> Result<Step, MalformedReply> {
    let packet = match packet(input)? {
        Ok(packet) => packet,
        Err(need_bytes) => return Ok(Step::Incomplete { need_bytes }),
    };
    let bytes = packet.len;
    let answer = match (request, packet.operation) {
        (Request::Get { keys }, NO_OPERATION) => progress.answer(keys),
        (Request::Quietly { writes }, NO_OPERATION) => {
            quiet_answer(writes.len(), progress.refusals, progress.refused.take())
        }
        (Request::Quietly { .. }, operation) => {
            // The removal of a missing key counts as success.
            if !(operation == quiet(DELETE) && packet.status == 1) {
                progress.refuse(answer(&packet));
            }
            return Ok(Step::More { bytes });
        }
        (Request::Get { keys }, _) => {
            match packet.status {
                0 => progress.found.put(keys, packet.key, value(&packet))?,
                _ => progress.refused = Some(answer(&packet)),
            }
            return Ok(Step::More { bytes });
        }
        (Request::Stats { .. }, STAT) if packet.status == 0 => {
            if !packet.key.is_empty() {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                progress.pairs.push((text(packet.key), text(packet.value)));
                return Ok(Step::More { bytes });
            }
            Answer::Pairs(std::mem::take(&mut progress.pairs))
        }
        (Request::GetAndTouch { .. }, _) if packet.status == 0 => {
            Answer::Values(vec![Some(value(&packet))])
        }
        (Request::GetAndTouch { .. }, _) if packet.status == 1 => Answer::Values(vec![None]),
        (Request::Count { .. }, _) if packet.status == 0 => {
            let number = packet.value.first_chunk().copied().map(u64::from_be_bytes);
            Answer::Number(number.ok_or_else(malformed)?)
        }
        (Request::Store { mode: Mode::Add, .. }, _) if packet.status == 2 => Answer::NotStored,
        (Request::Store { mode: Mode::Replace, .. }, _) if packet.status == 1 => Answer::NotStored,
        _ => answer(&packet),
    };
    Ok(Step::Done { bytes, answer })
}

fn value(packet: &Packet<'_>) -> Value {
    let flags = packet.extras.first_chunk().copied().map_or(0, u32::from_be_bytes);
    Value { bytes: packet.value.to_vec(), flags, cas: Some(packet.cas) }
}

fn answer(packet: &Packet<'_>) -> Answer {
    match packet.status {
        0 => Answer::Done,
        1 => Answer::Missing,
        2 => Answer::Changed,
        5 => Answer::NotStored,
        _ => Answer::Refused(String::from_utf8_lossy(packet.value).into_owned()),
    }
}
