//! Common parts of all responses: headers that protect browsers, and bodies that are produced as
//! they are read.

use crate::connections::Answering;
use crate::guard::Refusal;
use crate::site::Answer;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// Headers of every response: no content sniffing, no caching, and nothing loaded from elsewhere.
static SAFETY: [(HeaderName, HeaderValue); 6] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];
/// The usual number of headers, so that their table need not grow.
const USUAL_HEADERS: usize = 12;

/// The content security policy of pages: everything from this server.
static PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);
/// The content security policy of values: nothing.
static VALUE_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; sandbox; frame-ancestors 'none'");

/// The body of a response.
pub(crate) enum ResponseBody {
    Whole(Option<Bytes>),
    /// Pieces as they arrive, without end.
    Pieces(mpsc::Receiver<Bytes>),
    /// A body that produces its pieces on demand.
    Made(Pin<Box<dyn Body<Data = Bytes, Error = io::Error>>>),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut *self {
            ResponseBody::Whole(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
            ResponseBody::Pieces(pieces) => ready!(pieces.poll_recv(cx)),
            ResponseBody::Made(body) => return body.as_mut().poll_frame(cx),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Whole(bytes) => bytes.is_none(),
            ResponseBody::Pieces(_) => false,
            ResponseBody::Made(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            ResponseBody::Pieces(_) => SizeHint::default(),
            ResponseBody::Made(body) => body.size_hint(),
        }
    }
}

/// A body that reports its end.
pub(crate) struct Tracked {
    pub(crate) body: ResponseBody,
    pub(crate) _answering: Answering,
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response with a value.
pub(crate) fn value(
    status: u16,
    media_type: HeaderValue,
    body: ResponseBody,
) -> Response<ResponseBody> {
    with_policy(status, media_type, body, &VALUE_POLICY)
}

/// The response to a request for a page.
pub(crate) fn page(answer: Answer) -> Response<ResponseBody> {
    let body = ResponseBody::Whole(Some(answer.body));
    let media_type = HeaderValue::from_static(answer.content_type);
    with_policy(answer.status, media_type, body, &PAGE_POLICY)
}

/// A response of one readable line.
pub(crate) fn line(status: u16, line: &str) -> Response<ResponseBody> {
    page(Answer::line(status, line))
}

fn with_policy(
    status: u16,
    media_type: HeaderValue,
    body: ResponseBody,
    policy: &HeaderValue,
) -> Response<ResponseBody> {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    for (name, value) in &SAFETY {
        headers.insert(name, value.clone());
    }
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

/// The response to a refused request.
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
