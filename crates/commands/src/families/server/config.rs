//! CONFIG: settings and statistics while the server runs.

use crate::config::{Kind, Origin, Setting, Value, find, rewrite, settings};
use crate::error::quotable;
use crate::glob::Pattern;
use crate::runtime::admission;
use crate::runtime::gate;
use crate::runtime::help;
use crate::runtime::http_rules::{HttpRuleTexts, HttpRules};
use crate::runtime::notification;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use std::sync::Arc;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&CONFIG];

const SUBCOMMANDS: &[&Command] = &[&GET, &HELP, &RESETSTAT, &REWRITE, &SET];

fn config<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("config"))
}

pub(crate) static CONFIG: Command = Command {
    name: "CONFIG",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about settings and statistics",
    subcommands: SUBCOMMANDS,
    run: config,
};

/// Flags of subcommands for administrators.
const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut found: Vec<(&[u8], &Setting)> = Vec::new();
    let mut find = |name, setting| {
        if found.iter().all(|(other, _)| !other.eq_ignore_ascii_case(name)) {
            found.push((name, setting));
        }
    };
    for word in args.from(2) {
        if !word.iter().any(|byte| b"[*?".contains(byte)) {
            // A name without wildcards is shown in the case in which it was requested.
            known(word).into_iter().for_each(|setting| find(word, setting));
            continue;
        }
        let pattern = Pattern::in_any_case(word);
        for setting in settings().filter(|it| !it.is_line()) {
            let names = setting.names().map(str::as_bytes);
            names.filter(|name| pattern.matches(name)).for_each(|name| find(name, setting));
        }
    }
    cx.reply.map(found.len());
    for (name, setting) in found {
        cx.reply.bulk(name);
        cx.reply.bulk(setting.value(cx.server.config()).as_bytes());
    }
    Ok(())
}

static GET: Command = Command {
    name: "GET",
    syntax: "parameter [parameter ...]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the settings").history(&[("7.0.0", "Several patterns")]),
    summary: "Returns the settings whose names match a pattern, with their values",
    subcommands: &[],
    run: get,
};

fn set<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let pairs = args.from(2).step_by(2).zip(args.from(3).step_by(2));
    // All names and then all values are checked before the first setting is changed, so that none
    // is changed if one is wrong.
    let mut named: Vec<(&Setting, &[u8], &[u8])> = Vec::new();
    for (name, value) in pairs {
        let setting = setting(name)?;
        let is_there = named.iter().any(|(_, other, _)| other.eq_ignore_ascii_case(name));
        let fault = match setting {
            setting if setting.is_protected() && !is_permitted(cx) => "can't set protected config",
            setting if !setting.changeable => "can't set immutable config",
            _ if is_there => "duplicate parameter",
            _ => {
                named.push((setting, name, value));
                continue;
            }
        };
        return Err(cannot_set(name, fault));
    }
    let _changing = cx.server.config().changing();
    let mut checked: Vec<(&Setting, &[u8], Value)> = Vec::new();
    for (setting, name, value) in named {
        let value = match setting.kind {
            // Replacing invalid bytes would change the password, which would not match any login.
            Kind::Password if std::str::from_utf8(value).is_err() => {
                return Err(cannot_set(&name.to_ascii_lowercase(), "argument must be UTF-8"));
            }
            Kind::Password => String::from_utf8_lossy(value),
            _ => String::from_utf8_lossy(quotable(value, value.len())),
        };
        let value = setting.check(cx.server.config(), &value, Origin::Runtime);
        let value = value.map_err(|fault| cannot_set(&name.to_ascii_lowercase(), &fault))?;
        checked.push((setting, name, value));
    }
    check_client_limit(cx, &checked)?;
    check_http_rules(cx, &checked)?;
    listen(cx, &checked)?;
    let limits_clients = checked.iter().any(|(it, ..)| it.name.starts_with("maxmemory"));
    for (setting, _, value) in checked {
        setting.store(cx.server.config(), value);
    }
    cx.server.config().limit_memory(cx.db.store());
    cx.hooks.tracking.limit(cx.server.config().tracking_table_max_keys.bytes());
    if limits_clients {
        cx.server.limit_client_memory();
    }
    let threshold_ms = cx.server.config().latency_monitor_threshold_ms.get();
    cx.hooks.set_latency_threshold_ms(threshold_ms);
    gate::stop_writes_if_unsaved(cx.server.saves(), cx.server.config(), cx.hooks);
    notification::settle(cx.server, cx.db.store());
    cx.reply.ok();
    Ok(())
}

