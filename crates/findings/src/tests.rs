//! Diagnoses of made-up observations, including faults that no test can inject into a real server.

use super::*;
use crate::observation::{
    AcceptQueue, BusyThread, Client, Counters, DeviceLosses, Failure, Host, KeyCosts, LargeRequest,
    LatencyEvent, Placement, Ports, Pressure, Probes, Process, QueueDiscipline, Sample, Server,
    SlowRequest, TcpConnections, Throttling, Times, Transfer,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A healthy server, observed on its own host.
fn healthy() -> Observation {
    let figures = [
        ("redis_version", "7.0.15"),
        ("connected_clients", "10"),
        ("maxclients", "10000"),
        ("total_connections_received", "20"),
        ("total_commands_processed", "1000"),
        ("used_memory", "1000000"),
        ("used_memory_rss", "2000000"),
        ("maxmemory", "0"),
        ("latest_fork_usec", "0"),
        ("aof_enabled", "0"),
        ("rdb_last_bgsave_status", "ok"),
        ("expired_keys", "0"),
        ("cmdstat_get", "calls=900,usec=1800"),
    ];
    let figures: BTreeMap<String, String> =
        figures.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut counters = Counters { before: figures.clone(), after: figures };
    counters.after.insert("total_commands_processed".to_owned(), "9000".to_owned());
    let clients = vec![vec![Client { id: 1, ..<_>::default() }]; 2];
    Observation {
        seconds: 20.0,
        server: Server { counters, clients, ..<_>::default() },
        probes: Probes {
            pings: Times::new(vec![100; 2000]),
            connects: Times::new(vec![100; 100]),
            own_delays: Times::new(vec![60; 2000]),
            transfers: [(1 << 10, 100), (1 << 20, 1000)]
                .map(|(bytes, time)| Transfer { bytes, up_us: time, down_us: time })
                .into(),
            ..<_>::default()
        },
        host: Host {
            has_server: true,
            ports: Some(Ports { range: 28_232, used: 20, ..<_>::default() }),
            listen_overflows: Some(0),
            process: Some(Process { busiest: Some(BusyThread::default()), ..<_>::default() }),
            ..<_>::default()
        },
        ..<_>::default()
    }
}

/// Returns the diagnosis after `change` to a healthy server.
fn diagnose_with(change: impl FnOnce(&mut Observation)) -> Diagnosis {
    let mut observation = healthy();
    change(&mut observation);
    diagnose(&observation)
}

fn names(diagnosed: &[Diagnosed]) -> Vec<&'static str> {
    diagnosed.iter().map(|it| it.finding.name).collect()
}

fn found_with(change: impl FnOnce(&mut Observation)) -> Vec<&'static str> {
    names(&diagnose_with(change).found)
}

fn set(observation: &mut Observation, name: &str, value: &str) {
    observation.server.counters.after.insert(name.to_owned(), value.to_owned());
}

fn process(observation: &mut Observation) -> &mut Process {
    observation.host.process.get_or_insert_default()
}

#[test]
fn a_healthy_server_has_no_findings() {
    let diagnosis = diagnose(&healthy());
    assert_eq!(names(&diagnosis.found), [""; 0]);
    assert_eq!(names(&diagnosis.noticed), [""; 0]);
    let unknown: Vec<&str> = diagnosis.unknown.iter().map(|(it, _)| it.name).collect();
    assert_eq!(unknown, ["hot-key", "clients-hash-differently"]);
}

#[test]
fn servers_that_report_too_many_bytes_are_evaluated() {
    let client = |id| Client { id, output_bytes: u64::MAX, ..<_>::default() };
    let found = found_with(|it| it.server.clients = vec![vec![client(1), client(2)]; 2]);
    assert_eq!(found, ["slow-reader"]);
}

#[test]
fn rows_have_unique_names_and_existing_causes() {
    let known: BTreeSet<&str> = all().map(|finding| finding.name).collect();
    assert_eq!(known.len(), all().count());
    for finding in all() {
        assert!(finding.explained_by.iter().all(|cause| known.contains(cause)), "{finding:?}");
        assert!(!finding.explained_by.contains(&finding.name), "{finding:?}");
        assert!(!finding.remedies.is_empty(), "{finding:?}");
    }
}

