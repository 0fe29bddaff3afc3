//! Disturbances with large values, which are written and read.

use nagi_client::Protocol;

use super::super::context::StepContext;
use super::super::probe::PREFIX;
use super::super::scale::Scale;
use super::super::server::Server;
use super::row::{Disturbance, nothing};
use crate::wire::{Answer, Wire};

/// Bytes sent at once.
const PIECE_BYTES: u64 = 1 << 16;

/// The row of the size at `INDEX` of [`Scale::value_bytes`].
const fn row<const INDEX: usize>(name: &'static str, what: &'static str) -> Disturbance {
    Disturbance {
        name,
        what,
        // The server may hold the request, the value and the reply at the same time.
        needs_bytes: |scale| 3 * size::<INDEX>(scale),
        danger: None,
        can: |server, scale| can_hold(server, size::<INDEX>(scale)),
        prepare: nothing,
        act: |context| load_and_read(context, size::<INDEX>(context.scale)),
        repeats: true,
    }
}

pub(super) const ALL: &[Disturbance] = &[
    row::<0>("value", "values of 1.5 MB are written and read"),
    row::<1>("large-value", "values of 100 MB are written and read"),
    row::<2>("huge-value", "values of 500 MB are written and read"),
];

fn size<const INDEX: usize>(scale: &Scale) -> u64 {
    scale.value_bytes.get(INDEX).copied().unwrap_or_default()
}

fn can_hold(server: &Server, bytes: u64) -> Result<(), String> {
    if server.target.protocol == Protocol::Resp {
        return Ok(());
    }
    let stats = server.stats(&mut server.connect()?, "settings")?;
    let most = stats.get("item_size_max").and_then(|most| most.parse::<u64>().ok());
    match most {
        Some(most) if most < bytes + 1024 => {
            Err(format!("its items have at most {:.1} MB (memcached's -I)", most as f64 / 1e6))
        }
        _ => Ok(()),
    }
}

fn load_and_read(context: &mut StepContext<'_>, bytes: u64) -> Result<(), String> {
    let mut wire = context.patient()?;
    let key = format!("{PREFIX}value");
    let head = match wire.protocol {
        Protocol::Resp => format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n", key.len()),
        Protocol::Memcached => format!("set {key} 0 0 {bytes}\r\n"),
    };
    context.server.written.value();
    wire.send(head.as_bytes())?;
    let piece = [b'x'; PIECE_BYTES as usize];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(PIECE_BYTES);
        wire.send(piece.get(..part as usize).unwrap_or_default())?;
        left -= part;
    }
    wire.send(b"\r\n")?;
    context.stored(&mut wire)?;
    let read = read(&mut wire, &key)?;
    if read == bytes {
        Ok(())
    } else {
        Err(format!("a value of {bytes} bytes came back as {read}"))
    }
}

/// Returns the length of a key's value, determined by reading the value.
fn read(wire: &mut Wire, key: &str) -> Result<u64, String> {
    if wire.protocol == Protocol::Resp {
        return match wire.run(&format!("GET {key}"))? {
            Answer::Text(_, len) => Ok(len),
            _ => Ok(0),
        };
    }
    wire.send(format!("get {key}\r\n").as_bytes())?;
    let line = wire.line()?;
    let len = line.strip_prefix("VALUE ").and_then(|rest| rest.rsplit(' ').next()?.parse().ok());
    let Some(len) = len else { return Ok(0) };
    wire.content(len)?;
    wire.line()?;
    Ok(len)
}
