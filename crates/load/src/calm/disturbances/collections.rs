//! Disturbances with huge collections, one of each type: deleted, read, expired.

use nagi_client::encode_command;

use super::super::context::{SMALL_KEY_BYTES, StepContext};
use super::super::probe::PREFIX;
use super::super::scale::Scale;
use super::super::server::Server;
use super::row::{Disturbance, needs_resp};

/// Elements in one command, and commands sent before waiting for their answers.
const ELEMENTS: u64 = 100;

/// The types, with the command that adds elements.
const TYPES: [(&str, &str); 4] =
    [("hash", "HSET"), ("set", "SADD"), ("list", "RPUSH"), ("sorted-set", "ZADD")];

const fn row(
    name: &'static str,
    what: &'static str,
    act: fn(&mut StepContext<'_>) -> Result<(), String>,
    repeats: bool,
) -> Disturbance {
    Disturbance {
        name,
        what,
        needs_bytes: |scale| TYPES.len() as u64 * scale.elements * SMALL_KEY_BYTES,
        danger: None,
        can: can_hold,
        prepare: build,
        act,
        repeats,
    }
}

pub(super) const ALL: &[Disturbance] = &[
    row("read-collections", "HGETALL, SMEMBERS, LRANGE and ZRANGE of all elements", read, true),
    row("delete-collections", "DEL of a huge hash, set, list and sorted set", delete, false),
    row("expire-collections", "a huge hash, set, list and sorted set expire", expire, false),
];

fn can_hold(server: &Server, _: &Scale) -> Result<(), String> {
    needs_resp(server, "collections")?;
    TYPES.iter().try_for_each(|(_, command)| server.require_command(command))
}

fn build(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut wire = context.server.connect()?;
    for (name, command) in TYPES {
        let key = format!("{PREFIX}{name}");
        let mut next = 0;
        while next < context.scale.elements {
            let end = context.scale.elements.min(next + ELEMENTS);
            let mut words = vec![command.to_owned(), key.clone()];
            for number in next..end {
                match name {
                    "hash" => words.extend([format!("field:{number}"), format!("value:{number}")]),
                    "sorted-set" => words.extend([number.to_string(), format!("member:{number}")]),
                    _ => words.push(format!("element:{number}")),
                }
            }
            let bytes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let mut request = Vec::new();
            encode_command(&bytes, &mut request);
            wire.send(&request)?;
            wire.answer()?.or_error(command)?;
            next = end;
        }
    }
    Ok(())
}

fn read(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut wire = context.patient()?;
    for command in [
        format!("HGETALL {PREFIX}hash"),
        format!("SMEMBERS {PREFIX}set"),
        format!("LRANGE {PREFIX}list 0 -1"),
        format!("ZRANGE {PREFIX}sorted-set 0 -1"),
    ] {
        wire.run(&command)?;
    }
    Ok(())
}

fn delete(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut wire = context.server.connect()?;
    TYPES.iter().try_for_each(|(name, _)| wire.run(&format!("DEL {PREFIX}{name}")).map(drop))
}

fn expire(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut wire = context.server.connect()?;
    for (name, _) in TYPES {
        wire.run(&format!("PEXPIRE {PREFIX}{name} 100"))?;
    }
    let keys: String = TYPES.iter().map(|(name, _)| format!(" {PREFIX}{name}")).collect();
    let interrupt = &context.server.interrupt;
    interrupt.sleep_until(crate::clock::now_ns() + crate::clock::SECOND / 5)?;
    // Accessing the keys makes the server remove them if they have expired.
    wire.run(&format!("EXISTS{keys}")).map(drop)
}
