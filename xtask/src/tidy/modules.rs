//! Checks that the files of a crate import each other in one direction only, and that the modules
//! declared in its root do so only along the edges of the design.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Repository;
use crate::rust_source::imports::{Import, Source, imports, test_only_modules};

/// A module, and the modules that it may use. Every module may use items defined in the crate's
/// root.
type Module = (&'static str, &'static [&'static str]);

/// The modules that each module of each crate may use. Every module must have a row.
///
/// The row of a module comes after the rows of the modules that it uses; `cargo xtask imports
/// CRATE` prints them.
const MODULES: &[(&str, &[Module])] = &[
    ("chunk", CHUNK),
    ("proto", PROTO),
    ("store", STORE),
    ("persist", PERSIST),
    ("lua", &[]),
    ("script", SCRIPT),
    ("scheduling", &[]),
    ("findings", FINDINGS),
    ("commands", COMMANDS),
    ("pipe", PIPE),
    ("http", HTTP),
    ("server", SERVER),
    ("client", CLIENT),
    ("load", LOAD),
    ("doctor", DOCTOR),
    ("top", TOP),
    ("nagi", NAGI),
];

const CHUNK: &[Module] = &[("pool", &[])];

const PROTO: &[Module] = &[
    ("output", &[]),
    ("malformed", &[]),
    ("decimal", &[]),
    ("line", &[]),
    ("args", &["output"]),
    ("resp", &["args", "line", "malformed", "output"]),
    ("memcached", &["args", "line", "malformed", "output"]),
];

const STORE: &[Module] = &[
    ("siphash", &[]),
    ("sync", &[]),
    ("memory", &["sync"]),
    ("value", &["memory"]),
    ("tree", &["memory", "siphash", "sync", "value"]),
    ("packed", &["tree", "value"]),
    ("collections", &["memory", "packed", "tree", "value"]),
    ("entry", &["collections", "memory", "packed", "siphash", "sync", "tree", "value"]),
    ("eviction", &["entry"]),
    ("snapshot", &["entry", "sync"]),
    ("index", &["entry", "eviction", "memory", "snapshot", "sync", "value"]),
    ("claims", &["entry", "memory", "sync"]),
    ("effects", &["collections", "entry", "value"]),
    (
        "keyspace",
        &[
            "claims",
            "collections",
            "effects",
            "entry",
            "eviction",
            "index",
            "memory",
            "packed",
            "snapshot",
            "sync",
            "tree",
            "value",
        ],
    ),
    (
        "types",
        &[
            "collections",
            "effects",
            "entry",
            "eviction",
            "index",
            "keyspace",
            "sync",
            "tree",
            "value",
        ],
    ),
];

const PERSIST: &[Module] = &[
    ("damage", &[]),
    ("checksum", &[]),
    ("lzf", &[]),
    ("length", &["damage"]),
    ("encoding", &["length"]),
    ("rdb", &["checksum", "encoding", "length", "lzf"]),
    ("payload", &["checksum", "damage", "encoding", "length", "lzf", "rdb"]),
    ("save", &["rdb"]),
    ("inspect", &["rdb"]),
];

const SCRIPT: &[Module] = &[
    ("error_text", &[]),
    ("held_bytes", &[]),
    ("strtod", &[]),
    ("number", &["strtod"]),
    ("source", &[]),
    ("host", &[]),
    ("functions", &["held_bytes", "source"]),
    ("generator", &[]),
    ("state", &["functions", "generator", "host"]),
    ("bounds", &["state"]),
    ("convert", &["bounds", "host", "number"]),
    ("native", &["number", "state"]),
    (
        "library",
        &[
            "bounds",
            "convert",
            "error_text",
            "functions",
            "held_bytes",
            "host",
            "native",
            "number",
            "source",
            "state",
            "strtod",
        ],
    ),
    ("sandbox", &["error_text", "library", "state"]),
    (
        "engine",
        &[
            "bounds",
            "convert",
            "error_text",
            "functions",
            "host",
            "native",
            "sandbox",
            "source",
            "state",
        ],
    ),
];

const FINDINGS: &[Module] = &[
    ("observation", &[]),
    ("finding", &["observation"]),
    ("connections", &["finding", "observation"]),
    ("memory", &["finding", "observation"]),
    ("network", &["finding", "observation"]),
    ("process", &["finding", "network", "observation"]),
    ("requests", &["finding", "observation"]),
];

const COMMANDS: &[Module] = &[
    ("error", &[]),
    ("glob", &[]),
    ("secret", &[]),
    ("registry", &[]),
    ("state", &["glob", "registry", "secret"]),
    ("config", &["error", "glob", "state"]),
    ("runtime", &["config", "error", "registry", "secret", "state"]),
    ("scripting", &["config", "error", "registry", "runtime", "state"]),
    ("families", &["config", "error", "glob", "registry", "runtime", "state"]),
    ("status", &["registry", "runtime", "state"]),
    ("memcached", &["config", "registry", "runtime", "state"]),
    ("catalogue", &["config", "families", "memcached", "runtime"]),
    ("fuzzing", &["catalogue", "error", "runtime", "state", "status"]),
];

const PIPE: &[Module] = &[("mutex", &[])];

const HTTP: &[Module] = &[
    ("bell", &[]),
    ("framing", &[]),
    ("shared_stream", &["framing"]),
    ("site", &["bell"]),
    ("connections", &["site"]),
    ("write_timeout", &[]),
    ("forwarded", &["site"]),
    ("guard", &["forwarded", "site"]),
    ("response", &["connections", "guard", "site"]),
    ("gateway", &["connections", "guard", "response", "site"]),
    (
        "listening",
        &[
            "connections",
            "framing",
            "gateway",
            "guard",
            "response",
            "shared_stream",
            "site",
            "write_timeout",
        ],
    ),
];

const SERVER: &[Module] = &[
    ("net", &[]),
    ("state", &["net"]),
    ("persistence", &["state"]),
    ("protocols", &["state"]),
    ("session", &["net", "protocols", "state"]),
    ("worker", &["net", "persistence", "protocols", "session", "state"]),
    ("process", &["net", "persistence", "state", "worker"]),
];

const CLIENT: &[Module] = &[
    ("error", &[]),
    ("http", &[]),
    ("outcome", &["http"]),
    ("ring", &[]),
    ("address", &["error"]),
    ("client", &["address", "error"]),
    ("connection", &["address", "error", "outcome"]),
    ("wire", &["client"]),
    ("values", &["wire"]),
    ("cache", &["address", "error", "ring", "wire"]),
    ("asynchronous", &["address", "cache", "client", "error", "ring", "wire"]),
];

const LOAD: &[Module] = &[
    ("clock", &[]),
    ("text", &[]),
    ("pace", &[]),
    ("responder", &[]),
    ("tally", &["clock"]),
    ("interrupt", &["clock"]),
    ("machine", &[]),
    ("target", &[]),
    ("login", &["target"]),
    ("output", &[]),
    ("wire", &["clock", "interrupt", "target"]),
    ("figures", &["wire"]),
    (
        "bench",
        &[
            "clock",
            "figures",
            "interrupt",
            "machine",
            "output",
            "pace",
            "tally",
            "target",
            "text",
            "wire",
        ],
    ),
    (
        "storm",
        &["bench", "clock", "figures", "interrupt", "login", "machine", "output", "tally", "text"],
    ),
    ("calm", &["clock", "interrupt", "output", "pace", "tally", "target", "text", "wire"]),
];

const DOCTOR: &[Module] = &[
    ("options", &[]),
    ("placement", &[]),
    ("readers", &[]),
    ("probes", &["readers"]),
    ("report", &[]),
    ("observe", &["options", "probes", "readers"]),
    ("fuzzing", &["readers", "report"]),
];

const TOP: &[Module] = &[
    ("options", &[]),
    ("sample", &[]),
    ("view", &["options", "sample"]),
    ("plain", &["view"]),
    ("screen", &["options", "view"]),
];

const NAGI: &[Module] = &[
    ("allocator", &[]),
    ("arguments", &[]),
    ("screen", &[]),
    ("memcached", &["arguments"]),
    ("client", &["screen"]),
    ("rdb", &["screen"]),
    ("serve", &["allocator", "arguments", "memcached", "screen"]),
];

pub(super) fn follow_the_design(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for name in crates(repository) {
        let Some((_, modules)) = MODULES.iter().find(|(known, _)| *known == name) else {
            found.push(format!("crates/{name}: a crate whose modules are not listed"));
            continue;
        };
        let all = existing_modules(repository, name);
        let unlisted =
            all.iter().filter(|module| !modules.iter().any(|(known, _)| known == *module));
        found.extend(unlisted.map(|module| format!("crates/{name}: {module} is not listed")));
        let gone = modules.iter().filter(|(module, _)| !all.contains(*module));
        found.extend(gone.map(|(module, _)| format!("crates/{name}: {module} does not exist")));
        found.extend(forbidden(name, modules, &imports_of(repository, name)));
    }
    found
}

pub(super) fn files_import_in_one_direction(repository: &Repository) -> Vec<String> {
    crates(repository)
        .into_iter()
        .flat_map(|name| {
            cycles(&imports_of(repository, name)).into_iter().map(move |cycle| (name, cycle))
        })
        .map(|(name, cycle)| format!("crates/{name}/src: {cycle}"))
        .collect()
}

/// Formats the output of `cargo xtask imports`: the imports between modules, each with a file as an
/// example, and the cycles.
pub(super) fn describe(repository: &Repository, name: &str) -> String {
    let imports = imports_of(repository, name);
    let mut text = String::new();
    for module in existing_modules(repository, name) {
        text += &format!("{module}\n");
        let mut used: BTreeMap<String, &Import> = BTreeMap::new();
        for import in imports.iter().filter(|import| module_of(&import.user) == Some(&*module)) {
            if let Some(other) = module_of(&import.used).filter(|other| *other != module) {
                used.entry(other.to_owned()).or_insert(import);
            }
        }
        for (other, import) in used {
            text += &format!("    {other}: {}\n", told(import));
        }
    }
    for cycle in cycles(&imports) {
        text += &format!("cycle: {cycle}\n");
    }
    text
}

fn crates(repository: &Repository) -> BTreeSet<&str> {
    let manifests = repository
        .files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"));
    manifests.filter(|name| !name.contains('/')).collect()
}

fn imports_of(repository: &Repository, name: &str) -> Vec<Import> {
    imports(&sources(repository, name))
}

fn sources<'a>(repository: &'a Repository, name: &str) -> Vec<Source<'a>> {
    let folder = format!("crates/{name}/src/");
    let files = repository.rust().filter_map(|file| {
        Some(Source { path: file.path.strip_prefix(&folder)?, text: &file.text })
    });
    files.collect()
}

