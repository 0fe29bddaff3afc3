//! The kernel's table of TCP sockets (`/proc/net/tcp` and `tcp6`, `Documentation/networking/
//! proc_net_tcp.rst` of Linux), and its counters of full queues.

use super::accept_queue::is_servers;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The number of the state TIME_WAIT in the table.
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;
/// Maximum number of lines of the table that are read: some 50 MB of text.
const MAX_LINES: usize = 300_000;

/// Reads the tables below a folder, which is `/proc` except in tests.
#[derive(Clone, Debug)]
pub(crate) struct SocketReader {
    proc: PathBuf,
    server: SocketAddr,
}

/// Sockets that relate to one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sockets {
    /// By local address: the numbers of ports in TIME_WAIT, and of ports in any state.
    pub(crate) towards: BTreeMap<IpAddr, (u64, u64)>,
    /// Number of connections that the server has to accept, if it listens in this namespace.
    pub(crate) waiting: Option<u64>,
    /// Number of listening sockets of other servers.
    pub(crate) other_listeners: u64,
}

impl SocketReader {
    pub(crate) fn new(proc: PathBuf, server: SocketAddr) -> Self {
        SocketReader { proc, server }
    }

    /// Reads the current sockets; `None` if the table cannot be read.
    pub(crate) fn read(&self) -> Option<Sockets> {
        let mut sockets = Sockets::default();
        let mut has_read = false;
        for name in ["net/tcp", "net/tcp6"] {
            if let Ok(table) = std::fs::read_to_string(self.proc.join(name)) {
                has_read = true;
                for line in table.lines().skip(1).take(MAX_LINES) {
                    self.count(line, &mut sockets);
                }
            }
        }
        has_read.then_some(sockets)
    }

    pub(super) fn count(&self, line: &str, sockets: &mut Sockets) {
        let mut words = line.split_whitespace().skip(1);
        let (Some(local), Some(remote), Some(state), Some(queues)) = (
            words.next().and_then(address),
            words.next().and_then(address),
            words.next().and_then(|it| u8::from_str_radix(it, 16).ok()),
            words.next(),
        ) else {
            return;
        };
        if state == LISTEN {
            let receives =
                queues.split_once(':').and_then(|(_, it)| u64::from_str_radix(it, 16).ok());
            if is_servers(self.server, local) {
                let before = sockets.waiting.unwrap_or(0);
                sockets.waiting = Some(before.saturating_add(receives.unwrap_or(0)));
            } else {
                sockets.other_listeners += 1;
            }
        } else if remote == self.server {
            let (time_wait, all) = sockets.towards.entry(local.ip()).or_default();
            *time_wait += u64::from(state == TIME_WAIT);
            *all += 1;
        }
    }

    /// Returns the ID of the process that listens at the server's address, if this user may see it.
    pub(crate) fn listener(&self) -> Option<u32> {
        let tables = ["net/tcp", "net/tcp6"].map(|name| self.proc.join(name));
        let tables = tables.iter().filter_map(|path| std::fs::read_to_string(path).ok());
        let inodes: Vec<String> = tables
            .flat_map(|table| {
                let lines = table.lines().skip(1).filter_map(|line| self.listening_inode(line));
                lines.map(|inode| format!("socket:[{inode}]")).collect::<Vec<_>>()
            })
            .collect();
        let holds = |folder: &Path| {
            let files = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
            let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
            let mut names = targets.map(|target| target.to_string_lossy().into_owned());
            names.any(|name| inodes.contains(&name))
        };
        let processes = std::fs::read_dir(&self.proc).ok()?.flatten();
        let mut numbers = processes.filter_map(|entry| {
            entry.file_name().to_str()?.parse::<u32>().ok().map(|id| (id, entry.path()))
        });
        numbers.find(|(_, folder)| !inodes.is_empty() && holds(folder)).map(|(id, _)| id)
    }

    pub(super) fn listening_inode<'a>(&self, line: &'a str) -> Option<&'a str> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let local = words.get(1).copied().and_then(address)?;
        let is_listening = u8::from_str_radix(words.get(3)?, 16) == Ok(LISTEN);
        (is_listening && is_servers(self.server, local)).then_some(*words.get(9)?)
    }

    /// The server's address.
    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Returns the number of local ports that the kernel may choose from, and the value of
    /// `tcp_tw_reuse`.
    pub(crate) fn port_range(&self) -> (Option<u64>, Option<u64>) {
        let read =
            |name: &str| std::fs::read_to_string(self.proc.join("sys/net/ipv4").join(name)).ok();
        let range = read("ip_local_port_range").and_then(|text| ports_between(&text));
        (range, read("tcp_tw_reuse").and_then(|text| text.trim().parse().ok()))
    }

    /// Returns the number of connections dropped because a queue was full, since the network
    /// namespace was created.
    pub(crate) fn listen_overflows(&self) -> Option<u64> {
        counter(&std::fs::read_to_string(self.proc.join("net/netstat")).ok()?, "ListenOverflows")
    }
}

