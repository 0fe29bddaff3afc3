//! The imports between the files of a crate, read from `use` items and from paths in the code.
//!
//! A path is followed through re-exports to the file that defines its target. Two kinds of code are
//! not counted: code that is only compiled for tests, and re-exports from submodules, since these
//! only define where an item is found. A glob import counts as an import of its module.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{
    Token, after, split_at_commas, test_attribute_len, text_at, tokenize, without_tests,
};

/// Maximum number of re-exports through which a path is followed.
const LONGEST_CHAIN: usize = 16;

/// The text of a file and its path, relative to the crate's `src`.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
}

/// An import: the file `user` needs the file `used`, because of the code at `line`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    /// Path relative to `src`, like `used`.
    pub(crate) user: String,
    pub(crate) used: String,
    pub(crate) line: usize,
}

type ModulePath = Vec<String>;

/// A module: a file, or a block within one.
#[derive(Default)]
struct Module {
    /// The index of the module's file among the sources.
    file: usize,
    /// The paths that its `use` items bind to names.
    bindings: BTreeMap<String, ModulePath>,
    definitions: BTreeSet<String>,
}

/// A path mentioned in a module's code.
struct Mention {
    module: ModulePath,
    path: ModulePath,
    line: usize,
    kind: MentionKind,
}

#[derive(Clone, Copy, PartialEq)]
enum MentionKind {
    Code,
    Use,
    ReExport,
    Glob,
    GlobReExport,
}

/// The target of a path.
struct Target {
    module: ModulePath,
    /// Whether the target is an item in the module, as opposed to the module itself.
    is_item: bool,
}

/// Returns the imports between the files of one crate: one for each pair of files, sorted.
pub(crate) fn imports(sources: &[Source]) -> Vec<Import> {
    let in_tests = test_only_modules(sources);
    let mut modules = BTreeMap::new();
    let mut mentions = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let path = module_of(source.path);
        if !in_tests.iter().any(|test| path.starts_with(test)) {
            read(index, path, source.text, &mut modules, &mut mentions);
        }
    }
    let mut pairs = BTreeMap::new();
    for mention in &mentions {
        if let Some(pair) = mention.files(&modules) {
            pairs.entry(pair).or_insert(mention.line);
        }
    }
    let path = |file: usize| sources.get(file).map_or("", |source| source.path);
    let needed = pairs.into_iter().filter(|((user, used), _)| user != used);
    let mut found: Vec<Import> = needed
        .map(|((user, used), line)| Import {
            user: path(user).to_owned(),
            used: path(used).to_owned(),
            line,
        })
        .collect();
    found.sort();
    found
}

impl Mention {
    /// Returns the indices of the file with the mention and of the file that it needs, if the
    /// target is in this crate.
    fn files(&self, modules: &BTreeMap<ModulePath, Module>) -> Option<(usize, usize)> {
        let user = modules.get(&self.module)?.file;
        let Target { module, is_item } = resolve(modules, &self.module, &self.path, 0)?;
        let is_glob = matches!(self.kind, MentionKind::Glob | MentionKind::GlobReExport);
        let is_re_export = matches!(self.kind, MentionKind::ReExport | MentionKind::GlobReExport);
        let needs = (is_item || is_glob) && !(is_re_export && module.starts_with(&self.module));
        needs.then_some((user, modules.get(&module)?.file))
    }
}

/// Returns the module of a file: `["net", "epoll"]` for `net/epoll.rs`, `[]` for `lib.rs`.
pub(crate) fn module_of(path: &str) -> ModulePath {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let mut names: ModulePath = stem.split('/').map(str::to_owned).collect();
    let is_root = names.len() == 1 && names.iter().any(|name| name == "lib" || name == "main");
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// Returns the modules that are only compiled for tests. Their submodules are only compiled for
/// tests, too.
pub(crate) fn test_only_modules(sources: &[Source]) -> BTreeSet<ModulePath> {
    let mut found = BTreeSet::new();
    for source in sources {
        let tokens = tokenize(source.text);
        for at in 0..tokens.len() {
            let attribute = test_attribute_len(after(&tokens, at));
            let declared = after(&tokens, at + attribute);
            let name = declared_module(declared).filter(|_| attribute > 0);
            found.extend(name.map(|name| below(&module_of(source.path), name)));
        }
    }
    found
}

/// Returns the name in `mod name;`, which may follow attributes and a visibility.
fn declared_module<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let end = tokens.iter().position(|token| [";", "{", "="].contains(&token.text))?;
    match tokens.get(..=end)? {
        [.., keyword, name, end] if keyword.text == "mod" && end.text == ";" => Some(name.text),
        _ => None,
    }
}

