//! ACL: who may do what. There is one user, default, who may do everything once logged in; what
//! would need another, or less than everything, is refused. Nothing here may let anybody in: the
//! password that `requirepass` holds is the only one.

use crate::config::{Config, Origin};
use crate::runtime::admission::DEFAULT_USER;
use crate::runtime::arguments::{integer, is};
use crate::runtime::dispatch;
use crate::runtime::help;
use crate::state::login_log::FailedLogin;
use crate::{Category, Command, Context, Entry, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&ACL];

const SUBCOMMANDS: &[&Command] = &[
    &CAT, &DELUSER, &DRYRUN, &GENPASS, &GETUSER, &HELP, &LIST, &LOAD, &LOG, &SAVE, &SETUSER,
    &USERS, &WHOAMI,
];

/// How the harmless subcommands behave.
const PLAIN: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
/// How subcommands for administrators behave.
const ADMIN: Flags = Flags::ADMIN.union(PLAIN);

/// On how many nodes of a cluster users are to be changed.
const TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

pub(crate) static ACL: Command = Command {
    name: "ACL",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about users, of whom there is one",
    subcommands: SUBCOMMANDS,
    run: |_, _| Err(Error::wrong_arity("acl")),
};

fn whoami<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.bulk(DEFAULT_USER);
    Ok(())
}

static WHOAMI: Command = Command {
    name: "WHOAMI",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the name of the connection's user",
    subcommands: &[],
    run: whoami,
};

fn users<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.array(1);
    cx.reply.bulk(DEFAULT_USER);
    Ok(())
}

static USERS: Command = Command {
    name: "USERS",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the names of all users",
    subcommands: &[],
    run: users,
};

/// The password as it is shown: by its hash. `None` where there is none.
fn hash_of_password(config: &Config) -> Option<String> {
    let password = config.requirepass.get();
    (!password.is_empty()).then(|| {
        let mut hash = String::new();
        for byte in Sha256::digest(password.as_bytes()) {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02x}");
        }
        hash
    })
}

fn list<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let login = match hash_of_password(cx.server.config()) {
        None => "nopass sanitize-payload".to_owned(),
        Some(hash) => format!("sanitize-payload #{hash}"),
    };
    cx.reply.array(1);
    cx.reply.bulk(format!("user default on {login} ~* &* +@all").as_bytes());
    Ok(())
}

static LIST: Command = Command {
    name: "LIST",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the rules of all users, a line each",
    subcommands: &[],
    run: list,
};

fn getuser<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.at(2) != DEFAULT_USER {
        cx.reply.null();
        return Ok(());
    }
    let hash = hash_of_password(cx.server.config());
    let reply = &mut cx.reply;
    reply.map(6);
    reply.bulk(b"flags");
    let flags: &[&[u8]] = match hash {
        None => &[b"on", b"nopass", b"sanitize-payload"],
        Some(_) => &[b"on", b"sanitize-payload"],
    };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag));
    reply.bulk(b"passwords");
    reply.array(usize::from(hash.is_some()));
    hash.iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    for (name, rules) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.bulk(name.as_bytes());
        reply.bulk(rules.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
    Ok(())
}

static GETUSER: Command = Command {
    name: "GETUSER",
    syntax: "username",
    arity: 3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)")
        .history(&[("6.2.0", "Channels"), ("7.0.0", "Selectors; patterns as one line of rules")]),
    summary: "Returns what a user may do",
    subcommands: &[],
    run: getuser,
};

/// How somebody may log in as the default user.
#[derive(Clone, PartialEq, Eq)]
enum Login {
    /// Without a password, or with any.
    Free,
    /// With this one.
    With(String),
    /// Not at all.
    Never,
}

/// What `nagi` has no words for.
const LESS_THAN_ALL: &str = "there are no users here that may do less than everything";

fn modifier_error(modifier: &[u8], reason: &str) -> Error {
    let modifier = String::from_utf8_lossy(modifier);
    Error::new(format!("ERR Error in ACL SETUSER modifier '{modifier}': {reason}"))
}

