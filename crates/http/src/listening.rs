//! Sockets, and the one thread that serves all of them.

use crate::guard;
use crate::site::{Answer, Ask, Site};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};

/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 64;
/// How long a request may take to arrive.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection may last, until the last byte of its answer is on its way.
const CONNECTION_WITHIN: Duration = Duration::from_secs(20);
/// The longest request, in bytes.
const LONGEST_REQUEST: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
const BACKLOG: i32 = 1024;
/// For how long nothing is accepted where that has failed: there may be no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// By how much the thread is nicer than the process.
const NICENESS: i32 = 10;

/// What every answer tells a browser: to take it for what it says it is, to keep it nowhere, and to
/// load nothing from elsewhere.
const SAFETY: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
];

/// A thread that serves a site; dropping it stops it.
#[derive(Debug)]
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves HTTP has panicked");
        }
    }
}

/// Listens on an address; port 0 leaves the choice to the kernel.
///
/// # Errors
/// What the kernel says.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Serves a site on listeners of [`bind`], on a thread of its own.
///
/// # Errors
/// What the thread could not get from the kernel.
pub fn start(listeners: Vec<std::net::TcpListener>, site: Arc<dyn Site>) -> io::Result<Running> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
        lower_priority();
        site.thread_starts();
        runtime.block_on(async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS));
            for listener in listeners {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        let (site, places) = (Arc::clone(&site), Arc::clone(&places));
                        tokio::spawn(accept(listener, site, places));
                    }
                    Err(error) => tracing::error!(%error, "no HTTP on one of its addresses"),
                }
            }
            // It ends when the other side is dropped: nothing is ever sent.
            let _ = stopped.await;
        });
    })?;
    Ok(Running { stop: Some(stop), thread: Some(thread) })
}

/// Lowers the priority of this thread.
fn lower_priority() {
    let niceness = rustix::process::getpriority_process(None).unwrap_or(0);
    if let Err(error) = rustix::process::setpriority_process(None, niceness + NICENESS) {
        tracing::debug!(%error, "HTTP is served at the usual priority");
    }
}

async fn accept(listener: TcpListener, site: Arc<dyn Site>, places: Arc<Semaphore>) {
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let site = Arc::clone(&site);
                tokio::spawn(async move {
                    converse(stream, peer.ip(), site).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept an HTTP client");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers one request. A second one on the same connection is never read.
async fn converse(stream: TcpStream, peer: IpAddr, site: Arc<dyn Site>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (parts, _) = request.into_parts();
        let response = match guard::check(&*site, &parts, peer) {
            Ok(()) => {
                let accept = parts.headers.get(header::ACCEPT);
                let ask = Ask {
                    path: parts.uri.path(),
                    query: parts.uri.query().unwrap_or_default(),
                    accept: accept.and_then(|it| it.to_str().ok()).unwrap_or_default(),
                };
                respond(site.answer(ask).unwrap_or_else(|| Answer::line(404, "no such page")))
            }
            Err(refusal) => refuse(refusal),
        };
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_headers(MOST_HEADERS)
        .max_buf_size(LONGEST_REQUEST)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    // A client that is gone, broken or slow is none of ours.
    let _ = tokio::time::timeout(CONNECTION_WITHIN, connection).await;
}

fn refuse(refusal: guard::Refusal) -> Response<Full<Bytes>> {
    let mut response = respond(Answer::line(refusal.status, refusal.reason));
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

fn respond(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    for (name, value) in SAFETY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
