//! Families of commands: a run draws from all families or mostly from one of them. With one family,
//! a million commands use the same few keys of one type.

use super::grammar::Rule;
use harness::Random;

/// The variable that names the family of a run. If it is not set, all families are mixed.
const VARIABLE: &str = "NAGI_DIFFERENTIAL_FAMILY";

/// The groups of commands that store data; each has its own type.
const DATA: [&str; 8] = [
    "Strings",
    "Hashes",
    "Lists",
    "Sets",
    "Sorted sets",
    "Streams",
    "Geospatial indexes",
    "HyperLogLog",
];

/// A family of commands, consisting of groups of the page of commands.
pub(super) struct Family {
    /// The family's name for `cargo xtask differential --family`.
    name: &'static str,
    /// The groups of commands that are compared.
    groups: &'static [&'static str],
    /// The groups of commands that supply or change data for these.
    helpers: &'static [&'static str],
    /// One of this many commands is a helper's.
    helper_share: u64,
    /// One of this many items of a batch is a transaction; none if 0.
    transaction_share: u64,
    /// One of this many items of a batch is a script; none if 0.
    script_share: u64,
}

impl Family {
    const fn of_type(name: &'static str, groups: &'static [&'static str]) -> Self {
        Family {
            name,
            groups,
            helpers: &["Keys"],
            helper_share: 8,
            transaction_share: 0,
            script_share: 0,
        }
    }
}

/// The family of all commands.
static MIXED: Family = Family {
    name: "mixed",
    groups: &[],
    helpers: &[],
    helper_share: 0,
    transaction_share: 40,
    script_share: 16,
};

static FAMILIES: [Family; 11] = [
    Family::of_type("string", &["Strings"]),
    Family::of_type("hash", &["Hashes"]),
    Family::of_type("list", &["Lists"]),
    Family::of_type("set", &["Sets"]),
    Family::of_type("sorted-set", &["Sorted sets"]),
    Family::of_type("stream", &["Streams"]),
    Family {
        helpers: &["Strings", "Keys"],
        ..Family::of_type("bitmap", &["Bitmaps", "HyperLogLog"])
    },
    Family { helpers: &["Sorted sets"], ..Family::of_type("geo", &["Geospatial indexes"]) },
    Family { helpers: &DATA, helper_share: 3, ..Family::of_type("key", &["Keys"]) },
    Family {
        helpers: &DATA,
        helper_share: 2,
        transaction_share: 4,
        ..Family::of_type("transaction", &["Transactions", "Keys"])
    },
    Family {
        helpers: &DATA,
        helper_share: 2,
        transaction_share: 20,
        script_share: 2,
        ..Family::of_type("script", &["Scripts", "Keys"])
    },
];

impl Family {
    /// Returns the family that the environment variable names.
    pub(super) fn chosen() -> &'static Self {
        let Ok(name) = std::env::var(VARIABLE) else { return &MIXED };
        let found = FAMILIES.iter().chain([&MIXED]).find(|family| family.name == name);
        found.unwrap_or_else(|| {
            let names = FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
            panic!("{VARIABLE} is one of mixed, {names}")
        })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether runs of the family contain scripts.
    pub(super) fn has_scripts(&self) -> bool {
        self.script_share > 0
    }

    /// Draws whether the next requests are a transaction.
    pub(super) fn begins_transaction(&self, random: &mut Random) -> bool {
        self.transaction_share > 0 && random.below(self.transaction_share) == 0
    }

    /// Draws whether the next request is a script.
    pub(super) fn runs_script(&self, random: &mut Random) -> bool {
        self.script_share > 0 && random.below(self.script_share) == 0
    }

    /// Whether the family uses strings, so that some may have 512 MB.
    pub(super) fn has_giants(&self) -> bool {
        ["mixed", "string", "bitmap"].contains(&self.name)
    }
}

/// The context in which a command is executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The command is a separate request.
    Alone,
    /// MULTI queues the command, so it never blocks.
    Queued,
    /// A script calls the command. There, redis-server 7.0 refuses commands that may block; later
    /// versions do not.
    Called,
}

/// The rules of a run.
pub(super) struct Rules {
    own: Vec<Rule>,
    helpers: Vec<Rule>,
    helper_share: u64,
    /// If the helpers have all types of data: the types that are in use at present.
    types: Option<[&'static str; 2]>,
}

impl Rules {
    pub(super) fn of(family: &Family, mut rules: Vec<Rule>) -> Self {
        let is_in = |rule: &Rule, groups: &[&str]| groups.contains(&rule.group.as_str());
        let is_own = |rule: &Rule| family.groups.is_empty() || is_in(rule, family.groups);
        let own = rules.extract_if(.., |rule| is_own(rule)).collect();
        rules.retain(|rule| is_in(rule, family.helpers));
        let types = (family.helpers == DATA).then_some([DATA[0], DATA[1]]);
        Rules { own, helpers: rules, helper_share: family.helper_share, types }
    }

    /// Chooses the types of the next keys. With all types at once, most commands would access a key
    /// of another type.
    pub(super) fn choose_types(&mut self, random: &mut Random) {
        if let Some(types) = &mut self.types {
            *types = [(); 2].map(|()| random.choose(&DATA));
        }
    }

    /// Returns the number of commands and subcommands.
    pub(super) fn len(&self) -> usize {
        self.own.len() + self.helpers.len()
    }

    /// Returns the rule of SET.
    pub(super) fn set(&self) -> Option<&Rule> {
        self.own.iter().find(|rule| rule.name == "SET")
    }

    /// Draws one of the rules.
    pub(super) fn draw(&self, random: &mut Random, place: Place) -> &Rule {
        let is_within = place != Place::Alone;
        let is_helper =
            !self.helpers.is_empty() && (is_within || random.below(self.helper_share) == 0);
        let rules = if is_helper { &self.helpers } else { &self.own };
        let is_absent = |rule: &Rule| {
            is_helper && self.types.is_some_and(|types| !types.contains(&rule.group.as_str()))
        };
        // Within transactions and scripts, most commands of the server and of connections are
        // refused.
        let needs_data = is_within && random.below(8) != 0;
        let fits = |rule: &Rule| {
            !is_absent(rule)
                && (place == Place::Queued || !rule.waits())
                && (!needs_data || has_data(rule))
        };
        loop {
            let rule = &rules[random.below(rules.len() as u64) as usize];
            if fits(rule) {
                return rule;
            }
        }
    }
}

/// Whether a command reads or changes data.
fn has_data(rule: &Rule) -> bool {
    DATA.contains(&rule.group.as_str()) || ["Keys", "Bitmaps"].contains(&rule.group.as_str())
}
