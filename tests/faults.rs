//! `nagi doctor` must name each fault that a test injects into a real server as its first finding.
//!
//! By default, each fault is injected with medium strength until it is named. With
//! `NAGI_DOCTOR_ROUNDS=10`, it is injected ten times, from weak to strong, and must be named first
//! nine times of ten; healthy servers are then observed three hundred times. `cargo xtask doctor`
//! does this, and writes the results to docs/doctor.md.

use harness::link::{Link, SERVER};
use harness::{Connection, Server, encode_command, tool, until};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::doctor::{Run, look, look_during, look_for, look_for_during};
use Kind::{Memcached, Nagi, Redis, Valkey};
use kinds::{between, check, note, pass};

pub(crate) use kinds::Kind;
pub(crate) use machine::{CONTENDED, Moment};

mod kinds;
mod machine;

#[test]
fn ports_used_up() {
    check("ports-used-up", |kind, strength| {
        let link = Link::new()?;
        let ports = between(900.0, 200.0, strength) as u16;
        let server = start_behind(&link, kind);
        let at = SocketAddr::new(SERVER.parse().expect("an address"), kind.address(&server).port());
        link.in_client(|| {
            let setting = |name: &str, value: &str| {
                let path = format!("/proc/sys/net/ipv4/{name}");
                fs::write(&path, value).map_err(|error| format!("{path}: {error}"))
            };
            setting("ip_local_port_range", &format!("40000 {}", 40_000 + ports))?;
            setting("tcp_tw_reuse", "0")?;
            // The attempt fails while the port is still in TIME_WAIT.
            let ask = || {
                if let Ok(mut stream) = TcpStream::connect(at) {
                    let request = if kind == Memcached { "get key\r\n" } else { "GET key\r\n" };
                    stream.write_all(request.as_bytes()).expect("it is sent");
                    stream.read_exact(&mut [0; 5]).expect("a reply");
                }
            };
            Ok(look_during(&kind.url_of(at), &[], || (0..50).for_each(|_| ask())))
        })
    });
}

/// Starts a server at the server's end of a link.
pub(crate) fn start_behind(link: &Link, kind: Kind) -> Server {
    match kind {
        Nagi => link.start_server(&[]),
        Redis | Valkey => link.in_server(|| {
            let mut command = kind.program();
            command.args(["--protected-mode", "no"]);
            let outer = SERVER.parse().expect("an address");
            Server::start_redis_bound(command, Some(outer)).expect("starts")
        }),
        Memcached => link.in_server(|| kind.start(&["-l", SERVER])),
    }
}

#[test]
fn clients_refused() {
    check("clients-refused", |kind, strength| {
        let option = if kind == Memcached { "-c" } else { "--maxclients" };
        let server = kind.start(&[option, "40"]);
        let held = between(36.0, 40.0, strength).round() as usize;
        let _held: Vec<Connection> = (0..held).map(|_| kind.connect(&server)).collect();
        Ok(look(&kind.url(&server), &[]))
    });
}

#[test]
fn accept_queue() {
    check("accept-queue", |kind, strength| {
        let option = if kind == Memcached { "-b" } else { "--tcp-backlog" };
        let server = kind.start(&[option, "1"]);
        let at = kind.address(&server);
        let burst = between(50.0, 300.0, strength) as usize;
        Ok(look_during(&kind.url(&server), &[], || {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let connect = || TcpStream::connect_timeout(&at, Duration::from_millis(2));
                        let _held: Vec<_> = (0..burst / 4).map(|_| connect()).collect();
                    });
                }
            });
            pass(100.0);
        }))
    });
}

#[test]
fn narrow_link() {
    check("narrow-link", |kind, strength| {
        let link = Link::new()?;
        let rate = format!("{}kbit", between(50_000.0, 1300.0, strength) as u32);
        let bucket = ["qdisc", "add", "dev", "c0", "root", "tbf", "rate", &rate];
        let client = ["-n", &link.client];
        link.step("tc", &[&client[..], &bucket, &["burst", "16kb", "latency", "300ms"]].concat())?;
        let server = start_behind(&link, kind);
        let at = SocketAddr::new(SERVER.parse().expect("an address"), kind.address(&server).port());
        Ok(link.in_client(|| look(&kind.url_of(at), &["--probe-writes"])))
    });
}

