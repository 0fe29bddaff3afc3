//! `nagi doctor` end to end: local ports used up by a program that connects for each request, and a
//! narrow link. Needs network namespaces, and thus root; otherwise skipped.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Instant;

use harness::link::{Link, SERVER};
use harness::web::{self, WebServer};
use harness::{Connection, Server, skipped, until};

use crate::doctor::{Run, look, look_during};
use crate::faults::{Kind, start_behind};

/// The kinds of servers.
const KINDS: [Kind; 2] = [Kind::Redis, Kind::Nagi];

/// Returns the server's address as seen by clients at the other end of the link.
fn across(kind: Kind, server: &Server) -> SocketAddr {
    SocketAddr::new(SERVER.parse().expect("an address"), kind.address(server).port())
}

/// Repeats `look` until a finding is named first, because the doctor reports less while other tests
/// use the processors.
fn named(name: &str, mut look: impl FnMut() -> Run) -> Run {
    let mut printed = String::new();
    let attempt = || {
        let run = look();
        printed.clone_from(&run.printed);
        (run.names().first().map(String::as_str) == Some(name)).then_some(run)
    };
    let named = until(name, attempt);
    named.unwrap_or_else(|problem| panic!("{problem}: {printed}"))
}

/// Starts Apache, which runs the program `views` for `/views` with the settings that it needs to
/// find the cache.
fn apache(folder: &Path, program: &Path, cache: SocketAddr) -> WebServer {
    web::apache(folder, &["authz_core", "alias", "env", "cgi", "mpm_prefork"], &[], |address| {
        format!(
            "Listen {address}\nScriptAlias /views {}\n\
             SetEnv CACHE_HOST {}\nSetEnv CACHE_PORT {}\n\
             <Location /views>\nRequire all granted\n</Location>\n",
            program.display(),
            cache.ip(),
            cache.port()
        )
    })
}

/// Requests the page. Returns it with its head.
fn view(web: SocketAddr) -> String {
    let mut stream = TcpStream::connect(web).expect("Apache takes connections");
    stream.write_all(b"GET /views HTTP/1.0\r\n\r\n").expect("and requests");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    page
}

/// Requests fail with "Cannot assign requested address", because Apache's program opens a
/// connection for each request: all local ports are used up, each for a minute.
#[test]
fn a_program_of_apache_connects_for_each_request() {
    let folder = std::env::temp_dir().join(format!("nagi-views-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for kind in KINDS {
        let link = match Link::new() {
            Ok(link) => link,
            Err(reason) => return skipped(reason),
        };
        let loopback = link.step("ip", &["-n", &link.client, "link", "set", "lo", "up"]);
        loopback.expect("Apache is reached over it");
        let program = crate::programs::compile("views", &folder);
        let server = start_behind(&link, kind);
        let cache = across(kind, &server);
        let run = link.in_client(|| {
            let setting = |name: &str, value: &str| {
                std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("a setting");
            };
            setting("ip_local_port_range", "40000 40100");
            setting("tcp_tw_reuse", "0");
            let apache = apache(&folder, &program, cache);
            let web = apache.address;
            let first = view(web);
            assert!(first.contains("200 OK") && first.contains("1 views"), "{first}");
            let has_failed = || view(web).contains("Cannot assign requested address");
            until("a request that fails", || has_failed().then_some(())).expect("ports run out");
            named("ports-used-up", || look_during(&kind.url_of(cache), &[], || drop(view(web))))
        });
        let verdict = run.server()["found"][0]["verdict"].to_string();
        let start = format!("Local ports from 192.0.2.2 to {cache} are used up: ");
        assert!(verdict.contains(&start) && verdict.contains("in TIME_WAIT"), "{verdict}");
        assert!(verdict.contains("open connections and close them"), "{verdict}");
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// A SET of 1.3 MB takes eight seconds although Redis' slow log does not contain it: the link has
/// 1.3 Mbit/s.
#[test]
fn a_large_set_crosses_a_narrow_link() {
    for kind in KINDS {
        let link = match Link::new() {
            Ok(link) => link,
            Err(reason) => return skipped(reason),
        };
        let bucket = ["-n", &link.client, "qdisc", "add", "dev", "c0", "root", "tbf"];
        let rate = ["rate", "1300kbit", "burst", "16kb", "latency", "300ms"];
        if let Err(reason) = link.step("tc", &[&bucket[..], &rate].concat()) {
            return skipped(reason);
        }
        let server = start_behind(&link, kind);
        let cache = across(kind, &server);
        let value = "v".repeat(1_300_000);
        let (took, logged) = link.in_client(|| {
            let mut client = Connection::open(cache);
            let begun = Instant::now();
            client.run_words(&["SET", "page", &value]);
            (begun.elapsed(), client.run("SLOWLOG LEN").integer())
        });
        // The kernel does not pass more data, however busy this machine is.
        assert!(took.as_secs_f64() > 7.5, "{took:?}");
        // Only nagi logs how long it took to receive a request.
        assert_eq!(logged, i64::from(kind == Kind::Nagi), "Redis was quick");
        let run = link.in_client(|| named("narrow-link", || look(&kind.url_of(cache), &[])));
        let verdict = run.server()["found"][0]["verdict"].to_string();
        assert!(verdict.contains("The link is narrow: ") && verdict.contains("1.3 MB takes"));
        let (rate, rest) = verdict.split_once(" Mbit/s").expect("a rate");
        let rate: f64 = rate.rsplit_once('(').expect("in brackets").1.parse().expect("a number");
        assert!((0.5..1.6).contains(&rate), "{rate}{rest}");
        assert!(run.printed.contains("tbf on c0 ("), "{}", run.printed);
        let logs = match kind {
            Kind::Nagi => "SLOWLOG PHASES has it",
            _ => "Neither the slow log nor MONITOR shows that",
        };
        assert!(verdict.contains(logs), "{verdict}");
    }
}