/// Changes the server to a memcached that has answered `gets` over `connections` connections, which
/// include the doctor's.
fn memcached_with(gets: u32, connections: u32) -> impl FnOnce(&mut Observation) {
    move |it| {
        it.server.is_memcached = true;
        it.probes.sent_requests = 100;
        let figures = |counts: [u32; 3]| -> BTreeMap<String, String> {
            let names = ["cmd_get", "cmd_set", "total_connections"];
            names.into_iter().map(str::to_owned).zip(counts.map(|it| it.to_string())).collect()
        };
        let before = figures([0; 3]);
        it.server.counters = Counters { before, after: figures([50 + gets, 50, connections]) };
    }
}

#[test]
fn pings_are_not_taken_for_requests_that_memcached_counts() {
    // The doctor opens 100 connections and sends 2000 pings; memcached does not count the pings.
    let finds = |gets, connections| {
        found_with(memcached_with(gets, connections)).contains(&"no-keep-alive")
    };
    assert!(!finds(7 * 500, 500 + 108), "seven requests a connection");
    assert!(finds(500, 500 + 108), "one request a connection");
    let diagnosis = diagnose_with(memcached_with(1000, 500 + 108));
    let verdict = &diagnosis.found.iter().find(|it| it.finding.name == "no-keep-alive");
    let verdict = &verdict.expect("it is found").evidence.verdict;
    assert!(verdict.contains("every 2.0 requests: 25 connections"), "{verdict}");
}

#[test]
fn used_up_ports_are_found_and_explain_missing_keep_alive() {
    let diagnosis = diagnose_with(|it| {
        it.host.ports = Some(Ports {
            local: "10.0.0.7".to_owned(),
            remote: "10.0.0.5:6379".to_owned(),
            range: 28_232,
            time_wait: 28_211,
            used: 28_220,
            reuse: Some(0),
        });
        it.probes.connects = Times::new(vec![100; 49]);
        it.probes.failures.insert(Failure::NoPort, 51);
        set(it, "total_connections_received", "9420");
        set(it, "total_commands_processed", "10400");
    });
    assert_eq!(names(&diagnosis.found), ["ports-used-up", "no-keep-alive"]);
    assert_eq!(diagnosis.found[1].explained_by, Some("ports-used-up"));
    let verdict = &diagnosis.found[0].evidence.verdict;
    let expected = "Local ports from 10.0.0.7 to 10.0.0.5:6379 are used up: 28211 of 28232 are in \
                TIME_WAIT, 28220 in use in all; 470 connections a second succeed and about 489 \
                fail, as did 51 of the doctor's own 100.";
    assert!(verdict.starts_with(expected), "{verdict}");
    let all_failed = diagnose_with(|it| {
        it.host.ports = Some(Ports { range: 100, used: 100, ..<_>::default() });
        it.probes.failures.insert(Failure::NoPort, 7);
        it.probes.connects = Times::default();
    });
    let verdict = &all_failed.found[0].evidence.verdict;
    assert!(verdict.contains("succeed and all 7 of the doctor's own failed."), "{verdict}");
}

#[test]
fn a_connection_that_is_just_closed_does_not_show_a_full_server() {
    let failing = |failure| {
        diagnose_with(|it| {
            it.host = Host::default();
            it.server.counters = Counters::default();
            it.probes = Probes { failures: [(failure, 8)].into(), ..<_>::default() };
        })
    };
    assert_eq!(names(&failing(Failure::Closed).found), [""; 0]);
    let refused = failing(Failure::TurnedAway);
    assert_eq!(names(&refused.found), ["clients-refused"]);
    let verdict = &refused.found[0].evidence.verdict;
    assert_eq!(
        verdict,
        "The server refuses clients, 8 in 20 s: it reports that the maximum number of clients is \
         reached."
    );
    assert!(refused.found[0].evidence.numbers.iter().all(|(_, value)| !value.starts_with('-')));
    let with_rejected = |all, unprotected| {
        let diagnosis = diagnose_with(|it| {
            set(it, "rejected_connections", all);
            set(it, "rejected_by_protected_mode", unprotected);
        });
        diagnosis.found.into_iter().map(|it| it.evidence.verdict).collect::<Vec<_>>()
    };
    assert_eq!(with_rejected("5", "5"), [""; 0]);
    assert!(with_rejected("7", "5")[0].starts_with("The server refuses clients, 2 in 20 s: "));
    let full = diagnose_with(|it| set(it, "connected_clients", "9700"));
    assert_eq!(
        full.found[0].evidence.verdict,
        "The server will soon refuse clients: 9700 of 10000 allowed clients are connected."
    );
}

