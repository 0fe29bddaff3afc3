//! The rows of the settings for memcached clients.

use super::kinds::{Kind, MEMCACHED_PROTOCOLS};
use super::setting::{Place, Setting};

pub(super) const AUTH_FILE: Setting = Setting {
    name: "memcached-auth-file",
    aliases: &[],
    kind: Kind::Text,
    default: "",
    changeable: false,
    place: Place::Text(|values| &values.memcached_auth_file),
    summary: "File of users for the memcached protocols, one name:password per line",
};

pub(super) const BIND: Setting = Setting {
    name: "memcached-bind",
    aliases: &[],
    kind: Kind::Words,
    default: "",
    changeable: true,
    place: Place::Text(|values| &values.memcached_bind),
    summary: "Addresses for memcached clients, each with an optional :port; if none, those of \
              bind",
};

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

pub(super) const ITEM_LIMIT: Setting = Setting {
    name: "memcached-item-limit",
    aliases: &[],
    kind: Kind::Memory(1024..=1 << 30),
    default: "1mb",
    changeable: true,
    place: Place::Number(|values| &values.memcached_item_limit),
    summary: "Longest value that memcached clients may store",
};

pub(super) const PORT: Setting = Setting {
    name: "memcached-port",
    aliases: &[],
    kind: Kind::Port,
    default: "11211",
    changeable: true,
    place: Place::Number(|values| &values.memcached_port),
    summary: "Port for memcached clients; 0 for none, any for a free one",
};

pub(super) const PROTOCOL: Setting = Setting {
    name: "memcached-protocol",
    aliases: &[],
    kind: Kind::Choice(&MEMCACHED_PROTOCOLS),
    default: "auto",
    changeable: false,
    place: Place::Number(|values| &values.memcached_protocol),
    summary: "Which memcached protocol is served; auto decides by a client's first byte",
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

pub(super) const UNIXSOCKET: Setting = Setting {
    name: "memcached-unixsocket",
    aliases: &[],
    kind: Kind::Words,
    default: "",
    changeable: false,
    place: Place::Text(|values| &values.memcached_unixsocket),
    summary: "Paths of Unix sockets for memcached clients",
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
