//! `cargo xtask conformance redis`: Redis' own test suite, against nagi and against the real
//! redis-server.
//!
//! In internal mode, the suite starts `src/redis-server` itself, which is replaced by a script that
//! starts the server under test. In external mode, the suite connects to a running server.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use harness::Server;

use super::exclusions::Exclusions;
use super::outcome::Outcome;
use super::source;
use crate::{process, setup, workspace};

/// The units whose tests must pass, except for excluded tests. All other units are excluded with a
/// reason.
const UNITS: &[&str] = &[
    "unit/auth",
    "unit/protocol",
    "unit/keyspace",
    "unit/scan",
    "unit/info",
    "unit/info-command",
    "unit/type/string",
    "unit/type/incr",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/hash",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/sort",
    "unit/expire",
    "unit/other",
    "unit/multi",
    "unit/quit",
    "unit/acl",
    "unit/acl-v2",
    "unit/latency-monitor",
    "unit/dump",
    "integration/rdb",
    "integration/corrupt-dump",
    "integration/corrupt-dump-fuzzer",
    "integration/convert-zipmap-hash-on-load",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/redis-cli",
    "integration/redis-benchmark",
    "integration/dismiss-mem",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/slowlog",
    "unit/scripting",
    "unit/functions",
    "unit/maxmemory",
    "unit/introspection",
    "unit/introspection-2",
    "unit/limits",
    "unit/obuf-limits",
    "unit/bitops",
    "unit/bitfield",
    "unit/geo",
    "unit/memefficiency",
    "unit/hyperloglog",
    "unit/lazyfree",
    "unit/pause",
    "unit/querybuf",
    "unit/pendingquerybuf",
    "unit/tracking",
    "unit/shutdown",
    "unit/networking",
    "unit/client-eviction",
    "unit/violations",
    "unit/replybufsize",
];

/// The units that every change must pass. They take a few seconds, and do not assume that requests
/// of two connections are executed in the order in which they were sent.
const QUICK_UNITS: &[&str] = &[
    "unit/auth",
    "unit/protocol",
    "unit/keyspace",
    "unit/scan",
    "unit/type/incr",
    "unit/type/hash",
    "unit/type/stream-cgroups",
    "unit/sort",
    "unit/multi",
    "unit/quit",
    "unit/acl",
    "unit/acl-v2",
    "unit/dump",
    "unit/functions",
    "unit/bitops",
    "unit/bitfield",
    "unit/geo",
    "unit/tracking",
];

/// The units to run, and the servers to run them against.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Units such as unit/type/string (default: all that nagi must pass)
    units: Vec<String>,
    /// How the suite reaches the server
    #[arg(long, value_enum, default_value = "internal")]
    mode: Mode,
    /// Run only nagi, without comparing with the real redis-server
    #[arg(long)]
    alone: bool,
    /// Also run excluded tests, and name those that pass
    #[arg(long)]
    all: bool,
    /// Cargo's profile to build nagi with, unless NAGI_BINARY names a binary
    #[arg(long, default_value = "dev")]
    profile: String,
    /// Seconds that a test may take
    #[arg(long, default_value_t = 120)]
    timeout: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// The suite starts servers as needed
    Internal,
    /// The suite uses one running server
    External,
}

/// Runs the suite. Fails if a test fails with nagi.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::run()?;
    let suite = Suite {
        folder: source::prepare()?,
        exclusions: Exclusions::read()?,
        mode: arguments.mode,
        all: arguments.all,
        timeout_s: arguments.timeout,
    };
    suite.check_units()?;
    let nagi = match std::env::var_os("NAGI_BINARY") {
        Some(binary) => PathBuf::from(binary),
        None => workspace::build_nagi(&arguments.profile)?,
    };
    let units: Vec<&str> = match arguments.units.as_slice() {
        [] => UNITS.to_vec(),
        units => units.iter().map(String::as_str).collect(),
    };
    let redis = workspace::setup_folder().join("bin/redis-server");
    let peer = if arguments.alone {
        None
    } else {
        Some(suite.run_all(&units, "redis-server", &Binary::Redis(redis))?)
    };
    let totals = suite.run_all(&units, "nagi", &Binary::Nagi(nagi))?;
    println!("\nnot run:");
    for (kind, count) in suite.exclusions.summary() {
        println!("  {count:>4}  {kind}");
    }
    if let Some(peer) = peer {
        println!("redis-server: {}", peer.line());
    }
    println!("{}", totals.line());
    if totals.failed > 0 {
        bail!("nagi fails {} tests of Redis' suite", totals.failed);
    }
    Ok(())
}