#[test]
fn remedies_for_connections_name_the_calls_of_usual_clients() {
    for name in ["ports-used-up", "clients-refused", "no-keep-alive"] {
        let finding = all().find(|finding| finding.name == name).unwrap();
        let text = finding.remedies.join("\n");
        for call in ["max_connections=N", "setMaxTotal(N)", "pconnect", "redisContext"] {
            assert!(text.contains(call), "{name}: {call}");
        }
    }
}

#[test]
fn a_full_queue_is_found_only_where_it_is_the_servers() {
    let queue = |drops, was_full, other_listeners| {
        let queue = AcceptQueue {
            waiting: 3,
            length: Some(128),
            drops,
            was_full,
            other_listeners: Some(other_listeners),
        };
        let diagnosis = diagnose_with(|it| {
            it.host.listen_overflows = Some(27);
            it.host.accept_queue = Some(queue);
        });
        (names(&diagnosis.found), names(&diagnosis.noticed))
    };
    let (found, noticed) = ((vec!["accept-queue"], vec![]), (vec![], vec!["accept-queue"]));
    assert_eq!(queue(Some(9), false, 4), found);
    assert_eq!(queue(Some(0), true, 0), (vec![], vec![]));
    assert_eq!(queue(None, true, 4), found);
    assert_eq!(queue(None, false, 0), found);
    assert_eq!(queue(None, false, 4), noticed);
    let unseen = diagnose_with(|it| it.host.listen_overflows = Some(27));
    assert_eq!((names(&unseen.found), names(&unseen.noticed)), noticed);
    let none = diagnose_with(|it| it.host.accept_queue = Some(AcceptQueue::default()));
    assert_eq!((names(&none.found), names(&none.noticed)), (vec![], vec![]));
}

#[test]
fn swap_is_found_if_pages_come_back() {
    let in_swap = |faults| {
        move |it: &mut Observation| {
            process(it).swap_bytes = Some(200_000_000);
            process(it).major_faults = Some(faults);
        }
    };
    assert_eq!(found_with(in_swap(500)), ["swapping"]);
    let diagnosis = diagnose_with(in_swap(0));
    assert_eq!((diagnosis.found.len(), names(&diagnosis.noticed)), (0, vec!["swapping"]));
}

#[test]
fn a_limit_on_processor_time_explains_a_busy_thread() {
    let diagnosis = diagnose_with(|it| {
        let throttled_periods = 90;
        process(it).throttling =
            Some(Throttling { periods: 200, throttled_periods, throttled_us: 5_000_000 });
        process(it).busiest = Some(BusyThread { name: "main".to_owned(), used: 0.5, waited: 0.5 });
    });
    assert_eq!(names(&diagnosis.found), ["cpu-throttled", "one-thread-busy"]);
    assert_eq!(diagnosis.found[1].explained_by, Some("cpu-throttled"));
}

#[test]
fn a_thread_that_waits_for_processors_is_busy_only_if_it_works() {
    let busy = |used, waited| {
        found_with(|it| {
            let name = "main".to_owned();
            process(it).busiest = Some(BusyThread { name, used, waited });
        })
    };
    assert_eq!(busy(0.5, 0.45), ["one-thread-busy"]);
    assert_eq!(busy(0.2, 0.8), [""; 0]);
    assert_eq!(busy(0.95, 0.0), ["one-thread-busy"]);
}

