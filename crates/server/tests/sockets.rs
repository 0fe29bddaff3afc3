//! A server in this process, with clients on real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it finds something wrong"
)]

use nagi_server::config::Origin;
use nagi_server::{Address, Protocol, Running, ServerOptions, start};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longer than any operation takes on a working server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server on its own ports, which is stopped at the end of the test.
struct Server {
    running: Option<Running>,
    resp: SocketAddr,
    memcached: SocketAddr,
}

impl Server {
    fn new() -> Self {
        Self::with(&[("workers", "2")], |_| {})
    }

    fn with(settings: &[(&str, &str)], change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut options = ServerOptions::default();
        let io = std::env::var("NAGI_TEST_IO").unwrap_or_else(|_| "auto".to_owned());
        let local =
            [("bind", "127.0.0.1"), ("port", "any"), ("memcached-port", "any"), ("io", &io)];
        for (name, value) in local.iter().chain(settings) {
            options.config.set(name, value, Origin::Startup).unwrap();
        }
        change(&mut options);
        let running = start(options).unwrap();
        let address = |protocol| {
            let mut endpoints = running.endpoints().into_iter();
            match endpoints.find(|endpoint| endpoint.protocol == protocol).unwrap().address {
                Address::Tcp(address) => address,
                Address::Unix(_) => panic!("TCP comes first"),
            }
        };
        let (resp, memcached) = (address(Protocol::Resp), address(Protocol::Memcached));
        Server { running: Some(running), resp, memcached }
    }

    fn connect(&self) -> TcpStream {
        with_timeouts(TcpStream::connect(self.resp).unwrap())
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
            running.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn with_timeouts(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn multibulk(words: &[&str]) -> Vec<u8> {
    let arguments = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), arguments.collect::<String>()).into_bytes()
}

/// Reads exactly `expected`.
fn expect(stream: &mut impl io::Read, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(
        got == expected,
        "expected {}, got {}",
        expected[..expected.len().min(200)].escape_ascii(),
        got[..got.len().min(200)].escape_ascii()
    );
}

/// Reads to the end of the connection.
fn rest(stream: &mut impl io::Read) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    rest
}

/// Waits for a condition.
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "timed out waiting for {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_hundred_thousand_requests_in_one_pipeline_are_answered_in_order() {
    let server = Server::new();
    let mut stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    let requests = 100_000;
    let sender = std::thread::spawn(move || {
        writer.write_all(&multibulk(&["INCR", "counter"]).repeat(requests)).unwrap();
    });
    let expected: String = (1..=requests).map(|value| format!(":{value}\r\n")).collect();
    expect(&mut stream, expected.as_bytes());
    sender.join().unwrap();
}

#[test]
fn a_whole_pipeline_may_be_sent_before_the_first_reply_is_read() {
    let server = Server::new();
    let mut stream = server.connect();
    let value = "v".repeat(1000);
    stream.write_all(&multibulk(&["SET", "key", &value])).unwrap();
    expect(&mut stream, b"+OK\r\n");
    stream.write_all(&multibulk(&["GET", "key"]).repeat(30_000)).unwrap();
    expect(&mut stream, format!("$1000\r\n{value}\r\n").repeat(30_000).as_bytes());
}

#[test]
fn a_thousand_clients_at_once_are_answered() {
    let server = Server::new();
    let mut clients: Vec<TcpStream> = (0..1000).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let key = format!("key:{number}");
        client.write_all(&multibulk(&["SET", &key, &key])).unwrap();
    }
    for (number, client) in clients.iter_mut().enumerate() {
        expect(client, b"+OK\r\n");
        client.write_all(&multibulk(&["GET", &format!("key:{number}")])).unwrap();
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let key = format!("key:{number}");
        expect(client, format!("${}\r\n{key}\r\n", key.len()).as_bytes());
    }
    drop(clients);
    let mut client = server.connect();
    wait_for("the server to notice that they are gone", || {
        clients_of(&mut client).trim().lines().count() == 1
    });
}

