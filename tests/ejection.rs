//! A client ejects servers that fail, here on nagi's memcached port. When a server returns, values
//! that were replaced meanwhile must not be read from it.

use std::collections::HashMap;
use std::time::Duration;

use harness::{Server, until};
use nagi_client::cache::{Cache, Ejection, Item, OnFailure, Settings};
use nagi_client::ring::{self, Configuration, Library};
use nagi_client::wire::Dialect;
use rustix::process::Signal;

use crate::load::stop;

const KEYS: u32 = 200;

fn ejecting(servers: &[Server], dialect: Dialect) -> Cache {
    let ejection = Ejection {
        failures: 1,
        duration: Duration::from_millis(300),
        settling: Duration::from_millis(100),
        keys: 10_000,
    };
    let settings = Settings {
        dialect,
        timeout: Duration::from_millis(500),
        retry_after: Duration::ZERO,
        on_failure: OnFailure::Eject(ejection),
        ..Settings::default()
    };
    let address = |server: &Server| match dialect {
        Dialect::Resp => server.resp(),
        _ => server.memcached_address(),
    };
    let places =
        servers.iter().map(|server| ring::Server::new("127.0.0.1", address(server).port()));
    Cache::new(Configuration::from(Library::PhpKetama).ring(places.collect()), settings)
}

/// Writes and reads keys until `ejected` servers are ejected. No read may return a value that this
/// client has replaced.
fn work(cache: &mut Cache, newest: &mut HashMap<u32, u64>, version: &mut u64, ejected: usize) {
    until("servers to leave or come back", || {
        for number in 0..KEYS {
            let key = format!("key-{number}");
            *version += 1;
            let value = version.to_string();
            if cache.set(key.as_bytes(), &Item::new(value.as_bytes())).is_ok() {
                newest.insert(number, *version);
            }
            let Ok(Some(found)) = cache.get(key.as_bytes()) else { continue };
            let text = String::from_utf8(found.bytes).expect("a number");
            let found: u64 = text.parse().expect("a number");
            let least = newest.get(&number).copied().unwrap_or_default();
            assert!(found >= least, "{key} is old: {found}, not {least}");
        }
        (cache.ejected().len() == ejected).then_some(())
    })
    .expect("they do");
}

#[test]
fn a_nagi_that_was_stopped_returns_no_old_values() {
    for dialect in [Dialect::Text, Dialect::Meta, Dialect::Binary, Dialect::Resp] {
        let servers = [Server::nagi(), Server::nagi(), Server::nagi()];
        let mut cache = ejecting(&servers, dialect);
        let (mut newest, mut version) = (HashMap::new(), 0);
        work(&mut cache, &mut newest, &mut version, 0);
        for server in [&servers[0], &servers[0], &servers[2]] {
            stop(server.process_id());
            work(&mut cache, &mut newest, &mut version, 1);
            server.signal(Signal::CONT);
            work(&mut cache, &mut newest, &mut version, 0);
        }
        assert_eq!(newest.len(), KEYS as usize);
    }
}

#[test]
fn servers_that_fail_while_another_is_ejected_are_ejected_too() {
    let servers = [Server::nagi(), Server::nagi(), Server::nagi(), Server::nagi()];
    let mut cache = ejecting(&servers, Dialect::Text);
    let (mut newest, mut version) = (HashMap::new(), 0);
    work(&mut cache, &mut newest, &mut version, 0);
    stop(servers[0].process_id());
    work(&mut cache, &mut newest, &mut version, 1);
    // Both have copies of keys of the first one, which cannot be deleted now.
    stop(servers[1].process_id());
    stop(servers[2].process_id());
    work(&mut cache, &mut newest, &mut version, 3);
    for server in &servers[..3] {
        server.signal(Signal::CONT);
    }
    work(&mut cache, &mut newest, &mut version, 0);
}
