//! Events: what happened to a key, by the names that keyspace notifications have for it.

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say what they are, as Redis' documentation tells")]
pub enum Event {
    Append,
    CopyTo,
    Del,
    Evicted,
    Expire,
    Expired,
    IncrBy,
    IncrByFloat,
    MoveFrom,
    MoveTo,
    Persist,
    PfAdd,
    RenameFrom,
    RenameTo,
    Restore,
    Set,
    SetBit,
    SetRange,
}

impl Event {
    /// Redis' name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Event::Append => "append",
            Event::CopyTo => "copy_to",
            Event::Del => "del",
            Event::Evicted => "evicted",
            Event::Expire => "expire",
            Event::Expired => "expired",
            Event::IncrBy => "incrby",
            Event::IncrByFloat => "incrbyfloat",
            Event::MoveFrom => "move_from",
            Event::MoveTo => "move_to",
            Event::Persist => "persist",
            Event::PfAdd => "pfadd",
            Event::RenameFrom => "rename_from",
            Event::RenameTo => "rename_to",
            Event::Restore => "restore",
            Event::Set => "set",
            Event::SetBit => "setbit",
            Event::SetRange => "setrange",
        }
    }
}
