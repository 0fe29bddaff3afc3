//! `cargo xtask test --clients`: unmodified programs from package registries use nagi.
//!
//! Each job in `tests/programs` runs against its own server, checks that no data was lost or
//! duplicated, and ends with exit code 0 and a summary line.

mod go;
mod java;
mod language;
mod rust;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use harness::Server;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{process, setup, workspace};
use language::Language;

/// How long a job may run before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(300);

/// Number of lines of a failed job's output that are shown; the log contains all of them.
const SHOWN_LINES: usize = 40;

/// The password of the server for programs that use HTTP, which send it as a bearer token.
const PASSWORD: &str = "a+b/c=1~%20";

/// A job, in its language's folder in `tests/programs`.
struct Program {
    name: &'static str,
    language: Language,
    /// The file or class to run.
    job: &'static str,
    speaks: Protocol,
}

/// The protocol of a program.
#[derive(PartialEq)]
enum Protocol {
    Resp,
    /// Redis has no HTTP gateway, so these programs cannot be compared.
    Http,
}

impl Program {
    const fn new(name: &'static str, language: Language, job: &'static str) -> Self {
        Self { name, language, job, speaks: Protocol::Resp }
    }

    const fn by_http(self) -> Self {
        Self { speaks: Protocol::Http, ..self }
    }
}

const PROGRAMS: [Program; 21] = [
    Program::new("ioredis", Language::Node, "ioredis.js"),
    Program::new("ioredis-services", Language::Node, "ioredis-services.js"),
    Program::new("bullmq", Language::Node, "bullmq.js"),
    Program::new("redis", Language::Node, "redis.js"),
    Program::new("upstash", Language::Node, "upstash.js").by_http(),
    Program::new("celery", Language::Python, "celery_job.py"),
    Program::new("rq", Language::Python, "rq_job.py"),
    Program::new("dramatiq", Language::Python, "dramatiq_job.py"),
    Program::new("lettuce", Language::Java, "LettuceJob"),
    Program::new("jedis", Language::Java, "JedisJob"),
    Program::new("jedis-services", Language::Java, "JedisServicesJob"),
    Program::new("spring", Language::Java, "SpringJob"),
    Program::new("redis-py", Language::Python, "redis_py_job.py"),
    Program::new("redis-py-services", Language::Python, "redis_py_services.py"),
    Program::new("redis-rs", Language::Rust, "programs"),
    Program::new("redis-rs-services", Language::Rust, "services"),
    Program::new("go-redis", Language::Go, "goredis"),
    Program::new("go-redis-services", Language::Go, "goredis-services"),
    Program::new("asynq", Language::Go, "asynq"),
    Program::new("sidekiq", Language::Ruby, "sidekiq_job.rb"),
    Program::new("phpredis", Language::Php, "phpredis_job.php"),
];

/// Returns the values of `--only`.
fn names() -> [&'static str; PROGRAMS.len()] {
    PROGRAMS.each_ref().map(|program| program.name)
}

/// The programs to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run unmodified client libraries instead of the steps
    #[arg(long, conflicts_with = "steps")]
    pub(crate) clients: bool,
    /// Only this program (may be given several times)
    #[arg(long, requires = "clients", value_name = "PROGRAM", value_parser = names())]
    only: Vec<String>,
    /// Run them with the redis-server in .setup/ instead, to verify the jobs themselves
    #[arg(long, requires = "clients")]
    redis: bool,
}

/// The outcome of a program.
enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

/// Runs the programs. Prints a line for each and a summary.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::run()?;
    let nagi = workspace::build_nagi("dev")?;
    let is_wanted = |program: &&Program| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == program.name)
    };
    let mut installed = Vec::new();
    let mut outcomes = Vec::new();
    for program in PROGRAMS.iter().filter(is_wanted) {
        let readiness = make_ready(program.language, &mut installed);
        let start = Instant::now();
        let outcome = match readiness {
            Ok(None) => run_program(program, &nagi, arguments.redis)
                .unwrap_or_else(|error| Outcome::Failed(format!("{error:#}"))),
            Ok(Some(missing)) => Outcome::Skipped(missing),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        print_outcome(program.name, &outcome, start.elapsed());
        outcomes.push(outcome);
    }
    conclude(&outcomes)
}

