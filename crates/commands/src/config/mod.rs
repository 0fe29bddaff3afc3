//! The settings: one literal row each, from which the command line, CONFIG and the documentation
//! derive, and where their values are kept.

mod commands;

use crate::usage;
pub(crate) use commands::ALL;
use nagi_store::{Policy, Store};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A setting's row.
pub struct Setting {
    /// Its name, as in `redis.conf`.
    pub name: &'static str,
    /// What values it takes, and where its value is kept.
    pub kind: Kind,
    /// Its value until something else is said, as it would be written in `redis.conf`.
    pub default: &'static str,
    /// Whether CONFIG SET may change it.
    pub changeable: bool,
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
}

/// What values a setting takes, and where its value is kept.
pub enum Kind {
    /// A whole number in a range.
    Integer(fn(&Config) -> &Number, RangeInclusive<u64>),
    /// A number of bytes, for which units such as `512mb` may be used.
    Memory(fn(&Config) -> &Number, RangeInclusive<u64>),
    /// Words.
    Text(fn(&Config) -> &Text),
    /// One of several words, kept as its place among them.
    Choice(fn(&Config) -> &Number, &'static [&'static str]),
}

/// Who sets a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line or a file, before the server listens.
    Startup,
    /// CONFIG SET.
    Runtime,
}

/// A setting that is a number; reading it costs a load.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Its value now.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Its value now, as a length in memory.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.get()).unwrap_or(usize::MAX)
    }
}

/// A setting that is a string.
#[derive(Debug, Default)]
pub struct Text(RwLock<Arc<str>>);

impl Text {
    /// Its value now.
    #[must_use]
    pub fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The value of every setting.
#[derive(Debug)]
#[expect(missing_docs, reason = "each field's setting has a summary in its row")]
pub struct Config {
    pub bind: Text,
    pub client_query_buffer_limit: Number,
    pub databases: Number,
    pub io: Number,
    pub maxclients: Number,
    pub maxmemory: Number,
    pub maxmemory_policy: Number,
    pub memcached_item_limit: Number,
    pub memcached_port: Number,
    pub port: Number,
    pub protected_mode: Number,
    pub proto_max_bulk_len: Number,
    pub requirepass: Text,
    pub tcp_backlog: Number,
    pub tcp_keepalive_s: Number,
    pub timeout_s: Number,
    pub unixsocket: Text,
    pub workers: Number,
}

/// The names of the policies, in the store's order.
static POLICIES: [&str; Policy::ALL.len()] = {
    let mut names = [""; Policy::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            names[index] = Policy::ALL[index].1;
        }
        index += 1;
    }
    names
};

/// The values of a switch, off and on.
static NO_OR_YES: [&str; 2] = ["no", "yes"];

/// The words of `io`.
static IO: [&str; 3] = ["auto", "epoll", "uring"];