#[test]
fn delays_are_not_found_while_the_doctor_itself_is_late() {
    let slow = |own| {
        move |it: &mut Observation| {
            it.probes.pings = Times::new([vec![100; 1000], vec![400_000; 300]].concat());
            it.probes.own_delays = Times::new(own);
            it.probes.transfers = vec![
                Transfer { bytes: 1 << 10, up_us: 100, down_us: 100 },
                Transfer { bytes: 1 << 20, up_us: 200_000, down_us: 200_000 },
            ];
            set(it, "cmdstat_keys", "calls=20,usec=8000000");
        }
    };
    let own = [vec![60; 1000], vec![300_000; 300]].concat();
    let found = found_with(slow(vec![60; 2000]));
    assert_eq!(found, ["slow-commands", "narrow-link"]);
    assert_eq!(found_with(slow(own)), [""; 0]);
}

#[test]
fn an_older_fork_is_a_notice() {
    let fork = |forks: &'static str| {
        diagnose_with(|it| {
            set(it, "latest_fork_usec", "30000");
            set(it, "total_forks", forks);
        })
    };
    assert_eq!(names(&fork("0").noticed), ["fork-stall"]);
    assert_eq!(names(&fork("1").found), ["fork-stall"]);
}

#[test]
fn a_queue_that_delays_packets_is_evidence_of_a_narrow_link() {
    let diagnosis = diagnose_with(|it| {
        it.probes.transfers = [(1 << 10, 10_000), (1 << 16, 500_000)]
            .map(|(bytes, time)| Transfer { bytes, up_us: time, down_us: 100 })
            .into();
        it.host.disciplines = vec![QueueDiscipline {
            device: "c0".to_owned(),
            kind: "tbf".to_owned(),
            bytes_per_second: Some(162_500),
            dropped: 3,
            held_back: 400,
        }];
    });
    assert_eq!(names(&diagnosis.found), ["narrow-link"]);
    let shown = "tbf on c0 (162 kB a second): held back 400 times, dropped 3";
    let numbers = &diagnosis.found[0].evidence.numbers;
    assert!(numbers.iter().any(|(_, value)| value == shown), "{numbers:?}");
}

#[test]
fn a_link_loses_packets_if_segments_are_sent_again() {
    let with = |segments, retransmitted| {
        diagnose_with(|it| {
            it.host.tcp = Some(TcpConnections {
                connections: 3,
                segments,
                retransmitted,
                least_round_trip_us: Some(210),
                ..<_>::default()
            });
            let device = "eth0".to_owned();
            it.host.devices = vec![DeviceLosses { device, errors: 0, dropped: 40 }];
        })
    };
    let found = with(500, 20);
    assert_eq!(names(&found.found), ["lossy-link"]);
    let Evidence { verdict, numbers } = &found.found[0].evidence;
    assert!(verdict.contains("20 of 500 segments (4.0 %) were retransmitted on 3 "), "{verdict}");
    for (name, value) in [
        ("shortest round trip of TCP", "210 us"),
        ("packets on eth0, of all hosts", "0 with errors, 40 dropped"),
    ] {
        assert!(numbers.contains(&(name.to_owned(), value.to_owned())), "{numbers:?}");
    }
    // A small number may be chance, whatever its share.
    assert_eq!(with(100, 4).found.len(), 0);
    assert_eq!(names(&with(2000, 4).noticed), ["lossy-link"]);
    assert_eq!((with(9000, 4).found.len(), with(9000, 4).noticed.len()), (0, 0));
}

#[test]
fn a_server_behind_a_narrow_link_is_not_frozen() {
    let found = found_with(|it| {
        it.host = Host::default();
        it.probes.pings = Times::new([vec![100; 50], vec![1_800_000; 5]].concat());
        it.probes.transfers = [(1 << 10, 7000), (1 << 15, 211_000)]
            .map(|(bytes, time)| Transfer { bytes, up_us: time, down_us: 10 })
            .into();
    });
    assert_eq!(found, ["narrow-link"]);
}

#[test]
fn a_server_behind_packet_loss_is_not_frozen() {
    let found = found_with(|it| {
        let tcp = TcpConnections { segments: 400, retransmitted: 30, ..<_>::default() };
        it.host = Host { tcp: Some(tcp), ..<_>::default() };
        it.probes.pings = Times::new([vec![100; 50], vec![1_400_000; 5]].concat());
    });
    assert_eq!(found, ["lossy-link"]);
}