/// Runs the quick units against `nagi`. Returns the numbers of tests that passed and failed.
pub(crate) fn run_quick(nagi: PathBuf) -> Result<(usize, usize)> {
    let suite = Suite {
        folder: source::prepare()?,
        exclusions: Exclusions::read()?,
        mode: Mode::Internal,
        all: false,
        timeout_s: 120,
    };
    let totals = suite.run_all(QUICK_UNITS, "nagi", &Binary::Nagi(nagi))?;
    Ok((totals.passed, totals.failed))
}

/// The binary of a server.
enum Binary {
    Nagi(PathBuf),
    Redis(PathBuf),
}

#[derive(Default)]
struct Totals {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Totals {
    fn line(&self) -> String {
        let Totals { passed, failed, skipped } = self;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }
}

struct Suite {
    folder: PathBuf,
    exclusions: Exclusions,
    mode: Mode,
    all: bool,
    timeout_s: u32,
}

impl Suite {
    fn run_all(&self, units: &[&str], name: &str, binary: &Binary) -> Result<Totals> {
        println!("\n{name}:");
        self.link(binary)?;
        let mut failures = fs::File::create(source::folder().join(format!("{name}-failed.txt")))?;
        let mut totals = Totals::default();
        for (number, unit) in units.iter().enumerate() {
            // A unit may take minutes, so progress is printed.
            print!("  {:>2} of {} {unit:<22} ", number + 1, units.len());
            std::io::stdout().flush()?;
            let outcome = self.run_unit(unit, name, binary)?;
            totals.passed += outcome.passed.len();
            totals.failed += outcome.failed.len();
            totals.skipped += outcome.skipped;
            let (passed, failed) = (outcome.passed.len(), outcome.failed.len());
            let (skipped, left_out) = (outcome.skipped, self.exclusions.of_unit(unit).len());
            println!(
                "{passed:>4} passed {failed:>4} failed {skipped:>4} skipped, {left_out} by the list"
            );
            for (test, why) in &outcome.failed {
                println!("    {test}: {}", why.lines().next().unwrap_or_default());
                writeln!(failures, "{unit}: {test}\n{why}")?;
            }
            if self.all {
                let listed = self.exclusions.of_unit(unit);
                let passes = outcome.passed.iter().filter(|it| listed.contains(&it.as_str()));
                passes.for_each(|test| println!("    listed, and passes: {test}"));
            }
        }
        Ok(totals)
    }

    /// Checks that each unit of the suite is either run or excluded with a reason.
    fn check_units(&self) -> Result<()> {
        let all = source::units(&self.folder)?;
        let is_known = |unit: &str| UNITS.contains(&unit) || self.exclusions.leaves_out(unit);
        let unknown: Vec<&str> =
            all.iter().map(String::as_str).filter(|unit| !is_known(unit)).collect();
        if !unknown.is_empty() {
            bail!("neither run nor left out by the list: {}", unknown.join(", "));
        }
        Ok(())
    }

