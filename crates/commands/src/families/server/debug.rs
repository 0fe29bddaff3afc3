//! DEBUG: operations for Redis' own tests, if `enable-debug-command` permits them.

use crate::config::rewrite::{Added, rewrite};
use crate::families::server::digest;
use crate::families::server::persistence::check_file;
use crate::runtime::admission;
use crate::runtime::arguments::{integer, is};
use crate::runtime::blocking::alarm;
use crate::runtime::suspension::Slice;
use crate::state::libraries::Libraries;
use crate::state::saves::{Order, Ticket};
use crate::{Category, Command, Context, Error, Flags, Group, HookFlags, JobProgress, Keys, Notes};
use nagi_persist::payload::Dump;
use nagi_proto::Args;
use nagi_proto::resp::Version;
use nagi_store::Scope;
use nagi_store::types::string::SetOptions;
use std::ops::RangeInclusive;
use std::time::Instant;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&DEBUG];

/// An operation of DEBUG. It is not a subcommand, since statistics only count DEBUG.
struct Operation {
    name: &'static str,
    syntax: &'static str,
    /// The range of the number of words in a request, including both names.
    words: RangeInclusive<usize>,
    summary: &'static str,
    run: crate::Handler,
}

static OPERATIONS: &[&Operation] = &[
    &CONFIG_REWRITE_FORCE_ALL,
    &DIGEST,
    &DIGEST_VALUE,
    &ERROR,
    &HELP,
    &OBJECT,
    &PAUSE_CRON,
    &POPULATE,
    &PROTOCOL,
    &QUICKLIST_PACKED_THRESHOLD,
    &RELOAD,
    &RELOCATE,
    &REPLYBUFFER,
    &SET_ACTIVE_EXPIRE,
    &SET_DISABLE_DENY_SCRIPTS,
    &SET_SKIP_CHECKSUM_VALIDATION,
    &SLEEP,
];

const REFUSED: Error = Error::fixed(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
     can run it from a local connection, otherwise you need to set this option in the \
     configuration file, and then restart the server.",
);

fn debug<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !admission::is_permitted(&cx.server.config().enable_debug_command, cx.client) {
        return Err(REFUSED);
    }
    let word = args.at(1);
    let found = OPERATIONS.iter().find(|it| is(word, it.name) && it.words.contains(&args.len()));
    let operation = found.ok_or_else(|| Error::unknown_form("DEBUG", word))?;
    (operation.run)(cx, args)
}

pub(crate) static DEBUG: Command = Command {
    name: "DEBUG",
    syntax: "subcommand [arg [arg ...]]",
    arity: -2,
    flags: Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("Depends on the subcommand").internal(),
    summary: "Runs functions for tests, if enable-debug-command allows it",
    subcommands: &[],
    run: debug,
};

fn sleep<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let seconds: f64 = String::from_utf8_lossy(args.at(2)).parse().unwrap_or(0.0);
    let wait_ms = (seconds * 1000.0).ceil() as u64;
    // The clock of a transaction or a script is frozen, and a part of the current millisecond has
    // passed.
    let until_ms = cx.db.store().now_ms().saturating_add(wait_ms).saturating_add(1);
    let alarm = (wait_ms > 0).then(|| alarm(cx, until_ms));
    let began = Instant::now();
    cx.start(Box::new(move |cx| {
        if let Some(alarm) = &alarm {
            if !alarm.was_made() {
                return Ok(JobProgress::WOKEN);
            }
            cx.client.worked_elsewhere += began.elapsed();
        }
        cx.reply.ok();
        Ok(JobProgress::Done)
    }))
}

static SLEEP: Operation = Operation {
    name: "SLEEP",
    syntax: "seconds",
    words: 3..=3,
    summary: "Replies only after that time, as if it had worked; no other client waits",
    run: sleep,
};

