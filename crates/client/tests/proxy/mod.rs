//! twemproxy in front of the test's own servers, each of which records the requested keys.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use nagi_client::ring::{Configuration, Library, Server};

use crate::nutcracker::Proxy;

const KEYS: usize = 100_000;

/// The number of the server from which each key was requested.
type Places = Arc<Mutex<HashMap<String, usize>>>;

/// Answers every `get` with a miss, and records the key. Each connection has a thread.
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

/// Compares the placement of 100,000 keys over `count` servers.
pub(crate) fn check(count: usize) {
    let places = Places::default();
    let mut servers = Vec::new();
    for number in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        servers.push(Server::new("127.0.0.1", port).with_weight(1 + number as u32 % 4));
        let places = Arc::clone(&places);
        thread::spawn(move || serve(listener, number, places));
    }
    let proxy = Proxy::start(&count.to_string(), &servers);
    let stream = proxy.connect();
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
