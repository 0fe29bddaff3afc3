//! ACL files that are truncated, damaged or not ACL files at all.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{Connection, Folder, Random, Reply, Server, nagi_binary, tool};

const USERS: &str = "user default on nopass ~* &* +@all\n\
    user ann on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b >pw \
    ~a* %R~r* &news +@read -keys +config|get\n\
    user bob off resetchannels ~b (+set ~c* &x) (+get %W~d)\n\
    user eve on nopass allkeys -@all +acl|whoami\n";

/// A server, and the file from which its users are loaded.
struct Subject {
    _server: Server,
    client: Connection,
    path: PathBuf,
}

impl Subject {
    fn pair(folder: &Folder) -> [Self; 2] {
        ["nagi", "redis-server"].map(|name| {
            let path = folder.path().join(name);
            fs::write(&path, USERS).expect("writes a file");
            let file = path.to_str().expect("a path of text");
            let server = match name {
                "nagi" => Server::nagi_with(&["--aclfile", file]),
                _ => {
                    let mut redis = tool("redis-server");
                    redis.args(["--aclfile", file]);
                    Server::start_redis(redis).unwrap_or_else(|problem| panic!("{problem}"))
                }
            };
            Subject { client: server.connect_resp(), _server: server, path }
        })
    }

    /// Loads `file`. Returns whether it was accepted, and the names of all users afterwards.
    fn load(&mut self, file: &[u8]) -> (bool, Reply) {
        fs::write(&self.path, file).expect("writes a file");
        let loaded = self.client.run("ACL LOAD");
        let is_taken = loaded == Reply::Simple("OK".to_owned());
        assert!(is_taken || matches!(&loaded, Reply::Error(text) if text.starts_with("ERR ")));
        (is_taken, self.client.run("ACL USERS"))
    }
}

/// Loads the same file into both servers, and compares the results.
fn compare([nagi, redis]: &mut [Subject; 2], file: &[u8]) {
    let text = String::from_utf8_lossy(file);
    if file.split(|byte| *byte == b'\n').any(confuses_redis_7) {
        let before = nagi.client.run("ACL USERS");
        assert_eq!(nagi.load(file), (false, before), "{text:?}");
        return;
    }
    let outcomes = [nagi.load(file), redis.load(file)];
    assert!(outcomes[0] == outcomes[1], "{text:?}: {outcomes:?}");
}

/// Whether this line contains a selector that is not closed, which crashes Redis 7.0.15, or a
/// selector that begins within another, which Redis 7.0.15 takes for the end of the first. Redis
/// 8.0.6 refuses both.
fn confuses_redis_7(line: &[u8]) -> bool {
    let mut is_open = false;
    for word in line.trim_ascii().split(|byte| *byte == b' ').skip(2) {
        let begins = word.starts_with(b"(") && !word.ends_with(b")");
        if is_open && begins {
            return true;
        }
        is_open = begins || is_open && !word.ends_with(b")");
    }
    is_open
}

#[test]
fn files_that_are_cut_are_taken_or_refused_as_by_redis() {
    let folder = Folder::new("cut-users");
    let mut subjects = Subject::pair(&folder);
    // If the default user had no rights, the next file could not be loaded.
    let start = USERS.find('\n').expect("it has lines") + 1;
    for length in start..=USERS.len() {
        compare(&mut subjects, &USERS.as_bytes()[..length]);
    }
}

/// Files that crash Redis 7.0.15 are not sent to it.
#[test]
fn files_that_are_damaged_are_taken_or_refused_whole() {
    let folder = Folder::new("damaged-users");
    let [mut nagi, _] = Subject::pair(&folder);
    let (_, mut before) = nagi.load(USERS.as_bytes());
    let mut random = Random::announced();
    let start = USERS.find('\n').expect("it has lines") + 1;
    // Byte 0 is omitted, because it ends a line in Redis.
    let odd = b"\r\n \t()~&%+-@|<>#!\"'\\user\xff";
    for _ in 0..300 {
        let mut file = USERS.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = start + random.below((file.len() - start) as u64) as usize;
            file[at] = odd[random.below(odd.len() as u64) as usize];
        }
        let (is_taken, after) = nagi.load(&file);
        assert!(is_taken || after == before, "{:?}", String::from_utf8_lossy(&file));
        before = after;
    }
}

