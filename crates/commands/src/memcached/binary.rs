//! The binary protocol's opcodes: a literal row for each, and their handlers.

use super::arguments::{When, gives_versions, timestamp};
use super::{Context, Error, VERSION, control, must_log_in, operation, statistics, stats, watch};
use crate::runtime::admission;
use crate::runtime::gate::{self, Verdict};
use crate::runtime::key_costs::{self, Named};
use crate::runtime::rights;
use crate::runtime::shown;
use crate::{Access, HookFlags, Keys, Marks};
use nagi_proto::memcached::binary::{self, Frame, Head};
use nagi_store::types::counter::Arithmetic;
use nagi_store::types::string::Expiry;
use nagi_store::types::versioned::{Count, Counted, Fetch, Mode, Removal, Write, Written};
use nagi_store::{Intent, Key, StringValue, Wait};

/// An opcode's row.
#[derive(Debug)]
pub struct Opcode {
    /// Its number.
    pub code: u8,
    /// Its name in memcached's `protocol_binary.h`.
    pub name: &'static str,
    /// The allowed lengths of its extras, in bytes.
    extras: &'static [usize],
    key: Part,
    value: Part,
    /// The case in which the reply is suppressed.
    quiet: Quiet,
    run: fn(&mut Context<'_>, &Call<'_, '_>) -> Result<(), Failure>,
}

/// Whether a request has a key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    None,
    Some,
    Any,
}

/// The case in which the reply is suppressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quiet {
    Never,
    /// If the request succeeds.
    Success,
    /// If the key does not exist.
    Miss,
}

/// A request that is being executed.
struct Call<'f, 'a> {
    frame: &'f Frame<'a>,
    quiet: Quiet,
    key: Key<'a>,
}

