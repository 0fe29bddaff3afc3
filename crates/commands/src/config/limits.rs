//! Settings that limit the resources of clients, in the form in which they are enforced.

use super::current::Config;
use super::values::Number;
use crate::Class;
use nagi_store::types::collection::Limits;
use nagi_store::{HashLimits, ListLimit, SetLimits, SortedSetLimits, StreamLimits};

/// Maximum bytes of replies that a client may leave unread; 0 is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// The limit at any time.
    pub hard_bytes: u64,
    /// The limit that a client may exceed for at most `soft_ms`.
    pub soft_bytes: u64,
    /// The time of the soft limit, in milliseconds.
    pub soft_ms: u64,
}

impl OutputLimit {
    /// Whether `bytes` exceed the hard limit.
    #[must_use]
    pub fn is_passed(self, bytes: u64) -> bool {
        self.hard_bytes > 0 && bytes >= self.hard_bytes
    }

    /// Whether `bytes` exceed the soft limit.
    #[must_use]
    pub fn is_neared(self, bytes: u64) -> bool {
        self.soft_bytes > 0 && bytes >= self.soft_bytes
    }
}

impl Config {
    /// The limit of `client-output-buffer-limit` for clients of a class. Monitors are normal ones,
    /// as with Redis.
    #[must_use]
    pub fn output_limit(&self, class: Class) -> OutputLimit {
        let name = match class {
            Class::Normal => "normal",
            Class::PubSub => "pubsub",
            Class::Replication => "slave",
        };
        let classes = self.client_output_buffer_limit.get();
        let mut words = classes.split(' ').skip_while(|word| *word != name).skip(1);
        let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let (hard_bytes, soft_bytes) = (next(), next());
        OutputLimit { hard_bytes, soft_bytes, soft_ms: u64::saturating_mul(next(), 1000) }
    }

    /// The limit of `maxmemory-clients` in bytes; 0 for none.
    #[must_use]
    pub fn client_memory_limit(&self) -> u64 {
        let percent_of = |whole: &Number, percent: u64| {
            u64::try_from(u128::from(whole.get()) * u128::from(percent) / 100).unwrap_or(u64::MAX)
        };
        match self.maxmemory_clients.signed() {
            percent @ ..0 => percent_of(&self.maxmemory, percent.unsigned_abs()),
            bytes => bytes.unsigned_abs(),
        }
    }
}

impl Config {
    /// The limits of a stream's nodes.
    #[must_use]
    pub fn stream_limits(&self) -> StreamLimits {
        StreamLimits {
            node_bytes: self.stream_node_max_bytes.bytes(),
            node_entries: self.stream_node_max_entries.get(),
        }
    }

    /// The limits up to which OBJECT ENCODING reports the encodings of small collections.
    #[must_use]
    pub fn collection_limits(&self) -> Limits {
        Limits {
            hash: HashLimits {
                entries: self.hash_max_listpack_entries.bytes(),
                value_bytes: self.hash_max_listpack_value.bytes(),
            },
            set: SetLimits {
                intset_entries: self.set_max_intset_entries.bytes(),
                listpack_entries: self.set_max_listpack_entries.bytes(),
                value_bytes: self.set_max_listpack_value.bytes(),
            },
            sorted_set: SortedSetLimits {
                entries: self.zset_max_listpack_entries.bytes(),
                value_bytes: self.zset_max_listpack_value.bytes(),
            },
            list: ListLimit::of_setting(self.list_max_listpack_size.signed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn a_client_has_the_output_limit_of_its_class() {
        let config = Config::default();
        assert_eq!(config.output_limit(Class::Normal), OutputLimit::default());
        for value in ["normal 1kb 512 3", "pubsub 1 2 3"] {
            config.set("client-output-buffer-limit", value, Origin::Runtime).unwrap();
            let limit = config.output_limit(Class::Normal);
            assert_eq!(limit, OutputLimit { hard_bytes: 1024, soft_bytes: 512, soft_ms: 3000 });
            assert!(limit.is_passed(1024) && !limit.is_passed(1023));
            assert!(limit.is_neared(512) && !limit.is_neared(511));
        }
        let limit = OutputLimit { hard_bytes: 1, soft_bytes: 2, soft_ms: 3000 };
        assert_eq!(config.output_limit(Class::PubSub), limit);
        assert_eq!(config.output_limit(Class::Replication).hard_bytes, 256 << 20);
        assert!(!OutputLimit::default().is_passed(u64::MAX));
        assert!(!OutputLimit::default().is_neared(u64::MAX));
    }

    #[test]
    fn memory_of_clients_may_be_a_percentage_of_maxmemory() {
        let config = Config::default();
        for (value, shown, bytes) in
            [("1mb", "1048576", 1 << 20), ("5%", "5%", 50), ("100%", "100%", 1000), ("0%", "0", 0)]
        {
            config.set("maxmemory", "1000", Origin::Runtime).unwrap();
            config.set("maxmemory-clients", value, Origin::Runtime).unwrap();
            let setting = crate::config::find("maxmemory-clients").unwrap();
            assert_eq!(setting.value(&config), shown);
            assert_eq!(config.client_memory_limit(), bytes);
        }
        config.set("maxmemory-clients", "5%", Origin::Runtime).unwrap();
        config.set("maxmemory", "0", Origin::Runtime).unwrap();
        assert_eq!(config.client_memory_limit(), 0, "no limit of nothing");
        for (value, fault) in [
            ("x", "argument must be a memory or percent value"),
            ("-5%", "argument must be a memory or percent value"),
            ("101%", "percentage argument must be less or equal to 100"),
        ] {
            let set = config.set("maxmemory-clients", value, Origin::Runtime);
            assert_eq!(set, Err(fault.into()), "{value}");
        }
    }
}
