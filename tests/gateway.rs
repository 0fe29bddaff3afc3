//! Commands over HTTP: paths in the form of webdis, lists in the form of Upstash, and refused
//! requests.

use std::net::SocketAddr;

use harness::{Connection, Server, until};

pub(crate) fn nagi(more: &[&str]) -> Server {
    Server::nagi_with(&[&["--http-port", "any"], more].concat())
}

/// A client that keeps its connection open.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) address: SocketAddr,
    host: String,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Client {
    pub(crate) fn of(server: &Server) -> Self {
        Self::calling(&server.http().to_string(), server.http())
    }

    /// Connects to the server at an address, and sends this host name with requests.
    pub(crate) fn calling(host: &str, address: SocketAddr) -> Self {
        Client { connection: Connection::open(address), address, host: host.to_owned() }
    }

    pub(crate) fn send(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) {
        let length = match (method, body) {
            ("GET" | "HEAD" | "OPTIONS" | "DELETE", b"") => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        let host = &self.host;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{headers}{length}\r\n");
        self.connection.send([head.as_bytes(), body].concat());
    }

    pub(crate) fn head(&mut self) -> (u16, String) {
        let mut head = String::new();
        loop {
            let line = self.connection.line();
            if line.is_empty() {
                break;
            }
            head.push_str(&line);
            head.push('\n');
        }
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status: {head}")), head)
    }

    pub(crate) fn receive(&mut self, has_body: bool) -> Response {
        let (status, head) = self.head();
        let mut response = Response { status, head, body: Vec::new() };
        let length = response.header("content-length").and_then(|it| it.parse().ok());
        if !has_body || status == 304 {
            return response;
        }
        match length {
            Some(length) => response.body = self.connection.take(length),
            None => loop {
                let chunk = self.chunk();
                if chunk.is_empty() {
                    break;
                }
                response.body.extend(chunk);
            },
        }
        response
    }

    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let size = usize::from_str_radix(&self.connection.line(), 16).expect("a chunk's size");
        let chunk = self.connection.take(size);
        assert_eq!(self.connection.take(2), b"\r\n");
        chunk
    }

    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
    ) -> Response {
        self.send(method, target, headers, body);
        self.receive(method != "HEAD")
    }

    pub(crate) fn get(&mut self, target: &str) -> (u16, String) {
        let response = self.ask("GET", target, "", b"");
        (response.status, response.text())
    }

    pub(crate) fn post(&mut self, target: &str, body: &str) -> (u16, String) {
        let response = self.ask("POST", target, "", body.as_bytes());
        (response.status, response.text())
    }
}