/// A reply's status other than success, and its text.
#[derive(PartialEq, Eq)]
struct Failure(u16, &'static str);

/// The opcodes that replace any value: `set` and `setq`.
const SETS: [u8; 2] = [0x01, 0x11];

const NOT_FOUND: Failure = Failure(0x01, "Not found");
const EXISTS: Failure = Failure(0x02, "Data exists for key.");
const TOO_LARGE: Failure = Failure(0x03, "Too large.");
const INVALID: Failure = Failure(0x04, "Invalid arguments");
const NOT_STORED: Failure = Failure(0x05, "Not stored.");
const NOT_A_NUMBER: Failure = Failure(0x06, "Non-numeric server-side value for incr or decr");
const AUTH_FAILED: Failure = Failure(0x20, "Auth failure.");
const NO_RIGHT: Failure = Failure(0x20, "Permission denied.");
const UNKNOWN: Failure = Failure(0x81, "Unknown command");
const OUT_OF_MEMORY: Failure = Failure(0x82, "Out of memory");
/// "Temporary failure" in memcached's list of statuses.
const NOT_NOW: u16 = 0x86;

const NO_EXTRAS: &[usize] = &[0];
/// Client flags and expiry.
const STORE_EXTRAS: &[usize] = &[8];
/// Delta, initial number and expiry.
const COUNT_EXTRAS: &[usize] = &[20];
const EXPIRY_EXTRAS: &[usize] = &[4];

macro_rules! opcodes {
    ($(
        $code:literal $name:literal $extras:ident $key:ident $value:ident $quiet:ident $run:expr,
    )+) => {
        /// Every opcode.
        pub static OPCODES: &[Opcode] = &[$(Opcode {
            code: $code,
            name: $name,
            extras: $extras,
            key: Part::$key,
            value: Part::$value,
            quiet: Quiet::$quiet,
            run: $run,
        },)+];
    };
}

const WITH_KEY: bool = true;
const WITHOUT_KEY: bool = false;

opcodes! {
    0x00 "get" NO_EXTRAS Some None Never |cx, call| get(cx, call, WITHOUT_KEY),
    0x01 "set" STORE_EXTRAS Some Any Never |cx, call| store(cx, call, Mode::Set),
    0x02 "add" STORE_EXTRAS Some Any Never |cx, call| store(cx, call, Mode::Add),
    0x03 "replace" STORE_EXTRAS Some Any Never |cx, call| store(cx, call, Mode::Replace),
    0x04 "delete" NO_EXTRAS Some None Never delete,
    0x05 "increment" COUNT_EXTRAS Some None Never |cx, call| count(cx, call, Arithmetic::Up),
    0x06 "decrement" COUNT_EXTRAS Some None Never |cx, call| count(cx, call, Arithmetic::Down),
    0x07 "quit" NO_EXTRAS None None Never quit,
    0x08 "flush" FLUSH_EXTRAS None None Never flush,
    0x09 "getq" NO_EXTRAS Some None Miss |cx, call| get(cx, call, WITHOUT_KEY),
    0x0a "noop" NO_EXTRAS None None Never noop,
    0x0b "version" NO_EXTRAS None None Never version,
    0x0c "getk" NO_EXTRAS Some None Never |cx, call| get(cx, call, WITH_KEY),
    0x0d "getkq" NO_EXTRAS Some None Miss |cx, call| get(cx, call, WITH_KEY),
    0x0e "append" NO_EXTRAS Some Any Never |cx, call| store(cx, call, Mode::Append),
    0x0f "prepend" NO_EXTRAS Some Any Never |cx, call| store(cx, call, Mode::Prepend),
    0x10 "stat" NO_EXTRAS Any None Never stat,
    0x11 "setq" STORE_EXTRAS Some Any Success |cx, call| store(cx, call, Mode::Set),
    0x12 "addq" STORE_EXTRAS Some Any Success |cx, call| store(cx, call, Mode::Add),
    0x13 "replaceq" STORE_EXTRAS Some Any Success |cx, call| store(cx, call, Mode::Replace),
    0x14 "deleteq" NO_EXTRAS Some None Success delete,
    0x15 "incrementq" COUNT_EXTRAS Some None Success |cx, call| count(cx, call, Arithmetic::Up),
    0x16 "decrementq" COUNT_EXTRAS Some None Success |cx, call| count(cx, call, Arithmetic::Down),
    0x17 "quitq" NO_EXTRAS None None Success quit,
    0x18 "flushq" FLUSH_EXTRAS None None Success flush,
    0x19 "appendq" NO_EXTRAS Some Any Success |cx, call| store(cx, call, Mode::Append),
    0x1a "prependq" NO_EXTRAS Some Any Success |cx, call| store(cx, call, Mode::Prepend),
    0x1c "touch" EXPIRY_EXTRAS Some None Never touch,
    0x1d "gat" EXPIRY_EXTRAS Some None Never |cx, call| get(cx, call, WITHOUT_KEY),
    0x1e "gatq" EXPIRY_EXTRAS Some None Miss |cx, call| get(cx, call, WITHOUT_KEY),
    0x20 "sasl_list_mechs" NO_EXTRAS None None Never mechanisms,
    0x21 "sasl_auth" NO_EXTRAS Some Any Never log_in,
    0x22 "sasl_step" NO_EXTRAS Some Any Never continue_login,
    0x23 "gatk" EXPIRY_EXTRAS Some None Never |cx, call| get(cx, call, WITH_KEY),
    0x24 "gatkq" EXPIRY_EXTRAS Some None Miss |cx, call| get(cx, call, WITH_KEY),
}

/// A flush may have a delay in its extras.
const FLUSH_EXTRAS: &[usize] = &[0, 4];

/// A request as MONITOR shows it: the name of its opcode, and its key and value, if any.
fn words_of<'a>(row: &'static Opcode, frame: &Frame<'a>) -> impl Iterator<Item = &'a [u8]> {
    let words = [row.name.as_bytes(), frame.key, frame.value];
    words.into_iter().filter(|word| !word.is_empty())
}

/// Whether an opcode is a login, whose value is secret.
fn is_login(row: &Opcode) -> bool {
    matches!(row.code, 0x20..=0x22)
}

/// The name of a request's opcode; empty if the opcode is unknown.
#[must_use]
pub fn name_of(frame: &Frame<'_>) -> &'static str {
    OPCODES.iter().find(|row| row.code == frame.opcode).map_or("", |row| row.name)
}

/// The arguments of a request in the slow log.
#[must_use]
pub fn kept_arguments(frame: &Frame<'_>) -> Vec<Vec<u8>> {
    let Some(row) = OPCODES.iter().find(|row| row.code == frame.opcode) else {
        return vec![format!("opcode {:#04x}", frame.opcode).into_bytes()];
    };
    match is_login(row) {
        true => vec![row.name.into(), shown::REDACTED.into()],
        false => words_of(row, frame).map(|word| shown::shorten(word, word.len())).collect(),
    }
}

/// Runs a request from lookup to reply.
pub fn execute<'a>(cx: &mut Context<'a>, frame: &Frame<'a>) {
    let row = OPCODES.iter().find(|row| row.code == frame.opcode);
    let reasons = cx.hooks.reasons();
    if reasons.intersects(HookFlags::MONITORED | HookFlags::KEY_COSTS)
        && let Some(row) = row
        && !is_login(row)
        && !must_log_in(cx)
    {
        return execute_observed(cx, row, frame, reasons);
    }
    execute_row(cx, row, frame);
}

/// Runs a request that monitors see, or whose cost is counted for its key.
#[cold]
fn execute_observed<'a>(
    cx: &mut Context<'a>,
    row: &'static Opcode,
    frame: &Frame<'a>,
    reasons: HookFlags,
) {
    let run = |cx: &mut Context<'a>| match reasons.contains(HookFlags::MONITORED) {
        true => execute_shown(cx, row, frame),
        false => execute_row(cx, Some(row), frame),
    };
    if !reasons.contains(HookFlags::KEY_COSTS) || keys(row.code).all_groups().is_empty() {
        return run(cx);
    }
    let bytes = binary::HEADER_BYTES + frame.extras.len() + frame.key.len() + frame.value.len();
    key_costs::measure(Named::key(frame.key), bytes, cx, run);
}

