//! COMMAND INFO and COMMAND DOCS of every command, compared with redis-server's.

use std::collections::BTreeMap;

use harness::{Connection, Reply, Server};

/// Intended differences: the command, the field, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("bgsave", "arguments", "CANCEL is Valkey's"),
    ("acl|cat", "arguments", "7.2 has another name"),
    ("acl|deluser", "tips", "7.2 added them"),
    ("acl|save", "tips", "7.2 added them"),
    ("acl|setuser", "tips", "7.2 added them"),
    ("bitop", "arguments", "7.2 lists the operations"),
    ("blmove", "flags", "7.2: scripts may run it"),
    ("blpop", "flags", "7.2: scripts may run it"),
    ("brpop", "flags", "7.2: scripts may run it"),
    ("brpoplpush", "flags", "7.2: scripts may run it"),
    ("bzpopmax", "flags", "7.2: scripts may run it"),
    ("bzpopmin", "flags", "7.2: scripts may run it"),
    ("client|kill", "arguments", "7.2 lists yes and no"),
    ("client|list", "arguments", "7.2 has no block there"),
    ("client|pause", "since", "7.2 says 3.0.0"),
    ("client|setname", "tips", "7.2 added them"),
    ("cluster|meet", "arguments", "7.2 has another name"),
    ("cluster|setslot", "arguments", "7.2 has other names"),
    ("cluster|shards", "flags", "7.2: while the dataset is loading, too"),
    ("cluster|slots", "flags", "7.2: while the dataset is loading, too"),
    ("command|getkeys", "arity", "7.2: one word less"),
    ("command|getkeys", "arguments", "7.2 has them"),
    ("command|getkeysandflags", "arity", "7.2: one word less"),
    ("command|getkeysandflags", "arguments", "7.2 has them"),
    ("config|get", "arguments", "7.2: the block around the parameters is gone"),
    ("config|resetstat", "tips", "7.2 added them"),
    ("config|rewrite", "tips", "7.2 added them"),
    ("debug", "arguments", "it does take some"),
    ("geohash", "arguments", "7.2: the members may be left out"),
    ("geopos", "arguments", "7.2: the members may be left out"),
    ("georadius", "arguments", "7.2: the two options to store are alternatives"),
    ("georadiusbymember", "arguments", "7.2: the two options to store are alternatives"),
    ("hscan", "arguments", "7.4 added NOVALUES"),
    ("latency|reset", "tips", "7.2: the sum of all nodes"),
    ("lcs", "arguments", "7.2 has another name"),
    ("lolwut", "arguments", "the picture's size and seed"),
    ("migrate", "arguments", "the syntax does not say that the key may be empty"),
    ("migrate", "flags", "it runs where scripts do, so that none may run it"),
    ("module|loadex", "arguments", "7.2 has no block there"),
    ("msetnx", "tips", "8.0 has none: it is for one node"),
    ("pfmerge", "arguments", "7.2: the sources may be left out"),
    ("psetex", "deprecated", "since 7.2"),
    ("psubscribe", "arguments", "7.2: the block around the pattern is gone"),
    ("quit", "deprecated", "since 7.2"),
    ("randomkey", "tips", "7.2: the response is special"),
    ("restore-asking", "flags", "there is no cluster mode, and no flag for it"),
    ("scan", "tips", "7.2: the response is special"),
    ("setex", "deprecated", "since 7.2"),
    ("setnx", "deprecated", "since 7.2"),
    ("sinterstore", "keys", "8.0: the destination is overwritten"),
    ("sort", "arguments", "7.2 has other names"),
    ("sort_ro", "arguments", "7.2 has other names"),
    ("wait", "categories", "7.2: blocking"),
    ("wait", "flags", "7.2: blocking"),
    ("xadd", "arguments", "7.2 has other names"),
    ("xclaim", "arguments", "7.2 has other names"),
    ("xgroup|create", "arguments", "7.2 has other names"),
    ("xgroup|createconsumer", "arguments", "7.2 has other names"),
    ("xgroup|delconsumer", "arguments", "7.2 has other names"),
    ("xgroup|destroy", "arguments", "7.2 has other names"),
    ("xgroup|setid", "arguments", "7.2 has other names"),
    ("xinfo|consumers", "arguments", "7.2 has other names"),
    ("xinfo|stream", "arguments", "7.2: COUNT is beside FULL"),
    ("xsetid", "arguments", "7.2 has other names"),
    ("zrank", "arguments", "7.2 added WITHSCORE"),
    ("zrank", "arity", "7.2 added WITHSCORE"),
    ("zrevrank", "arguments", "7.2 added WITHSCORE"),
    ("zrevrank", "arity", "7.2 added WITHSCORE"),
];

