//! CPU throttling of a process, from `cpu.stat` of its control group or of the nearest ancestor
//! that has a limit (`Documentation/admin-guide/cgroup-v2.rst`, and `scheduler/sched-bwc.rst` for
//! version 1).

use nagi_findings::observation::Throttling;
use std::path::{Path, PathBuf};

/// Where control groups are mounted, relative to the folder that contains `proc`.
const MOUNT: &str = "sys/fs/cgroup";

/// Returns the throttling since the group was created; `None` if there is no limit or the files
/// cannot be read.
pub(super) fn throttling(process: &Path) -> Option<Throttling> {
    let groups = std::fs::read_to_string(process.join("cgroup")).ok()?;
    let root = process.parent()?.parent()?;
    let folders = groups.lines().filter_map(|line| folder_of(root, line));
    let mut folders = folders.flat_map(|(mount, folder)| above(&mount, &folder));
    let limited = folders.find(|folder| has_limit(folder))?;
    parse(&std::fs::read_to_string(limited.join("cpu.stat")).ok()?)
}

/// Whether a group's processor time is limited, in version 2 or version 1.
fn has_limit(folder: &Path) -> bool {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let most = read("cpu.max").map(|text| !text.starts_with("max"));
    let quota = || read("cpu.cfs_quota_us").map(|text| !text.starts_with('-'));
    most.or_else(quota).unwrap_or(false)
}

/// Returns the mount point, and the folder named by a line of `/proc/PID/cgroup` such as
/// `0::/system.slice/x` or `4:cpu,cpuacct:/x`.
pub(super) fn folder_of(root: &Path, line: &str) -> Option<(PathBuf, PathBuf)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let mount = match controllers {
        "" => {
            let unified = root.join(MOUNT).join("unified");
            if unified.is_dir() { unified } else { root.join(MOUNT) }
        }
        names if names.split(',').any(|name| name == "cpu") => {
            let joined = root.join(MOUNT).join(names);
            if joined.is_dir() { joined } else { root.join(MOUNT).join("cpu") }
        }
        _ => return None,
    };
    let folder = mount.join(path.trim_start_matches('/'));
    Some((mount, folder))
}

/// Returns a folder and its ancestors, up to the mount point.
fn above(mount: &Path, folder: &Path) -> Vec<PathBuf> {
    folder.ancestors().take_while(|it| it.starts_with(mount)).map(Path::to_path_buf).collect()
}

pub(super) fn parse(text: &str) -> Option<Throttling> {
    let number = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    let throttled_us = number("throttled_usec ");
    let throttled_us =
        throttled_us.or(number("throttled_time ").map(|nanoseconds| nanoseconds / 1000));
    Some(Throttling {
        periods: number("nr_periods ")?,
        throttled_periods: number("nr_throttled ")?,
        throttled_us: throttled_us?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_stat_of_both_versions_is_parsed() {
        let expected = Throttling { periods: 20, throttled_periods: 5, throttled_us: 1234 };
        let two = "usage_usec 9\nnr_periods 20\nnr_throttled 5\nthrottled_usec 1234\n";
        let one = "nr_periods 20\nnr_throttled 5\nthrottled_time 1234000\n";
        assert_eq!((parse(two), parse(one)), (Some(expected), Some(expected)));
        assert_eq!(parse("usage_usec 9\n"), None);
    }

    #[test]
    fn lines_are_mapped_to_folders() {
        let at = |line: &str| folder_of(Path::new("/nowhere"), line).map(|(_, folder)| folder);
        assert_eq!(at("0::/a/b"), Some(PathBuf::from("/nowhere/sys/fs/cgroup/a/b")));
        assert_eq!(at("4:cpu,cpuacct:/a"), Some(PathBuf::from("/nowhere/sys/fs/cgroup/cpu/a")));
        assert_eq!(at("3:memory:/a"), None);
    }
}