/// Every setting.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "bind",
        kind: Kind::Text(|config| &config.bind),
        default: "127.0.0.1 -::1",
        changeable: false,
        summary: "Addresses to listen on; one that is missing is no error if a - stands before it",
    },
    Setting {
        name: "client-query-buffer-limit",
        kind: Kind::Memory(|config| &config.client_query_buffer_limit, (1 << 20)..=i64::MAX as u64),
        default: "1gb",
        changeable: true,
        summary: "Most bytes of a request that may wait for the rest of it",
    },
    Setting {
        name: "databases",
        kind: Kind::Integer(|config| &config.databases, 1..=10_000),
        default: "16",
        changeable: false,
        summary: "How many databases SELECT can choose from",
    },
    Setting {
        name: "io",
        kind: Kind::Choice(|config| &config.io, &IO),
        default: "auto",
        changeable: false,
        summary: "How to wait for sockets; auto takes io_uring where it works, and epoll elsewhere",
    },
    Setting {
        name: "maxclients",
        kind: Kind::Integer(|config| &config.maxclients, 1..=u32::MAX as u64),
        default: "10000",
        changeable: true,
        summary: "Most connections at a time",
    },
    Setting {
        name: "maxmemory",
        kind: Kind::Memory(|config| &config.maxmemory, 0..=i64::MAX as u64),
        default: "0",
        changeable: true,
        summary: "Most memory in use, 0 for no limit; unless it is given, three quarters of the \
                  container's limit where there is one",
    },
    Setting {
        name: "maxmemory-policy",
        kind: Kind::Choice(|config| &config.maxmemory_policy, &POLICIES),
        default: "noeviction",
        changeable: true,
        summary: "Which keys go when maxmemory is reached",
    },
    Setting {
        name: "memcached-item-limit",
        kind: Kind::Memory(|config| &config.memcached_item_limit, 1024..=1 << 30),
        default: "1mb",
        changeable: true,
        summary: "Longest value that memcached clients may store",
    },
    Setting {
        name: "memcached-port",
        kind: Kind::Integer(|config| &config.memcached_port, 0..=65535),
        default: "11211",
        changeable: false,
        summary: "Port for memcached clients; 0 for none",
    },
    Setting {
        name: "port",
        kind: Kind::Integer(|config| &config.port, 0..=65535),
        default: "6379",
        changeable: false,
        summary: "Port for Redis clients; 0 for none",
    },
    Setting {
        name: "protected-mode",
        kind: Kind::Choice(|config| &config.protected_mode, &NO_OR_YES),
        default: "yes",
        changeable: true,
        summary: "Whether clients of other machines are refused while there is no requirepass",
    },
    Setting {
        name: "proto-max-bulk-len",
        kind: Kind::Memory(|config| &config.proto_max_bulk_len, (1 << 20)..=i64::MAX as u64),
        default: "512mb",
        changeable: true,
        summary: "Longest argument and longest string",
    },
    Setting {
        name: "requirepass",
        kind: Kind::Text(|config| &config.requirepass),
        default: "",
        changeable: true,
        summary: "Password that clients have to give before anything else; none if it is empty",
    },
    Setting {
        name: "tcp-backlog",
        kind: Kind::Integer(|config| &config.tcp_backlog, 0..=i32::MAX as u64),
        default: "511",
        changeable: false,
        summary: "How many connections may wait to be accepted",
    },
    Setting {
        name: "tcp-keepalive",
        kind: Kind::Integer(|config| &config.tcp_keepalive_s, 0..=i32::MAX as u64),
        default: "300",
        changeable: false,
        summary: "Seconds of silence after which the kernel probes a connection; 0 for never",
    },
    Setting {
        name: "timeout",
        kind: Kind::Integer(|config| &config.timeout_s, 0..=i32::MAX as u64),
        default: "0",
        changeable: true,
        summary: "Seconds of silence after which a connection is closed; 0 for never",
    },
    Setting {
        name: "unixsocket",
        kind: Kind::Text(|config| &config.unixsocket),
        default: "",
        changeable: false,
        summary: "Path of a socket on which to serve Redis clients as well",
    },
    Setting {
        name: "workers",
        kind: Kind::Integer(|config| &config.workers, 0..=1024),
        default: "0",
        changeable: false,
        summary: "How many threads serve connections; 0 for one per core",
    },
];

impl Default for Config {
    fn default() -> Self {
        let config = Config {
            bind: Text::default(),
            client_query_buffer_limit: Number::default(),
            databases: Number::default(),
            io: Number::default(),
            maxclients: Number::default(),
            maxmemory: Number::default(),
            maxmemory_policy: Number::default(),
            memcached_item_limit: Number::default(),
            memcached_port: Number::default(),
            port: Number::default(),
            protected_mode: Number::default(),
            proto_max_bulk_len: Number::default(),
            requirepass: Text::default(),
            tcp_backlog: Number::default(),
            tcp_keepalive_s: Number::default(),
            timeout_s: Number::default(),
            unixsocket: Text::default(),
            workers: Number::default(),
        };
        for setting in SETTINGS {
            if let Ok(value) = setting.kind.parse(setting.default) {
                setting.kind.store(&config, value);
            }
        }
        if let Some(limit_bytes) = usage::container_memory_bytes() {
            config.maxmemory.0.store(limit_bytes / 4 * 3, Ordering::Relaxed);
        }
        config
    }
}

