//! `nagi serve`: its configuration, start and stop.

use crate::arguments::{self, Arguments, Print};
use crate::{allocator, memcached, screen};
use clap::{Arg, ArgAction, Command};
use nagi_load::output;
use nagi_server::config::{Config, Kind, settings};
use nagi_server::config::{
    Directive, Loaded, Origin, Setting, load, read_file, read_options, read_text,
};
use nagi_server::{REDIS_VERSION, memcached_version};
use nagi_server::{Running, StopSignals, daemon, log, start, supervisor};
use std::error::Error;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

/// The server whose place the program takes, which decides where it logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Started as nagi: shows the start screen, and logs to the standard error stream.
    Nagi,
    /// Started as redis-server: logs to the standard output stream, as redis-server does.
    RedisServer,
    /// Started as memcached: logs to the standard error stream.
    Memcached,
}

impl Role {
    /// The output of `--version`. Programs parse its beginning for the version of the server whose
    /// place is taken.
    fn version(self) -> String {
        const OWN: &str = concat!("nagi ", env!("CARGO_PKG_VERSION"));
        match self {
            Role::Nagi => format!("{OWN}\n"),
            Role::RedisServer => format!(
                "Redis server v={REDIS_VERSION} sha=00000000:0 malloc=mimalloc bits=64 build=0 \
                 ({OWN})\n"
            ),
            Role::Memcached => format!("memcached {} ({OWN})\n", memcached_version()),
        }
    }
}

/// The command with all its options, for its help, its manual page and shell completions.
pub(crate) fn command() -> Command {
    let option = |setting: &'static Setting| {
        let default = if setting.default.is_empty() { "none" } else { setting.default };
        let option = Arg::new(setting.name)
            .long(setting.name)
            .value_name("VALUE")
            .num_args(1..=if setting.kind.takes_words() { usize::MAX } else { 1 })
            .hide(!setting.has_effect())
            .help(format!("{}{} [default: {default}]", setting.summary, choice(&setting.kind)));
        match words(&setting.kind) {
            [] => option,
            // For shell completions: the help already names the values.
            words => option.value_parser(words.to_vec()).hide_possible_values(true),
        }
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("serve")
        .about("Starts the server; nagi without a command does the same")
        .after_help(
            "Redis options without effect are accepted too; docs/configuration.md lists them.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .help("A redis.conf to read first; - for standard input"),
        )
        .args(settings().filter(|it| it.has_effect()).map(option))
        .arg(
            Arg::new("ports-file")
                .long("ports-file")
                .value_name("PATH")
                .help("File to write the addresses to, one per line, once the server is ready"),
        )
        .arg(flag("ignore-unsupported", "Ignore unsupported options, such as appendonly yes"))
}

/// The possible values of an option, if they are a few words.
fn words(kind: &Kind) -> &[&'static str] {
    match kind {
        Kind::Choice(words) => words,
        Kind::Switch => &["yes", "no"],
        _ => &[],
    }
}

/// The possible values of an option, as its help shows them.
fn choice(kind: &Kind) -> String {
    match (kind, words(kind)) {
        (_, []) => String::new(),
        (Kind::Switch, words) => format!(" [{}]", words.join(" or ")),
        (_, words) => format!(" [one of: {}]", words.join(", ")),
    }
}

