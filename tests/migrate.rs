//! MIGRATE moves keys to other servers; each key must then be on exactly one of them.

use harness::{Connection, Reply, Server, encode_command, tool, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Sets values of every type, and a key that expires.
fn fill(client: &mut Connection) {
    for command in [
        "SET string value",
        "SET expiring value EX 1000",
        "RPUSH list a b c",
        "SADD set a b c",
        "HSET hash a 1 b 2",
        "ZADD sorted 1 a 2 b",
        "XADD stream 1-1 field value",
    ] {
        client.run(command);
    }
}

/// Returns the text of a reply, which may be an error.
fn told(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => text.clone(),
        Reply::Null => "(nil)".to_owned(),
        Reply::Array(all) => all.iter().map(told).collect::<Vec<_>>().join(" "),
        Reply::Integer(number) => number.to_string(),
        other => other.text(),
    }
}

const KEYS: &str = "string expiring list set hash sorted stream";

#[test]
fn keys_of_every_type_move_to_nagi_and_to_redis() {
    for to in [Server::nagi(), Server::redis()] {
        let from = Server::nagi();
        let mut client = from.connect_resp();
        fill(&mut client);
        let port = to.resp().port();
        let request = format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {KEYS} nothing");
        client.check(&request, "+OK\r\n");
        client.check("DBSIZE", ":0\r\n");
        let mut there = to.connect_resp();
        there.check("GET string", "$5\r\nvalue\r\n");
        let ttl = there.run("TTL expiring").integer();
        assert!((900..=1000).contains(&ttl), "{ttl}");
        there.check("LRANGE list 0 -1", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
        there.check("SCARD set", ":3\r\n");
        there.check("HGET hash b", "$1\r\n2\r\n");
        there.check("ZSCORE sorted b", "$1\r\n2\r\n");
        there.check("XLEN stream", ":1\r\n");
        client.check(&request, "+NOKEY\r\n");
    }
}

#[test]
fn options_do_what_redis_does() {
    let ask = |from: &Server, to: &Server| -> Vec<String> {
        let (mut client, mut there) = (from.connect_resp(), to.connect_resp());
        let at = format!("MIGRATE 127.0.0.1 {}", to.resp().port());
        client.run("SET key one");
        let mut replies = vec![told(&client.run(&format!("{at} key 3 1000 COPY")))];
        replies.push(told(&client.run("GET key")));
        there.run("SELECT 3");
        replies.push(told(&there.run("GET key")));
        client.run("SET key two");
        replies.push(told(&client.run(&format!("{at} key 3 1000"))));
        replies.push(told(&client.run("GET key")));
        replies.push(told(&client.run(&format!("{at} key 3 1000 REPLACE"))));
        replies.push(told(&client.run("EXISTS key")));
        replies.push(told(&there.run("GET key")));
        // If only some of several keys arrive, these are removed, and the first error is returned.
        for key in ["a", "b", "c"] {
            client.run(&format!("SET {key} here"));
        }
        there.run("SET b there");
        replies.push(told(&client.run(&format!("{at} \"\" 3 1000 KEYS a b c"))));
        replies.push(told(&client.run("MGET a b c")));
        replies.push(told(&there.run("MGET a b c")));
        for wrong in [
            "key 99 1000",
            "key 3 1000 AUTH secret",
            "key 3 1000 NOW",
            "key x 1000",
            "key 3 x",
            "key 3 1000 KEYS key",
        ] {
            client.run("SET key one");
            replies.push(told(&client.run(&format!("{at} {wrong}"))));
        }
        replies
    };
    let [ours, theirs] = [[Server::nagi(), Server::nagi()], [Server::redis(), Server::redis()]]
        .map(|[from, to]| ask(&from, &to));
    assert_eq!(ours, theirs);
}

/// A client that waits for entries of a group learns that its stream has gone.
#[test]
fn consumers_of_a_stream_that_is_moved_are_told() {
    let (from, to) = (Server::nagi(), Server::nagi());
    let (mut client, mut consumer) = (from.connect_resp(), from.connect_resp());
    client.check("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n");
    consumer.send(harness::encode_command(&[
        "XREADGROUP",
        "GROUP",
        "g",
        "c",
        "BLOCK",
        "0",
        "STREAMS",
        "s",
        ">",
    ]));
    harness::until("a client that waits", || {
        client.run("INFO clients").text().contains("blocked_clients:1\r\n").then_some(())
    })
    .unwrap();
    client.check(&format!("MIGRATE 127.0.0.1 {} s 0 1000", to.resp().port()), "+OK\r\n");
    let reply = told(&consumer.reply());
    assert!(reply.starts_with("NOGROUP "), "{reply}");
}

#[test]
fn passwords_are_given_and_not_shown() {
    let to = Server::nagi_with(&["--requirepass", "sesame"]);
    let from = Server::nagi_with(&["--slowlog-log-slower-than", "0"]);
    let (mut client, mut watcher) = (from.connect_resp(), from.connect_resp());
    watcher.check("MONITOR", "+OK\r\n");
    let at = format!("MIGRATE 127.0.0.1 {}", to.resp().port());
    client.run("SET one value");
    client.run("SET two value");
    let error = told(&client.run(&format!("{at} one 0 1000")));
    assert!(error.starts_with("ERR Target instance replied with error: NOAUTH"), "{error}");
    client.check(&format!("{at} one 0 1000 AUTH sesame"), "+OK\r\n");
    client.check(&format!("{at} two 0 1000 AUTH2 default sesame"), "+OK\r\n");
    let log = told(&client.run("SLOWLOG GET -1"));
    assert!(log.contains("MIGRATE") && !log.contains("sesame"), "{log}");
    client.run("ECHO end");
    loop {
        let line = watcher.line();
        assert!(!line.contains("sesame"), "{line}");
        if line.contains("end") {
            break;
        }
    }
}

#[test]
fn a_user_needs_the_right_to_migrate_alone() {
    let (from, to) = (Server::nagi(), Server::nagi());
    let mut admin = from.connect_resp();
    admin.run("ACL SETUSER ann on nopass ~mine +migrate");
    admin.run("MSET mine 1 other 2");
    let mut client = from.connect_resp();
    client.run("AUTH ann x");
    let at = format!("MIGRATE 127.0.0.1 {}", to.resp().port());
    let error = told(&client.run(&format!("{at} \"\" 0 1000 KEYS mine other")));
    assert!(error.starts_with("NOPERM"), "{error}");
    client.check(&format!("{at} mine 0 1000"), "+OK\r\n");
    admin.check("MGET mine other", "*2\r\n$-1\r\n$1\r\n2\r\n");
}

#[test]
fn a_target_that_does_not_answer_loses_nothing_and_delays_no_other_key() {
    let from = Server::nagi();
    let (mut client, mut other) = (from.connect_resp(), from.connect_resp());
    client.run("MSET key value other value");
    // This server accepts connections and never replies.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let request = format!("MIGRATE 127.0.0.1 {port} key 0 3000");
    client.send(encode_command(&harness::words(&request)));
    let (mut accepted, _) = silent.accept().expect("it connects");
    accepted.read_exact(&mut [0; 4]).expect("it asks");
    // While MIGRATE waits, commands with other keys are served; scripts only run afterwards.
    other.check("GET other", "$5\r\nvalue\r\n");
    other.check("SET other new", "+OK\r\n");
    client.expect("-IOERR error or timeout reading from target instance\r\n");
    other.check("GET key", "$5\r\nvalue\r\n");
    other.check("EVAL \"return 1\" 0", ":1\r\n");
    drop(silent);
    let error = told(&client.run(&request));
    assert!(error.starts_with("IOERR error or timeout"), "{error}");
    client.check("GET key", "$5\r\nvalue\r\n");
}

#[test]
fn a_move_that_waits_for_long_can_be_ended_as_a_script() {
    let from = Server::nagi_with(&["--busy-reply-threshold", "50"]);
    let (mut client, mut other) = (from.connect_resp(), from.connect_resp());
    client.run("SET key value");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let request = format!("MIGRATE 127.0.0.1 {port} key 0 600000");
    client.send(encode_command(&harness::words(&request)));
    let accepted = silent.accept().expect("it connects");
    until("a slow move", || {
        let ended = told(&other.run("SCRIPT KILL"));
        (ended == "OK").then_some(())
    })
    .expect("it can be ended");
    client.expect("-IOERR error or timeout reading from target instance\r\n");
    other.check("GET key", "$5\r\nvalue\r\n");
    other.check("EVAL \"return 1\" 0", ":1\r\n");
    drop(accepted);
}

#[test]
fn a_key_is_on_one_server_while_programs_change_it() {
    let (from, to) = (Server::nagi(), Server::nagi());
    let mut mover = from.connect_resp();
    let port = to.resp().port();
    let counted: i64 = std::thread::scope(|scope| {
        let counters: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut here, mut there) = (from.connect_resp(), to.connect_resp());
                    let mut counted = 0;
                    // XX stores only if the key exists.
                    while counted < 300 {
                        for client in [&mut here, &mut there] {
                            let script = "if redis.call('EXISTS', KEYS[1]) == 1 then \
                                          return redis.call('INCR', KEYS[1]) end return 0";
                            let told = client.run_words(&["EVAL", script, "1", "key"]);
                            counted += i64::from(told.integer() > 0);
                        }
                    }
                    counted
                })
            })
            .collect();
        mover.run("SET key 0");
        let mut back = to.connect_resp();
        let home = from.resp().port();
        for _ in 0..100 {
            mover.check(&format!("MIGRATE 127.0.0.1 {port} key 0 5000"), "+OK\r\n");
            back.check(&format!("MIGRATE 127.0.0.1 {home} key 0 5000"), "+OK\r\n");
        }
        counters.into_iter().map(|it| it.join().expect("it counts")).sum()
    });
    assert_eq!(mover.run("GET key").text(), counted.to_string());
}

