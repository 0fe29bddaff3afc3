//! The nagi program: only its command line; the libraries do the work.

mod allocator;
mod arguments;
mod client;
mod memcached;
mod rdb;
mod screen;
mod serve;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use nagi_load::{bench, calm, output, responder, storm};
use serve::Role;

/// An in-memory cache server that speaks Redis' and memcached's protocols.
///
/// Without a command it starts the server: `nagi`, `nagi redis.conf` and `nagi --port 7000` are
/// short for `nagi serve ...`. Run under the name redis-server, redis-check-rdb or memcached, it
/// takes that program's arguments.
#[derive(Debug, Parser)]
#[command(name = "nagi", version, arg_required_else_help = true)]
#[command(next_display_order = None)]
#[command(override_usage = "nagi [COMMAND]\n       nagi [FILE] [OPTIONS OF serve]")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::BenchOptions>),
    /// Answers every request without doing anything: the floor that benchmarks stand on.
    #[command(hide = true)]
    BenchResponder(responder::ResponderOptions),
    Calm(Box<calm::CalmOptions>),
    CheckRdb(rdb::Check),
    Client(client::Options),
    /// Prints the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    Doctor(nagi_doctor::DoctorOptions),
    /// Prints a manual page in troff, or writes all of them
    Man {
        /// Command to print the page of [default: nagi itself]
        page: Option<String>,
        /// Write all pages to files in this directory, such as nagi-serve.1
        #[arg(long, value_name = "DIRECTORY", conflicts_with = "page")]
        directory: Option<PathBuf>,
    },
    RdbStats(rdb::Stats),
    Storm(storm::StormOptions),
    Top(nagi_top::TopOptions),
}

/// The commands whose arguments are URLs, in which passwords are hidden.
const TAKE_URLS: [&str; 4] = ["bench", "calm", "doctor", "top"];

/// Every command with its options.
fn commands() -> clap::Command {
    let serve = serve::command().display_order(0);
    Arguments::command().subcommand(serve).subcommand(memcached::command().display_order(1))
}

/// Every command, for shell completions: options of `serve` need no command before them.
fn completed() -> clap::Command {
    let serve = serve::command();
    let options = serve.get_arguments().filter(|argument| argument.get_long().is_some());
    commands().args(options.cloned().collect::<Vec<_>>())
}

fn main() -> ExitCode {
    let words: Option<Vec<String>> =
        std::env::args_os().map(|word| word.into_string().ok()).collect();
    let Some(words) = words else {
        screen::complain("the command line is not valid UTF-8");
        return ExitCode::FAILURE;
    };
    run(&words).unwrap_or_else(|error| {
        screen::complain(&error.to_string());
        ExitCode::FAILURE
    })
}

/// Runs a command line, whose first word is the name by which the program was started.
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
    if rest.first().is_some_and(|command| TAKE_URLS.contains(&&**command)) {
        nagi_load::target::hide_passwords()?;
    }
    let matches = match commands().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => match screen::value_refusal(&error) {
            Some(line) => {
                screen::complain(&line);
                return Ok(ExitCode::from(2));
            }
            None => error.exit(),
        },
    };
    match Arguments::from_arg_matches(&matches)?.command {
        Command::Bench(options) => return Ok(measured(bench::run(&options))),
        Command::BenchResponder(options) => responder::run(&options)?,
        Command::Calm(options) => calm::run(&options)?,
        Command::CheckRdb(options) => return rdb::check(&options),
        Command::Client(options) => return client::run(&options),
        Command::Doctor(options) => return Ok(nagi_doctor::run(&options)),
        Command::RdbStats(options) => return rdb::stats(&options),
        Command::Storm(options) => storm::run(&options)?,
        Command::Top(options) => nagi_top::run(&options)?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut completed(), "nagi", &mut script);
            output::print(&script)?;
        }
        Command::Man { directory: Some(folder), .. } => {
            write_pages(&documented(), &folder).map_err(|error| {
                format!("cannot write manual pages to {}: {error}", folder.display())
            })?;
        }
        Command::Man { page, .. } => output::print(manual(page.as_deref())?.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit status of a measurement, which tells why it failed.
fn measured(result: Result<(), bench::Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::complain(&error.to_string());
            ExitCode::from(error.exit_status())
        }
    }
}