/// Returns a program for the kernel's packet filter (classic BPF, `man 8 tc-bpf`) that drops this
/// share of all packets: it loads a random number and compares it.
fn dropping(share: f64) -> String {
    let least_kept = (share * f64::from(u32::MAX)) as u32;
    format!("4,32 0 0 4294963256,53 1 0 {least_kept},6 0 0 2,6 0 0 0")
}

#[test]
fn lossy_link() {
    check("lossy-link", |kind, strength| {
        let link = Link::new()?;
        // Packets must be dropped after the sender, because TCP notices if the sender's own host
        // drops them.
        link.step("tc", &["-n", &link.server, "qdisc", "add", "dev", "s0", "clsact"])?;
        let program = dropping(between(0.04, 0.1, strength));
        let filter = ["-n", &link.server, "filter", "add", "dev", "s0", "ingress"];
        link.step("tc", &[&filter[..], &["bpf", "da", "bytecode", &program]].concat())?;
        let server = start_behind(&link, kind);
        let at = SocketAddr::new(SERVER.parse().expect("an address"), kind.address(&server).port());
        let run = link.in_client(|| look_for("5", &kind.url_of(at), &[]));
        let tcp = &run.server()["tcp"];
        assert!(tcp["segments"].as_u64() > Some(0), "{}", run.printed);
        Ok(run)
    });
}

#[test]
fn long_round_trip() {
    check("long-round-trip", |kind, strength| {
        let server = kind.start(&[]);
        let (target, late_ms) = (kind.address(&server), between(4.0, 40.0, strength));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                std::thread::spawn(move || delay(&client, target, late_ms));
            }
        });
        let run = look(&kind.url_of(at), &[]);
        check_evidence(&run, "long-round-trip", "in front of the server");
        Ok(run)
    });
}

/// Forwards data in both directions. Data from the client is delayed.
fn delay(client: &TcpStream, server: SocketAddr, late_ms: f64) {
    let Ok(server) = TcpStream::connect(server) else { return };
    for stream in [client, &server] {
        stream.set_nodelay(true).expect("an option of TCP's");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| pass_on(&server, client, 0.0));
        pass_on(client, &server, late_ms);
    });
}

