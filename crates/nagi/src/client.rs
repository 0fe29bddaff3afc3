//! `nagi client`: its options and output.

use std::error::Error;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use nagi_client::cache::{Cache, Failure, Item, Reason, Settings, Stored};
use nagi_client::ring::{
    ClientConfiguration, Configuration, Library, Ring, Server, place_differently,
};
use nagi_client::wire::Dialect;
use nagi_load::login::LoginOptions;
use nagi_load::output::print;
use nagi_load::text::plain;

use crate::screen::complain;

/// The number of keys by which configurations are compared if no keys are given.
const COMPARED_KEYS: usize = 100_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reads and writes keys on one or several servers, and shows which server has a key
///
/// --like selects the key distribution of a client library, so that keys are found where that
/// library stores them. The exit status is 0 if every key was found or stored, otherwise 1.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Options {
    /// Servers: HOST, HOST:PORT, HOST:PORT:WEIGHT or /PATH, separated by commas. The default port
    /// is 11211, and 6379 with --protocol resp
    #[arg(
        long,
        short,
        global = true,
        value_delimiter = ',',
        default_value = "127.0.0.1",
        value_name = "SERVER,...",
        value_parser = well_formed
    )]
    servers: Vec<String>,
    /// How keys are distributed: libmemcached, pylibmc, pylibmc-ketama, php, php-ketama, twemproxy,
    /// dalli, pymemcache or redis-cluster; the first five also take settings, such as
    /// libmemcached,hash=md5,ketama [default: libmemcached; for ring: all of them, one row each]
    #[arg(long, global = true, value_name = "LIBRARY")]
    like: Option<Like>,
    /// Protocol: text, meta or binary for memcached, resp for Redis
    #[arg(long, global = true, default_value = "text", value_name = "NAME")]
    protocol: Dialect,
    /// How long a server may take to answer
    #[arg(long, global = true, default_value_t = 1000, value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    /// Choose the server by this key instead of the key itself
    #[arg(long, global = true, value_name = "KEY")]
    by_key: Option<String>,
    #[command(flatten)]
    login: LoginOptions,
    #[command(subcommand)]
    action: Action,
}

/// The default port of `--protocol resp`.
const REDIS_PORT: u16 = 6379;

/// Checks the form of a server. Its default port depends on another option.
fn well_formed(text: &str) -> std::result::Result<String, String> {
    text.parse::<Server>().map(|_| text.to_owned())
}

impl Options {
    fn servers(&self) -> Result<Vec<Server>> {
        let server = |text: &String| match self.protocol {
            Dialect::Resp => Server::parse(text, REDIS_PORT),
            Dialect::Text | Dialect::Meta | Dialect::Binary => text.parse(),
        };
        Ok(self.servers.iter().map(server).collect::<std::result::Result<_, _>>()?)
    }
}

/// The key distributions that `--like` selects.
#[derive(Clone, Debug)]
enum Like {
    /// The distribution of each library, without settings.
    All,
    One(Configuration),
}

