//! Connections grouped by client: all connections of one user from one address form a group, since
//! a program opens many from arbitrary ports.

use super::clients::ClientSample;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The maximum number of clients in a list.
const TOP: usize = 10;

/// The connections of a user from an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientGroup {
    /// The address without the port.
    pub(super) address: String,
    /// The name of the user.
    pub(super) user: String,
    /// The name from CLIENT SETNAME, if all connections have the same; otherwise the number of
    /// names.
    pub(super) name: String,
    /// The number of connections.
    pub(super) connections: usize,
    /// Bytes in both directions, of the current connections.
    pub(super) bytes: u64,
    /// Bytes in the last second.
    pub(super) bytes_per_second: u64,
    /// Requests of the last second.
    pub(super) requests_per_second: u64,
    /// The time for which workers were busy with the current connections, in nanoseconds.
    pub(super) busy_ns: u64,
    /// The time for which workers were busy with them in the last second, in nanoseconds.
    pub(super) busy_ns_per_second: u64,
}

/// The most active clients.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TopClients {
    /// By the bytes of the last second in descending order, then by total bytes.
    pub(super) by_bytes: Vec<ClientGroup>,
    /// By the workers' busy time in the last second in descending order, then by total busy time.
    pub(super) by_time: Vec<ClientGroup>,
}

impl TopClients {
    pub(super) fn of(clients: &[ClientSample]) -> Self {
        let groups = groups(clients);
        TopClients {
            by_bytes: top(&groups, |it| (it.bytes_per_second, it.bytes)),
            by_time: top(&groups, |it| (it.busy_ns_per_second, it.busy_ns)),
        }
    }
}

/// The clients with the largest figures; those with zero are omitted.
fn top(groups: &[ClientGroup], figures: impl Fn(&ClientGroup) -> (u64, u64)) -> Vec<ClientGroup> {
    let mut groups: Vec<&ClientGroup> = groups.iter().filter(|it| figures(it) > (0, 0)).collect();
    groups.sort_by_key(|group| Reverse(figures(group)));
    groups.into_iter().take(TOP).cloned().collect()
}

/// All clients, in the order of their first connections.
fn groups(clients: &[ClientSample]) -> Vec<ClientGroup> {
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut groups: Vec<(ClientGroup, Vec<&str>)> = Vec::new();
    for client in clients {
        let address = without_port(&client.address);
        let place = *places.entry((address, &client.user)).or_insert(groups.len());
        if place == groups.len() {
            groups.push((ClientGroup::empty(address, &client.user), Vec::new()));
        }
        let Some((group, names)) = groups.get_mut(place) else { continue };
        group.add(client);
        names.push(&client.name);
    }
    let named = |(group, mut names): (ClientGroup, Vec<&str>)| {
        names.sort_unstable();
        names.dedup();
        let name = match &names[..] {
            [name] => (*name).to_owned(),
            names => format!("{} names", names.len()),
        };
        ClientGroup { name, ..group }
    };
    groups.into_iter().map(named).collect()
}

impl ClientGroup {
    fn empty(address: &str, user: &str) -> Self {
        ClientGroup {
            address: address.to_owned(),
            user: user.to_owned(),
            name: String::new(),
            connections: 0,
            bytes: 0,
            bytes_per_second: 0,
            requests_per_second: 0,
            busy_ns: 0,
            busy_ns_per_second: 0,
        }
    }

    fn add(&mut self, client: &ClientSample) {
        self.connections += 1;
        self.bytes += client.received_bytes + client.sent_bytes;
        self.bytes_per_second += client.bytes_per_second;
        self.requests_per_second += client.requests_per_second;
        self.busy_ns += client.busy_ns;
        self.busy_ns_per_second += client.busy_ns_per_second;
    }
}

/// An address without its port and the brackets around it.
fn without_port(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str, user: &str, name: &str, figures: [u64; 4]) -> ClientSample {
        let [bytes, bytes_per_second, busy_ns, busy_ns_per_second] = figures;
        ClientSample {
            address: address.to_owned(),
            user: user.to_owned(),
            name: name.to_owned(),
            received_bytes: bytes / 2,
            sent_bytes: bytes - bytes / 2,
            bytes_per_second,
            requests_per_second: 1,
            busy_ns,
            busy_ns_per_second,
            ..ClientSample::default()
        }
    }

    #[test]
    fn connections_of_a_user_from_an_address_are_one_client() {
        let top = TopClients::of(&[
            client("192.0.2.1:5000", "default", "shop", [10, 1, 5, 5]),
            client("192.0.2.1:5001", "default", "shop", [20, 2, 6, 6]),
            client("192.0.2.1:5002", "batch", "", [1000, 0, 1, 0]),
            client("[2001:db8::1]:5000", "default", "a", [5, 3, 0, 1]),
            client("[2001:db8::1]:5001", "default", "b", [6, 4, 0, 0]),
            client("/run/nagi.sock:0", "default", "", [0, 0, 0, 0]),
        ]);
        let shown = |groups: &[ClientGroup]| {
            let line = |it: &ClientGroup| {
                format!("{} {} {} {}", it.address, it.user, it.name, it.connections)
            };
            groups.iter().map(line).collect::<Vec<_>>()
        };
        let [shop, batch, other] =
            ["192.0.2.1 default shop 2", "192.0.2.1 batch  1", "2001:db8::1 default 2 names 2"];
        assert_eq!(shown(&top.by_bytes), [other, shop, batch]);
        assert_eq!(shown(&top.by_time), [shop, other, batch]);
        let sums = &top.by_bytes[1];
        assert_eq!((sums.bytes, sums.bytes_per_second, sums.requests_per_second), (30, 3, 2));
        assert_eq!((sums.busy_ns, sums.busy_ns_per_second), (11, 11));
    }

    #[test]
    fn a_list_is_short() {
        let clients = (0..100).map(|number| {
            client(&format!("192.0.2.{number}:1"), "default", "", [number, number, 1, 1])
        });
        let top = TopClients::of(&clients.collect::<Vec<_>>());
        assert_eq!((top.by_bytes.len(), top.by_time.len()), (TOP, TOP));
        assert_eq!(top.by_bytes[0].address, "192.0.2.99");
    }
}
