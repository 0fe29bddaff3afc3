//! `nagi serve`: its options, which derive from the settings, and its life from start to stop.

use crate::screen;
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use nagi_server::config::{Origin, SETTINGS, Setting};
use nagi_server::{Running, start, stop_on_signals};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What leaves the choice of a port to the kernel.
const ANY: &str = "any";

/// The options of `nagi serve`.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Settings and their values, in the order in which they were given.
    settings: Vec<(&'static str, String)>,
    ports_file: Option<PathBuf>,
}

impl Args for Options {
    fn augment_args(command: Command) -> Command {
        let settings = SETTINGS.iter().map(|setting| {
            let many = setting.name == "bind";
            let help = match setting.name {
                "port" | "memcached-port" => format!("{} (or any)", setting.summary),
                _ => setting.summary.to_owned(),
            };
            let default = if setting.default.is_empty() { "none" } else { setting.default };
            Arg::new(setting.name)
                .long(setting.name)
                .value_name(if many { "ADDRESS" } else { "VALUE" })
                .value_parser(NonEmptyStringValueParser::new())
                .num_args(1..=if many { usize::MAX } else { 1 })
                .help(format!("{help} [default: {default}]"))
        });
        let ports_file = Arg::new("ports-file")
            .long("ports-file")
            .value_name("PATH")
            .value_parser(clap::value_parser!(PathBuf))
            .help("File to write once all is ready, a line for each address");
        command.args(settings).arg(ports_file)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &'static Setting| {
            let words = matches.get_many::<String>(setting.name)?;
            Some((setting.name, words.map(String::as_str).collect::<Vec<_>>().join(" ")))
        };
        Ok(Options {
            settings: SETTINGS.iter().filter_map(given).collect(),
            ports_file: matches.get_one("ports-file").cloned(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Options {
    /// As the server takes them.
    fn to_server(&self) -> Result<nagi_server::Options, String> {
        let mut options = nagi_server::Options::default();
        for (name, value) in &self.settings {
            match (*name, value.as_str()) {
                ("port", ANY) => options.any_port = true,
                ("memcached-port", ANY) => options.any_memcached_port = true,
                (name, value) => {
                    let set = options.config.set(name, value, Origin::Startup);
                    set.map_err(|problem| format!("--{name} {value}: {problem}"))?;
                }
            }
        }
        Ok(options)
    }
}

/// Serves until a signal or SHUTDOWN.
pub(crate) fn run(options: Options) -> Result<(), Box<dyn Error>> {
    nagi_server::log_to_stderr();
    nagi_server::raise_descriptor_limit();
    let server = start(options.to_server()?)?;
    stop_on_signals(server.stopper())?;
    if let Some(path) = &options.ports_file {
        write_ports(path, &server)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    screen::show(&server);
    server.join();
    Ok(())
}

/// Writes a line for each address, all at once: whoever finds the file finds it complete.
fn write_ports(path: &Path, server: &Running) -> io::Result<()> {
    let mut lines = String::new();
    for endpoint in server.endpoints() {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{} {}", endpoint.protocol.name(), endpoint.address);
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    fs::write(&unfinished, lines)?;
    fs::rename(&unfinished, path)
}
