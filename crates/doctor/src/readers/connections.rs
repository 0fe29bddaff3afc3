//! Reads the kernel's `TCP_INFO` of established connections with the server (`man 7 sock_diag`):
//! retransmitted segments and round trips, which no program influences.
//!
//! No privilege is needed. The kernel does not report closed connections, so the connections are
//! sampled repeatedly, and the last figures of each connection count.

use super::netlink::{Kernel, attribute, bytes, word};
use nagi_findings::observation::TcpConnections;
use rustix::net::netlink;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The type of a request for sockets of one family (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;
/// Address families and the protocol (`sys/socket.h`).
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
/// The attribute with `TCP_INFO` (`linux/inet_diag.h`).
const INFO: u16 = 2;
/// The bit for the state of an established connection.
const ESTABLISHED: u32 = 1 << 1;
/// The lengths of a socket's description and of its ID in a message, in bytes.
const SOCKET: usize = 72;
const IDENTITY: usize = 48;
/// Offsets of figures in `TCP_INFO` (`struct tcp_info` of `linux/tcp.h`). In kernels before 4.6 it
/// ends before the minimum round trip, in kernels before 4.19 before the duplicates.
const ROUND_TRIP: usize = 68;
const RETRANSMITTED: usize = 100;
const MIN_ROUND_TRIP: usize = 148;
const DATA_SEGMENTS_OUT: usize = 156;
const DUPLICATES: usize = 216;
/// Maximum number of connections that are tracked; further ones are ignored.
const MAX_CONNECTIONS: usize = 100_000;

/// The figures of one connection since it was established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    retransmitted: u64,
    /// Retransmitted segments that had arrived already: their acknowledgment was lost or late.
    duplicates: u64,
    segments: u64,
    round_trip_us: u64,
    least_round_trip_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Connection {
    local: SocketAddr,
    remote: SocketAddr,
    cookie: u64,
    figures: Figures,
}

/// Which ends of the connections with the server are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The ends of clients on this host.
    Clients,
    /// The server's own ends.
    Servers,
}

/// Collects the figures of connections with one server.
#[derive(Debug)]
pub(crate) struct ConnectionReader {
    server: SocketAddr,
    /// Whether the server's ends of the connections are on this host.
    has_server: bool,
    /// The first and last figures of each connection, by its socket's cookie.
    seen: HashMap<u64, (Figures, Figures)>,
    looks: u64,
}

impl ConnectionReader {
    pub(crate) fn new(server: SocketAddr, has_server: bool) -> Self {
        ConnectionReader { server, has_server, seen: HashMap::new(), looks: 0 }
    }

    /// Adds a sample of all connections.
    pub(crate) fn look(&mut self) {
        let ends: &[End] = match self.has_server {
            true => &[End::Clients, End::Servers],
            false => &[End::Clients],
        };
        for &end in ends {
            for connection in connections(self.server.port(), end).into_iter().flatten() {
                self.take(&connection, end);
            }
        }
        self.looks += 1;
    }

    fn take(&mut self, connection: &Connection, end: End) {
        let Connection { local, remote, cookie, figures } = *connection;
        // Clients may have reached the server at any address of its host.
        let is_servers = end == End::Servers || remote == self.server;
        // A connection with the same address at both ends does not cross a network.
        let crosses = local.ip() != remote.ip();
        if !is_servers || !crosses || self.seen.len() >= MAX_CONNECTIONS {
            return;
        }
        // The figures of a connection made within the run began with zeros.
        let first = if self.looks == 0 { figures } else { Figures::default() };
        self.seen.entry(cookie).or_insert((first, figures)).1 = figures;
    }

    /// Returns the results; `None` if there were no connections.
    pub(crate) fn finish(&self) -> Option<TcpConnections> {
        let grown = |of: fn(&Figures) -> u64| {
            let grown = self.seen.values().map(|(first, last)| of(last).saturating_sub(of(first)));
            grown.fold(0_u64, u64::saturating_add)
        };
        let last = || self.seen.values().map(|(_, last)| last);
        let known = |times: Vec<u64>| times.into_iter().filter(|us| *us > 0).collect::<Vec<_>>();
        let mut middle = known(last().map(|it| it.round_trip_us).collect());
        middle.sort_unstable();
        let least = known(last().map(|it| it.least_round_trip_us).collect());
        (!self.seen.is_empty()).then(|| TcpConnections {
            connections: self.seen.len() as u64,
            segments: grown(|it| it.segments),
            retransmitted: grown(|it| it.retransmitted),
            duplicates: grown(|it| it.duplicates),
            least_round_trip_us: least.into_iter().min(),
            round_trip_us: middle.get(middle.len() / 2).copied(),
        })
    }
}

/// Returns all established connections of this network namespace from or to a port; `None` if the
/// kernel does not report them.
fn connections(port: u16, end: End) -> Option<Vec<Connection>> {
    let kernel = Kernel::open(Some(netlink::SOCK_DIAG))?;
    let mut all = kernel.dump(BY_FAMILY, &request(INET, port, end), connection)?;
    // A kernel without IPv6 refuses this request.
    let more = kernel.dump(BY_FAMILY, &request(INET6, port, end), connection);
    all.extend(more.unwrap_or_default());
    Some(all)
}

/// Encodes a request for the established connections of a family with the given port at one end.
fn request(family: u8, port: u16, end: End) -> Vec<u8> {
    let mut request = vec![family, TCP, 1 << (INFO - 1), 0];
    request.extend(ESTABLISHED.to_ne_bytes());
    let ports = match end {
        End::Servers => [port, 0],
        End::Clients => [0, port],
    };
    let mut identity: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    identity.resize(IDENTITY, 0);
    request.extend(identity);
    request
}

