//! twemproxy in front of the test's servers, each of which records the requested keys.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use nagi_client::ring::{Configuration, Library, Server};

const KEYS: usize = 100_000;

/// Ends the proxy with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The server that each key was requested from.
type Places = Arc<Mutex<HashMap<String, usize>>>;

/// Answers `get` with a miss, in a thread for each connection.
fn serve(listener: TcpListener, number: usize, places: Places) {
    for stream in listener.incoming().map_while(Result::ok) {
        let places = Arc::clone(&places);
        thread::spawn(move || {
            let mut output = stream.try_clone().unwrap();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let key = line.trim().strip_prefix("get ").unwrap();
                places.lock().insert(key.to_owned(), number);
                output.write_all(b"END\r\n").unwrap();
            }
        });
    }
}

fn connect(port: u16) -> TcpStream {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "twemproxy: {error}"),
        }
        thread::yield_now();
    }
}

/// Compares 100,000 keys over `count` servers.
pub(crate) fn check(mut nutcracker: Command, count: usize) {
    let places = Places::default();
    let mut servers = Vec::new();
    for number in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        servers.push(Server::new("127.0.0.1", port).with_weight(1 + number as u32 % 4));
        let places = Arc::clone(&places);
        thread::spawn(move || serve(listener, number, places));
    }
    // The port is free again when nutcracker takes it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let lines: String = servers
        .iter()
        .map(|one| format!("   - {}:{}:{}\n", one.host, one.port, one.weight))
        .collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, log) = (
        folder.join(format!("nutcracker-{count}.yml")),
        folder.join(format!("nutcracker-{count}.log")),
    );
    let text = format!(
        "pool:\n  listen: 127.0.0.1:{port}\n  hash: md5\n  distribution: ketama\n  \
         preconnect: true\n  servers:\n{lines}"
    );
    fs::write(&file, text).unwrap();
    let statistics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    nutcracker.arg("-c").arg(&file).arg("-o").arg(&log);
    nutcracker.args(["-a", "127.0.0.1", "-s", &statistics.to_string()]);
    let child = nutcracker.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _proxy = Proxy(child);

    let stream = connect(port);
    let mut output = stream.try_clone().unwrap();
    let keys: Vec<String> = (0..KEYS).map(|number| format!("user:{number}")).collect();
    let requests: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    let sender = thread::spawn(move || output.write_all(requests.as_bytes()).unwrap());
    let mut replies = BufReader::new(stream).lines();
    for _ in 0..KEYS {
        assert_eq!(replies.next().unwrap().unwrap(), "END");
    }
    sender.join().unwrap();

    let ring = Configuration::from(Library::Twemproxy).ring(servers);
    let places = places.lock();
    assert_eq!(places.len(), KEYS);
    let differs = |key: &&String| ring.locate(key.as_bytes()) != places.get(*key).copied();
    assert_eq!(keys.iter().filter(differs).count(), 0, "{count} servers");
}
