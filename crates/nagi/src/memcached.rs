//! memcached's command line, whose flags become settings: a table with a row for each flag.

use crate::arguments::{Arguments, Print};
use clap::{Arg, ArgAction, Command};
use nagi_server::config::{Directive, Source, nearest};

/// A flag's row.
struct Flag {
    letter: char,
    name: &'static str,
    /// The name of the flag's value in the help, if the flag takes one.
    value: Option<&'static str>,
    means: Means,
    summary: &'static str,
}

/// What a flag does.
enum Means {
    /// Sets a setting to the flag's value, which the function converts.
    Setting(&'static str, fn(&str) -> String),
    /// Sets settings to fixed values.
    Settings(&'static [(&'static str, &'static str)]),
    /// Handled by a function.
    Special(fn(&mut Flags, &str) -> Result<(), String>),
    /// Has no effect, for the reason in the summary.
    Nothing,
    /// Not supported and refused, for this reason.
    Refused(&'static str),
}

use Means::{Nothing, Refused, Setting, Settings, Special};

/// memcached's defaults, where they differ from nagi's.
const DEFAULTS: [(&str, &str); 10] = [
    ("port", "0"),
    ("memcached-port", "11211"),
    ("bind", "* -::*"),
    // Nothing is loaded at the start, unless a flag names a file.
    ("dbfilename", ""),
    ("maxmemory", "64mb"),
    ("maxmemory-policy", "allkeys-lru"),
    ("maxclients", "1024"),
    ("tcp-backlog", "1024"),
    ("unixsocketperm", "700"),
    ("loglevel", "warning"),
];

const fn flag(
    letter: char,
    name: &'static str,
    value: Option<&'static str>,
    means: Means,
    summary: &'static str,
) -> Flag {
    Flag { letter, name, value, means, summary }
}

/// All flags, in the order in which memcached 1.6.45 lists them.
#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    flag('p', "port", Some("num"), Setting("memcached-port", same), "TCP port to listen on"),
    flag('U', "udp-port", Some("num"), Special(udp), "UDP port; only 0 (off) is supported"),
    flag('s', "unix-socket", Some("file"), Special(unix_socket),
        "path of a socket to listen on instead of ports"),
    flag('a', "unix-mask", Some("mask"), Setting("unixsocketperm", same),
        "permissions of that socket, in octal"),
    flag('A', "enable-shutdown", None, Settings(&[("memcached-shutdown", "yes")]),
        "let clients stop the server with shutdown"),
    flag('l', "listen", Some("addr"), Special(listen),
        "addresses to listen on; without it all, but other machines are served only with -S or -Y"),
    flag('d', "daemon", None, Settings(&[("daemonize", "yes")]), "run in the background"),
    flag('r', "enable-coredumps", None, Nothing, "no effect: see ulimit -c"),
    flag('u', "user", Some("user"), Special(user), "user to run as when started as root"),
    flag('m', "memory-limit", Some("num"), Special(memory), "memory for data, in megabytes"),
    flag('M', "disable-evictions", None, Settings(&[("maxmemory-policy", "noeviction")]),
        "return an error when memory is full instead of evicting"),
    flag('c', "conn-limit", Some("num"), Setting("maxclients", same), "most connections"),
    flag('k', "lock-memory", None, Refused("memory cannot be locked"), "not supported"),
    flag('v', "verbose", None, Special(verbose), "log more (-vv, -vvv)"),
    flag('h', "help", None, Special(help), "print the flags"),
    flag('i', "license", None, Special(help), "print the flags (nagi's license is Apache-2.0)"),
    flag('V', "version", None, Special(version), "the version"),
    flag('P', "pidfile", Some("file"), Setting("pidfile", same), "file for the process ID"),
    flag('f', "slab-growth-factor", Some("num"), Nothing, "no effect: size classes are fixed"),
    flag('n', "slab-min-size", Some("bytes"), Nothing, "no effect: size classes are fixed"),
    flag('L', "enable-largepages", None, Nothing, "no effect"),
    flag('D', "prefix-delimiter", Some("char"), Nothing,
        "no effect: there are no statistics by prefix"),
    flag('t', "threads", Some("num"), Special(threads), "threads (default: one per core)"),
    flag('R', "max-reqs-per-event", Some("num"), Nothing,
        "no effect: the requests per turn are fixed"),
    flag('C', "disable-cas", None, Settings(&[("memcached-cas", "no")]),
        "disable version numbers for cas"),
    flag('b', "listen-backlog", Some("num"), Setting("tcp-backlog", same),
        "most connections waiting to be accepted"),
    flag('B', "protocol", Some("name"), Special(protocol), "ascii, binary or auto (default)"),
    flag('I', "max-item-size", Some("num"), Special(item_size),
        "longest value, such as 512k or 2m; at most half of -m"),
    flag('S', "enable-sasl", None, Special(sasl),
        "require logins, by the file of users in MEMCACHED_SASL_PWDB or -Y"),
    flag('F', "disable-flush-all", None, Settings(&[("memcached-flush-all", "no")]),
        "refuse flush_all"),
    flag('X', "disable-dumping", None, Settings(&[("memcached-dump", "no")]),
        "refuse stats cachedump, stats detail, lru_crawler metadump and mgdump"),
    flag('W', "disable-watch", None, Settings(&[("memcached-watch", "no")]), "refuse watch"),
    flag('Y', "auth-file", Some("file"), Setting("memcached-auth-file", same),
        "require logins, by this file with one name:password per line"),
    flag('e', "memory-file", Some("file"), Special(memory_file),
        "load this file at the start and save the data to it at the end"),
    flag('Z', "enable-ssl", None, Refused("TLS is not supported"),
        "not supported"),
    flag('o', "extended", Some("list"), Special(extended),
        "comma-separated options: idle_timeout=SECONDS; tuning options have no effect"),
    flag('N', "napi-ids", Some("num"), Nothing, "no effect"),
];

/// Settings that messages name, and the [`Special`] flags that change them.
const SPECIAL: [(&str, char); 10] = [
    ("bind", 'l'),
    ("dbfilename", 'e'),
    ("dir", 'e'),
    ("loglevel", 'v'),
    ("maxmemory", 'm'),
    ("memcached-bind", 'l'),
    ("memcached-item-limit", 'I'),
    ("memcached-protocol", 'B'),
    ("memcached-unixsocket", 's'),
    ("workers", 't'),
];

/// Extended options, with or without a value, that tune what nagi does differently. They have no
/// effect.
const SWITCHES: [&str; 19] = [
    "drop_privileges",
    "inline_ascii_resp",
    "lru_crawler",
    "lru_maintainer",
    "maxconns_fast",
    "modern",
    "no_drop_privileges",
    "no_hashexpand",
    "no_inline_ascii_resp",
    "no_lru_crawler",
    "no_lru_maintainer",
    "no_maxconns_fast",
    "no_modern",
    "no_slab_automove",
    "no_slab_reassign",
    "resp_obj_mem_limit",
    "slab_automove",
    "slab_reassign",
    "track_sizes",
];

/// Extended options that need a value. All but `idle_timeout` tune what nagi does differently, and
/// have no effect.
const VALUED: [&str; 20] = [
    "hash_algorithm",
    "hashpower",
    "hot_lru_pct",
    "hot_max_factor",
    "idle_timeout",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "read_buf_mem_limit",
    "slab_automove_freeratio",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_chunk_max",
    "slab_sizes",
    "sock_cookie_id",
    "tail_repair_time",
    "temporary_ttl",
    "warm_lru_pct",
    "warm_max_factor",
    "watcher_logbuf_size",
    "worker_logbuf_size",
];

/// The parsed command line of memcached.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// The equivalent arguments of `nagi serve`.
    pub(crate) arguments: Arguments,
    /// The user to run as, if the server is started by root.
    pub(crate) user: Option<String>,
    /// Flags that have no effect.
    pub(crate) without_effect: Vec<String>,
    addresses: Vec<String>,
    has_own_ports: bool,
    verbosity: usize,
    /// Whether clients have to log in.
    sasl: bool,
    /// The longest value that `-I` allows, in bytes.
    item_bytes: Option<u64>,
    /// The value of `-m`, in megabytes.
    megabytes: Option<u64>,
}

/// Parses the words after the program's name.
pub(crate) fn parse(words: &[String]) -> Result<Flags, String> {
    let mut flags = Flags::default();
    for (name, value) in DEFAULTS {
        flags.set("memcached's default", name, value);
    }
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let row = FLAGS.iter().find(|row| row.name == name).ok_or_else(|| unknown(name))?;
            let value = value.or_else(|| row.value.and_then(|_| words.next().cloned()));
            flags.take(row, value)?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|it| !it.is_empty()) {
            let mut rest = letters.chars();
            while let Some(letter) = rest.next() {
                let row = FLAGS.iter().find(|row| row.letter == letter);
                let row = row.ok_or_else(|| format!("memcached has no flag -{letter}"))?;
                let mut value = None;
                if row.value.is_some() {
                    let attached: String = rest.by_ref().collect();
                    value = Some(attached).filter(|it| !it.is_empty());
                    value = value.or_else(|| words.next().cloned());
                }
                flags.take(row, value)?;
            }
        } else {
            return Err(format!("{word} is not a flag of memcached"));
        }
    }
    if flags.sasl && !flags.arguments.options.iter().any(|it| it.name == "memcached-auth-file") {
        return Err("-S needs a file of users: name one with -Y or MEMCACHED_SASL_PWDB".to_owned());
    }
    flags.check_item_bytes()?;
    Ok(flags)
}

