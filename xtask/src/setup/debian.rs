//! Unpacks Debian packages into a folder such as `.setup`, with a small script for each program.
//!
//! apt determines which dependencies the machine lacks. It uses its own lists and its own cache in
//! that folder, so it needs no root and does not depend on the machine's lists, which may be empty
//! or stale.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// The packages to unpack.
pub(super) struct Wanted<'a> {
    /// Packages that are unpacked even if the machine has them, so that tests use fixed versions. A
    /// name may be followed by `=` and a version.
    pub(super) tools: &'a [&'a str],
    /// Packages that are unpacked if the machine lacks them.
    pub(super) where_missing: &'a [&'a str],
    /// Packages of which only the headers are needed, so their dependencies are not unpacked.
    pub(super) headers: &'a [&'a str],
    /// Programs, each with the package that contains it.
    pub(super) programs: &'a [(&'a str, &'a str)],
    /// Like `programs`, for programs that systems other than Debian may lack.
    pub(super) optional: &'a [(&'a str, &'a str)],
}

/// The packages for `cargo xtask test`.
pub(super) const TOOLS: [&str; 16] = [
    "redis-tools",
    "redis-server",
    "memcached",
    "libmemcached-tools",
    "libhiredis-dev",
    "libmemcached-dev",
    "nutcracker",
    "ruby-dalli",
    "prometheus",
    "prometheus-apache-exporter",
    "prometheus-redis-exporter",
    "webdis",
    "nginx",
    "apache2-bin",
    "apache2-utils",
    "wrk",
];

/// The packages for `cargo xtask test` that the machine may provide. The second is pip as a wheel,
/// which needs no installation.
pub(super) const WHERE_MISSING: [&str; 7] =
    ["curl", "python3", "python3-pip-whl", "ruby", "tcl", "iproute2", "strace"];

/// The packages with headers to compile a module for Apache. Their dependencies are not unpacked,
/// because the first package depends on all of Debian's packaging tools.
pub(super) const HEADERS: [&str; 3] = ["apache2-dev", "libapr1-dev", "libaprutil1-dev"];

/// The folders in which packages contain programs. Chromium's program is in a separate folder; its
/// entry in `usr/bin` is a script that looks for Chromium in the machine's folders.
const FOLDERS: [&str; 5] = ["usr/lib/chromium", "usr/bin", "bin", "usr/sbin", "sbin"];

/// The prefix of packages that contain JavaScript for the web pages of programs. No test opens
/// these pages, and prometheus depends on 200 MB of such packages.
const SCRIPTS_OF_PAGES: &str = "libjs-";

/// Folders of libraries that other libraries expect in the system's folders.
const PRIVATE: [&str; 1] = ["pulseaudio"];

/// Whether this machine uses Debian packages.
pub(super) fn is_debian() -> bool {
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let is_of_debian = system.lines().any(|line| {
        line == "ID=debian" || (line.starts_with("ID_LIKE=") && line.contains("debian"))
    });
    is_of_debian && process::in_path("apt-get") && process::in_path("dpkg")
}

/// Returns a line that changes with the release of the system.
pub(super) fn release() -> String {
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    system.lines().find(|line| line.starts_with("PRETTY_NAME=")).unwrap_or("unknown").to_owned()
}

/// Unpacks the wanted packages, and the dependencies that the machine lacks, into `folder`.
pub(super) fn unpack(folder: &Path, wanted: &Wanted<'_>) -> Result<()> {
    let shown = folder.file_name().unwrap_or_default().display();
    println!(
        "setup: unpacks Debian's {} and what they need into {shown}/;\n\
         setup: nothing is installed on the machine and no service is started",
        wanted.tools.join(", ")
    );
    let apt = Apt::new(folder)?;
    apt.update()?;
    let mut packages = apt.missing(wanted.tools.iter().chain(wanted.where_missing))?;
    packages.retain(|package| {
        !package.starts_with(SCRIPTS_OF_PAGES)
            && !wanted.tools.iter().any(|tool| name_of(tool) == package)
    });
    packages.extend(wanted.tools.iter().chain(wanted.headers).map(|&name| name.to_owned()));
    packages.sort();
    packages.dedup();
    let tree = tree(folder);
    fs::create_dir_all(&tree)?;
    for archive in apt.download(&packages)? {
        process::output(Command::new("dpkg").arg("-x").arg(&archive).arg(&tree))
            .with_context(|| format!("cannot unpack {}", archive.display()))?;
    }
    for (program, package) in wanted.programs.iter().chain(wanted.optional) {
        write_script(folder, program, package)?;
    }
    fs::remove_dir_all(&apt.folder).context("cannot remove the downloads of setup")
}

/// Returns the name of a package that may be followed by a version.
fn name_of(tool: &str) -> &str {
    tool.split_once('=').map_or(tool, |(name, _)| name)
}

