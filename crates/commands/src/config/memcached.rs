//! The rows of the settings for memcached clients.

use super::kinds::Kind;
use super::setting::{Place, Setting};

pub(super) const CAS: Setting = Setting {
    name: "memcached-cas",
    aliases: &[],
    kind: Kind::Switch,
    default: "yes",
    changeable: false,
    place: Place::Number(|values| &values.memcached_cas),
    summary: "Whether values get version numbers for cas",
};

pub(super) const DUMP: Setting = Setting {
    name: "memcached-dump",
    aliases: &[],
    kind: Kind::Switch,
    default: "yes",
    changeable: false,
    place: Place::Number(|values| &values.memcached_dump),
    summary: "Whether memcached clients may use stats cachedump, stats detail, lru_crawler \
              metadump and mgdump",
};

pub(super) const FLUSH_ALL: Setting = Setting {
    name: "memcached-flush-all",
    aliases: &[],
    kind: Kind::Switch,
    default: "yes",
    changeable: false,
    place: Place::Number(|values| &values.memcached_flush_all),
    summary: "Whether memcached clients may use flush_all",
};

pub(super) const SHUTDOWN: Setting = Setting {
    name: "memcached-shutdown",
    aliases: &[],
    kind: Kind::Switch,
    default: "no",
    changeable: false,
    place: Place::Number(|values| &values.memcached_shutdown),
    summary: "Whether memcached clients may use shutdown",
};

pub(super) const WATCH: Setting = Setting {
    name: "memcached-watch",
    aliases: &[],
    kind: Kind::Switch,
    default: "yes",
    changeable: false,
    place: Place::Number(|values| &values.memcached_watch),
    summary: "Whether memcached clients may use watch",
};
