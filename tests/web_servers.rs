//! Commands over HTTP compared with webdis, and through the web servers that are used in front of
//! caches: the configurations are those of docs/nginx.md and docs/apache.md.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use harness::{Connection, Folder, Random, Reply, Server, size, tool, until};

use crate::gateway::{Client, Socket};
use crate::web::{
    self, WebServer, documented, in_time_wait, post_often, requests, settings_of_ports,
};

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
    /// A client of nagi itself.
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

    /// A client that connects to the web server with the name of its site.
    fn client(&self) -> Client {
        Client::calling("shop.example", self.web.address)
    }
}

/// The response to a request: its status and its body.
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

/// Runs ab with requests that count through a web server, and checks the sum and the remaining
/// connections.
fn count_through(kind: Kind) {
    let mut pair = Pair::new(kind);
    let url = format!("http://{}/cache/", pair.web.address);
    post_often(&pair.folder, &url, r#"["HINCRBY","counter","field","1"]"#);
    let (requests, runs) = requests();
    let sum = (requests * runs).to_string();
    pair.redis.check("HGET counter field", format!("${}\r\n{sum}\r\n", sum.len()));
    let waiting = in_time_wait(pair.nagi.http().port());
    println!("{kind:?}: {sum} requests, 0 failed; {waiting} sockets in TIME_WAIT towards nagi");
    println!("{}", settings_of_ports());
    assert!(waiting <= 100, "{waiting}");
}

#[test]
fn requests_come_through_nginx() {
    count_through(Kind::Nginx);
}

#[test]
fn requests_come_through_apache() {
    count_through(Kind::Apache);
}

/// Bytes as a part of a path, mostly encoded as by browsers' `encodeURIComponent`.
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
        // No path can contain these, see the pages.
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
            // It is refused, or executed as sent.
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

/// A request to which both servers must reply alike.
fn request(random: &mut Random) -> String {
    let keys = ["a", "b", "c%20d", "e%2Ff", "g.h"];
    let key = |random: &mut Random| (*random.choose(&keys)).to_owned();
    let values = ["1", "x", "", "hello%20world", "%22quoted%22", "a.b", "%C3%BC"];
    let value = |random: &mut Random| (*random.choose(&values)).to_owned();
    let (k, v) = (key(random), value(random));
    let command = match random.below(16) {
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
        _ => format!("LLEN/{k}"),
    };
    let form = random.choose(&["", ".json", ".txt", ".raw", ".bin", ".png", "?type=text/plain"]);
    let separator = if form.starts_with('.') && random.below(4) == 0 { "?sep=," } else { "" };
    format!("/{command}{form}{separator}")
}

#[test]
fn a_thousand_requests_are_answered_as_by_webdis() {
    let folder = Folder::new("webdis");
    let redis = Server::redis();
    let (_webdis, theirs) = webdis(&folder, redis.resp());
    let server = nagi(&["--http-writes-by-get", "yes"]);
    let mut random = Random::announced();
    for number in 0..1000 {
        let target = request(&mut random);
        let (ours, theirs) = (get(server.http(), &target), get(theirs, &target));
        let mut body = String::from_utf8_lossy(&ours.1).into_owned();
        if body.starts_with('*') {
            // webdis omits elements that are null, but counts them.
            body = body.replace("$-1\r\n", "");
        }
        assert_eq!(body, String::from_utf8_lossy(&theirs.1), "{number}: {target}");
        // webdis returns errors of commands with the status 200.
        let status = if ours.0 == 400 { 200 } else { ours.0 };
        assert_eq!(status, theirs.0, "{number}: {target}");
    }
}
