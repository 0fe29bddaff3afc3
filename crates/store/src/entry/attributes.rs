//! The attributes of an entry, in addition to its key and value.

/// The attributes of an entry, in addition to its key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// memcached's client flags.
    pub flags: u32,
    /// memcached's unique number of this version; absent until a `gets` requests it.
    pub cas: Option<u64>,
    /// memcached's marks on this version.
    pub marks: Marks,
}

/// memcached's marks on a version of an entry. A newly stored value has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The value has been read since it was stored.
    pub fetched: bool,
    /// The value was marked stale, and is served until it is replaced.
    pub stale: bool,
    /// One client has been told to replace the value.
    pub won: bool,
}