impl Config {
    /// Has the store go by the memory limit and the policy.
    pub fn limit_memory(&self, store: &Store) {
        let place = self.maxmemory_policy.bytes();
        let policy = Policy::ALL.get(place).map_or(Policy::default(), |row| row.0);
        store.set_limit(self.maxmemory.get(), policy);
    }

    /// The word of `io`.
    #[must_use]
    pub fn io(&self) -> &'static str {
        IO.get(self.io.bytes()).copied().unwrap_or_default()
    }

    /// Sets a setting by name.
    ///
    /// # Errors
    /// What is wrong with it, in the words that CONFIG SET puts behind the setting's name.
    pub fn set(&self, name: &str, value: &str, origin: Origin) -> Result<(), Cow<'static, str>> {
        let setting = find(name).ok_or("unknown setting")?;
        setting.check(value, origin).map(|parsed| setting.kind.store(self, parsed))
    }
}

/// The setting called `name`, in any case.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

/// A value that a setting accepts.
pub(crate) enum Value {
    Number(u64),
    Text(Arc<str>),
}

impl Setting {
    /// Its value, as CONFIG GET shows it.
    #[must_use]
    pub fn value(&self, config: &Config) -> String {
        match &self.kind {
            Kind::Integer(number, _) | Kind::Memory(number, _) => number(config).get().to_string(),
            Kind::Text(text) => text(config).get().as_ref().to_owned(),
            Kind::Choice(number, words) => {
                words.get(number(config).bytes()).copied().unwrap_or_default().to_owned()
            }
        }
    }

    /// Reads a value for it without setting it.
    pub(crate) fn check(&self, value: &str, origin: Origin) -> Result<Value, Cow<'static, str>> {
        if origin == Origin::Runtime && !self.changeable {
            return Err("can't set immutable config".into());
        }
        self.kind.parse(value)
    }
}

impl Kind {
    fn parse(&self, value: &str) -> Result<Value, Cow<'static, str>> {
        let (number, range) = match self {
            Kind::Text(_) => return Ok(Value::Text(value.into())),
            Kind::Choice(_, words) => {
                let place = words.iter().position(|word| word.eq_ignore_ascii_case(value));
                return place.map(|place| Value::Number(place as u64)).ok_or_else(|| {
                    format!("argument(s) must be one of the following: {}", words.join(", ")).into()
                });
            }
            Kind::Integer(_, range) => {
                let number: Option<i64> = value.parse().ok();
                let number = number.ok_or("argument couldn't be parsed into an integer")?;
                (u64::try_from(number).ok(), range)
            }
            Kind::Memory(_, range) => {
                (Some(parse_memory(value).ok_or("argument must be a memory value")?), range)
            }
        };
        let number = number.filter(|number| range.contains(number));
        number.map(Value::Number).ok_or_else(|| {
            let (least, most) = range.clone().into_inner();
            format!("argument must be between {least} and {most} inclusive").into()
        })
    }

    pub(crate) fn store(&self, config: &Config, value: Value) {
        match (self, value) {
            (
                Kind::Integer(number, _) | Kind::Memory(number, _) | Kind::Choice(number, _),
                Value::Number(value),
            ) => number(config).0.store(value, Ordering::Relaxed),
            (Kind::Text(text), Value::Text(value)) => {
                *text(config).0.write().unwrap_or_else(PoisonError::into_inner) = value;
            }
            _ => debug_assert!(false, "a kind stores what it has parsed"),
        }
    }
}

/// Reads a number of bytes with an optional unit: `k` is 1000, `kb` 1024, likewise for m and g.
fn parse_memory(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|byte: char| byte.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
