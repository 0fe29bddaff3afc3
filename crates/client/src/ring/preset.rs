//! Named settings of libraries, as users write them on a command line.

use std::fmt;
use std::str::FromStr;

use super::Ring;
use super::cluster::Cluster;
use super::libmemcached::{Behavior, Libmemcached};
use super::other::{Dalli, Rendezvous};
use super::server::Server;

/// A library with the settings that determine where keys are placed.
///
/// ```
/// use nagi_client::ring::Library;
/// assert_eq!("php-ketama".parse(), Ok(Library::PhpKetama));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// libmemcached without settings: modula with the default hash.
    Libmemcached,
    /// pylibmc without behaviors; like libmemcached.
    Pylibmc,
    /// pylibmc with `{"ketama": True}`.
    PylibmcKetama,
    /// PHP's `Memcached` without options; like libmemcached.
    Php,
    /// PHP's `Memcached` with `OPT_LIBKETAMA_COMPATIBLE`.
    PhpKetama,
    /// twemproxy with `hash: md5` and `distribution: ketama`, servers unnamed.
    Twemproxy,
    /// Ruby's dalli.
    Dalli,
    /// Python's pymemcache, `HashClient`.
    Pymemcache,
    /// Clients of Redis Cluster; some of its servers are enough, the others are found by
    /// redirections.
    RedisCluster,
}

impl Library {
    /// All libraries, in the order of the variants.
    ///
    /// ```
    /// assert!(nagi_client::ring::Library::ALL.iter().any(|library| library.name() == "dalli"));
    /// ```
    pub const ALL: [Library; 9] = [
        Library::Libmemcached,
        Library::Pylibmc,
        Library::PylibmcKetama,
        Library::Php,
        Library::PhpKetama,
        Library::Twemproxy,
        Library::Dalli,
        Library::Pymemcache,
        Library::RedisCluster,
    ];

    /// Returns the name of the library in configurations.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Library::Twemproxy.name(), "twemproxy");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Library::Libmemcached => "libmemcached",
            Library::Pylibmc => "pylibmc",
            Library::PylibmcKetama => "pylibmc-ketama",
            Library::Php => "php",
            Library::PhpKetama => "php-ketama",
            Library::Twemproxy => "twemproxy",
            Library::Dalli => "dalli",
            Library::Pymemcache => "pymemcache",
            Library::RedisCluster => "redis-cluster",
        }
    }

    fn behaviors(self) -> Vec<Behavior> {
        match self {
            Library::PylibmcKetama => vec![Behavior::Ketama(true)],
            Library::PhpKetama | Library::Twemproxy => vec![Behavior::KetamaWeighted(true)],
            _ => Vec::new(),
        }
    }

    fn has_behaviors(self) -> bool {
        !matches!(
            self,
            Library::Twemproxy | Library::Dalli | Library::Pymemcache | Library::RedisCluster
        )
    }
}

impl FromStr for Library {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Library::ALL.into_iter().find(|library| library.name() == name);
        found.ok_or_else(|| {
            let names = Library::ALL.map(Library::name).join(", ");
            format!("unknown library {name}; known are {names}")
        })
    }
}

/// One call on libmemcached's `memcached_st`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Set(Behavior),
    Prefix(String),
    Servers,
}

/// A library and settings, read from text such as `php-ketama`,
/// `libmemcached,hash=md5,distribution=consistent` or `pylibmc,ketama,servers,hash=crc`.
///
/// Settings apply in the order given. `servers` marks the point at which servers are added, by
/// default the end. Other settings are `hash=`, `distribution=`, `ketama`, `weighted`,
/// `sort_hosts`, `hash_with_prefix` and `prefix=`.
///
/// ```
/// use nagi_client::ring::{Configuration, Server};
/// let servers = vec![Server::new("kyoto", 0), Server::new("tokyo", 0)];
/// let before: Configuration = "libmemcached,hash=md5,ketama".parse()?;
/// let after: Configuration = "libmemcached,ketama,servers,hash=md5".parse()?;
/// let (before, after) = (before.ring(servers.clone()), after.ring(servers));
/// let differs = |key: &u32| {
///     before.locate(key.to_string().as_bytes()) != after.locate(key.to_string().as_bytes())
/// };
/// assert!((0..100).any(|key| differs(&key)));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    library: Library,
    calls: Vec<Call>,
}

