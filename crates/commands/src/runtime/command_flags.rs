//! The flags that apply to a request. They are the flags of its command, except for requests that
//! run other commands: EXEC adds the flags of its queued requests, and a script may declare that it
//! only reads, or that it may run without free memory.

use crate::registry::command::Flags;
use crate::runtime::context::{Context, Entry};
use nagi_proto::Args;
use nagi_script::{Digest, ScriptFlags, Source};

/// The flags of a request.
pub(crate) fn of(entry: &Entry, cx: &Context<'_>, args: Args<'_>) -> Flags {
    let flags = entry.command.flags;
    if flags.contains(Flags::RUNS_QUEUED)
        && let Some(queued) = &cx.client.transaction
    {
        let added = queued.flags() & (Flags::WRITE | Flags::DENYOOM | Flags::PAUSED_AS_WRITE);
        return (flags | added).difference(queued.lacking() & Flags::LOADING);
    }
    if !flags.contains(Flags::RUNS_SCRIPTS) {
        return flags;
    }
    declared(entry, cx, args).map_or(flags, |script| of_script(flags, script))
}

/// The flags that the script or function of a request has declared; `None` if it declares none or
/// is unknown.
#[cold]
fn declared(entry: &Entry, cx: &Context<'_>, args: Args<'_>) -> Option<ScriptFlags> {
    let word = args.get(1)?;
    let scripts = cx.server.scripts();
    let flags = match entry.command.name {
        "EVAL" | "EVAL_RO" => Source::parse(word).ok()?.flags,
        "EVALSHA" | "EVALSHA_RO" => scripts.flags_of(&Digest::parse(word)?)?,
        "FCALL" | "FCALL_RO" => scripts.library_of(word)?.flags_of(word)?,
        _ => return None,
    };
    (!flags.contains(ScriptFlags::UNDECLARED)).then_some(flags)
}

/// A script's declared flags replace its command's general flags for scripts.
fn of_script(command: Flags, script: ScriptFlags) -> Flags {
    let general = Flags::STALE | Flags::DENYOOM | Flags::WRITE | Flags::PAUSED_AS_WRITE;
    let mut flags = command.difference(general);
    flags.set(Flags::WRITE, !script.contains(ScriptFlags::NO_WRITES));
    let needs_no_memory = ScriptFlags::ALLOW_OOM | ScriptFlags::NO_WRITES;
    flags.set(Flags::DENYOOM, !script.intersects(needs_no_memory));
    flags.set(Flags::STALE, script.contains(ScriptFlags::ALLOW_STALE));
    flags
}