pub(crate) fn answer(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[test]
fn paths_are_commands_as_with_webdis() {
    let server = nagi(&["--http-writes-by-get", "yes"]);
    let mut client = Client::of(&server);
    for (target, status, body) in [
        ("/SET/hello/world", 200, r#"{"SET":[true,"OK"]}"#),
        ("/get/hello", 200, r#"{"get":"world"}"#),
        ("/GET/hello.txt", 200, "world"),
        ("/GET/hello.raw", 200, "$5\r\nworld\r\n"),
        ("/GET/hello.png", 200, "world"),
        ("/GET/hello.foo", 200, r#"{"GET":null}"#),
        ("/GET/nope.txt", 404, ""),
        ("/INCR/n", 200, r#"{"INCR":1}"#),
        ("/INCR/hello", 400, r#"{"INCR":[false,"ERR value is not an integer or out of range"]}"#),
        ("/INCR/hello.txt", 400, "-ERR value is not an integer or out of range"),
        ("/GET", 400, r#"{"GET":[false,"ERR wrong number of arguments for 'get' command"]}"#),
        ("/RPUSH/l/a/b/c", 200, r#"{"RPUSH":3}"#),
        ("/LRANGE/l/0/-1", 200, r#"{"LRANGE":["a","b","c"]}"#),
        ("/LRANGE/l/0/-1.txt?sep=%2C", 200, "a,b,c"),
        ("/HSET/h/a/1/b/2", 200, r#"{"HSET":2}"#),
        ("/HGETALL/h", 200, r#"{"HGETALL":{"a":"1","b":"2"}}"#),
        ("/SET/a%20b+c/%ff%22", 200, r#"{"SET":[true,"OK"]}"#),
        ("/GET/a%20b+c", 200, "{\"GET\":\"\u{fffd}\\\"\"}"),
        ("/MGET/hello/zz/n", 200, r#"{"MGET":["world",null,"1"]}"#),
        ("/TYPE/hello.txt", 200, "+string"),
        ("/7/SET/x/y", 200, r#"{"SET":[true,"OK"]}"#),
        ("/GET/x", 200, r#"{"GET":null}"#),
        ("/7/GET/x", 200, r#"{"GET":"y"}"#),
        ("/99/GET/x", 400, "ERR DB index is out of range\n"),
        ("/NOPE/x", 404, "unknown command\n"),
        ("/GET/%zz", 400, "a percent sign must be followed by two hex digits\n"),
        ("/", 400, "the path names no command: /COMMAND/argument/...\n"),
    ] {
        assert_eq!(client.get(target), answer(status, body), "{target}");
    }
    assert_eq!(client.post("/", "GET/hello"), answer(200, r#"{"GET":"world"}"#));
    let put = client.ask("PUT", "/SET/put", "", b"");
    assert_eq!(put.text(), r#"{"SET":[true,"OK"]}"#, "an empty body is an empty string");
    assert_eq!(client.get("/GET/put"), answer(200, r#"{"GET":""}"#));
    let mut redis = server.connect_resp();
    redis.check(
        "GET \"a b c\"",
        "$2\r\n\u{ff}\"\r\n".chars().map(|it| it as u8).collect::<Vec<_>>(),
    );
}

#[test]
fn requests_by_get_change_nothing() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    for target in ["/SET/a/b", "/PUBLISH/a/b", "/DEL/a", "/FLUSHALL", "/EVAL/return/0"] {
        let response = client.ask("GET", target, "", b"");
        let is_known = response.status != 404;
        assert!(!is_known || response.status == 405, "{target}: {}", response.text());
        assert!(!is_known || response.header("allow") == Some("POST, PUT"));
    }
    assert_eq!(client.post("/SET/a/b", ""), answer(200, r#"{"SET":[true,"OK"]}"#));
    assert_eq!(client.post("/APPEND/a", "c"), answer(200, r#"{"APPEND":2}"#));
    assert_eq!(client.get("/GET/a"), answer(200, r#"{"GET":"bc"}"#));
    for target in [
        "/CONFIG/GET/x",
        "/SELECT/1",
        "/AUTH/x",
        "/MULTI",
        "/WATCH/a",
        "/CLIENT/REPLY/OFF",
        "/QUIT",
    ] {
        assert_eq!(client.post(target, "").0, 403, "{target}");
    }
    let mut redis = server.connect_resp();
    redis.check("CONFIG SET http-commands \"+get +config|get\"", "+OK\r\n");
    assert_eq!(client.get("/GET/a").0, 200);
    assert_eq!(client.get("/TTL/a").0, 403);
    assert_eq!(client.post("/CONFIG/GET/timeout", "").0, 200);
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'http-commands') - \
                   '+@nosuch': Unknown command or category name in ACL\r\n";
    redis.check("CONFIG SET http-commands \"+@all +@nosuch\"", refused);
    assert_eq!(client.get("/GET/a").0, 200, "the rules are as they were");
    redis.check("CONFIG SET http-gateway no", "+OK\r\n");
    assert_eq!(client.get("/GET/a"), answer(404, "no such page\n"));
    assert_eq!(client.get("/healthz"), answer(200, "ok\n"));
}

#[test]
fn lists_are_commands_as_with_upstash() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    for (target, body, status, expected) in [
        ("/", r#"["SET","a","b"]"#, 200, r#"{"result":"OK"}"#),
        ("/", r#"["GET","a"]"#, 200, r#"{"result":"b"}"#),
        ("/", r#"["INCR","a"]"#, 400, r#"{"error":"ERR value is not an integer or out of range"}"#),
        ("/", r#"["SET","n",5]"#, 200, r#"{"result":"OK"}"#),
        (
            "/pipeline",
            r#"[["INCR","n"],["INCR","a"],["GET","nope"]]"#,
            200,
            "[{\"result\":6},{\"error\":\"ERR value is not an integer or out of range\"},\
             {\"result\":null}]",
        ),
        (
            "/multi-exec",
            r#"[["SET","n",1],["INCR","n"],["MGET","n","a"]]"#,
            200,
            r#"[{"result":"OK"},{"result":2},{"result":["2","b"]}]"#,
        ),
        (
            "/multi-exec",
            r#"[["SET","n",9],["GET"]]"#,
            400,
            r#"{"error":"ERR wrong number of arguments for 'get' command"}"#,
        ),
        (
            "/pipeline",
            r#"[["SET","n",3],["NOSUCH"],["CONFIG","GET","port"],["GET","n"],["SUBSCRIBE","c"]]"#,
            200,
            "[{\"result\":\"OK\"},{\"error\":\"ERR unknown command\"},\
             {\"error\":\"NOPERM command not allowed over HTTP\"},{\"result\":\"3\"},\
             {\"error\":\"NOPERM command not allowed over HTTP\"}]",
        ),
        ("/pipeline", r#"[["NOSUCH"]]"#, 200, r#"[{"error":"ERR unknown command"}]"#),
        ("/multi-exec", r#"[["SET","n",9],["NOSUCH"]]"#, 400, r#"{"error":"ERR unknown command"}"#),
        ("/", r#"["INCRBY","n",-1]"#, 200, r#"{"result":2}"#),
        ("/", r#"["NOSUCH"]"#, 400, r#"{"error":"ERR unknown command"}"#),
    ] {
        assert_eq!(client.post(target, body), answer(status, expected), "{target} {body}");
    }
    let response = client.ask("POST", "/", "Upstash-Encoding: base64\r\n", br#"["GET","a"]"#);
    assert_eq!(response.text(), r#"{"result":"Yg=="}"#);
    for wrong in ["[", "[null]", "[]"] {
        let (status, text) = client.post("/", wrong);
        assert!(status == 400 && text.starts_with("{\"error\":\"ERR failed to parse"), "{text}");
    }
    for token in ["_token=x", "x=y&%5ftoken=x"] {
        assert_eq!(client.get(&format!("/GET/a?{token}")).0, 400, "URLs end up in logs");
    }
    assert_eq!(client.post("/", r#"["SELECT","1"]"#).0, 403);
}

#[test]
fn values_of_any_length_go_both_ways() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    for length in [0, 1, 65_535, 65_536, 65_537, 3_000_000] {
        let value: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
        assert_eq!(client.ask("PUT", "/SET/value", "", &value).status, 200, "{length}");
        let response = client.ask("GET", "/GET/value.bin", "", b"");
        assert!(response.body == value, "{length}");
        assert_eq!(response.header("content-length"), Some(&*length.to_string()));
        let head = client.ask("HEAD", "/GET/value.bin", "", b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        let raw = client.ask("GET", "/GET/value.raw", "", b"");
        let whole = [format!("${length}\r\n").as_bytes(), &value, b"\r\n"].concat();
        assert!(raw.body == whole, "{length}");
    }
    server.connect_resp().check("CONFIG SET proto-max-bulk-len 2mb", "+OK\r\n");
    let mut client = Client::of(&server);
    let head = format!("PUT /SET/a HTTP/1.1\r\nHost: {}\r\n", client.host);
    client.connection.send(head + "Content-Length: 3000000\r\n\r\nx");
    assert_eq!(client.receive(true).status, 413);
}

#[test]
fn unchanged_values_are_not_sent_again() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    client.post("/SET/a/b", "");
    let response = client.ask("GET", "/GET/a", "", b"");
    let tag = response.header("etag").expect("a tag").to_owned();
    let known = format!("If-None-Match: \"x\", W/{tag}\r\n");
    assert_eq!(client.ask("GET", "/GET/a", &known, b"").status, 304);
    client.post("/SET/a/c", "");
    assert_eq!(client.ask("GET", "/GET/a", &known, b"").status, 200);
}

#[test]
fn browsers_do_not_execute_values() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    client.post("/SET/a", "<script>");
    for target in [
        "/GET/a.html",
        "/GET/a.xml",
        "/GET/a.js",
        "/GET/a?type=image/svg%2bxml",
        "/GET/a?type=multipart/x-mixed-replace",
    ] {
        assert_eq!(client.get(target).0, 403, "{target}");
    }
    assert_eq!(client.get("/GET/a?jsonp=f").0, 403);
    for target in ["/GET/a?type=text/plain%0d%0aX:y", "/GET/a?filename=%22", "/GET/a?jsonp=f()"] {
        assert_eq!(client.get(target).0, 400, "{target}");
    }
    let response = client.ask("GET", "/GET/a?type=application/zip&filename=a.zip", "", b"");
    assert_eq!(response.text(), "<script>");
    for (name, value) in [
        ("content-type", "application/zip"),
        ("content-disposition", "attachment; filename=\"a.zip\""),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'none'; sandbox; frame-ancestors 'none'"),
    ] {
        assert_eq!(response.header(name), Some(value));
    }
    let mut redis = server.connect_resp();
    redis.check("CONFIG SET http-active-types yes http-jsonp yes", "+OK\r\n");
    assert_eq!(client.get("/GET/a.html"), answer(200, "<script>"));
    assert_eq!(client.get("/GET/a?jsonp=f"), answer(200, "f({\"GET\":\"<script>\"});\n"));
    assert_eq!(client.get("/GET/a.js"), answer(200, r#"{"GET":"<script>"}"#));
}

#[test]
fn only_sites_that_are_named_may_ask() {
    let server = nagi(&["--http-origins", "https://shop.example"]);
    let mut client = Client::of(&server);
    for (origin, status) in [("https://shop.example", 200), ("https://evil.example", 403)] {
        let headers = format!("Origin: {origin}\r\nSec-Fetch-Site: cross-site\r\n");
        for method in ["GET", "OPTIONS"] {
            let response = client.ask(method, "/PING", &headers, b"");
            assert_eq!(response.status, status, "{method} {origin}");
            let permitted = response.header("access-control-allow-origin");
            assert_eq!(permitted, (status == 200).then_some(origin));
            assert_eq!(response.header("vary"), Some("Origin"));
            let headers = response.header("access-control-allow-headers").unwrap_or_default();
            assert_eq!(headers.contains("Upstash-Telemetry-Sdk"), status == 200, "{headers}");
        }
        let page = client.ask("GET", "/metrics", &headers, b"");
        assert_eq!(page.status, 403, "{origin}");
    }
    // Caches must not show a page what was made for a request without a site.
    assert_eq!(client.ask("GET", "/PING", "", b"").header("vary"), Some("Origin"));
    // A page that may ask is told that its password is wrong.
    server.connect_resp().check("CONFIG SET requirepass sesame", "+OK\r\n");
    let shop = "Origin: https://shop.example\r\nAuthorization: Bearer wrong\r\n";
    for (target, permitted) in [("/GET/a", Some("https://shop.example")), ("/metrics", None)] {
        let refused = client.ask("GET", target, shop, b"");
        assert!([401, 403].contains(&refused.status), "{target}");
        assert_eq!(refused.header("access-control-allow-origin"), permitted, "{target}");
    }
}

#[test]
fn requests_are_made_as_their_user() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    redis.check("ACL SETUSER ann on >pw ~a* +get", "+OK\r\n");
    redis.check("CONFIG SET requirepass sesame", "+OK\r\n");
    let mut client = Client::of(&server);
    let basic = |login: &str| format!("Authorization: Basic {login}\r\n");
    let ann = basic("YW5uOnB3");
    for (headers, target, status) in [
        (String::new(), "/GET/a", 401),
        (basic("YW5uOndyb25n"), "/GET/a", 401),
        (ann.clone(), "/GET/a", 200),
        (ann.clone(), "/GET/b", 403),
        (ann.clone(), "/TTL/a", 403),
        (ann.clone(), "/1/GET/a", 403),
        (ann.clone(), "/GET/a", 200),
        (ann, "/metrics", 403),
        ("Authorization: Bearer sesame\r\n".to_owned(), "/GET/b", 200),
        ("Authorization: Bearer sesame\r\n".to_owned(), "/metrics", 200),
        ("Authorization: Bearer wrong\r\n".to_owned(), "/GET/b", 401),
    ] {
        assert_eq!(client.ask("GET", target, &headers, b"").status, status, "{headers}{target}");
    }
    // A user in another database, who may no longer leave it, is not asked to.
    for (rule, target, status) in
        [("+select", "/1/GET/a", 200), ("-select", "/GET/a", 403), ("+ping", "/GET/a", 200)]
    {
        redis.check(&format!("ACL SETUSER ann {rule}"), "+OK\r\n");
        let response = client.ask("GET", target, &basic("YW5uOnB3"), b"");
        assert_eq!(response.status, status, "{rule}: {}", response.text());
    }
    redis.check("ACL DELUSER ann", ":1\r\n");
    assert_eq!(client.ask("GET", "/GET/a", &basic("YW5uOnB3"), b"").status, 401);
}

#[test]
fn messages_come_as_they_are_published() {
    let server = nagi(&[]);
    let mut reader = Client::of(&server);
    reader.send("GET", "/SUBSCRIBE/news", "", b"");
    assert_eq!(reader.head().0, 200);
    assert_eq!(reader.chunk(), br#"{"SUBSCRIBE":["subscribe","news",1]}"#);
    let mut client = Client::of(&server);
    for number in 0..3 {
        let published = client.post(&format!("/PUBLISH/news/{number}"), "");
        assert_eq!(published, answer(200, r#"{"PUBLISH":1}"#));
        let expected = format!(r#"{{"SUBSCRIBE":["message","news","{number}"]}}"#);
        assert_eq!(reader.chunk(), expected.as_bytes());
    }
    drop(reader);
    let mut redis = server.connect_resp();
    until("the subscriber is gone", || {
        let reply = redis.run("PUBSUB NUMSUB news");
        (reply.list()[1].integer() == 0).then_some(())
    })
    .unwrap();
}

const EVENTS: &str = "Accept: text/event-stream\r\n";

#[test]
fn messages_come_as_events_to_clients_that_want_them() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut readers = Vec::new();
    // The last request is what @upstash/redis sends: an empty list as its body, and a channel with
    // a literal plus sign whose name only looks like it had an extension.
    for (method, target, body, first) in [
        ("GET", "/SUBSCRIBE/news", "", "data: subscribe,news,1\n\n"),
        ("POST", "/psubscribe/n%65w*", "[]", "data: psubscribe,new*,1\n\n"),
        ("POST", "/subscribe", "a.txt", "data: subscribe,a.txt,1\n\n"),
        ("POST", "/subscribe/a+b.json", "[]", "data: subscribe,a+b.json,1\n\n"),
    ] {
        let mut reader = Client::of(&server);
        reader.send(method, target, EVENTS, body.as_bytes());
        let (status, head) = reader.head();
        let response = Response { status, head, body: Vec::new() };
        assert_eq!((status, response.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(String::from_utf8_lossy(&reader.chunk()), first, "{target}");
        readers.push(reader);
    }
    redis.check("PUBLISH a+b.json {\"a\":[1]}", ":1\r\n");
    assert_eq!(readers[3].chunk(), b"data: message,a+b.json,{\"a\":[1]}\n\n");
    // The lines of a message become lines of one event, and none of them can look like another
    // message.
    redis.run_words(&["PUBLISH", "news", "x\r\nmessage,news,y\n z\n\n"]);
    let lines = "x\ndata:message,news,y\ndata:  z\ndata:\ndata:\n\n";
    let [news, pattern] = [0, 1].map(|at: usize| readers[at].chunk());
    assert_eq!(String::from_utf8_lossy(&news), format!("data: message,news,{lines}"));
    assert_eq!(String::from_utf8_lossy(&pattern), format!("data: pmessage,new*,news,{lines}"));
    drop(readers);
    until("the subscribers are gone", || {
        let counts = redis.run("PUBSUB NUMSUB news a.txt a+b.json").list().to_vec();
        let sum: i64 = counts.iter().skip(1).step_by(2).map(harness::Reply::integer).sum();
        (sum == 0 && redis.run("PUBSUB NUMPAT").integer() == 0).then_some(())
    })
    .unwrap();
}

#[test]
fn errors_in_place_of_events_are_those_of_upstash() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut client = Client::of(&server);
    let wrong_count = "ERR wrong number of arguments for 'subscribe' command";
    let refused = "NOPERM command not allowed over HTTP";
    for (target, status, error) in [
        ("/subscribe", 400, wrong_count),
        ("/monitor", 403, refused),
        ("/subscribe/%", 400, "a percent sign must be followed by two hex digits"),
    ] {
        let response = client.ask("POST", target, EVENTS, b"[]");
        let told = format!("{{\"error\":\"{error}\"}}");
        assert_eq!((response.status, response.text()), (status, told));
        assert_eq!(response.header("content-type"), Some("application/json"));
    }
    // In the form of webdis too, an error is not a message.
    let response = client.ask("GET", "/SUBSCRIBE", "", b"");
    assert_eq!(response.status, 400, "{}", response.text());
    let reply = client.ask("POST", "/PING", EVENTS, b"");
    assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"PING":[true,"PONG"]}"#));
    redis.check("ACL SETUSER ann on >pw +@all &mine", "+OK\r\n");
    redis.check("CONFIG SET requirepass sesame", "+OK\r\n");
    let as_ann = format!("{EVENTS}Authorization: Basic YW5uOnB3\r\n");
    let foreign = client.ask("POST", "/subscribe/yours", &as_ann, b"[]");
    assert_eq!(foreign.status, 403, "{}", foreign.text());
    assert!(foreign.text().starts_with("{\"error\":\"NOPERM "), "{}", foreign.text());
    client.send("POST", "/subscribe/mine", &as_ann, b"[]");
    assert_eq!(client.head().0, 200);
    assert_eq!(client.chunk(), b"data: subscribe,mine,1\n\n");
}

#[test]
fn an_administrator_sees_commands_as_events() {
    let server = nagi(&["--http-commands", "+@all"]);
    let mut client = Client::of(&server);
    client.send("POST", "/monitor", EVENTS, b"[]");
    assert_eq!(client.head().0, 200);
    assert_eq!(client.chunk(), b"data: \"OK\"\n\n");
    server.connect_resp().check("SET a \"b c\"", "+OK\r\n");
    let event = String::from_utf8_lossy(&client.chunk()).into_owned();
    let is_of_request = event.ends_with(" \"SET\" \"a\" \"b c\"\n\n");
    assert!(event.starts_with("data: ") && is_of_request, "{event}");
}

/// A WebSocket on the client's side (RFC 6455).
pub(crate) struct Socket(pub(crate) Client);

impl Socket {
    pub(crate) fn open(server: &Server, path: &str) -> Self {
        Self::of(Client::of(server), path)
    }

    pub(crate) fn of(mut client: Client, path: &str) -> Self {
        let headers = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        client.send("GET", path, headers, b"");
        let (status, head) = client.head();
        assert_eq!(status, 101, "{head}");
        // The key and the accept value are those of the RFC's example.
        assert!(head.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="));
        Socket(client)
    }

    pub(crate) fn send(&mut self, text: &str) {
        let mask = [1, 2, 3, 4];
        let length = u16::try_from(text.len()).expect("a short message");
        let mut frame = vec![0x81, 0xfe];
        frame.extend(length.to_be_bytes());
        frame.extend(mask);
        frame.extend(text.bytes().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.connection.send(frame);
    }

    pub(crate) fn receive(&mut self) -> String {
        let head = self.0.connection.take(2);
        let length = match head[1] {
            126 => {
                let bytes = self.0.connection.take(2);
                usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
            }
            length => length.into(),
        };
        String::from_utf8_lossy(&self.0.connection.take(length)).into_owned()
    }

    pub(crate) fn check(&mut self, request: &str, reply: &str) {
        self.send(request);
        assert_eq!(self.receive(), reply, "{request}");
    }
}

#[test]
fn commands_come_over_web_sockets() {
    let server = nagi(&[]);
    let mut socket = Socket::open(&server, "/.json");
    socket.check(r#"["SET","a","b"]"#, r#"{"SET":[true,"OK"]}"#);
    socket.check(r#"["GET","a"]"#, r#"{"GET":"b"}"#);
    socket.check(r#"["nosuch"]"#, r#"{"nosuch":[false,"ERR unknown command"]}"#);
    let long = format!(r#"["{}"]"#, "a".repeat(60_000));
    socket.check(&long, &format!(r#"{{"{}":[false,"ERR unknown command"]}}"#, "a".repeat(128)));
    let refused = r#"{"SELECT":[false,"NOPERM command not allowed over HTTP"]}"#;
    socket.check(r#"["SELECT","1"]"#, refused);
    socket.check("x", r#"{"":[false,"ERR the message is not a command"]}"#);
    for number in 0..100 {
        socket.send(&format!(r#"["INCRBY","n","{number}"]"#));
    }
    let mut sum = 0;
    for number in 0..100 {
        sum += number;
        assert_eq!(socket.receive(), format!(r#"{{"INCRBY":{sum}}}"#), "in order");
    }
    socket.check(r#"["SUBSCRIBE","news"]"#, r#"{"SUBSCRIBE":["subscribe","news",1]}"#);
    let mut redis = server.connect_resp();
    redis.check("PUBLISH news x", ":1\r\n");
    assert_eq!(socket.receive(), r#"{"SUBSCRIBE":["message","news","x"]}"#);
    let mut raw = Socket::open(&server, "/3/.raw");
    raw.check("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nc\r\n", "+OK\r\n");
    raw.check("*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "$1\r\nc\r\n");
    redis.check("SELECT 3", "+OK\r\n");
    redis.check("GET a", "$1\r\nc\r\n");
    let foreign = "Origin: http://evil.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    assert_eq!(Client::of(&server).ask("GET", "/.json", foreign, b"").status, 403);
}

/// While a response continues, neither bytes after its request nor the end of the connection are
/// read.
#[test]
fn a_blocked_request_delays_no_other_request() {
    let server = nagi(&[]);
    let mut blocked = Client::of(&server);
    blocked.send("POST", "/BLPOP/queue/0", "", b"");
    let mut redis = server.connect_resp();
    let blocked_clients = |redis: &mut Connection, count: &str| {
        let line = format!("blocked_clients:{count}\r\n");
        until("clients are blocked", || {
            redis.run("INFO clients").text().contains(&line).then_some(())
        })
        .unwrap();
    };
    blocked_clients(&mut redis, "1");
    let mut client = Client::of(&server);
    assert_eq!(client.get("/GET/a").0, 200);
    let mut vanishing = Client::of(&server);
    vanishing.send("POST", "/BLPOP/queue/0", "", b"");
    blocked_clients(&mut redis, "2");
    drop(vanishing);
    blocked_clients(&mut redis, "1");
    redis.check("RPUSH queue a b", ":2\r\n");
    assert_eq!(blocked.receive(true).text(), r#"{"BLPOP":["queue","a"]}"#);
    redis.check("LRANGE queue 0 -1", "*1\r\n$1\r\nb\r\n");
}

#[test]
fn requests_leave_no_ports_behind_and_count_exactly() {
    let server = nagi(&[]);
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Client::of(&server);
            std::thread::spawn(move || {
                for _ in 0..500 {
                    assert_eq!(client.post("/HINCRBY/h/f/1", "").0, 200);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("it counts"));
    let mut redis = server.connect_resp();
    redis.check("HGET h f", "$4\r\n2000\r\n");
    let listed = redis.run("CLIENT LIST").text();
    let channels = listed.matches(" laddr=0.0.0.0:0").count();
    assert!((1..=4).contains(&channels), "{channels} connections to workers:\n{listed}");
}

/// Returns the reply to a request as text, unchanged.
fn raw(redis: &mut Connection, words: &[&str]) -> String {
    redis.send(harness::encode_command(words));
    String::from_utf8_lossy(&redis.reply_and_bytes().1).into_owned()
}

#[test]
fn trusted_proxies_say_where_requests_come_from() {
    const PROXIED: &str = "X-Forwarded-For: 203.0.113.1, 198.51.100.7\r\n";
    let server = nagi(&["--http-trusted-proxies", "10.0.0.0/8", "127.0.0.1"]);
    let mut redis = server.connect_resp();
    redis.check("ACL SETUSER ann on >pw ~* +get", "+OK\r\n");
    redis.check("CONFIG SET requirepass sesame slowlog-log-slower-than 0", "+OK\r\n");
    let mut client = Client::of(&server);
    let with = |user: &str, more: &str| format!("Authorization: {user}\r\n{more}");
    let (default, ann) = ("Bearer sesame", "Basic YW5uOnB3");
    let mut monitor = server.connect_resp();
    monitor.check("AUTH sesame", "+OK\r\n");
    monitor.check("MONITOR", "+OK\r\n");
    let mut set =
        |user: &str, more: &str| client.ask("PUT", "/SET/key", &with(user, more), b"value").status;
    assert_eq!(set(default, PROXIED), 200);
    let line = monitor.line();
    assert!(line.contains("[0 198.51.100.7:0] \"SET\" \"key\""), "{line}");
    assert_eq!(set(ann, PROXIED), 403);
    let mut list = || redis.run("CLIENT LIST").text();
    let listed = list();
    assert_eq!(listed.matches(" addr=198.51.100.7:0 laddr=0.0.0.0:0 ").count(), 2, "{listed}");
    // The next client uses the same connection of the proxy.
    assert_eq!(set(default, "Forwarded: for=\"[2001:db8::1]:4711\"\r\n"), 200);
    let listed = list();
    assert!(listed.contains(" addr=[2001:db8::1]:0 laddr=0.0.0.0:0 "), "{listed}");
    let contradiction = format!("{PROXIED}Forwarded: for=198.51.100.8\r\n");
    assert_eq!(set(default, &contradiction), 400);
    let log = raw(&mut redis, &["ACL", "LOG"]);
    assert!(log.contains("addr=198.51.100.7:0"), "{log}");
    let slow = raw(&mut redis, &["SLOWLOG", "GET", "-1"]);
    assert!(slow.contains("198.51.100.7:0") && slow.contains("[2001:db8::1]:0"), "{slow}");
    until("the page", || {
        let page = Client::of(&server).ask("GET", "/server-status?json", &with(default, ""), b"");
        page.text().contains("\"remote_addr\":\"[2001:db8::1]:0\"").then_some(())
    })
    .expect("it has the address");
    // Headers from an address that is not trusted are ignored.
    redis.check("CONFIG SET http-trusted-proxies \"10.0.0.0/8 ::1\"", "+OK\r\n");
    assert_eq!(set(default, PROXIED), 200);
    let line = monitor.line();
    let line = if line.contains("2001") { monitor.line() } else { line };
    assert!(line.contains("[0 127.0.0.1:") && !line.contains(":0]"), "{line}");
    redis.check(
        "CONFIG SET http-trusted-proxies localhost",
        "-ERR CONFIG SET failed (possibly related to argument 'http-trusted-proxies') - localhost \
         is no address and no network such as 10.0.0.0/8\r\n",
    );
}

#[test]
fn without_a_password_a_proxy_passes_on_requests_of_this_machine_only() {
    let server = nagi(&["--http-trusted-proxies", "127.0.0.1"]);
    let mut client = Client::of(&server);
    for (header, status) in [
        ("", 200),
        ("X-Forwarded-For: 127.0.0.1\r\n", 200),
        ("X-Forwarded-For: 198.51.100.7\r\n", 403),
        ("X-Forwarded-For: 127.0.0.1, 198.51.100.7\r\n", 403),
        ("Forwarded: for=unknown\r\n", 403),
        ("Via: 1.1 proxy\r\n", 403),
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            assert_eq!(client.ask(method, "/DBSIZE", header, b"").status, status, "{header}");
        }
        assert_eq!(client.ask("GET", "/metrics", header, b"").status, status, "{header}");
    }
    server.connect_resp().check("CONFIG SET http-trusted-proxies \"\"", "+OK\r\n");
    let forwarded = client.ask("GET", "/DBSIZE", "X-Forwarded-For: 127.0.0.1\r\n", b"");
    assert_eq!(forwarded.status, 403);
}
