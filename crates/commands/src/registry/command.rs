//! A command's metadata: one literal row per command, from which lookup, the arity check, key
//! extraction, COMMAND and the documentation are derived.

use crate::registry::keys::Keys;
use crate::registry::notes::Notes;

/// A command's row, with a handler of type `H`.
#[derive(Debug)]
pub struct Command<H: 'static> {
    /// Its name in capitals; of a subcommand, only the second word.
    pub name: &'static str,
    /// Its arguments in the syntax of the documentation, with `[ ]` around optional ones.
    pub syntax: &'static str,
    /// Number of arguments, including the name (of a subcommand, both words); negative for "at
    /// least".
    pub arity: i8,
    /// Its flags, with the meaning of Redis.
    pub flags: Flags,
    /// The keys among its arguments.
    pub keys: Keys,
    /// ACL categories besides those that follow from the flags.
    pub categories: Category,
    /// The group under which it is documented.
    pub group: Group,
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// Its complexity, history and tips.
    pub notes: Notes,
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// The rows of its subcommands, if its first argument selects one.
    pub subcommands: &'static [&'static Command<H>],
    /// Its handler; of a row with subcommands, the handler for requests without one.
    pub run: H,
}

impl<H> Command<H> {
    /// Whether a request may have this number of words, including the name.
    #[must_use]
    #[inline]
    pub fn accepts(&self, words: usize) -> bool {
        let least = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { words >= least } else { words == least }
    }

    /// Its ACL categories, including those that follow from its flags.
    #[must_use]
    pub fn all_categories(&self) -> Category {
        let mut all = self.categories;
        all.set(Category::WRITE, self.flags.contains(Flags::WRITE));
        // As in Redis, read-only script commands are not in the category `@read`.
        let is_script = self.categories.contains(Category::SCRIPTING);
        all.set(Category::READ, self.flags.contains(Flags::READONLY) && !is_script);
        all.set(Category::BLOCKING, self.flags.contains(Flags::BLOCKING));
        if self.flags.contains(Flags::ADMIN) {
            all |= Category::ADMIN | Category::DANGEROUS;
        }
        all | if self.flags.contains(Flags::FAST) { Category::FAST } else { Category::SLOW }
    }
}

bitflags::bitflags! {
    /// The flags of a command, with the names and order of Redis' COMMAND.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// Changes the keyspace.
        const WRITE = 1 << 0;
        /// Reads keys.
        const READONLY = 1 << 1;
        /// Refused when memory has run out.
        const DENYOOM = 1 << 2;
        /// For administrators.
        const ADMIN = 1 << 3;
        /// For messages between clients.
        const PUBSUB = 1 << 4;
        /// Not allowed from scripts.
        const NOSCRIPT = 1 << 5;
        /// Answered while the dataset is loading.
        const LOADING = 1 << 6;
        /// Answered by a replica that has lost its primary.
        const STALE = 1 << 7;
        /// Takes constant or logarithmic time.
        const FAST = 1 << 8;
        /// Answered before the client has authenticated.
        const NO_AUTH = 1 << 9;
        /// Not allowed within a transaction.
        const NO_MULTI = 1 << 10;
        /// Answered while a script runs too long.
        const ALLOW_BUSY = 1 << 11;
        /// May wait.
        const BLOCKING = 1 << 12;
        /// Not answered while a new dataset is loaded in addition to the old one.
        const NO_ASYNC_LOADING = 1 << 13;
        /// A health check: answered while the dataset is loading, and refused like writes after a
        /// failed save. COMMAND does not show it.
        const PROBE = 1 << 14;
        /// Runs at once within a transaction, instead of being queued. COMMAND does not show it.
        const NOT_QUEUED = 1 << 15;
        /// Runs queued requests, and is refused if one of them would be. COMMAND does not show it.
        const RUNS_QUEUED = 1 << 16;
        /// Allowed for a RESP2 client with subscriptions. COMMAND does not show it.
        const WHILE_SUBSCRIBED = 1 << 17;
        /// Its reply is a message, which is sent even to a client with suppressed replies. COMMAND
        /// does not show it.
        const MESSAGES = 1 << 18;
        /// Delayed while writes are paused, as it would reach replicas. COMMAND does not show it.
        const PAUSED_AS_WRITE = 1 << 19;
        /// Runs a script, on the script thread. COMMAND does not show it.
        const RUNS_SCRIPTS = 1 << 20;
        /// Monitors are shown the commands that it runs, instead of the command itself.
        const SKIP_MONITOR = 1 << 21;
        /// The slow log gets the commands that it runs, instead of the command itself.
        const SKIP_SLOWLOG = 1 << 22;
        /// Its requests may have no keys.
        const NO_MANDATORY_KEYS = 1 << 23;
    }
}

