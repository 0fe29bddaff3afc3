//! Commands over HTTP beside webdis, and behind the web servers that stand in front of caches:
//! the configurations are those of docs/http.md.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use harness::{Folder, Random, Server, root, run_tool, tool};

/// What ab sends in each of these tests.
const REQUESTS: usize = 3000;

fn nagi(more: &[&str]) -> Server {
    Server::nagi_with(&[&["--http-port", "any"], more].concat())
}

/// The configuration for a web server in docs/http.md: the indented block behind this line.
fn documented(heading: &str, nagi: SocketAddr) -> String {
    let text = std::fs::read_to_string(root().join("docs/http.md")).expect("the page");
    let (_, behind) = text.split_once(heading).unwrap_or_else(|| panic!("{heading} is gone"));
    let lines = behind.lines().skip_while(|line| !line.starts_with("    "));
    let block: Vec<_> = lines.take_while(|line| line.starts_with("    ")).collect();
    assert!(!block.is_empty());
    block.join("\n").replace("127.0.0.1:7379", &nagi.to_string()).replace("PASSWORD", "sesame")
}

fn nginx(folder: &Path, nagi: SocketAddr) -> (Server, SocketAddr) {
    let started = Server::start_web(|address| {
        let site = documented("nginx, which keeps", nagi)
            .replace("server {\n", &format!("server {{ listen {address};\n"));
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("{name}_temp_path {}/{name};\n", folder.display()))
            .collect();
        let text = format!(
            "daemon off; master_process off; pid {0}/pid; error_log stderr;\n\
             events {{ worker_connections 1000; }}\nhttp {{ access_log off;\n{temporary}{site}\n}}",
            folder.display()
        );
        let path = folder.join("nginx.conf");
        std::fs::write(&path, text).expect("a configuration");
        let mut command = tool("nginx");
        command.arg("-c").arg(path).arg("-p").arg(folder);
        command
    });
    started.unwrap_or_else(|problem| panic!("{problem}"))
}

fn apache(folder: &Path, nagi: SocketAddr) -> (Server, SocketAddr) {
    let unpacked = root().join(".setup/debian/usr/lib/apache2/modules");
    let of_machine = PathBuf::from("/usr/lib/apache2/modules");
    let modules = if unpacked.is_dir() { unpacked } else { of_machine };
    let started = Server::start_web(|address| {
        let mut text = format!(
            "ServerName localhost\nListen {address}\nPidFile {0}/pid\nErrorLog /dev/stderr\n\
             DefaultRuntimeDir {0}\nMutex file:{0}\n",
            folder.display()
        );
        for name in ["mpm_prefork", "authz_core", "proxy", "proxy_http", "headers"] {
            let path = modules.join(format!("mod_{name}.so"));
            let _ = writeln!(text, "LoadModule {name}_module {}", path.display());
        }
        text.push_str(&documented("Apache (mod_proxy_http)", nagi));
        let path = folder.join("apache.conf");
        std::fs::write(&path, text).expect("a configuration");
        let mut command = tool("apache2");
        command.args(["-X", "-f"]).arg(path).arg("-d").arg(folder);
        command
    });
    started.unwrap_or_else(|problem| panic!("{problem}"))
}

/// What a request is answered: its status and its body.
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

/// Has ab count through a web server, and checks the sum.
fn count_through(folder: &Folder, server: &Server, web: SocketAddr) {
    let body = folder.write("body", r#"["HINCRBY","counter","field","1"]"#);
    let requests = REQUESTS.to_string();
    let url = format!("http://{web}/cache/");
    let body = body.to_str().expect("a path");
    let told = run_tool(
        "ab",
        &["-q", "-l", "-n", &requests, "-c", "10", "-p", body, "-T", "application/json", &url],
    );
    assert!(told.contains("Failed requests:        0\n"), "{told}");
    assert!(!told.contains("Non-2xx"), "{told}");
    let mut redis = server.connect_resp();
    redis.check("AUTH sesame", "+OK\r\n");
    redis.check("HGET counter field", format!("${}\r\n{REQUESTS}\r\n", requests.len()));
    for page in ["server-status", "metrics"] {
        assert_eq!(get(web, &format!("/cache/{page}")).0, 404, "{page} is not published");
    }
    assert_eq!(get(web, "/cache/GET/nothing").1, br#"{"GET":null}"#);
    assert_eq!(get(web, "/cache/SET/a/b").0, 405);
}

#[test]
fn requests_come_through_nginx() {
    let (folder, server) = (Folder::new("nginx"), nagi(&["--requirepass", "sesame"]));
    let (_nginx, web) = nginx(folder.path(), server.http());
    count_through(&folder, &server, web);
}

#[test]
fn requests_come_through_apache() {
    let (folder, server) = (Folder::new("apache"), nagi(&["--requirepass", "sesame"]));
    let (_apache, web) = apache(folder.path(), server.http());
    count_through(&folder, &server, web);
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

/// A request that both servers are to answer alike.
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
            // It leaves out elements that are nothing, though it counts them.
            body = body.replace("$-1\r\n", "");
        }
        assert_eq!(body, String::from_utf8_lossy(&theirs.1), "{number}: {target}");
        // Errors of commands are 200 there.
        let status = if ours.0 == 400 { 200 } else { ours.0 };
        assert_eq!(status, theirs.0, "{number}: {target}");
    }
}
