//! A process that runs out of descriptors. It is alone in this file, since the limit applies to all
//! tests of a process.

use nagi_server::config::Origin;
use nagi_server::{Address, ServerOptions, start};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

#[test]
fn accepting_continues_when_there_are_descriptors_again() {
    let options = ServerOptions::default();
    let settings =
        [("bind", "127.0.0.1"), ("port", "any"), ("memcached-port", "0"), ("workers", "2")];
    for (name, value) in settings {
        options.config.set(name, value, Origin::Startup).unwrap();
    }
    let io = std::env::var("NAGI_TEST_IO").unwrap_or_else(|_| "auto".to_owned());
    options.config.set("io", &io, Origin::Startup).unwrap();
    let running = start(options).unwrap();
    let Address::Tcp(address) = running.endpoints()[0].address else { panic!() };

    // Clients are in this process as well: create their sockets first, then leave room for one
    // more.
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let (first, second) = (socket(), socket());
    let next = File::open("/dev/null").unwrap();
    let free = u64::try_from(next.as_raw_fd()).unwrap();
    drop(next);
    let before = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: Some(free + 1), maximum: before.maximum };
    setrlimit(Resource::Nofile, limit).unwrap();
    let connect = |socket: Socket| {
        socket.connect(&address.into()).unwrap();
        let mut client = TcpStream::from(socket);
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client.write_all(b"PING\r\n").unwrap();
        client
    };
    let (mut first, mut second) = (connect(first), connect(second));
    let mut reply = [0; 7];
    first.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    // The second waits for the descriptors of the first.
    drop(first);
    second.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    setrlimit(Resource::Nofile, before).unwrap();
    running.stop();
    running.join().unwrap();
}