    /// Creates the programs that the suite starts.
    fn link(&self, binary: &Binary) -> Result<()> {
        let script = match binary {
            // Unknown settings are ignored, so that only the test that needs one fails, and not all
            // tests that share its server. Slow scripts must delay all clients, as in Redis.
            // `use-exit-on-panic` is deleted, because only Redis' tests of crashes need it.
            Binary::Nagi(path) => format!(
                "#!/bin/bash\nmore=()\n\
                 if [ -f \"$1\" ]; then\n\
                 sed -i /^use-exit-on-panic/d \"$1\"\n\
                 more=(--ignore-unsupported --busy-reply all)\n\
                 fi\n\
                 exec -a redis-server '{}' \"$@\" \"${{more[@]}}\"\n",
                path.display()
            ),
            Binary::Redis(path) => format!("#!/bin/bash\nexec '{}' \"$@\"\n", path.display()),
        };
        let programs = ["redis-cli", "redis-benchmark"].map(|name| (name, starting(name)));
        for (name, script) in [("redis-server", script)].into_iter().chain(programs) {
            let path = self.folder.join("src").join(name);
            fs::write(&path, script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    fn run_unit(&self, unit: &str, name: &str, binary: &Binary) -> Result<Outcome> {
        let skipped = source::folder().join("skip");
        let tests = if self.all { Vec::new() } else { self.exclusions.of_unit(unit) };
        fs::write(&skipped, tests.join("\n"))?;
        let mut command = tclsh();
        command
            .current_dir(&self.folder)
            .args(["tests/test_helper.tcl", "--durable", "--clients", "1", "--single", unit])
            .args(["--timeout", &self.timeout_s.to_string()])
            // Other suites may run on this machine, so each process uses a different range of
            // ports.
            .args(["--baseport", &(20_000 + std::process::id() % 10_000).to_string()]);
        if !tests.is_empty() {
            command.arg("--skipfile").arg(&skipped);
        }
        if !self.all {
            command.arg("--tags").arg(self.exclusions.tags());
        }
        let server = match self.mode {
            Mode::Internal => None,
            Mode::External => Some(start(binary)?),
        };
        if let Some(server) = &server {
            let port = server.resp().port().to_string();
            command.args(["--host", "127.0.0.1", "--port", &port]);
        }
        let output = command
            .output()
            .with_context(|| format!("cannot start: {}", process::line(&command)))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let log = unit.replace('/', "-");
        fs::write(source::folder().join(format!("{name}-{log}.txt")), printed.as_bytes())?;
        let mut outcome = Outcome::parse(&printed);
        if !outcome.is_complete {
            let end: Vec<&str> = printed.lines().rev().take(5).collect();
            outcome.failed.push(("(the unit did not end)".to_owned(), end.join(" | ")));
        }
        Ok(outcome)
    }
}

/// Returns a script that starts a program of Redis, derived from the script that setup has written
/// for redis-cli.
fn starting(program: &str) -> String {
    let script = workspace::setup_folder().join("bin/redis-cli");
    match fs::read_to_string(script) {
        Ok(script) => script.replace("/redis-cli'", &format!("/{program}'")),
        Err(_) => format!("#!/bin/sh\nexec {program} \"$@\"\n"),
    }
}

/// Starts a server for the external mode, with the options of the suite's own servers.
fn start(binary: &Binary) -> Result<Server> {
    let config = ["--enable-debug-command", "yes", "--enable-protected-configs", "yes"];
    let more = ["--notify-keyspace-events", "KEA", "--latency-monitor-threshold", "1"];
    let server = match binary {
        Binary::Nagi(path) => {
            let mut command = Command::new(path);
            command.arg("serve").args(config).args(more).args(["--busy-reply", "all"]);
            Server::start_nagi(command)
        }
        Binary::Redis(path) => {
            let mut command = Command::new(path);
            command.args(config).args(more);
            Server::start_redis(command)
        }
    };
    server.map_err(anyhow::Error::msg)
}

/// Returns a command for the Tcl interpreter that runs the suite, with its unpacked library if
/// there is one.
fn tclsh() -> Command {
    let setup = workspace::setup_folder();
    let script = setup.join("bin/tclsh");
    let mut command = if script.is_file() { Command::new(script) } else { Command::new("tclsh") };
    let library = library(&setup.join("debian/usr/share/tcltk"));
    if let Some(library) = library {
        command.env("TCL_LIBRARY", library);
    }
    command
}

fn library(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.join("init.tcl").is_file())
}