#[test]
fn commands_are_described_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let (of_nagi, of_redis) = (described(&nagi), described(&redis));
    let mut faults = Vec::new();
    let mut used = vec![false; EXCEPTIONS.len()];
    for (name, fields) in &of_nagi {
        let Some(expected) = of_redis.get(name) else { continue };
        for (field, value) in fields {
            let other = &expected[field];
            if value == other {
                continue;
            }
            match EXCEPTIONS.iter().position(|it| it.0 == name && it.1 == *field) {
                Some(place) => used[place] = true,
                None => faults.push(format!("{name} {field}:\n  {value}\n  not\n  {other}")),
            }
        }
    }
    for (exception, _) in EXCEPTIONS.iter().zip(&used).filter(|(_, used)| !**used) {
        faults.push(format!("{exception:?} is not needed"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(of_nagi.len() > 150, "{}", of_nagi.len());
}

type Fields = BTreeMap<&'static str, String>;

/// Returns a server's description of its commands and subcommands, by name.
fn described(server: &Server) -> BTreeMap<String, Fields> {
    let mut client = server.connect_resp();
    client.run("HELLO 3");
    let mut described = BTreeMap::new();
    for command in client.run("COMMAND").list() {
        note(&mut described, command);
    }
    let documented = ask_documentation(&mut client);
    for (name, fields) in &mut described {
        let documentation = &documented[name];
        let text = |field: &str| documentation.get(field).map(Reply::text).unwrap_or_default();
        fields.insert("since", text("since"));
        fields.insert("group", text("group"));
        fields.insert("deprecated", text("deprecated_since"));
        let arguments = documentation.get("arguments").map(arguments);
        fields.insert("arguments", arguments.unwrap_or_default());
    }
    described
}

fn note(described: &mut BTreeMap<String, Fields>, command: &Reply) {
    let fields = command.list();
    let positions: Vec<_> = fields[3..6].iter().map(Reply::integer).collect();
    let specifications = fields[8].list().iter().map(specification);
    described.insert(
        fields[0].text(),
        Fields::from([
            ("arity", fields[1].integer().to_string()),
            ("flags", sorted(&fields[2])),
            ("positions", format!("{positions:?}")),
            ("categories", sorted(&fields[6])),
            ("tips", sorted(&fields[7])),
            ("keys", specifications.collect::<Vec<_>>().join("; ")),
        ]),
    );
    fields[9].list().iter().for_each(|subcommand| note(described, subcommand));
}

fn sorted(words: &Reply) -> String {
    let mut words: Vec<_> = words.list().iter().map(Reply::text).collect();
    words.sort();
    words.join(" ")
}

/// Describes a key specification without its notes, whose wording differs from Redis'.
fn specification(specification: &Reply) -> String {
    let fields = map(specification);
    let rest = ["begin_search", "find_keys"].map(|name| format!("{:?}", fields[name]));
    format!("{} {}", sorted(fields["flags"]), rest.join(" "))
}

fn map(reply: &Reply) -> BTreeMap<String, &Reply> {
    reply.list().chunks(2).map(|pair| (pair[0].text(), &pair[1])).collect()
}

type Documentation = BTreeMap<String, Reply>;

fn ask_documentation(client: &mut Connection) -> BTreeMap<String, Documentation> {
    let mut all = BTreeMap::new();
    add_documentation(&mut all, &client.run("COMMAND DOCS"));
    all
}

fn add_documentation(all: &mut BTreeMap<String, Documentation>, documented: &Reply) {
    for (name, fields) in map(documented) {
        let fields = map(fields);
        if let Some(subcommands) = fields.get("subcommands") {
            add_documentation(all, subcommands);
        }
        all.insert(name, fields.into_iter().map(|(name, it)| (name, it.clone())).collect());
    }
}

/// Describes a tree of arguments, without the names of arguments that consist of other arguments:
/// such names are never shown.
fn arguments(arguments: &Reply) -> String {
    let one = |argument: &Reply| {
        let fields = map(argument);
        let text = |name: &str| fields.get(name).map(|it| it.text()).unwrap_or_default();
        let flags = fields.get("flags").map(|it| sorted(it)).unwrap_or_default();
        let place = fields.get("key_spec_index").map(|it| it.integer());
        let inner = match fields.get("arguments") {
            Some(parts) => self::arguments(parts),
            None => text("name"),
        };
        format!("{}:{}{place:?} {flags}({inner})", text("type"), text("token"))
    };
    arguments.list().iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Redis 8.0.6's commands: name, group, arguments.
const OF_REDIS_8: &str = include_str!("reference/redis-8.0.6.tsv");

/// The groups in which every command is implemented with every option.
const COMPLETE_GROUPS: &[&str] = &[
    "bitmap",
    "cluster",
    "generic",
    "geo",
    "hash",
    "hyperloglog",
    "list",
    "pubsub",
    "set",
    "sorted-set",
    "stream",
    "string",
    "transactions",
];

/// Commands of these groups that are missing or different nevertheless, with the reasons.
const NOT_AS_IN_REDIS_8: &[(&str, &str)] =
    &[("migrate", "its key may be empty, which the syntax does not say")];

fn lines_of(described: &BTreeMap<String, Documentation>) -> BTreeMap<String, (String, String)> {
    let line = |(name, fields): (&String, &Documentation)| {
        let text = |field: &str| fields.get(field).map(Reply::text).unwrap_or_default();
        let arguments = fields.get("arguments").map(arguments).unwrap_or_default();
        (name.clone(), (text("group"), arguments))
    };
    described.iter().map(line).collect()
}

#[test]
fn no_command_of_redis_8_is_missing() {
    if let Ok(port) = std::env::var("NAGI_REDIS_8_PORT") {
        return write_reference(&port);
    }
    let server = Server::nagi();
    let of_nagi = lines_of(&ask_documentation(&mut server.connect_resp()));
    let mut faults = BTreeMap::new();
    for line in OF_REDIS_8.lines() {
        let [name, group, arguments] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not three fields: {line}");
        };
        if !COMPLETE_GROUPS.contains(&group) {
            continue;
        }
        match of_nagi.get(name) {
            None => _ = faults.insert(name, "it is missing".to_owned()),
            Some((_, others)) if others != arguments => {
                faults.insert(name, format!("  {others}\n  not\n  {arguments}"));
            }
            Some(_) => {}
        }
    }
    for (name, reason) in NOT_AS_IN_REDIS_8 {
        let fault = faults.remove(name);
        assert!(fault.is_some(), "{name} ({reason}) is as in Redis");
    }
    let faults: Vec<_> = faults.iter().map(|(name, fault)| format!("{name}: {fault}")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Rewrites the reference from the replies of a Redis 8.0.6 that listens on this port.
fn write_reference(port: &str) {
    let port: u16 = port.parse().expect("NAGI_REDIS_8_PORT is a port");
    let mut client = Connection::open(([127, 0, 0, 1], port).into());
    let lines = lines_of(&ask_documentation(&mut client));
    let text: String = lines
        .iter()
        .map(|(name, (group, arguments))| format!("{name}\t{group}\t{arguments}\n"))
        .collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/redis-8.0.6.tsv");
    std::fs::write(path, text).expect("the reference can be written");
}
