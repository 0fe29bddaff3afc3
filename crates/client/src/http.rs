//! Finds the ends of HTTP/1.1 responses (RFC 9112) to simple requests. Bodies may have a length, be
//! chunked, or be absent.

use nagi_proto::MalformedReply;

/// Maximum length of a response's head, in bytes.
const HEAD_BYTES: usize = 64 * 1024;

/// Finds responses in received bytes. If a response arrives in pieces, continues where the last
/// call stopped.
#[derive(Debug, Default)]
pub(crate) struct ResponseParser {
    /// The length of input below which the next step cannot be completed.
    need_bytes: usize,
    /// Number of bytes that are known not to contain the end of the head.
    searched: usize,
    /// The offset of the next chunk of a chunked body.
    chunk: Option<usize>,
}

impl ResponseParser {
    /// Returns the length of the response at the start of `input`; `None` until all of it has
    /// arrived.
    pub(crate) fn next(&mut self, input: &[u8]) -> Result<Option<usize>, MalformedReply> {
        if input.len() < self.need_bytes {
            return Ok(None);
        }
        let malformed = MalformedReply { at: 0 };
        if !input.starts_with(b"HTTP/1.".get(..input.len().min(7)).unwrap_or_default()) {
            return Err(malformed);
        }
        let from = self.searched.saturating_sub(3);
        let end = input.get(from..).unwrap_or_default().windows(4).position(|at| at == b"\r\n\r\n");
        let Some(body) = end.map(|end| from + end + 4) else {
            self.searched = input.len();
            return if input.len() > HEAD_BYTES { Err(malformed) } else { Ok(None) };
        };
        let head = input.get(..body).unwrap_or_default();
        self.searched = body - 1;
        let end = if let Some(len) = field(head, "content-length") {
            let len: usize = len.parse().map_err(|_| malformed)?;
            body.checked_add(len).ok_or(malformed)?
        } else if field(head, "transfer-encoding").is_some_and(|it| it == "chunked") {
            match self.chunks(input, body)? {
                Some(end) => end,
                None => return Ok(None),
            }
        } else if matches!(status(head), 204 | 304) {
            body
        } else {
            return Err(malformed);
        };
        if input.len() < end {
            self.need_bytes = end;
            return Ok(None);
        }
        *self = ResponseParser::default();
        Ok(Some(end))
    }

    /// Returns the end of the last chunk; `None` until it has arrived.
    fn chunks(&mut self, input: &[u8], body: usize) -> Result<Option<usize>, MalformedReply> {
        let mut at = self.chunk.unwrap_or(body);
        loop {
            self.chunk = Some(at);
            let rest = input.get(at..).unwrap_or_default();
            let Some(line) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
            let size = rest.get(..line).unwrap_or_default().split(|byte| *byte == b';').next();
            let size = size.and_then(|size| std::str::from_utf8(size).ok()).unwrap_or_default();
            let malformed = MalformedReply { at };
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| malformed)?;
            let next = size.checked_add(at + line + 3).ok_or(malformed)?;
            if size == 0 || input.len() < next {
                let whole = input.len() >= next;
                return Ok(whole.then_some(next));
            }
            at = next;
        }
    }
}

/// Whether the body is JSON, which is the form in which nagi's gateway reports the result of a
/// command.
pub(crate) fn is_json(response: &[u8]) -> bool {
    field(response, "content-type").is_some_and(|kind| kind.contains("json"))
}

/// Returns the first line.
pub(crate) fn status_line(response: &[u8]) -> &[u8] {
    response.split(|byte| *byte == b'\r').next().unwrap_or_default()
}

/// Returns the status code; 0 if there is none.
pub(crate) fn status(head: &[u8]) -> u16 {
    let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Returns the value of a header field. `name` must be in lower case.
fn field<'a>(response: &'a [u8], name: &str) -> Option<&'a str> {
    for line in response.split(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (left, right) = line.split_at(colon);
        if left.eq_ignore_ascii_case(name.as_bytes()) {
            return std::str::from_utf8(right.get(1..)?).ok().map(str::trim);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_LENGTH: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n\
                               Content-Length: 5\r\n\r\nhello";
    const IN_CHUNKS: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                             Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n\
                             0\r\n\r\n";
    const MISSING: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    const EMPTY: &str = "HTTP/1.1 204 No Content\r\n\r\n";

    #[test]
    fn responses_end_where_they_say_however_they_come() {
        for response in [WITH_LENGTH, IN_CHUNKS, MISSING, EMPTY] {
            let input = [response.as_bytes(), WITH_LENGTH.as_bytes()].concat();
            for step in [1, 2, 7, 1000] {
                let mut parser = ResponseParser::default();
                let mut come = 0;
                let len = loop {
                    come = (come + step).min(input.len());
                    if let Some(len) = parser.next(&input[..come]).unwrap() {
                        break len;
                    }
                    assert!(come < input.len(), "{response:?} has an end");
                };
                assert_eq!(len, response.len(), "{response:?} by {step}");
                assert_eq!(parser.next(WITH_LENGTH.as_bytes()).unwrap(), Some(WITH_LENGTH.len()));
            }
        }
    }

    #[test]
    fn responses_other_than_http_are_refused() {
        for input in ["-ERR x\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "HTTQ"] {
            assert!(ResponseParser::default().next(input.as_bytes()).is_err(), "{input:?}");
        }
        let endless = "HTTP/1.1 200 OK\r\n".repeat(HEAD_BYTES);
        assert!(ResponseParser::default().next(endless.as_bytes()).is_err());
    }
}