/// Runs a request, and shows it to monitors.
fn execute_shown<'a>(cx: &mut Context<'a>, row: &'static Opcode, frame: &Frame<'a>) {
    let hooks = cx.hooks;
    let _order = hooks.monitors.order();
    let mut words = String::new();
    for word in words_of(row, frame) {
        words.push(' ');
        shown::quote(word, &mut words);
    }
    execute_row(cx, Some(row), frame);
    shown::show(cx.server, cx.client, &words);
}

fn execute_row<'a>(cx: &mut Context<'a>, row: Option<&Opcode>, frame: &Frame<'a>) {
    let done = match row {
        _ if must_log_in_for(cx, frame.opcode) => Err(AUTH_FAILED),
        None => Err(UNKNOWN),
        Some(row) => run(cx, row, frame),
    };
    if let Err(failure) = done {
        // Opcodes that return the key with a hit also return it with a miss.
        let is_miss = failure.0 == NOT_FOUND.0 && matches!(frame.opcode, 0x0c | 0x23);
        refuse(cx, frame, &failure, if is_miss { frame.key } else { b"" });
    }
}

/// Whether the client must log in before it may send such a request, well-formed or not. If so, the
/// connection is closed after the reply, as by memcached.
fn must_log_in_for(cx: &mut Context<'_>, opcode: u8) -> bool {
    let precedes_login = matches!(opcode, 0x0b | 0x20..=0x22);
    let must_log_in = !precedes_login && must_log_in(cx);
    cx.client.closing |= must_log_in;
    cx.client.was_rejected |= must_log_in;
    must_log_in
}

