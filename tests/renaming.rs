//! `rename-command`: commands are renamed or disabled, as in redis-server.

use crate::scripting::error;
use harness::{Connection, Reply, Server, nagi_binary, tool};
use std::fs;
use std::process::{Command, Stdio};

const LONG: &str = "b840fc02d524045429941cc15f59e41cb7be6c52";

fn both(arguments: &[&str]) -> [Server; 2] {
    let mut redis = tool("redis-server");
    redis.args(arguments);
    let redis = Server::start_redis(redis).unwrap_or_else(|problem| panic!("{problem}"));
    [Server::nagi_with(arguments), redis]
}

fn words(client: &mut Connection, command: &str) -> Vec<String> {
    client.run(command).list().iter().map(Reply::text).collect()
}

#[test]
fn commands_are_called_by_their_new_names_only() {
    let arguments = [
        ["--rename-command", "FLUSHALL", ""],
        ["--rename-command", "config", LONG],
        ["--rename-command", "GET", "tmp"],
        ["--rename-command", "Set", "Get"],
        ["--rename-command", "TMP", "Set"],
    ];
    for server in both(arguments.as_flattened()) {
        let mut client = server.connect_resp();
        let unknown =
            |name: &str| format!("-ERR unknown command '{name}', with args beginning with: \r\n");
        client.check("FLUSHALL", unknown("FLUSHALL"));
        client.check("config", unknown("config"));
        client.check("tmp", unknown("tmp"));
        client.check("GET key value", "+OK\r\n");
        client.check("set key", "$5\r\nvalue\r\n");
        client.check("get", "-ERR wrong number of arguments for 'set' command\r\n");
        client.check(&format!("{LONG} SET maxmemory-samples 7"), "+OK\r\n");
        client.check(
            &format!("{} nosuch", LONG.to_uppercase()),
            format!("-ERR unknown subcommand 'nosuch'. Try {} HELP.\r\n", LONG.to_uppercase()),
        );
        let help = client.run(&format!("{LONG} HELP")).list()[0].text();
        assert!(help.starts_with(&format!("{} <subcommand>", LONG.to_uppercase())), "{help}");
        // COMMAND, statistics and access control lists contain the original names of commands.
        let offered = words(&mut client, "COMMAND LIST");
        assert!(offered.contains(&"set".to_owned()) && offered.contains(&"config|get".to_owned()));
        assert!(!offered.contains(&"flushall".to_owned()) && !offered.contains(&"tmp".to_owned()));
        let count = client.run("COMMAND COUNT").integer();
        assert_eq!(count, client.run("COMMAND").list().len() as i64);
        let described = client.run("COMMAND INFO get flushall");
        assert_eq!(described.list()[0].list()[0].text(), "set");
        assert_eq!(described.list()[1], Reply::Null);
        client.check("COMMAND GETKEYS get a b", "*1\r\n$1\r\na\r\n");
        assert_eq!(words(&mut client, "COMMAND DOCS flushall config"), [""; 0]);
        let counted = client.run("INFO commandstats").text();
        assert!(counted.contains("cmdstat_config|set:calls=1,"), "{counted}");
        assert!(words(&mut client, "ACL CAT dangerous").contains(&"flushall".to_owned()));
        client.check("ACL SETUSER limited on nopass ~* +get +flushall", "+OK\r\n");
        client.check("ACL SETUSER limited +tmp", format!("-{UNKNOWN_RULE}\r\n"));
        client.check("AUTH limited x", "+OK\r\n");
        client.check("SET key", "$5\r\nvalue\r\n");
        let refused = error(&client.run("GET key x"));
        let ends = refused.ends_with(" has no permissions to run the 'set' command");
        assert!(refused.starts_with("NOPERM ") && ends, "{refused}");
    }
}

const UNKNOWN_RULE: &str =
    "ERR Error in ACL SETUSER modifier '+tmp': Unknown command or category name in ACL";

#[test]
fn transactions_and_scripts_call_renamed_commands() {
    let arguments = [["--rename-command", "exec", "run"], ["--rename-command", "incr", "up"]];
    for server in both(arguments.as_flattened()) {
        let mut client = server.connect_resp();
        client.check("MULTI", "+OK\r\n");
        client.check("UP n", "+QUEUED\r\n");
        client.check("RUN", "*1\r\n:1\r\n");
        client.check("MULTI", "+OK\r\n");
        client.check("incr n", "-ERR unknown command 'incr', with args beginning with: 'n' \r\n");
        client.check("RUN", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.check("EVAL return(redis.call('up','n')) 0", ":2\r\n");
        let refused = error(&client.run("EVAL return(redis.pcall('incr','n')) 0"));
        assert!(refused.starts_with("ERR Unknown Redis command called from script"), "{refused}");
    }
}

#[test]
fn a_file_keeps_its_lines_about_names() {
    let folder = std::env::temp_dir().join(format!("nagi-renaming-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("some.conf").display().to_string();
    let line = "rename-command FLUSHDB badger";
    fs::write(&file, format!("{line}\n")).expect("a file");
    let server = Server::nagi_with(&[&file]);
    let mut client = server.connect_resp();
    client.check("CONFIG GET rename-command", "*0\r\n");
    client.check("CONFIG REWRITE", "+OK\r\n");
    client.check("BADGER", "+OK\r\n");
    assert!(fs::read_to_string(&file).expect("a file").starts_with(line));
    for (line, reason) in [
        ("rename-command nosuch x", "No such command in rename-command"),
        ("rename-command get SET", "Target command name already exists"),
        ("rename-command get", "wrong number of arguments"),
    ] {
        fs::write(&file, format!("port 0\n{line}\n")).expect("a file");
        let mut command = Command::new(nagi_binary());
        let output = command.arg(&file).stdin(Stdio::null()).output().expect("starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("nagi: {file}, line 2: {line}: {reason}\n");
        assert!(told.ends_with(&expected), "{told}");
    }
    let _ = fs::remove_dir_all(&folder);
}