fn pass_on(mut from: &TcpStream, mut to: &TcpStream, late_ms: f64) {
    let (queue, pieces) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (read, piece) in pieces {
                pass((late_ms - read.elapsed().as_secs_f64() * 1e3).max(0.0));
                if to.write_all(&piece).is_err() {
                    break;
                }
            }
        });
        let mut bytes = [0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if queue.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                break;
            }
        }
        drop(queue);
    });
    for stream in [from, to] {
        // The thread of the other direction may have shut the stream down already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

#[test]
fn large_values() {
    check("large-values", |kind, strength| {
        let limits: &[&str] =
            if kind == Memcached { &["-t", "1", "-I", "64m", "-m", "256"] } else { &[] };
        let server = kind.start(limits);
        // memcached stores some megabytes in less than the two milliseconds that count as a delay.
        let weak = if kind == Memcached { 20e6 } else { 4e6 };
        let value = "v".repeat(between(weak, 40e6, strength) as usize);
        let mut clients = [(); 4].map(|()| kind.connect(&server));
        let run = look_during(&kind.url(&server), &[], || {
            std::thread::scope(|scope| {
                for client in &mut clients {
                    scope.spawn(|| kind.set(client, "large", &value));
                }
            });
            pass(20.0);
        });
        if kind == Valkey {
            check_evidence(&run, "large-values", "large-request: SET with 2 arguments");
        }
        Ok(run)
    });
}

/// Checks that the first finding has this evidence. A missing finding is counted elsewhere.
#[track_caller]
fn check_evidence(run: &Run, name: &str, evidence: &str) {
    let is_named = run.names().first().map(String::as_str) == Some(name);
    assert!(!is_named || run.printed.contains(evidence), "no {evidence}: {}", run.printed);
}

#[test]
fn slow_keys() {
    check("slow-commands", |kind, strength| {
        let server = kind.start(&["--enable-debug-command", "yes"]);
        let keys = between(200_000.0, 1_000_000.0, strength) as u32;
        kind.connect(&server).check(&format!("DEBUG POPULATE {keys}"), "+OK\r\n");
        let mut client = kind.connect(&server);
        let run = look_during(&kind.url(&server), &[], || {
            client.run("KEYS nothing*");
            pass(20.0);
        });
        check_evidence(&run, "slow-commands", "KEYS takes");
        Ok(run)
    });
}

#[test]
fn slow_ranges() {
    check("slow-commands", |kind, strength| {
        const ELEMENT: &str = "0123456789";
        let server = kind.start(&[]);
        let hundreds = between(4_000.0, 15_000.0, strength) as usize;
        let mut client = kind.connect(&server);
        let push = [&["RPUSH", "list"][..], &[ELEMENT; 100]].concat();
        (0..hundreds).for_each(|_| drop(client.run_words(&push)));
        let elements = hundreds * 100;
        let element_bytes = format!("${}\r\n{ELEMENT}\r\n", ELEMENT.len()).len();
        let reply_bytes = format!("*{elements}\r\n").len() + elements * element_bytes;
        let run = look_during(&kind.url(&server), &[], || {
            client.send("LRANGE list 0 -1\r\n");
            client.take(reply_bytes);
            pass(20.0);
        });
        check_evidence(&run, "slow-commands", "LRANGE takes");
        Ok(run)
    });
}

#[test]
fn slow_scripts() {
    check("slow-commands", |kind, strength| {
        let server = kind.start(&[]);
        let mut client = kind.connect(&server);
        let script = format!("for i = 1, {} do end", between(1e6, 3e7, strength));
        Ok(look_during(&kind.url(&server), &[], || {
            client.run_words(&["EVAL", &script, "0"]);
            pass(50.0);
        }))
    });
}

#[test]
fn fork_stall() {
    check("fork-stall", |kind, strength| {
        let delay_us = between(12_000.0, 200_000.0, strength) as u32;
        let server = traced(kind, "clone,clone3,fork", &format!("delay_exit={delay_us}"))?;
        let mut client = kind.connect(&server);
        client.check("CONFIG SET latency-monitor-threshold 1", "+OK\r\n");
        let run = look_during(&kind.url(&server), &[], || {
            client.run("BGSAVE");
            pass(300.0);
        });
        check_evidence(&run, "fork-stall", " ms at most");
        Ok(run)
    });
}

#[test]
fn slow_disk() {
    check("slow-disk", |kind, strength| {
        let delay_us = between(15_000.0, 300_000.0, strength) as u32;
        let server = traced(kind, "fsync,fdatasync", &format!("delay_enter={delay_us}"))?;
        let mut client = kind.connect(&server);
        client.check("CONFIG SET appendfsync always appendonly yes", "+OK\r\n");
        client.check("CONFIG SET latency-monitor-threshold 1", "+OK\r\n");
        let run = look_during(&kind.url(&server), &[], || {
            client.run("SET key value");
            pass(20.0);
        });
        check_evidence(&run, "slow-disk", "aof-fsync-always ");
        Ok(run)
    });
}

/// Starts a server in which some system calls take longer.
fn traced(kind: Kind, calls: &str, fault: &str) -> Result<Server, String> {
    let mut trial = tool("strace");
    trial.args(["-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e", "trace=fsync", "true"]);
    match trial.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("strace may not trace: {status}")),
        Err(error) => return Err(format!("there is no strace: {error}")),
    }
    let mut command = tool("strace");
    let inject = format!("inject={calls}:{fault}");
    let trace = format!("trace={calls}");
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e"]);
    let program = kind.program();
    command.args([&trace, "-e", &inject]).arg(program.get_program()).args(program.get_args());
    Ok(kind.start_as(command, &[]))
}

