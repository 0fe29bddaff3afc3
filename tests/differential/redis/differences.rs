//! How replies are compared, and in what they may differ all the same.

use super::generator::Words;
use harness::Reply;

/// How replies are compared.
#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    /// A number, within this: the servers were asked one after the other.
    Near(u64),
    /// Lists in any order, those within them as well.
    Unordered,
    /// Of the same kind; of maps, the same keys.
    Kind,
}

/// Commands whose replies are not compared byte by byte, and why.
const LOOSE: &[(&str, Comparison, &str)] = &[
    ("ACL GENPASS", Comparison::Kind, "is drawn"),
    ("ACL LOG", Comparison::Kind, "tells of sockets and times"),
    ("MEMORY USAGE", Comparison::Kind, "what a key takes is each server's own"),
    ("CLIENT ID", Comparison::Kind, "a number of the server's own"),
    ("CLIENT INFO", Comparison::Kind, "tells of sockets and memory"),
    ("CLIENT LIST", Comparison::Kind, "tells of sockets and memory"),
    ("CONFIG GET", Comparison::Unordered, "settings come in any order"),
    ("DUMP", Comparison::Kind, "the same value can be written in several ways"),
    ("EXPIRETIME", Comparison::Near(10), "set one after the other"),
    ("HELLO", Comparison::Kind, "names the server and the connection"),
    ("KEYS", Comparison::Unordered, "keys come in any order"),
    ("OBJECT IDLETIME", Comparison::Near(3), "asked one after the other"),
    ("PEXPIRETIME", Comparison::Near(10_000), "set one after the other"),
    ("PTTL", Comparison::Near(10_000), "asked one after the other"),
    ("RANDOMKEY", Comparison::Kind, "is drawn"),
    ("SCAN", Comparison::Unordered, "keys come in any order"),
    ("SLOWLOG GET", Comparison::Kind, "what is slow is each server's own"),
    ("SLOWLOG LEN", Comparison::Kind, "what is slow is each server's own"),
    ("TIME", Comparison::Kind, "asked one after the other"),
    ("TTL", Comparison::Near(10), "asked one after the other"),
    ("LATENCY HISTOGRAM", Comparison::Kind, "how long each took is the machine's"),
    ("LATENCY LATEST", Comparison::Kind, "what is slow is each server's own"),
    ("LATENCY HISTORY", Comparison::Kind, "what is slow is each server's own"),
];

/// What Redis 7.0 answers otherwise than 7.2, whose behaviour nagi has, or what nagi means to.
struct Difference {
    /// The first word, or both of a subcommand.
    command: &'static str,
    accepts: fn(&Words, &Reply, &Reply) -> bool,
    reason: &'static str,
}

/// How many references Redis says a small integer has.
const SHARED: i64 = 2_147_483_647;

const DIFFERENCES: &[Difference] = &[
    Difference {
        command: "COMMAND GETKEYS SYNC",
        accepts: |_, ours, theirs| matches!((ours, theirs), (Reply::Error(_), Reply::Error(_))),
        reason: "SYNC is of replication, which is not there",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS SYNC",
        accepts: |_, ours, theirs| matches!((ours, theirs), (Reply::Error(_), Reply::Error(_))),
        reason: "SYNC is of replication, which is not there",
    },
    Difference {
        command: "ACL GETUSER",
        accepts: |_, ours, _| shows(&ours.list()[1].list()[2], "sanitize-payload"),
        reason: "since 7.2 a user's flags have sanitize-payload",
    },
    Difference {
        command: "ACL LIST",
        accepts: |_, ours, _| ours.list()[0].text().contains(" sanitize-payload "),
        reason: "since 7.2 a user's flags have sanitize-payload",
    },
    Difference {
        command: "BITCOUNT",
        accepts: |_, ours, theirs| is_late(ours, theirs),
        reason: "since 7.2 arguments are checked before the key is looked for",
    },
    Difference {
        command: "BITPOS",
        accepts: |_, ours, theirs| is_late(ours, theirs),
        reason: "since 7.2 arguments are checked before the key is looked for",
    },
    Difference {
        command: "COMMAND",
        accepts: |words, _, _| words.len() == 1,
        reason: "lists what there is",
    },
    Difference {
        command: "COMMAND INFO",
        accepts: |_, _, _| true,
        reason: "says more since 7.2; it is only met where damage makes it of another command",
    },
    Difference {
        command: "COMMAND GETKEYS",
        accepts: |words, ours, theirs| is_lone(words, ours, theirs),
        reason: "since 7.2 a command may stand there without arguments",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS",
        accepts: |words, ours, theirs| is_lone(words, ours, theirs),
        reason: "since 7.2 a command may stand there without arguments",
    },
    Difference {
        command: "COMMAND GETKEYS PFMERGE",
        accepts: |words, _, theirs| words.len() == 4 && matches!(theirs, Reply::Error(_)),
        reason: "Redis takes the destination alone for a mistake, which PFMERGE itself does not",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS PFMERGE",
        accepts: |words, _, theirs| words.len() == 4 && matches!(theirs, Reply::Error(_)),
        reason: "Redis takes the destination alone for a mistake, which PFMERGE itself does not",
    },
    Difference {
        command: "HELLO",
        accepts: |_, ours, theirs| match (ours, theirs) {
            (Reply::Error(ours), Reply::Error(theirs)) => {
                ours.starts_with("ERR Syntax error") && theirs.starts_with("WRONGPASS")
            }
            _ => false,
        },
        reason: "since 7.2 all options are read before the login",
    },
    Difference {
        command: "LATENCY HISTOGRAM",
        accepts: |_, ours, theirs| match (ours, theirs) {
            (Reply::Map(ours), Reply::Map(theirs)) | (Reply::Array(ours), Reply::Array(theirs)) => {
                let mut keys = ours.iter().step_by(2);
                keys.all(|key| {
                    shows(key, "command|getkeys")
                        || shows(key, "command|getkeysandflags")
                        || theirs.contains(key)
                })
            }
            _ => false,
        },
        reason: "COMMAND GETKEYS of a word alone, which counts since 7.2",
    },
    Difference {
        command: "OBJECT IDLETIME",
        accepts: |_, ours, theirs| match (ours, theirs) {
            // The later use may have been of either server's: RESTORE sets one long ago.
            (Reply::Integer(ours), Reply::Integer(theirs)) => {
                ours != theirs && *ours.min(theirs) < 3
            }
            _ => false,
        },
        reason: "in Redis all keys with the same small integer share one time of use",
    },
    Difference {
        command: "OBJECT REFCOUNT",
        accepts: |_, ours, theirs| {
            matches!((ours, theirs), (Reply::Integer(SHARED), Reply::Integer(1)))
        },
        reason: "small integers count as shared, which a copy is not in Redis",
    },
    Difference {
        command: "PFDEBUG",
        accepts: |_, ours, theirs| is_broken(ours) || is_bulk(ours) && is_bulk(theirs),
        reason: "Redis decodes what there is of a broken sketch, and bytes that lie behind it",
    },
    Difference {
        command: "SCAN",
        accepts: |words, ours, theirs| {
            let begins = words.get(1).is_some_and(|cursor| [&b"0"[..], b""].contains(&&cursor[..]));
            let count = words.iter().rposition(|word| word.eq_ignore_ascii_case(b"COUNT"));
            let is_whole = count.and_then(|at| words.get(at + 1)).is_some_and(|it| it.len() > 3);
            !(begins && is_whole) && same(Comparison::Kind, ours, theirs)
        },
        reason: "without a count for all of them, how many keys come at once is a server's own",
    },
];