fn set_active_expire<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.hooks.expire_actively(args.at(2) != b"0");
    cx.reply.ok();
    Ok(())
}

fn relocate<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.hooks.relocate(args.at(2) != b"0");
    cx.reply.ok();
    Ok(())
}

static RELOCATE: Operation = Operation {
    name: "RELOCATE",
    syntax: "<0 | 1>",
    words: 3..=3,
    summary: "Chooses whether each connection moves to the next worker whenever it sends something",
    run: relocate,
};

static SET_ACTIVE_EXPIRE: Operation = Operation {
    name: "SET-ACTIVE-EXPIRE",
    syntax: "<0 | 1>",
    words: 3..=3,
    summary: "Turns the search for expired keys on or off",
    run: set_active_expire,
};

fn set_disable_deny_scripts<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.hooks.set_scripts_may_debug(args.at(2) != b"0");
    cx.reply.ok();
    Ok(())
}

static SET_DISABLE_DENY_SCRIPTS: Operation = Operation {
    name: "SET-DISABLE-DENY-SCRIPTS",
    syntax: "<0 | 1>",
    words: 3..=3,
    summary: "Chooses whether scripts may call DEBUG and CLIENT",
    run: set_disable_deny_scripts,
};

fn set_skip_checksum_validation<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.hooks.set_skips_checksums(args.at(2) != b"0");
    cx.reply.ok();
    Ok(())
}

static SET_SKIP_CHECKSUM_VALIDATION: Operation = Operation {
    name: "SET-SKIP-CHECKSUM-VALIDATION",
    syntax: "<0 | 1>",
    words: 3..=3,
    summary: "Chooses whether RESTORE takes payloads whose checksums are wrong",
    run: set_skip_checksum_validation,
};

static QUICKLIST_PACKED_THRESHOLD: Operation = Operation {
    name: "QUICKLIST-PACKED-THRESHOLD",
    syntax: "<bytes>",
    words: 3..=3,
    summary: "Has no effect: elements of lists are stored alike, whatever their lengths",
    run: accept,
};

static REPLYBUFFER: Operation = Operation {
    name: "REPLYBUFFER",
    syntax: "<PEAK-RESET-TIME <milliseconds | NEVER | RESET> | RESIZING <0 | 1>>",
    words: 4..=4,
    summary: "Has no effect: no memory is kept for a client's replies",
    run: accept,
};

fn accept<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.ok();
    Ok(())
}

static PAUSE_CRON: Operation = Operation {
    name: "PAUSE-CRON",
    syntax: "<0 | 1>",
    words: 3..=3,
    summary: "Has no effect: there is no timer that does what Redis' does",
    run: accept,
};

fn object<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    // Expired keys that have not been removed are shown as well.
    let db = cx.db.untouched().unnoticed().at(0);
    let key = cx.key(args.at(2));
    let compress = cx.server.config().rdbcompression.is_on();
    let found = db.get(key, |entry| {
        entry.map(|entry| {
            let dump = Dump::new(entry.value(), compress);
            (entry.key().as_ptr() as usize, entry.encoding_name(), dump)
        })
    });
    let (place, encoding, mut dump) = found.ok_or(Error::fixed("ERR no such key"))?;
    let idle_s = db.idle_ms(key).unwrap_or(0) / 1000;
    let used_at_s = (cx.db.now_ms() / 1000).saturating_sub(idle_s) & 0xff_ffff;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        loop {
            if let Some(payload) = dump.step() {
                let bytes = payload.len().saturating_sub(Dump::FRAME_BYTES);
                cx.reply.simple(&format!(
                    "Value at:{place:#x} refcount:1 encoding:{encoding} serializedlength:{bytes} \
                     lru:{used_at_s} lru_seconds_idle:{idle_s}"
                ));
                return Ok(JobProgress::Done);
            }
            if slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
    }))
}

