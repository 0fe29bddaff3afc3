//! The baseline: a server that answers without executing requests.
//!
//! It only finds the ends of requests: a request with two arguments is answered with "no value",
//! any other with `+OK`. The cost of this server is the kernel's share of a real server's cost.
//! Like real servers, it has one epoll loop per worker, with one receive and one send per wake-up
//! of a connection.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

/// Maximum number of bytes received at once.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// The command line of `nagi bench-responder`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ResponderOptions {
    /// Port to listen on, on 127.0.0.1; 0 for any that is free.
    #[arg(long, short, default_value_t = 0)]
    pub port: u16,
    /// Number of threads.
    #[arg(long, default_value_t = 1)]
    pub workers: usize,
}

/// Prints its address on standard output, then answers requests until the process is ended.
///
/// # Errors
/// The port cannot be listened on, or a worker failed.
pub fn run(options: &ResponderOptions) -> io::Result<()> {
    let responder = Responder::start(options.port, options.workers)?;
    writeln!(io::stdout(), "listening on {}", responder.address())?;
    responder.join()
}

/// A responder within this process, which ends when dropped.
#[derive(Debug)]
pub struct Responder {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    workers: Vec<(JoinHandle<io::Result<()>>, Arc<AtomicU64>)>,
}

impl Responder {
    /// Starts `workers` threads that share `port` of 127.0.0.1, or any free port if it is 0.
    ///
    /// # Errors
    /// The port cannot be listened on.
    pub fn start(port: u16, workers: usize) -> io::Result<Self> {
        let first = listen(port)?;
        let address = SocketAddr::try_from(rustix::net::getsockname(&first)?)?;
        let mut listeners = vec![first];
        for _ in 1..workers {
            listeners.push(listen(address.port())?);
        }
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut responder = Responder { address, stop, workers: Vec::new() };
        for listener in listeners {
            let requests = Arc::new(AtomicU64::new(0));
            let worker = Worker::new(listener, Arc::clone(&responder.stop), Arc::clone(&requests))?;
            let thread = std::thread::Builder::new()
                .name("responder".to_owned())
                .spawn(move || worker.drive())?;
            responder.workers.push((thread, requests));
        }
        Ok(responder)
    }

    /// The address that the responder listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.workers.iter().map(|(_, requests)| requests.load(Ordering::Relaxed)).sum()
    }

    fn join(mut self) -> io::Result<()> {
        self.workers.drain(..).try_for_each(|(thread, _)| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a responder panicked")))
        })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // No worker reads the eventfd, so it stays readable until every worker has seen it. A
        // worker that failed has already ended.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        for (thread, _) in self.workers.drain(..) {
            let _ = thread.join();
        }
    }
}

fn listen(port: u16) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The state of one thread: a listener, and its connections indexed by file descriptor.
struct Worker {
    epoll: OwnedFd,
    listener: OwnedFd,
    stop: Arc<OwnedFd>,
    peers: Vec<Option<Peer>>,
    scratch: Vec<u8>,
    requests: Arc<AtomicU64>,
}

struct Peer {
    socket: OwnedFd,
    counter: Counter,
    /// Replies that did not fit into the socket's send buffer.
    unsent: Vec<u8>,
}

impl Worker {
    fn new(listener: OwnedFd, stop: Arc<OwnedFd>, requests: Arc<AtomicU64>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for fd in [&listener, &*stop] {
            epoll::add(&epoll, fd, token(fd), EventFlags::IN)?;
        }
        let scratch = vec![0; SCRATCH_BYTES];
        Ok(Worker { epoll, listener, stop, peers: Vec::new(), scratch, requests })
    }

    fn drive(mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(256);
        let [listener, stop] = [&self.listener, &*self.stop].map(|fd| fd.as_raw_fd() as u64);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                match event.data.u64() {
                    fd if fd == stop => return Ok(()),
                    fd if fd == listener => self.accept()?,
                    fd => self.serve(fd as usize, event.flags),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // An error of `accept` is ignored: the connection is lost, the responder continues.
        while let Ok(socket) = rustix::net::accept_with(&self.listener, flags) {
            sockopt::set_tcp_nodelay(&socket, true)?;
            let events = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &socket, token(&socket), events)?;
            let place = socket.as_raw_fd() as usize;
            if self.peers.len() <= place {
                self.peers.resize_with(place + 1, || None);
            }
            if let Some(peer) = self.peers.get_mut(place) {
                let counter = Counter::default();
                *peer = Some(Peer { socket, counter, unsent: Vec::new() });
            }
        }
        Ok(())
    }

    fn serve(&mut self, place: usize, flags: EventFlags) {
        let Some(slot) = self.peers.get_mut(place) else { return };
        let Some(peer) = slot else { return };
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if peer.answer(&mut self.scratch, hung_up, &self.requests).is_err() {
            *slot = None;
        }
    }
}