/// Parses a range of ports, and returns the number of ports in it.
pub(super) fn ports_between(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().filter_map(|it| it.parse::<u64>().ok());
    let (low, high) = (numbers.next()?, numbers.next()?);
    Some(high.saturating_add(1).saturating_sub(low))
}

/// Returns a counter of `/proc/net/netstat`, where a line of names is followed by a line of
/// numbers.
pub(super) fn counter(table: &str, name: &str) -> Option<u64> {
    let lines: Vec<&str> = table.lines().collect();
    lines.windows(2).find_map(|pair| {
        let [names, numbers] = pair else { return None };
        let place = names.split(' ').position(|it| it == name)?;
        numbers.split(' ').nth(place)?.parse().ok()
    })
}

/// Parses an address such as `0100007F:1F90`, in which each four bytes have the machine's byte
/// order.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |from: usize| {
        let digits = host.get(from..from + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let host: IpAddr = match host.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::sample_files::SampleFiles;

    #[test]
    fn sockets_are_counted_by_their_remote_address() {
        let reader = SocketReader::new(PathBuf::new(), "10.0.0.5:6379".parse().unwrap());
        let mut sockets = Sockets::default();
        for line in [
            // 10.0.0.7:40000 and 40001 to the server, one connection to another port, one from an
            // IPv6 address.
            "0: 0700000A:9C40 0500000A:18EB 06 00000000:00000000 03:00000A6B 00000000 0 0 0 3 0",
            "1: 0700000A:9C41 0500000A:18EB 01 00000000:00000000 00:00000000 00000000 0 0 1 1 0",
            "2: 0700000A:9C42 0500000A:18EC 06 00000000:00000000 03:00000A6B 00000000 0 0 0 3 0",
            "3: 0000000000000000FFFF00000700000A:9C43 0000000000000000FFFF00000500000A:18EB 06 0:0",
            "4: 00000000:18EB 00000000:0000 0A 00000000:00000005 00:00000000 00000000 0 0 9 1 0",
            "5: 00000000:0050 00000000:0000 0A 00000000:00000003 00:00000000 00000000 0 0 8 1 0",
            "odd",
        ] {
            reader.count(line, &mut sockets);
        }
        let towards = [("10.0.0.7".parse().unwrap(), (2, 3))].into();
        assert_eq!(sockets, Sockets { towards, waiting: Some(5), other_listeners: 1 });
    }

    #[test]
    fn ports_and_full_queues_are_read_below_a_made_up_folder() {
        let root = SampleFiles::new(&[
            ("sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("sys/net/ipv4/tcp_tw_reuse", "2\n"),
            ("net/netstat", "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 1 27\n"),
            (
                "net/tcp",
                "head\n0: 0700000A:9C40 0500000A:18EB 06 0:0 03:0 0 0 0 3 0\n\
                 1: 00000000:18EB 00000000:0000 0A 0:4 00:0 0 0 0 77 1 0\n",
            ),
        ]);
        let server = "10.0.0.5:6379".parse().unwrap();
        let reader = SocketReader::new(root.path().to_path_buf(), server);
        assert_eq!(reader.port_range(), (Some(28_232), Some(2)));
        assert_eq!(reader.listen_overflows(), Some(27));
        let sockets = reader.read().unwrap();
        assert_eq!(sockets.towards, [("10.0.0.7".parse().unwrap(), (1, 1))].into());
        assert_eq!(sockets.waiting, Some(4));
        std::fs::create_dir_all(root.path().join("9/fd")).unwrap();
        std::os::unix::fs::symlink("socket:[77]", root.path().join("9/fd/3")).unwrap();
        assert_eq!(reader.listener(), Some(9));
        let nothing = SocketReader::new(PathBuf::from("/nowhere"), server);
        assert_eq!((nothing.read(), nothing.listener()), (None, None));
        assert_eq!((nothing.port_range(), nothing.listen_overflows()), ((None, None), None));
    }

    #[test]
    fn numbers_at_their_ends_are_read() {
        assert_eq!(ports_between("32768\t60999\n"), Some(28_232));
        assert_eq!(ports_between("0 18446744073709551615"), Some(u64::MAX));
        let reader = SocketReader::new(PathBuf::new(), "10.0.0.5:6379".parse().unwrap());
        let mut sockets = Sockets::default();
        let line = "0: 00000000:18EB 00000000:0000 0A 00000000:FFFFFFFFFFFFFFFF 00:0 0 0 0 9";
        [line; 2].iter().for_each(|line| reader.count(line, &mut sockets));
        assert_eq!(sockets.waiting, Some(u64::MAX));
    }

    #[test]
    fn counters_are_read_below_their_names() {
        let table = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 27 28\n\
                     IpExt: InNoRoutes\nIpExt: 3\n";
        assert_eq!(counter(table, "ListenOverflows"), Some(27));
        assert_eq!(counter(table, "Nothing"), None);
    }
}
