//! Commands over HTTP compared with webdis, and through web servers that are used in front of
//! caches, configured as in docs/nginx.md and docs/apache.md.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use harness::web::{
    self, WebServer, documented, in_time_wait, post_often, requests, settings_of_ports,
};
use harness::{Connection, Folder, Random, Reply, Server, size, tool, until};

use crate::gateway::{Client, Socket};

fn nagi(more: &[&str]) -> Server {
    Server::nagi_with(&[&["--http-port", "any"], more].concat())
}

/// The web servers that have a page in docs/.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Nginx,
    Apache,
}

const KINDS: [Kind; 2] = [Kind::Nginx, Kind::Apache];

/// nagi and a web server in front of it, both configured as documented.
struct Pair {
    kind: Kind,
    web: WebServer,
    nagi: Server,
    /// A client that is connected to nagi directly.
    redis: Connection,
    folder: Folder,
}

impl Pair {
    fn new(kind: Kind) -> Self {
        let folder = Folder::new("web");
        let page = match kind {
            Kind::Nginx => "nginx.md",
            Kind::Apache => "apache.md",
        };
        let block = |heading: &str| documented(page, heading).replace("PASSWORD", "sesame");
        let settings = folder.write("nagi.conf", block("## nagi"));
        let settings = settings.to_str().expect("a path");
        let nagi = Server::nagi_with(&[settings, "--http-port", "any"]);
        let site = |heading: &str, address: SocketAddr| {
            let text = block(heading).replace("127.0.0.1:7379", &nagi.http().to_string());
            let text = text.replace("listen 80;", &format!("listen {address};"));
            let text = text.replace("Listen 80\n", &format!("Listen {address}\n"));
            text.replace("*:80", &address.to_string())
        };
        let web = match kind {
            Kind::Nginx => web::nginx(folder.path(), |address| site("## nginx", address)),
            Kind::Apache => {
                let modules = block("## Modules");
                let modules: Vec<_> = modules.split_whitespace().skip(1).collect();
                web::apache(folder.path(), &modules, &[], |address| site("## Site", address))
            }
        };
        let mut redis = nagi.connect_resp();
        redis.check("AUTH sesame", "+OK\r\n");
        Pair { kind, web, nagi, redis, folder }
    }

    /// Connects a client to the web server under the name of its site.
    fn client(&self) -> Client {
        Client::calling("shop.example", self.web.address)
    }
}

/// Sends a request. Returns the status and the body of the response.
fn exchange(address: SocketAddr, request: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("a web server");
    stream.write_all(request.as_bytes()).expect("it takes requests");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.get(9..12).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer[end + 4..].to_vec())
}

fn get(address: SocketAddr, target: &str) -> (u16, Vec<u8>) {
    let head = format!("GET {target} HTTP/1.0\r\nHost: {address}\r\n");
    exchange(address, &format!("{head}Connection: close\r\n\r\n"))
}