/// Adds the contents of one file to `modules` and `mentions`.
fn read(
    file: usize,
    path: ModulePath,
    text: &str,
    modules: &mut BTreeMap<ModulePath, Module>,
    mentions: &mut Vec<Mention>,
) {
    const DEFINING: [&str; 9] =
        ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];
    let tokens = without_tests(&tokenize(text));
    let token = |at: usize| text_at(&tokens, at);
    let mut module = path;
    modules.insert(module.clone(), Module { file, ..Module::default() });
    // For each open brace, whether it opened a module.
    let mut braces = Vec::new();
    let mut at = 0;
    while let Some(&Token { line, .. }) = tokens.get(at) {
        match token(at) {
            "mod" if token(at + 2) == "{" => {
                module.push(token(at + 1).to_owned());
                modules.insert(module.clone(), Module { file, ..Module::default() });
                braces.push(true);
                at += 2;
            }
            "{" => braces.push(false),
            "}" => {
                let ends_module = braces.pop() == Some(true);
                module.truncate(module.len() - usize::from(ends_module));
            }
            "use" if token(at + 1) != "<" => {
                let is_public = is_public(tokens.get(..at).unwrap_or_default());
                let tree = after(&tokens, at + 1).split(|token| token.text == ";").next();
                let tree = tree.unwrap_or_default();
                let mut leaves = Vec::new();
                use_tree(tree, &[], &mut leaves);
                for leaf in leaves {
                    let kind = MentionKind::of_use(leaf.is_glob, is_public);
                    if let (Some(known), Some(name)) = (modules.get_mut(&module), leaf.name) {
                        known.bindings.insert(name, leaf.path.clone());
                    }
                    mentions.push(Mention { module: module.clone(), path: leaf.path, line, kind });
                }
                at += tree.len();
            }
            keyword if DEFINING.contains(&keyword) => {
                let skipped = usize::from(token(at + 1) == "!");
                if let Some(known) = modules.get_mut(&module) {
                    known.definitions.insert(token(at + 1 + skipped).to_owned());
                }
            }
            word if is_word(word)
                && token(at + 1) == "::"
                && (at == 0 || token(at - 1) != "::") =>
            {
                let mut path = vec![word.to_owned()];
                while token(at + 1) == "::" && is_word(token(at + 2)) {
                    path.push(token(at + 2).to_owned());
                    at += 2;
                }
                let kind = MentionKind::Code;
                mentions.push(Mention { module: module.clone(), path, line, kind });
            }
            _ => {}
        }
        at += 1;
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Whether the tokens before an item end with a visibility.
fn is_public(before: &[Token]) -> bool {
    match before {
        [.., last] if last.text == "pub" => true,
        [.., last] if last.text == ")" => {
            let open = before.iter().rposition(|token| token.text == "(");
            open.and_then(|open| before.get(open.checked_sub(1)?))
                .is_some_and(|token| token.text == "pub")
        }
        _ => false,
    }
}

/// A name that a `use` item imports, or a glob.
struct Leaf {
    path: ModulePath,
    /// The name to which the path is bound; `None` for a glob and for `as _`.
    name: Option<String>,
    is_glob: bool,
}

impl MentionKind {
    fn of_use(is_glob: bool, is_public: bool) -> Self {
        match (is_glob, is_public) {
            (true, true) => Self::GlobReExport,
            (true, false) => Self::Glob,
            (false, true) => Self::ReExport,
            (false, false) => Self::Use,
        }
    }
}

/// Adds the leaves of a tree such as `a::{b, c::{self, d as e}, f::*}` to `leaves`.
fn use_tree(tokens: &[Token], prefix: &[String], leaves: &mut Vec<Leaf>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => {}
            "*" => {
                leaves.push(Leaf { path, name: None, is_glob: true });
                return;
            }
            "{" => {
                let inside = tokens.get(at + 1..tokens.len() - 1).unwrap_or_default();
                for branch in split_at_commas(inside) {
                    use_tree(branch, &path, leaves);
                }
                return;
            }
            "as" => {
                let name = tokens.get(at + 1).map(|alias| alias.text.to_owned());
                let name = name.filter(|name| name != "_");
                leaves.push(Leaf { path, name, is_glob: false });
                return;
            }
            "self" if !path.is_empty() => {}
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    let name = path.last().cloned();
    leaves.push(Leaf { path, name, is_glob: false });
}

/// Returns the target of `path` in `module`; `None` if the target is not in this crate.
fn resolve(
    modules: &BTreeMap<ModulePath, Module>,
    module: &[String],
    path: &[String],
    followed: usize,
) -> Option<Target> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => walk(modules, &[], rest, followed),
        "self" => walk(modules, module, rest, followed),
        "super" => {
            let (_, parent) = module.split_last()?;
            if rest.first().is_some_and(|next| next == "super") {
                return resolve(modules, parent, rest, followed);
            }
            walk(modules, parent, rest, followed)
        }
        name => {
            let known = modules.get(module)?;
            let is_child = modules.contains_key(&below(module, name));
            let is_bound = known.bindings.contains_key(name);
            if is_child || is_bound { walk(modules, module, path, followed) } else { None }
        }
    }
}

