//! Tasks for contributors: one subcommand and one file for each.

mod bench;
mod browser;
mod clients;
mod conformance;
mod differential;
mod doctor;
mod lines;
mod process;
mod rust_source;
mod setup;
mod test;
mod tidy;
mod verify;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// nagi's tasks: `cargo xtask TASK`.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Download what the tests need into .setup/, without root and without starting a service
    Setup,
    /// Run every check, or only the steps that are named
    Test {
        /// Steps to run (default: all of them, in this order)
        #[arg(value_parser = test::step_names())]
        steps: Vec<String>,
        #[command(flatten)]
        clients: clients::Arguments,
        #[command(flatten)]
        browser: browser::Arguments,
    },
    /// Check the repository's rules that rustfmt and clippy cannot check
    Tidy,
    /// Show which modules of a crate use which, and the import cycles among its files
    Imports {
        /// The crate's folder in crates/, such as `store`
        name: String,
    },
    /// Count lines of code of crates, without tests, comments and blank lines
    Lines(lines::Arguments),
    /// Send random commands to nagi and to redis-server and memcached, and compare the replies
    Differential(differential::Arguments),
    /// Run the test suites of the servers that nagi replaces
    #[command(subcommand)]
    Conformance(conformance::Suite),
    /// Inject faults into real servers and count how often `nagi doctor` names them first
    Doctor(doctor::Arguments),
    /// Model-check latches, claims, trees and blocked clients with loom
    Loom,
    /// Run the store's tests under a sanitizer (needs a nightly toolchain)
    Sanitize {
        /// Which one
        #[arg(value_enum, default_value = "address")]
        sanitizer: verify::Sanitizer,
    },
    /// Compare the performance of nagi, Valkey, Redis and memcached
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Setup => setup::run(),
        Task::Test { clients, .. } if clients.clients => clients::run(&clients),
        Task::Test { browser, .. } if browser.browser => browser::run(&browser),
        Task::Test { steps, .. } => test::run(&steps),
        Task::Tidy => tidy::run(),
        Task::Imports { name } => tidy::print_imports(&name),
        Task::Lines(arguments) => lines::run(&arguments),
        Task::Differential(arguments) => differential::run(&arguments),
        Task::Conformance(suite) => conformance::run(suite),
        Task::Doctor(arguments) => doctor::run(&arguments),
        Task::Loom => verify::loom(),
        Task::Sanitize { sanitizer } => verify::sanitize(sanitizer),
        Task::Bench(arguments) => bench::run(arguments),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("\nerror: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("because: {cause}");
    }
    ExitCode::FAILURE
}
