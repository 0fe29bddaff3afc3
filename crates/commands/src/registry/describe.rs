//! What COMMAND INFO and COMMAND DOCS say of a command, from its row.

use crate::Flags;
use crate::registry::syntax::{self, Argument, Kind};
use crate::registry::table::Entry;
use crate::{Access, Command, Keys};
use nagi_proto::resp::Writer;

/// Writes the ten fields of COMMAND INFO.
pub(crate) fn describe(reply: &mut Writer<'_>, entry: &Entry) {
    let Command { arity, flags, keys, notes, .. } = *entry.command;
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.integer(arity.into());
    flag_names(reply, flags.difference(Flags::PROBE), "");
    for position in [keys.first, keys.last, keys.step] {
        reply.integer(position.into());
    }
    flag_names(reply, entry.command.all_categories(), "@");
    reply.set(notes.tips.len());
    for tip in notes.tips {
        reply.bulk(tip.as_bytes());
    }
    let groups = entry.command.key_groups();
    reply.set(groups.len());
    groups.iter().for_each(|keys| key_specification(reply, keys));
    reply.array(entry.subcommands().len());
    for sub in entry.subcommands() {
        describe(reply, sub);
    }
}

/// Writes a set of flags by their names in small letters, behind a prefix.
fn flag_names<F: bitflags::Flags + Copy>(reply: &mut Writer<'_>, flags: F, prefix: &str) {
    reply.set(flags.iter_names().count());
    for (name, _) in flags.iter_names() {
        reply.simple(&format!("{prefix}{}", name.to_ascii_lowercase()));
    }
}

fn key_specification(reply: &mut Writer<'_>, keys: &Keys) {
    reply.map(3);
    reply.bulk(b"flags");
    access_names(reply, keys.access);
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(keys.first.into());
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    // Counted from the first key here, unless negative.
    reply.integer((if keys.last < 0 { keys.last } else { keys.last - keys.first }).into());
    reply.bulk(b"keystep");
    reply.integer(keys.step.into());
    reply.bulk(b"limit");
    reply.integer(0);
}

/// Writes what is done with keys: whether values are read, overwritten or removed in capitals, the
/// rest in small letters.
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

/// Writes a map of what documentation says, by the names of commands.
pub(crate) fn document(reply: &mut Writer<'_>, entries: &[&Entry]) {
    reply.map(entries.len());
    for entry in entries {
        reply.bulk(entry.full_name.as_bytes());
        document_one(reply, entry);
    }
}

fn document_one(reply: &mut Writer<'_>, entry: &Entry) {
    let Command { summary, since, group, notes, name, .. } = *entry.command;
    let subcommands: Vec<&Entry> = entry.subcommands().iter().collect();
    let mut texts = vec![("summary", summary), ("since", since), ("group", group.name())];
    if !notes.complexity.is_empty() {
        texts.push(("complexity", notes.complexity));
    }
    if let Some((since, by)) = notes.replaced {
        texts.extend([("deprecated_since", since), ("replaced_by", by)]);
    }
    // The words of a command with subcommands are theirs.
    let arguments = match subcommands.is_empty() {
        true => syntax::arguments(entry.command.syntax, name),
        false => Vec::new(),
    };
    let flags: Vec<&str> = [("deprecated", notes.replaced.is_some()), ("syscmd", notes.internal)]
        .into_iter()
        .filter_map(|(flag, is_set)| is_set.then_some(flag))
        .collect();
    let others =
        [flags.is_empty(), notes.history.is_empty(), arguments.is_empty(), subcommands.is_empty()];
    reply.map(texts.len() + others.iter().filter(|is_empty| !**is_empty).count());
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
        let groups = entry.command.key_groups().len();
        document_arguments(reply, &arguments, &mut KeyPlaces { groups, next: 0 });
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        document(reply, &subcommands);
    }
}

/// To which group of keys the arguments belong that are keys, in order.
struct KeyPlaces {
    groups: usize,
    next: usize,
}

impl KeyPlaces {
    fn take(&mut self) -> usize {
        let place = self.next.min(self.groups.saturating_sub(1));
        self.next += 1;
        place
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
        let is_key = *kind == Kind::Key;
        let fields = [is_key, token.is_some(), !flags.is_empty()];
        reply.map(3 + fields.iter().filter(|it| **it).count());
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"type");
        reply.bulk(kind.name().as_bytes());
        if !has_parts {
            reply.bulk(b"display_text");
            reply.bulk(name.as_bytes());
        }
        if is_key {
            reply.bulk(b"key_spec_index");
            reply.integer(keys.take() as i64);
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
