//! The replies of COMMAND INFO and COMMAND DOCS for a command, from its row.

use crate::registry::keys::{Extent, KeyFinder, KeyGroup};
use crate::registry::syntax::{self, Argument, Kind};
use crate::{Access, Command, CommandTable, Entry};
use nagi_proto::resp::Writer;

/// Writes the ten fields of COMMAND INFO.
pub(crate) fn describe(reply: &mut Writer<'_>, table: &CommandTable, entry: &Entry) {
    let Command { arity, flags, keys, notes, .. } = *entry.command;
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.integer(arity.into());
    let (range, has_more_keys) = keys.as_one_range();
    let shown = flags.shown();
    reply.set(shown.iter_names().count() + usize::from(has_more_keys));
    flag_names(reply, shown, "");
    if has_more_keys {
        reply.simple("movablekeys");
    }
    range.into_iter().for_each(|position| reply.integer(position));
    let categories = entry.command.all_categories();
    reply.set(categories.iter_names().count());
    flag_names(reply, categories, "@");
    reply.set(notes.tips.len());
    for tip in notes.tips {
        reply.bulk(tip.as_bytes());
    }
    let groups = keys.specifications();
    reply.set(groups.len());
    groups.iter().for_each(|group| key_specification(reply, group));
    let subcommands = table.subcommands(entry);
    // As by Redis, the kind depends on whether there are any.
    match subcommands.len() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    for sub in subcommands {
        describe(reply, table, sub);
    }
}

/// Writes the names of flags in lower case, each after a prefix.
fn flag_names<F: bitflags::Flags + Copy>(reply: &mut Writer<'_>, flags: F, prefix: &str) {
    for (name, _) in flags.iter_names() {
        reply.simple(&format!("{prefix}{}", name.to_ascii_lowercase()));
    }
}

fn key_specification(reply: &mut Writer<'_>, group: &KeyGroup) {
    reply.map(3);
    reply.bulk(b"flags");
    access_names(reply, group.access());
    let (begin, find) = ("begin_search", "find_keys");
    let range = |last, step, limit| {
        [("lastkey", Number(last)), ("keystep", Number(step)), ("limit", Number(limit))]
    };
    match group.shown() {
        KeyFinder::Range { first, last, step } => {
            // COMMAND INFO gives the last key relative to the first one, unless it is negative.
            let last = if last < 0 { last.into() } else { i64::from(last) - i64::from(first) };
            search(reply, begin, "index", &[("index", Number(first.into()))]);
            search(reply, find, "range", &range(last, step.into(), 0));
        }
        KeyFinder::Counted { at } => {
            let keys = [("keynumidx", Number(0)), ("firstkey", Number(1)), ("keystep", Number(1))];
            search(reply, begin, "index", &[("index", Number(at.into()))]);
            search(reply, find, "keynum", &keys);
        }
        KeyFinder::AfterWord { word, from, extent } => {
            let (last, limit) = match extent {
                Extent::One => (0, 0),
                Extent::FirstHalf => (-1, 2),
            };
            let keyword = [("keyword", Word(word)), ("startfrom", Number(from.into()))];
            search(reply, begin, "keyword", &keyword);
            search(reply, find, "range", &range(last, 1, limit));
        }
        KeyFinder::AfterLast { word } => {
            // The keyword is at the latest the last argument but one.
            search(reply, begin, "keyword", &[("keyword", Word(word)), ("startfrom", Number(-2))]);
            search(reply, find, "range", &range(-1, 1, 0));
        }
        KeyFinder::Grammar(_) => {
            search(reply, begin, "unknown", &[]);
            search(reply, find, "unknown", &[]);
        }
    }
}

use Field::{Number, Word};

/// A value in a key specification.
enum Field {
    Number(i64),
    Word(&'static str),
}

/// Writes one half of a key specification: how to begin the search, or how to find the keys.
fn search(reply: &mut Writer<'_>, half: &str, kind: &str, fields: &[(&str, Field)]) {
    reply.bulk(half.as_bytes());
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        match value {
            Number(number) => reply.integer(*number),
            Word(word) => reply.bulk(word.as_bytes()),
        }
    }
}

/// Writes the access to keys: the flags for reading, overwriting and removing values in capitals,
/// all others in lower case.
pub(crate) fn access_names(reply: &mut Writer<'_>, access: Access) {
    reply.set(access.iter_names().count());
    for (name, _) in access.iter_names() {
        if name.len() == 2 {
            reply.simple(name);
        } else {
            reply.simple(&name.to_ascii_lowercase());
        }
    }
}