#[test]
fn failed_saves() {
    check("failed-saves", |kind, strength| {
        let server = kind.start(&["--enable-protected-configs", "yes"]);
        let mut client = kind.connect(&server);
        for number in 0..between(1.0, 1000.0, strength) as u32 {
            kind.set(&mut client, &format!("key:{number}"), "value");
        }
        client.check(&format!("CONFIG SET dbfilename {}", "x".repeat(300)), "+OK\r\n");
        client.run("BGSAVE");
        let has_failed = || {
            let told = client.run("INFO persistence").text();
            told.contains("rdb_last_bgsave_status:err").then_some(())
        };
        until("a save that fails", has_failed).expect("no file has so long a name");
        Ok(look(&kind.url(&server), &[]))
    });
}

#[test]
fn one_thread_busy() {
    check("one-thread-busy", |kind, strength| {
        let server = match kind {
            Nagi => kind.start(&["--workers", "1"]),
            Redis | Valkey => kind.start(&[]),
            Memcached => kind.start(&["-t", "1"]),
        };
        let mut client = kind.connect(&server);
        let (request, reply) = match kind {
            Memcached => {
                let keys: Vec<String> = (0..50).map(|number| format!("nothing:{number}")).collect();
                (format!("get {}\r\n", keys.join(" ")).into_bytes(), "END\r\n".len())
            }
            _ => {
                // With many keys, none of them is hot, on servers that detect hot keys.
                let keys: Vec<String> = (0..10).map(|number| format!("value:{number}")).collect();
                keys.iter().for_each(|key| kind.set(&mut client, key, &"v".repeat(1 << 16)));
                let requests = keys.iter().flat_map(|key| encode_command(&["BITCOUNT", key]));
                (requests.collect(), 10 * ":327680\r\n".len())
            }
        };
        let many = match kind {
            Memcached => between(50.0, 500.0, strength) as usize,
            _ => between(5.0, 50.0, strength) as usize,
        };
        let batch = request.repeat(many);
        // Two batches are in flight, so that the server never waits for a batch.
        client.send(&batch);
        Ok(look_for_during("3", &kind.url(&server), &[], || {
            client.send(&batch);
            client.take(many * reply);
        }))
    });
}

#[test]
fn cpu_throttled() {
    check("cpu-throttled", |kind, strength| {
        let server = kind.start(&[]);
        let quota_us = between(30_000.0, 5000.0, strength) as u32;
        let _limit = Limit::new(server.process_id(), quota_us)?;
        let mut client = kind.connect(&server);
        let batch = match kind {
            Memcached => b"get nothing\r\n".repeat(200),
            _ => encode_command(&["GET", "nothing"]).repeat(200),
        };
        Ok(look_for_during("4", &kind.url(&server), &[], || {
            client.send(&batch);
            client.take(200 * 5);
        }))
    });
}

/// A control group with a limit on processor time, of version 1 or 2.
struct Limit {
    folder: PathBuf,
    /// The parent group, to which the processes are moved at the end.
    above: PathBuf,
}