/// Installs the dependencies of a language's programs, once per run. If that is impossible, returns
/// what the machine lacks.
fn make_ready(language: Language, installed: &mut Vec<Language>) -> Result<Option<String>> {
    if installed.contains(&language) {
        return Ok(None);
    }
    let missing = language.make_ready()?;
    if missing.is_none() {
        installed.push(language);
    }
    Ok(missing)
}

fn run_program(program: &Program, nagi: &Path, on_redis: bool) -> Result<Outcome> {
    if on_redis && program.speaks == Protocol::Http {
        return Ok(Outcome::Skipped("redis-server has no HTTP".to_owned()));
    }
    let mut server = if on_redis { Server::redis() } else { start_nagi(nagi, &program.speaks)? };
    let log = log_path(program)?;
    let mut job = program.language.job(program.job);
    let resp = server.resp();
    job.env("NAGI_HOST", resp.ip().to_string()).env("NAGI_PORT", resp.port().to_string());
    if program.speaks == Protocol::Http {
        job.env("NAGI_HTTP", format!("http://{}", server.http())).env("NAGI_PASSWORD", PASSWORD);
    }
    let status = wait(&mut job, &log)?;
    let printed = fs::read_to_string(&log).unwrap_or_default();
    if !server.is_running() {
        bail!("the server has ended:\n{}\nthe program printed:\n{printed}", server.log());
    }
    if server.log().contains("panicked") {
        bail!("a thread of the server has ended:\n{}", server.log());
    }
    Ok(match status {
        Ok(()) => Outcome::Passed(printed.lines().last().unwrap_or_default().to_owned()),
        Err(problem) => Outcome::Failed(format!("{problem}: {}\n{}", log.display(), end(&printed))),
    })
}

fn start_nagi(binary: &Path, protocol: &Protocol) -> Result<Server> {
    let mut command = Command::new(binary);
    command.args(["serve", "--http-port", "any"]);
    if *protocol == Protocol::Http {
        command.args(["--requirepass", PASSWORD]);
    }
    Server::start_nagi(command).map_err(|problem| anyhow!(problem))
}

/// Returns the folder for installed packages and for output of programs, which git ignores.
fn folder() -> PathBuf {
    workspace::root().join(".clients")
}

/// Returns the path of a job's log.
fn log_path(program: &Program) -> Result<PathBuf> {
    let folder = folder().join("log");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(program.name))
}

/// Runs a job in a separate process group, which is killed when the job ends. Workers left behind
/// would keep trying to reach a server that has stopped.
fn wait(job: &mut Command, log: &Path) -> Result<Result<(), String>> {
    let output = File::create(log)?;
    let errors = output.try_clone()?;
    job.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    let mut child = job.spawn().with_context(|| format!("cannot start: {}", process::line(job)))?;
    let status =
        harness::until_within(PATIENCE, "the program's end", || child.try_wait().transpose());
    end_group(&mut child)?;
    Ok(match status {
        Err(problem) => Err(problem),
        Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => Ok(()),
        Ok(status) => Err(status.map_or_else(|error| error.to_string(), |code| code.to_string())),
    })
}

fn end_group(child: &mut Child) -> Result<()> {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // This fails if no process is left in the group, which is fine.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait().context("cannot wait for the program")?;
    Ok(())
}

fn end(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    let shown = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES));
    shown.copied().collect::<Vec<_>>().join("\n")
}

fn print_outcome(name: &str, outcome: &Outcome, time: Duration) {
    let seconds = time.as_secs_f64();
    match outcome {
        Outcome::Passed(summary) => println!("passed   {name}: {summary} ({seconds:.1} s)"),
        Outcome::Failed(problem) => println!("FAILED   {name} ({seconds:.1} s): {problem}"),
        Outcome::Skipped(reason) => println!("skipped  {name}: {reason}"),
    }
}

fn conclude(outcomes: &[Outcome]) -> Result<()> {
    let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed(_)));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    if skipped > 0 {
        println!("\n{skipped} skipped");
    }
    println!("\n{passed} passed, {failed} failed");
    if failed > 0 { bail!("{failed} programs failed") } else { Ok(()) }
}