/// Returns the modules of a crate, except those that are only compiled for tests.
fn existing_modules(repository: &Repository, name: &str) -> BTreeSet<String> {
    let sources = sources(repository, name);
    let in_tests = test_only_modules(&sources);
    let modules = sources.iter().filter_map(|source| module_of(source.path));
    modules
        .filter(|module| !in_tests.contains([module.to_string()].as_slice()))
        .map(str::to_owned)
        .collect()
}

/// Returns the module of a file; `None` for the crate's root.
fn module_of(path: &str) -> Option<&str> {
    let name = path.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let is_root = !path.contains('/') && ["lib", "main"].contains(&name);
    (!is_root).then_some(name)
}

fn forbidden(name: &str, modules: &[Module], imports: &[Import]) -> Vec<String> {
    let is_forbidden = |import: &&Import| {
        let (Some(user), Some(used)) = (module_of(&import.user), module_of(&import.used)) else {
            return false;
        };
        let allowed =
            modules.iter().find(|(module, _)| *module == user).map_or(&[][..], |row| row.1);
        user != used && !allowed.contains(&used)
    };
    let imports = imports.iter().filter(is_forbidden);
    imports.map(|import| format!("crates/{name}/src: {}", told(import))).collect()
}

fn told(import: &Import) -> String {
    format!("{}:{} uses {}", import.user, import.line, import.used)
}