/// What a rule makes of how one may log in.
fn apply(login: Login, rule: &[u8]) -> Result<Login, Error> {
    const HARMLESS: [&str; 9] = [
        "on",
        "~*",
        "allkeys",
        "&*",
        "allchannels",
        "+@all",
        "allcommands",
        "sanitize-payload",
        "clearselectors",
    ];
    const LESSENING: [&str; 6] =
        ["off", "reset", "resetkeys", "resetchannels", "nocommands", "skip-sanitize-payload"];
    let is_one_of = |words: &[&str]| words.iter().any(|word| is(rule, word));
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
        let reason = "a password here is text, and not empty";
        text.map(str::to_owned).ok_or_else(|| modifier_error(rule, reason))
    };
    match rule {
        _ if is_one_of(&HARMLESS) => Ok(login),
        _ if is(rule, "nopass") => Ok(Login::Free),
        _ if is(rule, "resetpass") => Ok(Login::Never),
        _ if is_one_of(&LESSENING) => Err(modifier_error(rule, LESS_THAN_ALL)),
        [b'>', password @ ..] => match (login, text(password)?) {
            (Login::With(present), password) if present != password => {
                let reason = "there can be only one password here: say resetpass first";
                Err(modifier_error(rule, reason))
            }
            (_, password) => Ok(Login::With(password)),
        },
        [b'<', password @ ..] => match login {
            Login::With(present) if present.as_bytes() == password => Ok(Login::Never),
            _ => Err(modifier_error(
                rule,
                "The password you are trying to remove from the user does not exist",
            )),
        },
        [b'#' | b'!', ..] => {
            Err(modifier_error(rule, "passwords are kept as they are here: give it behind >"))
        }
        [b'~' | b'%' | b'&' | b'+' | b'-' | b'(', ..] => Err(modifier_error(rule, LESS_THAN_ALL)),
        _ => Err(modifier_error(rule, "Syntax error")),
    }
}

fn setuser<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.at(2) != DEFAULT_USER {
        return Err(Error::fixed("ERR there are no users here but the default one"));
    }
    let config = cx.server.config();
    let present = config.requirepass.get();
    let before = if present.is_empty() { Login::Free } else { Login::With(present.to_string()) };
    let after = args.from(3).try_fold(before.clone(), apply)?;
    let password = match &after {
        Login::Free => "",
        Login::With(password) => password,
        Login::Never => {
            return Err(Error::fixed(
                "ERR the default user needs a password, or nopass: nobody could log in otherwise",
            ));
        }
    };
    if after != before {
        let set = config.set("requirepass", password, Origin::Runtime);
        set.map_err(|reason| Error::new(format!("ERR {reason}")))?;
    }
    cx.reply.ok();
    Ok(())
}

static SETUSER: Command = Command {
    name: "SETUSER",
    syntax: "username [rule ...]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(N), N being the rules")
        .history(&[("6.2.0", "Channels"), ("7.0.0", "Selectors, and rules about keys")])
        .tips(TIPS),
    summary: "Gives the default user a password, or none; other users are not there",
    subcommands: &[],
    run: setuser,
};

fn deluser<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.from(2).any(|name| name == DEFAULT_USER) {
        return Err(Error::fixed("ERR The 'default' user cannot be removed"));
    }
    cx.reply.integer(0);
    Ok(())
}

static DELUSER: Command = Command {
    name: "DELUSER",
    syntax: "username [username ...]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)").tips(TIPS),
    summary: "Answers 0: there is nobody to remove but the default user, who stays",
    subcommands: &[],
    run: deluser,
};

fn cat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let reply = &mut cx.reply;
    let Some(word) = args.get(2).filter(|_| args.len() == 3) else {
        if args.len() > 3 {
            return Err(wrong_use(args));
        }
        let names = Category::all().iter_names();
        reply.array(Category::all().iter_names().count());
        names.for_each(|(name, _)| reply.bulk(name.to_ascii_lowercase().as_bytes()));
        return Ok(());
    };
    let mut named = Category::all().iter_names().filter(|(name, _)| is(word, name));
    let (_, category) = named.next().ok_or_else(|| {
        Error::new(format!("ERR Unknown category '{}'", String::from_utf8_lossy(word)))
    })?;
    let is_in = |entry: &&Entry| entry.command.all_categories().contains(category);
    // A command with subcommands stands for all of them only if it does something itself.
    let found: Vec<&Entry> = cx.server.commands().entries().iter().filter(is_in).collect();
    reply.array(found.len());
    found.iter().for_each(|entry| reply.bulk(entry.full_name.as_bytes()));
    Ok(())
}

fn wrong_use(args: Args<'_>) -> Error {
    let word = String::from_utf8_lossy(args.at(1));
    Error::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP."
    ))
}

static CAT: Command = Command {
    name: "CAT",
    syntax: "[category]",
    arity: -2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the categories of commands, or the commands of one",
    subcommands: &[],
    run: cat,
};