/// Whether a request must wait before it runs, since its key is claimed, or any for a request on
/// whole databases; the client's waker is called when it can be tried again.
#[must_use]
pub fn meets_claim(cx: &Context<'_>, frame: &Frame<'_>) -> Option<Wait> {
    if frame.key.is_empty() && cx.db.looks_for_claims() && keys(frame.opcode).is_whole() {
        return cx.db.store().meets_any_claim(&cx.client.waker);
    }
    key_meets_claim(cx, frame.key)
}

/// Whether a request for `key` must wait before it runs, since the key is claimed; the client's
/// waker is called when it can be tried again.
pub(super) fn key_meets_claim(cx: &Context<'_>, key: &[u8]) -> Option<Wait> {
    if key.is_empty() || !cx.db.looks_for_claims() {
        return None;
    }
    cx.db.store().meets_claim(std::iter::once(key), Intent::Write, &cx.client.waker)
}

/// Whether a request must wait for the current save, or for the end of a pause, before it runs; the
/// client's waker is called when it can be tried again.
#[must_use]
pub fn must_wait(cx: &mut Context<'_>, frame: &Frame<'_>) -> bool {
    let reasons = cx.hooks.reasons();
    if cx.client.info.marks().contains(Marks::WAITING) {
        cx.client.info.mark(Marks::WAITING, false);
    }
    const HOLDING: HookFlags = HookFlags::SAVING
        .union(HookFlags::PAUSED_WRITES)
        .union(HookFlags::PAUSED_ALL)
        .union(HookFlags::HELD_WRITES)
        .union(HookFlags::NOTIFIED);
    if !reasons.intersects(HOLDING) {
        gate::end_delay(cx.server.saves(), cx.client);
        return false;
    }
    matches!(gate::verdict(reasons, keys(frame.opcode), cx), Verdict::Wait)
}

static READ_KEY: Keys = Keys::one(Access::RO.union(Access::ACCESS));
static WRITTEN_KEY: Keys = Keys::one(Access::RW.union(Access::UPDATE));
/// A key whose value is returned and changed.
static UPDATED_KEY: Keys = Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE));

/// The access of an opcode to keys.
fn keys(opcode: u8) -> &'static Keys {
    match opcode {
        0x00 | 0x09 | 0x0c | 0x0d => &READ_KEY,
        0x07 | 0x0a | 0x0b | 0x10 | 0x17 | 0x20..=0x22 => &Keys::NONE,
        0x08 | 0x18 => &Keys::WHOLE,
        0x05 | 0x06 | 0x15 | 0x16 | 0x1d | 0x1e | 0x23 | 0x24 => &UPDATED_KEY,
        _ => &WRITTEN_KEY,
    }
}

/// The Redis command for which a user needs permission to use an opcode; empty if none is needed.
fn right(opcode: u8) -> &'static str {
    match opcode {
        0x00 | 0x09 | 0x0c | 0x0d => "get",
        0x1d | 0x1e | 0x23 | 0x24 => "getex",
        0x04 | 0x14 => "del",
        0x05 | 0x15 => "incrby",
        0x06 | 0x16 => "decrby",
        0x08 | 0x18 => "flushall",
        0x0e | 0x0f | 0x19 | 0x1a => "append",
        0x10 => "info",
        0x1c => "expire",
        0x07 | 0x0a | 0x0b | 0x17 | 0x20..=0x22 => "",
        _ => "set",
    }
}

/// Replies to a malformed request, whose lengths contradict each other or exceed a limit.
pub fn refuse_contradiction(cx: &mut Context<'_>, frame: &Frame<'_>, too_long: bool) {
    let failure = match too_long {
        true if must_log_in_for(cx, frame.opcode) => AUTH_FAILED,
        true => INVALID,
        false => UNKNOWN,
    };
    refuse(cx, frame, &failure, b"");
    cx.client.closing = true;
}