static OBJECT: Operation = Operation {
    name: "OBJECT",
    syntax: "key",
    words: 3..=3,
    summary: "Shows the encoding of a value, and its length in a file",
    run: object,
};

fn config_rewrite_force_all<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    rewrite(cx.server.config(), Added::All)?;
    cx.reply.ok();
    Ok(())
}

static CONFIG_REWRITE_FORCE_ALL: Operation = Operation {
    name: "CONFIG-REWRITE-FORCE-ALL",
    syntax: "",
    words: 2..=2,
    summary: "Writes the file of the settings with a line for each, defaults included",
    run: config_rewrite_force_all,
};

static DIGEST: Operation = Operation {
    name: "DIGEST",
    syntax: "",
    words: 2..=2,
    summary: "Returns a digest of all data",
    run: digest::whole,
};

static DIGEST_VALUE: Operation = Operation {
    name: "DIGEST-VALUE",
    syntax: "key [key ...]",
    words: 2..=usize::MAX,
    summary: "Returns digests of values",
    run: digest::values,
};

fn error<'a>(_: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let text = String::from_utf8_lossy(args.at(2));
    // Line breaks would end the error reply.
    Err(Error::new(text.replace(['\r', '\n'], " ")))
}

static ERROR: Operation = Operation {
    name: "ERROR",
    syntax: "text",
    words: 3..=3,
    summary: "Answers with an error of this text",
    run: error,
};

fn populate<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let not_positive = Error::fixed("ERR value is out of range, must be positive");
    let number = |argument| {
        let number = integer(argument).ok().filter(|number| *number >= 0);
        number.ok_or_else(|| not_positive.clone())
    };
    let count = number(args.at(2))?;
    let len = args.get(4).map(number).transpose()?.and_then(|len| usize::try_from(len).ok());
    let prefix = args.get(3).unwrap_or(b"key").to_vec();
    let limit = cx.server.config().proto_max_bulk_len.bytes();
    if len.is_some_and(|len| len > limit) {
        return Err(Error::TOO_LONG);
    }
    let mut next = 0;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        while next < count {
            let key = [&prefix, format!(":{next}").as_bytes()].concat();
            let mut value = format!("value:{next}").into_bytes();
            if let Some(len) = len.filter(|len| *len > 0) {
                value.resize(len, 0);
            }
            let key = cx.db.key(&key);
            if cx.db.kind(key).is_none() {
                cx.db.set(key, value.as_slice(), SetOptions::default());
            }
            next += 1;
            if slice.is_over() && next < count {
                return Ok(JobProgress::COMMITTED);
            }
        }
        cx.reply.ok();
        Ok(JobProgress::Done)
    }))
}

static POPULATE: Operation = Operation {
    name: "POPULATE",
    syntax: "count [prefix] [length]",
    words: 3..=5,
    summary: "Makes so many keys, unless they are there already",
    run: populate,
};

/// The stages of DEBUG RELOAD.
enum Reload {
    /// Waits until the saver is idle, and requests a save.
    Order,
    /// A save is under way.
    Saving(Ticket),
    /// Requests are paused; waits until no key is claimed.
    Empty,
    /// Requests that the saver loads the file.
    Load,
    /// The file is being loaded.
    Loading(Ticket),
}

const NOT_LOADED: Error = Error::fixed("ERR Error trying to load the RDB dump, check server logs.");

