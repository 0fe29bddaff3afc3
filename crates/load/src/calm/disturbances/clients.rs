//! Disturbances with additional clients: many connections at once, new connections continuously,
//! and a client that does not read.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nagi_client::Protocol;
use rustix::net::{SendFlags, send, sockopt};

use super::super::context::StepContext;
use super::super::probe::PREFIX;
use super::super::scale::Scale;
use super::super::server::Server;
use super::row::{Disturbance, anything, nothing};
use crate::clock::{SECOND, now_ns};
use crate::wire::Answer;

/// File descriptors that the tool needs for other purposes.
const SPARE: u64 = 200;

/// Bytes of the value that a slow reader requests repeatedly.
const VALUE_BYTES: u64 = 500_000;

/// How long the opening of a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Bytes that a slow reader receives at once, and the interval between two receives.
const READ_BYTES: usize = 16 * 1024;
const READ_INTERVAL_NS: u64 = SECOND / 10;

const STORM: Option<&str> = Some("a storm of connections may lock out other clients");

pub(super) const ALL: &[Disturbance] = &[
    Disturbance {
        name: "connect-at-once",
        what: "5,000 clients connect at once",
        needs_bytes: |scale| scale.connections * 64 * 1024,
        danger: STORM,
        can: |server, scale| can_connect(server, scale.connections),
        prepare: |context| allow_clients(context, context.scale.connections),
        act: connect_at_once,
        repeats: false,
    },
    Disturbance {
        name: "connect-steadily",
        what: "1,000 clients a second connect, ask and leave",
        needs_bytes: |_| 0,
        danger: STORM,
        can: |server, _| can_connect(server, 100),
        prepare: nothing,
        act: connect_steadily,
        repeats: false,
    },
    Disturbance {
        name: "slow-reader",
        what: "a client asks for 200 MB and hardly reads",
        needs_bytes: |scale| 2 * scale.unread_bytes,
        danger: None,
        can: anything,
        prepare: store_value,
        act: read_slowly,
        repeats: false,
    },
];

/// Returns the server's limit of connections, if it reports one.
fn max_clients(server: &Server) -> Result<Option<u64>, String> {
    let mut wire = server.connect()?;
    if server.target.protocol == Protocol::Memcached {
        let stats = server.stats(&mut wire, "settings")?;
        return Ok(stats.get("maxconns").and_then(|most| most.parse().ok()));
    }
    match wire.command(&[b"CONFIG", b"GET", b"maxclients"])? {
        Answer::Array(pair) => Ok(pair.get(1).and_then(|most| most.text().parse().ok())),
        _ => Ok(None),
    }
}

fn can_connect(server: &Server, connections: u64) -> Result<(), String> {
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if own.maximum.is_some_and(|most| most < connections + SPARE) {
        return Err(format!("this process may open only {} files", own.maximum.unwrap_or(0)));
    }
    let most = max_clients(server)?;
    match (server.target.protocol, most) {
        (Protocol::Memcached, Some(most)) if most < connections + SPARE => {
            Err(format!("it takes {most} connections (memcached's -c)"))
        }
        _ => Ok(()),
    }
}

fn allow_clients(context: &mut StepContext<'_>, connections: u64) -> Result<(), String> {
    let needed = connections + SPARE;
    let mut own = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if own.current.is_some_and(|now| now < needed) {
        own.current = Some(needed);
        rustix::process::setrlimit(rustix::process::Resource::Nofile, own)
            .map_err(|errno| format!("{needed} open files: {errno}"))?;
    }
    match max_clients(context.server)? {
        Some(most) if most < needed && context.speaks(Protocol::Resp) => {
            context.settings.set("maxclients", &needed.to_string())
        }
        _ => Ok(()),
    }
}

/// Opens a connection that closes with a reset, so that its port is free again at once, and sends a
/// small request.
fn connect(context: &StepContext<'_>) -> Result<OwnedFd, String> {
    let target = &context.server.target;
    let socket = target.address.connect_within(CONNECT).map_err(|error| error.to_string())?;
    sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).map_err(|errno| errno.to_string())?;
    let request: &[u8] = match target.protocol {
        Protocol::Resp => b"PING\r\n",
        Protocol::Memcached => b"version\r\n",
    };
    send(&socket, request, SendFlags::NOSIGNAL).map_err(|errno| errno.to_string())?;
    Ok(socket)
}

fn connect_at_once(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut open = Vec::new();
    for _ in 0..context.scale.connections {
        context.server.interrupt.check()?;
        open.push(connect(context)?);
    }
    context.server.interrupt.sleep_until(now_ns() + SECOND / 2)
}

fn connect_steadily(context: &mut StepContext<'_>) -> Result<(), String> {
    let Scale { connections_per_second, storm_seconds, .. } = *context.scale;
    let start_ns = now_ns();
    let mut answer = [0; 256];
    for number in 0..connections_per_second * storm_seconds {
        context
            .server
            .interrupt
            .sleep_until(start_ns + number * SECOND / connections_per_second)?;
        let socket = connect(context)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(CONNECT))
            .and_then(|()| {
                rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty())
            })
            .map_err(|errno| format!("a new client was not answered: {errno}"))?;
    }
    Ok(())
}

fn store_value(context: &mut StepContext<'_>) -> Result<(), String> {
    context.fill(0..1, VALUE_BYTES as usize)
}

fn read_slowly(context: &mut StepContext<'_>) -> Result<(), String> {
    let wire = context.server.connect()?;
    let request = match wire.protocol {
        Protocol::Resp => format!("GET {PREFIX}key:0\r\n"),
        Protocol::Memcached => format!("get {PREFIX}key:0\r\n"),
    };
    let requests = request.repeat((context.scale.unread_bytes / VALUE_BYTES).max(1) as usize);
    let mut unsent = requests.as_bytes();
    let mut buffer = [0; READ_BYTES];
    let end_ns = now_ns() + (context.scale.step_seconds * SECOND as f64) as u64;
    sockopt::set_socket_linger(&wire, Some(Duration::ZERO)).map_err(|errno| errno.to_string())?;
    while now_ns() < end_ns {
        if let Ok(sent) = send(&wire, unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            unsent = unsent.get(sent..).unwrap_or_default();
        }
        let flags = rustix::net::RecvFlags::DONTWAIT;
        if matches!(rustix::net::recv(&wire, &mut buffer[..], flags), Ok((_, 0))) {
            // The server may close the connection of a slow reader, which is a valid result.
            return context.server.interrupt.sleep_until(end_ns);
        }
        context.server.interrupt.sleep_until(now_ns() + READ_INTERVAL_NS)?;
    }
    Ok(())
}
