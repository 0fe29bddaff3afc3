//! ACL: the users, and the permissions of each.

mod common;
mod file;
mod inspection;
mod log;
mod users;

use crate::runtime::help;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use file::{LOAD, SAVE};
use inspection::{CAT, DRYRUN, GENPASS};
use log::LOG;
use nagi_proto::Args;
use users::{DELUSER, GETUSER, LIST, SETUSER, USERS, WHOAMI};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&ACL];

const SUBCOMMANDS: &[&Command] = &[
    &CAT, &DELUSER, &DRYRUN, &GENPASS, &GETUSER, &HELP, &LIST, &LOAD, &LOG, &SAVE, &SETUSER,
    &USERS, &WHOAMI,
];

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
    summary: "Commands about users and their permissions",
    subcommands: SUBCOMMANDS,
    run: |_, _| Err(Error::wrong_arity("acl")),
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
    fn a_new_server_has_only_the_default_user() {
        converse(
            "ACL WHOAMI => $7|default|
             ACL USERS => *1|$7|default|
             ACL LIST => *1|$51|user default on nopass sanitize-payload ~* &* +@all|
             ACL GETUSER other => $-1|
             ACL DELUSER other => :0|
             ACL DELUSER other default => -ERR The 'default' user cannot be removed|
             ACL DRYRUN default GET a => +OK|
             ACL DRYRUN default GET => -ERR wrong number of arguments for 'get' command|
             ACL DRYRUN default CLIENT FOO => -ERR Command 'CLIENT' not found|
             ACL DRYRUN default FOO x => -ERR Command 'FOO' not found|
             ACL DRYRUN default \"\\xff\\x00x\" => -ERR Command '\u{fffd}' not found|
             ACL DRYRUN other GET a => -ERR User 'other' not found|
             ACL CAT nosuch => -ERR Unknown category 'nosuch'|
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
    fn requirepass_replaces_the_passwords_of_the_default_user() {
        let mut bench = Bench::new();
        let login = "ACL GETUSER default";
        let described = |passwords: &str, flags: &str| {
            format!(
                "*12|$5|flags|{flags}$9|passwords|{passwords}$8|commands|$5|+@all|$4|keys|$2|~*|\
                 $8|channels|$2|&*|$9|selectors|*0|"
            )
        };
        let free = described("*0|", "*3|$2|on|$6|nopass|$16|sanitize-payload|");
        let abc = "*1|$64|ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad|";
        let with_abc = described(abc, "*2|$2|on|$16|sanitize-payload|");
        bench.expect(login, &free);
        bench.expect("CONFIG SET requirepass abc", "+OK|");
        bench.expect(login, &with_abc);
        bench.expect("ACL SETUSER default >def >ghi", "+OK|");
        bench.expect("AUTH def", "+OK|");
        bench.expect("CONFIG SET requirepass abc", "+OK|");
        bench.expect(login, &with_abc);
        bench.expect("CONFIG SET requirepass \"\"", "+OK|");
        bench.expect(login, &free);
    }

    #[test]
    fn a_wrong_rule_changes_nothing() {
        for rules in ["-get +nope", "~a*", "#0", "!0", "<other", "foo", "nopass foo", "(on)"] {
            let mut bench = Bench::new();
            bench.expect("CONFIG SET requirepass first", "+OK|");
            let before = bench.call(&["ACL", "LIST"]);
            let words: Vec<_> = rules.split(' ').collect();
            let reply = bench.call(&[&["ACL", "SETUSER", "default"][..], &words].concat());
            if reply == "+OK|" {
                assert_eq!(rules, "{reply}");
                continue;
            }
            assert!(reply.starts_with("-ERR Error in ACL SETUSER modifier '"), "{rules}: {reply}");
            assert_eq!(bench.call(&["ACL", "LIST"]), before, "{rules}");
        }
    }

    #[test]
    fn failed_logins_are_in_the_acl_log() {
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