/// The reply to CLIENT LIST.
fn clients_of(stream: &mut TcpStream) -> String {
    stream.write_all(b"CLIENT LIST\r\n").unwrap();
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        header.extend(byte);
    }
    let length = std::str::from_utf8(&header[1..header.len() - 2]).unwrap().parse::<usize>();
    let mut text = vec![0; length.unwrap() + 2];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let limit = 1_000_000;
    let server = Server::with(&[], |options| options.unsent_limit = limit);
    let mut watcher = server.connect();
    // Long keys, so that few requests fill the kernel's buffers.
    let key = "k".repeat(2000);
    for length in [1000, 100_000] {
        let value = "v".repeat(length);
        watcher.write_all(&multibulk(&["SET", &key, &value])).unwrap();
        expect(&mut watcher, b"+OK\r\n");
        let mut unsent = || {
            let clients = clients_of(&mut watcher);
            let fields = clients.lines().flat_map(|line| line.split(' '));
            let unsent = fields.filter_map(|field| field.strip_prefix("omem="));
            unsent.map(|bytes| bytes.parse::<usize>().unwrap()).max().unwrap()
        };

        let mut stream = server.connect();
        stream.set_nonblocking(true).unwrap();
        let request = multibulk(&["GET", &key]);
        let mut written = 0;
        loop {
            match stream.write(&request[written % request.len()..]) {
                Ok(taken) => written += taken,
                Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
                Err(_) if unsent() > limit => break,
                Err(_) => {}
            }
        }
        // The last slice may exceed the limit, by the replies of a slice and a batch.
        for _ in 0..100 {
            assert!(unsent() < limit + 256 * 1024 + 32 * (length + 20));
        }

        stream.set_nonblocking(false).unwrap();
        let mut writer = with_timeouts(stream.try_clone().unwrap());
        let replies = written.div_ceil(request.len());
        let end = request[request.len() - (replies * request.len() - written)..].to_vec();
        let sender = std::thread::spawn(move || {
            writer.write_all(&end).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let reply = format!("${length}\r\n{value}\r\n");
        for _ in 0..replies {
            expect(&mut stream, reply.as_bytes());
        }
        sender.join().unwrap();
        assert_eq!(rest(&mut stream), b"");
    }
}

#[test]
fn a_client_that_sends_no_more_still_gets_its_replies() {
    let server = Server::new();
    let mut stream = server.connect();
    stream.write_all(&multibulk(&["PING"]).repeat(5000)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(rest(&mut stream) == b"+PONG\r\n".repeat(5000));
}

#[test]
fn large_replies_pass_through_small_buffers() {
    let server = Server::new();
    let value: String = (0..100_000).map(|number| format!("{number:06}")).collect();
    let mut stream = server.connect();
    stream.write_all(&multibulk(&["SET", "key", &value])).unwrap();
    expect(&mut stream, b"+OK\r\n");

    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    socket.connect(&server.resp.into()).unwrap();
    let mut stream = with_timeouts(socket.into());
    stream.write_all(&multibulk(&["GET", "key"])).unwrap();
    stream.write_all(&multibulk(&["PING"])).unwrap();
    stream.write_all(&multibulk(&["GET", "key"])).unwrap();
    let bulk = format!("$600000\r\n{value}\r\n");
    expect(&mut stream, bulk.as_bytes());
    expect(&mut stream, b"+PONG\r\n");
    expect(&mut stream, bulk.as_bytes());
}

#[test]
fn long_values_arrive_as_they_were_sent() {
    let server = Server::with(&[("memcached-item-limit", "8mb"), ("workers", "1")], |_| {});
    let value: String = (0..500_000).map(|number| format!("{number:07}")).collect();
    let set = multibulk(&["SET", "key", &value, "KEEPTTL"]);
    let get = multibulk(&["GET", "key"]);
    let bulk = format!("${}\r\n{value}\r\n", value.len());
    // In one piece with what follows, and with a pause at critical places.
    for cut in [set.len(), 10, 20_000, set.len() - 9, set.len() - 20_000] {
        let mut stream = server.connect();
        let mut writer = stream.try_clone().unwrap();
        let address = server.resp;
        let (begin, end) = set.split_at(cut);
        let (begin, end) = (begin.to_vec(), [end, &get[..], &set, &get].concat());
        let sender = std::thread::spawn(move || {
            writer.write_all(&begin).unwrap();
            // In the meantime the server has answered another client.
            let mut other = with_timeouts(TcpStream::connect(address).unwrap());
            other.write_all(b"PING\r\n").unwrap();
            expect(&mut other, b"+PONG\r\n");
            writer.write_all(&end).unwrap();
        });
        for _ in 0..2 {
            expect(&mut stream, b"+OK\r\n");
            expect(&mut stream, bulk.as_bytes());
        }
        sender.join().unwrap();
    }
    let mut stream = with_timeouts(TcpStream::connect(server.memcached).unwrap());
    let set = format!("set key 3 0 {}\r\n{value}\r\nget key\r\n", value.len());
    stream.write_all(set.as_bytes()).unwrap();
    let expected = format!("STORED\r\nVALUE key 3 {}\r\n{value}\r\nEND\r\n", value.len());
    expect(&mut stream, expected.as_bytes());
}

#[test]
fn a_client_that_disconnects_in_the_middle_of_a_value_leaves_no_key() {
    let server = Server::new();
    let set = multibulk(&["SET", "key", &"v".repeat(3_000_000)]);
    for sent in [set.len() / 2, set.len() - 1] {
        let mut stream = server.connect();
        stream.write_all(&set[..sent]).unwrap();
    }
    let mut client = server.connect();
    wait_for("the server to notice that they are gone", || {
        clients_of(&mut client).trim().lines().count() == 1
    });
    client.write_all(&multibulk(&["EXISTS", "key"])).unwrap();
    expect(&mut client, b":0\r\n");
}

#[test]
fn replies_precede_a_protocol_error_and_the_end() {
    let server = Server::new();
    let mut stream = server.connect();
    stream.write_all(b"PING\r\n*1\r\n!\r\nPING\r\n").unwrap();
    let expected = "+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n";
    assert_eq!(String::from_utf8(rest(&mut stream)).unwrap(), expected);
}

#[test]
fn received_requests_are_answered_before_the_server_stops() {
    let mut server = Server::new();
    let mut streams: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
    for stream in &mut streams {
        stream.write_all(&multibulk(&["PING"]).repeat(3000)).unwrap();
        // It has been accepted, and its requests have arrived.
        expect(stream, b"+PONG\r\n");
    }
    server.stop();
    for stream in &mut streams {
        assert!(rest(stream) == b"+PONG\r\n".repeat(2999));
    }
    assert!(TcpStream::connect(server.resp).is_err(), "the listener is closed");
}

#[test]
fn a_client_may_stop_the_server() {
    let mut server = Server::new();
    let mut stream = server.connect();
    stream.write_all(&multibulk(&["SHUTDOWN", "NOSAVE"])).unwrap();
    assert_eq!(rest(&mut stream), b"");
    server.running.take().unwrap().join().unwrap();
}

#[test]
fn clients_beyond_the_limit_get_an_error() {
    let server = Server::with(&[("maxclients", "3")], |_| {});
    let mut clients: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(b"PING\r\n").unwrap();
        expect(client, b"+PONG\r\n");
    }
    let mut another = server.connect();
    // A client on this machine might be an administrator, so that it is accepted.
    another.write_all(b"PING\r\n").unwrap();
    assert_eq!(rest(&mut another), b"-ERR max number of clients reached\r\n");
    clients.pop();
    wait_for("a place", || {
        let mut client = server.connect();
        // A refused client may find the connection already broken.
        let _ = client.write_all(b"PING\r\n");
        let mut reply = [0; 7];
        client.read_exact(&mut reply).is_ok() && reply == *b"+PONG\r\n"
    });
}

#[test]
fn silent_clients_are_closed_after_the_timeout() {
    let server = Server::with(&[("timeout", "1")], |_| {});
    assert_eq!(rest(&mut server.connect()), b"");
}

#[test]
fn redis_clients_are_served_on_a_path_as_well() {
    let folder = std::env::temp_dir().join(format!("nagi-sockets-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    // The socket that a dead server has left does not prevent listening.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::with(&[("unixsocket", path.to_str().unwrap())], |_| {});
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
    drop(server);
    assert!(!path.exists(), "the socket goes with its server");
    std::fs::remove_dir(folder).unwrap();
}

#[test]
fn a_port_in_use_is_an_error_that_names_it_and_the_option() {
    let server = Server::new();
    let options = ServerOptions::default();
    let port = server.resp.port().to_string();
    for (name, value) in [("bind", "127.0.0.1"), ("port", &port), ("memcached-port", "any")] {
        options.config.set(name, value, Origin::Startup).unwrap();
    }
    let error = start(options).unwrap_err().to_string();
    let named = format!("{} is in use; choose another port with --port", server.resp);
    assert!(error.starts_with(&named), "{error}");
}

#[test]
fn both_protocols_see_one_keyspace() {
    let server = Server::new();
    let mut redis = server.connect();
    redis.write_all(&multibulk(&["SET", "key", "value"])).unwrap();
    expect(&mut redis, b"+OK\r\n");
    let mut memcached = with_timeouts(TcpStream::connect(server.memcached).unwrap());
    memcached.write_all(b"get key\r\n").unwrap();
    expect(&mut memcached, b"VALUE key 0 5\r\nvalue\r\nEND\r\n");
}