/// Follows `path` from `module`, whose own names take precedence over other crates.
fn walk(
    modules: &BTreeMap<ModulePath, Module>,
    module: &[String],
    path: &[String],
    followed: usize,
) -> Option<Target> {
    let known = modules.get(module)?;
    let found = |is_item| Some(Target { module: module.to_vec(), is_item });
    let Some((first, rest)) = path.split_first() else { return found(false) };
    if followed > LONGEST_CHAIN {
        return None;
    }
    let child = below(module, first);
    if modules.contains_key(&child) {
        return walk(modules, &child, rest, followed);
    }
    if known.definitions.contains(first) {
        return found(true);
    }
    if let Some(bound) = known.bindings.get(first) {
        let whole: ModulePath = bound.iter().chain(rest).cloned().collect();
        return resolve(modules, module, &whole, followed + 1);
    }
    found(true)
}

fn below(module: &[String], name: &str) -> ModulePath {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the imports between files with these texts, formatted as `user > used`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|&(path, text)| Source { path, text }).collect();
        imports(&sources).iter().map(|one| format!("{} > {}", one.user, one.used)).collect()
    }

    #[test]
    fn use_items_and_paths_in_code_are_imports() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::{self, One}; use std::fmt;"),
            ("b.rs", "fn two() { crate::c::three(); super::d::four::<u8>() }"),
            ("c.rs", "use std::io; // crate::a::nothing\nconst TEXT: &str = \"crate::a::b\";"),
            ("d.rs", ""),
        ];
        assert_eq!(found(&files), ["a.rs > b.rs", "b.rs > c.rs", "b.rs > d.rs"]);
    }

    #[test]
    fn a_module_that_is_imported_counts_where_it_is_used() {
        let unused =
            [("lib.rs", ""), ("a/mod.rs", "mod b;"), ("a/b.rs", ""), ("c.rs", "use crate::a;")];
        assert_eq!(found(&unused), Vec::<String>::new());
        let mut used = unused;
        used[3].1 = "use crate::a; fn f() { a::b::g() }";
        assert_eq!(found(&used), ["c.rs > a/b.rs"]);
    }

    #[test]
    fn re_exports_are_followed_and_do_not_count_themselves() {
        let files = [
            ("lib.rs", "mod a; mod c; pub use a::Name;"),
            ("a/mod.rs", "mod b; pub(crate) use b::Inner as Name;"),
            ("a/b.rs", "pub(crate) struct Inner;"),
            ("c.rs", "use crate::Name;"),
        ];
        assert_eq!(found(&files), ["c.rs > a/b.rs"]);
    }

    #[test]
    fn a_parent_that_needs_its_child_imports_it() {
        let mut files =
            [("lib.rs", ""), ("a/mod.rs", "mod b; use b::B;"), ("a/b.rs", "use super::A;")];
        assert_eq!(found(&files), ["a/b.rs > a/mod.rs", "a/mod.rs > a/b.rs"]);
        files[1].1 = "mod b; fn f() { b::g() }";
        assert_eq!(found(&files), ["a/b.rs > a/mod.rs", "a/mod.rs > a/b.rs"]);
    }

    #[test]
    fn modules_in_braces_are_part_of_their_file() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub mod inside { use super::One; use super::super::b::Two; }"),
            ("b.rs", "use crate::a::inside::Three;"),
        ];
        assert_eq!(found(&files), ["a.rs > b.rs", "b.rs > a.rs"]);
    }

    #[test]
    fn tests_import_freely() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod t;"),
            ("a.rs", "#[cfg(test)] use crate::b::B; #[cfg(test)] mod tests { use crate::b::C; }"),
            ("b.rs", "use crate::a::A;"),
            ("t/mod.rs", "mod u; use crate::a::A;"),
            ("t/u.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files), ["b.rs > a.rs"]);
    }
}