fn unknown(name: &str) -> String {
    match nearest(name, FLAGS.iter().map(|row| row.name)) {
        Some(meant) => format!("memcached has no flag --{name}; did you mean --{meant}?"),
        None => format!("memcached has no flag --{name}"),
    }
}

impl Flags {
    fn take(&mut self, row: &Flag, value: Option<String>) -> Result<(), String> {
        let spelled = format!("-{}", row.letter);
        if row.value.is_some() != value.is_some() {
            let needs = if row.value.is_some() { "needs a value" } else { "takes no value" };
            return Err(format!("{spelled} (--{}) {needs}", row.name));
        }
        let value = value.unwrap_or_default();
        match &row.means {
            Setting(name, write) => self.set(&format!("{spelled} {value}"), name, &write(&value)),
            Settings(settings) => {
                for (name, value) in *settings {
                    self.set(&spelled, name, value);
                }
            }
            Special(take) => {
                take(self, &value).map_err(|why| format!("{spelled} {value}: {why}"))?
            }
            Nothing => self.without_effect.push(spelled),
            Refused(why) => return Err(format!("{spelled} (--{}): {why}", row.name)),
        }
        Ok(())
    }

    /// Refuses an item limit above half of the memory.
    fn check_item_bytes(&self) -> Result<(), String> {
        /// The memory without `-m`.
        const MEGABYTES: u64 = 64;
        let bytes = self.megabytes.unwrap_or(MEGABYTES).saturating_mul(1 << 20);
        // 0 means no limit.
        match self.item_bytes {
            Some(item) if bytes > 0 && item > bytes / 2 => {
                Err("-I: an item may take at most half of the memory (-m)".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn set(&mut self, spelled: &str, name: &str, value: &str) {
        let source = Source::CommandLine(spelled.to_owned());
        let words = vec![value.into()];
        self.arguments.options.push(Directive { name: name.to_owned(), words, source });
    }
}

/// The flag that changes a setting, if there is one.
pub(crate) fn option(setting: &str) -> Option<String> {
    let changes_it = |row: &&Flag| match &row.means {
        Setting(name, _) => *name == setting,
        Settings(settings) => settings.iter().any(|(name, _)| *name == setting),
        Special(_) | Nothing | Refused(_) => SPECIAL.contains(&(setting, row.letter)),
    };
    FLAGS.iter().find(changes_it).map(|row| format!("-{}", row.letter))
}

fn same(value: &str) -> String {
    value.to_owned()
}

fn memory(flags: &mut Flags, megabytes: &str) -> Result<(), String> {
    let number = megabytes.parse().map_err(|_| "not a number of megabytes")?;
    if number == 0 {
        return Err("memory for data must be at least 1 megabyte".to_owned());
    }
    flags.megabytes = Some(number);
    flags.set(&format!("-m {megabytes}"), "maxmemory", &format!("{megabytes}mb"));
    Ok(())
}

/// Handles `-I`. memcached's units are powers of 2, without a `b`.
fn item_size(flags: &mut Flags, value: &str) -> Result<(), String> {
    let digits = value.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit_bytes = match value.get(digits.len()..).unwrap_or_default() {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err("the unit must be k, m or g".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "not a number of bytes")?;
    let bytes = number.saturating_mul(unit_bytes);
    if !(1024..=1 << 30).contains(&bytes) {
        return Err("must be between 1k and 1g".to_owned());
    }
    flags.item_bytes = Some(bytes);
    flags.set(&format!("-I {value}"), "memcached-item-limit", &bytes.to_string());
    Ok(())
}

fn threads(flags: &mut Flags, count: &str) -> Result<(), String> {
    if count == "0" {
        return Err("must be at least 1".to_owned());
    }
    flags.set(&format!("-t {count}"), "workers", count);
    Ok(())
}

/// Handles `-e`. The data is saved to the file at the end, and loaded from it at the next start.
fn memory_file(flags: &mut Flags, path: &str) -> Result<(), String> {
    /// The save at the end requires a save point. This one is due only after a year.
    const POINTS: &str = "31536000 1";
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("not a file name".to_owned());
    };
    let spelled = format!("-e {}", path.display());
    flags.set(&spelled, "dir", &folder.to_string_lossy());
    flags.set(&spelled, "dbfilename", &name.to_string_lossy());
    flags.set(&spelled, "save", POINTS);
    Ok(())
}

fn udp(_: &mut Flags, port: &str) -> Result<(), String> {
    if port == "0" { Ok(()) } else { Err("UDP is not supported".to_owned()) }
}

/// Handles `-S`. The file of users is read like that of `-Y`.
fn sasl(flags: &mut Flags, _: &str) -> Result<(), String> {
    flags.sasl = true;
    if let Some(path) = std::env::var_os("MEMCACHED_SASL_PWDB") {
        flags.set("MEMCACHED_SASL_PWDB", "memcached-auth-file", &path.to_string_lossy());
    }
    Ok(())
}

fn unix_socket(flags: &mut Flags, path: &str) -> Result<(), String> {
    flags.set("-s", "memcached-port", "0");
    flags.set(&format!("-s {path}"), "memcached-unixsocket", path);
    Ok(())
}

fn listen(flags: &mut Flags, addresses: &str) -> Result<(), String> {
    for address in addresses.split(',') {
        if address.contains('[') && !address.starts_with('[') {
            return Err("protocols and tags of listeners are not supported".to_owned());
        }
        let bare = address.trim_start_matches('[');
        let (host, port) = match bare.split_once(']') {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None if bare.matches(':').count() == 1 => {
                bare.split_once(':').map_or((bare, None), |(host, port)| (host, Some(port)))
            }
            None => (bare, None),
        };
        flags.has_own_ports |= port.is_some();
        flags.addresses.push(match port {
            Some(port) if host.contains(':') => format!("[{host}]:{port}"),
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        });
    }
    let all = flags.addresses.join(" ");
    let setting = if flags.has_own_ports { "memcached-bind" } else { "bind" };
    flags.set(&format!("-l {addresses}"), setting, &all);
    flags.set(&format!("-l {addresses}"), "protected-mode", "no");
    Ok(())
}

fn user(flags: &mut Flags, name: &str) -> Result<(), String> {
    flags.user = Some(name.to_owned());
    Ok(())
}

fn verbose(flags: &mut Flags, _: &str) -> Result<(), String> {
    flags.verbosity += 1;
    let level = match flags.verbosity {
        1 => "notice",
        2 => "verbose",
        _ => "debug",
    };
    flags.set("-v", "loglevel", level);
    Ok(())
}

fn help(flags: &mut Flags, _: &str) -> Result<(), String> {
    flags.arguments.print = Some(Print::Help);
    Ok(())
}

fn version(flags: &mut Flags, _: &str) -> Result<(), String> {
    flags.arguments.print = Some(Print::Version);
    Ok(())
}

fn protocol(flags: &mut Flags, name: &str) -> Result<(), String> {
    if !["ascii", "binary", "auto"].contains(&name) {
        return Err("must be ascii, binary or auto".to_owned());
    }
    flags.set(&format!("-B {name}"), "memcached-protocol", name);
    Ok(())
}

fn extended(flags: &mut Flags, list: &str) -> Result<(), String> {
    for option in list.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if VALUED.contains(&name) && value.is_empty() {
            return Err(format!("{name} needs a value"));
        }
        if name == "idle_timeout" {
            flags.set(&format!("-o {option}"), "timeout", value);
        } else if VALUED.contains(&name) || SWITCHES.contains(&name) {
            flags.without_effect.push(format!("-o {name}"));
        } else if ["ext_", "ssl_", "proxy_"].iter().any(|prefix| name.starts_with(prefix)) {
            return Err(format!("{name}: external storage, TLS and proxying are not supported"));
        } else {
            let meant = nearest(name, SWITCHES.into_iter().chain(VALUED));
            let hint = meant.map(|it| format!("; did you mean {it}?")).unwrap_or_default();
            return Err(format!("unknown option {name}{hint}"));
        }
    }
    Ok(())
}

/// The command with all its flags, for its manual page and shell completions; [`parse`] parses the
/// flags.
pub(crate) fn command() -> Command {
    let flag = |row: &Flag| {
        let flag = Arg::new(row.name).short(row.letter).long(row.name).help(row.summary);
        match row.value {
            Some(value) => flag.value_name(value),
            None => flag.action(ArgAction::SetTrue),
        }
    };
    Command::new("memcached")
        .about("Starts the server with memcached's flags")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(FLAGS.iter().map(flag))
}

/// The output of `-h`.
pub(crate) fn usage() -> String {
    let mut text = format!("nagi {}, started as memcached\n\n", env!("CARGO_PKG_VERSION"));
    for row in FLAGS {
        let value = row.value.map(|value| format!("=<{value}>")).unwrap_or_default();
        let flag = format!("-{}, --{}{value}", row.letter, row.name);
        text.push_str(&format!("{flag:<29} {}\n", row.summary));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings that a command line changes, the last value of each.
    fn settings(line: &str) -> Result<Vec<String>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let flags = parse(&words)?;
        let own = flags.arguments.options.iter().skip(DEFAULTS.len());
        let text = |words: &[Vec<u8>]| String::from_utf8(words.join(&b' ')).unwrap();
        Ok(own.map(|it| format!("{} {}", it.name, text(&it.words))).collect())
    }

    #[test]
    fn flags_become_settings() {
        for (line, expected) in [
            ("-p 11311 -U 0 -m 128", vec!["memcached-port 11311", "maxmemory 128mb"]),
            ("-p11311 -vv", vec!["memcached-port 11311", "loglevel notice", "loglevel verbose"]),
            ("--port=1 --conn-limit 5", vec!["memcached-port 1", "maxclients 5"]),
            ("-dM", vec!["daemonize yes", "maxmemory-policy noeviction"]),
            (
                "-I 2m -I 512k -I 4096",
                vec![
                    "memcached-item-limit 2097152",
                    "memcached-item-limit 524288",
                    "memcached-item-limit 4096",
                ],
            ),
            (
                "-s /tmp/x -a 770",
                vec!["memcached-port 0", "memcached-unixsocket /tmp/x", "unixsocketperm 770"],
            ),
            ("-l 127.0.0.1,::1", vec!["bind 127.0.0.1 ::1", "protected-mode no"]),
            ("-l 127.0.0.1:99", vec!["memcached-bind 127.0.0.1:99", "protected-mode no"]),
            (
                "-l 127.0.0.1,127.0.0.2:98 -l [::1]:97",
                vec![
                    "memcached-bind 127.0.0.1 127.0.0.2:98",
                    "protected-mode no",
                    "memcached-bind 127.0.0.1 127.0.0.2:98 [::1]:97",
                    "protected-mode no",
                ],
            ),
            ("-Y /etc/users", vec!["memcached-auth-file /etc/users"]),
            ("-S -Y /etc/users", vec!["memcached-auth-file /etc/users"]),
            ("-o modern,idle_timeout=7 -f 1.2", vec!["timeout 7"]),
            (
                "-A -C -F -B ascii",
                vec![
                    "memcached-shutdown yes",
                    "memcached-cas no",
                    "memcached-flush-all no",
                    "memcached-protocol ascii",
                ],
            ),
            ("-XW", vec!["memcached-dump no", "memcached-watch no"]),
            ("-m 1", vec!["maxmemory 1mb"]),
            ("-m 2 -I 1m", vec!["maxmemory 2mb", "memcached-item-limit 1048576"]),
            ("-e /var/x/y", vec!["dir /var/x", "dbfilename y", "save 31536000 1"]),
            ("-t 3 -b 9 -P /tmp/pid", vec!["workers 3", "tcp-backlog 9", "pidfile /tmp/pid"]),
        ] {
            assert_eq!(
                settings(line),
                Ok(expected.into_iter().map(str::to_owned).collect()),
                "{line}"
            );
        }
    }

    #[test]
    fn unsupported_flags_are_refused_with_a_reason() {
        for (line, reason) in [
            ("-U 11211", "-U 11211: UDP is not supported"),
            ("-S", "-S needs a file of users"),
            ("-Z", "-Z (--enable-ssl): TLS is not supported"),
            ("-B none", "-B none: must be ascii, binary or auto"),
            ("-t 0", "-t 0: must be at least 1"),
            ("-I 33m", "-I: an item may take at most half of the memory (-m)"),
            ("-I 2m -m 3", "-I: an item may take at most half of the memory (-m)"),
            ("-I 1023", "-I 1023: must be between 1k and 1g"),
            ("-I 2g -m 9999", "-I 2g: must be between 1k and 1g"),
            ("-I 2x", "-I 2x: the unit must be k, m or g"),
            ("-m x", "-m x: not a number of megabytes"),
            ("-m 0", "-m 0: memory for data must be at least 1 megabyte"),
            ("-o ext_path=/x", "-o ext_path=/x: ext_path: external storage, TLS and proxying"),
            ("-o idle_timeut=1", "-o idle_timeut=1: unknown option idle_timeut; did you mean"),
            ("-p", "-p (--port) needs a value"),
            ("-q", "memcached has no flag -q"),
            ("--prot 1", "memcached has no flag --prot; did you mean --port?"),
            ("x", "x is not a flag of memcached"),
        ] {
            let error = settings(line).unwrap_err();
            assert!(error.starts_with(reason), "{line}: {error}");
        }
    }

    #[test]
    fn settings_are_called_by_the_flags_that_change_them() {
        for (setting, flag) in [
            ("memcached-port", Some("-p")),
            ("memcached-auth-file", Some("-Y")),
            ("maxmemory-policy", Some("-M")),
            ("requirepass", None),
            ("port", None),
        ] {
            assert_eq!(option(setting).as_deref(), flag, "{setting}");
        }
        for (setting, letter) in SPECIAL {
            assert_eq!(option(setting), Some(format!("-{letter}")), "{setting}");
        }
    }

    #[test]
    fn options_without_effect_are_accepted() {
        for option in SWITCHES {
            assert_eq!(settings(&format!("-o {option}=1,{option}")), Ok(Vec::new()), "{option}");
        }
        for option in VALUED.into_iter().filter(|option| *option != "idle_timeout") {
            assert_eq!(settings(&format!("-o modern,{option}=1")), Ok(Vec::new()), "{option}");
        }
    }

    #[test]
    fn options_that_need_a_value_are_refused_without_one() {
        for option in VALUED {
            for list in [option.to_owned(), format!("{option}="), format!("modern,{option},modern")]
            {
                let error = format!("-o {list}: {option} needs a value");
                assert_eq!(settings(&format!("-o {list}")), Err(error));
            }
        }
    }

    #[test]
    fn every_flag_of_memcached_has_a_row() {
        for letter in "pUsaAldrumMckvhiVPfnLDtRCbBISFXWYeZoN".chars() {
            assert_eq!(FLAGS.iter().filter(|row| row.letter == letter).count(), 1, "{letter}");
        }
        assert_eq!(usage().lines().count(), FLAGS.len() + 2);
    }

    /// What a flag does, in a cell of a table.
    fn effect(row: &Flag) -> String {
        let settings: Vec<String> = match &row.means {
            Setting(name, _) => vec![format!("`{name}`")],
            Settings(settings) => {
                settings.iter().map(|(name, value)| format!("`{name} {value}`")).collect()
            }
            Special(_) | Nothing | Refused(_) => SPECIAL
                .iter()
                .filter(|(_, letter)| *letter == row.letter)
                .map(|(name, _)| format!("`{name}`"))
                .collect(),
        };
        settings.join(", ")
    }

    /// A setting as in a file.
    fn shown((name, value): (&str, &str)) -> String {
        if value.is_empty() { format!("{name} \"\"") } else { format!("{name} {value}") }
    }

    fn page() -> String {
        let list = |options: &[&str]| {
            options.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
        };
        let mut page = format!(
            "# memcached's command line\n\n\
             Generated from the rows in `crates/nagi/src/memcached.rs`; `cargo test -p nagi` fails \
             while this page differs\nfrom them, and says how to regenerate it.\n\n    \
             nagi memcached -m 1024 -c 4096\n\n\
             starts the server with the arguments of memcached 1.6.45. So does the program under \
             the name `memcached`, such as\nby a link. It has memcached's defaults then, and \
             serves neither Redis clients nor HTTP:\n\n{}\n\n\
             `-l` turns protected mode off (`protected-mode no`), as memcached has none: every \
             client that can connect is served without\na password unless `-S` or `-Y` is given. \
             `-s` turns the port off, and `-e` names the file that is loaded at the start and \
             saved\nat the end (`save 31536000 1`).\n\n\
             ## Flags\n\n\
             | flag | value | meaning | setting |\n|---|---|---|---|\n",
            list(&DEFAULTS.map(shown).each_ref().map(|it| &**it))
        );
        for row in FLAGS {
            let value = row.value.map(|value| format!("`{value}`")).unwrap_or_default();
            let (letter, name, summary) = (row.letter, row.name, row.summary);
            let effect = effect(row);
            page += &format!("| `-{letter}`, `--{name}` | {value} | {summary} | {effect} |\n");
        }
        let tuning: Vec<_> = VALUED.into_iter().filter(|it| *it != "idle_timeout").collect();
        page += &format!(
            "\n## Extended options\n\n`-o idle_timeout=SECONDS` closes idle connections. The \
             following have no effect; with `-v` the log lists\nthose that were given:\n\n{}\n\n\
             The options of external storage (`ext_`), TLS (`ssl_`) and the proxy (`proxy_`) are \
             refused.\n",
            [&SWITCHES[..], &tuning[..]]
                .concat()
                .iter()
                .map(|it| format!("- `{it}`"))
                .collect::<Vec<_>>()
                .join("\n")
        );
        page
    }

    #[test]
    fn the_page_in_docs_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memcached.md");
        if std::env::var_os("NAGI_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let hint = "regenerate it with: NAGI_WRITE_DOCS=1 cargo test -p nagi the_page_in_docs";
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "docs/memcached.md differs from the rows; {hint}");
    }
}