#[test]
fn a_silent_server_of_another_host_is_frozen() {
    let found = found_with(|it| {
        it.host = Host::default();
        it.server.counters = Counters::default();
        it.probes.pings = Times::new(vec![4_000_000]);
    });
    assert_eq!(found, ["frozen"]);
}

#[test]
fn a_save_that_failed_is_found() {
    let diagnosis = diagnose_with(|it| {
        set(it, "rdb_last_bgsave_status", "err");
        set(it, "aof_last_write_status", "ok");
        set(it, "rdb_changes_since_last_save", "7");
    });
    assert_eq!(names(&diagnosis.found), ["failed-saves"]);
    let verdict = &diagnosis.found[0].evidence.verdict;
    assert_eq!(
        verdict,
        "Saving fails: the last save failed, and 7 changes would be lost with the process."
    );
    assert_eq!(found_with(|it| set(it, "aof_last_write_status", "err")), ["failed-saves"]);
}

#[test]
fn from_within_only_rows_that_need_no_requests_are_evaluated() {
    let mut observation = healthy();
    observation.host = Host::default();
    observation.probes = Probes::default();
    let diagnosis = diagnose_from_within(&observation);
    assert_eq!(diagnosis.findings().count(), 0);
    assert!(diagnosis.healthy.iter().all(|finding| finding.from_within));
    set(&mut observation, "evicted_keys", "900");
    set(&mut observation, "cmdstat_keys", "calls=20,usec=8000000");
    let diagnosis = diagnose_from_within(&observation);
    let told: Vec<(&str, &str)> =
        diagnosis.findings().map(|(level, it)| (level, it.finding.name)).collect();
    assert_eq!(told, [("finding", "memory-at-its-limit")]);
}

#[test]
fn refused_writes_of_both_protocols_are_found() {
    let verdict = |change: &dyn Fn(&mut Observation)| {
        let diagnosis = diagnose_with(|it| {
            memcached_with(900, 1)(it);
            set(it, "bytes", "50");
            set(it, "limit_maxbytes", "100");
            change(it);
        });
        let mut found = diagnosis.found.into_iter();
        let found = found.find(|it| it.finding.name == "memory-at-its-limit");
        found.map_or(String::new(), |it| it.evidence.verdict)
    };
    assert_eq!(verdict(&|_| {}), "");
    let refused = verdict(&|it| set(it, "store_no_memory", "7"));
    assert!(refused.contains("writes are refused: 7 "), "{refused}");
    let both = verdict(&|it| {
        set(it, "store_no_memory", "7");
        set(it, "errorstat_OOM", "count=5");
    });
    assert!(both.contains("writes are refused: 12 "), "{both}");
}

/// Adds an event to the latency monitor.
fn note(observation: &mut Observation, name: &str, longest_ms: u64) {
    let event = LatencyEvent { name: name.to_owned(), count: 3, longest_ms };
    observation.server.latency.push(event);
}

#[test]
fn events_of_the_latency_monitor_are_evidence() {
    let with = |name: &'static str, longest_ms: u64| {
        found_with(|it| {
            set(it, "aof_enabled", "1");
            set(it, "expired_keys", "20000");
            set(it, "latest_fork_usec", "100");
            note(it, name, longest_ms);
        })
    };
    assert_eq!(with("fork", 30), ["fork-stall"]);
    assert_eq!(with("aof-fsync-always", 30), ["slow-disk"]);
    assert_eq!(with("expire-cycle", 30), ["mass-expiry"]);
    for name in ["fork", "aof-write", "expire-cycle", "command"] {
        assert_eq!(with(name, 4), [""; 0], "{name}");
    }
}

#[test]
fn a_key_is_hot_by_its_share_of_requests_or_of_time() {
    let costs = |all_us: u64, us: u64| {
        let keys = vec![("a key".to_owned(), us), ("another".to_owned(), us / 2)];
        move |it: &mut Observation| it.server.key_costs = Some(KeyCosts { all_us, keys })
    };
    assert_eq!(found_with(costs(9_000_000, 4_000_000)), ["hot-key"]);
    let diagnosis = diagnose_with(costs(9_000_000, 4_000_000));
    let verdict = &diagnosis.found[0].evidence.verdict;
    assert!(verdict.contains("a key take 44 % of the time of all commands, and 20 %"), "{verdict}");
    assert_eq!(found_with(costs(90_000_000, 4_000_000)), [""; 0], "little of all");
    assert_eq!(found_with(costs(90_000, 80_000)), [""; 0], "little of a processor");
    assert!(diagnose_with(costs(1, 0)).healthy.iter().any(|it| it.name == "hot-key"));
    let sample = |count: u64| {
        let keys = vec![("a key".to_owned(), count)];
        move |it: &mut Observation| it.server.sample = Some(Sample { requests: 1000, keys })
    };
    assert_eq!((found_with(sample(300)), found_with(sample(100))), (vec!["hot-key"], vec![]));
}

