//! Installs Debian's Ruby and PHP with libraries for `cargo xtask test --clients`. They are
//! separate from `.setup/`, because other tests do not need them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::bring_once;
use super::debian::{self, Wanted};

/// The file in a language's folder that lists Debian packages with their versions. A star stands
/// for the suffix that Debian adds to a version.
const LIST: &str = "packages.txt";

/// The paths of Ruby's libraries in a tree of packages. A star matches any text.
const RUBY_LIBRARIES: [&str; 7] = [
    "usr/lib/ruby/vendor_ruby",
    "usr/lib/ruby/vendor_ruby/*.*.*",
    "usr/lib/ruby/*.*.*",
    "usr/lib/*/ruby/vendor_ruby/*.*.*",
    "usr/lib/*/ruby/*.*.*",
    "usr/share/rubygems-integration/*/gems/*/lib",
    "usr/lib/ruby/gems/*/gems/*/lib",
];

/// Returns what the machine lacks and cannot be installed.
pub(crate) fn missing() -> Option<String> {
    (!debian::is_debian()).then(|| "its packages are Debian's, and this is not Debian".to_owned())
}

/// Unpacks Ruby, with the libraries listed in `sources`, into `folder`.
pub(crate) fn bring_ruby(sources: &Path, folder: &Path) -> Result<()> {
    bring_listed(sources, folder, "ruby")
}

/// Returns a command for the Ruby in `folder`, or else the machine's, with the libraries in
/// `folder`.
pub(crate) fn ruby(folder: &Path) -> Command {
    let tree = debian::tree(folder);
    let libraries: Vec<PathBuf> =
        RUBY_LIBRARIES.iter().flat_map(|pattern| folders(&tree, pattern)).collect();
    let libraries: Vec<_> = libraries.iter().map(|path| path.display().to_string()).collect();
    let mut command = program(folder, "ruby");
    command.env("RUBYLIB", libraries.join(":"));
    // Gems of the machine that are newer would take precedence.
    for variable in ["GEM_HOME", "GEM_PATH"] {
        command.env(variable, folder.join("gems"));
    }
    command
}

/// Unpacks PHP, with the extensions listed in `sources`, into `folder`, and writes the settings
/// that load them.
pub(crate) fn bring_php(sources: &Path, folder: &Path) -> Result<()> {
    bring_listed(sources, folder, "php-cli")?;
    let extensions = folders(&debian::tree(folder), "usr/lib/php/*");
    let place = extensions.iter().find(|path| path.join("redis.so").is_file());
    let place = place.map(|path| format!("extension_dir={}\n", path.display()));
    let settings = place.unwrap_or_default() + "extension=igbinary\nextension=redis\n";
    fs::write(folder.join("php.ini"), settings).context("cannot write PHP's settings")
}

/// Returns a command for the PHP in `folder`, or else the machine's, with the settings in `folder`.
pub(crate) fn php(folder: &Path) -> Command {
    let mut command = program(folder, "php");
    command.env("PHPRC", folder).env("PHP_INI_SCAN_DIR", "");
    command
}

/// Unpacks the packages in a language's list, and its interpreter if the machine has none.
fn bring_listed(sources: &Path, folder: &Path, interpreter: &str) -> Result<()> {
    let list = sources.join(LIST);
    let list =
        fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let tools: Vec<&str> = list.lines().collect();
    let where_missing = [interpreter];
    let wanted = Wanted {
        tools: &tools,
        where_missing: &where_missing,
        headers: &[],
        programs: &[],
        optional: &[],
    };
    bring_once(folder, list.trim_end(), &wanted)
        .with_context(|| format!("cannot bring Debian's packages of {interpreter}"))
}

/// Returns a command for a program in `folder`, whose name may end with a version, or else for the
/// machine's.
fn program(folder: &Path, name: &str) -> Command {
    let programs = folders(&debian::tree(folder), &format!("usr/bin/{name}*"));
    let mut command = match programs.iter().find(|path| path.is_file()) {
        Some(path) => Command::new(path),
        None => Command::new(name),
    };
    command.env("LD_LIBRARY_PATH", debian::library_path(folder));
    command
}

/// Returns the paths in a folder that match a pattern, sorted.
fn folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    pattern.split('/').fold(vec![root.to_owned()], |places, part| {
        let listings = places.iter().filter_map(|place| fs::read_dir(place).ok());
        let entries = listings.flat_map(|listing| listing.filter_map(Result::ok));
        let fitting = entries.filter(|entry| fits(part, &entry.file_name().to_string_lossy()));
        let mut found: Vec<PathBuf> = fitting.map(|entry| entry.path()).collect();
        found.sort();
        found
    })
}

/// Whether a name matches a pattern. A star in the pattern matches any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, behind)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| fits(behind, rest)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, is_fitting) in [
            ("lib", "lib", true),
            ("lib", "library", false),
            ("php*", "php8.2", true),
            ("php*", "phar", false),
            ("*.*.*", "3.1.0", true),
            ("*.*.*", "vendor_ruby", false),
            ("*", "x86_64-linux-gnu", true),
        ] {
            assert_eq!(fits(pattern, name), is_fitting, "{pattern} {name}");
        }
    }
}