impl Configuration {
    /// Returns the library of the configuration.
    ///
    /// ```
    /// use nagi_client::ring::{Configuration, Library};
    /// assert_eq!(Configuration::from(Library::Dalli).library(), Library::Dalli);
    /// ```
    #[must_use]
    pub fn library(&self) -> Library {
        self.library
    }

    /// The prefix that the library adds to keys, for [`Settings::prefix`].
    ///
    /// ```
    /// use nagi_client::ring::Configuration;
    /// let configuration: Configuration = "libmemcached,prefix=app:".parse()?;
    /// assert_eq!(configuration.prefix(), "app:");
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// [`Settings::prefix`]: crate::cache::Settings::prefix
    #[must_use]
    pub fn prefix(&self) -> &str {
        let mut prefixes = self.calls.iter().filter_map(|call| match call {
            Call::Prefix(prefix) => Some(&**prefix),
            Call::Set(_) | Call::Servers => None,
        });
        prefixes.next_back().unwrap_or_default()
    }

    /// Builds the ring of this configuration over `servers`.
    ///
    /// ```
    /// use nagi_client::ring::{Configuration, Library, Server};
    /// let ring = Configuration::from(Library::Dalli).ring(vec![Server::new("kyoto", 0)]);
    /// assert_eq!(ring.locate(b"key"), Some(0));
    /// ```
    #[must_use]
    pub fn ring(&self, servers: Vec<Server>) -> Ring {
        match self.library {
            Library::Dalli => return Ring::Dalli(Dalli::new(servers)),
            Library::Pymemcache => return Ring::Rendezvous(Rendezvous::new(servers)),
            Library::RedisCluster => return Ring::Cluster(Cluster::new(servers)),
            _ => {}
        }
        let mut memc = Libmemcached::new();
        for behavior in self.library.behaviors() {
            memc.set(behavior);
        }
        for call in &self.calls {
            match call {
                Call::Set(behavior) => memc.set(*behavior),
                Call::Prefix(prefix) => memc.set_prefix(prefix.as_bytes()),
                Call::Servers => memc.push(&servers),
            };
        }
        if !self.calls.contains(&Call::Servers) {
            memc.push(&servers);
        }
        Ring::Libmemcached(memc)
    }
}

impl From<Library> for Configuration {
    fn from(library: Library) -> Self {
        Configuration { library, calls: Vec::new() }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.library.name())?;
        if self.calls.is_empty() { Ok(()) } else { write!(out, " with settings") }
    }
}

impl FromStr for Configuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (library, settings) = text.split_once(',').unwrap_or((text, ""));
        let library: Library = library.parse()?;
        let settings: Vec<&str> = settings.split(',').filter(|word| !word.is_empty()).collect();
        if !settings.is_empty() && !library.has_behaviors() {
            return Err(format!("{} takes no settings", library.name()));
        }
        let calls: Vec<Call> = settings.into_iter().map(call).collect::<Result<_, _>>()?;
        if calls.iter().filter(|call| **call == Call::Servers).count() > 1 {
            return Err("servers are added once".to_owned());
        }
        Ok(Configuration { library, calls })
    }
}

fn call(setting: &str) -> Result<Call, String> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    Ok(Call::Set(match (name, value) {
        ("hash", value) => Behavior::Hash(value.parse()?),
        ("distribution", value) => Behavior::Distribution(value.parse()?),
        ("prefix", value) => return Ok(Call::Prefix(value.to_owned())),
        ("servers", "") => return Ok(Call::Servers),
        ("ketama", "") => Behavior::Ketama(true),
        ("weighted", "") => Behavior::KetamaWeighted(true),
        ("sort_hosts", "") => Behavior::SortHosts(true),
        ("hash_with_prefix", "") => Behavior::HashWithPrefixKey(true),
        _ => {
            return Err(format!(
                "unknown setting {setting}; known are hash=, distribution=, prefix=, servers, \
                 ketama, weighted, sort_hosts, hash_with_prefix"
            ));
        }
    }))
}
