//! Configuration files and command lines of nagi and of the servers that it replaces.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness::{Connection, Server, nagi_binary, root, skipped, until};
use rustix::process::{Pid, Signal, kill_process};

/// A folder of one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nagi-conf-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("a file");
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn nagi(arguments: &[&str]) -> Command {
    let mut command = Command::new(nagi_binary());
    command.args(arguments);
    command
}

/// Runs nagi with arguments with which it should exit without being stopped.
fn output(arguments: &[&str]) -> Output {
    nagi(arguments).stdin(Stdio::null()).output().expect("starts")
}

fn start(arguments: &[&str]) -> Server {
    Server::start_nagi(nagi(arguments)).unwrap_or_else(|problem| panic!("{problem}"))
}

fn setting(client: &mut Connection, name: &str) -> String {
    client.run(&format!("CONFIG GET {name}")).list()[1].text().to_owned()
}

#[test]
fn a_small_file_takes_effect() {
    let server = start(&[&root().join("tests/configuration/small.conf").display().to_string()]);
    let mut client = server.connect_resp();
    for (name, value) in [
        ("databases", "4"),
        ("maxmemory", "33554432"),
        ("maxmemory-policy", "allkeys-lru"),
        ("save", "900 1 300 10"),
        ("syslog-ident", "a name"),
    ] {
        assert_eq!(setting(&mut client, name), value, "{name}");
    }
    client.check("SELECT 4", "-ERR DB index is out of range\r\n");
    let log = server.log();
    let told = log.lines().find(|line| line.contains("accepted without effect")).expect("a line");
    assert!(told.matches("syslog-ident").count() == 1, "{told}");
    assert!(!told.contains("databases"), "{told}");
}

/// Returns the configuration files of other servers, if this machine has them: of Debian's Redis
/// 7.0, which `cargo xtask setup` installs, and of Redis 8.0 and Valkey 9.1.
fn shipped() -> Vec<PathBuf> {
    let files = [
        ".setup/debian/etc/redis/redis.conf",
        ".peers/sid/etc/redis/redis.conf",
        ".peers/sid/etc/valkey/valkey.conf",
    ];
    let is_there = |path: &PathBuf| {
        let is_there = path.is_file();
        if !is_there {
            skipped(format_args!("there is no {}", path.display()));
        }
        is_there
    };
    files.iter().map(|file| root().join(file)).filter(is_there).collect()
}

#[test]
fn shipped_files_start_nagi_unedited() {
    let files = shipped();
    assert!(!files.is_empty(), "setup brings one");
    for file in files {
        eprintln!("starting with {}", file.display());
        // The package's file names folders of the system; a test replaces them.
        let folder = Folder::new("shipped");
        let (log, pidfile) = (folder.path("log"), folder.path("pid"));
        let own = ["--dir", &folder.path(""), "--logfile", &log, "--pidfile", &pidfile];
        let mut arguments = vec!["serve", file.to_str().expect("text"), "--daemonize", "no"];
        arguments.extend(own);
        let server = start(&arguments);
        let mut client = server.connect_resp();
        client.check("SET key value", "+OK\r\n");
        assert_eq!(setting(&mut client, "acllog-max-len"), "128", "{}", file.display());
        let written = fs::read_to_string(&pidfile).expect("a pidfile");
        assert_eq!(written.trim(), server.process_id().to_string());
        let is_ready = |log: &String| log.contains("Ready to accept connections");
        let log = until("the line", || fs::read_to_string(&log).ok().filter(is_ready));
        let log = log.expect("it is logged");
        assert_eq!(log.matches("accepted without effect").count(), 1, "{log}");
    }
}

