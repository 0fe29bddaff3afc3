//! Responses in place of a reply.

use super::worker_connection::Failure;
use crate::response::{self, ResponseBody};
use hyper::Response;

/// A response in place of a reply.
pub(super) type Refused = Box<Response<ResponseBody>>;

/// One line for people.
pub(super) fn refuse(status: u16, line: &str) -> Refused {
    Box::new(response::line(status, line))
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
            tracing::warn!("HTTP requests have reached their memory limit");
            refuse(503, "requests use too much memory; this one may have been executed")
        }
        Failure::Malformed => refuse(500, "the reply cannot be read"),
    }
}

/// The status of a response that tells an error.
pub(super) fn status_of(error: &[u8]) -> u16 {
    let word = error.split(|byte| *byte == b' ').next().unwrap_or_default();
    match word {
        b"NOPERM" => 403,
        b"NOAUTH" | b"WRONGPASS" => 401,
        b"LOADING" | b"BUSY" | b"MISCONF" | b"OOM" => 503,
        _ => 400,
    }
}