#[test]
fn it_moves_keys_within_a_transaction() {
    let (from, to) = (Server::nagi(), Server::nagi());
    let mut client = from.connect_resp();
    client.run("MULTI");
    client.run("SET key value");
    client.run(&format!("MIGRATE 127.0.0.1 {} key 0 1000", to.resp().port()));
    client.run("EXISTS key");
    client.check("EXEC", "*3\r\n+OK\r\n+OK\r\n:0\r\n");
    to.connect_resp().check("GET key", "$5\r\nvalue\r\n");
}

#[test]
fn the_server_stops_while_a_target_is_silent() {
    let mut from = Server::nagi();
    let mut client = from.connect_resp();
    client.run("SET key value");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let request = format!("MIGRATE 127.0.0.1 {port} key 0 600000");
    client.send(encode_command(&harness::words(&request)));
    let accepted = silent.accept().expect("it connects");
    from.signal(rustix::process::Signal::TERM);
    assert!(from.wait_for_exit().success());
    drop(accepted);
}

/// A listener whose backlog is full does not answer new connections.
#[test]
fn the_server_stops_while_a_target_accepts_no_connection() {
    let mut from = Server::nagi();
    let (mut client, mut observer) = (from.connect_resp(), from.connect_resp());
    client.run("SET key value");
    let full = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&full, 0).expect("a shorter backlog");
    let address = full.local_addr().expect("an address");
    let waiting = TcpStream::connect(address).expect("room for one");
    let request = format!("MIGRATE 127.0.0.1 {} key 0 600000", address.port());
    client.send(encode_command(&harness::words(&request)));
    let begins = || observer.run("CLIENT LIST").text().contains("cmd=migrate").then_some(());
    until("the request", begins).unwrap();
    from.signal(rustix::process::Signal::TERM);
    assert!(from.wait_for_exit().success());
    drop(waiting);
}

