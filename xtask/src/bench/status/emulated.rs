//! Counts the instructions of a request including those of the kernel, in an emulated machine whose
//! clock advances by a nanosecond with each instruction. The processor time of a thread is then its
//! number of instructions, and does not depend on the load of this machine.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{BLIND, Contestants, INSTRUCTIONS, Measured, PIPELINES, RATIOS};
use crate::bench::Arguments;
use crate::bench::report::Table;
use crate::{process, workspace};

/// The programs that emulate the machine and pack its files, and their packages.
const PROGRAMS: [(&str, &str); 3] =
    [("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static"), ("cpio", "cpio")];
/// The package that depends on the newest kernel for virtual machines.
const KERNEL: &str = "linux-image-cloud-amd64";
/// The first process of the machine.
const INIT: &str = "bench/emulated-init.sh";
/// Options of a server with pages.
const SEEN: [&str; 2] = ["--http-port", "7379"];
/// The degrees of observation, with the options of the server.
const LOOKS: [(&str, &[&str]); 3] = [("none", &BLIND), ("possible", &SEEN), ("open", &SEEN)];
/// Number of requests to count at pipeline 1; four times as many at other depths.
const REQUESTS: u32 = 40_000;
/// The longest time between two lines of output of the machine.
const PATIENCE: Duration = Duration::from_mins(10);

/// The instructions of all requests of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    worker: f64,
    /// Those of all threads of the server, including the threads that serve pages.
    all: f64,
}

/// Counts GET and SET at each depth and each degree of observation.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    ensure!(cfg!(target_arch = "x86_64"), "the emulated machine is an x86_64");
    for (program, package) in PROGRAMS {
        ensure!(
            process::in_path(program),
            "{program} is missing (apt-get install --no-install-recommends {package})"
        );
    }
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let requests = if arguments.quick { REQUESTS / 10 } else { REQUESTS };
    let folder = nagi.new_folder()?;
    let (kernel, image) = (kernel()?, pack(&folder.ours, nagi.program(), &plan(requests))?);
    let mut lines = Vec::new();
    run(&kernel, &image, |line| lines.push(line.to_owned()))?;
    let headings =
        [&["request", "pipeline"][..], &INSTRUCTIONS, &["all threads, by the open page"]].concat();
    let mut table = Table::new(&headings);
    for (name, ratio) in RATIOS {
        for pipeline in PIPELINES {
            let of = |look: &str| {
                let counted = read(&lines, look, ratio, pipeline);
                counted.with_context(|| {
                    format!("the emulated machine printed no figures: {}", lines.join("\n"))
                })
            };
            let [none, possible, open] = [of("none")?, of("possible")?, of("open")?];
            let each = |it: Counted| it.worker / f64::from(of_depth(requests, pipeline));
            let change = |now: f64, before: f64| format!("{:+.2} %", (now / before - 1.0) * 100.0);
            table.row(vec![
                name.to_owned(),
                pipeline.to_string(),
                format!("{:.0}", each(none)),
                format!("{:.0}", each(possible)),
                format!("{:.0}", each(open)),
                change(possible.worker, none.worker),
                change(open.worker, none.worker),
                change(open.all, none.all),
            ]);
        }
    }
    Ok(Measured { tables: vec![table], details: None })
}

fn of_depth(requests: u32, pipeline: u32) -> u32 {
    requests * pipeline.min(4)
}

/// Returns the lines of the measurements for [`INIT`].
fn plan(requests: u32) -> String {
    let mut plan = String::new();
    for (_, ratio) in RATIOS {
        for pipeline in PIPELINES {
            for (look, options) in LOOKS {
                let (requests, options) = (of_depth(requests, pipeline), options.join(" "));
                plan.push_str(&format!("{look} {ratio} {pipeline} {requests} {options}\n"));
            }
        }
    }
    plan
}