impl FromStr for Like {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "all" { Ok(Like::All) } else { text.parse().map(Like::One) }
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Prints the values of keys; of several keys, each line begins with the key
    Get {
        /// The keys
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Stores a value
    Set {
        /// The key
        key: String,
        /// The value; - reads it from standard input
        value: String,
        /// Seconds until it expires, or a Unix time; 0 means never
        #[arg(long, default_value_t = 0, value_name = "S")]
        expiry: u32,
        /// memcached's client flags
        #[arg(long, default_value_t = 0, value_name = "N")]
        flags: u32,
    },
    /// Removes keys
    Delete {
        /// The keys
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Prints the statistics of every server
    Stats,
    /// Shows which server each key belongs to, without connecting: for every library, or for --like
    Ring {
        /// The keys
        keys: Vec<String>,
        /// Read keys from a file, one per line; empty lines are skipped
        #[arg(long, value_name = "FILE")]
        keys_from: Option<PathBuf>,
        /// Show the share of keys that two configurations place differently; each may name its own
        /// servers after an @, such as php@kyoto,tokyo
        #[arg(long, num_args = 2, value_names = ["A", "B"])]
        compare: Option<Vec<ClientConfiguration>>,
    },
}

/// Runs `nagi client`.
///
/// # Errors
/// A server failed or refused, or the output cannot be written.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut out = Vec::new();
    let complete = match &options.action {
        Action::Get { keys } => get(options, keys, &mut out),
        Action::Set { key, value, expiry, flags } => set(options, key, value, *expiry, *flags),
        Action::Delete { keys } => delete(options, keys),
        Action::Stats => stats(options, &mut out),
        Action::Ring { keys, keys_from, compare } => {
            ring(options, keys, keys_from.as_ref(), compare.as_deref(), &mut out)
        }
    };
    // Prints the results so far even if a server failed after them.
    print(&out)?;
    Ok(if complete? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cache(options: &Options) -> Result<Cache> {
    let mut settings = Settings {
        dialect: options.protocol,
        timeout: Duration::from_millis(options.timeout_ms),
        ..Settings::default()
    };
    options.login.apply(&mut settings)?;
    let ring = match &options.like {
        None => Configuration::from(Library::Libmemcached),
        Some(Like::One(configuration)) => configuration.clone(),
        Some(Like::All) => return Err("--like all is for ring alone".into()),
    };
    settings.prefix = ring.prefix().into();
    Ok(Cache::new(ring.ring(options.servers()?), settings))
}

/// Prints a failure, and returns `false`. Keys and messages of servers are escaped, since they may
/// contain control sequences for the terminal.
fn report(key: &str, failure: &Failure) -> bool {
    let hint = match failure.reason {
        Reason::Protocol(_) => " (does it speak another protocol? see --protocol)",
        _ => "",
    };
    complain(&plain(&format!("{key}: {failure}{hint}")));
    false
}

fn missing(key: &str) -> bool {
    complain(&plain(&format!("{key}: not found")));
    false
}

fn get(options: &Options, keys: &[String], out: &mut Vec<u8>) -> Result<bool> {
    let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let mut cache = cache(options)?;
    let values = match &options.by_key {
        Some(master) => cache.get_many_by_key(master.as_bytes(), &names),
        None => cache.get_many(&names),
    };
    let mut complete = true;
    for (key, value) in keys.iter().zip(values) {
        match value {
            Ok(Some(value)) => {
                if keys.len() > 1 {
                    out.extend_from_slice(format!("{key}\t").as_bytes());
                }
                out.extend_from_slice(&value.bytes);
                out.push(b'\n');
            }
            Ok(None) => complete = missing(key),
            Err(failure) => complete = report(key, &failure),
        }
    }
    Ok(complete)
}

fn set(options: &Options, key: &str, value: &str, expiry: u32, flags: u32) -> Result<bool> {
    let mut bytes = value.as_bytes().to_vec();
    if value == "-" {
        bytes.clear();
        io::stdin().read_to_end(&mut bytes)?;
    }
    let item = Item::new(&bytes).expiring(expiry).flagged(flags);
    let master = options.by_key.as_deref().unwrap_or(key);
    match cache(options)?.set_by_key(master.as_bytes(), key.as_bytes(), &item) {
        Ok(Stored::Yes) => Ok(true),
        Ok(_) => Err(plain(&format!("{key}: not stored")).into()),
        Err(failure) => Ok(report(key, &failure)),
    }
}

fn delete(options: &Options, keys: &[String]) -> Result<bool> {
    let mut cache = cache(options)?;
    let mut complete = true;
    for key in keys {
        let master = options.by_key.as_deref().unwrap_or(key);
        match cache.delete_by_key(master.as_bytes(), key.as_bytes()) {
            Ok(true) => {}
            Ok(false) => complete = missing(key),
            Err(failure) => complete = report(key, &failure),
        }
    }
    Ok(complete)
}

fn stats(options: &Options, out: &mut Vec<u8>) -> Result<bool> {
    let mut complete = true;
    for found in cache(options)?.stats() {
        match found {
            Ok((server, pairs)) => {
                for (name, value) in pairs {
                    writeln!(out, "{}", plain(&format!("{server} {name} {}", value.trim_end())))?;
                }
            }
            Err(failure) => complete = report("stats", &failure),
        }
    }
    Ok(complete)
}

fn ring(
    options: &Options,
    keys: &[String],
    keys_from: Option<&PathBuf>,
    compare: Option<&[ClientConfiguration]>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let (mut keys, servers) = (keys.to_vec(), options.servers()?);
    if let Some(path) = keys_from {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        keys.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    if let Some([one, other]) = compare {
        if keys.is_empty() {
            keys = (0..COMPARED_KEYS).map(|number| format!("key:{number}")).collect();
        }
        let (first, second) = (one.ring(&servers), other.ring(&servers));
        let differs = |key: &&String| place_differently(&first, &second, key.as_bytes());
        let count = keys.iter().filter(differs).count();
        let share = 100.0 * count as f64 / keys.len() as f64;
        writeln!(
            out,
            "{one} and {other} place {count} of {} keys differently, {share:.1} %",
            keys.len()
        )?;
        return Ok(true);
    }
    if keys.is_empty() {
        return Err("no keys: name some, or a file with --keys-from".into());
    }
    let rings: Vec<(Option<&str>, Ring)> = match &options.like {
        Some(Like::One(one)) => vec![(None, one.ring(servers))],
        // A Redis cluster is asked which server has which slot, which needs a connection.
        None | Some(Like::All) => Library::ALL
            .into_iter()
            .filter(|library| *library != Library::RedisCluster)
            .map(|library| {
                let ring = Configuration::from(library).ring(servers.clone());
                (Some(library.name()), ring)
            })
            .collect(),
    };
    for key in &keys {
        let decides = options.by_key.as_ref().unwrap_or(key);
        for (library, ring) in &rings {
            let server = ring.server_of(decides.as_bytes()).ok_or("there are no servers")?;
            let library = library.map(|name| format!("\t{name}")).unwrap_or_default();
            writeln!(out, "{}{library}\t{server}", plain(key))?;
        }
    }
    Ok(true)
}