fn run<'a>(cx: &mut Context<'a>, row: &Opcode, frame: &Frame<'a>) -> Result<(), Failure> {
    let fits = |part: Part, there: bool| match part {
        Part::None => !there,
        Part::Some => there,
        Part::Any => true,
    };
    let has_value = !frame.value.is_empty() || frame.oversized;
    let well_formed = row.extras.contains(&frame.extras.len())
        && fits(row.key, !frame.key.is_empty())
        && fits(row.value, has_value);
    if !well_formed {
        cx.client.closing = true;
        return Err(INVALID);
    }
    let has_key = !keys(row.code).all_groups().is_empty();
    let named = has_key.then_some(frame.key).into_iter();
    if !rights::may_run_verb(cx, right(row.code), keys(row.code), named) {
        cx.client.was_rejected = true;
        return Err(NO_RIGHT);
    }
    if let Some(line) = gate::refusal_of_verb(cx.hooks.reasons(), keys(row.code)) {
        return Err(Failure(NOT_NOW, line.trim_start_matches("SERVER_ERROR ")));
    }
    let key = cx.key(frame.key);
    if frame.oversized {
        forget(cx, row, key);
        return Err(TOO_LARGE);
    }
    cx.tally.verbs.calls.add(1);
    let done = (row.run)(cx, &Call { frame, quiet: row.quiet, key });
    if done == Err(OUT_OF_MEMORY) {
        forget(cx, row, key);
    }
    done
}

/// Removes the value that a refused request wanted to replace, and which is therefore outdated.
fn forget(cx: &Context<'_>, row: &Opcode, key: Key<'_>) {
    if SETS.contains(&row.code) {
        cx.db.delete(key);
    }
}

fn refuse(cx: &mut Context<'_>, frame: &Frame<'_>, failure: &Failure, key: &[u8]) {
    let Failure(status, words) = *failure;
    let head = Head { opcode: frame.opcode, status, opaque: frame.opaque, cas: 0 };
    let words = if key.is_empty() { words.as_bytes() } else { b"" };
    binary::write(cx.reply.output(), head, b"", key, words);
}

impl Call<'_, '_> {
    fn head(&self, cas: u64) -> Head {
        Head { opcode: self.frame.opcode, status: 0, opaque: self.frame.opaque, cas }
    }

    /// Replies with success, unless the opcode suppresses that.
    fn done(&self, cx: &mut Context<'_>, cas: Option<u64>, value: &[u8]) {
        if self.quiet != Quiet::Success {
            binary::write(cx.reply.output(), self.head(cas.unwrap_or(0)), b"", b"", value);
        }
    }

    fn expected(&self) -> Option<u64> {
        (self.frame.cas != 0).then_some(self.frame.cas)
    }

    /// Reads the number that begins at byte `at` of the extras.
    fn number<const BYTES: usize>(&self, at: usize) -> [u8; BYTES] {
        let bytes = self.frame.extras.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().unwrap_or([0; BYTES])
    }

    /// Reads the expiry that begins at byte `at` of the extras.
    fn expiry(&self, cx: &Context<'_>, at: usize) -> Expiry {
        let seconds = u32::from_be_bytes(self.number(at));
        match timestamp(seconds.into(), cx.db.now_ms()) {
            When::Never => Expiry::Never,
            When::At(at_ms) => Expiry::AtMs(at_ms),
        }
    }
}

