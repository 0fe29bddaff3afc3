//! The nagi command: arguments, and nothing else.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nagi_load::{bench, responder};

/// An in-memory cache server that speaks Redis' and memcached's protocols.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::Options>),
    /// Answers every request without doing anything: the floor that benchmarks stand on.
    #[command(hide = true)]
    BenchResponder(responder::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(options) => bench::run(&options),
        Command::BenchResponder(options) => responder::run(&options).map_err(bench::Error::from),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nagi: {error}");
            ExitCode::FAILURE
        }
    }
}