/// Returns the imports of one cycle for each strongly connected group of files.
fn cycles(imports: &[Import]) -> Vec<String> {
    let mut uses: BTreeMap<&str, Vec<&Import>> = BTreeMap::new();
    for import in imports {
        uses.entry(&import.user).or_default().push(import);
    }
    let mut told_of = BTreeSet::new();
    let mut found = Vec::new();
    for start in uses.keys() {
        if told_of.contains(start) {
            continue;
        }
        let Some(cycle) = shortest_cycle(&uses, start) else { continue };
        told_of.extend(cycle.iter().map(|import| import.user.as_str()));
        found.push(cycle.into_iter().map(told).collect::<Vec<_>>().join(", "));
    }
    found
}

/// Returns the shortest cycle of imports through `start`.
fn shortest_cycle<'a>(
    uses: &BTreeMap<&str, Vec<&'a Import>>,
    start: &str,
) -> Option<Vec<&'a Import>> {
    let mut reached: BTreeMap<&str, &Import> = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(file) = waiting.pop_front() {
        for import in uses.get(file).into_iter().flatten() {
            if !reached.contains_key(&*import.used) {
                reached.insert(&import.used, import);
                waiting.push_back(&import.used);
            }
        }
    }
    let mut cycle = vec![*reached.get(start)?];
    while let Some(first) = cycle.last().filter(|first| first.user != start) {
        cycle.push(reached.get(&*first.user)?);
    }
    cycle.reverse();
    Some(cycle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [Module; 2] = [("low", &[]), ("high", &["low"])];

    fn planted(low: &str, high: &str) -> Vec<Import> {
        let root = Source { path: "lib.rs", text: "mod low; mod high; pub const ONE: u8 = 1;" };
        imports(&[
            root,
            Source { path: "low/mod.rs", text: low },
            Source { path: "low/a.rs", text: "use crate::ONE; use super::b::B;" },
            Source { path: "low/b.rs", text: "" },
            Source { path: "high.rs", text: high },
        ])
    }

    #[test]
    fn a_forbidden_edge_between_modules_is_found() {
        let allowed = planted("mod a; mod b;", "use crate::low::a::A;");
        assert_eq!(forbidden("one", &ROWS, &allowed), Vec::<String>::new());
        let against = planted("mod a; mod b;\nuse crate::high::H;", "");
        assert_eq!(
            forbidden("one", &ROWS, &against),
            ["crates/one/src: low/mod.rs:2 uses high.rs"]
        );
    }

    #[test]
    fn a_cycle_of_files_is_found() {
        assert_eq!(
            cycles(&planted("mod a; mod b;", "use crate::low::a::A;")),
            Vec::<String>::new()
        );
        let cycle = planted("mod a; use a::A; fn f() { crate::high::g() }", "use crate::low::F;");
        assert_eq!(cycles(&cycle), ["high.rs:1 uses low/mod.rs, low/mod.rs:1 uses high.rs"]);
    }

    #[test]
    fn a_long_cycle_is_found_once() {
        let text = |path, text| Source { path, text };
        let found = cycles(&imports(&[
            text("lib.rs", "mod a; mod b; mod c; mod d;"),
            text("a.rs", "use crate::b::B;"),
            text("b.rs", "use crate::c::C; use crate::d::D;"),
            text("c.rs", "use crate::a::A;"),
            text("d.rs", ""),
        ]));
        assert_eq!(found, ["a.rs:1 uses b.rs, b.rs:1 uses c.rs, c.rs:1 uses a.rs"]);
    }

    #[test]
    fn a_module_that_is_not_listed_or_gone_is_found() {
        let mut files = vec![
            ("crates/client/Cargo.toml", ""),
            ("crates/client/src/lib.rs", "#[cfg(test)] mod tests; mod planted;"),
            ("crates/client/src/planted/mod.rs", ""),
            ("crates/client/src/tests.rs", ""),
        ];
        let paths: Vec<String> =
            CLIENT.iter().map(|(module, _)| format!("crates/client/src/{module}.rs")).collect();
        files.extend(paths.iter().map(|path| (path.as_str(), "")));
        let faults = follow_the_design(&Repository::of(&files));
        assert_eq!(faults, ["crates/client: planted is not listed"]);
        files.retain(|(path, _)| !path.contains("planted") && *path != paths[0]);
        assert_eq!(follow_the_design(&Repository::of(&files)).len(), 1);
    }

    #[test]
    fn a_crate_that_is_not_listed_is_found() {
        let files = [("crates/planted/Cargo.toml", "")];
        assert_eq!(follow_the_design(&Repository::of(&files)).len(), 1);
    }
}
