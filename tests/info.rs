//! INFO compared with redis-server's: it must have all of its fields, with correct numbers.

use std::collections::BTreeSet;

use harness::{Connection, Server};

/// Fields of Redis that nagi does not have, with the reasons.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("atomicvar_api", "how Redis was compiled"),
    ("current_eviction_exceeded_time", "nothing counts the time over the limit"),
    ("gcc_version", "how Redis was compiled"),
    ("redis_build_id", "how Redis was compiled"),
    ("redis_git_dirty", "how Redis was compiled"),
    ("redis_git_sha1", "how Redis was compiled"),
    ("reply_buffer_expands", "no client keeps a buffer of its own"),
    ("reply_buffer_shrinks", "no client keeps a buffer of its own"),
    ("total_eviction_exceeded_time", "nothing counts the time over the limit"),
];

/// Returns the pairs of section and field, which must be equal.
fn fields(client: &mut Connection) -> BTreeSet<(String, String)> {
    let mut section = String::new();
    let mut fields = BTreeSet::new();
    for line in client.run("INFO everything").text().lines() {
        match (line.strip_prefix("# "), line.split_once(':')) {
            (Some(title), _) => {
                title.clone_into(&mut section);
                fields.insert((section.clone(), String::new()));
            }
            (None, Some((name, _))) => {
                fields.insert((section.clone(), name.to_owned()));
            }
            (None, None) => {}
        }
    }
    fields
}

#[test]
fn every_field_of_redis_is_there() {
    let of = |server: Server| {
        let mut client = server.connect_resp();
        for request in ["SET key value", "EXPIRE key 100", "GET key", "FOO"] {
            client.run(request);
        }
        fields(&mut client)
    };
    let (nagi, redis) = (of(Server::nagi()), of(Server::redis()));
    let is_exception = |name: &str| EXCEPTIONS.iter().any(|exception| exception.0 == name);
    let missing: Vec<_> = redis.difference(&nagi).filter(|field| !is_exception(&field.1)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for (name, reason) in EXCEPTIONS {
        let is_there = |fields: &BTreeSet<(String, String)>| fields.iter().any(|it| it.1 == *name);
        assert!(is_there(&redis) && !is_there(&nagi), "{name} is no exception: {reason}");
    }
}

/// Fields that Redis 8.0.6 has and 7.0 does not: section and name.
const OF_REDIS_8: &[(&str, &str)] = &[
    ("Clients", "pubsub_clients"),
    ("Clients", "total_blocking_keys"),
    ("Clients", "total_blocking_keys_on_nokey"),
    ("Clients", "total_watched_keys"),
    ("Clients", "watching_clients"),
    ("Memory", "mem_overhead_db_hashtable_rehashing"),
    ("Memory", "mem_replica_full_sync_buffer"),
    ("Persistence", "rdb_saves"),
    ("Stats", "client_output_buffer_limit_disconnections"),
    ("Stats", "client_query_buffer_limit_disconnections"),
    ("Stats", "eventloop_cycles"),
    ("Stats", "eventloop_duration_sum"),
    ("Stats", "evicted_scripts"),
    ("Stats", "expired_subkeys"),
    ("Stats", "instantaneous_eventloop_cycles_per_sec"),
    ("Stats", "instantaneous_eventloop_duration_usec"),
    ("Threads", "io_thread_0"),
    ("Threads", "io_thread_1"),
];

/// Fields of Redis 8.0.6 that nagi does not have, with the reasons.
const NOT_OF_REDIS_8: &[(&str, &str)] = &[
    ("allocator_muzzy", "the allocator has no such pages"),
    ("db0_distrib_strings_sizes", "sizes would have to be counted at each change"),
    ("eventloop_duration_cmd_sum", "brief commands are timed by samples"),
];

#[test]
fn fields_of_redis_8_are_there() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    let all = fields(&mut client);
    for (section, name) in OF_REDIS_8 {
        let field = ((*section).to_owned(), (*name).to_owned());
        assert!(all.contains(&field), "{name} is not in {section}");
    }
    for (name, reason) in NOT_OF_REDIS_8 {
        assert!(all.iter().all(|field| field.1 != *name), "{name} is no exception: {reason}");
    }
}

