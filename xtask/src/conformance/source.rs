//! Downloads Redis' source package to `.conformance/`. apt uses a separate source list and state:
//! the list is derived from the machine's settings, which are not changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// The version of Redis whose tests are run.
pub(super) const VERSION: &str = "7.0.15";

/// Returns the folder, which may be deleted at any time.
pub(super) fn folder() -> PathBuf {
    workspace::root().join(".conformance")
}

/// Downloads the source of Redis unless it exists. Returns its folder.
pub(super) fn prepare() -> Result<PathBuf> {
    let unpacked = folder().join(format!("redis-{VERSION}"));
    if !unpacked.join("tests/test_helper.tcl").is_file() {
        unpack(&unpacked)?;
    }
    soften_external_mode(&unpacked)?;
    accept_later_encodings(&unpacked)?;
    accept_later_texts(&unpacked)?;
    Ok(unpacked)
}

/// Patches the external mode for servers that lack something. Before each unit it removes all
/// functions, of which a server without functions has none, and makes settings, of which those of
/// the append-only file are refused by a server without it; the tests that need the file are listed
/// as not run.
fn soften_external_mode(unpacked: &Path) -> Result<()> {
    let path = unpacked.join("tests/support/server.tcl");
    let text = fs::read_to_string(&path)?;
    let softened = text
        .replace("    r function flush\n", "    catch {r function flush}\n")
        .replace(SET, SET_IF_ACCEPTED);
    if !softened.contains(SET_IF_ACCEPTED) {
        bail!("{} makes settings in another way", path.display());
    }
    if softened != text {
        fs::write(&path, softened)?;
    }
    Ok(())
}

const SET: &str = "        dict set saved_config $param [lindex [r config get $param] 1]
        r config set $param $val
";
const SET_IF_ACCEPTED: &str = "        set saved [lindex [r config get $param] 1]
        if {[catch {r config set $param $val} refusal]} {
            if {$param ni {appendonly appendfsync aof-use-rdb-preamble}} {
                error $refusal
            }
            continue
        }
        dict set saved_config $param $saved
";

/// Patches the expected names of encodings. Since Redis 7.2, small lists and small sets are called
/// listpacks; the suite of 7.0 expects the earlier names.
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

/// Returns the names of the suite's units.
pub(super) fn units(unpacked: &Path) -> Result<Vec<String>> {
    let path = unpacked.join("tests/test_helper.tcl");
    let text = fs::read_to_string(&path)?;
    let list = text.split_once("set ::all_tests {").and_then(|(_, rest)| rest.split_once('}'));
    let (list, _) = list.with_context(|| format!("{} lists no units", path.display()))?;
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

/// Texts that have changed since Redis 7.2, commands outside of tests that a server without DEBUG
/// refuses, and changes of a stream that must not overtake the blocking read which another
/// connection has just sent: the file, the text, and its replacement.
const LATER_TEXTS: [(&str, &str, &str); 6] = [
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
    (
        "unit/type/stream-cgroups.tcl",
        "BLOCK 0 STREAMS mystream \">\"\n        r ",
        "BLOCK 0 STREAMS mystream \">\"\n        wait_for_blocked_client\n        r ",
    ),
    (
        "unit/type/stream-cgroups.tcl",
        "BLOCK 0 STREAMS mystream \"$\"\n        r ",
        "BLOCK 0 STREAMS mystream \"$\"\n        wait_for_blocked_client\n        r ",
    ),
];

/// Patches tests of error messages to accept the texts of later versions.
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

/// Returns the machine's package sources, changed to source packages. Third-party sources are
/// omitted, because they may have no source packages.
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

/// Returns the full version of the package, including Debian's suffix.
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

/// Returns a command for apt-get with separate lists and cache, which needs neither root nor a
/// lock.
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
