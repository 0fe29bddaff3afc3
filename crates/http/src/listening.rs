//! Sockets, and the one thread that serves all of them.

use crate::gateway::Gateway;
use crate::guard;
use crate::response::{self, ResponseBody};
use crate::site::{Answer, Ask, Site};
use crate::write_timeout::WriteTimeout;
use hyper::body::Incoming;
use hyper::header;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{LocalSet, spawn_local};

/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 1024;
/// How long the first request of a connection may take to arrive.
const FIRST_REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// How long further requests may take, and how long a connection may be idle: longer than proxies
/// keep one (60 seconds by default in nginx and Apache), so that none is closed just as a proxy
/// sends on it.
const IDLE: Duration = Duration::from_secs(90);
/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 32 << 10;
const MOST_HEADERS: usize = 64;
const BACKLOG: i32 = 1024;
/// For how long nothing is accepted where that has failed: there may be no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often a connection is looked at for its end, and in how many looks in a row it has ended:
/// what is being sent to a peer that sends nothing more has time until then.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
const ENDED_LOOKS: u32 = 2;
/// By how much the thread is nicer than the process.
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
        let gateway = Arc::new(Gateway::new(site));
        let local = LocalSet::new();
        local.block_on(&runtime, async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS));
            for listener in listeners {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        let (gateway, places) = (Arc::clone(&gateway), Arc::clone(&places));
                        spawn_local(accept(listener, gateway, places));
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

async fn accept(listener: TcpListener, gateway: Arc<Gateway>, places: Arc<Semaphore>) {
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let gateway = Arc::clone(&gateway);
                spawn_local(async move {
                    converse(stream, peer, gateway).await;
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

/// Answers the requests of one connection, one after the other.
async fn converse(stream: TcpStream, peer: SocketAddr, gateway: Arc<Gateway>) {
    // Without it a small reply may wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let has_asked = Rc::new(Cell::new(false));
    let asked = Rc::clone(&has_asked);
    let service = service_fn(move |request: Request<Incoming>| {
        asked.set(true);
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, Infallible>(serve(request, peer, &gateway).await) }
    });
    let Ok(socket) = stream.as_fd().try_clone_to_owned() else { return };
    let connection = http1::Builder::new()
        .max_headers(MOST_HEADERS)
        .max_buf_size(LONGEST_HEAD)
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream)), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    // A client that is gone, broken or slow is none of ours.
    let conversation = async {
        let first = tokio::time::timeout(FIRST_REQUEST_WITHIN, &mut connection).await;
        if first.is_err() && has_asked.get() {
            let _ = connection.await;
        }
    };
    tokio::select! {
        () = conversation => {}
        () = peer_gone(socket) => {}
    }
}

/// Waits until a peer has closed its connection. hyper notices that where it reads; it does not
/// while bytes are left behind a request whose response has not ended.
async fn peer_gone(socket: OwnedFd) {
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut looks = 0;
    while looks < ENDED_LOOKS {
        tokio::time::sleep(LOOK_PAUSE).await;
        let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
        let _ = rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let has_ended = polled.iter().any(|it| it.revents().intersects(ended));
        looks = if has_ended { looks + 1 } else { 0 };
    }
}

async fn serve(
    request: Request<Incoming>,
    peer: SocketAddr,
    gateway: &Arc<Gateway>,
) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let site = gateway.site();
    let caller = match guard::check(site, &parts, peer) {
        Ok(caller) => caller,
        Err(refusal) => return response::refuse(refusal),
    };
    if site.has_page(parts.uri.path()) {
        let accept = parts.headers.get(header::ACCEPT);
        let ask = Ask {
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            accept: accept.and_then(|it| it.to_str().ok()).unwrap_or_default(),
        };
        let answer = site.answer(ask);
        return response::page(answer.unwrap_or_else(|| Answer::line(404, "no such page")));
    }
    gateway.serve(Request::from_parts(parts, body), caller).await
}
