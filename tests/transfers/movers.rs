//! The kinds of transfers.

use std::sync::atomic::{AtomicU64, Ordering};

use harness::{Connection, Random, Reply, encode_command, words};

use super::Kind;
use super::file::Contents;

/// Number of elements of sets and lists: enough for trees, which a save reads in many steps.
const ELEMENTS: usize = 2000;
/// Number of fields, members and strings that hold amounts.
const ACCOUNTS: u64 = 40;
/// The amount that each of them holds at the start.
const START: i64 = 1000;
/// Number of sets, lists, hashes and sorted sets of each kind of transfer.
const KEYS: u64 = 4;
/// Number of transfers that are sent at once.
const BATCH: usize = 8;
/// The timeout of blocking commands in seconds, short enough for a consumer to notice the end of
/// the test.
const TIME_OUT_S: &str = "0.05";

/// A client that performs transfers of one kind.
pub(super) struct Mover<'a> {
    pub(super) client: Connection,
    pub(super) random: Random,
    /// Number of transfers of this kind that had an effect.
    pub(super) count: &'a AtomicU64,
}

impl Mover<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Returns an amount of at least 1: Lua negates 0 to -0, which is no integer for Redis.
    fn amount(&mut self) -> i64 {
        1 + self.below(50) as i64
    }

    /// Returns one of the keys that begin with `prefix`.
    fn key(&mut self, prefix: &str) -> String {
        format!("{prefix}{}", self.below(KEYS))
    }

    /// Sends commands at once, and counts the replies that show an effect.
    fn run(&mut self, commands: &[String]) {
        let bytes = commands.iter().flat_map(|command| encode_command(&words(command)));
        self.client.send(bytes.collect::<Vec<u8>>());
        for command in commands {
            match self.client.reply() {
                Reply::Error(error) => panic!("{command}: {error}"),
                Reply::Null | Reply::Integer(0) => {}
                Reply::Simple(text) if text == "QUEUED" || command == "MULTI" => {}
                _ => {
                    self.count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Sends several commands of the same kind.
    fn repeat(&mut self, command: impl Fn(&mut Self) -> String) {
        let commands: Vec<String> = (0..BATCH).map(|_| command(self)).collect();
        self.run(&commands);
    }

    /// Executes commands as a transaction.
    fn exec(&mut self, commands: &[String]) {
        let all = [&["MULTI".to_owned()], commands, &["EXEC".to_owned()]].concat();
        self.run(&all);
    }
}

/// Returns every kind of transfer.
pub(super) fn all() -> Vec<Kind> {
    vec![
        Kind {
            name: "SMOVE and SUNIONSTORE",
            setup: fill_sets,
            movers: &[smove, smove, union],
            check: check_sets,
        },
        Kind {
            name: "LMOVE, RPOPLPUSH and RENAME",
            setup: fill_lists,
            movers: &[lmove, rpoplpush, rename_list],
            check: check_lists,
        },
        Kind {
            name: "served BLMOVE",
            setup: fill_ring,
            movers: &[feed_ring, blmove, blmove, return_ring],
            check: check_ring,
        },
        Kind {
            name: "HINCRBY in EXEC",
            setup: fill_hashes,
            movers: &[hincrby, hincrby],
            check: check_hashes,
        },
        Kind {
            name: "SET in EXEC after WATCH",
            setup: fill_watched,
            movers: &[watch, watch],
            check: check_watched,
        },
        Kind {
            name: "ZINCRBY in EXEC and ZRANGESTORE",
            setup: fill_zsets,
            movers: &[zincrby, zrangestore],
            check: check_zsets,
        },
        Kind { name: "EVAL", setup: fill_script, movers: &[eval], check: check_script },
    ]
}

/// Adds all elements to one key, some hundred per request.
fn fill(client: &mut Connection, command: &str, key: &str) {
    let elements: Vec<String> = elements();
    for some in elements.chunks(500) {
        let request = format!("{command} {key} {}", some.join(" "));
        assert!(matches!(client.run(&request), Reply::Integer(_)));
    }
}

fn elements() -> Vec<String> {
    (0..ELEMENTS).map(|number| format!("element:{number:04}")).collect()
}

/// Checks that the keys with this prefix together contain each element once.
fn check_elements(contents: &Contents, prefix: &str) -> Result<(), String> {
    let found = contents.elements(prefix);
    let expected = elements();
    if found == expected {
        return Ok(());
    }
    let missing: Vec<&String> =
        expected.iter().filter(|it| !found.contains(&it.as_str())).collect();
    let twice: Vec<&[&str]> = found.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    Err(format!("{prefix}*: {} elements, missing {missing:?}, twice {twice:?}", found.len()))
}

fn check_sum(contents: &Contents, prefix: &str, accounts: u64) -> Result<(), String> {
    let (sum, expected) = (contents.sum(prefix), accounts as i64 * START);
    if sum == expected {
        return Ok(());
    }
    let elements = contents.elements(prefix);
    Err(format!("{prefix}*: the sum is {sum}, not {expected}, of {elements:?}"))
}

fn fill_sets(client: &mut Connection) {
    fill(client, "SADD", "set:0");
    client.check("SUNIONSTORE union set:0", format!(":{ELEMENTS}\r\n"));
}

fn smove(mover: &mut Mover) {
    mover.repeat(|it| {
        let (from, to) = (it.key("set:"), it.key("set:"));
        format!("SMOVE {from} {to} element:{:04}", it.below(ELEMENTS as u64))
    });
}

/// All sets together always contain all members.
fn union(mover: &mut Mover) {
    mover.run(&["SUNIONSTORE union set:0 set:1 set:2 set:3".to_owned()]);
}

fn check_sets(contents: &Contents) -> Result<(), String> {
    check_elements(contents, "set:")?;
    check_elements(contents, "union")
}

fn fill_lists(client: &mut Connection) {
    fill(client, "RPUSH", "list:0");
}

fn lmove(mover: &mut Mover) {
    mover.repeat(|it| {
        let sides = ["LEFT LEFT", "LEFT RIGHT", "RIGHT LEFT", "RIGHT RIGHT"];
        format!("LMOVE {} {} {}", it.key("list:"), it.key("list:"), it.random.choose(&sides))
    });
}

fn rpoplpush(mover: &mut Mover) {
    mover.repeat(|it| format!("RPOPLPUSH {} {}", it.key("list:"), it.key("list:")));
}

/// Renames a whole list. If the new name exists, nothing happens.
fn rename_list(mover: &mut Mover) {
    let (from, to) = (mover.key("list:"), mover.key("list:"));
    mover.client.send(encode_command(&["RENAMENX", &from, &to]));
    match mover.client.reply() {
        Reply::Integer(_) => {}
        Reply::Error(text) => assert_eq!(text, "ERR no such key"),
        other => panic!("{other:?}"),
    }
}

fn check_lists(contents: &Contents) -> Result<(), String> {
    check_elements(contents, "list:")
}

fn fill_ring(client: &mut Connection) {
    fill(client, "RPUSH", "ring:0");
}

/// Moves elements to a list for which clients wait: by LMOVE, by a script and by EXEC.
fn feed_ring(mover: &mut Mover) {
    match mover.below(3) {
        0 => mover.run(&["LMOVE ring:0 ring:1 LEFT RIGHT".to_owned()]),
        1 => {
            let script = "local element = redis.call('LPOP', KEYS[1])
                if element then redis.call('RPUSH', KEYS[2], element) end
                return element";
            let reply = mover.client.run_words(&["EVAL", script, "2", "ring:0", "ring:1"]);
            assert!(matches!(reply, Reply::Bulk(_) | Reply::Null), "{reply:?}");
        }
        _ => mover.exec(&["LMOVE ring:0 ring:1 LEFT RIGHT".to_owned(), "LLEN ring:1".to_owned()]),
    }
}

fn blmove(mover: &mut Mover) {
    mover.run(&[format!("BLMOVE ring:1 ring:2 LEFT RIGHT {TIME_OUT_S}")]);
}

fn return_ring(mover: &mut Mover) {
    mover.run(&[format!("BRPOPLPUSH ring:2 ring:0 {TIME_OUT_S}")]);
}

fn check_ring(contents: &Contents) -> Result<(), String> {
    check_elements(contents, "ring:")
}

fn fill_hashes(client: &mut Connection) {
    for field in 0..ACCOUNTS {
        let key = field % KEYS;
        client.check(&format!("HSET hash:{key} field:{field} {START}"), ":1\r\n");
    }
}

fn hincrby(mover: &mut Mover) {
    let amount = mover.amount();
    let [less, more] = [-amount, amount].map(|amount| {
        let field = mover.below(ACCOUNTS);
        format!("HINCRBY {} field:{field} {amount}", mover.key("hash:"))
    });
    mover.exec(&[less, more]);
}

fn check_hashes(contents: &Contents) -> Result<(), String> {
    check_sum(contents, "hash:", ACCOUNTS)
}

fn fill_watched(client: &mut Connection) {
    for key in 0..KEYS {
        client.check(&format!("SET watched:{key} {START}"), "+OK\r\n");
    }
}

/// Reads two balances and writes new ones, which succeeds only if no other client has changed them.
fn watch(mover: &mut Mover) {
    let (from, to) = (mover.key("watched:"), mover.key("watched:"));
    if from == to {
        return;
    }
    mover.client.check(&format!("WATCH {from} {to}"), "+OK\r\n");
    let [less, more] = [&from, &to].map(|key| -> i64 {
        mover.client.run(&format!("GET {key}")).text().parse().expect("a number")
    });
    let amount = mover.amount();
    let set = |key: &str, balance: i64| format!("SET {key} {balance}");
    mover.exec(&[set(&from, less - amount), set(&to, more + amount)]);
}

fn check_watched(contents: &Contents) -> Result<(), String> {
    check_sum(contents, "watched:", KEYS)
}

fn fill_zsets(client: &mut Connection) {
    for member in 0..ACCOUNTS {
        client.check(&format!("ZADD zset:0 {START} member:{member}"), ":1\r\n");
    }
    client.check("ZRANGESTORE copy:zset zset:0 0 -1", format!(":{ACCOUNTS}\r\n"));
}

/// Changes two members of one of two sorted sets. The first set is copied meanwhile.
fn zincrby(mover: &mut Mover) {
    let amount = mover.amount();
    let to = if mover.below(4) == 0 { "zset:1" } else { "zset:0" };
    let back = format!("ZINCRBY {to} {} member:{}", -amount, mover.below(ACCOUNTS));
    let there = format!("ZINCRBY {to} {amount} member:{}", mover.below(ACCOUNTS));
    mover.exec(&[back, there]);
}

fn zrangestore(mover: &mut Mover) {
    mover.run(&["ZRANGESTORE copy:zset zset:0 0 -1".to_owned()]);
}

fn check_zsets(contents: &Contents) -> Result<(), String> {
    check_sum(contents, "zset:", ACCOUNTS)?;
    check_sum(contents, "copy:zset", ACCOUNTS)
}

fn fill_script(client: &mut Connection) {
    client.check(&format!("MSET script:string {START} script:other {START}"), "+OK\r\n");
    client.check(&format!("HSET script:hash field {START}"), ":1\r\n");
    client.check(&format!("ZADD script:zset {START} member"), ":1\r\n");
}

/// Moves an amount between values of different types.
fn eval(mover: &mut Mover) {
    let script = "
        local function add(key, amount)
            local kind = redis.call('TYPE', key).ok
            if kind == 'hash' then redis.call('HINCRBY', key, 'field', amount)
            elseif kind == 'zset' then redis.call('ZINCRBY', key, amount, 'member')
            else redis.call('INCRBY', key, amount) end
        end
        add(KEYS[1], -ARGV[1])
        add(KEYS[2], ARGV[1])
        return 1";
    let keys = ["script:string", "script:other", "script:hash", "script:zset"];
    let [from, to] = [mover.random.choose(&keys), mover.random.choose(&keys)];
    let amount = mover.amount().to_string();
    let reply = mover.client.run_words(&["EVAL", script, "2", from, to, &amount]);
    assert_eq!(reply, Reply::Integer(1));
    mover.count.fetch_add(1, Ordering::Relaxed);
}

fn check_script(contents: &Contents) -> Result<(), String> {
    check_sum(contents, "script:", 4)
}
