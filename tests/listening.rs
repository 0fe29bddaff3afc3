//! Ports and addresses that change while a server runs.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

use std::process::Command;

use harness::{Connection, Server, encode_command, nagi_binary, tool};

const PORT_FAULT: &str = "Unable to listen on this port. Check server logs.";
const BIND_FAULT: &str = "Failed to bind to specified addresses.";

fn failed(name: &str, fault: &str) -> String {
    format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {fault}\r\n")
}

/// Returns a port that is currently free.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there are ports");
    listener.local_addr().expect("it has one").port()
}

/// Connects often enough for every worker to have accepted a connection, to each of the addresses
/// 127.0.0.x in `hosts`.
fn check_listens(port: u16, hosts: &[u8]) {
    for host in hosts {
        let address = SocketAddr::from(([127, 0, 0, *host], port));
        let mut clients: Vec<_> = (0..10).map(|_| Connection::open(address)).collect();
        clients.iter_mut().for_each(|client| client.check("PING", "+PONG\r\n"));
    }
}

fn check_refuses(host: u8, port: u16) {
    let error = TcpStream::connect(SocketAddr::from(([127, 0, 0, host], port)))
        .expect_err("no server listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn ports_change_and_connections_stay() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let first = server.resp().port();
        let second = free_port();
        client.check(&format!("CONFIG SET port {second}"), "+OK\r\n");
        client.check("CONFIG GET port", format!("*2\r\n$4\r\nport\r\n$5\r\n{second}\r\n"));
        assert!(client.run("INFO server").text().contains(&format!("tcp_port:{second}\r\n")));
        check_listens(second, &[1]);
        check_refuses(1, first);
        client.check("CONFIG SET port 0", "+OK\r\n");
        check_refuses(1, second);
        client.check(&format!("CONFIG SET port {first} maxclients 500"), "+OK\r\n");
        check_listens(first, &[1]);
    }
}

#[test]
fn addresses_change_even_where_one_comprises_another() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let port = server.resp().port();
        for (bind, open, closed) in [
            ("127.0.0.1 127.0.0.2", [1, 2].as_slice(), [3].as_slice()),
            ("* -::*", &[1, 2, 3], &[]),
            ("-192.0.2.1 127.0.0.2", &[2], &[1, 3]),
            ("127.0.0.1", &[1], &[2, 3]),
        ] {
            let reply = client.run_words(&["CONFIG", "SET", "bind", bind]);
            assert_eq!(reply.text(), "OK", "{bind}");
            check_listens(port, open);
            closed.iter().for_each(|host| check_refuses(*host, port));
        }
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn an_unavailable_address_changes_nothing() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let port = server.resp().port();
        client.check("CONFIG SET bind 127.0.0.1", "+OK\r\n");
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("there are ports");
        let taken = taken.local_addr().map(|it| (it.port(), taken)).expect("it has one");
        let many = "127.0.0.1 ".repeat(17);
        for (words, fault) in [
            (vec!["port", &taken.0.to_string()], failed("port", PORT_FAULT)),
            (vec!["maxclients", "77", "PORT", &taken.0.to_string()], failed("port", PORT_FAULT)),
            (vec!["bind", "192.0.2.1"], failed("bind", BIND_FAULT)),
            (vec!["bind", "127.0.0.2 192.0.2.1", "maxclients", "77"], failed("bind", BIND_FAULT)),
            (vec!["bind", "* 192.0.2.1"], failed("bind", BIND_FAULT)),
            (vec!["bind", many.trim()], failed("bind", "Too many bind addresses specified.")),
        ] {
            let command = encode_command(&[["CONFIG", "SET"].as_slice(), &words].concat());
            client.check_raw(command, fault);
            check_listens(port, &[1]);
            check_refuses(2, port);
        }
        client.check("CONFIG GET bind", "*2\r\n$4\r\nbind\r\n$9\r\n127.0.0.1\r\n");
        client.check("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n");
    }
}

#[test]
fn memcached_has_its_own_port_and_addresses() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let (first, second) = (server.memcached_address().port(), free_port());
    let speaks = |host: u8, port: u16| {
        Connection::open(([127, 0, 0, host], port).into()).check_raw("mn\r\n", "MN\r\n");
    };
    client.check(&format!("CONFIG SET memcached-port {second}"), "+OK\r\n");
    speaks(1, second);
    check_refuses(1, first);
    let bind = format!("127.0.0.1 127.0.0.2:{first}");
    assert_eq!(client.run_words(&["CONFIG", "SET", "memcached-bind", &bind]).text(), "OK");
    speaks(1, second);
    speaks(2, first);
    // Both ports change at once: each listener takes the former port of the other.
    let resp = server.resp().port();
    client.check(
        &format!("CONFIG SET port {second} memcached-port {resp} memcached-bind 127.0.0.1"),
        "+OK\r\n",
    );
    speaks(1, resp);
    check_listens(second, &[1]);
    client.check(
        &format!("CONFIG SET memcached-port {second}"),
        failed("memcached-port", PORT_FAULT),
    );
    speaks(1, resp);
}

#[test]
fn memcached_listens_on_a_port_for_each_address() {
    let memcached = tool("memcached");
    let mut nagi = Command::new(nagi_binary());
    nagi.arg("memcached");
    for mut command in [nagi, memcached] {
        let port = free_port();
        command.args(["-l", &format!("127.0.0.2:{port}")]);
        let server = Server::start_memcached(command).unwrap_or_else(|fault| panic!("{fault}"));
        let addresses = [server.memcached_address(), ([127, 0, 0, 2], port).into()];
        for address in addresses {
            Connection::open(address).check_raw("get a\r\n", "END\r\n");
        }
    }
}
