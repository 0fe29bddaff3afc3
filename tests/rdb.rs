//! Real servers read the files that nagi writes, and nagi reads theirs, without a warning. Redis
//! 7.0 is always used, newer servers if `cargo xtask bench` has installed them.

use crate::persistence::Folder;
use harness::{Connection, Reply, Server, nagi_binary, root, skipped, tool, until};
use nagi_persist::rdb::{
    Block, Entry, Item, Memcached, Preamble, Reader, Record, Text, Version, Writer, WriterOptions,
    unpack,
};
use nagi_store::types::restore::Usage;
use nagi_store::{CHUNK_BYTES, Marks, Rope, StringValue, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that exchanges files with nagi. It may have its own root folder.
struct Peer {
    name: &'static str,
    root: Option<PathBuf>,
    /// The path of the server's files, as seen by the test.
    folder: PathBuf,
}

impl Peer {
    fn all(test: &str) -> Vec<Peer> {
        let sid = root().join(".peers/sid");
        let mut all = vec![("redis", None)];
        if sid.join("usr/bin/valkey-server").exists() {
            all.extend([("redis", Some(sid.clone())), ("valkey", Some(sid))]);
        } else {
            skipped("valkey-server of Debian sid is not in .peers/sid");
        }
        let peer = |(name, root): (&'static str, Option<PathBuf>)| {
            let temporary = root.as_ref().map_or(std::env::temp_dir(), |root| root.join("tmp"));
            let folder = temporary.join(format!("nagi-{test}-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("creates a folder");
            Peer { name, root, folder }
        };
        all.into_iter().map(peer).collect()
    }

    /// Returns the path of a file in the folder, as seen by the server.
    fn sees(&self, file: &str) -> PathBuf {
        let path = self.folder.join(file);
        match &self.root {
            Some(root) => Path::new("/").join(path.strip_prefix(root).expect("it is in there")),
            None => path,
        }
    }

    fn command(&self, program: &str) -> Command {
        let name = format!("{}-{program}", self.name);
        match &self.root {
            Some(root) => {
                let mut command = Command::new("chroot");
                command.arg(root).arg(name);
                command
            }
            None if program == "check-rdb" => {
                let unpacked = root().join(".setup/debian/usr");
                let mut command = Command::new(unpacked.join("bin").join(name));
                // If the machine lacks the server's libraries, they are unpacked next to the
                // server.
                let libraries = fs::read_dir(unpacked.join("lib")).into_iter().flatten().flatten();
                let folders: Vec<_> = libraries.map(|folder| folder.path()).collect();
                if let Ok(paths) = std::env::join_paths(folders) {
                    command.env("LD_LIBRARY_PATH", paths);
                }
                command
            }
            None => tool(&name),
        }
    }

    /// Starts the server with a file in its folder, and waits until the file is loaded.
    fn start(&self, policy: &str) -> Server {
        let mut command = self.command("server");
        command.arg("--dir").arg(self.sees("")).args(["--maxmemory-policy", policy]);
        let server = Server::start_redis(command).expect("it starts");
        let mut client = server.connect_resp();
        let pong = Reply::Simple("PONG".to_owned());
        until("the file", || (client.run("PING") == pong).then_some(())).expect("it loads");
        server
    }

    fn put(&self, file: &[u8]) {
        fs::write(self.folder.join("dump.rdb"), file).expect("writes the file");
    }

    fn dumped(&self) -> Vec<u8> {
        fs::read(self.folder.join("dump.rdb")).expect("reads the file")
    }

    /// Returns the output of the server's checker for the file. The checker must find no fault.
    fn check(&self) -> String {
        let output = self.command("check-rdb").arg(self.sees("dump.rdb")).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}: {said}", self.name);
        said
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The folder may have been removed already, so errors are ignored.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The number of a database, and a key in it.
type Name = (u64, Vec<u8>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Kept {
    value: Vec<u8>,
    expire_at_ms: Option<u64>,
    usage: Option<Usage>,
    memcached: Memcached,
}

/// Returns strings of every form and length, with and without all properties.
fn keys(usage: Option<Usage>) -> BTreeMap<Name, Kept> {
    let mut all = BTreeMap::new();
    let words = b"and so on, and so forth, ".repeat(10_000);
    let noise: Vec<u8> =
        (0..200_000_u32).flat_map(|it| it.wrapping_mul(0x9e37_79b1).to_be_bytes()).collect();
    let lens = [0, 1, 20, 21, 63, 64, 100, 16_383, 16_384, CHUNK_BYTES, CHUNK_BYTES + 1, 200_000];
    for (source, bytes) in [("words", &words), ("noise", &noise)] {
        for len in lens {
            all.insert((0, format!("{source}:{len}").into_bytes()), bytes[..len].to_vec());
        }
    }
    for number in [0, -1, 127, 128, -32_769, 2_147_483_647, 2_147_483_648, i64::MIN] {
        let number = number.to_string().into_bytes();
        all.insert((3, number.clone()), number);
    }
    all.insert((3, words[..500].to_vec()), b"a long key".to_vec());
    all.insert((15, b"\r\n\0\xff".to_vec()), b"007".to_vec());
    let kept = |(at, (name, value)): (usize, (Name, Vec<u8>))| {
        let at = at as u32;
        let kept = Kept {
            value,
            expire_at_ms: at.is_multiple_of(3).then_some(4_102_444_800_000 + u64::from(at)),
            usage,
            memcached: Memcached {
                flags: if at.is_multiple_of(2) { at } else { 0 },
                cas: at.is_multiple_of(5).then_some(u64::from(at) << 40),
                marks: Marks { stale: at.is_multiple_of(7), ..Marks::default() },
            },
        };
        (name, kept)
    };
    all.into_iter().enumerate().map(kept).collect()
}

fn write(keys: &BTreeMap<Name, Kept>, options: WriterOptions) -> Vec<u8> {
    let preamble = Preamble {
        redis_version: "7.2.0",
        created_at_s: 1_700_000_000,
        used_memory_bytes: 1 << 20,
        is_aof_base: false,
    };
    let mut writer = Writer::new(Vec::new(), options, &preamble).unwrap();
    let mut database = None;
    for ((number, key), kept) in keys {
        if database != Some(*number) {
            database = Some(*number);
            writer.database(*number).unwrap();
            writer.sizes(100, 50).unwrap();
        }
        let rope = Rope::from_bytes(&kept.value);
        let value = match nagi_store::parse_i64(&kept.value) {
            Some(number) => StringValue::Int(number),
            None if rope.len() > CHUNK_BYTES => StringValue::Rope(&rope),
            None => StringValue::Bytes(&kept.value),
        };
        let value = Value::String(value);
        let &Kept { expire_at_ms, usage, memcached, .. } = kept;
        let mut block = Block::default();
        match block.push(&Entry { key, value, expire_at_ms, usage, memcached }) {
            Some(long) => writer.long(&long).unwrap(),
            None => writer.block(&block).unwrap(),
        }
    }
    writer.finish().unwrap()
}

fn read(file: &[u8]) -> BTreeMap<Name, Kept> {
    let mut reader = Reader::new(file, true).unwrap();
    let mut all = BTreeMap::new();
    loop {
        match reader.next_item().unwrap() {
            Item::Key(record) => {
                let (mut bytes, mut value) = (Vec::new(), Vec::new());
                match reader.text(&mut bytes).unwrap() {
                    Text::Int(number) => value = number.to_string().into_bytes(),
                    Text::Plain(_) => value = bytes,
                    Text::Packed(_, len) => assert!(unpack(&bytes, len, &mut value)),
                    Text::Rope(rope) => rope.copy_range(0..rope.len(), &mut value),
                }
                let Record { database, expire_at_ms, usage, memcached, .. } = record;
                let kept = Kept { value, expire_at_ms, usage, memcached };
                all.insert((database, reader.key().to_vec()), kept);
            }
            Item::End => return all,
            _ => {}
        }
    }
}

/// Returns options for every form of file that the server must be able to read.
fn options(peer: &Peer) -> Vec<WriterOptions> {
    let mut all: Vec<WriterOptions> = [(true, true), (false, true), (true, false)]
        .into_iter()
        .map(|(compress, checksum)| WriterOptions { version: Version::LOWEST, compress, checksum })
        .collect();
    let newest = match (peer.name, &peer.root) {
        ("valkey", _) => 80,
        (_, Some(_)) => 12,
        _ => return all,
    };
    let version = Version::from_number(newest).expect("it is written");
    all.push(WriterOptions { version, compress: true, checksum: true });
    all
}

#[test]
fn real_servers_read_what_nagi_writes_and_write_what_nagi_reads() {
    for peer in Peer::all("exchange") {
        let keys = keys(None);
        for options in options(&peer) {
            peer.put(&write(&keys, options));
            assert!(peer.check().contains(&format!("{} keys read", keys.len())));
            let server = peer.start("noeviction");
            let log = server.log();
            for complaint in ["AUX", "nagi", "rror", "orrupt"] {
                assert!(!log.contains(complaint), "{}: {log}", peer.name);
            }
            let mut client = server.connect_resp();
            for ((database, key), kept) in &keys {
                client.run(&format!("SELECT {database}"));
                let value = client.run_words(&[b"GET", &key[..]]);
                assert_eq!(value, Reply::Bulk(kept.value.clone()), "{}", key.escape_ascii());
                let expiry = kept.expire_at_ms.map_or(-1, |at_ms| at_ms as i64);
                assert_eq!(client.run_words(&[b"PEXPIRETIME", &key[..]]).integer(), expiry);
            }
            // Another server does not keep the properties that only memcached's clients use.
            let memcached = Memcached::default();
            let expected: BTreeMap<Name, Kept> = keys
                .iter()
                .map(|(name, kept)| (name.clone(), Kept { memcached, ..kept.clone() }))
                .collect();
            for compression in ["yes", "no"] {
                client.run(&format!("CONFIG SET rdbcompression {compression}"));
                assert_eq!(client.run("SAVE").text(), "OK");
                assert!(read(&peer.dumped()) == expected, "{}", peer.name);
            }
            drop(server);
            peer.put(&write(&keys, options));
            assert!(read(&peer.dumped()) == keys, "nagi loses nothing");
        }
    }
}

#[test]
fn idle_times_and_frequencies_are_kept_in_files() {
    for peer in Peer::all("usage") {
        let options = WriterOptions { version: Version::LOWEST, compress: true, checksum: true };
        for (policy, usage, asked) in [
            ("allkeys-lfu", Usage::Frequency(77), "OBJECT FREQ words:21"),
            ("allkeys-lru", Usage::IdleMs(500_000), "OBJECT IDLETIME words:21"),
        ] {
            peer.put(&write(&keys(Some(usage)), options));
            peer.check();
            let server = peer.start(policy);
            let mut client = server.connect_resp();
            let said = client.run(asked).integer();
            assert!(matches!(said, 77 | 500..=560), "{} says {said}", peer.name);
            assert_eq!(client.run("SAVE").text(), "OK");
            for kept in read(&peer.dumped()).values() {
                match kept.usage {
                    Some(Usage::Frequency(77)) => {}
                    Some(Usage::IdleMs(500_000..560_000)) => {}
                    other => panic!("{} saves {other:?}", peer.name),
                }
            }
        }
    }
}

/// Commands whose results contain everything that both nagi and Redis can save.
const CONTENTS: &[&str] = &[
    "SET plain value",
    "SET empty \"\"",
    "SET number -9223372036854775808",
    "SET small 7",
    "SET zeros 007",
    "SET binary \"\\x00\\r\\n\\xff\"",
    "SET \"\\x00\\xffkey\" bytes",
    "SETRANGE long 300000 end",
    "SET volatile soon PXAT 33177117420123",
    "SELECT 9",
    "SET plain other",
    "SET volatile later EXAT 33177117420",
    "PFADD sketch a b c",
    "SETBIT bits 9000 1",
];

/// Returns keys with their values and expiries, for each database.
fn everything(client: &mut Connection) -> Vec<(u64, Vec<u8>, Reply, i64)> {
    let mut all = Vec::new();
    for database in 0..16 {
        client.check(&format!("SELECT {database}"), "+OK\r\n");
        let Reply::Array(keys) = client.run("KEYS *") else { panic!("keys") };
        for key in keys {
            let Reply::Bulk(key) = key else { panic!("a key") };
            let value = client.run_words(&[b"GET", &key[..]]);
            let expiry = client.run_words(&[b"PEXPIRETIME", &key[..]]).integer();
            all.push((database, key, value, expiry));
        }
    }
    all.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    all
}

#[test]
fn servers_load_each_others_files() {
    for peer in Peer::all("servers") {
        for compression in ["yes", "no"] {
            let folder = Folder::new("servers");
            let dump = folder.0.join("dump.rdb");
            let nagi = folder.nagi(&["--rdbcompression", compression]);
            let mut client = nagi.connect_resp();
            for command in CONTENTS {
                assert!(!matches!(client.run(command), Reply::Error(_)), "{command}");
            }
            client.check("SAVE", "+OK\r\n");
            let expected = everything(&mut client);
            assert_eq!(expected.len(), 13);
            drop((client, nagi));
            peer.put(&fs::read(&dump).expect("a file"));
            assert!(peer.check().contains("13 keys read"));
            let server = peer.start("noeviction");
            let mut client = server.connect_resp();
            assert!(everything(&mut client) == expected, "{} has loaded it", peer.name);
            client.check(&format!("CONFIG SET rdbcompression {compression}"), "+OK\r\n");
            client.check("SAVE", "+OK\r\n");
            drop((client, server));
            fs::write(&dump, peer.dumped()).expect("writes the file");
            let nagi = folder.nagi(&[]);
            assert!(everything(&mut nagi.connect_resp()) == expected, "from {}", peer.name);
        }
    }
}

/// A file with an unknown type must stop the server, which names the type and the key and leaves
/// the file unchanged.
#[test]
fn a_type_that_is_not_there_stops_the_start() {
    // The file contains a string, and a module's value: the module's number, and the end of the
    // value.
    let mut bytes = b"REDIS0010\xfe\x00\x00\x05plain\x05value\x07\x07the:key\x81".to_vec();
    bytes.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 0xff]);
    // Without a checksum.
    bytes.extend_from_slice(&[0; 8]);
    let folder = Folder::new("foreign-file");
    let path = folder.0.join("dump.rdb");
    fs::write(&path, &bytes).expect("writes");
    let dir = folder.0.to_str().expect("a path");
    let words = ["serve", "--port", "any", "--memcached-port", "0", "--save", "1 1"];
    let (done, said) = nagi("nagi", &[&words[..], &["--dir", dir]].concat());
    let expected = "the key \"the:key\" holds a value of the type module (";
    assert!(!done && said.contains(expected), "{said}");
    assert!(fs::read(&path).expect("reads") == bytes, "it is as it was");
}

/// Runs nagi under this name with these words. Returns its output, and whether it succeeded.
fn nagi(name: &str, words: &[&str]) -> (bool, String) {
    use std::os::unix::process::CommandExt;
    let output = Command::new(nagi_binary()).arg0(name).args(words).output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).expect("text"))
}

#[test]
fn files_are_checked_and_inspected() {
    let golden = root().join("crates/persist/tests/golden/redis-7.0.15.rdb");
    let whole = golden.to_str().expect("a path");
    let cut = std::env::temp_dir().join(format!("nagi-cut-{}.rdb", std::process::id()));
    fs::write(&cut, &fs::read(&golden).expect("reads")[..3000]).expect("writes");
    let cut = cut.to_str().expect("a path");
    for (name, words) in [("nagi", &["check-rdb"][..]), ("redis-check-rdb", &[])] {
        let (done, said) = nagi(name, &[words, &[whole]].concat());
        assert!(done && said.contains("[info] 24 keys read"), "{said}");
        let (done, said) = nagi(name, &[words, &[cut]].concat());
        assert!(!done && said.contains("[offset 3000] expected"), "{said}");
        let (done, said) = nagi(name, &[words, &["/nowhere"]].concat());
        assert!(!done && said.contains("/nowhere: No such file"), "{said}");
    }
    let (done, said) = nagi("nagi", &["rdb-stats", whole, "--top", "3"]);
    assert!(done && said.contains("biggest keys"), "{said}");
    let (done, said) = nagi("nagi", &["rdb-stats", whole, "--format", "csv"]);
    assert!(done && said.starts_with("section,name,") && said.contains("prefix,list:*,"), "{said}");
    let (done, said) = nagi("nagi", &["rdb-stats", whole, "--format", "json"]);
    assert!(done && said.contains("\"redis-ver\"") && said.contains("\"listpack\""), "{said}");
    let (done, said) = nagi("nagi", &["rdb-stats", cut]);
    assert!(!done && said.contains("byte 3000: expected"), "{said}");
    fs::remove_file(cut).expect("removes");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let golden = root().join("crates/persist/tests/golden/redis-7.0.15.rdb");
    for command in ["check-rdb", "rdb-stats"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let command = Command::new(nagi_binary()).arg(command).arg(&golden).stdout(writer).output();
        let output = command.expect("it starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}