fn dryrun<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.at(2) != DEFAULT_USER {
        return Err(Error::quoting("ERR User '", args.at(2), "' not found"));
    }
    let command = args.skip(3);
    let table = cx.server.commands();
    let is_known = table.find(command.at(0)).is_some_and(|entry| {
        let word = command.get(1);
        entry.command.subcommands.is_empty()
            || word.is_none_or(|word| table.subcommand(entry, word).is_some())
    });
    if !is_known {
        return Err(Error::quoting("ERR Command '", command.at(0), "' not found"));
    }
    dispatch::resolve(table, command)?;
    cx.reply.ok();
    Ok(())
}

static DRYRUN: Command = Command {
    name: "DRYRUN",
    syntax: "username command [arg ...]",
    arity: -4,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "7.0.0",
    notes: Notes::of("O(1)"),
    summary: "Tells whether a user may run a command, without running it",
    subcommands: &[],
    run: dryrun,
};

fn genpass<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const OUT_OF_RANGE: Error = Error::fixed(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
         number up to 4096",
    );
    let bits = match args.get(2) {
        _ if args.len() > 3 => return Err(wrong_use(args)),
        None => 256,
        Some(bits) => usize::try_from(integer(bits)?).map_err(|_| OUT_OF_RANGE)?,
    };
    if !(1..=4096).contains(&bits) {
        return Err(OUT_OF_RANGE);
    }
    let digits = bits.div_ceil(4);
    let mut random = [0; 512];
    let mut text = String::new();
    for byte in fill(random.get_mut(..digits.div_ceil(2)).unwrap_or_default())? {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    cx.reply.bulk(text.as_bytes());
    Ok(())
}

/// Fills a buffer with random bytes from the kernel.
fn fill(buffer: &mut [u8]) -> Result<&[u8], Error> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::new(format!("ERR no random numbers: {error}")))?;
    }
    Ok(buffer)
}

static GENPASS: Command = Command {
    name: "GENPASS",
    syntax: "[bits]",
    arity: -2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns a random password",
    subcommands: &[],
    run: genpass,
};

fn log<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let count = match args.get(2) {
        _ if args.len() > 3 => return Err(wrong_use(args)),
        None => 10,
        Some(word) if is(word, "RESET") => {
            cx.hooks.logins.clear();
            cx.reply.ok();
            return Ok(());
        }
        Some(count) => usize::try_from(integer(count)?).unwrap_or(0),
    };
    let failures = cx.hooks.logins.latest(count);
    cx.reply.array(failures.len());
    for failure in failures {
        log_entry(cx, &failure);
    }
    Ok(())
}

fn log_entry(cx: &mut Context<'_>, failure: &FailedLogin) {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let age_ms = cx.db.now_ms().saturating_sub(failure.first_ms);
    let reply = &mut cx.reply;
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(number(failure.count));
    for (name, text) in [
        ("reason", "auth"),
        ("context", "toplevel"),
        ("object", failure.command.as_str()),
        ("username", failure.user.as_str()),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"age-seconds");
    reply.decimal(&format!("{}.{:03}", age_ms / 1000, age_ms % 1000));
    reply.bulk(b"client-info");
    reply.bulk(failure.client.as_bytes());
    for (name, value) in [
        ("entry-id", failure.id),
        ("timestamp-created", failure.first_ms),
        ("timestamp-last-updated", failure.last_ms),
    ] {
        reply.bulk(name.as_bytes());
        reply.integer(number(value));
    }
}

static LOG: Command = Command {
    name: "LOG",
    syntax: "[count | RESET]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(N), N being the failures returned")
        .history(&[("7.2.0", "The fields entry-id and timestamp-created and -last-updated")]),
    summary: "Returns the latest logins that failed, or forgets them",
    subcommands: &[],
    run: log,
};

const NO_FILE: Error = Error::fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
     via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
     configuration file set) in order to store users in the Redis configuration.",
);

static LOAD: Command = Command {
    name: "LOAD",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Answers that there is no file of users",
    subcommands: &[],
    run: |_, _| Err(NO_FILE),
};