fn connection(message: &[u8]) -> Option<Connection> {
    let address = |port: usize, host: usize| {
        let host: IpAddr = match *message.first()? {
            INET => Ipv4Addr::from(bytes::<4>(message, host)?).into(),
            _ => Ipv6Addr::from(bytes::<16>(message, host)?).to_canonical(),
        };
        Some(SocketAddr::new(host, u16::from_be_bytes(bytes(message, port)?)))
    };
    Some(Connection {
        local: address(4, 8)?,
        remote: address(6, 24)?,
        cookie: u64::from_ne_bytes(bytes(message, 44)?),
        figures: figures(attribute(message.get(SOCKET..)?, INFO)?)?,
    })
}

fn figures(info: &[u8]) -> Option<Figures> {
    let number = |at: usize| word(info, at).map(u64::from);
    Some(Figures {
        retransmitted: number(RETRANSMITTED)?,
        duplicates: number(DUPLICATES).unwrap_or(0),
        segments: number(DATA_SEGMENTS_OUT).unwrap_or(0),
        round_trip_us: number(ROUND_TRIP)?,
        // All bits are set if the round trip has not been measured yet.
        least_round_trip_us: number(MIN_ROUND_TRIP)
            .filter(|us| *us != u64::from(u32::MAX))
            .unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A recorded reply of Linux 6.18 about one connection, 392 bytes in x86 byte order. It had
    /// sent 100 small requests from 192.0.2.2:40218 to 192.0.2.1:6379, over a link that lost every
    /// sixteenth packet.
    const RECORDED: &str = "\
        020100009d1a18ebc0000202000000000000000000000000c0000201000000000000000000000000\
        00000000921700000000000000000000000000000000000000000000081551000500080000000000\
        08000f00000000000c001500010000000000000006001600520000001c010200010000000007aa01\
        802c0300409c00000080000018020000000000000000000000000000000000000000000000000000\
        000000000000000000000000ffff0000d7ff0000c2140000ba280000ffffff7f12000000cbff0000\
        0300000000000000d7ff000008000000bb90944407000000ffffffffffffffff7905000000000000\
        78050000000000007b0000007000000000000000030000006600000075000000aaaa0a8b02000000\
        e0f0330000000000000000000000000000000000000000006c000000000000006606000000000000\
        70000000000000000700000000000000000000000000010000000100010000000100010000000000\
        0000000000000000000000000000000000000000000000000000000000000000";

    fn recorded() -> Vec<u8> {
        let digits = RECORDED.as_bytes().chunks(2).map(|it| str::from_utf8(it).unwrap());
        digits.map(|it| u8::from_str_radix(it, 16).unwrap()).collect()
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// A connection with this cookie and these figures.
    fn numbered(cookie: u64, figures: Figures) -> Connection {
        Connection { local: at("10.0.0.7:40000"), remote: at("10.0.0.5:6379"), cookie, figures }
    }

    #[test]
    fn a_recorded_answer_is_read() {
        let expected = Figures {
            retransmitted: 8,
            duplicates: 7,
            segments: 117,
            round_trip_us: 5314,
            least_round_trip_us: 3,
        };
        let read = connection(&recorded()).unwrap();
        assert_eq!((read.local, read.remote), (at("192.0.2.2:40218"), at("192.0.2.1:6379")));
        assert_eq!(read.figures, expected);
        assert_eq!(connection(&recorded()[..100]), None);
    }

    #[test]
    fn an_older_kernel_reports_fewer_fields() {
        let recorded = recorded();
        let info = attribute(&recorded[SOCKET..], INFO).unwrap();
        let old = figures(&info[..MIN_ROUND_TRIP]).unwrap();
        assert_eq!((old.segments, old.duplicates, old.least_round_trip_us), (0, 0, 0));
        assert_eq!(figures(&info[..RETRANSMITTED]), None);
    }

    #[test]
    fn retransmissions_during_the_run_are_counted() {
        let figures = |retransmitted, segments, least_round_trip_us| Figures {
            retransmitted,
            segments,
            round_trip_us: 100,
            least_round_trip_us,
            ..<_>::default()
        };
        let mut reader = ConnectionReader::new(at("10.0.0.5:6379"), false);
        assert_eq!(reader.finish(), None);
        reader.take(&numbered(1, figures(50, 900, 30)), End::Clients);
        reader.looks = 1;
        reader.take(&numbered(1, figures(52, 1000, 20)), End::Clients);
        reader.take(&numbered(2, figures(1, 10, 0)), End::Clients);
        let elsewhere = Connection { remote: at("10.0.0.6:6379"), ..numbered(3, figures(7, 7, 7)) };
        let within = Connection { local: at("10.0.0.5:9"), ..numbered(4, figures(7, 7, 7)) };
        reader.take(&elsewhere, End::Clients);
        reader.take(&within, End::Clients);
        let expected = TcpConnections {
            connections: 2,
            segments: 110,
            retransmitted: 3,
            duplicates: 0,
            least_round_trip_us: Some(20),
            round_trip_us: Some(100),
        };
        assert_eq!(reader.finish(), Some(expected));
    }

    #[test]
    fn both_ends_of_a_connection_of_this_process_are_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let _server = listener.accept().unwrap();
        let told = |end| connections(address.port(), end).expect("the kernel tells of sockets");
        let (clients, servers) = (told(End::Clients), told(End::Servers));
        let own = client.local_addr().unwrap();
        assert!(clients.iter().any(|it| (it.local, it.remote) == (own, address)), "{clients:?}");
        assert!(servers.iter().any(|it| (it.local, it.remote) == (address, own)), "{servers:?}");
    }
}
