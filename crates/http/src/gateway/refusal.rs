//! Responses in place of a reply.

use super::json_text::json_string;
use super::worker_connection::Failure;
use crate::response::{self, ResponseBody};
use hyper::Response;
use hyper::header::HeaderValue;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The media type of JSON.
pub(super) const JSON: &str = "application/json";

/// A response in place of a reply.
pub(super) type Refused = Box<Response<ResponseBody>>;

/// A refusal with one readable line.
pub(super) fn refuse(status: u16, line: &str) -> Refused {
    Box::new(response::line(status, line))
}

/// A refusal in the error format of Upstash's REST interface.
pub(super) fn json_error(status: u16, text: &[u8]) -> Refused {
    let mut out = Vec::new();
    write_error(text, &mut out);
    let body = ResponseBody::Whole(Some(out.into()));
    Box::new(response::value(status, HeaderValue::from_static(JSON), body))
}

/// Appends an error in that format.
pub(super) fn write_error(error: &[u8], out: &mut Vec<u8>) {
    out.extend(b"{\"error\":");
    json_string(error, out);
    out.push(b'}');
}

/// The response to a request that gets no reply.
pub(super) fn failed(failure: &Failure) -> Refused {
    match failure {
        Failure::TooMany => refuse(429, "too many requests are waiting"),
        Failure::Lost(error) => {
            tracing::debug!(%error, "an HTTP request got no reply from its worker");
            refuse(503, "the request was not answered; it may have been executed")
        }
        Failure::Full => {
            log_full();
            refuse(503, "requests use too much memory; this one may have been executed")
        }
        Failure::Malformed => refuse(500, "the reply cannot be read"),
    }
}

/// The response to a request whose body does not fit into the memory limit.
pub(super) fn no_room() -> Refused {
    log_full();
    refuse(503, "requests use too much memory; this one was not executed")
}

/// Logs that the budget is exhausted, at most once a second.
fn log_full() {
    static LOGGED_AT_S: AtomicU64 = AtomicU64::new(0);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    if LOGGED_AT_S.swap(now_s, Ordering::Relaxed) != now_s {
        tracing::warn!("HTTP requests have reached their memory limit");
    }
}

/// The status of a response with an error reply.
pub(super) fn status_of(error: &[u8]) -> u16 {
    let word = error.split(|byte| *byte == b' ').next().unwrap_or_default();
    match word {
        b"NOPERM" => 403,
        b"NOAUTH" | b"WRONGPASS" => 401,
        b"LOADING" | b"BUSY" | b"MISCONF" | b"OOM" => 503,
        _ => 400,
    }
}
