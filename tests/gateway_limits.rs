//! The limits of commands over HTTP, and malicious requests: too many at once, too long, cut off,
//! or ambiguous.

use harness::{Connection, Reply, allow_open_files, until};

use crate::gateway::{Client, Socket, answer, nagi};

#[test]
fn values_come_by_post_of_any_length_and_in_chunks() {
    const LONG: usize = 80 << 20;
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut client = Client::of(&server);
    assert_eq!(client.ask("POST", "/SET/a", "", &vec![b'x'; LONG]).status, 200);
    redis.check("STRLEN a", format!(":{LONG}\r\n"));
    for (method, target, chunks, status, length) in [
        ("PUT", "/SET/a", "3\r\na\nb\r\n2;x=y\r\ncd\r\n0\r\nX: y\r\n\r\n", 200, 5),
        ("POST", "/APPEND/a", "1\r\ne\r\n0\r\n\r\n", 200, 6),
        ("PUT", "/SET/a", "0\r\n\r\n", 200, 0),
        ("POST", "/SET/a", "0\r\n\r\n", 400, 0),
        ("PUT", "/SET/a", "1\r\n5\r\n0\r\n\r\n", 200, 1),
        ("POST", "/", "9\r\n[\"INCR\",\"\r\n3\r\na\"]\r\n0\r\n\r\n", 200, 1),
        ("PUT", "/SET/a", "x\r\n", 400, 1),
    ] {
        let mut client = Client::of(&server);
        let address = client.address;
        client.connection.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n\r\n\
             {chunks}GET /STRLEN/a HTTP/1.1\r\nHost: {address}\r\n\r\n"
        ));
        let response = client.receive(true);
        assert_eq!(response.status, status, "{method} {target} {chunks}: {}", response.text());
        redis.check("STRLEN a", format!(":{length}\r\n"));
        // The next request begins where the body ends. After an invalid body there is no next
        // request.
        if chunks.starts_with('x') {
            assert_eq!(client.connection.rest(), b"", "{chunks}");
            continue;
        }
        let next = client.receive(true);
        assert_eq!(next.text(), format!("{{\"STRLEN\":{length}}}"), "{chunks}");
        assert_eq!(client.get("/PING").0, 200, "the connection stays");
    }
}

#[test]
fn words_of_a_path_and_long_errors_count_towards_the_limit() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    let words = |words: usize| format!("nosuch{}", "/".repeat(words));
    assert_eq!(client.post("/", &words(1 << 20)).0, 404);
    assert_eq!(client.post("/", &words(4 << 20)).0, 503);
    let eval = r#"["EVAL","return redis.error_reply('ERR ' .. string.rep('x', 15000000))","0"]"#;
    assert_eq!(client.post("/", eval).0, 400);
    // Clients that do not read. The head comes once the whole error has arrived and is counted.
    let mut stalled = [Client::of(&server), Client::of(&server)];
    for stalled in &mut stalled {
        stalled.send("POST", "/", "", eval.as_bytes());
        assert_eq!(stalled.head().0, 400);
    }
    assert_eq!(client.post("/", eval).0, 503, "they count until they are sent");
    drop(stalled);
    until("the memory is free again", || (client.post("/", eval).0 == 400).then_some(()))
        .expect("it is released with the connections");
}

/// The head alone decides whether the body is read: the bodies never end.
#[test]
fn a_chunked_body_is_read_only_if_its_command_may_run() {
    let server = nagi(&["--http-commands", "+@read"]);
    for (target, status) in [("/SET/a", 403), ("/GET/a?callback=f", 403)] {
        let mut client = Client::of(&server);
        let address = client.address;
        client.connection.send(format!(
            "PUT {target} HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n\r\n\
             1\r\nx\r\n"
        ));
        let response = client.receive(true);
        assert_eq!(response.status, status, "{target}: {}", response.text());
    }
}