/// Refuses a number of clients for which there are not enough descriptors.
fn check_client_limit(cx: &Context<'_>, new: &[(&Setting, &[u8], Value)]) -> Result<(), Error> {
    let wanted = new.iter().find(|(setting, ..)| setting.name == "maxclients");
    let Some((_, name, Value::Number(wanted))) = wanted else { return Ok(()) };
    let most = cx.server.max_clients();
    if *wanted <= most {
        return Ok(());
    }
    let fault = format!(
        "The operating system is not able to handle the specified number of clients, try with \
         {most}"
    );
    Err(cannot_set(&name.to_ascii_lowercase(), &fault))
}

/// Refuses invalid rules for commands over HTTP, which would then permit no command.
fn check_http_rules(cx: &Context<'_>, new: &[(&Setting, &[u8], Value)]) -> Result<(), Error> {
    let present = HttpRuleTexts::of(cx.server.config());
    let mut wanted = present.clone();
    for (setting, _, value) in new {
        match (setting.name, value) {
            ("http-commands", Value::Text(rules)) => wanted.commands = Arc::clone(rules),
            ("http-networks", Value::Text(rules)) => wanted.networks = Arc::clone(rules),
            _ => {}
        }
    }
    if wanted == present {
        return Ok(());
    }
    HttpRules::parse(&wanted, cx.server.commands()).map(drop).map_err(|fault| {
        let (setting, fault) = fault.split_once(": ").unwrap_or(("http-commands", &fault));
        cannot_set(setting.as_bytes(), fault)
    })
}

/// Makes the server listen on the new addresses and ports, if these settings are changed.
fn listen(cx: &Context<'_>, new: &[(&Setting, &[u8], Value)]) -> Result<(), Error> {
    let present = cx.server.config().addresses();
    let mut wanted = present.clone();
    let mut changed: Option<(&Setting, &[u8])> = None;
    for (setting, name, value) in new {
        let before = wanted.clone();
        wanted.change(setting, value);
        if wanted != before {
            changed = Some((setting, name));
        }
    }
    let Some(last) = changed else { return Ok(()) };
    let Err(fault) = cx.server.listen(&wanted) else { return Ok(()) };
    let named = new.iter().find(|(setting, ..)| setting.name == fault);
    let (setting, name) = named.map_or(last, |(setting, name, _)| (*setting, *name));
    Err(cannot_set(
        &name.to_ascii_lowercase(),
        match setting.name {
            "port" | "memcached-port" => "Unable to listen on this port. Check server logs.",
            _ => "Failed to bind to specified addresses.",
        },
    ))
}

fn cannot_set(name: &[u8], fault: &str) -> Error {
    let before = "ERR CONFIG SET failed (possibly related to argument '";
    Error::quoting(before, name, &format!("') - {fault}"))
}

/// Whether the client may change settings that are protected.
fn is_permitted(cx: &Context<'_>) -> bool {
    admission::is_permitted(&cx.server.config().enable_protected_configs, cx.client)
}

/// The setting with this name, in any case, unless it is a directive that CONFIG does not know.
fn known(name: &[u8]) -> Option<&'static Setting> {
    let setting = find(std::str::from_utf8(name).ok()?);
    setting.filter(|setting| !setting.is_line())
}

fn setting(name: &[u8]) -> Result<&'static Setting, Error> {
    let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
    known(name).ok_or_else(|| Error::quoting(before, name, "'"))
}

/// Settings with secret values, which only CONFIG GET shows.
const SECRETS: [&str; 5] =
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"];

/// The positions of secret values: those of secret settings, and those of unknown names, which may
/// be misspelt secret settings.
fn passwords(args: Args<'_>) -> Vec<usize> {
    let is_secret = |at: &usize| {
        let name = String::from_utf8_lossy(args.at(at - 1));
        find(&name).is_none_or(|setting| SECRETS.contains(&setting.name))
    };
    (3..args.len()).step_by(2).filter(is_secret).collect()
}

static SET: Command = Command {
    name: "SET",
    syntax: "parameter value [parameter value ...]",
    arity: -4,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the settings given")
        .history(&[("7.0.0", "Several settings")])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .secrets(passwords),
    summary: "Changes settings, all of them or none",
    subcommands: &[],
    run: set,
};

fn resetstat<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.db.store().reset_counters();
    cx.server.statistics().reset();
    cx.hooks.access_log.reset();
    cx.reply.ok();
    Ok(())
}

static RESETSTAT: Command = Command {
    name: "RESETSTAT",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Resets the statistics of INFO",
    subcommands: &[],
    run: resetstat,
};

fn rewrite<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    rewrite::rewrite(cx.server.config(), rewrite::Added::Changed)?;
    cx.reply.ok();
    Ok(())
}