fn reload<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (mut merge, mut flushes, mut saves) = (false, true, true);
    for word in args.from(2) {
        if is(word, "MERGE") {
            merge = true;
        } else if is(word, "NOFLUSH") {
            flushes = false;
        } else if is(word, "NOSAVE") {
            saves = false;
        } else {
            let text = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
            return Err(Error::fixed(text));
        }
    }
    // Without a file, the data would be flushed and could not be loaded.
    check_file(cx.server.config())?;
    if cx.hooks.reasons().contains(HookFlags::LOADING) {
        return Err(Error::fixed("LOADING Redis is loading the dataset in memory"));
    }
    // Within a transaction, it would wait for the transaction's own claims.
    if cx.db.is_claimed() {
        return Err(Error::fixed("ERR DEBUG RELOAD is not possible inside a transaction"));
    }
    let has_libraries = cx.server.scripts().libraries().counts().0 > 0;
    if saves && !flushes && !merge && has_libraries {
        // Without a flush or MERGE, the saved libraries would conflict with the existing ones.
        return Err(NOT_LOADED);
    }
    let mut stage = if saves { Reload::Order } else { Reload::Empty };
    cx.start(Box::new(move |cx| {
        let (server, waker) = (cx.server.saves(), cx.client.waker.clone());
        let outcome = loop {
            stage = match stage {
                Reload::Order => {
                    // Writes after the save would be lost.
                    cx.hooks.hold_writes(HookFlags::RELOADING);
                    Reload::Saving(server.order_next(Order::Save))
                }
                Reload::Saving(ticket) => match server.outcome(ticket, &waker) {
                    Some(Ok(())) => Reload::Empty,
                    Some(Err(why)) => {
                        cx.hooks.release_writes(HookFlags::RELOADING);
                        return Err(Error::new(format!("ERR {why}")));
                    }
                    None => return Ok(JobProgress::COMMITTED_WOKEN),
                },
                Reload::Empty => {
                    cx.hooks.set(HookFlags::LOADING, true);
                    if cx.db.store().meets_any_claim(&waker).is_some() {
                        return Ok(JobProgress::COMMITTED);
                    }
                    if flushes {
                        cx.db.store().flush(Scope::All);
                        let scripts = cx.server.scripts();
                        scripts.change_libraries(|all| *all = Libraries::default());
                    }
                    Reload::Load
                }
                Reload::Load => match server.order_instead(Order::Load { merge }, &waker) {
                    Some(ticket) => Reload::Loading(ticket),
                    None => return Ok(JobProgress::COMMITTED),
                },
                Reload::Loading(ticket) => match server.outcome(ticket, &waker) {
                    Some(outcome) => break outcome,
                    None => return Ok(JobProgress::COMMITTED_WOKEN),
                },
            }
        };
        if saves {
            cx.hooks.release_writes(HookFlags::RELOADING);
        }
        outcome.map_err(|_| NOT_LOADED)?;
        cx.reply.ok();
        Ok(JobProgress::Done)
    }))
}

static RELOAD: Operation = Operation {
    name: "RELOAD",
    syntax: "[MERGE] [NOFLUSH] [NOSAVE]",
    words: 2..=5,
    summary: "Saves the data, and loads it again into an empty store",
    run: reload,
};

