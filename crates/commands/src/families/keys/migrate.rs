//! MIGRATE: moves keys to another server.

use crate::families::scripting::submission::submit;
use crate::runtime::migration::{Migration, listed_keys, one_key, secrets};
use crate::state::scripts::TaskKind;
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&MIGRATE];

fn migrate<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    Migration::parse(args)?;
    submit(cx, TaskKind::Migrate, false)
}

/// The access to the keys.
const MOVED: Access = Access::RW.union(Access::ACCESS).union(Access::DELETE);

static MIGRATE: Command = Command {
    name: "MIGRATE",
    syntax: "host port key destination-db timeout [COPY] [REPLACE] \
             [AUTH password | AUTH2 username password] [KEYS key [key ...]]",
    arity: -6,
    // The script thread executes MIGRATE, so scripts, which occupy that thread, cannot call it.
    flags: Flags::WRITE.union(Flags::NOSCRIPT).union(Flags::RUNS_SCRIPTS),
    keys: Keys::groups(&[
        KeyGroup::by_grammar(one_key, MOVED).shown_at(3),
        KeyGroup::by_grammar(listed_keys, MOVED.union(Access::INCOMPLETE)).shown_after_last("KEYS"),
    ]),
    categories: Category::KEYSPACE.union(Category::DANGEROUS),
    group: Group::Generic,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the bytes of the values, and the network")
        .history(&[
            ("3.0.0", "COPY and REPLACE"),
            ("3.0.6", "KEYS"),
            ("4.0.7", "AUTH"),
            ("6.0.0", "AUTH2"),
        ])
        .tips(&["nondeterministic_output"])
        .secrets(secrets),
    summary: "Moves keys to another server",
    subcommands: &[],
    run: migrate,
};
