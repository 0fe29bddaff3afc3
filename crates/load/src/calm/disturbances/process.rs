//! Disturbances of the whole server: a save, a long script.

use super::super::context::{SMALL_KEY_BYTES, StepContext};
use super::super::scale::Scale;
use super::super::server::Server;
use super::row::{Disturbance, needs_resp, nothing};
use crate::clock::{SECOND, now_ns};

/// Time between two polls of a save.
const POLL_NS: u64 = SECOND / 20;

/// How long a save may take.
const SAVE_NS: u64 = 600 * SECOND;

/// A script that runs for a second. Some versions of Redis have no `os.clock`; in others, TIME
/// stands still during a script.
const BUSY_SCRIPT: &str = r"
    local has_clock, clock = pcall(function() return os.clock end)
    if not has_clock then
        clock = function()
            local now = redis.call('TIME')
            return now[1] + now[2] / 1000000
        end
    end
    local from = clock()
    while clock() - from < 1 do end
    return 1";

pub(super) const ALL: &[Disturbance] = &[
    Disturbance {
        name: "bgsave",
        what: "BGSAVE of a million keys",
        needs_bytes: |scale| 2 * scale.keys * SMALL_KEY_BYTES,
        danger: Some("BGSAVE overwrites the server's dump"),
        can: can_save,
        prepare: |context| context.fill(0..context.scale.keys, 100),
        act: save,
        repeats: false,
    },
    Disturbance {
        name: "script",
        what: "a script that runs for a second",
        needs_bytes: |_| 0,
        danger: None,
        can: can_run_scripts,
        prepare: nothing,
        act: run_script,
        repeats: false,
    },
];

fn can_save(server: &Server, _: &Scale) -> Result<(), String> {
    needs_resp(server, "BGSAVE")?;
    server.require_command("BGSAVE a-word-too-many")?;
    let info = server.info(&mut server.connect()?, "persistence")?;
    match info.contains_key("rdb_bgsave_in_progress") {
        true => Ok(()),
        false => Err("INFO does not say when a save has ended".to_owned()),
    }
}

fn save(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut wire = context.server.connect()?;
    wire.run("BGSAVE")?;
    let give_up_ns = now_ns() + SAVE_NS;
    loop {
        context.server.interrupt.sleep_until(now_ns() + POLL_NS)?;
        let info = context.server.info(&mut wire, "persistence")?;
        let is = |name: &str| info.get(name).map(String::as_str).unwrap_or_default();
        if is("rdb_bgsave_in_progress") == "0" {
            let status = is("rdb_last_bgsave_status");
            return if status == "ok" { Ok(()) } else { Err(format!("BGSAVE ended: {status}")) };
        }
        if now_ns() > give_up_ns {
            return Err("BGSAVE took longer than ten minutes".to_owned());
        }
    }
}

fn can_run_scripts(server: &Server, _: &Scale) -> Result<(), String> {
    needs_resp(server, "EVAL")?;
    server.require_command("EVAL")
}

fn run_script(context: &mut StepContext<'_>) -> Result<(), String> {
    let words: [&[u8]; 3] = [b"EVAL", BUSY_SCRIPT.as_bytes(), b"0"];
    context.server.connect()?.command(&words)?.or_error("EVAL").map(drop)
}
