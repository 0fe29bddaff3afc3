//! The attributes of an entry besides key and value.

/// The attributes of an entry besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// memcached's client flags.
    pub flags: u32,
    /// memcached's unique number of this version; absent until a `gets` asks for it.
    pub cas: Option<u64>,
    /// What memcached's clients have learned about this version.
    pub marks: Marks,
}

/// What memcached's clients have learned about a version of an entry. A value that is stored
/// begins without marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It has been read since it was stored.
    pub fetched: bool,
    /// It was declared out of date, and is still given out until it is replaced.
    pub stale: bool,
    /// One client has been told that it is the one to replace the value.
    pub won: bool,
}