fn is_lone(words: &Words, ours: &Reply, theirs: &Reply) -> bool {
    words.len() == 3 && matches!((ours, theirs), (Reply::Error(_), Reply::Error(_)))
}

fn is_late(ours: &Reply, theirs: &Reply) -> bool {
    matches!((ours, theirs), (Reply::Error(_), Reply::Integer(-1 | 0)))
}

fn is_broken(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("INVALIDOBJ"))
}

fn is_bulk(reply: &Reply) -> bool {
    matches!(reply, Reply::Bulk(_))
}

fn shows(reply: &Reply, text: &str) -> bool {
    matches!(reply, Reply::Bulk(bytes) if bytes == text.as_bytes())
}

/// What became of a pair of replies.
pub(super) enum Verdict {
    /// They are the same.
    Same,
    /// They differ as they may.
    Explained(&'static str),
    /// They differ as they must not.
    Different,
}

/// Compares the replies to a command, each with its bytes.
pub(super) fn judge(words: &Words, ours: &(Reply, Vec<u8>), theirs: &(Reply, Vec<u8>)) -> Verdict {
    if ours.1 == theirs.1 {
        return Verdict::Same;
    }
    let loose = LOOSE.iter().find(|(command, ..)| is_command(words, command));
    if loose.is_some_and(|(_, comparison, _)| same(*comparison, &ours.0, &theirs.0)) {
        return Verdict::Same;
    }
    let mut known = DIFFERENCES.iter().filter(|it| is_command(words, it.command));
    match known.find(|it| (it.accepts)(words, &ours.0, &theirs.0)) {
        Some(difference) => Verdict::Explained(difference.reason),
        None => Verdict::Different,
    }
}

fn is_command(words: &Words, name: &str) -> bool {
    let parts: Vec<&str> = name.split(' ').collect();
    words.len() >= parts.len()
        && parts.iter().zip(words).all(|(part, word)| word.eq_ignore_ascii_case(part.as_bytes()))
}

fn same(comparison: Comparison, ours: &Reply, theirs: &Reply) -> bool {
    match comparison {
        Comparison::Near(most) => match (ours, theirs) {
            (Reply::Integer(a), Reply::Integer(b)) if *a >= 0 && *b >= 0 => a.abs_diff(*b) <= most,
            _ => ours == theirs,
        },
        Comparison::Unordered => unordered(ours, theirs),
        Comparison::Kind => match (ours, theirs) {
            (Reply::Error(_), _) | (_, Reply::Error(_)) => ours == theirs,
            (Reply::Map(a), Reply::Map(b)) => {
                let has = |list: &[Reply], key| list.iter().step_by(2).any(|other| other == key);
                a.len() == b.len() && a.iter().step_by(2).all(|key| has(b, key))
            }
            _ => std::mem::discriminant(ours) == std::mem::discriminant(theirs),
        },
    }
}

fn unordered(ours: &Reply, theirs: &Reply) -> bool {
    match (ours, theirs) {
        (Reply::Array(a), Reply::Array(b))
        | (Reply::Map(a), Reply::Map(b))
        | (Reply::Set(a), Reply::Set(b)) => {
            let has = |list: &[Reply], item| list.iter().any(|other| unordered(item, other));
            a.len() == b.len() && a.iter().all(|item| has(b, item))
        }
        _ => ours == theirs,
    }
}
