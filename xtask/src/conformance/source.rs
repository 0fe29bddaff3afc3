//! Redis' source package in `.conformance/`, with a source list and a state of apt of its own: the
//! machine's settings name the mirror and stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// The version of the tests.
pub(super) const VERSION: &str = "7.0.15";

/// Where everything is that may be deleted.
pub(super) fn folder() -> PathBuf {
    workspace::root().join(".conformance")
}

/// Brings the source of Redis unless it is there, and returns its folder.
pub(super) fn prepare() -> Result<PathBuf> {
    let unpacked = folder().join(format!("redis-{VERSION}"));
    if !unpacked.join("tests/test_helper.tcl").is_file() {
        unpack(&unpacked)?;
    }
    do_without_functions(&unpacked)?;
    accept_later_encodings(&unpacked)?;
    accept_later_texts(&unpacked)?;
    Ok(unpacked)
}

/// In external mode the suite empties the server in front of each unit, of functions as well: a
/// server that has none is empty of them.
fn do_without_functions(unpacked: &Path) -> Result<()> {
    let path = unpacked.join("tests/support/server.tcl");
    let text = fs::read_to_string(&path)?;
    let softened = text.replace("    r function flush\n", "    catch {r function flush}\n");
    if softened != text {
        fs::write(&path, softened)?;
    }
    Ok(())
}

/// Since Redis 7.2 small lists and small sets are called listpacks; the suite of 7.0 expects the
/// names that they had before.
fn accept_later_encodings(unpacked: &Path) -> Result<()> {
    let path = unpacked.join("tests/support/test.tcl");
    let text = fs::read_to_string(&path)?;
    let before = "    set val [r object encoding $key]\n    assert_match $enc $val\n";
    let after = "    set val [r object encoding $key]
    if {$val eq {listpack} && [list [r type $key] $enc] in {{list quicklist} {set hashtable}}} {
        return
    }
    assert_match $enc $val
";
    if text.contains(before) {
        fs::write(&path, text.replace(before, after))?;
    } else if !text.contains(after) {
        bail!("{} has another assert_encoding", path.display());
    }
    Ok(())
}

/// The names of the suite's units.
pub(super) fn units(unpacked: &Path) -> Result<Vec<String>> {
    let path = unpacked.join("tests/test_helper.tcl");
    let text = fs::read_to_string(&path)?;
    let list = text.split_once("set ::all_tests {").and_then(|(_, rest)| rest.split_once('}'));
    let (list, _) = list.with_context(|| format!("{} lists no units", path.display()))?;
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

/// What Redis words otherwise since 7.2, and what a server without a debugger refuses in front of
/// tests, not in one: in which file, what, and what takes its place.
const LATER_TEXTS: [(&str, &str, &str); 4] = [
    ("unit/acl.tcl", "*NOPERM*channels*", "*NOPERM*channel*"),
    ("unit/acl-v2.tcl", "*NOPERM*keys*", "*NOPERM*key*"),
    (
        "unit/acl-v2.tcl",
        "assert_equal \"This user has no permissions",
        "assert_match \"* has no permissions",
    ),
    (
        "unit/scripting.tcl",
        "external:skip\"}} {\n    r script debug sync\n",
        "external:skip\"}} {\n    catch {r script debug sync}\n",
    ),
];

/// Makes tests of errors accept the words of later versions.
fn accept_later_texts(unpacked: &Path) -> Result<()> {
    for (file, before, after) in LATER_TEXTS {
        let path = unpacked.join("tests").join(file);
        let text = fs::read_to_string(&path)?;
        if text.contains(before) {
            fs::write(&path, text.replace(before, after))?;
        } else if !text.contains(after) {
            bail!("{} has other texts", path.display());
        }
    }
    Ok(())
}

fn unpack(unpacked: &Path) -> Result<()> {
    if !process::in_path("apt-get") {
        bail!("without apt-get, unpack redis-{VERSION}.tar.gz into {}", folder().display());
    }
    println!("conformance: brings the source package of Redis {VERSION} into .conformance/");
    let apt = folder().join("apt");
    for part in ["lists/partial", "cache/archives/partial", "download"] {
        fs::create_dir_all(apt.join(part))?;
    }
    fs::write(apt.join("sources.list"), source_list()?)?;
    process::output(apt_get().arg("update")).context("apt-get cannot fetch the source lists")?;
    let package = format!("redis={}", version()?);
    let download = apt.join("download");
    let mut command = apt_get();
    command.args(["source", "--download-only", &package]).current_dir(&download);
    process::output(&mut command).context("apt-get cannot download the source package")?;
    let archive = download.join(format!("redis_{VERSION}.orig.tar.gz"));
    process::output(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder()))?;
    if !unpacked.is_dir() {
        bail!("{} holds no redis-{VERSION}", archive.display());
    }
    Ok(())
}

/// The machine's package sources as sources of source packages. Third-party ones may have none,
/// and are left out.
fn source_list() -> Result<String> {
    let format = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)";
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let targets = process::output(&mut command)?;
    let mut lines: Vec<String> = targets
        .lines()
        .filter_map(|line| line.strip_suffix(" Debian"))
        .map(|source| format!("deb-src {source}\n"))
        .collect();
    lines.sort();
    lines.dedup();
    if lines.is_empty() {
        bail!("apt names no source of Debian's packages: run `apt-get update`");
    }
    Ok(lines.concat())
}

/// The package's full version, which Debian adds to.
fn version() -> Result<String> {
    let mut command = apt_get();
    command.args(["source", "--print-uris", "redis"]);
    let addresses = process::output(&mut command)?;
    let name = addresses
        .split_whitespace()
        .find_map(|word| word.strip_prefix("redis_")?.strip_suffix(".dsc"))
        .filter(|version| version.starts_with(VERSION));
    let version = name.with_context(|| {
        format!("this system's Redis is another one: unpack redis-{VERSION}.tar.gz yourself")
    })?;
    Ok(format!("5:{version}"))
}

/// apt-get with lists and a cache of ours, which needs no root and no lock.
fn apt_get() -> Command {
    let apt = folder().join("apt");
    let mut command = Command::new("apt-get");
    for (name, part) in [
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::State::lists", "lists"),
        ("Dir::Cache", "cache"),
    ] {
        command.arg("-o").arg(format!("{name}={}", apt.join(part).display()));
    }
    command.args(["-o", "Dir::Etc::sourceparts=/dev/null"]);
    command.args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="]);
    command.env("LC_ALL", "C");
    command
}