/// Writes the name and the documentation of a command: an element of a map.
pub(crate) fn document(reply: &mut Writer<'_>, table: &CommandTable, entry: &Entry) {
    reply.bulk(entry.full_name.as_bytes());
    let Command { summary, since, group, notes, name, .. } = *entry.command;
    let subcommands: Vec<&Entry> = table.subcommands(entry).iter().collect();
    let mut texts = vec![("summary", summary), ("since", since), ("group", group.name())];
    if !notes.complexity.is_empty() {
        texts.push(("complexity", notes.complexity));
    }
    if let Some((since, by)) = notes.replaced {
        texts.extend([("deprecated_since", since), ("replaced_by", by)]);
    }
    // The words of a command with subcommands are documented with the subcommands.
    let arguments = match subcommands.is_empty() {
        true => syntax::arguments(entry.command.syntax, name),
        false => Vec::new(),
    };
    let flags: Vec<&str> = [("deprecated", notes.replaced.is_some()), ("syscmd", notes.internal)]
        .into_iter()
        .filter_map(|(flag, is_set)| is_set.then_some(flag))
        .collect();
    let optional_fields =
        [flags.is_empty(), notes.history.is_empty(), arguments.is_empty(), subcommands.is_empty()];
    reply.map(texts.len() + optional_fields.iter().filter(|is_empty| !**is_empty).count());
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !flags.is_empty() {
        reply.bulk(b"doc_flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if !notes.history.is_empty() {
        reply.bulk(b"history");
        reply.set(notes.history.len());
        for (version, addition) in notes.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(addition.as_bytes());
        }
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        let groups = entry.command.keys.all_groups().len();
        document_arguments(reply, &arguments, &mut KeyPlaces { groups, next: 0 });
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|entry| document(reply, table, entry));
    }
}

/// Assigns arguments that are keys to the groups of keys, in their order.
struct KeyPlaces {
    groups: usize,
    next: usize,
}

impl KeyPlaces {
    /// Returns the index of the group of an argument; `None` if the argument is not a key.
    fn take(&mut self, argument: &Argument) -> Option<usize> {
        let place = match (argument.kind, argument.token) {
            (Kind::Key, _) => self.next,
            // The patterns of SORT share a group, which follows that of the source.
            (Kind::Pattern, Some("BY" | "GET")) => 1,
            _ => return None,
        };
        self.next = self.next.max(place + 1);
        Some(place.min(self.groups.saturating_sub(1)))
    }
}

fn document_arguments(reply: &mut Writer<'_>, arguments: &[Argument], keys: &mut KeyPlaces) {
    reply.array(arguments.len());
    for argument in arguments {
        let Argument { name, kind, token, optional, multiple, multiple_token, parts } = argument;
        let has_parts = matches!(kind, Kind::OneOf | Kind::Block);
        let flags: Vec<&str> =
            [("optional", *optional), ("multiple", *multiple), ("multiple_token", *multiple_token)]
                .into_iter()
                .filter_map(|(flag, is_set)| is_set.then_some(flag))
                .collect();
        let key_place = keys.take(argument);
        let fields = [key_place.is_some(), token.is_some(), !flags.is_empty()];
        reply.map(3 + fields.iter().filter(|it| **it).count());
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"type");
        reply.bulk(kind.name().as_bytes());
        if !has_parts {
            reply.bulk(b"display_text");
            reply.bulk(name.as_bytes());
        }
        if let Some(place) = key_place {
            reply.bulk(b"key_spec_index");
            reply.integer(place as i64);
        }
        if let Some(token) = token {
            reply.bulk(b"token");
            reply.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag));
        }
        if has_parts {
            reply.bulk(b"arguments");
            document_arguments(reply, parts, keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_proto::Output;
    use nagi_proto::resp::Version;

    fn shown(group: KeyGroup) -> String {
        let mut out = Output::default();
        key_specification(&mut Writer::new(&mut out, Version::Two), &group);
        let text: Vec<u8> = out.slices().flatten().copied().collect();
        let words = String::from_utf8(text).unwrap();
        let is_value = |line: &&str| !line.starts_with(['$', '*']);
        words.lines().filter(is_value).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_key_specification_is_described() {
        let read = Access::RO;
        for (group, specification) in [
            (
                KeyGroup::range(2, 3, 1, read),
                "type index spec index :2 find_keys type range spec lastkey :1 keystep :1 limit :0",
            ),
            (
                KeyGroup::range(1, -2, 1, read),
                "type index spec index :1 find_keys type range spec lastkey :-2 keystep :1 \
                 limit :0",
            ),
            (
                KeyGroup::counted(2, read),
                "type index spec index :2 find_keys type keynum spec keynumidx :0 firstkey :1 \
                 keystep :1",
            ),
            (
                KeyGroup::after_word("STORE", 6, read),
                "type keyword spec keyword STORE startfrom :6 find_keys type range spec \
                 lastkey :0 keystep :1 limit :0",
            ),
            (
                KeyGroup::half_after_word("STREAMS", 1, read),
                "type keyword spec keyword STREAMS startfrom :1 find_keys type range spec \
                 lastkey :-1 keystep :1 limit :2",
            ),
            (KeyGroup::by_grammar(|_| 0..0, read), "type unknown spec find_keys type unknown spec"),
            (
                KeyGroup::by_grammar(|_| 0..0, read).shown_at(3),
                "type index spec index :3 find_keys type range spec lastkey :0 keystep :1 limit :0",
            ),
            (
                KeyGroup::by_grammar(|_| 0..0, read).shown_after_last("KEYS"),
                "type keyword spec keyword KEYS startfrom :-2 find_keys type range spec \
                 lastkey :-1 keystep :1 limit :0",
            ),
        ] {
            assert_eq!(shown(group), format!("flags +RO begin_search {specification}"));
        }
    }
}
