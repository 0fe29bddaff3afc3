//! Cluster commands, with the replies of Redis without cluster mode. Clients request the slots when
//! they connect, and take the error as a sign that this server has all keys.

use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&ASKING, &CLUSTER, &READONLY, &READWRITE];

const SUBCOMMANDS: &[&Command] = &[
    &command("ADDSLOTS", "slot [slot ...]", -3, CHANGES),
    &Command {
        since: "7.0.0",
        ..command("ADDSLOTSRANGE", "start-slot end-slot [start-slot end-slot ...]", -4, CHANGES)
    },
    &Command { notes: VARYING, ..command("BUMPEPOCH", "", 2, CHANGES) },
    &Command { notes: VARYING, ..command("COUNT-FAILURE-REPORTS", "node-id", 3, ADMIN) },
    &command("COUNTKEYSINSLOT", "slot", 3, Flags::STALE),
    &command("DELSLOTS", "slot [slot ...]", -3, CHANGES),
    &Command {
        since: "7.0.0",
        ..command("DELSLOTSRANGE", "start-slot end-slot [start-slot end-slot ...]", -4, CHANGES)
    },
    &command("FAILOVER", "[FORCE | TAKEOVER]", -2, CHANGES),
    &command("FLUSHSLOTS", "", 2, CHANGES),
    &command("FORGET", "node-id", 3, CHANGES),
    &Command { notes: VARYING, ..command("GETKEYSINSLOT", "slot count", 4, Flags::STALE) },
    &Command { since: "5.0.0", ..command("HELP", "", 2, Flags::LOADING.union(Flags::STALE)) },
    &Command { notes: VARYING, ..command("INFO", "", 2, Flags::STALE) },
    &command("KEYSLOT", "key", 3, Flags::STALE),
    &Command { since: "7.0.0", notes: VARYING, ..command("LINKS", "", 2, Flags::STALE) },
    &Command {
        notes: Notes::of("O(1)").history(&[("4.0.0", "The port of the cluster's bus")]),
        ..command("MEET", "ip port [cluster-bus-port]", -4, CHANGES)
    },
    &command("MYID", "", 2, Flags::STALE),
    &Command { since: "7.2.0", notes: VARYING, ..command("MYSHARDID", "", 2, Flags::STALE) },
    &Command { notes: VARYING, ..command("NODES", "", 2, Flags::STALE) },
    &Command { since: "5.0.0", notes: VARYING, ..command("REPLICAS", "node-id", 3, ADMIN) },
    &command("REPLICATE", "node-id", 3, CHANGES),
    &command("RESET", "[HARD | SOFT]", -2, ADMIN.union(Flags::NOSCRIPT)),
    &command("SAVECONFIG", "", 2, CHANGES),
    &command("SET-CONFIG-EPOCH", "config-epoch", 3, CHANGES),
    &command(
        "SETSLOT",
        "slot <IMPORTING importing | MIGRATING migrating | NODE node | STABLE>",
        -4,
        CHANGES,
    ),
    &Command {
        since: "7.0.0",
        notes: VARYING,
        ..command("SHARDS", "", 2, Flags::LOADING.union(Flags::STALE))
    },
    &Command {
        notes: VARYING.replaced("5.0.0", "CLUSTER REPLICAS"),
        ..command("SLAVES", "node-id", 3, ADMIN)
    },
    &Command {
        notes: VARYING
            .history(&[("4.0.0", "Ids of nodes"), ("7.0.0", "More about where a node listens")])
            .replaced("7.0.0", "CLUSTER SHARDS"),
        ..command("SLOTS", "", 2, Flags::LOADING.union(Flags::STALE))
    },
];

/// Flags of subcommands for administrators.
const ADMIN: Flags = Flags::ADMIN.union(Flags::STALE);
/// Flags of subcommands that change a node.
const CHANGES: Flags = ADMIN.union(Flags::NO_ASYNC_LOADING);

/// Notes of commands whose replies differ between the nodes of a cluster.
const VARYING: Notes = Notes::of("O(1)").tips(&["nondeterministic_output"]);

/// Creates the row of a command that is always refused.
const fn command(name: &'static str, syntax: &'static str, arity: i8, flags: Flags) -> Command {
    Command {
        name,
        syntax,
        arity,
        flags,
        keys: Keys::NONE,
        categories: Category::empty(),
        group: Group::Cluster,
        since: "3.0.0",
        notes: Notes::of("O(1)"),
        summary: "Answers that there is no cluster mode",
        subcommands: &[],
        run: refuse,
    }
}

fn refuse<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::fixed("ERR This instance has cluster support disabled"))
}

pub(crate) static CLUSTER: Command = Command {
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands of clusters, all of which are refused",
    subcommands: SUBCOMMANDS,
    run: |_, _| Err(Error::wrong_arity("cluster")),
    ..command("CLUSTER", "subcommand", -2, Flags::empty())
};

/// Flags of commands that declare what a client reads from a node.
const READING: Flags = Flags::FAST.union(Flags::LOADING).union(Flags::STALE);

pub(crate) static ASKING: Command =
    Command { categories: Category::CONNECTION, ..command("ASKING", "", 1, Flags::FAST) };

pub(crate) static READONLY: Command =
    Command { categories: Category::CONNECTION, ..command("READONLY", "", 1, READING) };

pub(crate) static READWRITE: Command =
    Command { categories: Category::CONNECTION, ..command("READWRITE", "", 1, READING) };

#[cfg(test)]
mod tests {
    use crate::testing::converse;

    #[test]
    fn there_is_no_cluster_mode() {
        converse(
            "CLUSTER SLOTS => -ERR This instance has cluster support disabled|
             cluster keyslot a => -ERR This instance has cluster support disabled|
             CLUSTER HELP => -ERR This instance has cluster support disabled|
             CLUSTER => -ERR wrong number of arguments for 'cluster' command|
             CLUSTER NODES x => -ERR wrong number of arguments for 'cluster|nodes' command|
             CLUSTER FOO => -ERR unknown subcommand 'FOO'. Try CLUSTER HELP.|
             ASKING => -ERR This instance has cluster support disabled|
             READONLY => -ERR This instance has cluster support disabled|
             READWRITE x => -ERR wrong number of arguments for 'readwrite' command|",
        );
    }
}