/// Writes a reply of each type.
fn protocol<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let is_old = cx.client.version == Version::Two;
    let kind = args.at(2).to_ascii_lowercase();
    let reply = &mut cx.reply;
    match kind.as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.decimal("3.141"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.text("This is a verbatim\nstring"),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if !is_old {
                reply.attributes(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if is_old => {
            return Err(Error::fixed("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        _ => {
            return Err(Error::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

static PROTOCOL: Operation = Operation {
    name: "PROTOCOL",
    syntax: "type",
    words: 3..=3,
    summary: "Answers with a reply of the type",
    run: protocol,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.array(1 + 2 * OPERATIONS.len());
    cx.reply.simple("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    for operation in OPERATIONS {
        cx.reply.simple(format!("{} {}", operation.name, operation.syntax).trim_end());
        cx.reply.simple(&format!("    {}.", operation.summary));
    }
    Ok(())
}

static HELP: Operation =
    Operation { name: "HELP", syntax: "", words: 2..=2, summary: "Lists what there is", run: help };

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{Bench, converse};
    use crate::{Config, config::Origin};

    pub(crate) fn allowed() -> Bench {
        let mut bench = Bench::new();
        let config = Config::default();
        config.set("enable-debug-command", "yes", Origin::Startup).unwrap();
        bench.process.config = config;
        bench
    }

    #[test]
    fn debug_is_refused_unless_enabled() {
        converse(&format!(
            "DEBUG SLEEP 0 => -{}|
             CONFIG SET enable-debug-command yes => -ERR CONFIG SET failed (possibly related to
             ... argument 'enable-debug-command') - can't set immutable config|",
            String::from_utf8_lossy(&REFUSED.0)
        ));
        let mut bench = allowed();
        for (word, is_allowed) in [("yes", true), ("local", true), ("no", false)] {
            bench.process.config.set("enable-debug-command", word, Origin::Startup).unwrap();
            let reply = bench.call(&["DEBUG", "SLEEP", "0"]);
            assert_eq!(reply == "+OK|", is_allowed, "{word}: {reply}");
        }
    }

    #[test]
    fn digests_equal_those_of_redis() {
        let mut bench = allowed();
        let zero = "0".repeat(40);
        bench.expect("DEBUG DIGEST", &format!("+{zero}|"));
        bench.expect("SET key v", "+OK|");
        bench.expect("DEBUG DIGEST", "+c800ebc312c785da0bff3729592c8d63a9e833bd|");
        bench.expect("SET n 12", "+OK|");
        bench.expect("EXPIRE n 1000", ":1|");
        let (key, n) = (
            "d79ee9fe5d5ad902d7f6620efc3b07b75ddd742f",
            "83df3a94c43338a2db2a05ddb5dbb794b842c619",
        );
        let expected = format!("*3|+{n}|+{zero}|+{key}|");
        bench.expect("DEBUG DIGEST-VALUE n none key", &expected);
        bench.expect("FLUSHALL", "+OK|");
        bench.expect("SET k v", "+OK|");
        bench.expect("DEBUG DIGEST", "+264ccf65edec66bccfa7cc659414ccca432057d2|");
    }

    #[test]
    fn debug_operations_reply_as_in_redis() {
        let mut bench = allowed();
        for (request, reply) in [
            ("DEBUG SLEEP 0", "+OK|"),
            ("DEBUG SLEEP -1", "+OK|"),
            ("DEBUG OBJECT none", "-ERR no such key|"),
            ("DEBUG PROTOCOL map", "*6|:0|:0|:1|:1|:2|:0|"),
            ("DEBUG PROTOCOL push", "-ERR RESP2 is not supported by this command|"),
            ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK|"),
            (
                "DEBUG SLEEP",
                "-ERR unknown subcommand or wrong number of arguments for 'SLEEP'. \
                 Try DEBUG HELP.|",
            ),
            ("DEBUG ERROR 'WRONG text'", "-WRONG text|"),
            ("DEBUG POPULATE x", "-ERR value is out of range, must be positive|"),
            ("DEBUG POPULATE 3", "+OK|"),
            ("DEBUG POPULATE 2 p 3", "+OK|"),
            ("DEBUG POPULATE 1 q 9", "+OK|"),
            ("MGET key:2 p:1 q:0", "*3|$7|value:2|$3|val|$9|value:0\0\0|"),
            ("FLUSHALL", "+OK|"),
            ("SET key value", "+OK|"),
        ] {
            bench.expect(request, reply);
        }
        assert!(!bench.process.hooks.expires_actively(u64::MAX));
        let object = bench.call(&["DEBUG", "OBJECT", "key"]);
        assert!(object.contains(" refcount:1 encoding:embstr serializedlength:"), "{object}");
        bench.resp(b"HELLO 3\r\n");
        bench.expect("DEBUG PROTOCOL map", "%3|:0|#f|:1|#t|:2|#f|");
        bench.expect("DEBUG PROTOCOL double", ",3.141|");
        bench.expect("DEBUG PROTOCOL bignum", "(1234567999999999999999999999999999999|");
    }
}
