//! Applies the changes that the store reports to the store of a second server. Both must then have
//! the same data, whatever commands, transactions and scripts have changed it.

use std::collections::BTreeMap;
use std::sync::Arc;

use nagi_server::config::{Config, Origin};
use nagi_server::{Address, Protocol, Running, ServerOptions, start};
use nagi_store::{ChangeListener, Counters, StoreChange};
use parking_lot::Mutex;

use super::arguments::Vocabulary;
use super::families::Family;
use super::generator::{Generator, Words};
use super::{BATCH, BATCHES_A_HISTORY, limits, payloads};
use harness::{Connection, Reply, encode_command};

/// A server in this process, so that the test can listen to changes of its store.
struct Local {
    running: Option<Running>,
    client: Connection,
}

impl Local {
    fn start() -> Self {
        let config = Config::default();
        let settings = [
            ("port", "any"),
            ("memcached-port", "any"),
            ("http-port", "0"),
            ("save", ""),
            ("enable-debug-command", "yes"),
        ];
        for (name, value) in settings {
            config.set(name, value, Origin::Startup).expect("a setting");
        }
        let running = start(ServerOptions { config, ..ServerOptions::default() });
        let running = running.expect("it starts");
        assert!(running.load().expect("there is no file"));
        let endpoints = running.endpoints();
        let address = endpoints.iter().find_map(|endpoint| match endpoint.address {
            Address::Tcp(address) if endpoint.protocol == Protocol::Resp => Some(address),
            _ => None,
        });
        let client = Connection::open(address.expect("it listens"));
        Local { running: Some(running), client }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs until it is dropped")
    }

    /// Returns the digest of all data, and for each key its payload and its expiry.
    fn data(&mut self) -> (Reply, Keys) {
        let client = &mut self.client;
        let _ = (client.run("DISCARD"), client.run("HELLO 2"));
        let digest = client.run("DEBUG DIGEST");
        let mut keys = BTreeMap::new();
        for database in 0..16 {
            client.check(&format!("SELECT {database}"), "+OK\r\n");
            for key in client.run("KEYS *").list() {
                let Reply::Bulk(key) = key else { panic!("a key is {key:?}") };
                let of_key = ["DUMP", "PEXPIRETIME"]
                    .map(|command| client.run_words(&[command.as_bytes(), key]));
                keys.insert((database, key.clone()), of_key);
            }
        }
        client.check("SELECT 0", "+OK\r\n");
        (digest, keys)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
            let _ = running.join();
        }
    }
}

/// Collects changes until they are applied.
struct Recorder(Arc<Mutex<Vec<StoreChange>>>);

impl ChangeListener for Recorder {
    fn changed(&self, change: &StoreChange) {
        self.0.lock().push(change.clone());
    }
}

#[test]
fn effects_of_random_commands_and_scripts_replicate_another_store() {
    let (mut first, mut second) = (Local::start(), Local::start());
    let recorded = Arc::default();
    let recorder = Box::new(Recorder(Arc::clone(&recorded)));
    assert!(first.running().store().report_changes_to(recorder));
    let counters = Counters::default();
    let vocabulary = Vocabulary { payloads: payloads(&mut first.client), protocol: 2 };
    let mut random = super::super::random();
    let mut generator = Generator::new(random.fork(), vocabulary, Family::chosen());
    let (mut changes, mut checks, mut latest) = (0, 0, Vec::<Words>::new());
    for batch in 0..super::super::count() / BATCH {
        if batch.is_multiple_of(BATCHES_A_HISTORY) {
            let _ = (first.client.run("DISCARD"), first.client.run("HELLO 2"));
            first.client.check("FLUSHALL", "+OK\r\n");
            let [limits, _] = limits(&mut random);
            let _ = first.client.run_words(&limits);
            let setting = generator.setting();
            let replies = setting.iter().map(|words| first.client.run_words(words));
            generator.learn(&replies.collect::<Vec<_>>());
        }
        let requests = generator.batch(BATCH);
        latest.extend(requests.iter().map(|request| request.words.clone()));
        let words = requests.iter().map(|request| &request.words);
        let bytes: Vec<u8> = words.flat_map(|words| encode_command(words)).collect();
        first.client.send(&bytes);
        requests.iter().for_each(|_| drop(first.client.reply()));
        let mut told = std::mem::take(&mut *recorded.lock());
        told.sort_by_key(|change| change.number);
        changes += told.len();
        told.iter().for_each(|change| second.running().store().apply(&counters, change));
        if random.below(8) == 0 || (batch + 1).is_multiple_of(BATCHES_A_HISTORY) {
            let (ours, copied) = (first.data(), second.data());
            let shown: Vec<String> = latest.iter().map(super::line).collect();
            assert!(ours == copied, "after {}\n{}", shown.join("\n"), unlike(&ours.1, &copied.1));
            checks += 1;
            latest.clear();
        }
    }
    eprintln!("{changes} changes replicated, both stores compared {checks} times");
    assert!(changes > 0);
}

type Keys = BTreeMap<(u64, Vec<u8>), [Reply; 2]>;

/// Describes the keys that differ, with the values in both servers.
fn unlike(ours: &Keys, copied: &Keys) -> String {
    let keys = ours.keys().chain(copied.keys()).filter(|key| ours.get(key) != copied.get(key));
    keys.map(|key| format!("{key:?}\n  {:?}\n  {:?}\n", ours.get(key), copied.get(key))).collect()
}