/// Returns the kernel's image, which is downloaded into `.peers/emulated` at first.
fn kernel() -> Result<PathBuf> {
    let folder = workspace::root().join(".peers/emulated");
    let find = || {
        let files = fs::read_dir(folder.join("boot")).into_iter().flatten().flatten();
        { files }.map(|file| file.path()).find(|path| path.to_string_lossy().contains("vmlinuz"))
    };
    if let Some(image) = find() {
        return Ok(image);
    }
    println!("bench: brings a kernel for the emulated machine into .peers/emulated");
    fs::create_dir_all(&folder)?;
    let depends = process::output(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package =
        package.with_context(|| format!("apt knows no {KERNEL}: run `apt-get update`"))?;
    process::output(Command::new("apt-get").args(["download", package]).current_dir(&folder))?;
    let files = fs::read_dir(&folder)?.flatten().map(|file| file.path());
    for archive in files.filter(|path| path.extension().is_some_and(|it| it == "deb")) {
        process::output(Command::new("dpkg").arg("-x").arg(&archive).arg(&folder))?;
    }
    find().with_context(|| format!("{package} contains no kernel"))
}

/// Packs the files of the machine into an image, as the kernel's documentation describes in
/// "Ramfs, rootfs and initramfs": [`INIT`], busybox, nagi with its libraries, and the plan.
fn pack(folder: &Path, nagi: &Path, plan: &str) -> Result<PathBuf> {
    let root = folder.join("root");
    for part in ["bin", "proc", "dev", "tmp"] {
        fs::create_dir_all(root.join(part))?;
    }
    let shell = process::output(Command::new("sh").args(["-c", "command -v busybox"]))?;
    fs::copy(shell.trim(), root.join("bin/busybox"))?;
    let stripped = root.join("bin/nagi");
    process::output(Command::new("strip").arg("-o").arg(&stripped).arg(nagi))?;
    let needed = process::output(Command::new("ldd").arg(&stripped))?;
    for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap_or(&root))?;
        fs::copy(library, copy)?;
    }
    let init = root.join("init");
    fs::copy(workspace::root().join(INIT), &init)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    fs::write(root.join("plan"), plan)?;
    let image = folder.join("image.cpio");
    let mut command = Command::new("sh");
    command
        .args(["-c", "find . | cpio --create --format=newc --quiet"])
        .current_dir(&root)
        .stdout(File::create(&image)?);
    process::run(&mut command)?;
    Ok(image)
}

/// Runs the machine until it turns itself off, and passes on each line of its console.
fn run(kernel: &Path, image: &Path, mut read: impl FnMut(&str)) -> Result<()> {
    let mut command = Command::new("qemu-system-x86_64");
    command
        // A nanosecond for each instruction; an idle machine skips to its next timer.
        .args(["-accel", "tcg", "-icount", "shift=0,sleep=off", "-cpu", "max", "-smp", "1"])
        .args(["-m", "1024", "-display", "none", "-monitor", "none", "-serial", "stdio"])
        .args(["-no-reboot", "-append", "console=ttyS0 quiet panic=-1"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .stdin(Stdio::null());
    process::run_by_lines(&mut command, PATIENCE, |line| {
        let line = line.trim();
        println!("bench: {line}");
        read(line);
    })
}

/// Finds a measurement among the lines of the machine.
fn read(lines: &[String], look: &str, ratio: &str, pipeline: u32) -> Option<Counted> {
    let prefix = format!("counted {look} {ratio} {pipeline} ");
    let figures = lines.iter().find_map(|line| line.strip_prefix(&prefix))?;
    let (worker, all) = figures.split_once(' ')?;
    Some(Counted { worker: worker.parse().ok()?, all: all.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_console() {
        let lines = ["noise", "counted open 1:0 16 1200 1500"].map(str::to_owned);
        assert_eq!(read(&lines, "open", "1:0", 16), Some(Counted { worker: 1200.0, all: 1500.0 }));
        assert_eq!(read(&lines, "open", "1:0", 1), None);
        assert_eq!(read(&lines, "none", "1:0", 16), None);
    }

    #[test]
    fn a_plan_has_a_line_for_each_measurement() {
        let plan = plan(1000);
        assert_eq!(plan.lines().count(), RATIOS.len() * PIPELINES.len() * LOOKS.len());
        assert!(plan.starts_with("none 1:0 1 1000 --http-port 0 "), "{plan}");
        assert!(plan.ends_with("open 0:1 64 4000 --http-port 7379\n"), "{plan}");
    }
}
