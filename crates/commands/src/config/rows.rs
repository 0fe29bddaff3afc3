//! The rows of the settings that have an effect.

use super::kinds::{LOG_LEVELS, SUPERVISORS};
use super::{Kind, Place, Setting};
use nagi_store::Policy;

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

/// The words of `io`.
pub(super) static IO: [&str; 3] = ["auto", "epoll", "uring"];

/// In the order of their names.
pub(super) static ROWS: &[Setting] = &[
    Setting {
        name: "bind",
        aliases: &[],
        kind: Kind::Words,
        default: "127.0.0.1 -::1",
        changeable: false,
        place: Place::Text(|values| &values.bind),
        summary: "Addresses to listen on; one that is missing is no error if a - stands before it",
    },
    Setting {
        name: "client-query-buffer-limit",
        aliases: &[],
        kind: Kind::Memory((1 << 20)..=i64::MAX as u64),
        default: "1gb",
        changeable: true,
        place: Place::Number(|values| &values.client_query_buffer_limit),
        summary: "Most bytes of a request that may wait for the rest of it",
    },
    Setting {
        name: "daemonize",
        aliases: &[],
        kind: Kind::Switch,
        default: "no",
        changeable: false,
        place: Place::Number(|values| &values.daemonize),
        summary: "Leaves the terminal and serves in the background, once it listens",
    },
    Setting {
        name: "databases",
        aliases: &[],
        kind: Kind::Integer(1..=10_000),
        default: "16",
        changeable: false,
        place: Place::Number(|values| &values.databases),
        summary: "How many databases SELECT can choose from",
    },
    Setting {
        name: "dir",
        aliases: &[],
        kind: Kind::Text,
        default: ".",
        changeable: false,
        place: Place::Text(|values| &values.dir),
        summary: "Folder that the server works in, from which relative paths start",
    },
    Setting {
        name: "io",
        aliases: &[],
        kind: Kind::Choice(&IO),
        default: "auto",
        changeable: false,
        place: Place::Number(|values| &values.io),
        summary: "How to wait for sockets; auto takes io_uring where it works, and epoll elsewhere",
    },
    Setting {
        name: "lfu-decay-time",
        aliases: &[],
        kind: Kind::Integer(0..=i32::MAX as i64),
        default: "1",
        changeable: true,
        place: Place::Number(|values| &values.lfu_decay_time),
        summary: "Minutes without use after which a key counts as used once less, 0 for never",
    },
    Setting {
        name: "lfu-log-factor",
        aliases: &[],
        kind: Kind::Integer(0..=i32::MAX as i64),
        default: "10",
        changeable: true,
        place: Place::Number(|values| &values.lfu_log_factor),
        summary: "How many more uses it takes to be counted once more, for each time counted",
    },
    Setting {
        name: "logfile",
        aliases: &[],
        kind: Kind::Text,
        default: "",
        changeable: false,
        place: Place::Text(|values| &values.logfile),
        summary: "File that the log is appended to; none for the standard error stream",
    },
    Setting {
        name: "loglevel",
        aliases: &[],
        kind: Kind::Choice(&LOG_LEVELS),
        default: "notice",
        changeable: true,
        place: Place::Number(|values| &values.loglevel),
        summary: "How much is logged",
    },
    Setting {
        name: "maxclients",
        aliases: &[],
        kind: Kind::Integer(1..=u32::MAX as i64),
        default: "10000",
        changeable: true,
        place: Place::Number(|values| &values.maxclients),
        summary: "Most connections at a time",
    },
    Setting {
        name: "maxmemory",
        aliases: &[],
        kind: Kind::Memory(0..=i64::MAX as u64),
        default: "0",
        changeable: true,
        place: Place::Number(|values| &values.maxmemory),
        summary: "Most memory in use, 0 for no limit; unless it is given, three quarters of the \
                  container's limit where there is one",
    },
    Setting {
        name: "maxmemory-policy",
        aliases: &[],
        kind: Kind::Choice(&POLICIES),
        default: "noeviction",
        changeable: true,
        place: Place::Number(|values| &values.maxmemory_policy),
        summary: "Which keys go when maxmemory is reached",
    },
    Setting {
        name: "memcached-item-limit",
        aliases: &[],
        kind: Kind::Memory(1024..=1 << 30),
        default: "1mb",
        changeable: true,
        place: Place::Number(|values| &values.memcached_item_limit),
        summary: "Longest value that memcached clients may store",
    },
    Setting {
        name: "memcached-port",
        aliases: &[],
        kind: Kind::Port,
        default: "11211",
        changeable: false,
        place: Place::Number(|values| &values.memcached_port),
        summary: "Port for memcached clients; 0 for none, any for one that the kernel chooses",
    },
    Setting {
        name: "memcached-unixsocket",
        aliases: &[],
        kind: Kind::Words,
        default: "",
        changeable: false,
        place: Place::Text(|values| &values.memcached_unixsocket),
        summary: "Paths of sockets on which to serve memcached clients as well",
    },
    Setting {
        name: "pidfile",
        aliases: &[],
        kind: Kind::Text,
        default: "",
        changeable: false,
        place: Place::Text(|values| &values.pidfile),
        summary: "File that holds the process number while the server runs",
    },
    Setting {
        name: "port",
        aliases: &[],
        kind: Kind::Port,
        default: "6379",
        changeable: false,
        place: Place::Number(|values| &values.port),
        summary: "Port for Redis clients; 0 for none, any for one that the kernel chooses",
    },
    Setting {
        name: "protected-mode",
        aliases: &[],
        kind: Kind::Switch,
        default: "yes",
        changeable: true,
        place: Place::Number(|values| &values.protected_mode),
        summary: "Whether clients of other machines are refused while there is no requirepass",
    },
    Setting {
        name: "proto-max-bulk-len",
        aliases: &[],
        kind: Kind::Memory((1 << 20)..=i64::MAX as u64),
        default: "512mb",
        changeable: true,
        place: Place::Number(|values| &values.proto_max_bulk_len),
        summary: "Longest argument and longest string",
    },
    Setting {
        name: "requirepass",
        aliases: &[],
        kind: Kind::Text,
        default: "",
        changeable: true,
        place: Place::Text(|values| &values.requirepass),
        summary: "Password that clients have to give before anything else; none if it is empty",
    },
    Setting {
        name: "supervised",
        aliases: &[],
        kind: Kind::Choice(&SUPERVISORS),
        default: "no",
        changeable: false,
        place: Place::Number(|values| &values.supervised),
        summary: "Whom to tell that the server is ready, and not to leave",
    },
    Setting {
        name: "tcp-backlog",
        aliases: &[],
        kind: Kind::Integer(0..=i32::MAX as i64),
        default: "511",
        changeable: false,
        place: Place::Number(|values| &values.tcp_backlog),
        summary: "How many connections may wait to be accepted",
    },
    Setting {
        name: "tcp-keepalive",
        aliases: &[],
        kind: Kind::Integer(0..=i32::MAX as i64),
        default: "300",
        changeable: true,
        place: Place::Number(|values| &values.tcp_keepalive_s),
        summary: "Seconds of silence after which the kernel probes a connection; 0 for never",
    },
    Setting {
        name: "timeout",
        aliases: &[],
        kind: Kind::Integer(0..=i32::MAX as i64),
        default: "0",
        changeable: true,
        place: Place::Number(|values| &values.timeout_s),
        summary: "Seconds of silence after which a connection is closed; 0 for never",
    },
    Setting {
        name: "unixsocket",
        aliases: &[],
        kind: Kind::Words,
        default: "",
        changeable: false,
        place: Place::Text(|values| &values.unixsocket),
        summary: "Paths of sockets on which to serve Redis clients as well",
    },
    Setting {
        name: "unixsocketperm",
        aliases: &[],
        kind: Kind::Permissions,
        default: "0",
        changeable: false,
        place: Place::Number(|values| &values.unixsocketperm),
        summary: "Permissions of the sockets that are paths, in octal; 0 leaves them to the umask",
    },
    Setting {
        name: "workers",
        aliases: &[],
        kind: Kind::Integer(0..=1024),
        default: "0",
        changeable: false,
        place: Place::Number(|values| &values.workers),
        summary: "How many threads serve connections; 0 for one per core",
    },
];
