//! Starts servers on unused ports, and stops them whatever the result of the test is.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::connection::Connection;
use crate::folder::create_empty;
use crate::tools::{newest, root, tool};
use crate::wait::{PATIENCE, until, until_within};

/// How long a start may take; the server may have to load gigabytes.
const START_PATIENCE: Duration = PATIENCE.saturating_mul(10);

/// A running server, which is stopped on drop.
pub struct Server {
    process: Child,
    /// The folder for the log and for the files that the server writes.
    folder: PathBuf,
    resp: Option<SocketAddr>,
    memcached: Option<SocketAddr>,
    http: Option<SocketAddr>,
    /// Keeps other processes from using the server's port while the server runs.
    _reservation: Option<Reservation>,
}

impl Server {
    /// Starts nagi, built from the working tree.
    ///
    /// # Panics
    /// nagi does not build or does not start.
    #[must_use]
    pub fn nagi() -> Self {
        Self::nagi_with(&[])
    }

    /// Starts nagi with additional arguments of `nagi serve`.
    ///
    /// # Panics
    /// nagi does not build or does not start.
    #[must_use]
    pub fn nagi_with(arguments: &[&str]) -> Self {
        let mut command = Command::new(nagi_binary());
        command.arg("serve").args(arguments);
        Self::start_nagi(command).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Starts nagi as a replacement of memcached, with these flags of memcached.
    ///
    /// # Panics
    /// nagi does not build or does not start.
    #[must_use]
    pub fn nagi_as_memcached(flags: &[&str]) -> Self {
        let mut command = Command::new(nagi_binary());
        command.arg("memcached").args(flags);
        Self::start_memcached(command).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Starts `command`, a `nagi serve` without port options, and waits until it listens. If
    /// `NAGI_TEST_IO` is set, it selects the I/O driver, `epoll` or `uring`.
    ///
    /// # Errors
    /// nagi did not start; the error contains the reason and the log.
    pub fn start_nagi(mut command: Command) -> Result<Self, String> {
        let folder = new_folder()?;
        let ports_file = folder.join("ports");
        command.args(["--port", "any", "--memcached-port", "any", "--ports-file"]).arg(&ports_file);
        if command.get_args().all(|argument| argument != "--http-port") {
            command.args(["--http-port", "0"]);
        }
        if let Some(io) = std::env::var_os("NAGI_TEST_IO") {
            command.arg("--io").arg(io);
        }
        let mut server = Self::start(command, folder)?;
        let ports = server.wait("the ports file", || fs::read_to_string(&ports_file).ok())?;
        server.resp = address_of("resp", &ports);
        server.memcached = address_of("memcached", &ports);
        server.http = address_of("http", &ports);
        Ok(server)
    }

    /// Starts the redis-server installed by `cargo xtask setup`.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn redis() -> Self {
        Self::start_redis(tool("redis-server")).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Starts the redis-server installed by `cargo xtask setup`, and the newest Valkey if it is
    /// installed.
    ///
    /// # Panics
    /// One of them does not start.
    #[must_use]
    pub fn every_redis() -> Vec<Self> {
        let commands = [Some(tool("redis-server")), newest("valkey-server")].into_iter().flatten();
        let started = commands.map(Self::start_redis);
        started.collect::<Result<_, _>>().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Starts the memcached installed by `cargo xtask setup`, and the newest one if it is
    /// installed, each with these arguments.
    ///
    /// # Panics
    /// One of them does not start.
    #[must_use]
    pub fn every_memcached(arguments: &[&str]) -> Vec<Self> {
        let commands = [Some(tool("memcached")), newest("memcached")].into_iter().flatten();
        let started = commands.map(|mut command| {
            command.args(arguments);
            Self::start_memcached(command)
        });
        started.collect::<Result<_, _>>().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Starts `command`, a redis-server or a server with the same options, with saving disabled.
    ///
    /// # Errors
    /// The server did not start; the error contains the reason and the log.
    pub fn start_redis(command: Command) -> Result<Self, String> {
        Self::start_redis_bound(command, None)
    }

    /// Like [`Server::start_redis`], on `outer` as well as on loopback. Redis listens on one
    /// address after the other; once it accepts connections on loopback, the last, it does on both.
    ///
    /// # Errors
    /// The server did not start; the error contains the reason and the log.
    pub fn start_redis_bound(mut command: Command, outer: Option<IpAddr>) -> Result<Self, String> {
        let reserved = Reservation::new()?;
        let address = reserved.address;
        let outer = outer.map_or_else(String::new, |outer| outer.to_string());
        let bind = format!("{outer} 127.0.0.1");
        command.args(["--port", &address.port().to_string(), "--bind", bind.trim_start()]);
        command.args(["--save", "", "--appendonly", "no"]);
        let mut server = Self::start_on(reserved, command)?;
        server.resp = Some(address);
        Ok(server)
    }

    /// Starts `command`, the responder of `nagi bench-responder`.
    ///
    /// # Errors
    /// The responder did not start; the error contains the reason and the log.
    pub fn start_responder(mut command: Command) -> Result<Self, String> {
        let reserved = Reservation::new()?;
        let address = reserved.address;
        command.args(["--port", &address.port().to_string()]);
        let mut server = Self::start_on(reserved, command)?;
        server.resp = Some(address);
        Ok(server)
    }

    /// Starts `command`, a Pogocache.
    ///
    /// # Errors
    /// The server did not start; the error contains the reason and the log.
    pub fn start_pogocache(mut command: Command) -> Result<Self, String> {
        let reserved = Reservation::new()?;
        let address = reserved.address;
        command.args(["-h", "127.0.0.1", "-p", &address.port().to_string()]);
        let mut server = Self::start_on(reserved, command)?;
        server.resp = Some(address);
        Ok(server)
    }

    /// Starts `command`, redis_exporter, and returns its HTTP address.
    ///
    /// # Errors
    /// The exporter did not start; the error contains the reason and the log.
    pub fn start_exporter(mut command: Command) -> Result<(Self, SocketAddr), String> {
        let reserved = Reservation::new()?;
        let address = reserved.address;
        command.arg("-web.listen-address").arg(address.to_string());
        Ok((Self::start_on(reserved, command)?, address))
    }

    /// Starts a web server with the command that `make` returns for an address. Returns the
    /// address.
    ///
    /// # Errors
    ///
    /// The web server did not start; the error contains the reason and the log.
    pub fn start_web(
        make: impl FnOnce(SocketAddr) -> Command,
    ) -> Result<(Self, SocketAddr), String> {
        let reserved = Reservation::new()?;
        let address = reserved.address;
        Ok((Self::start_on(reserved, make(address))?, address))
    }

    /// Starts the memcached installed by `cargo xtask setup`.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn memcached() -> Self {
        Self::start_memcached(tool("memcached")).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Starts `command`, a memcached.
    ///
    /// # Errors
    /// The server did not start; the error contains the reason and the log.
    pub fn start_memcached(mut command: Command) -> Result<Self, String> {
        command.args(["-l", "127.0.0.1"]);
        Self::start_memcached_everywhere(command)
    }

    /// Like [`Server::start_memcached`], on all addresses of the machine.
    ///
    /// # Errors
    /// The server did not start; the error contains the reason and the log.
    pub fn start_memcached_everywhere(mut command: Command) -> Result<Self, String> {
        let reserved = Reservation::new()?;
        let address = reserved.address;
        command.args(["-U", "0", "-p", &address.port().to_string()]);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        let mut server = Self::start_on(reserved, command)?;
        server.memcached = Some(address);
        Ok(server)
    }

    /// Starts a server whose command names a reserved port, and waits until it listens.
    fn start_on(port: Reservation, command: Command) -> Result<Self, String> {
        let mut server = Self::start(command, new_folder()?)?;
        server.wait("a connection", || TcpStream::connect(port.address).ok())?;
        server._reservation = Some(port);
        Ok(server)
    }

    fn start(mut command: Command, folder: PathBuf) -> Result<Self, String> {
        let log = File::create(folder.join("log")).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let process = command
            .current_dir(&folder)
            .stdin(std::process::Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        Ok(Self { process, folder, resp: None, memcached: None, http: None, _reservation: None })
    }

    /// Waits for a condition of a server that is starting. Stops waiting if the server exits.
    fn wait<T>(&mut self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
        let outcome = until_within(START_PATIENCE, what, || match look() {
            Some(found) => Some(Ok(found)),
            None => self.process.try_wait().ok().flatten().map(Err),
        });
        match outcome {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(status)) => Err(format!("the server ended: {status}\n{}", self.log())),
            Err(problem) => Err(format!("{problem}\n{}", self.log())),
        }
    }

    /// Returns the address for RESP.
    ///
    /// # Panics
    ///
    /// The server has none.
    #[must_use]
    pub fn resp(&self) -> SocketAddr {
        self.resp.expect("the server speaks RESP")
    }

    /// Returns the address for memcached's protocols.
    ///
    /// # Panics
    ///
    /// The server has none.
    #[must_use]
    pub fn memcached_address(&self) -> SocketAddr {
        self.memcached.expect("the server speaks memcached's protocol")
    }

    /// Returns the address for HTTP. A test that needs it starts the server with `--http-port any`.
    ///
    /// # Panics
    ///
    /// The server has none.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.http.expect("the server speaks HTTP")
    }

    /// Opens a connection that speaks RESP.
    #[must_use]
    pub fn connect_resp(&self) -> Connection {
        Connection::open(self.resp())
    }

    /// Opens a connection that speaks memcached's protocol.
    #[must_use]
    pub fn connect_memcached(&self) -> Connection {
        Connection::open(self.memcached_address())
    }

    /// Returns the process ID of the server.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a number from /proc/PID/status (proc(5)), such as `FDSize`; sizes are in kB.
    ///
    /// # Panics
    /// The process is gone, or the kernel does not report the field.
    #[must_use]
    pub fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let text = fs::read_to_string(&path).expect("the process is there");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("{path} has no number called {name}"))
    }

    /// Returns the resident memory of the server, in bytes.
    ///
    /// # Panics
    /// The process is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.status("VmRSS") * 1024
    }