#[test]
fn logged_large_requests_are_evidence_where_small_ones_wait() {
    let with = |bytes: u64, is_delayed: bool| {
        diagnose_with(|it| {
            let what = "large-request: SET with 2 arguments".to_owned();
            it.server.large = vec![LargeRequest { bytes, what }];
            if is_delayed {
                it.probes.pings = Times::new([vec![100; 1900], vec![20_000; 100]].concat());
            }
        })
    };
    let found = with(5_000_000, true);
    assert_eq!(names(&found.found), ["large-values"]);
    let shown =
        ("log of large ones".to_owned(), "5.0 MB large-request: SET with 2 arguments".to_owned());
    assert!(found.found[0].evidence.numbers.contains(&shown), "{found:?}");
    let noticed = with(5_000_000, false);
    assert_eq!((names(&noticed.found), names(&noticed.noticed)), (vec![], vec!["large-values"]));
    assert_eq!(names(&with(10_000, true).found), [""; 0]);
}

#[test]
fn disks_are_slow_if_fsyncs_wait() {
    let disk = |delayed: &'static str| {
        found_with(|it| {
            set(it, "aof_enabled", "1");
            set(it, "aof_delayed_fsync", delayed);
        })
    };
    assert_eq!((disk("3"), disk("0")), (vec!["slow-disk"], vec![]));
}

prop_compose! {
    fn times()(times in vec(0..10_000_000_u64, 0..200)) -> Times {
        Times::new(times)
    }
}

prop_compose! {
    fn process_of_any_kind()(
        shares in (0.0..=1.0, 0.0..=1.0, 0.0..2.0, 0.0..2.0),
        files in option::of((0..9_u64, 0..9_u64)),
        swap_bytes in option::of(any::<u64>()),
        major_faults in option::of(any::<u64>()),
        periods in option::of((0..9_u64, 0..9_u64, any::<u64>())),
    ) -> Process {
        Process {
            id: 7,
            stopped_share: shares.0,
            disk_share: shares.1,
            busiest: Some(BusyThread { name: "x".to_owned(), used: shares.2, waited: shares.3 }),
            open_files: files.map(|it| it.0),
            max_files: files.map(|it| it.1),
            swap_bytes,
            major_faults,
            throttling: periods.map(|(periods, throttled_periods, throttled_us)| {
                Throttling { periods, throttled_periods, throttled_us }
            }),
        }
    }
}

/// Names of figures that rows evaluate.
const FIGURES: [&str; 28] = [
    "aof_delayed_fsync",
    "aof_enabled",
    "aof_last_write_status",
    "bytes",
    "bytes_read",
    "cmd_get",
    "cmdstat_get",
    "cmdstat_keys",
    "connected_clients",
    "errorstat_OOM",
    "evicted_keys",
    "expired_keys",
    "expired_time_cap_reached_count",
    "latest_fork_usec",
    "limit_maxbytes",
    "maxclients",
    "maxmemory",
    "rdb_last_bgsave_status",
    "rejected_by_protected_mode",
    "rejected_connections",
    "store_no_memory",
    "total_commands_processed",
    "total_connections_received",
    "total_forks",
    "total_net_input_bytes",
    "used_cpu_user_main_thread",
    "used_memory",
    "used_memory_rss",
];

fn figures() -> impl Strategy<Value = BTreeMap<String, String>> {
    let value = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        (any::<u64>(), any::<u64>()).prop_map(|(calls, us)| format!("calls={calls},usec={us}")),
        any::<u64>().prop_map(|count| format!("count={count}")),
        any::<String>(),
    ];
    btree_map(proptest::sample::select(&FIGURES[..]).prop_map(str::to_owned), value, 0..24)
}