#[test]
fn redis_cli_moves_a_large_value() {
    let (from, to) = (Server::nagi(), Server::redis());
    let mut client = from.connect_resp();
    client.run_words(&["SET", "large", &"v".repeat(20 << 20)]);
    let ports = [&from, &to].map(|server| server.resp().port().to_string());
    let mut command = tool("redis-cli");
    command.args(["-p", &ports[0], "MIGRATE", "127.0.0.1", &ports[1], "large", "0", "20000"]);
    let output = command.output().expect("redis-cli runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\n");
    to.connect_resp().check("STRLEN large", format!(":{}\r\n", 20 << 20));
    until("it is gone", || (client.run("EXISTS large").integer() == 0).then_some(()))
        .expect("gone");
}

/// The thread of scripts claims the key, which the request must not have claimed before.
#[test]
fn a_key_for_which_a_client_waits_is_moved() {
    let (from, to) = (Server::nagi(), Server::nagi());
    let (mut client, mut blocked) = (from.connect_resp(), from.connect_resp());
    client.check("XADD s 1-1 field value", "$3\r\n1-1\r\n");
    blocked.send(encode_command(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
    until("the client waits", || {
        client.run("INFO clients").text().contains("blocked_clients:1\r\n").then_some(())
    })
    .unwrap();
    let port = to.resp().port();
    client.check(&format!("MIGRATE 127.0.0.1 {port} s 0 5000"), "+OK\r\n");
    client.check("EVAL \"return redis.call('EXISTS', KEYS[1])\" 1 s", ":0\r\n");
    to.connect_resp().check("EXISTS s", ":1\r\n");
}

/// MIGRATE reads values, but is not a command that reads, as for redis-server.
#[test]
fn a_copied_key_is_not_tracked() {
    let to = Server::redis();
    for from in [Server::nagi(), Server::redis()] {
        let (mut client, mut other) = (from.connect_resp(), from.connect_resp());
        client.run("HELLO 3");
        client.check("CLIENT TRACKING ON", "+OK\r\n");
        client.run("MSET copied 1 read 1");
        let request = format!("MIGRATE 127.0.0.1 {} copied 0 5000 COPY REPLACE", to.resp().port());
        client.check(&request, "+OK\r\n");
        client.check("GET read", "$1\r\n1\r\n");
        other.check("SET copied 2", "+OK\r\n");
        other.check("SET read 2", "+OK\r\n");
        client.expect(">2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\nread\r\n");
    }
}

/// The time to live is that at the moment when a key is sent.
#[test]
fn a_move_that_takes_long_shortens_times_to_live() {
    let from = Server::nagi();
    let mut client = from.connect_resp();
    let keys: Vec<String> = (0..65).map(|key| format!("key:{key}")).collect();
    for key in &keys {
        client.check(&format!("SET {key} value PX 100000"), "+OK\r\n");
    }
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = target.local_addr().expect("an address").port();
    let request = format!("MIGRATE 127.0.0.1 {port} \"\" 0 30000 KEYS {}", keys.join(" "));
    client.send(encode_command(&harness::words(&request)));
    let (stream, _) = target.accept().expect("it connects");
    let mut requests = Requests::over(stream);
    let mut first = requests.next_words();
    if first[0] == b"SELECT" {
        requests.answer("+OK\r\n");
        first = requests.next_words();
    }
    assert_eq!(first[0].to_ascii_uppercase(), b"RESTORE");
    let ttl = |words: &[Vec<u8>]| -> i64 {
        String::from_utf8_lossy(&words[2]).parse().expect("a number")
    };
    let before = ttl(&first);
    (1..64).for_each(|_| drop(requests.next_words()));
    let mut clock = from.connect_resp();
    clock.check("SET clock x PX 100000", "+OK\r\n");
    let has_passed = || (clock.run("PTTL clock").integer() < 99_800).then_some(());
    until("time", has_passed).unwrap();
    requests.answer(&"+OK\r\n".repeat(64));
    let after = ttl(&requests.next_words());
    assert!(after <= before - 100, "{after} ms, {before} ms before");
    requests.answer("+OK\r\n");
    client.expect("+OK\r\n");
}

/// Requests that a server sends to another one.
struct Requests {
    stream: BufReader<TcpStream>,
}

impl Requests {
    fn over(stream: TcpStream) -> Self {
        Requests { stream: BufReader::new(stream) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn next_words(&mut self) -> Vec<Vec<u8>> {
        let count: usize = self.line().trim_start_matches('*').parse().expect("a count");
        let word = |_| {
            let len: usize = self.line().trim_start_matches('$').parse().expect("a length");
            let mut word = vec![0; len + 2];
            self.stream.read_exact(&mut word).expect("a word");
            word.truncate(len);
            word
        };
        (0..count).map(word).collect()
    }

    fn answer(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).expect("it reads");
    }
}