    /// Returns the output of the server so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Whether the server's process is running.
    ///
    /// # Panics
    /// The state of the process cannot be queried.
    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("asks for the process").is_none()
    }

    /// Sends a signal such as [`Signal::TERM`].
    ///
    /// # Panics
    /// The process is gone.
    pub fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(process.expect("a process number"), signal).expect("the process is there");
    }

    /// Waits until the process exits without being killed.
    ///
    /// # Panics
    /// It does not exit in time.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        until("the server's end", || self.process.try_wait().expect("asks for the process"))
            .unwrap_or_else(|problem| panic!("{problem}\n{}", self.log()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already, so errors are ignored.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Builds nagi once per test run, with the profile of the tests, because a test of an older binary
/// would be meaningless. `NAGI_BINARY` names another binary to test.
///
/// # Panics
/// nagi does not build.
#[must_use]
pub fn nagi_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(binary) = std::env::var_os("NAGI_BINARY") {
            return PathBuf::from(binary);
        }
        let test = std::env::current_exe().expect("a test knows its own path");
        let folder = test.ancestors().nth(2).expect("cargo puts tests into target/PROFILE/deps");
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(profile) => profile,
        };
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--package", "nagi", "--profile", profile])
            .current_dir(root())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "cargo cannot build nagi");
        folder.join("nagi")
    })
}

/// Allows this process, and the servers that it starts, to have `count` files and sockets open.
///
/// # Panics
/// The hard limit of the system is lower.
pub fn allow_open_files(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        let raised = Rlimit { current: Some(count), ..limit };
        setrlimit(Resource::Nofile, raised).expect("the hard limit of open files is high enough");
    }
}

/// Creates an empty folder for a server.
fn new_folder() -> Result<PathBuf, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("nagi-test-{}-{count}", std::process::id()));
    create_empty(&folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    Ok(folder)
}

/// A port for a server that cannot choose a free port itself. A socket stays bound to the port
/// without listening. The kernel does not give the port to sockets that request any free port, but
/// a server that requests this port with SO_REUSEADDR, as all of these servers do, may listen on
/// it.
struct Reservation {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl Reservation {
    fn new() -> Result<Self, String> {
        Self::bound().map_err(|error| format!("no free port: {error}"))
    }

    fn bound() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Self { address, _socket: socket })
    }
}

/// Parses the address in a line of the ports file such as `resp 127.0.0.1:40001`.
fn address_of(protocol: &str, ports: &str) -> Option<SocketAddr> {
    ports
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == protocol)
        .and_then(|(_, address)| address.parse().ok())
}