/// Replies with a value, and changes its expiry if the extras have one.
fn get(cx: &mut Context<'_>, call: &Call<'_, '_>, with_key: bool) -> Result<(), Failure> {
    let touched = !call.frame.extras.is_empty();
    let expiry = if touched { call.expiry(cx, 0) } else { Expiry::Keep };
    let fetch = Fetch { expiry, versioned: gives_versions(cx), ..Fetch::default() };
    let key = if with_key { call.frame.key } else { b"" };
    let Context { db, reply, tally, hooks, .. } = cx;
    let (found, seen) = db.fetch(call.key, &fetch, |found| {
        match touched {
            true => statistics::count_touch(tally, found.is_some()),
            false => statistics::count_get(tally, found.is_some()),
        }
        let seen = watch::seen(hooks, found.as_ref().map(|found| &found.entry));
        let Some(found) = found else { return (false, seen) };
        let (entry, out) = (found.entry, reply.output());
        let (value, flags) = (found.value, entry.flags().to_be_bytes());
        let head = call.head(entry.cas().filter(|_| fetch.versioned).unwrap_or(0));
        binary::begin(out, head, &flags, key, value.len());
        match value {
            StringValue::Rope(rope) => out.splice(rope.share(), 0..rope.len()),
            value => value.with_bytes(|bytes| out.push(bytes)),
        }
        (true, seen)
    });
    watch::fetched(cx, call.key, seen);
    if found || call.quiet == Quiet::Miss { Ok(()) } else { Err(NOT_FOUND) }
}

fn touch(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    let versioned = gives_versions(cx);
    let fetch = Fetch { expiry: call.expiry(cx, 0), versioned, ..Fetch::default() };
    watch::looks_up(cx, call.key);
    let Context { db, reply, tally, .. } = cx;
    db.fetch(call.key, &fetch, |found| {
        statistics::count_touch(tally, found.is_some());
        let found = found.ok_or(NOT_FOUND)?;
        let head = call.head(found.entry.cas().filter(|_| versioned).unwrap_or(0));
        binary::write(reply.output(), head, &found.entry.flags().to_be_bytes(), b"", b"");
        Ok(())
    })
}

fn store(cx: &mut Context<'_>, call: &Call<'_, '_>, mode: Mode) -> Result<(), Failure> {
    let adds = matches!(mode, Mode::Append | Mode::Prepend);
    let expected = call.expected();
    // If a version is expected, it is the only condition.
    let mode = if expected.is_some() && !adds { Mode::Set } else { mode };
    let write = Write {
        mode,
        value: call.frame.value.into(),
        flags: u32::from_be_bytes(call.number(0)),
        expiry: if adds { Expiry::Keep } else { call.expiry(cx, 4) },
        expected,
        allow_older: false,
        vivify: None,
        version: None,
        versioned: call.quiet != Quiet::Success && gives_versions(cx),
        limit_bytes: cx.server.config().memcached_item_limit.bytes(),
    };
    let written = operation::store(cx, call.key, write).map_err(|_: Error| OUT_OF_MEMORY)?;
    match written {
        Written::Done { cas, .. } => {
            call.done(cx, cas, b"");
            Ok(())
        }
        Written::Changed => Err(EXISTS),
        Written::Missing => Err(NOT_FOUND),
        Written::TooLong => Err(NOT_STORED),
        Written::Refused => Err(match mode {
            Mode::Add => EXISTS,
            Mode::Append | Mode::Prepend => NOT_STORED,
            Mode::Set | Mode::Replace => NOT_FOUND,
        }),
    }
}

fn delete(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    let removal = Removal {
        expected: call.expected(),
        invalidate: false,
        clear: None,
        expiry: Expiry::Keep,
        version: None,
    };
    match operation::remove(cx, call.key, &removal) {
        Written::Done { .. } => {
            call.done(cx, None, b"");
            Ok(())
        }
        Written::Missing => Err(NOT_FOUND),
        _ => Err(EXISTS),
    }
}

fn count(
    cx: &mut Context<'_>,
    call: &Call<'_, '_>,
    direction: fn(u64) -> Arithmetic,
) -> Result<(), Failure> {
    /// With this expiry, a missing counter is not created.
    const NO_INITIAL: u32 = u32::MAX;
    let initial = u64::from_be_bytes(call.number(8));
    let wanted = u32::from_be_bytes(call.number(16)) != NO_INITIAL;
    let count = Count {
        step: direction(u64::from_be_bytes(call.number(0))),
        expected: call.expected(),
        expiry: Expiry::Keep,
        initial: wanted.then(|| (initial, call.expiry(cx, 16))),
        version: None,
        versioned: call.quiet != Quiet::Success && gives_versions(cx),
    };
    let counted = operation::count(cx, call.key, &count).map_err(|error| match error {
        Error::OUT_OF_MEMORY => OUT_OF_MEMORY,
        _ => NOT_A_NUMBER,
    })?;
    match counted {
        Counted::At { number, cas, .. } => {
            call.done(cx, cas, &number.to_be_bytes());
            Ok(())
        }
        Counted::Changed => Err(EXISTS),
        Counted::Missing => Err(NOT_FOUND),
    }
}