prop_compose! {
    fn probes()(
        pings in times(), connects in times(), own_delays in times(),
        failures in 0..5_u64, transfers in vec(any::<(u64, u64, u64)>(), 0..5),
    ) -> Probes {
        let transfers = transfers.into_iter();
        Probes {
            pings, connects, own_delays,
            failures: [Failure::NoPort, Failure::TurnedAway, Failure::Closed]
                .map(|failure| (failure, failures))
                .into(),
            transfers: transfers
                .map(|(bytes, up_us, down_us)| Transfer { bytes, up_us, down_us })
                .collect(),
            sent_bytes: failures,
            sent_requests: failures,
        }
    }
}

prop_compose! {
    fn server()(
        is_memcached: bool, before in figures(), after in figures(),
        buffers in vec(vec(any::<(u64, u64, u64)>(), 0..5), 0..3),
        duration_us: u64, requests: u64, count: u64, text: String,
    ) -> Server {
        let client = |(id, output_bytes, input_bytes)| Client {
            id, output_bytes, input_bytes, flags: text.clone(), command: text.clone(),
        };
        Server {
            name: text.clone(),
            is_memcached,
            counters: Counters { before, after },
            settings: [("appendfsync".to_owned(), text.clone())].into(),
            slow: Some(vec![SlowRequest { duration_us, what: text.clone() }]),
            clients: buffers
                .into_iter()
                .map(|list| list.into_iter().map(client).collect())
                .collect(),
            sample: Some(Sample { requests, keys: vec![(text.clone(), count)] }),
            key_costs: Some(KeyCosts { all_us: requests, keys: vec![(text.clone(), count)] }),
            large: vec![LargeRequest { bytes: count, what: text.clone() }],
            latency: vec![LatencyEvent { name: text.clone(), count, longest_ms: duration_us }],
        }
    }
}

prop_compose! {
    fn observation()(
        seconds in 0.0..4000.0, server in server(), probes in probes(),
        has_server: bool, process in option::of(process_of_any_kind()),
        numbers: [Option<u64>; 4], ports: Option<(u64, u64, u64)>, placed: (u64, u64),
    ) -> Observation {
        let tcp = ports.map(|_| TcpConnections {
            segments: placed.0, retransmitted: placed.1, ..<_>::default()
        });
        let ports = ports.map(|(range, time_wait, used)| {
            Ports { range, time_wait, used, ..<_>::default() }
        });
        Observation {
            seconds, server, probes,
            host: Host {
                has_server, ports, process,
                listen_overflows: numbers[0],
                accept_queue: numbers[1].map(|waiting| AcceptQueue {
                    waiting,
                    drops: numbers[2],
                    was_full: has_server,
                    ..<_>::default()
                }),
                swapped_in: numbers[2], overcommit: numbers[3], huge_pages: None,
                disciplines: vec![QueueDiscipline {
                    held_back: placed.0, dropped: placed.1, ..<_>::default()
                }],
                tcp,
                devices: vec![DeviceLosses {
                    errors: placed.0, dropped: placed.1, ..<_>::default()
                }],
                pressure: numbers[3].map(|number| Pressure {
                    cpu: number as f64, memory: number as f64, io: number as f64,
                }),
            },
            placement: Some(Placement { keys: placed.0, different: placed.1, ..<_>::default() }),
            unseen: Vec::new(),
        }
    }
}

proptest! {
    #[test]
    fn every_finding_evaluates_any_observation(observation in observation()) {
        let diagnosis = diagnose(&observation);
        let with_evidence = diagnosis.found.len() + diagnosis.noticed.len();
        let listed = with_evidence + diagnosis.healthy.len() + diagnosis.unknown.len();
        prop_assert_eq!(listed, all().count());
        let found = names(&diagnosis.found);
        for diagnosed in diagnosis.found.iter().chain(&diagnosis.noticed) {
            prop_assert!(!diagnosed.evidence.verdict.is_empty());
            prop_assert!(!diagnosed.evidence.numbers.is_empty());
            if let Some(cause) = diagnosed.explained_by {
                prop_assert!(found.contains(&cause));
            }
        }
    }
}
