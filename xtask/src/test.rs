//! `cargo xtask test`: all checks, the cheapest first. Stops at the first that fails.

use std::ops::AddAssign;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::workspace::{self, cargo};
use crate::{conformance, process, setup, tidy};
use harness::Server;

/// A check, which `cargo xtask test NAME` runs alone.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn() -> Result<Count>,
}

const STEPS: [Step; 11] = [
    Step { name: "setup", what: "downloads for the tests, into .setup/", run: set_up },
    Step { name: "fmt", what: "the code is formatted", run: fmt },
    Step { name: "tidy", what: "the repository's rules", run: check_tidiness },
    Step { name: "deny", what: "licences and sources of dependencies", run: check_dependencies },
    Step { name: "clippy", what: "clippy, warnings denied", run: clippy },
    Step { name: "doc", what: "rustdoc of the published crates, warnings denied", run: document },
    Step { name: "unit", what: "unit and property tests", run: unit },
    Step { name: "black-box", what: "black-box tests with epoll", run: black_box },
    Step { name: "uring", what: "black-box tests with io_uring", run: by_uring },
    Step { name: "python", what: "Python clients", run: python },
    Step { name: "conformance", what: "the quick units of Redis' suite", run: conform },
];

/// Features that the server does not use, but that programs which use the client enable.
const FEATURES: &str = "nagi-client/tokio";

/// A test runner that prints nothing for this long hangs: each test ends within a few minutes.
const LONGEST_SILENCE: Duration = Duration::from_mins(10);

/// Returns the names that [`run`] accepts.
pub(crate) fn step_names() -> [&'static str; STEPS.len()] {
    STEPS.map(|step| step.name)
}

/// Numbers of tests, from the output of any test runner.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Count {
    passed: u64,
    failed: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs the steps in `names`, or all steps if there are none, and prints the number of tests.
pub(crate) fn run(names: &[String]) -> Result<()> {
    let is_wanted = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    let mut total = Count::default();
    for Step { name, what, run } in STEPS.iter().filter(is_wanted) {
        println!("\n== {name}: {what}");
        let count = run().and_then(|count| match count.failed {
            0 => Ok(count),
            failed => Err(anyhow!("{failed} tests failed")),
        });
        total += count.with_context(|| {
            format!("step {name} failed; run it alone with `cargo xtask test {name}`")
        })?;
    }
    println!("\n{} passed, {} failed", total.passed, total.failed);
    Ok(())
}

fn set_up() -> Result<Count> {
    setup::run().map(|()| Count::default())
}

fn fmt() -> Result<Count> {
    require_component("fmt", "rustfmt")?;
    process::run(&mut cargo(&["fmt", "--all", "--check"])).context("run `cargo fmt --all`")?;
    Ok(Count::default())
}

fn check_tidiness() -> Result<Count> {
    tidy::run().map(|()| Count::default())
}

/// Security advisories are not checked, because they need a network, which tests must not depend
/// on.
fn check_dependencies() -> Result<Count> {
    let mut check = Command::new(setup::cargo_deny::program(&workspace::setup_folder()));
    check.args(["--log-level", "error", "check", "bans", "licenses", "sources"]);
    process::run(check.current_dir(workspace::root()))?;
    Ok(Count::default())
}

fn clippy() -> Result<Count> {
    require_component("clippy", "clippy")?;
    let mut clippy = cargo(&["clippy", "--workspace", "--all-targets", "--features", FEATURES]);
    process::run(clippy.args(["--", "-D", "warnings"]))?;
    Ok(Count::default())
}

/// Builds the documentation, because only rustdoc warns about links to private or missing items.
fn document() -> Result<Count> {
    let mut doc = cargo(&["doc", "--no-deps", "--features", FEATURES]);
    doc.args(["--package", "nagi-client", "--package", "nagi-proto", "--package", "nagi-chunk"]);
    process::run(doc.env("RUSTDOCFLAGS", "-Dwarnings"))?;
    Ok(Count::default())
}

fn unit() -> Result<Count> {
    let arguments = ["test", "--workspace", "--exclude", "nagi-tests", "--features", FEATURES];
    count(&mut cargo(&arguments))
}