#[test]
fn odd_files_are_taken_or_refused_as_by_redis() {
    let folder = Folder::new("odd-users");
    let mut subjects = Subject::pair(&folder);
    let default = USERS.lines().next().expect("it has lines");
    for more in [
        String::new(),
        "\n\n\n".to_owned(),
        "# a comment".to_owned(),
        "user".to_owned(),
        "user ".to_owned(),
        "user \n".to_owned(),
        "USER ann on".to_owned(),
        "ann on".to_owned(),
        "user ann on\nuser ann off".to_owned(),
        "user ann".to_owned(),
        "user ann\r\n".to_owned(),
        "user ann  on  nopass".to_owned(),
        "\tuser ann on".to_owned(),
        "user ann on\tnopass".to_owned(),
        "user ann (".to_owned(),
        "user ann )".to_owned(),
        "user ann ()".to_owned(),
        "user ann (()".to_owned(),
        "user ann (+get (+set))".to_owned(),
        "user ann (on)".to_owned(),
        "user ann #abc".to_owned(),
        format!("user ann #{}", "g".repeat(64)),
        format!("user ann #{}", "a".repeat(65)),
        "user ann %~a %R %RW~b".to_owned(),
        "user ann +@nosuch".to_owned(),
        "user ann +get|nosuch".to_owned(),
        "user ann +config|get|x".to_owned(),
        "user ann allkeys ~a".to_owned(),
        format!("user {} on", "n".repeat(100_000)),
        format!("user ann on{}", " +get".repeat(20_000)),
        format!("user ann on{}", " (+get ~a)".repeat(2_000)),
        format!("user ann on ~{}", "*".repeat(100_000)),
        (0..1_000).map(|number| format!("user u{number} on +get\n")).collect(),
    ] {
        compare(&mut subjects, format!("{default}\n{more}").as_bytes());
    }
    // The file does not exist any more.
    for subject in &mut subjects {
        fs::remove_file(&subject.path).expect("removes the file");
        let users = subject.client.run("ACL USERS");
        let gone = subject.client.run("ACL LOAD");
        assert!(matches!(gone, Reply::Error(_)), "{gone:?}");
        assert_eq!(subject.client.run("ACL USERS"), users);
    }
    // A folder is in place of the file, which Redis treats as an empty file.
    let [nagi, _] = &mut subjects;
    fs::create_dir(&nagi.path).expect("makes a folder");
    let users = nagi.client.run("ACL USERS");
    for command in ["ACL LOAD", "ACL SAVE"] {
        let refused = nagi.client.run(command);
        assert!(matches!(refused, Reply::Error(_)), "{command}: {refused:?}");
    }
    assert_eq!(nagi.client.run("ACL USERS"), users);
}

/// A start with such a file must either fail and show the reason, or load all users.
#[test]
fn a_start_with_a_file_that_is_cut_says_why_it_ends() {
    let folder = Folder::new("start-users");
    for length in [1, 40, USERS.len() / 2, USERS.len() - 30, USERS.len() - 2] {
        let path = folder.path().join("users");
        fs::write(&path, &USERS[..length]).expect("writes a file");
        let file = path.to_str().expect("a path of text");
        let mut redis = tool("redis-server");
        redis.args(["--aclfile", file]);
        let theirs = Server::start_redis(redis);
        let mut nagi = Command::new(nagi_binary());
        nagi.args(["serve", "--aclfile", file]);
        match Server::start_nagi(nagi) {
            Ok(_) => {
                let pong = theirs.expect("starts").connect_resp().run("PING");
                assert_eq!(pong, Reply::Simple("PONG".to_owned()), "{length}");
            }
            Err(told) => {
                // Redis listens before it reads the file.
                let has_ended = theirs.map_or(true, |mut redis| !redis.wait_for_exit().success());
                assert!(has_ended && told.contains(file), "{length}: {told}");
                assert!(!told.contains("panicked"), "{told}");
            }
        }
    }
}
