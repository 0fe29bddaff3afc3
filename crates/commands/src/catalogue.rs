//! The list of all rows. Lower modules do not import this one: they get the table as an argument.

use crate::config::Config;
use crate::families::{
    bitmaps, cluster, connections, geo, hashes, hyperloglog, keys, lists, pubsub, scripting,
    server, sets, sorted_sets, streams, strings, transactions,
};
use crate::memcached::VERBS;
use crate::runtime::context::{Command, CommandTable};
use std::sync::LazyLock;

/// The rows, family by family.
const FAMILIES: &[&[&Command]] = &[
    bitmaps::bitfield::ALL,
    bitmaps::bitmap::ALL,
    bitmaps::bitop::ALL,
    cluster::ALL,
    connections::client::ALL,
    connections::connection::ALL,
    geo::position::ALL,
    geo::radius::ALL,
    hashes::expiry::ALL,
    hashes::hash::ALL,
    hashes::setex::ALL,
    hashes::walk::ALL,
    hyperloglog::ALL,
    keys::key::ALL,
    keys::keyspace::ALL,
    keys::migrate::ALL,
    keys::object::ALL,
    keys::relocation::ALL,
    keys::serialization::ALL,
    keys::sorting::ALL,
    lists::blocking::ALL,
    lists::pop::ALL,
    lists::push::ALL,
    lists::range::ALL,
    lists::search::ALL,
    pubsub::channels::ALL,
    pubsub::publication::ALL,
    pubsub::subscription::ALL,
    scripting::eval::ALL,
    scripting::function::ALL,
    scripting::script::ALL,
    server::acl::ALL,
    server::command::ALL,
    server::config::ALL,
    server::debug::ALL,
    server::hotkeys::ALL,
    server::latency::ALL,
    server::lolwut::ALL,
    server::memory::ALL,
    server::module::ALL,
    server::monitor::ALL,
    server::persistence::ALL,
    server::replication::ALL,
    server::process::ALL,
    server::info::ALL,
    server::commandlog::ALL,
    server::slowlog::ALL,
    sets::combine::ALL,
    sets::set::ALL,
    sets::walk::ALL,
    sorted_sets::blocking::ALL,
    sorted_sets::combine::ALL,
    sorted_sets::member::ALL,
    sorted_sets::range::ALL,
    sorted_sets::removal::ALL,
    sorted_sets::walk::ALL,
    streams::entry::ALL,
    streams::group::ALL,
    streams::info::ALL,
    streams::pending::ALL,
    streams::range::ALL,
    streams::read::ALL,
    strings::float::ALL,
    strings::lcs::ALL,
    strings::range::ALL,
    strings::string::ALL,
    transactions::transaction::ALL,
];

static TABLE: LazyLock<CommandTable> = LazyLock::new(new_table);

fn new_table() -> CommandTable {
    CommandTable::new(FAMILIES, VERBS.iter().map(|verb| verb.name).collect())
}

/// All commands.
#[must_use]
pub fn command_table() -> &'static CommandTable {
    &TABLE
}

/// All commands, with the names set by `rename-command`.
///
/// # Errors
/// The place of an invalid renaming, and the reason.
pub fn renamed_table(config: &Config) -> Result<&'static CommandTable, String> {
    let renamings = config.renamings();
    if renamings.is_empty() {
        return Ok(command_table());
    }
    let pairs = renamings.iter().map(|it| (it.old.as_str(), it.new.as_str()));
    let renamed = new_table().renamed(pairs).map_err(|(place, reason)| {
        let place = renamings.get(place).map_or("", |renaming| &renaming.place);
        format!("{place}: {reason}")
    })?;
    // Leaked once per process, and needed until the process ends.
    Ok(Box::leak(Box::new(renamed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::command::{Category, Flags};
    use crate::registry::syntax::arguments;
    use crate::registry::table::FIRST_VERB;
    use nagi_store::Intent;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_found_in_any_case() {
        let table = command_table();
        for entry in table.commands() {
            for name in [entry.full_name.clone(), entry.full_name.to_uppercase()] {
                assert_eq!(table.find(name.as_bytes()).unwrap().index, entry.index, "{name}");
            }
            for sub in table.subcommands(entry) {
                let found =
                    table.subcommand(entry, sub.command.name.to_lowercase().as_bytes()).unwrap();
                assert_eq!(found.index, sub.index, "{}", sub.full_name);
            }
        }
        for name in ["", "g", "ge", "gett", "get ", "\0\0\0", "a name longer than any there is"] {
            assert!(table.find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn rows_are_consistent() {
        let table = command_table();
        let mut names = BTreeSet::new();
        for entry in table.entries() {
            let Command { name, arity, flags, keys, categories, summary, since, .. } =
                *entry.command;
            let full_name = &entry.full_name;
            assert!(names.insert(full_name), "{full_name} is there twice");
            assert_eq!(name, name.to_uppercase(), "names are written in capitals");
            assert_ne!(arity, 0, "{full_name}: the name counts");
            let least = i64::from(arity.unsigned_abs());
            let ([first, last, _], _) = keys.as_one_range();
            // Channels are not keys: SUNSUBSCRIBE may have none.
            let may_lack = keys.all_groups().is_empty();
            assert!(may_lack || first < least && last < least, "{full_name}: a key is missing");
            // WATCH neither reads nor writes, but prepares a transaction. Commands that run scripts
            // leave reading and writing to the commands that the scripts call.
            let may_do_neither = name == "WATCH" || flags.contains(Flags::RUNS_SCRIPTS);
            if !keys.all_groups().is_empty() && !may_do_neither {
                let both = Flags::WRITE | Flags::READONLY;
                let changes = flags.intersection(both);
                assert!(changes.bits().count_ones() == 1, "{full_name}: either reads or writes");
                // PFCOUNT keeps its estimate within the sketch.
                let reads = keys.intent() == Intent::Read || name == "PFCOUNT";
                assert_eq!(reads, flags.contains(Flags::READONLY), "{full_name}: access");
            }
            if flags.contains(Flags::DENYOOM) {
                assert!(flags.contains(Flags::WRITE), "{full_name}: only writes need memory");
            }
            let derived = Category::READ | Category::WRITE | Category::FAST | Category::SLOW;
            assert!(!categories.intersects(derived), "{full_name}: those follow from flags");
            assert!(summary.len() > 10 && !summary.ends_with('.'), "{full_name}: {summary}");
            assert_eq!(since.split('.').count(), 3, "{full_name}: {since}");
        }
        assert!(table.entries().len() > table.commands().len());
        let longest = table.entries().iter().map(|entry| entry.command.name.len()).max();
        assert!(longest.unwrap() <= 24, "a name is found that is no longer than this");
    }

    #[test]
    fn each_command_and_verb_has_a_label_by_its_number() {
        let table = command_table();
        assert_eq!(table.label(0), "NULL");
        assert_eq!(table.label(u32::MAX), "NULL");
        for (number, entry) in (1..).zip(table.entries()) {
            assert_eq!(table.label(number), entry.full_name);
        }
        assert_eq!(table.label(FIRST_VERB), "get");
        assert_eq!(table.label(FIRST_VERB - 1), "NULL");
    }

    #[test]
    fn the_syntax_of_every_row_is_parsed() {
        for entry in command_table().entries() {
            let syntax = entry.command.syntax;
            let count = |bracket| syntax.matches(bracket).count();
            assert_eq!(count('['), count(']'), "{syntax}");
            assert_eq!(count('<'), count('>'), "{syntax}");
            assert_eq!(arguments(syntax, "X").is_empty(), syntax.is_empty(), "{syntax}");
        }
    }
}