fn black_box() -> Result<Count> {
    count(cargo(&["test", "--package", "nagi-tests"]).env("NAGI_TEST_IO", "epoll"))
}

/// Runs the black-box tests and the server's own socket tests with the io_uring driver.
fn by_uring() -> Result<Count> {
    let mut serve = Command::new(workspace::build_nagi("dev")?);
    serve.args(["serve", "--io", "uring"]);
    if let Err(problem) = Server::start_nagi(serve) {
        if problem.contains("io_uring cannot be used") {
            println!("SKIPPED: {}", problem.lines().last().unwrap_or_default());
            return Ok(Count::default());
        }
        bail!(problem);
    }
    let packages = ["test", "--package", "nagi-tests", "--package", "nagi-server"];
    count(cargo(&packages).args(["--test", "*"]).env("NAGI_TEST_IO", "uring"))
}

fn python() -> Result<Count> {
    let binary = workspace::build_nagi("dev")?;
    let start = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("serve").args(arguments);
        Server::start_nagi(command).map_err(|problem| anyhow!(problem))
    };
    let (server, guarded) = (start(&["--http-port", "any"])?, start(&["--requirepass", "secret"])?);
    let mut tests = Command::new(workspace::setup_folder().join("bin/python"));
    tests
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "tests/python"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("NAGI_RESP", server.resp().to_string())
        .env("NAGI_MEMCACHED", server.memcached_address().to_string())
        .env("NAGI_HTTP", server.http().to_string())
        .env("NAGI_MEMCACHED_GUARDED", guarded.memcached_address().to_string())
        .current_dir(workspace::root());
    count(&mut tests).with_context(|| format!("the server said: {}", server.log()))
}

fn conform() -> Result<Count> {
    let (passed, failed) = conformance::redis::run_quick(workspace::build_nagi("dev")?)?;
    Ok(Count { passed: passed as u64, failed: failed as u64 })
}

fn require_component(subcommand: &str, component: &str) -> Result<()> {
    if process::output(&mut cargo(&[subcommand, "--version"])).is_err() {
        bail!("the toolchain lacks {component}: run `rustup component add {component}`");
    }
    Ok(())
}

/// Runs a test runner, prints its output, and adds up the numbers of tests in it.
fn count(command: &mut Command) -> Result<Count> {
    let mut total = Count::default();
    process::run_by_lines(command, LONGEST_SILENCE, |line| {
        println!("{line}");
        total += count_in(line);
    })?;
    Ok(total)
}

/// Parses the numbers of tests in a line of output, such as `test result: ok. 3 passed; 0 failed;
/// ...` of Rust's test runner or `1 failed, 5 passed in 0.12s` of pytest.
fn count_in(line: &str) -> Count {
    let is_summary = line.starts_with("test result: ")
        || (line.ends_with('s') && line.contains(" in ") && line.contains(" passed"));
    if !is_summary {
        return Count::default();
    }
    let words: Vec<&str> =
        line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let number_before = |label: &str| {
        words
            .windows(2)
            .find_map(|pair| match pair {
                [number, word] if *word == label => number.parse().ok(),
                _ => None,
            })
            .unwrap_or(0)
    };
    Count { passed: number_before("passed"), failed: number_before("failed") }
}

#[cfg(test)]
mod tests {
    use super::{Count, count_in};

    #[test]
    fn summaries_of_rust_and_pytest_are_counted_and_other_lines_are_not() {
        let cases = [
            ("test result: ok. 12 passed; 0 failed; 1 ignored; finished in 0.00s", 12, 0),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored; finished in 0.00s", 3, 2),
            ("1 failed, 5 passed, 2 skipped in 0.12s", 5, 1),
            ("===== 5 passed in 0.12s", 5, 0),
            ("test it_passed ... ok", 0, 0),
            ("it passed in 3 tries", 0, 0),
        ];
        for (line, passed, failed) in cases {
            assert_eq!(count_in(line), Count { passed, failed }, "{line}");
        }
    }
}
