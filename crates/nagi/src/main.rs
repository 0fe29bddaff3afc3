//! The nagi command: arguments, and nothing else.

mod screen;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use nagi_load::{bench, responder};
use nagi_server::Counting;

/// Given back to the system promptly, without locks between workers, and without the checks of
/// its `secure` feature, which cost a tenth of every allocation.
#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

/// An in-memory cache server that speaks Redis' and memcached's protocols.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves until it is told to stop; this is also what nagi does if no command is given.
    Serve(serve::Options),
    Bench(Box<bench::Options>),
    /// Answers every request without doing anything: the floor that benchmarks stand on.
    #[command(hide = true)]
    BenchResponder(responder::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command.unwrap_or(Command::Serve(arguments.serve)) {
        Command::Serve(options) => serve::run(options).map_err(|error| error.to_string()),
        Command::Bench(options) => bench::run(&options).map_err(|error| error.to_string()),
        Command::BenchResponder(options) => {
            responder::run(&options).map_err(|error| error.to_string())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nagi: {error}");
            ExitCode::FAILURE
        }
    }
}