/// Serves with a command line of redis-server, until a signal or SHUTDOWN.
pub(crate) fn run(words: &[String], role: Role) -> Result<ExitCode, Box<dyn Error>> {
    let arguments = arguments::parse(words)?;
    match arguments.print {
        Some(Print::Help) => {
            output::unless_unread(command().bin_name("nagi serve").print_help())?;
        }
        Some(Print::Version) => output::print(role.version().as_bytes())?,
        None => return start_as(&arguments, role, &[]),
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves with a command line of memcached, until a signal or SHUTDOWN.
pub(crate) fn run_memcached(words: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let flags = memcached::parse(words)?;
    match flags.arguments.print {
        Some(Print::Help) => output::print(memcached::usage().as_bytes())?,
        Some(Print::Version) => output::print(Role::Memcached.version().as_bytes())?,
        None => {
            if let Some(user) = &flags.user {
                daemon::become_user(user)?;
            }
            return start_as(&flags.arguments, Role::Memcached, &flags.without_effect);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal or SHUTDOWN.
fn start_as(
    arguments: &Arguments,
    role: Role,
    without_effect: &[String],
) -> Result<ExitCode, Box<dyn Error>> {
    let started_in = std::env::current_dir()?;
    let (config, loaded, input) = configure(arguments, role)?;
    let supervisor = supervisor::find(config.supervised.get());
    let in_background = config.daemonize.is_on() && supervisor.is_none();
    if in_background && !daemon::is_background() {
        return Ok(daemon::start_in_background(&started_in, &input)?);
    }
    if in_background {
        // This fails only if the process already leads a process group.
        let _ = daemon::leave_terminal();
    }
    let target = match (&*config.logfile.get(), role) {
        ("", Role::RedisServer) => log::Target::Stdout,
        ("", _) => log::Target::Stderr,
        (path, _) => log::Target::File(path.into()),
    };
    log::begin(target, config.loglevel.get())
        .map_err(|error| format!("cannot write the log {}: {error}", config.logfile.get()))?;
    log_settings(&loaded, without_effect);
    nagi_server::make_file_size_limit_an_error()?;
    nagi_server::raise_descriptor_limit();
    show_title(&config);
    let pidfile = PathBuf::from(&*config.pidfile.get());
    let signals = StopSignals::catch()?;
    let server =
        start(nagi_server::ServerOptions { config, ..nagi_server::ServerOptions::default() })?;
    signals.stop(server.stopper())?;
    if let Err(error) = allocator::return_memory_in_background() {
        tracing::warn!(%error, "workers will return freed memory to the kernel themselves");
    }
    write_process_number(&pidfile);
    match server.load() {
        Ok(true) => announce(&server, arguments, role, supervisor, in_background)?,
        Ok(false) => {}
        Err(error) => {
            server.stop();
            // Nothing is saved: the store has only a part of the file's data.
            let _ = server.join();
            remove_files([&pidfile]);
            return Err(error.into());
        }
    }
    let ended = server.join();
    remove_files([&pidfile].into_iter().chain(&arguments.ports_file));
    ended.map_err(|error| format!("the data was not saved: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes ps show only the name of the program, without its arguments; the server adds more.
fn show_title(config: &Config) {
    let program = std::env::args().next().unwrap_or_default();
    if config.set_proc_title.is_on()
        && let Err(error) = nagi_server::title_area::show(&program)
    {
        tracing::debug!(%error, "cannot change the process title");
    }
}

/// Announces that the server is ready.
fn announce(
    server: &Running,
    arguments: &Arguments,
    role: Role,
    supervisor: Option<supervisor::Supervisor>,
    in_background: bool,
) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &arguments.ports_file {
        write_ports(path, server)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    if role == Role::Nagi && !in_background {
        screen::show(server);
    }
    tracing::info!("Ready to accept connections");
    if let Some(Err(error)) = supervisor.map(supervisor::Supervisor::report_ready) {
        tracing::warn!(%error, "cannot notify the supervisor that the server is ready");
    }
    if in_background {
        daemon::report_ready()?;
    }
    Ok(())
}

/// Returns the settings to start with, the report about them, and the text read from the standard
/// input.
fn configure(
    arguments: &Arguments,
    role: Role,
) -> Result<(Config, Loaded, Vec<u8>), Box<dyn Error>> {
    let config = Config::default();
    if role == Role::RedisServer {
        // As redis-server does: it listens on all addresses, where clients of other machines are
        // refused until there is a password, and on no second port.
        config.set_default("bind", "* -::*")?;
        config.set_default("memcached-port", "0")?;
    }
    if role == Role::Memcached {
        config.set_option_names(memcached::option);
    }
    if role != Role::Nagi {
        // Neither redis-server nor memcached serves pages.
        config.set_default("http-port", "0")?;
    }
    let mut directives: Vec<Directive> = Vec::new();
    let mut reads_stdin = arguments.stdin;
    match &arguments.file {
        Some(path) if path.as_os_str() == "-" => reads_stdin = true,
        Some(path) => {
            directives = read_file(path)?;
            config.set_file(std::path::absolute(path)?);
        }
        None => {}
    }
    let mut input = Vec::new();
    if reads_stdin {
        io::stdin().read_to_end(&mut input)?;
        directives.extend(read_text(&input, Path::new("-"))?);
    }
    directives.extend(read_options(&arguments.options)?);
    if role == Role::RedisServer || arguments.file.is_some() || reads_stdin {
        // With a configuration file, or started as redis-server, Redis' save points are the
        // default.
        config.set_default("save", "3600 1 300 100 60 10000")?;
        if directives.iter().any(|directive| directive.name.eq_ignore_ascii_case("save")) {
            config.set("save", "", Origin::Startup)?;
        }
    }
    let loaded = load(&config, &directives, arguments.ignore_unsupported)?;
    let folder = config.dir.get();
    std::env::set_current_dir(&*folder).map_err(|error| {
        let option = if role == Role::Memcached { memcached::option("dir") } else { None };
        format!("{} {folder}: {error}", option.as_deref().unwrap_or("dir"))
    })?;
    config.set("dir", &std::env::current_dir()?.to_string_lossy(), Origin::Startup)?;
    Ok((config, loaded, input))
}

/// Logs the version and the settings that have no effect or were ignored.
fn log_settings(loaded: &Loaded, flags: &[String]) {
    tracing::info!("nagi {} starts, PID: {}", env!("CARGO_PKG_VERSION"), std::process::id());
    let settings = loaded.without_effect.iter().copied();
    let all: Vec<&str> = settings.chain(flags.iter().map(String::as_str)).collect();
    if !all.is_empty() {
        tracing::info!("accepted without effect (see docs/configuration.md): {}", all.join(", "));
    }
    for option in &loaded.left_out {
        tracing::warn!("ignored, not supported: {option}");
    }
}

/// Writes the process ID to the pidfile, which scripts use to stop the server.
fn write_process_number(path: &Path) {
    if path.as_os_str().is_empty() {
        return;
    }
    if let Err(error) = fs::write(path, format!("{}\n", std::process::id())) {
        tracing::warn!(%error, "cannot write the pidfile {}", path.display());
    }
}

/// Removes the files that exist only while the process runs.
fn remove_files<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) {
    for path in paths {
        // The file may have been removed with its folder, or was not requested.
        let _ = fs::remove_file(path);
    }
}

/// Writes a line for each address, all at once, so that the file is never seen in part.
fn write_ports(path: &Path, server: &Running) -> io::Result<()> {
    let mut lines = String::new();
    for endpoint in server.endpoints() {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{} {}", endpoint.protocol.name(), endpoint.address);
    }
    for address in server.http_addresses() {
        let _ = writeln!(lines, "http {address}");
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    fs::write(&unfinished, lines)?;
    fs::rename(&unfinished, path)
}