/// Runs ab with requests that increment a counter through a web server. Checks the counter and the
/// remaining connections.
fn count_through(kind: Kind) {
    let mut pair = Pair::new(kind);
    // An earlier server may have had the same port.
    let before = in_time_wait(pair.nagi.http().port());
    let url = format!("http://{}/cache/", pair.web.address);
    post_often(&pair.folder, &url, r#"["HINCRBY","counter","field","1"]"#);
    let (requests, runs) = requests();
    let sum = (requests * runs).to_string();
    pair.redis.check("HGET counter field", format!("${}\r\n{sum}\r\n", sum.len()));
    let waiting = in_time_wait(pair.nagi.http().port());
    println!("{kind:?}: {sum} requests, 0 failed; {waiting} sockets in TIME_WAIT towards nagi");
    println!("{}", settings_of_ports());
    assert!(waiting <= before + 100, "{waiting}, {before} before");
}

#[test]
fn requests_come_through_nginx() {
    count_through(Kind::Nginx);
}

#[test]
fn requests_come_through_apache() {
    count_through(Kind::Apache);
}

/// Encodes bytes as a part of a path, mostly like `encodeURIComponent` of browsers.
fn encoded(bytes: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

#[test]
fn keys_arrive_as_they_are() {
    let mut random = Random::announced();
    let mut keys: Vec<Vec<u8>> = [
        "p+q r%",
        "a/b",
        "a%2Fb",
        "a%b",
        "a?b",
        "a#b",
        "a&b=c",
        "a;b",
        "a:b",
        "a//b",
        "/a/",
        "+",
        " ",
        "%",
        "%25",
        "\u{fc}\u{4e2d}",
        "a\\b",
        "a\r\nb",
        "a.txt",
        "<\"'>",
        "EX/1",
    ]
    .map(|key| key.as_bytes().to_vec())
    .to_vec();
    keys.push(vec![0xff, 0xfe, 0x80]);
    keys.push((1..=255).collect());
    for _ in 0..100 {
        let mut key: Vec<u8> = (0..1 + random.below(12)).map(|_| random.bits() as u8).collect();
        // No path can contain these bytes; see the pages.
        key.retain(|byte| ![0, b'.'].contains(byte));
        key.push(b'x');
        keys.push(key);
    }
    for kind in KINDS {
        let mut pair = Pair::new(kind);
        for key in &keys {
            // Apache closes a connection after a hundred requests.
            let (mut client, path) = (pair.client(), encoded(key));
            let put = client.ask("PUT", &format!("/cache/SET/{path}"), "", b"value");
            assert_eq!((put.status, put.text()), (200, r#"{"SET":[true,"OK"]}"#.into()), "{path}");
            assert_eq!(pair.redis.run_words(&[b"GET".as_slice(), key]).text(), "value", "{path}");
            pair.redis.check("DBSIZE", ":1\r\n");
            let got = client.get(&format!("/cache/GET/{path}.txt?type=text/plain"));
            assert_eq!(got, (200, "value".to_owned()), "{kind:?}: {path}");
            pair.redis.check("FLUSHALL", "+OK\r\n");
        }
    }
}

#[test]
fn bytes_that_paths_cannot_contain_are_sent_in_a_body() {
    for kind in KINDS {
        let mut pair = Pair::new(kind);
        for key in ["a\0b", ".", "..", "/../../../a"] {
            let path = encoded(key.as_bytes());
            let status = pair.client().ask("PUT", &format!("/cache/SET/{path}"), "", b"v").status;
            // The request must be refused, or executed as it was sent.
            let keys = pair.redis.run("KEYS *");
            let stored: Vec<_> = keys.list().iter().map(Reply::text).collect();
            match status {
                200 => assert_eq!(stored, [key], "{kind:?}"),
                400..500 => assert!(stored.is_empty(), "{kind:?}: {path}"),
                _ => panic!("{kind:?}: {path}: {status}"),
            }
            let text = format!("SET/{path}/value");
            assert_eq!(pair.client().post("/cache/", &text).0, 200, "{kind:?}: {path}");
            assert_eq!(pair.redis.run_words(&["GET", key]).text(), "value", "{kind:?}: {path}");
            pair.redis.check("FLUSHALL", "+OK\r\n");
        }
    }
}

#[test]
fn pages_are_not_published() {
    let ways = ["", "%6D", "x/../", "./", "/", "%2e/", "x/%2e%2e/", "x%2F..%2F", "../cache/"];
    for kind in KINDS {
        let pair = Pair::new(kind);
        for page in ["server-status", "metrics", "healthz", "readyz"] {
            let direct = format!("GET /{page} HTTP/1.0\r\nHost: shop.example\r\n");
            let direct = format!("{direct}Authorization: Bearer sesame\r\n\r\n");
            assert_eq!(exchange(pair.nagi.http(), &direct).0, 200, "there is such a page");
            for end in ["", "?auto", "?json", "#x", "%23x", "%3Fx", "/", "%2F"] {
                for way in ways {
                    let rest = page.strip_prefix('m').filter(|_| way == "%6D").unwrap_or(page);
                    let target = format!("/cache/{way}{rest}{end}");
                    let status = get(pair.web.address, &target).0;
                    assert!([400, 404].contains(&status), "{kind:?}: {target}: {status}");
                }
            }
        }
        assert_eq!(get(pair.web.address, "/cache/GET/nothing").1, br#"{"GET":null}"#);
        assert_eq!(get(pair.web.address, "/cache/SET/a/b").0, 405, "changes do not come by GET");
        assert_eq!(get(pair.web.address, "/x/../cache/SET/a/b").0 / 100, 4);
    }
}

#[test]
fn pages_of_the_site_may_ask_and_others_may_not() {
    for kind in KINDS {
        let pair = Pair::new(kind);
        let asked = |headers: &str| pair.client().ask("POST", "/cache/INCR/n", headers, b"").status;
        for scheme in ["http", "https"] {
            let own = format!("Origin: {scheme}://shop.example\r\nSec-Fetch-Site: same-origin\r\n");
            assert_eq!(asked(&own), 200, "{kind:?}");
        }
        let foreign = "Origin: http://evil.example\r\n";
        assert_eq!(asked(&format!("{foreign}Sec-Fetch-Site: cross-site\r\n")), 403, "{kind:?}");
        assert_eq!(asked(foreign), 403, "{kind:?}");
        let mut rebound = Client::calling("evil.example", pair.web.address);
        let rebound = rebound.ask("POST", "/cache/INCR/n", foreign, b"").status;
        assert_eq!(rebound, 403, "{kind:?}: a name of another site that leads here");
    }
}

#[test]
fn large_values_come_and_go() {
    let len = size(4 << 20, 512 << 20);
    for kind in KINDS {
        let pair = Pair::new(kind);
        let value: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let mut client = pair.client();
        assert_eq!(client.ask("PUT", "/cache/SET/large", "", &value).status, 200, "{kind:?}");
        let got = client.ask("GET", "/cache/GET/large.bin", "", b"");
        assert!(got.status == 200 && got.body == value, "{kind:?}: {}", got.status);
    }
}

#[test]
fn messages_and_web_sockets_pass() {
    for kind in KINDS {
        let mut pair = Pair::new(kind);
        let mut reader = pair.client();
        reader.send("GET", "/cache/SUBSCRIBE/news", "", b"");
        assert_eq!(reader.head().0, 200, "{:?}", pair.kind);
        assert_eq!(reader.chunk(), br#"{"SUBSCRIBE":["subscribe","news",1]}"#);
        for number in 0..3 {
            pair.redis.check(&format!("PUBLISH news {number}"), ":1\r\n");
            let message = format!(r#"{{"SUBSCRIBE":["message","news","{number}"]}}"#);
            assert_eq!(reader.chunk(), message.as_bytes(), "at once");
        }
        let mut socket = Socket::of(pair.client(), "/cache/.json");
        socket.check(r#"["SET","a","b"]"#, r#"{"SET":[true,"OK"]}"#);
        socket.check(r#"["GET","a"]"#, r#"{"GET":"b"}"#);
        let mut blocked = pair.client();
        blocked.send("POST", "/cache/BLPOP/queue/0", "", b"");
        until("a client to be blocked", || {
            let told = pair.redis.run("INFO clients").text();
            told.contains("blocked_clients:1\r\n").then_some(())
        })
        .expect("it is");
        pair.redis.check("RPUSH queue a", ":1\r\n");
        assert_eq!(blocked.receive(true).text(), r#"{"BLPOP":["queue","a"]}"#);
    }
}

fn webdis(folder: &Folder, redis: SocketAddr) -> (Server, SocketAddr) {
    let started = Server::start_web(|address| {
        let settings = format!(
            "{{\"redis_host\":\"127.0.0.1\",\"redis_port\":{},\"http_host\":\"127.0.0.1\",\
             \"http_port\":{},\"threads\":1,\"pool_size\":1,\"daemonize\":false,\"verbosity\":1,\
             \"logfile\":\"{}/log\"}}",
            redis.port(),
            address.port(),
            folder.path().display()
        );
        let mut command = tool("webdis");
        command.arg(folder.write("webdis.json", &settings));
        command
    });
    started.unwrap_or_else(|problem| panic!("{problem}"))
}

/// A request to which both servers must give the same reply, as far as [`as_webdis`] says.
struct Asked {
    method: &'static str,
    target: String,
    body: String,
}

/// The extensions of paths, without `.msg`, which webdis has only if it was built with it.
const EXTENSIONS: [&str; 15] = [
    "", ".json", ".raw", ".txt", ".bin", ".png", ".jpg", ".jpeg", ".css", ".js", ".html", ".xhtml",
    ".xml", ".other", ".",
];

/// Options after paths.
const OPTIONS: [&str; 9] = [
    "?type=text/plain",
    "?type=image/webp",
    "?sep=,",
    "?filename=a.zip",
    "?type=application/zip&filename=a.zip",
    "?jsonp=f",
    "?callback=f.g",
    "?other=x",
    "?",
];

/// Key names and values encoded for a path, and values for a body; none of the latter is empty.
const KEYS: [&str; 5] = ["a", "b", "c%20d", "e%2Ff", "g.h"];
const VALUES: [&str; 7] = ["1", "x", "", "hello%20world", "%22quoted%22", "a.b", "%C3%BC"];
const BODIES: [&str; 6] = ["1", "x", "two words", "a/b.json", "%41+&?", "\u{fc}\u{4e2d}"];

/// Returns the path of a command.
fn command(random: &mut Random) -> String {
    let key = |random: &mut Random| random.choose(&KEYS).to_owned();
    let (k, v) = (key(random), random.choose(&VALUES));
    let command = match random.below(18) {
        0 | 1 => format!("SET/{k}/{v}"),
        2..=4 => format!("GET/{k}"),
        5 => format!("INCR/{k}"),
        6 => format!("APPEND/{k}/{v}"),
        7 => format!("RPUSH/l{k}/{v}/{k}"),
        8 => format!("LRANGE/l{k}/0/-1"),
        9 => format!("HSET/h{k}/{v}x/{v}"),
        10 => format!("HGETALL/h{k}"),
        11 => format!("MGET/{k}/{}/nothing", key(random)),
        12 => format!("DEL/{k}/l{k}"),
        13 => format!("TYPE/{}{k}", random.choose(&["", "l", "h"])),
        14 => "PING".to_owned(),
        15 => format!("ZADD/z{k}/1.5/{v}"),
        16 => format!("ZRANGE/z{k}/0/-1/WITHSCORES"),
        _ => format!("LLEN/{k}"),
    };
    format!("{}{command}", random.choose(&["", "", "", "0/", "3/"]))
}

fn request(random: &mut Random) -> Asked {
    let extension = random.choose(&EXTENSIONS);
    // An extension that is not listed is a part of the last word, which may be a number.
    let path = loop {
        let path = command(random);
        let is_key = ["GET", "SET", "TYPE", "LLEN", "DEL"].iter().any(|name| path.contains(name));
        if is_key || ![".other", "."].contains(&extension) {
            break path;
        }
    };
    let options = if random.below(4) == 0 { random.choose(&OPTIONS) } else { "" };
    // webdis ignores these extensions if a type is given.
    let is_ignored = options.starts_with("?type") && [".raw", ".js", "."].contains(&extension);
    let options = if is_ignored { "" } else { options };
    let body = random.choose(&BODIES).to_owned();
    let key = random.choose(&KEYS);
    match random.below(8) {
        0 | 1 => {
            let name = random.choose(&["SET", "APPEND", "RPUSH", "GETSET", "INCRBY", "3/SET"]);
            let target = format!("/{name}/{key}{extension}{options}");
            Asked { method: "PUT", target, body }
        }
        2 | 3 => Asked {
            method: "POST",
            target: format!("/{options}"),
            body: format!("{path}{extension}"),
        },
        _ => {
            let target = format!("/{path}{extension}{options}");
            Asked { method: "GET", target, body: String::new() }
        }
    }
}

/// The compared parts of a response.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    media_type: String,
    disposition: String,
    body: String,
    tag: String,
}

fn answer(address: SocketAddr, asked: &Asked, headers: &str) -> Answer {
    let Asked { method, target, body } = asked;
    let mut client = Connection::open(address);
    let length =
        if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}{length}\
         \r\n{body}"
    ));
    let text = client.rest();
    let end = text.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&text[..end]).into_owned();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(String::new(), |(_, value)| value.to_owned())
    };
    Answer {
        status: head.get(9..12).and_then(|it| it.parse().ok()).expect("a status"),
        media_type: header("content-type"),
        disposition: header("content-disposition"),
        body: String::from_utf8_lossy(&text[end + 4..]).into_owned(),
        tag: header("etag"),
    }
}

/// Converts a response of nagi to the one that webdis would send. The table in docs/http.md
/// explains each difference with an example.
fn as_webdis(asked: &Asked, mut ours: Answer) -> Answer {
    // In webdis, errors of commands have the status 200.
    let is_error = ours.status == 400;
    ours.status = if is_error { 200 } else { ours.status };
    // In webdis, text has no character set.
    ours.media_type = ours.media_type.replace("; charset=utf-8", "");
    if ours.status == 404 {
        ours.media_type.clear();
        ours.disposition.clear();
    }
    // In webdis, JSONP has the type of JSON.
    let path = asked.target.split('?').next().unwrap_or_default();
    let is_script = path.ends_with(".js") || asked.body.ends_with(".js");
    if ours.media_type == "application/javascript" && !is_script {
        "application/json".clone_into(&mut ours.media_type);
    }
    // webdis omits elements that are null, but counts them.
    if ours.body.starts_with('*') {
        ours.body = ours.body.replace("$-1\r\n", "");
    }
    ours
}

#[test]
fn thousands_of_requests_are_answered_as_by_webdis() {
    let folder = Folder::new("webdis");
    let redis = Server::redis();
    let (_webdis, theirs) = webdis(&folder, redis.resp());
    let on = ["writes-by-get", "active-types", "jsonp"].map(|name| format!("--http-{name}"));
    let server =
        nagi(&on.each_ref().iter().flat_map(|name| [name.as_str(), "yes"]).collect::<Vec<_>>());
    let mut random = Random::announced();
    for number in 0..2000 {
        let asked = request(&mut random);
        let Asked { method, target, body } = &asked;
        let what = format!("{number}: {method} {target} {body}");
        let (raw, mut expected) = (answer(server.http(), &asked, ""), answer(theirs, &asked, ""));
        let (own_tag, their_tag) = (raw.tag.clone(), std::mem::take(&mut expected.tag));
        let mut ours = as_webdis(&asked, raw);
        ours.tag.clear();
        assert_eq!(ours, expected, "{what}");
        let is_read = ["GET/", "LRANGE/", "TYPE/", "LLEN/"].iter().any(|it| target.contains(it));
        if *method != "GET" || !is_read || ours.status != 200 || own_tag.is_empty() {
            continue;
        }
        // Each server has its own entity tags, and must treat them in the same way.
        for (address, tag) in [(server.http(), own_tag), (theirs, their_tag)] {
            for (tag, status) in [(&*tag, 304), ("\"other\"", 200)] {
                let known = format!("If-None-Match: {tag}\r\n");
                let answer = answer(address, &asked, &known);
                assert_eq!(answer.status, status, "{what} {known}");
                assert_eq!(answer.body.is_empty(), status == 304 || ours.body.is_empty(), "{what}");
            }
        }
        // webdis has no HEAD, so the response is compared with the head of the response to GET.
        let head = Asked { method: "HEAD", target: target.clone(), body: String::new() };
        let told = as_webdis(&asked, answer(server.http(), &head, ""));
        assert_eq!((told.status, told.media_type), (ours.status, ours.media_type), "{what}");
        assert_eq!(told.body, "", "{what}");
    }
}
