//! DEBUG: what Redis' own tests ask a server to do, for who is allowed to by
//! `enable-debug-command`.

use crate::admission;
use crate::arguments::is;
use crate::{Category, Command, Context, Error, Flags, Flow, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Version;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&DEBUG];

/// What DEBUG can do. These are no subcommands: statistics know only DEBUG.
struct Tool {
    name: &'static str,
    syntax: &'static str,
    /// Words of a request, both names included.
    words: usize,
    summary: &'static str,
    run: crate::Handler,
}

static TOOLS: &[&Tool] = &[&HELP, &OBJECT, &PROTOCOL, &SET_ACTIVE_EXPIRE, &SLEEP];

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
    let tool = TOOLS.iter().find(|tool| is(word, tool.name) && args.len() == tool.words);
    let tool = tool.ok_or_else(|| Error::unknown_form("DEBUG", word))?;
    (tool.run)(cx, args)
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
    summary: "Does what tests of Redis ask for, if enable-debug-command allows it",
    subcommands: &[],
    run: debug,
};

fn sleep<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let seconds: f64 = String::from_utf8_lossy(args.at(2)).parse().unwrap_or(0.0);
    let until_ms = cx.db.now_ms().saturating_add((seconds * 1000.0).ceil() as u64);
    if until_ms > cx.db.now_ms() {
        cx.attention.call_at(until_ms, &cx.client.waker);
        cx.server.hurry();
    }
    cx.start(Box::new(move |cx| {
        if cx.db.now_ms() < until_ms {
            return Ok(Flow::Wait);
        }
        cx.reply.ok();
        Ok(Flow::Done)
    }))
}

static SLEEP: Tool = Tool {
    name: "SLEEP",
    syntax: "seconds",
    words: 3,
    summary: "Answers only after that time; nobody else waits",
    run: sleep,
};

fn set_active_expire<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.attention.expire_actively(args.at(2) != b"0");
    cx.reply.ok();
    Ok(())
}

static SET_ACTIVE_EXPIRE: Tool = Tool {
    name: "SET-ACTIVE-EXPIRE",
    syntax: "<0 | 1>",
    words: 3,
    summary: "Chooses whether keys are looked for whose time has come",
    run: set_active_expire,
};

fn object<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let db = cx.db.untouched();
    let key = cx.key(args.at(2));
    let found = db.get(key, |entry| {
        entry.map(|entry| (entry.key().as_ptr() as usize, entry.encoding_name(), entry.bytes()))
    });
    let (place, encoding, bytes) = found.ok_or(Error::fixed("ERR no such key"))?;
    let idle_s = db.idle_ms(key).unwrap_or(0) / 1000;
    let used_at_s = (db.now_ms() / 1000).saturating_sub(idle_s) & 0xff_ffff;
    cx.reply.simple(&format!(
        "Value at:{place:#x} refcount:1 encoding:{encoding} serializedlength:{bytes} \
         lru:{used_at_s} lru_seconds_idle:{idle_s}"
    ));
    Ok(())
}

static OBJECT: Tool = Tool {
    name: "OBJECT",
    syntax: "key",
    words: 3,
    summary: "Tells how a value is kept; its length is the one that it has in memory",
    run: object,
};

/// Writes a reply of each kind that there is.
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

static PROTOCOL: Tool = Tool {
    name: "PROTOCOL",
    syntax: "type",
    words: 3,
    summary: "Answers with a reply of the type",
    run: protocol,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.array(1 + 2 * TOOLS.len());
    cx.reply.simple("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    for tool in TOOLS {
        cx.reply.simple(format!("{} {}", tool.name, tool.syntax).trim_end());
        cx.reply.simple(&format!("    {}.", tool.summary));
    }
    Ok(())
}

static HELP: Tool =
    Tool { name: "HELP", syntax: "", words: 2, summary: "Lists what there is", run: help };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, converse};
    use crate::{Config, config::Origin};

    fn allowed() -> Bench {
        let mut bench = Bench::new();
        let config = Config::default();
        config.set("enable-debug-command", "yes", Origin::Startup).unwrap();
        bench.process.config = config;
        bench
    }

    #[test]
    fn nobody_may_unless_it_is_said_so() {
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
    fn tools() {
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
            ("SET key value", "+OK|"),
        ] {
            bench.expect(request, reply);
        }
        assert!(!bench.process.attention.expires_actively(u64::MAX));
        let object = bench.call(&["DEBUG", "OBJECT", "key"]);
        assert!(object.contains(" refcount:1 encoding:embstr serializedlength:"), "{object}");
        bench.resp(b"HELLO 3\r\n");
        bench.expect("DEBUG PROTOCOL map", "%3|:0|#f|:1|#t|:2|#f|");
        bench.expect("DEBUG PROTOCOL double", ",3.141|");
        bench.expect("DEBUG PROTOCOL bignum", "(1234567999999999999999999999999999999|");
    }
}
