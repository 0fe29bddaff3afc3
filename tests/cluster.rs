//! CLUSTER, ASKING, READONLY and READWRITE must be refused as in a Redis without cluster mode.

use harness::{Server, as_redis};

const REFUSED: &str = "-ERR This instance has cluster support disabled\r\n";

/// The commands, with the right number of arguments, whose values do not matter.
const COMMANDS: [&str; 30] = [
    "ASKING",
    "CLUSTER ADDSLOTS 1 x",
    "CLUSTER ADDSLOTSRANGE 1 2",
    "CLUSTER BUMPEPOCH",
    "CLUSTER COUNT-FAILURE-REPORTS x",
    "CLUSTER COUNTKEYSINSLOT 1",
    "CLUSTER DELSLOTS 1",
    "CLUSTER DELSLOTSRANGE 1 2",
    "CLUSTER FAILOVER",
    "CLUSTER FLUSHSLOTS",
    "CLUSTER FORGET x",
    "CLUSTER GETKEYSINSLOT 1 2",
    "CLUSTER HELP",
    "CLUSTER INFO",
    "CLUSTER KEYSLOT a",
    "CLUSTER LINKS",
    "CLUSTER MEET 127.0.0.1 1",
    "CLUSTER MYID",
    "CLUSTER NODES",
    "CLUSTER REPLICAS x",
    "CLUSTER REPLICATE x",
    "CLUSTER RESET SOFT",
    "CLUSTER SAVECONFIG",
    "CLUSTER SET-CONFIG-EPOCH 1",
    "CLUSTER SETSLOT 1 STABLE",
    "CLUSTER SHARDS",
    "CLUSTER SLAVES x",
    "CLUSTER SLOTS",
    "READONLY",
    "READWRITE",
];

#[test]
fn there_is_no_cluster_mode() {
    as_redis(&COMMANDS.map(|command| (command, REFUSED)));
    Server::nagi().connect_resp().check("CLUSTER MYSHARDID", REFUSED);
}

#[test]
fn malformed_requests_are_reported_first() {
    as_redis(&[
        ("CLUSTER", "-ERR wrong number of arguments for 'cluster' command\r\n"),
        ("CLUSTER FOO", "-ERR unknown subcommand 'FOO'. Try CLUSTER HELP.\r\n"),
        ("CLUSTER NODES x", "-ERR wrong number of arguments for 'cluster|nodes' command\r\n"),
        ("CLUSTER KEYSLOT", "-ERR wrong number of arguments for 'cluster|keyslot' command\r\n"),
        ("READONLY x", "-ERR wrong number of arguments for 'readonly' command\r\n"),
        ("COMMAND GETKEYS CLUSTER KEYSLOT a", "-ERR The command has no key arguments\r\n"),
        ("MULTI", "+OK\r\n"),
        ("CLUSTER SLOTS", "+QUEUED\r\n"),
        ("READONLY", "+QUEUED\r\n"),
        ("EXEC", &format!("*2\r\n{REFUSED}{REFUSED}")),
        (
            "EVAL \"return redis.pcall('CLUSTER', 'RESET').err\" 0",
            "$49\r\nERR This Redis command is not allowed from script\r\n",
        ),
        (
            "EVAL \"return redis.pcall('CLUSTER', 'SLOTS').err\" 0",
            "$46\r\nERR This instance has cluster support disabled\r\n",
        ),
    ]);
}