/// Whether a first word is an option of `serve` or a file, and not a command.
fn starts_server(word: &str) -> bool {
    let is_option = word.starts_with("--") && !matches!(word, "--help" | "--version");
    is_option || word == "-" || word.contains(['/', '.'])
}

/// The commands that have a manual page: `help` has none.
fn documented() -> clap::Command {
    let mut all = commands().disable_help_subcommand(true);
    all.build();
    all
}

/// The manual page of a command, by the command's or the page's name; without a name, that of nagi.
fn manual(name: Option<&str>) -> Result<String, Box<dyn std::error::Error>> {
    let all = documented();
    let command = match name.map(|name| name.strip_prefix("nagi-").unwrap_or(name)) {
        None | Some("nagi") => &all,
        Some(name) => find(&all, name).ok_or_else(|| format!("unknown command {name}"))?,
    };
    let mut text = Vec::new();
    page(command).render(&mut text)?;
    Ok(String::from_utf8(text)?)
}

fn page(command: &clap::Command) -> clap_mangen::Man {
    let version = env!("CARGO_PKG_VERSION");
    // clap's text for `--help` compares it with `-h`, which does not apply to a manual page.
    let command = command.clone().version(version).mut_args(|argument| {
        let is_own =
            argument.get_long_help().is_some_and(|it| it.to_string().contains("summary with"));
        if is_own { argument.long_help("Print help") } else { argument }
    });
    clap_mangen::Man::new(command).source(format!("nagi {version}"))
}

/// Writes the manual pages of a command and those below it into a folder.
fn write_pages(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder)?;
    }
    page(command).generate_to(folder).map(drop)
}

/// Finds a command by a name such as `bench` or, for a subcommand, `client-get`.
fn find<'a>(command: &'a clap::Command, name: &str) -> Option<&'a clap::Command> {
    command.get_subcommands().find_map(|below| match name.strip_prefix(below.get_name())? {
        "" => Some(below),
        rest => find(below, rest.strip_prefix('-')?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_pages_that_others_refer_to_exist() {
        let pages: Vec<String> = documented()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(|command| manual(Some(command.get_name())).unwrap())
            .chain([manual(None).unwrap()])
            .collect();
        let mut referred = 0;
        for page in &pages {
            for (before, _) in page.match_indices("(1)") {
                let text = page[..before].replace('\\', "");
                let name = text.rsplit(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap();
                referred += 1;
                let command = name.strip_prefix("nagi-");
                assert!(manual(command).is_ok() && name.starts_with("nagi"), "{name}");
            }
        }
        assert!(referred >= 5, "{referred} references");
        assert!(manual(Some("nothing")).is_err());
        assert_eq!(manual(Some("nagi-serve")).unwrap(), manual(Some("serve")).unwrap());
        assert_eq!(manual(Some("nagi")).unwrap(), manual(None).unwrap());
    }

    #[test]
    fn servers_are_listed_first_and_the_other_commands_by_name() {
        let text = commands().render_help().to_string();
        let (_, list) = text.split_once("Commands:\n").unwrap();
        let (list, _) = list.split_once("\n\n").unwrap();
        let begins = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
        let lines = list.lines().filter(begins);
        let names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
        let (servers, others) = names.split_at(2);
        assert_eq!(servers, ["serve", "memcached"]);
        assert!(others.len() >= 10 && others.is_sorted(), "{others:?}");
    }

    #[test]
    fn the_usage_line_asks_for_no_command() {
        assert!(commands().render_usage().to_string().contains("nagi [COMMAND]"));
    }
}