static REWRITE: Command = Command {
    name: "REWRITE",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Writes the settings into the file that the server was started with",
    subcommands: &[],
    run: rewrite,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &CONFIG);
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
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, converse};

    #[test]
    fn config_get_and_set_show_and_change_settings() {
        converse(
            "CONFIG GET maxclients TCP-BACKLOG tcp-BACKLOG => \
             *4|$10|maxclients|$5|10000|$11|TCP-BACKLOG|$4|4096|
             CONFIG GET *backlog tcp-b* => *2|$11|tcp-backlog|$4|4096|
             CONFIG GET nosuch => *0|
             CONFIG SET maxclients 100 TIMEOUT 5 => +OK|
             CONFIG GET maxclients timeout => *4|$10|maxclients|$3|100|$7|timeout|$1|5|
             CONFIG SET proto-max-bulk-len 2mb => +OK|
             CONFIG GET proto-max-bulk-len => *2|$18|proto-max-bulk-len|$7|2097152|
             HELLO 3 SETNAME x => %7|$6|server|$5|redis|$7|version|$5|7.2.4|$5|proto|:3|$2|id|:1|
             ...$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|
             CONFIG GET maxclients => %1|$10|maxclients|$3|100|",
        );
    }

    #[test]
    fn config_set_changes_all_settings_or_none() {
        let failed = "-ERR CONFIG SET failed (possibly related to argument";
        let mut bench = Bench::new();
        for (request, reply) in [
            ("maxclients", "-ERR wrong number of arguments for 'config|set' command|".to_owned()),
            ("maxclients 9 timeout", "-ERR syntax error|".to_owned()),
            (
                "maxclients 9 nosuch 1",
                "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'|".to_owned(),
            ),
            (
                "maxclients 9 timeout x",
                format!("{failed} 'timeout') - argument couldn't be parsed into an integer|"),
            ),
            (
                "maxclients 9 timeout -1",
                format!(
                    "{failed} 'timeout') - argument must be between 0 and 2147483647 inclusive|"
                ),
            ),
            (
                "timeout 99999999999999999999999",
                format!("{failed} 'timeout') - argument couldn't be parsed into an integer|"),
            ),
            ("maxclients 9 maxclients 9", format!("{failed} 'maxclients') - duplicate parameter|")),
            (
                "maxclients 9 databases 5",
                format!("{failed} 'databases') - can't set immutable config|"),
            ),
            (
                "maxclients 9 port 7",
                format!("{failed} 'port') - Unable to listen on this port. Check server logs.|"),
            ),
            (
                "proto-max-bulk-len x",
                format!("{failed} 'proto-max-bulk-len') - argument must be a memory value|"),
            ),
            (
                "proto-max-bulk-len 1",
                format!(
                    "{failed} 'proto-max-bulk-len') - argument must be between 1048576 and \
                     9223372036854775807 inclusive|"
                ),
            ),
        ] {
            bench.expect(&format!("CONFIG SET {request}"), &reply);
            bench.expect("CONFIG GET maxclients", "*2|$10|maxclients|$5|10000|");
        }
    }

    #[test]
    fn values_that_are_not_utf_8_are_refused() {
        let mut bench = Bench::new();
        let failed = "-ERR CONFIG SET failed (possibly related to argument";
        let reply = bench.resp(b"CONFIG SET timeout \"\\xff\\xfe\"\r\n");
        let expected = format!("{failed} 'timeout') - argument couldn't be parsed into an integer");
        assert_eq!(String::from_utf8_lossy(&reply).trim_end(), expected);
        let reply = bench.resp(b"CONFIG SET requirepass \"\\xff\\xfe\"\r\n");
        let expected = format!("{failed} 'requirepass') - argument must be UTF-8");
        assert_eq!(String::from_utf8_lossy(&reply).trim_end(), expected);
        bench.expect("CONFIG GET requirepass", "*2|$11|requirepass|$0||");
    }

    #[test]
    fn every_setting_is_shown_by_each_of_its_names() {
        let mut bench = Bench::new();
        let shown = bench.call(&["CONFIG", "GET", "*"]);
        for setting in settings().filter(|it| !it.is_line()) {
            for name in setting.names() {
                assert!(shown.contains(&format!("|{name}|")), "{name}");
            }
        }
        bench.expect("CONFIG GET slave-prio* user", "*2|$14|slave-priority|$3|100|");
    }

    #[test]
    fn rewrite_without_a_file_and_unknown_subcommands_are_refused() {
        converse(
            "CONFIG REWRITE => -ERR The server is running without a config file|
             CONFIG RESETSTAT => +OK|
             CONFIG RESETSTAT x => -ERR wrong number of arguments for 'config|resetstat' command|
             CONFIG FOO => -ERR unknown subcommand 'FOO'. Try CONFIG HELP.|",
        );
    }
}
