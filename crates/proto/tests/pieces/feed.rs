//! Feeds parsers in pieces, and checks invariants after every call. Shared by the property tests
//! and, through `#[path]`, the fuzz targets.

use nagi_proto::memcached::binary;
use nagi_proto::{MalformedReply, Span, memcached, resp};

/// The result of parsing some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request's arguments.
    Request(Vec<Vec<u8>>),
    /// The same, from a client that requests no reply.
    Quiet(Vec<Vec<u8>>),
    /// A request that was refused, with its reply and arguments.
    Refused(&'static str, Vec<Vec<u8>>),
    /// The end of the connection, with the last reply.
    Closed(String),
}

/// Splits `input` at `cuts`, which are taken modulo its length.
pub(crate) fn cut<'a>(input: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    cuts.extend([0, input.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| &input[ends[0]..ends[1]]).collect()
}

fn arguments(input: &[u8], spans: &[Span], taken: usize) -> Vec<Vec<u8>> {
    let argument = |span: &Span| {
        let (start, len) = (span.start as usize, span.len as usize);
        assert!(start + len <= taken, "an argument lies within its request");
        input[start..start + len].to_vec()
    };
    assert!(spans.len() <= taken, "there are no more arguments than bytes");
    spans.iter().map(argument).collect()
}

/// Returns all requests in `pieces` and the bytes left at the end.
pub(crate) fn resp_requests(pieces: &[&[u8]], limits: &resp::Limits) -> (Vec<Event>, Vec<u8>) {
    let mut parser = resp::Parser::default();
    let (mut events, mut buffer, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            spans.clear();
            match parser.parse(&mut buffer, limits, &mut spans) {
                Ok(Some(taken)) => {
                    assert!(0 < taken && taken <= buffer.len(), "a request takes bytes");
                    events.push(Event::Request(arguments(&buffer, &spans, taken)));
                    buffer.drain(..taken);
                }
                Ok(None) => {
                    assert!(spans.is_empty(), "a partial request leaves no span");
                    break;
                }
                Err(error) => {
                    events.push(Event::Closed(error.0));
                    return (events, Vec::new());
                }
            }
        }
    }
    (events, buffer)
}

/// Whether the results `found` for the pieces equal the results for the whole input. Only a line
/// that is too long may have closed the connection before its end arrived.
pub(crate) fn agrees(found: &(Vec<Event>, Vec<u8>), whole: &(Vec<Event>, Vec<u8>)) -> bool {
    let closed = Event::Closed(String::new());
    let before = found.0.split_last().filter(|(last, _)| **last == closed);
    found == whole || before.is_some_and(|(_, before)| whole.0.starts_with(before))
}

/// Returns all requests in `pieces` and the bytes left at the end.
pub(crate) fn memcached_requests(
    pieces: &[&[u8]],
    limits: &memcached::Limits,
) -> (Vec<Event>, Vec<u8>) {
    let mut parser = memcached::Parser::default();
    let (mut events, mut buffer, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            spans.clear();
            let step = parser.parse(&buffer, limits, &mut spans);
            let (event, taken) = match step {
                memcached::Parsed::Incomplete => break,
                memcached::Parsed::Request { consumed, quiet } => {
                    let arguments = arguments(&buffer, &spans, consumed);
                    (if quiet { Event::Quiet } else { Event::Request }(arguments), consumed)
                }
                memcached::Parsed::Reject { reply, close: true, .. } => {
                    let line = buffer.iter().position(|byte| *byte == b'\n');
                    assert!(line.unwrap_or(buffer.len()) > 2048, "only long lines close");
                    events.push(Event::Closed(reply.to_owned()));
                    return (events, Vec::new());
                }
                memcached::Parsed::Reject { consumed, reply, close: false } => {
                    (Event::Refused(reply, arguments(&buffer, &spans, consumed)), consumed)
                }
            };
            assert!(0 < taken && taken <= buffer.len(), "a step takes bytes");
            // Discarding a refused block as it arrives is not an event.
            if event != Event::Refused("", Vec::new()) {
                events.push(event);
            }
            buffer.drain(..taken);
        }
        assert!(spans.is_empty(), "a partial request leaves no span");
    }
    (events, buffer)
}

/// Returns all requests in `pieces` and the bytes left at the end.
pub(crate) fn binary_requests(pieces: &[&[u8]], limits: &binary::Limits) -> (Vec<Event>, Vec<u8>) {
    let mut parser = binary::Parser::default();
    let (mut events, mut buffer) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let (event, taken) = match parser.parse(&buffer, limits) {
                binary::ParsedFrame::Incomplete => break,
                binary::ParsedFrame::Dropped { consumed } => (None, consumed),
                binary::ParsedFrame::Request { consumed, frame } => {
                    assert!(frame.value.len() <= limits.value_bytes, "a value keeps to its limit");
                    let parts = [frame.extras, frame.key, frame.value];
                    let length: usize = parts.iter().map(|part| part.len()).sum();
                    assert!(length < consumed, "a request has a header, too");
                    let mut words = parts.map(<[u8]>::to_vec).to_vec();
                    words.push(format!("{frame:?}").into_bytes());
                    (Some(Event::Request(words)), consumed)
                }
                ended => {
                    events.push(Event::Closed(format!("{ended:?}")));
                    return (events, Vec::new());
                }
            };
            assert!(0 < taken && taken <= buffer.len(), "a step takes bytes");
            events.extend(event);
            buffer.drain(..taken);
        }
    }
    (events, buffer)
}

/// The lengths of replies, then the number of bytes left at the end or the offset of the malformed
/// reply.
pub(crate) type Found = (Vec<usize>, Result<usize, MalformedReply>);

/// Returns the length of every reply in `pieces` that `next` finds.
pub(crate) fn replies(
    pieces: &[&[u8]],
    mut next: impl FnMut(&[u8]) -> Result<Option<usize>, MalformedReply>,
) -> Found {
    let (mut lengths, mut buffer) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match next(&buffer) {
                Ok(Some(len)) => {
                    assert!(0 < len && len <= buffer.len(), "a reply takes bytes");
                    lengths.push(len);
                    buffer.drain(..len);
                }
                Ok(None) => break,
                Err(error) => return (lengths, Err(error)),
            }
        }
    }
    (lengths, Ok(buffer.len()))
}