#[test]
fn errors_name_file_line_and_reason() {
    let folder = Folder::new("wrong");
    for (line, reason) in [
        ("maxmemry 5mb", "unknown option maxmemry; did you mean maxmemory?"),
        ("maxmemory lots", "argument must be a memory value"),
        ("databases 1 2", "wrong number of arguments"),
        ("bind \"127.0.0.1", "unbalanced quotes"),
        ("appendonly yes", "There is no append-only file"),
        ("replicaof 10.0.0.1 6379", "There is no replication"),
        ("cluster-enabled yes", "There is no cluster mode"),
        ("tls-port 6380", "There is no TLS"),
        ("loadmodule /usr/lib/x.so", "There are no modules"),
    ] {
        let file = folder.write("some.conf", &format!("# one\nport 0\n{line}\n"));
        let output = output(&[&file]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{line}");
        let place = format!("nagi: {file}, line 3: {line}: ");
        assert!(error.starts_with(&place) && error.contains(reason), "{line}: {error}");
    }
    let file = folder.write("some.conf", "appendonly yes\nreplicaof 10.0.0.1 6379\n");
    let server = start(&["serve", &file, "--ignore-unsupported"]);
    assert_eq!(setting(&mut server.connect_resp(), "appendonly"), "no");
    assert_eq!(server.log().matches("ignored, not supported").count(), 2);
}

/// A server that goes back to Redis must find its settings.
#[test]
fn ignored_settings_stay_in_a_rewritten_file() {
    let folder = Folder::new("ignored");
    let text = "appendonly yes\nreplicaof 10.0.0.1 6379\ntls-port 6380\nhz 20\n";
    let file = folder.write("some.conf", text);
    let server = start(&["serve", &file, "--ignore-unsupported", "--dir", &folder.path("")]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET hz 30", "+OK\r\n");
    client.check("CONFIG REWRITE", "+OK\r\n");
    let rewritten = fs::read_to_string(&file).expect("the file");
    let expected = text.replace("hz 20", "hz 30");
    assert!(rewritten.starts_with(&expected), "{rewritten}");
    assert_eq!(rewritten.matches("appendonly").count(), 1, "{rewritten}");
}

#[test]
fn a_file_need_not_be_utf_8() {
    let folder = Folder::new("latin-1");
    let file = folder.path("some.conf");
    let text = b"# caf\xe9\nsyslog-ident caf\xe9\ndatabases 7\n";
    let user = b"user ren\xe9 on >p\xe4ss ~* +@all\n";
    fs::write(&file, [&text[..], user].concat()).expect("a file");
    let login = [&b"AUTH"[..], b"ren\xe9", b"p\xe4ss"];
    for rewrites in [true, false] {
        // The folder is also written into the file, so it must exist at the second start.
        let server = start(&["serve", &file, "--dir", &folder.path("")]);
        let mut client = server.connect_resp();
        assert_eq!(setting(&mut client, "databases"), "7");
        assert_eq!(client.run_words(&login).text(), "OK");
        if rewrites {
            client.check("CONFIG REWRITE", "+OK\r\n");
            assert!(fs::read(&file).expect("the file").starts_with(text));
        }
    }
}

#[test]
fn rules_for_commands_over_http_that_are_none_stop_the_start() {
    for (option, value, reason) in [
        ("http-networks", "foo", "foo is no address and no network such as 10.0.0.0/8"),
        ("http-networks", "127.0.0.0/99 -@all", "127.0.0.0/99 is no address and no network"),
        ("http-networks", "127.0.0.0/8", "each network must be followed by its rules"),
        ("http-commands", "+@all -@admn", "'-@admn': Unknown command or category name in ACL"),
        ("http-commands", "get", "get is no rule about commands, such as +get or -@admin"),
    ] {
        let own = ["--port", "any", "--memcached-port", "0", "--http-port", "0"];
        let output = output(&[&own[..], &[&format!("--{option}"), value]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        let expected = format!("nagi: {option}: {reason}");
        assert!(!output.status.success() && error.contains(&expected), "{value}: {error}");
    }
}

#[test]
fn a_command_line_includes_files_as_that_of_redis_does() {
    let folder = Folder::new("include");
    let file = folder.write("more.conf", "databases 7\nappendonly no\n");
    let server = start(&["serve", "--databases", "3", "--include", &file]);
    assert_eq!(setting(&mut server.connect_resp(), "databases"), "7");
    let output = output(&["serve", "--include", &folder.path("missing.conf")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("missing.conf cannot be read"), "{error}");
}

#[test]
fn a_server_without_a_usable_port_does_not_start() {
    for (arguments, reason) in [
        (["--port", "0", "--memcached-port", "0"], "nothing to listen on"),
        (["--port", "1234", "--memcached-port", "1234"], "both 1234"),
    ] {
        let output = output(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(reason), "{error}");
    }
    let folder = Folder::new("socket-only");
    let path = folder.path("socket");
    let mut server = nagi(&["--port", "0", "--memcached-port", "0", "--unixsocket", &path])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    harness::until("the socket", || UnixStream::connect(&path).ok()).expect("it serves");
    server.kill().expect("ends");
    server.wait().expect("ends");
}

#[test]
fn a_folder_is_shown_as_it_was_given() {
    let server = start(&["--dir", "/tmp", "--save", ""]);
    assert_eq!(setting(&mut server.connect_resp(), "dir"), "/tmp");
}

#[test]
fn several_sockets_have_the_permissions_that_were_asked_for() {
    let folder = Folder::new("sockets");
    let paths = [folder.path("a"), folder.path("b"), folder.path("c")];
    let [a, b, c] = &paths;
    let mut server =
        start(&["--unixsocket", a, b, "--unixsocketperm", "770", "--memcached-unixsocket", c]);
    for path in &paths {
        UnixStream::connect(path).expect("it listens");
        let mode = fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o770, "{path}");
    }
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success());
    assert!(paths.iter().all(|path| !Path::new(path).exists()), "they go with the server");
}

#[test]
fn files_are_rewritten_as_by_redis() {
    let folder = Folder::new("rewrite");
    let text = "# about time\ntimeout 5\n\n# the end\n";
    let expected = "# about time\ntimeout 77\n\n# the end\n";
    let of_nagi = folder.write("nagi.conf", text);
    let mut server = Command::new(nagi_binary());
    server.args(["serve", &of_nagi]);
    let nagi = Server::start_nagi(server).expect("starts");
    let of_redis = folder.write("redis.conf", text);
    let mut server = harness::tool("redis-server");
    server.arg(&of_redis);
    let redis = Server::start_redis(server).expect("starts");
    for (server, file) in [(nagi, of_nagi), (redis, of_redis)] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET timeout 77 maxmemory-samples 7", "+OK\r\n");
        client.check("CONFIG REWRITE", "+OK\r\n");
        let written = fs::read_to_string(&file).expect("the file");
        assert!(written.starts_with(expected), "{file}: {written}");
        let (_, added) = written.split_once("# Generated by CONFIG REWRITE\n").expect("a comment");
        assert!(added.contains("maxmemory-samples 7"), "{written}");
    }
}

#[test]
fn the_background_is_entered_once_it_listens() {
    let folder = Folder::new("background");
    let (pidfile, ports) = (folder.path("pid"), folder.path("ports"));
    fs::create_dir_all(folder.path("data")).expect("a folder");
    folder.write("relative.conf", "port any\nmemcached-port any\ndir data\n");
    let own = ["--daemonize", "yes", "--pidfile", &pidfile, "--ports-file", &ports];
    let mut command = nagi(&[&["./relative.conf"][..], &own].concat());
    let started = command.current_dir(&folder.0).stdin(Stdio::null()).output().expect("starts");
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    // The pidfile and the log exist as soon as the command has ended.
    let process: i32 = fs::read_to_string(&pidfile).expect("a pidfile").trim().parse().unwrap();
    let lines = fs::read_to_string(&ports).expect("a ports file");
    let port = lines.lines().next().and_then(|line| line.strip_prefix("resp ")).expect("a port");
    let failed = output(&[
        "--port",
        port.rsplit(':').next().expect("a port"),
        "--memcached-port",
        "0",
        "--daemonize",
        "yes",
    ]);
    kill_process(Pid::from_raw(process).expect("a number"), Signal::TERM).expect("it runs");
    let is_gone = || [&pidfile, &ports].iter().all(|path| !Path::new(path).exists());
    harness::until("its end", || is_gone().then_some(())).expect("it ends");
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("in use"));
}

#[test]
fn unchanged_lines_are_not_rewritten() {
    let folder = Folder::new("relative");
    fs::create_dir(folder.path("data")).expect("a folder");
    let text = "port any\nmemcached-port 0\ndaemonize yes\ndir data\npidfile pid\n";
    fs::write(folder.path("relative.conf"), text).expect("a file");
    // If the default port of pages is used by this or another process, that is not a change either.
    let _taken = std::net::TcpListener::bind("127.0.0.1:7379");
    let mut command = nagi(&["serve", "relative.conf", "--ports-file", "ports"]);
    let started = command.current_dir(folder.path("")).output().expect("starts");
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let pidfile = folder.path("data/pid");
    let process: i32 = fs::read_to_string(&pidfile).expect("a pidfile").trim().parse().unwrap();
    let ports = fs::read_to_string(folder.path("data/ports")).expect("a ports file");
    let port = ports.lines().next().and_then(|line| line.strip_prefix("resp ")).expect("a port");
    let mut client = Connection::open(port.parse().expect("an address"));
    client.check("CONFIG REWRITE", "+OK\r\n");
    kill_process(Pid::from_raw(process).expect("a number"), Signal::TERM).expect("it runs");
    harness::until("its end", || (!Path::new(&pidfile).exists()).then_some(())).expect("it ends");
    let written = fs::read_to_string(folder.path("relative.conf")).expect("the file");
    let data = fs::canonicalize(folder.path("data")).expect("the folder");
    assert_eq!(written, text.replace("dir data", &format!("dir {}", data.display())));
}

#[test]
fn the_supervisor_is_notified() {
    let folder = Folder::new("supervisor");
    let path = folder.path("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let mut command = nagi(&["serve", "--supervised", "systemd", "--daemonize", "yes"]);
    command.env("NOTIFY_SOCKET", &path);
    let _server = Server::start_nagi(command).expect("starts");
    let mut message = [0; 100];
    let length = socket.recv(&mut message).expect("a message");
    assert!(message[..length].starts_with(b"READY=1\n"));
}

#[test]
fn settings_are_read_from_the_standard_input() {
    let mut command = Command::new("sh");
    // The harness provides no standard input.
    let script = format!("echo 'databases 7' | exec '{}' serve - \"$@\"", nagi_binary().display());
    command.args(["-c", &script, "sh"]);
    let server = Server::start_nagi(command).expect("starts");
    assert_eq!(setting(&mut server.connect_resp(), "databases"), "7");
    // The harness would kill only the shell, which has started nagi.
    let mut client = server.connect_resp();
    client.send("SHUTDOWN\r\n");
    assert_eq!(client.rest(), b"");
}

#[test]
fn names_of_other_servers_bring_their_arguments() {
    let folder = Folder::new("names");
    let name = |name: &str| {
        let path = folder.path(name);
        symlink(nagi_binary(), &path).expect("a link");
        Command::new(path)
    };
    let server = Server::start_redis(name("redis-server")).expect("starts");
    server.connect_resp().check("PING", "+PONG\r\n");
    assert_eq!(setting(&mut server.connect_resp(), "memcached-port"), "0");
    // The server listens before it logs this.
    let says = |words: &str| server.log().contains(words).then_some(());
    harness::until("the log", || says("Ready to accept connections")).expect("it is ready");
    assert!(says(&format!(" PID: {}", server.process_id())).is_some(), "{}", server.log());

    let mut command = name("memcached");
    command.args(["-m", "10", "-c", "20", "-t", "1", "-I", "2m", "-vv", "-f", "1.1"]);
    let server = Server::start_memcached(command).expect("starts");
    let mut client = server.connect_memcached();
    client.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.send("stats settings\r\n");
    client.expect("STAT maxbytes 10485760\r\nSTAT maxconns 20\r\n");

    let refused = nagi(&["memcached", "-S"]).output().expect("starts");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("needs a file of users"), "{error}");
    for (program, argument, expected) in [
        // This is for programs that look for a version in the output.
        ("redis-server", "--version", "Redis server v=7.2.4 sha="),
        ("redis-server", "-v", " (nagi 0."),
        ("redis-server", "--help", "--maxmemory"),
        ("memcached", "-h", "--memory-limit"),
        ("memcached", "-V", "memcached 1.6.45 (nagi 0."),
    ] {
        let output = Command::new(folder.path(program)).arg(argument).output().expect("starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expected), "{program}: {text}");
    }
}

#[test]
fn manual_pages_name_the_program_and_its_version() {
    let folder = Folder::new("manual");
    let path = folder.path("");
    assert!(output(&["man", "--directory", &path]).status.success());
    let footer = concat!("\"nagi ", env!("CARGO_PKG_VERSION"), "\"");
    for name in ["nagi.1", "nagi-serve.1", "nagi-client-get.1"] {
        let text = std::fs::read_to_string(folder.path(name)).expect(name);
        let title = text.lines().find(|line| line.starts_with(".TH")).unwrap_or_default();
        assert!(title.contains(footer), "{name}: {title}");
    }
}

#[test]
fn output_that_cannot_be_written_is_one_line_and_no_crash() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opens");
    for arguments in [
        &["man"][..],
        &["completions", "bash"],
        &["serve", "--help"],
        &["serve", "--version"],
        &["memcached", "-h"],
    ] {
        let output = nagi(arguments).stdout(full()).output().expect("starts");
        let told = String::from_utf8_lossy(&output.stderr);
        let is_one_line = told.starts_with("nagi: ") && told.lines().count() == 1;
        assert!(is_one_line && output.status.code() == Some(1), "{arguments:?}: {told}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let status = nagi(&["serve", "--port", &port]).stderr(full()).status().expect("starts");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn the_manual_and_completions_know_the_options() {
    for arguments in [&["man", "serve"][..], &["completions", "bash"], &["completions", "zsh"]] {
        let output = output(arguments);
        let text = String::from_utf8_lossy(&output.stdout).replace('\\', "");
        assert!(output.status.success() && text.contains("maxmemory-policy"), "{arguments:?}");
    }
    let printed = |arguments: &[&str]| {
        let output = output(arguments);
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stdout).replace('\\', "")
    };
    let manual = printed(&["man", "memcached"]);
    for flag in ["-l", "--listen", "--memory-limit", "--auth-file", "-h", "--help"] {
        assert!(manual.contains(flag), "{flag}: {manual}");
    }
    assert!(!printed(&["man"]).contains("see a summary"));
    let error = output(&["man", "--directory", "/nonexistent/x"]).stderr;
    let error = String::from_utf8_lossy(&error);
    assert!(error.contains("cannot write manual pages to /nonexistent/x: "), "{error}");
}

/// Returns the completions that bash offers for the last word.
fn completions(words: &[&str]) -> Vec<String> {
    // Calls the function that the script has declared, in the same way as readline does.
    let script = r#"
        eval "$("$1" completions bash)"
        shift
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _nagi nagi "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).arg(nagi_binary()).args(words);
    let output = bash.output().expect("there is bash");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{words:?}: {error}");
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn shells_complete_options_and_their_values() {
    for (words, expected) in [
        (
            &["nagi", "--maxm"][..],
            &["--maxmemory", "--maxmemory-clients", "--maxmemory-policy"][..],
        ),
        (&["nagi", "serve", "--maxmemory-p"], &["--maxmemory-policy"]),
        (&["nagi", "serve", "--io", ""], &["auto", "epoll", "uring"]),
        (&["nagi", "--daemonize", ""], &["yes", "no"]),
        (&["nagi", "memcached", "--mem"], &["--memory-limit", "--memory-file"]),
    ] {
        let mut offered = completions(words);
        let mut expected: Vec<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        offered.sort();
        expected.sort();
        assert_eq!(offered, expected, "{words:?}");
    }
    let flags = completions(&["nagi", "memcached", "-"]);
    for flag in ["-p", "-l", "-m", "-Y", "-h"] {
        assert!(flags.iter().any(|it| it == flag), "{flag}: {flags:?}");
    }
}
