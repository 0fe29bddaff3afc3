//! Sockets, and the one thread that serves all of them.

use crate::connections::{Answering, Connections, Place, Progress};
use crate::framing::{BodyLength, Expected};
use crate::gateway::{self, Gateway};
use crate::guard;
use crate::response::{self, ResponseBody, Tracked};
use crate::shared_stream::SharedStream;
use crate::site::{Answer, Ask, Site};
use crate::write_timeout::WriteTimeout;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 32 << 10;
const MAX_HEADERS: usize = 64;
const BACKLOG: i32 = 1024;
/// The silence after which the kernel probes a peer: idle connections are kept, and would otherwise
/// stay even after their machine has disappeared.
const KEEPALIVE: Duration = Duration::from_secs(300);
/// The pause after a failed accept: there may be no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a response waits for the data of a page.
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// The thread's nice level relative to the process.
const NICENESS: i32 = 10;

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
            tracing::error!("the HTTP thread panicked");
        }
    }
}

/// Listens on an address; with port 0 the kernel chooses the port.
///
/// # Errors
/// The kernel's error.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Connections inherit TCP_NODELAY: without it, a small reply may wait for the acknowledgement
    // of the previous one.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Serves a site on listeners of [`bind`], with a separate thread and at most `most_connections`
/// connections.
///
/// # Errors
/// The thread could not be set up.
pub fn start(
    listeners: Vec<std::net::TcpListener>,
    site: Arc<dyn Site>,
    most_connections: usize,
) -> io::Result<Running> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (started, has_started) = std::sync::mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
        lower_priority();
        site.thread_starts();
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build_local(LocalOptions::default());
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(error))),
        };
        let _ = started.send(Ok(()));
        let gateway = Arc::new(Gateway::new(site, most_connections));
        let connections = Connections::new(most_connections, Arc::clone(gateway.site()));
        runtime.block_on(serve_all(listeners, gateway, connections, stopped));
    })?;
    has_started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    Ok(Running { stop: Some(stop), thread: Some(thread) })
}

/// Lowers the priority of this thread.
fn lower_priority() {
    let niceness = rustix::process::getpriority_process(None).unwrap_or(0);
    if let Err(error) = rustix::process::setpriority_process(None, niceness + NICENESS) {
        tracing::debug!(%error, "cannot lower the priority of the HTTP thread");
    }
}

/// Serves until the sender of `stopped` is dropped, which never sends anything.
async fn serve_all(
    listeners: Vec<std::net::TcpListener>,
    gateway: Arc<Gateway>,
    connections: Rc<Connections>,
    stopped: oneshot::Receiver<()>,
) {
    let told = Arc::clone(&gateway);
    spawn_local(async move { told.notify_all().await });
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                spawn_local(accept(listener, Arc::clone(&gateway), Rc::clone(&connections)));
            }
            Err(error) => tracing::error!(%error, "cannot serve HTTP on one of the addresses"),
        }
    }
    tokio::select! {
        () = connections.look_periodically() => {}
        _ = stopped => {}
    }
}

async fn accept(listener: TcpListener, gateway: Arc<Gateway>, connections: Rc<Connections>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept an HTTP client");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let were_full = connections.are_full();
        let Some(place) = connections.place() else {
            connections.turn_away(stream);
            continue;
        };
        let (socket, number) = (Arc::new(stream), place.number());
        let progress = connections.progress();
        let conversation = Conversation { peer, progress: progress.clone(), place };
        let stream = Arc::clone(&socket);
        let task = spawn_local(conversation.hold(stream, Arc::clone(&gateway)));
        connections.watch(number, (socket, peer), progress, task.abort_handle());
        if were_full {
            // The connection that ends for this one needs a turn to end.
            tokio::task::yield_now().await;
        }
    }
}

/// The state of a connection.
struct Conversation {
    peer: SocketAddr,
    progress: Progress,
    /// Freed when the connection ends.
    place: Place,
}

impl Conversation {
    /// Answers the requests of a connection, one after the other.
    async fn hold(self, stream: Arc<TcpStream>, gateway: Arc<Gateway>) {
        let Conversation { peer, progress, place } = self;
        let expected = Expected::default();
        let socket = Arc::clone(&stream);
        let stream = SharedStream::new(stream, expected.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            if request.headers().contains_key(header::UPGRADE) {
                // A WebSocket looks for the end of its connection itself.
                request.extensions_mut().insert(Arc::clone(&socket));
            }
            let answering = progress.request_begins();
            let body = BodyLength::of(request.body().size_hint().exact(), request.headers());
            expected.request_begins(body);
            let (gateway, expected) = (Arc::clone(&gateway), expected.clone());
            async move {
                let is_page = gateway.site().has_page(request.uri().path());
                let mut response = serve(request, peer, &gateway, &answering).await;
                gateway.site().count_response(response.status().as_u16(), is_page);
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    expected.protocol_changes();
                } else if body == BodyLength::Unknown {
                    // Only the parser knows where the body ends and the next request begins.
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, Infallible>(response.map(|body| Tracked { body, _answering: answering }))
            }
        });
        let stream = TokioIo::new(WriteTimeout::new(stream));
        let connection = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_buf_size(LONGEST_HEAD)
            // The periodic checks have their own limit.
            .header_read_timeout(None)
            .serve_connection(stream, service)
            .with_upgrades();
        // Errors of disconnected, broken or slow clients do not matter to the server.
        let _ = connection.await;
        drop(place);
    }
}

async fn serve(
    request: Request<Incoming>,
    peer: SocketAddr,
    gateway: &Arc<Gateway>,
    answering: &Answering,
) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let site = &**gateway.site();
    let caller = match guard::check(site, &parts, peer) {
        Ok(caller) => caller,
        Err(refusal) => return gateway::as_asked(site, &parts, response::refuse(refusal)),
    };
    if site.has_page(parts.uri.path()) {
        let accept = parts.headers.get(header::ACCEPT);
        let ask = Ask {
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            accept: accept.and_then(|it| it.to_str().ok()).unwrap_or_default(),
        };
        if let Some(bell) = site.awaited(ask) {
            bell.wait(LONGEST_WAIT, || site.awaited(ask).is_none()).await;
        }
        let answer = site.answer(ask);
        return response::page(answer.unwrap_or_else(|| Answer::line(404, "no such page")));
    }
    if answering.is_beyond_commands() {
        let refusal = response::line(429, "too many requests are in progress");
        return gateway::as_asked(site, &parts, refusal);
    }
    gateway.serve(Request::from_parts(parts, body), caller).await
}