static SAVE: Command = Command {
    name: "SAVE",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)").tips(TIPS),
    summary: "Answers that there is no file of users",
    subcommands: &[],
    run: |_, _| Err(NO_FILE),
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &ACL);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn there_is_one_user() {
        converse(
            "ACL WHOAMI => $7|default|
             ACL USERS => *1|$7|default|
             ACL LIST => *1|$51|user default on nopass sanitize-payload ~* &* +@all|
             ACL GETUSER other => $-1|
             ACL DELUSER other => :0|
             ACL DELUSER other default => -ERR The 'default' user cannot be removed|
             ACL SETUSER other on => -ERR there are no users here but the default one|
             ACL DRYRUN default GET a => +OK|
             ACL DRYRUN default GET => -ERR wrong number of arguments for 'get' command|
             ACL DRYRUN default CLIENT FOO => -ERR Command 'CLIENT' not found|
             ACL DRYRUN default FOO x => -ERR Command 'FOO' not found|
             ACL DRYRUN default \"\\xff\\x00x\" => -ERR Command '\u{fffd}' not found|
             ACL DRYRUN other GET a => -ERR User 'other' not found|
             ACL CAT nosuch => -ERR Unknown category 'nosuch'|
             ACL CAT scripting => *0|
             ACL CAT hyperloglog => *5|$5|pfadd|$7|pfcount|$7|pfdebug|$7|pfmerge|$10|pfselftest|
             ACL GENPASS 0 => -ERR ACL GENPASS argument must be the number of bits for the output
             ... password, a positive number up to 4096|
             ACL GENPASS x => -ERR value is not an integer or out of range|
             ACL LOG => *0|
             ACL LOG RESET => +OK|
             ACL LOG x => -ERR value is not an integer or out of range|",
        );
        let mut bench = Bench::new();
        assert!(bench.call(&["ACL", "CAT"]).starts_with("*21|$8|keyspace|"));
        let passwords = [bench.call(&["ACL", "GENPASS"]), bench.call(&["ACL", "GENPASS"])];
        assert!(passwords[0].starts_with("$64|") && passwords[0] != passwords[1]);
        assert!(bench.call(&["ACL", "GENPASS", "5"]).starts_with("$2|"));
    }

    #[test]
    fn its_password_is_the_one_that_is_required() {
        let mut bench = Bench::new();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        bench.expect("ACL SETUSER default on >abc ~* +@all", "+OK|");
        bench.expect("CONFIG GET requirepass", "*2|$11|requirepass|$3|abc|");
        bench.expect(
            "ACL GETUSER default",
            &format!(
                "*12|$5|flags|*2|$2|on|$16|sanitize-payload|$9|passwords|*1|$64|{abc}|$8|commands|\
                 $5|+@all|$4|keys|$2|~*|$8|channels|$2|&*|$9|selectors|*0|"
            ),
        );
        bench.expect("ACL SETUSER default resetpass >def", "+OK|");
        bench.expect("CONFIG GET requirepass", "*2|$11|requirepass|$3|def|");
        bench.expect("ACL SETUSER default <def >ghi", "+OK|");
        bench.expect("CONFIG GET requirepass", "*2|$11|requirepass|$3|ghi|");
        bench.expect("ACL SETUSER default nopass", "+OK|");
        bench.expect("CONFIG GET requirepass", "*2|$11|requirepass|$0||");
    }

    #[test]
    fn nobody_is_let_in_who_was_not() {
        for rules in [
            "off",
            "reset",
            "-@all",
            "-get",
            "~a*",
            "%R~a",
            "&x",
            "resetkeys",
            "nocommands",
            ">",
            "#0",
            "!0",
            "<other",
            ">second",
            "resetpass",
            "<first",
            "foo",
            "nopass foo",
            "nopass resetpass",
            "(+get ~a)",
        ] {
            let mut bench = Bench::new();
            bench.expect("CONFIG SET requirepass first", "+OK|");
            let reply = bench.call(
                &[&["ACL", "SETUSER", "default"][..], &rules.split(' ').collect::<Vec<_>>()]
                    .concat(),
            );
            assert!(reply.starts_with("-ERR "), "{rules}: {reply}");
            bench.expect("CONFIG GET requirepass", "*2|$11|requirepass|$5|first|");
        }
    }

    #[test]
    fn failed_logins_are_noted() {
        let mut bench = Bench::new();
        bench.expect("CONFIG SET requirepass secret", "+OK|");
        for _ in 0..3 {
            bench.call(&["AUTH", "wrong"]);
        }
        bench.advance_ms(61_000);
        bench.call(&["HELLO", "3", "AUTH", "other", "secret"]);
        bench.call(&["AUTH", "secret"]);
        let log = bench.call(&["ACL", "LOG"]);
        assert!(log.starts_with("*2|*20|$5|count|:1|$6|reason|$4|auth|"), "{log}");
        assert!(log.contains("|$8|username|$5|other|$11|age-seconds|"), "{log}");
        assert!(log.contains("|*20|$5|count|:3|") && log.contains("cmd=auth user="), "{log}");
        assert!(!log.contains("secret") && !log.contains("wrong"), "{log}");
        bench.expect("ACL LOG RESET", "+OK|");
        bench.expect("ACL LOG", "*0|");
    }
}
