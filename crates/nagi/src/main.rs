//! The nagi command: arguments, and nothing else.

mod arguments;
mod memcached;
mod rdb;
mod screen;
mod serve;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use mimalloc::MiMalloc;
use nagi_load::{bench, responder};
use nagi_server::Counting;
use serve::Role;

/// Given back to the system promptly, without locks between workers, and without the checks of
/// its `secure` feature, which cost a tenth of every allocation.
#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

/// An in-memory cache server that speaks Redis' and memcached's protocols.
///
/// Without a command it serves: `nagi`, `nagi redis.conf` and `nagi --port 7000` are short for
/// `nagi serve ...`. Started under the name redis-server, redis-check-rdb or memcached it takes
/// that program's arguments.
#[derive(Debug, Parser)]
#[command(name = "nagi", version, arg_required_else_help = true)]
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
    CheckRdb(rdb::Check),
    RdbStats(rdb::Stats),
    /// Prints a shell's completions, to be read by it
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints a manual page in troff
    Man {
        /// Of which command
        #[arg(default_value = "nagi")]
        page: Page,
    },
}

/// What there is a manual page of.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    Nagi,
    Serve,
}

/// Every command with its options.
fn commands() -> clap::Command {
    let serve = serve::command();
    // Its flags are read elsewhere; here it is named for the help.
    let memcached = clap::Command::new("memcached")
        .about("Serves memcached's clients, with that server's flags: nagi memcached -h");
    let mut all = Arguments::command().subcommand(serve.display_order(0)).subcommand(memcached);
    all.build();
    all
}

fn main() -> ExitCode {
    let words: Option<Vec<String>> =
        std::env::args_os().map(|word| word.into_string().ok()).collect();
    let Some(words) = words else {
        eprintln!("nagi: the command line is not text in UTF-8");
        return ExitCode::FAILURE;
    };
    run(&words).unwrap_or_else(|error| {
        eprintln!("nagi: {error}");
        ExitCode::FAILURE
    })
}

/// Does what the words ask for, of which the first is the name that the program was started by.
fn run(words: &[String]) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (program, rest) =
        words.split_first().map_or(("nagi", &[][..]), |(name, rest)| (name, rest));
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    if program.ends_with("redis-server") || program.ends_with("valkey-server") {
        return serve::run(rest, Role::RedisServer);
    }
    if program.ends_with("redis-check-rdb") || program.ends_with("valkey-check-rdb") {
        return rdb::redis_check_rdb(rest);
    }
    if program == "memcached" {
        return serve::run_memcached(rest);
    }
    match rest.split_first() {
        Some((first, flags)) if first == "memcached" => return serve::run_memcached(flags),
        None => return serve::run(&[], Role::Nagi),
        Some((first, options)) if first == "serve" => return serve::run(options, Role::Nagi),
        Some((first, _)) if starts_server(first) => return serve::run(rest, Role::Nagi),
        Some(_) => {}
    }
    let matches = commands().get_matches_from(words);
    match Arguments::from_arg_matches(&matches)?.command {
        Command::Bench(options) => bench::run(&options)?,
        Command::BenchResponder(options) => responder::run(&options)?,
        Command::CheckRdb(options) => return rdb::check(&options),
        Command::RdbStats(options) => return rdb::stats(&options),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut commands(), "nagi", &mut std::io::stdout());
        }
        Command::Man { page } => manual(page)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a first word is an option of `serve` or a file, and not a command.
fn starts_server(word: &str) -> bool {
    let is_option = word.starts_with("--") && !matches!(word, "--help" | "--version");
    is_option || word == "-" || word.contains(['/', '.'])
}

fn manual(page: Page) -> std::io::Result<()> {
    let commands = commands();
    let command = match page {
        Page::Nagi => commands,
        Page::Serve => serve::command().name("nagi-serve").version(env!("CARGO_PKG_VERSION")),
    };
    clap_mangen::Man::new(command).render(&mut std::io::stdout())
}
