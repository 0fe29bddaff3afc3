//! libmemcached 1.1.4's placement of keys, including its dependence on the order of configuration.
//!
//! libmemcached builds its ring when the distribution or the servers change, with the hash set at
//! that time. A hash that is set later applies to keys but does not change the points, so the same
//! settings in another order place keys differently. This module reproduces that, call for call.

use std::str::FromStr;

use md5::{Digest, Md5};

use super::hash::Hash;
use super::server::{DEFAULT_PORT, Server};

/// Number of points of a server on a ring without weights.
const POINTS: u32 = 100;

/// Number of points of a server of average weight on a ring with weights.
const WEIGHTED_POINTS: u32 = 160;

/// Maximum length of a key with its prefix, in bytes.
const KEY_BYTES: usize = 250;

/// The distribution of keys.
///
/// ```
/// use nagi_client::ring::Distribution;
/// assert_eq!("ketama".parse(), Ok(Distribution::Consistent));
/// assert!("random".parse::<Distribution>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// The hash modulo the number of servers.
    #[default]
    Modula,
    /// A ring with 100 points per server, which the key hash computes; both `CONSISTENT` and
    /// `CONSISTENT_KETAMA` of libmemcached.
    Consistent,
    /// A ring with MD5 and 160 points for a server of average weight.
    Weighted,
    /// A ring whose points have the names that spymemcached uses.
    KetamaSpy,
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "modula" => Distribution::Modula,
            "consistent" | "ketama" => Distribution::Consistent,
            "weighted" => Distribution::Weighted,
            "ketama_spy" => Distribution::KetamaSpy,
            "random" => {
                return Err("random puts a key elsewhere each time, so no get finds it".to_owned());
            }
            "virtual_bucket" => {
                let reason = "virtual_bucket needs a Couchbase server's map, which is not \
                              supported";
                return Err(reason.to_owned());
            }
            _ => {
                return Err(format!(
                    "unknown distribution {name}; known are modula, consistent, weighted, \
                     ketama_spy"
                ));
            }
        })
    }
}

/// One call of `memcached_behavior_set`.
///
/// ```
/// use nagi_client::ring::{Behavior, Hash, Libmemcached};
/// let mut memc = Libmemcached::new();
/// memc.set(Behavior::Hash(Hash::Md5)).set(Behavior::Ketama(true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// `HASH`: the hash for keys, and for the points of rings that are built later.
    Hash(Hash),
    /// `DISTRIBUTION`.
    Distribution(Distribution),
    /// `KETAMA`: consistent if true, modula if false.
    Ketama(bool),
    /// `KETAMA_WEIGHTED`: weighted with MD5 if true, consistent if false.
    KetamaWeighted(bool),
    /// `SORT_HOSTS`.
    SortHosts(bool),
    /// `HASH_WITH_PREFIX_KEY`.
    HashWithPrefixKey(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    value: u32,
    server: usize,
}

/// A `memcached_st`: servers, behaviors, and the resulting placement of keys.
///
/// ```
/// use nagi_client::ring::{Behavior, Libmemcached, Server};
/// let mut memc = Libmemcached::new();
/// memc.set(Behavior::Ketama(true));
/// memc.add(Server::new("kyoto", 11211)).add(Server::new("tokyo", 11311));
/// let server = memc.locate(b"user:1").and_then(|index| memc.servers().get(index));
/// assert!(server.is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Libmemcached {
    servers: Vec<Server>,
    distribution: Distribution,
    hash: Hash,
    is_weighted: bool,
    sorts_hosts: bool,
    hashes_prefix: bool,
    prefix: Vec<u8>,
    points: Vec<Point>,
    /// Whether each server is ejected, by index; servers beyond the end are not.
    out: Vec<bool>,
}

impl Libmemcached {
    /// Creates a `memcached_st` without servers, with modula and the default hash.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Libmemcached::new().locate(b"key"), None);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a behavior. As in libmemcached, the effect depends on the calls before it.
    ///
    /// ```
    /// use nagi_client::ring::{Behavior, Libmemcached};
    /// Libmemcached::new().set(Behavior::SortHosts(true));
    /// ```
    pub fn set(&mut self, behavior: Behavior) -> &mut Self {
        match behavior {
            Behavior::Hash(hash) => self.hash = hash,
            Behavior::Distribution(distribution) => self.distribute(distribution),
            Behavior::Ketama(false) => self.distribute(Distribution::Modula),
            Behavior::Ketama(true) | Behavior::KetamaWeighted(false) => {
                self.distribute(Distribution::Consistent);
            }
            Behavior::KetamaWeighted(true) => {
                self.hash = Hash::Md5;
                self.distribute(Distribution::Weighted);
            }
            Behavior::SortHosts(on) => {
                self.sorts_hosts = on;
                self.rebuild();
            }
            Behavior::HashWithPrefixKey(on) => self.hashes_prefix = on,
        }
        self
    }

    /// Sets the prefix of keys, `MEMCACHED_CALLBACK_PREFIX_KEY`; it affects the selection of
    /// servers only with [`Behavior::HashWithPrefixKey`].
    ///
    /// ```
    /// nagi_client::ring::Libmemcached::new().set_prefix("app:");
    /// ```
    pub fn set_prefix(&mut self, prefix: impl Into<Vec<u8>>) -> &mut Self {
        self.prefix = prefix.into();
        self
    }