impl Limit {
    fn new(process: u32, quota_us: u32) -> Result<Self, String> {
        let mounts = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(PathBuf::from);
        let name = format!("nagi-test-{process}");
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let mount = mounts.into_iter().find(|mount| mount.join("cgroup.procs").exists());
        let above = mount.ok_or("there are no control groups")?;
        let limit = Limit { folder: above.join(name), above };
        fs::create_dir(&limit.folder).map_err(|error| error.to_string())?;
        if limit.folder.join("cpu.cfs_quota_us").exists() {
            write(limit.folder.join("cpu.cfs_quota_us"), quota_us.to_string())?;
        } else {
            write(limit.folder.join("cpu.max"), format!("{quota_us} 100000"))?;
        }
        write(limit.folder.join("cgroup.procs"), process.to_string())?;
        Ok(limit)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let members = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for member in members.lines() {
            // The process may have exited.
            let _ = fs::write(self.above.join("cgroup.procs"), member);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn memory_at_its_limit() {
    for policy in ["allkeys-lru", "noeviction"] {
        check("memory-at-its-limit", |kind, strength| {
            let server = match kind {
                Memcached => kind.start(&["-m", "8"]),
                _ => kind.start(&["--maxmemory", "8mb", "--maxmemory-policy", policy]),
            };
            let (mut client, mut number) = (kind.connect(&server), 0);
            let value = "v".repeat(between(500.0, 8000.0, strength) as usize);
            let mut fill = || {
                number += 1;
                kind.set(&mut client, &format!("key:{number}"), &value);
            };
            (0..24_000_000 / (value.len() + 50)).for_each(|_| fill());
            Ok(look_during(&kind.url(&server), &[], || {
                fill();
                pass(2.0);
            }))
        });
    }
}

#[test]
fn fragmentation() {
    check("swapping", |kind, strength| {
        let server = kind.start(&[]);
        let mut client = kind.connect(&server);
        let value = "v".repeat(1000);
        let count = between(200_000.0, 300_000.0, strength) as u32;
        let mut run = |words: &dyn Fn(u32) -> Vec<u8>, numbers: &[u32]| {
            for numbers in numbers.chunks(1000) {
                let requests: Vec<u8> = numbers.iter().flat_map(|number| words(*number)).collect();
                client.send(requests);
                numbers.iter().for_each(|_| drop(client.line()));
            }
        };
        let all: Vec<u32> = (0..count).collect();
        let gone: Vec<u32> = (0..count).filter(|number| number % 8 != 0).collect();
        run(&|number| encode_command(&["SET", &format!("key:{number}"), &value]), &all);
        run(&|number| encode_command(&["DEL", &format!("key:{number}")]), &gone);
        Ok(look(&kind.url(&server), &[]))
    });
}

#[test]
fn slow_reader() {
    check("slow-reader", |kind, strength| {
        let server = kind.start(&[]);
        let mut client = kind.connect(&server);
        kind.set(&mut client, "large", &"v".repeat(1 << 20));
        let mut reader = kind.connect(&server);
        for _ in 0..between(16.0, 64.0, strength) as u32 {
            reader.send(encode_command(&["GET", "large"]));
        }
        until("replies that wait", || {
            let list = client.run("CLIENT LIST").text();
            let held = |line: &str| {
                let field = line.split(' ').find_map(|it| it.strip_prefix("omem="));
                field.and_then(|it| it.parse::<u64>().ok()) >= Some(4 << 20)
            };
            list.lines().any(held).then_some(())
        })
        .expect("they wait");
        Ok(look(&kind.url(&server), &[]))
    });
}

#[test]
fn mass_expiry() {
    check("mass-expiry", |kind, strength| {
        let server = kind.start(&[]);
        let (mut client, mut number) = (kind.connect(&server), 0);
        let many = between(20_000.0, 60_000.0, strength) as u32;
        Ok(look_for_during("4", &kind.url(&server), &[], || {
            let mut requests = Vec::new();
            for _ in 0..many {
                number += 1;
                let key = format!("key:{number}");
                requests.extend(encode_command(&["SET", &key, "v", "PX", "300"]));
            }
            client.send(requests);
            client.expect("+OK\r\n".repeat(many as usize));
            pass(200.0);
        }))
    });
}

#[test]
fn hot_key() {
    check("hot-key", |kind, strength| {
        let server = kind.start(&[]);
        let (mut client, mut number) = (kind.connect(&server), 0);
        let others = between(3.0, 0.0, strength).round() as u32;
        let mut work = || {
            kind.miss(&mut client, "customer:alice");
            for _ in 0..others {
                number += 1;
                kind.miss(&mut client, &format!("other:{number}"));
            }
        };
        let url = kind.url(&server);
        let run = look_during(&url, &["--sample-commands"], &mut work);
        assert!(!run.printed.contains("alice"), "{}", run.printed);
        let shown = look_during(&url, &["--sample-commands", "--show-keys"], &mut work);
        check_evidence(&shown, "hot-key", "customer:alice");
        Ok(run)
    });
}

#[test]
fn monitor_running() {
    check("monitor-running", |kind, strength| {
        let server = kind.start(&[]);
        let mut watcher = kind.connect(&server);
        watcher.check("MONITOR", "+OK\r\n");
        let mut client = kind.connect(&server);
        Ok(look_during(&kind.url(&server), &[], || {
            client.run("GET key");
            // Some of the lines are about the doctor's own requests.
            while !watcher.line().contains("\"GET\" \"key\"") {}
            pass(between(50.0, 0.0, strength));
        }))
    });
}

#[test]
fn frozen() {
    check("frozen", |kind, strength| {
        let server = kind.start(&[]);
        Ok(look_for_during("3", &kind.url(&server), &[], || {
            pass(500.0);
            server.signal(Signal::STOP);
            pass(between(300.0, 1500.0, strength));
            server.signal(Signal::CONT);
        }))
    });
}

#[test]
fn frozen_for_good() {
    check("frozen", |kind, _| {
        let server = kind.start(&[]);
        server.signal(Signal::STOP);
        let run = look(&kind.url(&server), &[]);
        server.signal(Signal::CONT);
        Ok(run)
    });
}

#[test]
fn no_keep_alive() {
    check("no-keep-alive", |kind, strength| {
        let server = kind.start(&[]);
        Ok(look_during(&kind.url(&server), &[], || {
            kind.miss(&mut kind.connect(&server), "key");
            pass(between(20.0, 1.0, strength));
        }))
    });
}

#[test]
fn clients_that_hash_differently() {
    let pairs = [("php", "php-ketama"), ("pylibmc-ketama", "php-ketama"), ("dalli", "twemproxy")];
    check("clients-hash-differently", |kind, strength| {
        let servers = [kind.start(&[]), kind.start(&[])];
        let urls = servers.each_ref().map(|server| kind.url(server));
        let (one, other) = pairs[(strength * 2.0) as usize];
        let alike = look(&urls[0], &[&urls[1], "--clients", one, one]);
        assert!(!alike.names().iter().any(|it| it == "clients-hash-differently"), "{one}");
        Ok(look(&urls[0], &[&urls[1], "--clients", one, other]))
    });
}

/// Servers under any load have no findings, and neither have servers next to a program that uses a
/// whole processor.
#[test]
fn no_load_is_a_fault() {
    // Where findings are counted, runs without findings are void under the same condition as other
    // runs: a busy machine.
    let (looks, is_counted) = match std::env::var("NAGI_DOCTOR_ROUNDS") {
        Ok(rounds) => (30 * rounds.parse::<u32>().expect("a number"), true),
        Err(_) => (6, false),
    };
    let servers: Vec<(Kind, Server)> =
        Kind::available().map(|kind| (kind, kind.start(&[]))).collect();
    let (mut counted, mut void, mut wrong) = (0, 0, Vec::new());
    while counted < looks {
        let (kind, server) = &servers[counted as usize % servers.len()];
        let run = look_at_load(*kind, server, counted, counted / servers.len() as u32);
        let contended = "other programs have the processors";
        let reason = match is_counted && run.is_contended() {
            true => Some(contended),
            false => run.void(),
        };
        if let Some(reason) = reason {
            println!("void: {reason}: {:?}", run.names());
            void += 1;
            assert!(void <= 2 * looks, "this machine has no time: {}", run.printed);
            continue;
        }
        counted += 1;
        if run.status != Some(0) || !run.names().is_empty() {
            println!("found {:?} of {kind:?}, which is well", run.names());
            wrong.push(run.printed);
        }
    }
    println!(
        "{looks} looks at healthy servers had {} findings; {void} more were void",
        wrong.len()
    );
    let (looks, found) = (looks.into(), wrong.len().into());
    note("healthy", &[("looks", looks), ("found", found), ("void", void.into())]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Observes a server under one of five loads, or next to a program that uses a whole processor.
fn look_at_load(kind: Kind, server: &Server, number: u32, turn: u32) -> Run {
    let (mut client, pause_ms) = (kind.connect(server), f64::from(turn % 5) * 0.5);
    let takes_a_processor = turn % 4 == 3;
    look_for_during("1", &kind.url(server), &["--probe-writes"], || {
        for key in 0..10 {
            kind.set(&mut client, &format!("key:{}", number + key), "value");
            kind.miss(&mut client, "nothing");
        }
        let begun = Instant::now();
        while takes_a_processor && begun.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        if pause_ms > 0.0 && !takes_a_processor {
            pass(pause_ms);
        }
    })
}
