//! The servers of a Redis Cluster and their slots, as one of the servers reports them before the
//! run. If a slot moves during the run, its requests fail (`MOVED`).

use nagi_client::ring::{self, Cluster, SLOTS};

use super::servers::Server;
use crate::interrupt::Interrupt;
use crate::wire::Answer;

/// A range of slots and the server that owns it.
struct Range {
    from: u16,
    to: u16,
    host: String,
    port: u16,
}

/// Returns the servers that own slots, and the mapping of keys to servers.
///
/// # Errors
/// None of the `known` servers can be queried, they are no cluster, or no server owns some of the
/// slots.
pub(crate) fn servers(known: &[Server]) -> Result<(Vec<Server>, Cluster), String> {
    let mut failure = "a cluster needs a server".to_owned();
    for server in known {
        match ranges(server).and_then(|ranges| from_ranges(server, &ranges)) {
            Ok(found) => return Ok(found),
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

fn ranges(server: &Server) -> Result<Vec<Range>, String> {
    let mut wire = server.wire(&Interrupt::default())?;
    let answer = wire.run("CLUSTER SLOTS").map_err(|why| format!("{}: {why}", server.site.name))?;
    let Answer::Array(rows) = answer else {
        return Err(format!("{}: CLUSTER SLOTS has no answer", server.site.name));
    };
    let ranges: Option<Vec<Range>> = rows.iter().map(|row| range(row, server)).collect();
    ranges.ok_or_else(|| format!("{}: the answer to CLUSTER SLOTS is malformed", server.site.name))
}

/// Parses a row of CLUSTER SLOTS: the first and the last slot, the server that owns them, and its
/// replicas.
fn range(row: &Answer, asked: &Server) -> Option<Range> {
    let Answer::Array(row) = row else { return None };
    let [Answer::Integer(from), Answer::Integer(to), Answer::Array(node), ..] = row.as_slice()
    else {
        return None;
    };
    let [host, Answer::Integer(port), ..] = node.as_slice() else { return None };
    // A server that does not know its own address leaves the host empty.
    let host = match host.text() {
        unknown if unknown.is_empty() || unknown == "?" => asked.site.host.clone(),
        host => host,
    };
    let number = |number: &i64| u16::try_from(*number).ok();
    Some(Range { from: number(from)?, to: number(to)?, host, port: number(port)? })
}

fn from_ranges(asked: &Server, ranges: &[Range]) -> Result<(Vec<Server>, Cluster), String> {
    let mut cluster = Cluster::new(Vec::new());
    let mut servers = Vec::new();
    let mut covered = 0;
    for Range { from, to, host, port } in ranges {
        let place = ring::Server::new(host.as_str(), *port);
        if !cluster.servers().contains(&place) {
            servers.push(asked.at(host, *port)?);
        }
        for slot in *from..=*to {
            cluster.assign(slot, place.clone());
            covered += 1;
        }
    }
    match covered {
        covered if covered >= u32::from(SLOTS) => Ok((servers, cluster)),
        covered => Err(format!(
            "{}: only {covered} of the cluster's {SLOTS} slots have a server",
            asked.site.name
        )),
    }
}