#[test]
fn sections_are_chosen_as_with_redis() {
    // Redis has had threads since 8.0.
    let own = ["Phases", "Workers", "Threads"];
    for request in [
        "INFO",
        "INFO all",
        "INFO everything",
        "INFO default",
        "INFO server all",
        "INFO modules cpu",
        "INFO default commandstats",
        "INFO nosuch",
    ] {
        let titles = |server: &Server| -> Vec<String> {
            let text = server.connect_resp().run(request).text();
            let titles = text.lines().filter_map(|line| line.strip_prefix("# "));
            titles.filter(|title| !own.contains(title)).map(str::to_owned).collect()
        };
        assert_eq!(titles(&Server::nagi()), titles(&Server::redis()), "{request}");
    }
}

#[test]
fn figures_are_true() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let number = |client: &mut Connection, section: &str, name: &str| -> i64 {
        let text = client.run(&format!("INFO {section}")).text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let before = number(&mut client, "memory", "used_memory");
    client.run_words(&[b"SET".as_slice(), b"big", &vec![b'x'; 20 << 20]]);
    let used = number(&mut client, "memory", "used_memory");
    assert!((20 << 20..40 << 20).contains(&(used - before)), "{before} {used}");
    client.run("DEL big");
    assert!(number(&mut client, "memory", "used_memory_peak") >= used);
    for _ in 0..3 {
        client.run("INCR n");
    }
    client.run("APPEND");
    // SET, DEL and three INCRs are five changes.
    assert_eq!(number(&mut client, "persistence", "rdb_changes_since_last_save"), 5);
    let reads = number(&mut client, "stats", "total_reads_processed");
    assert!(reads >= 10, "{reads}");
    let turns = number(&mut client, "stats", "eventloop_cycles");
    assert!(number(&mut client, "stats", "eventloop_cycles") > turns);
    assert!(number(&mut client, "stats", "eventloop_duration_sum") > 0);
    let threads = client.run("INFO threads").text();
    let counted = |name: &str| -> u64 {
        let values = threads.lines().filter_map(|line| line.split_once(name)?.1.split(',').next());
        values.map(|value| value.parse::<u64>().expect("a number")).sum()
    };
    assert_eq!(counted("clients="), 1, "{threads}");
    assert!(counted("reads=") >= 10 && counted("writes=") >= 10, "{threads}");
    client.run("DEL n");
    client.run("SET short 1 EX 100");
    let keyspace = client.run("INFO keyspace").text();
    let (_, mean) = keyspace.split_once("avg_ttl=").expect("a mean");
    let mean: u64 = mean.split(',').next().unwrap_or_default().parse().expect("milliseconds");
    assert!((90_000..=100_000).contains(&mean), "{keyspace}");
}

/// nagi's mean covers all keys that expire; Redis averages only the keys that its expiry cycle
/// samples.
#[test]
fn the_mean_time_to_live_is_that_of_keys_that_expire() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let mut mean_ms = || -> u64 {
        let keyspace = client.run("INFO keyspace").text().to_owned();
        let (_, mean) = keyspace.split_once("avg_ttl=").expect("a mean");
        mean.split(',').next().unwrap_or_default().parse().expect("milliseconds")
    };
    let mut other = server.connect_resp();
    // Every tenth key expires.
    for key in 0..200 {
        other.check(
            &format!("SET {key} value{}", if key % 10 == 0 { " EX 100" } else { "" }),
            "+OK\r\n",
        );
    }
    for _ in 0..20 {
        assert!((60_000..=100_000).contains(&mean_ms()));
    }
    other.check("FLUSHALL", "+OK\r\n");
    other.check("SET late value PXAT 9223372036854775807", "+OK\r\n");
    assert!(mean_ms() > 9_000_000_000_000_000_000);
}

/// Scripts choose the codes of their errors.
#[test]
fn codes_of_errors_are_no_other_lines() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let script = "return {err='X:1\\r\\nmaxmemory:7\\r\\n# Y'}";
    client.run(&format!("EVAL \"{script}\" 0"));
    let errors = client.run("INFO errorstats").text();
    assert!(errors.contains("\r\nerrorstat_X_1__maxmemory_7___:count=1\r\n"), "{errors}");
}