impl Peer {
    /// Answers all received requests, as long as the socket accepts replies. A short receive shows
    /// that the socket's buffer is empty, except after a hang-up, where the end of the stream has
    /// to be read.
    fn answer(
        &mut self,
        scratch: &mut [u8],
        hung_up: bool,
        requests: &AtomicU64,
    ) -> Result<(), Errno> {
        while self.flush()? {
            match rustix::net::recv(&self.socket, &mut *scratch, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Errno::CONNRESET),
                Ok((received, _)) => {
                    let input = scratch.get(..received).unwrap_or_default();
                    let arrived = self.counter.feed(input, &mut self.unsent);
                    requests.fetch_add(arrived, Ordering::Relaxed);
                    if received < scratch.len() && !hung_up {
                        self.flush()?;
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Sends pending replies. Returns whether all of them were sent.
    fn flush(&mut self) -> Result<bool, Errno> {
        while !self.unsent.is_empty() {
            match rustix::net::send(&self.socket, &self.unsent, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }
}

fn token(fd: &impl AsRawFd) -> EventData {
    EventData::new_u64(fd.as_raw_fd() as u64)
}

/// The parser state of a connection's input.
#[derive(Debug, Default)]
struct Counter {
    /// The first byte of the current line; 0 before it has arrived.
    first: u8,
    /// The second byte of the current line; 0 before it has arrived.
    second: u8,
    /// The last number in the current line.
    number: usize,
    /// Bytes of an argument or value left to skip.
    skip: usize,
    /// Number of arguments that are still to arrive.
    arguments: usize,
    /// Whether the request is a read.
    reads: bool,
}

impl Counter {
    /// Parses `input`, and appends a reply for each request that it completes. Returns the number
    /// of these requests.
    fn feed(&mut self, mut input: &[u8], replies: &mut Vec<u8>) -> u64 {
        let mut requests = 0;
        while let Some((&byte, rest)) = input.split_first() {
            let reply = if self.skip > 0 {
                let skipped = self.skip.min(input.len());
                self.skip -= skipped;
                input = input.get(skipped..).unwrap_or_default();
                if self.skip > 0 { None } else { self.end_of_data() }
            } else {
                input = rest;
                self.line_byte(byte)
            };
            if let Some(reply) = reply {
                requests += 1;
                replies.extend_from_slice(reply.as_bytes());
            }
        }
        requests
    }

    fn line_byte(&mut self, byte: u8) -> Option<&'static str> {
        match byte {
            b'\n' => return self.end_of_line(),
            b'0'..=b'9' => {
                self.number = self.number.wrapping_mul(10).wrapping_add(usize::from(byte - b'0'));
            }
            b' ' => self.number = 0,
            _ if self.first == 0 => self.first = byte,
            _ if self.second == 0 => self.second = byte,
            _ => {}
        }
        None
    }

    fn end_of_line(&mut self) -> Option<&'static str> {
        let number = std::mem::take(&mut self.number);
        let second = std::mem::take(&mut self.second);
        match std::mem::take(&mut self.first) {
            b's' if second == b't' => Some("END\r\n"),
            b'*' => {
                self.arguments = number;
                self.reads = number == 2;
                None
            }
            b'$' | b's' => {
                self.skip = number.saturating_add(2);
                None
            }
            b'g' => Some("END\r\n"),
            _ => Some("+OK\r\n"),
        }
    }

    fn end_of_data(&mut self) -> Option<&'static str> {
        let Some(left) = self.arguments.checked_sub(1) else { return Some("STORED\r\n") };
        self.arguments = left;
        match left {
            0 if self.reads => Some("$-1\r\n"),
            0 => Some("+OK\r\n"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of requests in `input` and the replies, which must not depend on where
    /// the input is split.
    fn answer(input: &str) -> (u64, String) {
        let whole = {
            let mut replies = Vec::new();
            let requests = Counter::default().feed(input.as_bytes(), &mut replies);
            (requests, String::from_utf8(replies).unwrap())
        };
        for cut in 0..input.len() {
            let (mut counter, mut replies) = (Counter::default(), Vec::new());
            let requests = counter.feed(&input.as_bytes()[..cut], &mut replies)
                + counter.feed(&input.as_bytes()[cut..], &mut replies);
            assert_eq!((requests, String::from_utf8(replies).unwrap()), whole, "cut at {cut}");
        }
        whole
    }

    #[test]
    fn resp_reads_are_misses_and_other_requests_are_answered_ok() {
        assert_eq!(
            answer(
                "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n*\r\n$\r\n\
                 *1\r\n$4\r\nPING\r\nPING\r\n"
            ),
            (4, "$-1\r\n+OK\r\n+OK\r\n+OK\r\n".to_owned())
        );
    }

    #[test]
    fn memcached_reads_are_misses_and_writes_are_stored() {
        assert_eq!(
            answer("stats\r\nget k7\r\nset k9 0 0 5\r\nget a\r\nget k\r\n"),
            (4, "END\r\nEND\r\nSTORED\r\nEND\r\n".to_owned())
        );
    }
}