impl Flags {
    /// The flags that COMMAND shows.
    #[must_use]
    pub fn shown(self) -> Flags {
        let unshown = Flags::PROBE | Flags::NOT_QUEUED | Flags::RUNS_QUEUED;
        self.difference(
            unshown
                | Flags::WHILE_SUBSCRIBED
                | Flags::MESSAGES
                | Flags::PAUSED_AS_WRITE
                | Flags::RUNS_SCRIPTS,
        )
    }
}

bitflags::bitflags! {
    /// ACL categories, in the order of Redis; some have no commands here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Category: u32 {
        /// Keys of any type.
        const KEYSPACE = 1 << 0;
        /// Follows from [`Flags::READONLY`].
        const READ = 1 << 1;
        /// Follows from [`Flags::WRITE`].
        const WRITE = 1 << 2;
        /// Sets.
        const SET = 1 << 3;
        /// Sorted sets.
        const SORTEDSET = 1 << 4;
        /// Lists.
        const LIST = 1 << 5;
        /// Hashes.
        const HASH = 1 << 6;
        /// Strings.
        const STRING = 1 << 7;
        /// Strings as arrays of bits.
        const BITMAP = 1 << 8;
        /// Strings as sketches of sets.
        const HYPERLOGLOG = 1 << 9;
        /// Positions on the earth.
        const GEO = 1 << 10;
        /// Streams.
        const STREAM = 1 << 11;
        /// Channels.
        const PUBSUB = 1 << 12;
        /// Follows from [`Flags::ADMIN`].
        const ADMIN = 1 << 13;
        /// Follows from [`Flags::FAST`].
        const FAST = 1 << 14;
        /// Follows from the absence of [`Flags::FAST`].
        const SLOW = 1 << 15;
        /// Follows from [`Flags::BLOCKING`].
        const BLOCKING = 1 << 16;
        /// Commands that can cause damage when used carelessly.
        const DANGEROUS = 1 << 17;
        /// Connections and clients.
        const CONNECTION = 1 << 18;
        /// Transactions.
        const TRANSACTION = 1 << 19;
        /// Scripts.
        const SCRIPTING = 1 << 20;
    }
}

macro_rules! groups {
    ($($(#[doc = $doc:literal])+ $group:ident $name:literal $title:literal,)+) => {
        /// The group that a command is documented under.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Group {
            $($(#[doc = $doc])+ $group,)+
        }

        impl Group {
            /// All groups, in the order of documentation.
            pub const ALL: &[Group] = &[$(Group::$group,)+];

            /// Its name in COMMAND DOCS.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Group::$group => $name,)+
                }
            }

            /// Its heading in documentation.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self {
                    $(Group::$group => $title,)+
                }
            }
        }
    };
}

groups! {
    /// Strings.
    String "string" "Strings",
    /// Hashes.
    Hash "hash" "Hashes",
    /// Sets.
    Set "set" "Sets",
    /// Lists.
    List "list" "Lists",
    /// Sorted sets.
    SortedSet "sorted-set" "Sorted sets",
    /// Streams.
    Stream "stream" "Streams",
    /// Positions on the earth.
    Geo "geo" "Geospatial indexes",
    /// Strings as arrays of bits.
    Bitmap "bitmap" "Bitmaps",
    /// Strings as sketches of sets.
    HyperLogLog "hyperloglog" "HyperLogLog",
    /// Messages between clients.
    PubSub "pubsub" "Publish and subscribe",
    /// Keys of any type.
    Generic "generic" "Keys",
    /// Requests that are executed as one.
    Transactions "transactions" "Transactions",
    /// Scripts.
    Scripting "scripting" "Scripts",
    /// Connections and clients.
    Connection "connection" "Connections",
    /// Clusters of servers.
    Cluster "cluster" "Clusters",
    /// The server.
    Server "server" "Server",
}