/// Returns the folder that contains the files of the packages.
pub(super) fn tree(setup_folder: &Path) -> PathBuf {
    setup_folder.join("debian")
}

/// Writes a script to `.setup/bin` that runs `program` with the unpacked libraries. If apt reports
/// that the package is installed, the script runs the machine's program.
fn write_script(setup_folder: &Path, program: &str, package: &str) -> Result<()> {
    let roots = [tree(setup_folder), PathBuf::from("/")];
    let paths = roots.iter().flat_map(|root| FOLDERS.map(|folder| root.join(folder).join(program)));
    match { paths }.find(|path| path.is_file()) {
        Some(target) => write_wrapper(setup_folder, program, &target),
        None => bail!("neither .setup/ nor the machine has {program} of package {package}"),
    }
}

/// Writes a script `.setup/bin/NAME` that runs `target` with the unpacked libraries.
pub(super) fn write_wrapper(setup_folder: &Path, name: &str, target: &Path) -> Result<()> {
    let libraries = library_path(setup_folder);
    let export = match libraries.as_str() {
        "" => String::new(),
        _ => format!("export LD_LIBRARY_PATH='{libraries}'\n"),
    };
    let script = format!("#!/bin/sh\n{export}exec '{}' \"$@\"\n", target.display());
    let path = setup_folder.join("bin").join(name);
    fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Returns all folders of the unpacked tree that contain shared libraries.
pub(super) fn library_path(setup_folder: &Path) -> String {
    let tree = tree(setup_folder);
    let folders =
        ["usr/lib", "lib"].into_iter().filter_map(|part| fs::read_dir(tree.join(part)).ok());
    let of_architecture = folders.flatten().filter_map(|entry| {
        let path = entry.ok()?.path();
        path.to_string_lossy().contains("-linux-gnu").then_some(path)
    });
    let with_private = of_architecture.flat_map(|path| {
        let private = PRIVATE.map(|name| path.join(name)).into_iter().filter(|path| path.is_dir());
        private.chain([path.clone()]).map(|path| path.display().to_string()).collect::<Vec<_>>()
    });
    with_private.collect::<Vec<_>>().join(":")
}

/// Runs apt-get with its lists and cache in a separate folder.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(setup_folder: &Path) -> Result<Self> {
        let folder = setup_folder.join("apt");
        for part in ["lists/partial", "cache/archives/partial", "archives"] {
            fs::create_dir_all(folder.join(part))?;
        }
        Ok(Self { folder })
    }

    fn command(&self, action: &str) -> Command {
        let mut command = Command::new("apt-get");
        command
            .arg("-o")
            .arg(format!("Dir::State::lists={}", self.folder.join("lists").display()))
            .arg("-o")
            .arg(format!("Dir::Cache={}", self.folder.join("cache").display()))
            // The folder is private, so no system lock and no change of user are needed.
            .args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="])
            .arg(action)
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn update(&self) -> Result<()> {
        process::output(&mut self.command("update")).context(
            "apt-get cannot fetch the package lists: check the network and apt's sources",
        )?;
        Ok(())
    }

    /// Returns the packages among `wanted` and their dependencies that the machine lacks.
    fn missing<'a>(&self, wanted: impl Iterator<Item = &'a &'a str>) -> Result<Vec<String>> {
        let mut command = self.command("install");
        let plan = process::output(command.args(["-s", "--no-install-recommends"]).args(wanted))
            .context("apt-get cannot work out what to unpack: `apt-get check` may say why")?;
        Ok(packages_to_install(&plan))
    }

    fn download(&self, packages: &[String]) -> Result<Vec<PathBuf>> {
        let archives = self.folder.join("archives");
        let mut command = self.command("download");
        process::output(command.args(packages).current_dir(&archives))
            .context("apt-get cannot download packages: check the network")?;
        fs::read_dir(&archives)?.map(|entry| Ok(entry?.path())).collect()
    }
}

/// Parses the lines `Inst NAME [OLD] (NEW ...)` of `apt-get -s install`. A package with an old
/// version is already installed and would only be upgraded, so it is omitted.
fn packages_to_install(plan: &str) -> Vec<String> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("Inst "))
        .filter_map(|rest| rest.split_once(' '))
        .filter(|(_, versions)| !versions.starts_with('['))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::packages_to_install;

    #[test]
    fn the_plan_names_new_packages_and_leaves_upgrades() {
        let plan = "Inst memcached (1.6.18-1 Debian:12 [amd64])\n\
                    Inst libssl3 [3.0.15-1] (3.0.16-1 Debian:12 [amd64])\n\
                    Conf memcached (1.6.18-1 Debian:12 [amd64])\n";
        assert_eq!(packages_to_install(plan), ["memcached"]);
    }
}