fn noop(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    call.done(cx, None, b"");
    Ok(())
}

fn version(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    call.done(cx, None, VERSION.as_bytes());
    Ok(())
}

fn quit(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    call.done(cx, None, b"");
    cx.client.quit();
    Ok(())
}

fn flush(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    if !cx.server.config().memcached_flush_all.is_on() {
        return Err(AUTH_FAILED);
    }
    let seconds = u32::from_be_bytes(call.number(0));
    control::flush(cx, timestamp(seconds.into(), cx.db.now_ms()));
    call.done(cx, None, b"");
    Ok(())
}

fn stat(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    let fields = match call.frame.key {
        b"" => stats::fields(cx, None),
        b"reset" => {
            control::need_right(cx, "config|resetstat").map_err(|_: Error| NO_RIGHT)?;
            control::reset(cx);
            Some(Vec::new())
        }
        b"detail on" | b"detail off" => Some(Vec::new()),
        b"detail dump" => Some(vec![("detailed".to_owned(), "END\r\n".to_owned())]),
        group => stats::fields(cx, Some(group)),
    };
    for (name, value) in fields.ok_or(NOT_FOUND)? {
        binary::write(cx.reply.output(), call.head(0), b"", name.as_bytes(), value.as_bytes());
    }
    call.done(cx, None, b"");
    Ok(())
}

/// Replies with the login mechanisms; the opcode is unknown if no login is required.
fn mechanisms(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    if !admission::is_memcached_login_required(cx.server.config()) {
        return Err(UNKNOWN);
    }
    call.done(cx, None, b"PLAIN");
    Ok(())
}

/// Begins a login, whatever the state of an earlier one; the opcode is unknown if no login is
/// required.
fn begin_login(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    /// Longest name of a mechanism that memcached reads.
    const MECHANISM_BYTES: usize = 32;
    let config = cx.server.config();
    if !admission::is_memcached_login_required(config) {
        return Err(UNKNOWN);
    }
    if call.frame.key.len() > MECHANISM_BYTES {
        return Err(INVALID);
    }
    cx.tally.verbs.logins.add(1);
    admission::log_out_of_memcached(cx.client, config);
    Ok(())
}

/// Checks a login with SASL PLAIN (RFC 4616): an identity, which is ignored, a user and a password,
/// with a zero byte before the user and before the password.
fn log_in(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    begin_login(cx, call)?;
    let config = cx.server.config();
    let mut parts = call.frame.value.splitn(3, |byte| *byte == 0);
    let (_, user, password) = (parts.next(), parts.next(), parts.next());
    let login = user.zip(password).filter(|_| call.frame.key == b"PLAIN");
    let is_login = |(user, password)| {
        let is_login = admission::log_in_to_memcached(cx.client, config, user, password);
        if !is_login {
            rights::note_failed_login(cx, b"sasl_auth", user);
        }
        is_login
    };
    if !login.is_some_and(is_login) {
        cx.tally.verbs.failed_logins.add(1);
        return Err(AUTH_FAILED);
    }
    call.done(cx, None, b"Authenticated");
    Ok(())
}

/// Refuses to continue a login: PLAIN needs only one message.
fn continue_login(cx: &mut Context<'_>, call: &Call<'_, '_>) -> Result<(), Failure> {
    begin_login(cx, call)?;
    cx.tally.verbs.failed_logins.add(1);
    Err(AUTH_FAILED)
}