#[test]
fn a_chunked_value_may_be_as_long_as_others() {
    const CHUNK: usize = 1 << 20;
    /// Memory for everything except the value, in bytes. It includes what the tests' build
    /// additionally needs.
    const OVERHEAD: u64 = 8 << 20;
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut client = Client::of(&server);
    let head = format!("Host: {}\r\nTransfer-Encoding: chunked\r\n\r\n", server.http());
    let chunk = [format!("{CHUNK:x}\r\n").as_bytes(), &[b'x'; CHUNK], b"\r\n"].concat();
    assert_eq!(client.post("/SET/b/x", "").0, 200);
    let before = server.resident_bytes();
    for (method, target, chunks) in [("PUT", "/SET/a", 512), ("POST", "/APPEND/b", 3)] {
        client.connection.send(format!("{method} {target} HTTP/1.1\r\n{head}"));
        (0..chunks).for_each(|_| client.connection.send(&chunk));
        client.connection.send("0\r\n\r\n");
        let response = client.receive(true);
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let peak = server.status("VmHWM") * 1024 - before;
    assert!(peak < (515 * CHUNK) as u64 + OVERHEAD, "{peak} bytes for a value of 512 MB");
    redis.check("STRLEN a", format!(":{}\r\n", 512 * CHUNK));
    redis.check("GETRANGE a 536870910 -1", "$2\r\nxx\r\n");
    redis.check("GETRANGE b 0 2", "$3\r\nxxx\r\n");
    redis.check("DEL a b", ":2\r\n");
    redis.check("CONFIG SET proto-max-bulk-len 2mb", "+OK\r\n");
    client.connection.send(format!("PUT /SET/b HTTP/1.1\r\n{head}"));
    (0..2).for_each(|_| client.connection.send(&chunk));
    client.connection.send("1\r\nx\r\n0\r\n\r\n");
    let response = client.receive(true);
    assert_eq!(response.text(), "the body is longer than proto-max-bulk-len\n");
    redis.check("EXISTS b", ":0\r\n");
}

#[test]
fn requests_that_wait_leave_room_for_others() {
    const WAITING: usize = 768;
    allow_open_files(20_000);
    let server = nagi(&[]);
    let connect = || Connection::open(server.http());
    let mut redis = server.connect_resp();
    let request = format!("POST /BLPOP/queue/0 HTTP/1.1\r\nHost: {}\r\n\r\n", server.http());
    let mut waiting: Vec<_> = (0..1100)
        .map(|_| {
            let mut connection = connect();
            connection.send(&request);
            connection
        })
        .collect();
    until("so many wait", || {
        let blocked = format!("blocked_clients:{WAITING}\r\n");
        redis.run("INFO clients").text().contains(&blocked).then_some(())
    })
    .unwrap();
    let mut client = Client::of(&server);
    for (target, status) in
        [("/healthz", 200), ("/readyz", 200), ("/PING", 200), ("/SUBSCRIBE/c", 429)]
    {
        assert_eq!(client.get(target).0, status, "{target}");
    }
    assert_eq!(client.post("/BRPOP/queue/0", "").0, 429);
    assert_eq!(client.post("/", r#"["BRPOP","queue","0"]"#).0, 429);
    waiting.truncate(1);
    until("those have gone", || {
        redis.run("INFO clients").text().contains("blocked_clients:1\r\n").then_some(())
    })
    .unwrap();
    redis.check("RPUSH queue a", ":1\r\n");
    assert!(waiting[0].line().starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_connection_beyond_the_limit_takes_the_place_of_an_idle_one() {
    allow_open_files(20_000);
    let server = nagi(&[]);
    let mut clients: Vec<_> = (0..1024).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/healthz").0, 200);
    }
    for _ in 0..20 {
        let mut client = Client::of(&server);
        assert_eq!(client.get("/PING").0, 200);
        clients.push(client);
    }
}

#[test]
fn contradictory_requests_are_refused() {
    let server = nagi(&[]);
    let address = server.http();
    for (head, status) in [
        ("PUT /SET/a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", 400),
        ("PUT /SET/a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
        ("PUT /SET/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 1", 400),
        ("PUT /SET/a HTTP/1.1\r\nTransfer-Encoding: gzip, chunked", 501),
        ("PUT /SET/a HTTP/1.1\r\nTransfer-Encoding: chunked", 400),
        ("GET /PING HTTP/1.1\nX: y", 400),
        ("GET /PING HTTP/1.1\r\nX: y\n", 400),
        ("POST /SET/a HTTP/1.1\r\nX: y\nContent-Length: 1", 400),
        ("GET /healthz HTTP/1.1\r\nX: y\nZ: z", 400),
        ("GET /GET/a HTTP/1.1\r\nContent-Length: 1", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 999999999999", 413),
        ("DELETE /GET/a HTTP/1.1", 405),
        ("GET /GET/a HTTP/1.1\r\nHost: other.example", 400),
    ] {
        let mut connection = Connection::open(address);
        connection.send(format!("{head}\r\nHost: {address}\r\nConnection: close\r\n\r\nx"));
        let told = String::from_utf8_lossy(&connection.rest()).into_owned();
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {told}");
    }
    server.connect_resp().check("EXISTS a", ":0\r\n");
}

#[test]
fn an_upload_that_breaks_off_changes_nothing() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    redis.check("SET a before", "+OK\r\n");
    let mut client = Client::of(&server);
    let address = server.http();
    client.connection.send(format!(
        "PUT /SET/a HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000000\r\n\r\n{}",
        "x".repeat(500_000)
    ));
    drop(client);
    until("the upload is given up", || {
        let listed = redis.run("CLIENT LIST").text();
        (!listed.contains("laddr=0.0.0.0:0")).then_some(())
    })
    .unwrap();
    redis.check("GET a", "$6\r\nbefore\r\n");
}

#[test]
fn memory_of_all_requests_is_limited() {
    const HELD: usize = 60 << 20;
    let server = nagi(&[]);
    let address = server.http();
    let mut uploads = Vec::new();
    for _ in 0..2 {
        let mut upload = Connection::open(address);
        upload.send(format!(
            "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n",
            64 << 20
        ));
        upload.send(vec![b' '; HELD]);
        uploads.push(upload);
        let mut socket = Socket::open(&server, "/.json").0.connection;
        let mut frame = vec![0x81, 0xff];
        frame.extend((64_u64 << 20).to_be_bytes());
        frame.resize(HELD, b' ');
        socket.send(frame);
        uploads.push(socket);
    }
    let mut client = Client::of(&server);
    let many = format!("[{}]", vec![r#"["PING"]"#; 200_000].join(","));
    let mut answers_with = |status: u16| {
        until(&format!("the answer is {status}"), || {
            (client.post("/pipeline", &many).0 == status).then_some(())
        })
        .unwrap_or_else(|problem| panic!("{problem}"));
    };
    answers_with(503);
    drop(uploads);
    answers_with(200);
}

#[test]
fn a_client_that_leaves_bytes_behind_its_request_is_noticed_when_it_has_gone() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    for request in ["GET /SUBSCRIBE/news HTTP/1.1\r\n", "POST /BLPOP/list/0 HTTP/1.1\r\n"] {
        let mut reader = Connection::open(server.http());
        reader.send(format!("{request}Host: localhost\r\nContent-Length: 0\r\n\r\nx"));
        let is_there = |count: usize, client: &mut Connection| {
            let subscribers = client.run("PUBSUB NUMSUB news").list()[1].integer();
            let info = client.run("INFO clients").text();
            let is_blocked = info.contains("blocked_clients:1\r\n");
            (subscribers as usize + usize::from(is_blocked) == count).then_some(())
        };
        until("the client to wait", || is_there(1, &mut client)).expect("it waits");
        drop(reader);
        until("the client to be gone", || is_there(0, &mut client)).expect("it is noticed");
    }
}

#[test]
fn readers_that_stall_hold_little_of_a_long_value() {
    const READERS: usize = 10;
    const LENGTH: usize = 24 << 20;
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    redis.run_words(&[&b"SET"[..], b"long", &vec![b'x'; LENGTH]]);
    let used = |redis: &mut Connection| {
        let text = redis.run("INFO memory").text();
        let (_, after) = text.split_once("used_memory:").expect("it is told");
        after.split("\r\n").next().and_then(|it| it.parse::<usize>().ok()).expect("a number")
    };
    for (method, target, body, is_chunked) in [
        ("GET", "/GET/long.bin", &b""[..], false),
        ("GET", "/GET/long", b"", true),
        ("POST", "/", br#"["GET","long"]"#, true),
    ] {
        let read = |client: &mut Client, letters: &mut usize| {
            let piece = match is_chunked {
                true => client.chunk(),
                false => client.connection.take((LENGTH - *letters).min(8 << 10)),
            };
            *letters += piece.iter().filter(|it| **it == b'x').count();
        };
        let before = used(&mut redis);
        let stalled: Vec<_> = (0..READERS)
            .map(|_| {
                let (mut client, mut letters) = (Client::of(&server), 0);
                client.send(method, target, "", body);
                assert_eq!(client.head().0, 200);
                // By this time, everything between the value and the socket has been allocated.
                while letters < 1 << 20 {
                    read(&mut client, &mut letters);
                }
                (client, letters)
            })
            .collect();
        let held = used(&mut redis).saturating_sub(before);
        assert!(held < READERS * (112 << 10), "{target}: {READERS} readers hold {held} bytes");
        for (mut client, mut letters) in stalled {
            while letters < LENGTH {
                read(&mut client, &mut letters);
            }
            while is_chunked && !client.chunk().is_empty() {}
            assert_eq!((client.get("/PING").0, letters), (200, LENGTH));
        }
    }
}

#[test]
fn networks_have_their_own_rules() {
    let server = nagi(&["--http-networks", "127.0.0.0/8 ::1 -del 192.0.2.0/24 -@all +get"]);
    let mut client = Client::of(&server);
    let mut socket = Socket::open(&server, "/.json");
    let mut redis = server.connect_resp();
    assert_eq!(client.post("/SET/a/b", "").0, 200);
    assert_eq!(client.post("/DEL/a", "").0, 403);
    let refused = r#"{"error":"NOPERM command not allowed over HTTP"}"#;
    let (status, text) = client.post("/pipeline", r#"[["SET","a","c"],["DEL","a"]]"#);
    assert_eq!((status, &*text), (200, &*format!(r#"[{{"result":"OK"}},{refused}]"#)));
    assert_eq!(client.post("/multi-exec", r#"[["SET","a","d"],["DEL","a"]]"#).0, 403);
    socket.check(r#"["DEL","a"]"#, r#"{"DEL":[false,"NOPERM command not allowed over HTTP"]}"#);
    redis.check("GET a", "$1\r\nc\r\n");
    // The address of the client is the one that a trusted proxy sends.
    redis.check("CONFIG SET http-trusted-proxies 127.0.0.1 requirepass x", "+OK\r\n");
    let forwarded = "X-Forwarded-For: 192.0.2.7\r\nAuthorization: Bearer x\r\n";
    assert_eq!(client.ask("GET", "/GET/a", forwarded, b"").status, 200);
    assert_eq!(client.ask("GET", "/TTL/a", forwarded, b"").status, 403);
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'http-networks') - \
                   nowhere is no address and no network such as 10.0.0.0/8\r\n";
    redis.check("CONFIG SET http-networks nowhere", refused);
    let login = "Authorization: Bearer x\r\n";
    assert_eq!(client.ask("GET", "/GET/a", login, b"").status, 200, "the rules are as they were");
}

#[test]
fn reads_may_be_cached_if_that_is_configured() {
    let server = nagi(&["--http-cache-control", "public, max-age=60"]);
    let mut client = Client::of(&server);
    client.post("/SET/a/b", "");
    for (method, target, expected) in [
        ("GET", "/GET/a", "public, max-age=60"),
        ("HEAD", "/GET/a.txt", "public, max-age=60"),
        ("GET", "/GET/nothing.txt", "no-store"),
        ("GET", "/LLEN/a", "no-store"),
        ("POST", "/GET/a", "no-store"),
        ("GET", "/metrics", "no-store"),
    ] {
        let response = client.ask(method, target, "", b"");
        assert_eq!(response.header("cache-control"), Some(expected), "{method} {target}");
    }
    let mut redis = server.connect_resp();
    redis.check("CONFIG SET http-writes-by-get yes", "+OK\r\n");
    let response = client.ask("GET", "/INCR/n", "", b"");
    assert_eq!(response.header("cache-control"), Some("no-store"), "it changes something");
    redis.run_words(&["CONFIG", "SET", "http-cache-control", "a\u{7f}b"]);
    let response = client.ask("GET", "/GET/a", "", b"");
    assert_eq!(response.header("cache-control"), Some("no-store"), "it is no header");
}

#[test]
fn the_start_screen_says_that_a_get_may_change_data() {
    for (setting, expected) in [("yes", true), ("no", false)] {
        let server = nagi(&["--http-writes-by-get", setting]);
        until("it has said what it is", || server.log().contains("Ctrl-C").then_some(())).unwrap();
        let log = server.log();
        assert_eq!(log.contains("http-writes-by-get yes"), expected, "{log}");
    }
}

/// The rules would only see the container.
#[test]
fn a_subcommand_is_not_taken_from_the_body() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    for (target, body) in [("/ACL", "LIST"), ("/CONFIG", "RESETSTAT"), ("/CLIENT", "LIST")] {
        for method in ["PUT", "POST"] {
            let response = client.ask(method, target, "", body.as_bytes());
            let expected = "a subcommand must be in the path, not in the body\n";
            assert_eq!((response.status, &*response.text()), (400, expected), "{target}");
        }
    }
    assert_eq!(client.ask("POST", "/ACL/LIST", "", b"").status, 403);
}

/// Otherwise a script could call what its client may not.
#[test]
fn scripts_obey_the_rules_for_commands() {
    let refused =
        |reason: &str| format!("ACL failure in script: command not allowed over HTTP {reason}");
    for (rules, call, reason) in [
        ([].as_slice(), "'SLOWLOG','GET',1", "(see http-commands)"),
        (&["--http-commands", "+@all -@admin -set"], "'SET','a','x'", "(see http-commands)"),
        (
            &["--http-networks", "127.0.0.0/8 ::1 -@write"],
            "'SET','a','x'",
            "from this address (see http-networks)",
        ),
    ] {
        let server = nagi(rules);
        let mut client = Client::of(&server);
        let mut redis = server.connect_resp();
        let script = format!("return redis.call({call})");
        let eval = format!(r#"["EVAL","{script}","0"]"#);
        for (target, body) in [
            ("/", eval.clone()),
            ("/pipeline", format!("[{eval}]")),
            ("/multi-exec", format!("[{eval}]")),
        ] {
            let (_, text) = client.post(target, &body);
            assert!(text.contains(&refused(reason)), "{rules:?} {target}: {text}");
        }
        redis.check("EXISTS a", ":0\r\n");
        assert!(!matches!(redis.run_words(&["EVAL", &script, "0"]), Reply::Error(_)));
        let allowed = r#"["EVAL","return redis.call('GET','b')","0"]"#;
        assert_eq!(client.post("/", allowed), answer(200, r#"{"result":null}"#));
    }
}
