//! What every response has in common: headers that keep browsers safe, and bodies that come as they
//! are read.

use crate::guard::Refusal;
use crate::site::Answer;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// What every answer tells a browser: to take it for what it says it is, to keep it nowhere, and to
/// load nothing from elsewhere.
const SAFETY: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// What a page may load, all of it from this server.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                           connect-src 'self'; img-src 'self'; base-uri 'none'; \
                           form-action 'self'; frame-ancestors 'none'";
/// What a value may do in a browser: nothing, whatever it is.
const VALUE_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// The body of a response.
pub(crate) enum ResponseBody {
    Whole(Option<Bytes>),
    /// Pieces as they come, and how many bytes are left of them where that is known.
    Pieces(mpsc::Receiver<Bytes>, Option<u64>),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            ResponseBody::Whole(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
            ResponseBody::Pieces(pieces, left) => match pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => {
                    if let (Some(left), Some(piece)) = (left, &piece) {
                        *left = left.saturating_sub(piece.len() as u64);
                    }
                    piece
                }
            },
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            ResponseBody::Pieces(_, Some(left)) => SizeHint::with_exact(*left),
            ResponseBody::Pieces(_, None) => SizeHint::default(),
        }
    }
}

/// A response with a value, whose media type is text of a header.
pub(crate) fn value(status: u16, media_type: &str, body: ResponseBody) -> Response<ResponseBody> {
    with_policy(status, media_type, body, VALUE_POLICY)
}

/// The response to a request for a page.
pub(crate) fn page(answer: Answer) -> Response<ResponseBody> {
    let body = ResponseBody::Whole(Some(answer.body));
    with_policy(answer.status, answer.content_type, body, PAGE_POLICY)
}

/// One line for people.
pub(crate) fn line(status: u16, line: &str) -> Response<ResponseBody> {
    page(Answer::line(status, line))
}

fn with_policy(
    status: u16,
    media_type: &str,
    body: ResponseBody,
    policy: &'static str,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(media_type).unwrap_or(plain);
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    for (name, value) in SAFETY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The response to a request that is refused.
pub(crate) fn refuse(refusal: Refusal) -> Response<ResponseBody> {
    let mut response = line(refusal.status, refusal.reason);
    let headers = response.headers_mut();
    match refusal.status {
        401 => {
            let scheme = HeaderValue::from_static("Basic realm=\"nagi\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        405 => {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        _ => {}
    }
    response
}