    /// Adds a server, like `memcached_server_add_with_weight`: on a ring, a weight over 1 enables
    /// weights.
    ///
    /// ```
    /// use nagi_client::ring::{Libmemcached, Server};
    /// Libmemcached::new().add(Server::new("kyoto", 0));
    /// ```
    pub fn add(&mut self, server: Server) -> &mut Self {
        self.is_weighted |= server.weight > 1 && self.distribution != Distribution::Modula;
        self.servers.push(server);
        self.rebuild();
        self
    }

    /// Adds servers, like `memcached_server_push`: a weight over 1 enables weights with any
    /// distribution.
    ///
    /// ```
    /// use nagi_client::ring::{Libmemcached, Server};
    /// Libmemcached::new().push(&[Server::new("kyoto", 0), Server::new("tokyo", 0)]);
    /// ```
    pub fn push(&mut self, servers: &[Server]) -> &mut Self {
        self.is_weighted |= servers.iter().any(|server| server.weight > 1);
        self.servers.extend_from_slice(servers);
        self.rebuild();
        self
    }

    /// Ejects the servers whose entry in `out` is true and readmits all others. The points are
    /// rebuilt as if only the remaining servers existed, as `AUTO_EJECT_HOSTS` does with failed
    /// servers. Modula has no points, so it ejects no server. If all servers are ejected, the
    /// points do not change.
    ///
    /// ```
    /// use nagi_client::ring::{Behavior, Libmemcached, Server};
    /// let mut memc = Libmemcached::new();
    /// memc.set(Behavior::Ketama(true));
    /// memc.add(Server::new("kyoto", 0)).add(Server::new("tokyo", 0));
    /// memc.eject(&[true]);
    /// assert_eq!(memc.locate(b"key"), Some(1));
    /// ```
    pub fn eject(&mut self, out: &[bool]) -> &mut Self {
        self.out = out.to_vec();
        self.rebuild();
        self
    }

    pub(super) fn has_points(&self) -> bool {
        self.distribution != Distribution::Modula
    }

    /// Returns the servers, in the order of [`Libmemcached::locate`].
    ///
    /// ```
    /// assert!(nagi_client::ring::Libmemcached::new().servers().is_empty());
    /// ```
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the index in [`Libmemcached::servers`] of the server of `key`; `None` without
    /// servers.
    ///
    /// ```
    /// use nagi_client::ring::{Libmemcached, Server};
    /// assert_eq!(Libmemcached::new().add(Server::new("kyoto", 0)).locate(b"key"), Some(0));
    /// ```
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        let hash = if self.servers.len() == 1 { 0 } else { self.hash_of(key) };
        if self.distribution == Distribution::Modula {
            return (hash as usize).checked_rem(self.servers.len());
        }
        let after = self.points.partition_point(|point| point.value < hash);
        let point = self.points.get(after).or_else(|| self.points.first());
        point.map(|point| point.server)
    }

    fn hash_of(&self, key: &[u8]) -> u32 {
        if !self.hashes_prefix {
            return self.hash.of(key);
        }
        match [&self.prefix, key].concat() {
            whole if whole.len() > KEY_BYTES => 0,
            whole => self.hash.of(&whole),
        }
    }

    fn distribute(&mut self, distribution: Distribution) {
        match distribution {
            Distribution::Consistent => self.is_weighted = false,
            Distribution::Weighted => self.is_weighted = true,
            Distribution::Modula | Distribution::KetamaSpy => {}
        }
        self.distribution = distribution;
        self.rebuild();
    }

    fn rebuild(&mut self) {
        if self.sorts_hosts {
            self.servers.sort_by(|one, other| {
                one.host.as_bytes().cmp(other.host.as_bytes()).then(one.port.cmp(&other.port))
            });
        }
        let out = &self.out;
        let is_in = |index: usize| !out.get(index).copied().unwrap_or(false);
        let servers = || self.servers.iter().enumerate().filter(|(index, _)| is_in(*index));
        let count = servers().count();
        if self.distribution == Distribution::Modula || count == 0 {
            return;
        }
        let total: u64 = servers().map(|(_, server)| u64::from(server.weight)).sum();
        let mut points = Vec::new();
        for (index, server) in servers() {
            let place = |value| Point { value, server: index };
            if self.is_weighted {
                for number in 0..weighted_names(server, total, count) {
                    let digest = Md5::digest(self.point_name(server, number));
                    let (words, _) = digest.as_chunks::<4>();
                    points.extend(words.iter().map(|word| place(u32::from_le_bytes(*word))));
                }
            } else {
                points.extend(
                    (0..POINTS).map(|number| {
                        place(self.hash.of(self.point_name(server, number).as_bytes()))
                    }),
                );
            }
        }
        points.sort_unstable();
        self.points = points;
    }

    fn point_name(&self, server: &Server, number: u32) -> String {
        let Server { host, port, .. } = server;
        match self.distribution {
            Distribution::KetamaSpy => format!("/{host}:{port}-{number}"),
            _ if *port == DEFAULT_PORT => format!("{host}-{number}"),
            _ => format!("{host}:{port}-{number}"),
        }
    }
}

/// Returns how many names of a server are hashed on a ring of `servers` servers. Each name gives
/// four points. The computation is in single precision, as in libmemcached.
fn weighted_names(server: &Server, total: u64, servers: usize) -> u32 {
    let share = server.weight as f32 / total as f32;
    let names = share * WEIGHTED_POINTS as f32 / 4.0 * servers as f32;
    (names + 0.000_000_000_1).floor() as u32
}
