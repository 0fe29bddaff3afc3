//! `nagi calm`: measures how disturbances change the latency of servers.
//!
//! Requests at even intervals are timed during a disturbance of the server. Requests to an idle
//! server are timed alongside, so that delays of the machine or the tool are not attributed to the
//! server.

mod context;
mod disturbances;
mod echo;
mod options;
mod ownership;
mod page;
mod probe;
mod report;
mod scale;
mod server;
mod settings;
mod settling;
mod stops;
mod written;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use nagi_client::{Address, Protocol};

pub use options::CalmOptions;

use crate::clock::{SECOND, now_ns};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output::{OutputFile, print};
use crate::target::Target;
use crate::text::plain;
use context::StepContext;
use disturbances::Disturbance;
use probe::{Plan, Probe};
use report::{Figures, Outcome, Report, Results, Row};
use scale::Scale;
use server::Server;
use settings::Changed;

/// Rate of the idle server's probe, in requests per second.
const IDLE_RATE: f64 = 1000.0;

/// Minimum time for which measuring continues after a disturbance, so that its late effects are
/// measured too.
const MARGIN_NS: u64 = SECOND / 2;

/// With more errors in the quiet phase, there is nothing to compare disturbances with.
const LEAST_REQUESTS_PER_ERROR: u64 = 100;

/// Memory of the machine to leave free, in bytes.
const SPARE_BYTES: u64 = 256 << 20;

/// A run in progress.
struct Run<'a> {
    options: &'a CalmOptions,
    scale: Scale,
    idle: Address,
    interrupt: Interrupt,
}

/// Runs the measurements and writes the report.
///
/// # Errors
/// A URL is wrong, a server holds data or is lost, the report cannot be written, or the user
/// interrupted the run; the error is one line.
pub fn run(options: &CalmOptions) -> Result<(), String> {
    let scale = options.scale();
    if options.list {
        return list(options, &scale);
    }
    let password = options.password()?;
    let targets: Vec<Target> = options
        .urls
        .iter()
        .map(|url| Target::parse(url, password.as_deref()))
        .collect::<Result<_, _>>()?;
    refuse_repeated(&targets)?;
    let outputs = Outputs::open(options).map_err(|error| error.to_string())?;
    let interrupt = Interrupt::on_signals()?;
    let mut servers = Vec::new();
    for target in targets {
        let server = Server::identify(target, options.i_may_destroy_data, &interrupt)?;
        refuse_danger(&server)?;
        servers.push(server);
    }
    let idle = echo::start().map_err(|error| format!("the idle server: {error}"))?;
    let run = Run { options, scale, idle, interrupt };
    run.print_servers(&servers);
    let mut results = Vec::new();
    let mut ended = run.measure(&mut servers, &mut results);
    if run.interrupt.is_set() {
        ended = Err(INTERRUPTED.to_owned());
    }
    // Results obtained before an early end are valid, so they are reported.
    if !results.is_empty() {
        outputs.write(&run.report(results, ended.clone().err()))?;
    }
    ended
}

fn list(options: &CalmOptions, scale: &Scale) -> Result<(), String> {
    let mut text = String::new();
    for row in disturbances::all().filter(|row| options.includes(row.name)) {
        let megabytes = (row.needs_bytes)(scale).div_ceil(1 << 20);
        text += &format!("{:<18} {:>6} MB  {}\n", row.name, megabytes, row.what);
        if let Some(danger) = row.danger {
            text += &format!("{:<29}needs --i-may-destroy-data: {danger}\n", "");
        }
    }
    print(text.as_bytes()).map_err(|error| error.to_string())
}

/// Refuses two URLs with the same address, because each would be disturbed by the other's steps.
fn refuse_repeated(targets: &[Target]) -> Result<(), String> {
    for (index, target) in targets.iter().enumerate() {
        let earlier = targets.iter().take(index).find(|earlier| share_address(earlier, target));
        if let Some(earlier) = earlier {
            return Err(format!("{} and {} have the same address", earlier.name, target.name));
        }
    }
    Ok(())
}

fn share_address(a: &Target, b: &Target) -> bool {
    match (&a.address, &b.address) {
        (Address::Tcp { resolved: a, .. }, Address::Tcp { resolved: b, .. }) => {
            let canonical = |it: &SocketAddr| (it.ip().to_canonical(), it.port());
            a.iter().any(|a| b.iter().any(|b| canonical(a) == canonical(b)))
        }
        (Address::Unix(a), Address::Unix(b)) => a == b,
        _ => false,
    }
}

fn refuse_danger(server: &Server) -> Result<(), String> {
    let dangers = server.dangers()?;
    if dangers.is_empty() || server.may_destroy {
        return Ok(());
    }
    let reasons: Vec<&str> = dangers.iter().map(|danger| danger.0.as_str()).collect();
    Err(format!(
        "{} {}: give --i-may-destroy-data if its data may be lost",
        server.target.name,
        reasons.join(", ")
    ))
}

/// The error for a server that refuses requests before any disturbance.
fn refused(server: &Server, figures: &Figures) -> String {
    let Figures { errors, requests, first_error, .. } = figures;
    let why = first_error.as_deref().unwrap_or_default();
    let name = &server.target.name;
    format!("{name} refused {errors} of {requests} requests in the quiet phase: {why}")
}

impl Run<'_> {
    /// Prints a line on standard error. A failure to write does not end the run.
    fn print_progress(&self, line: &str) {
        if !self.options.quiet {
            let _ = writeln!(io::stderr(), "{}", plain(line));
        }
    }

    fn steps(&self) -> impl Iterator<Item = &'static Disturbance> {
        disturbances::all().filter(|row| self.options.includes(row.name))
    }

    fn print_servers(&self, servers: &[Server]) {
        for server in servers {
            self.print_progress(&format!("  {} at {}", server.name, server.target.name));
        }
        let most = self.steps().max_by_key(|row| (row.needs_bytes)(&self.scale));
        if let Some(row) = most {
            let megabytes = (row.needs_bytes)(&self.scale).div_ceil(1 << 20);
            self.print_progress(&format!(
                "  the most memory, {megabytes} MB, is needed by {}",
                row.name
            ));
        }
    }

    /// Measures all servers. Adds each result to `all` at once, so that an early end loses none.
    fn measure(&self, servers: &mut [Server], all: &mut Vec<Results>) -> Result<(), String> {
        for server in servers.iter_mut() {
            server.check_empty()?;
            if server.may_destroy {
                server.clean()?;
            }
            all.push(Results {
                name: server.name.clone(),
                url: server.target.name.clone(),
                quiet: self.quiet(server)?,
                rows: Vec::new(),
            });
        }
        for row in self.steps() {
            // Servers take turns, so that a temporary load of the machine affects all of them.
            for (server, results) in servers.iter_mut().zip(&mut *all) {
                let outcome = self.step(row, server, &results.quiet)?;
                results.rows.push(Row { name: row.name, what: row.what, outcome });
            }
        }
        Ok(())
    }

    fn report(&self, servers: Vec<Results>, incomplete: Option<String>) -> Report {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            rate: self.options.rate,
            connections: self.options.connections,
            quick: self.options.quick,
            incomplete,
            scale: self.scale,
            servers,
        }
    }

    /// Measures the quiet phase.
    fn quiet(&self, server: &mut Server) -> Result<Figures, String> {
        let seconds = self.scale.quiet_seconds;
        let length_ns = (seconds * SECOND as f64) as u64;
        let mut attempt = 1;
        loop {
            self.settle()?;
            self.print_progress(&format!("  quiet: {} for {seconds} s", server.name));
            let watched =
                self.watch(server, |interrupt| interrupt.sleep_until(now_ns() + length_ns));
            self.note_interrupt();
            self.clean(server)?;
            let figures = watched?.0;
            self.interrupt.check()?;
            if figures.errors * LEAST_REQUESTS_PER_ERROR > figures.requests {
                return Err(refused(server, &figures));
            }
            if !self.is_repeated(&figures, attempt) {
                return Ok(figures);
            }
            attempt += 1;
        }
    }

    /// Waits until the processors are idle, but not for long: other programs may keep them busy.
    ///
    /// # Errors
    /// The user interrupted the run.
    fn settle(&self) -> Result<(), String> {
        let end_ns = now_ns() + self.scale.settle_seconds * SECOND;
        let mut is_first = true;
        while now_ns() < end_ns && !settling::are_processors_idle(&self.interrupt)? {
            if std::mem::take(&mut is_first) {
                self.print_progress("  waits until the processors are idle");
            }
        }
        Ok(())
    }

    /// Whether the figures are void and there are attempts left.
    fn is_repeated(&self, figures: &Figures, attempt: u32) -> bool {
        let is_repeated = figures.is_void() && attempt < self.options.attempts;
        if is_repeated {
            self.print_progress("  void: the machine or this tool stalled; measuring again");
        }
        is_repeated
    }

    fn step(
        &self,
        row: &Disturbance,
        server: &mut Server,
        quiet: &Figures,
    ) -> Result<Outcome, String> {
        let mut attempt = 1;
        loop {
            self.interrupt.check()?;
            // A server that is gone must end the run; the checks below would only call each step
            // inapplicable.
            server.connect()?;
            if let Err(reason) = self.check_applicable(row, server) {
                // Nor may one that has gone meanwhile make the step inapplicable.
                server.connect()?;
                return Ok(self.not_applicable(row, server, reason));
            }
            self.settle()?;
            server.check_empty()?;
            let done = self.disturb(row, server);
            // The keys of the step are removed even after Ctrl-C.
            let cleaned = self.clean(server);
            if self.interrupt.is_set() || done.is_err() {
                cleaned.unwrap_or_else(|why| self.print_progress(&format!("  keys remain: {why}")));
                if let (Err(unrestored), true) = (&done, self.interrupt.is_set()) {
                    // An interrupted run ends with another error.
                    let _ = writeln!(io::stderr(), "nagi calm: {}", plain(unrestored));
                }
                return Err(done.err().unwrap_or_else(|| INTERRUPTED.to_owned()));
            }
            let done = done?;
            cleaned?;
            match done {
                Ok(figures) if self.is_repeated(&figures, attempt) => attempt += 1,
                Ok(figures) => return Ok(Outcome::of(figures, quiet)),
                Err(reason) if server::is_denied(&reason) => {
                    return Ok(self.not_applicable(row, server, reason));
                }
                Err(reason) => {
                    self.print_progress(&format!(
                        "  {}: {}: failed: {reason}",
                        row.name, server.name
                    ));
                    return Ok(Outcome::Failed { reason });
                }
            }
        }
    }

    fn not_applicable(&self, row: &Disturbance, server: &Server, reason: String) -> Outcome {
        self.print_progress(&format!("  {}: {}: n/a: {reason}", row.name, server.name));
        Outcome::NotApplicable { reason }
    }

    /// # Errors
    /// The reason why the disturbance is impossible or not allowed on the server.
    fn check_applicable(&self, row: &Disturbance, server: &Server) -> Result<(), String> {
        if let Some(danger) = row.danger.filter(|_| !server.may_destroy) {
            return Err(format!("{danger}: needs --i-may-destroy-data"));
        }
        (row.can)(server, &self.scale)?;
        let needed = (row.needs_bytes)(&self.scale);
        let limit = server.limit_bytes()?;
        if let Some(limit) = limit.filter(|limit| *limit < needed && row.name != "maxmemory") {
            let [needed, limit] = [needed, limit].map(|bytes| bytes >> 20);
            return Err(format!("needs {needed} MB, and the server's limit is {limit} MB"));
        }
        match server::available_bytes() {
            Some(bytes) if server.target.is_local() && bytes < needed + SPARE_BYTES => {
                let [needed, bytes] = [needed, bytes].map(|bytes| bytes >> 20);
                Err(format!("needs {needed} MB, and the machine has {bytes} MB"))
            }
            _ => Ok(()),
        }
    }

    /// Measures a disturbance once. The inner result is that of the row.
    ///
    /// # Errors
    /// A setting could not be restored, so that later rows would be measured with it.
    fn disturb(
        &self,
        row: &Disturbance,
        server: &Server,
    ) -> Result<Result<Figures, String>, String> {
        let megabytes = (row.needs_bytes)(&self.scale).div_ceil(1 << 20);
        self.print_progress(&format!("  {}: {}: prepares, {megabytes} MB", row.name, server.name));
        let mut context = StepContext::new(server, &self.scale);
        if let Err(reason) = (row.prepare)(&mut context) {
            self.note_interrupt();
            context.settings.restore()?;
            return Ok(Err(reason));
        }
        for Changed { name, before, value } in context.settings.changed() {
            let set = format!("set {name} to {value} (was {before})");
            self.print_progress(&format!("  {}: {}: {set}", row.name, server.name));
        }
        self.print_progress(&format!("  {}: {}: measures", row.name, server.name));
        let least_ns = (self.scale.step_seconds * SECOND as f64) as u64;
        let watched = self.watch(server, |interrupt| {
            let start_ns = now_ns();
            loop {
                (row.act)(&mut context)?;
                if !row.repeats || now_ns() - start_ns >= least_ns {
                    break;
                }
            }
            interrupt.sleep_until((start_ns + least_ns).max(now_ns() + MARGIN_NS))
        });
        self.note_interrupt();
        context.settings.restore()?;
        Ok(watched.and_then(|(figures, acted)| acted.map(|()| figures)))
    }

    /// Probes the server and the idle server while `act` runs. Returns the figures and the result
    /// of `act`.
    ///
    /// # Errors
    /// A probe failed.
    fn watch(
        &self,
        server: &Server,
        act: impl FnOnce(&Interrupt) -> Result<(), String>,
    ) -> Result<(Figures, Result<(), String>), String> {
        let idle = Plan {
            target: Target {
                name: "the idle server".to_owned(),
                address: self.idle.clone(),
                protocol: Protocol::Resp,
                password: None,
            },
            connections: 1,
            rate: IDLE_RATE,
            written: <_>::default(),
        };
        let idle = Probe::start(&idle)?;
        let plan = Plan::of(server, self.options.connections, self.options.rate);
        let probe = Probe::start(&plan)?;
        let acted = act(&self.interrupt);
        let result = probe.stop(&self.interrupt);
        let idle = idle.stop(&self.interrupt)?;
        Ok((Figures::new(&result?, &idle), acted))
    }

    /// Removes the tool's keys, even after an interrupt.
    fn clean(&self, server: &mut Server) -> Result<(), String> {
        if !self.interrupt.is_set() {
            let cleaned = server.clean();
            // An interrupt meanwhile may have ended it half-way.
            if cleaned.is_ok() || !self.interrupt.is_set() {
                return cleaned;
            }
        }
        server.not_interrupted().clean()
    }

    /// Says after Ctrl-C what is still being done, since a server that hangs delays it.
    fn note_interrupt(&self) {
        if self.interrupt.is_set() {
            let line = "  interrupted: restores settings and removes the keys; another Ctrl-C \
                        ends it at once, without that";
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
}

/// The files that the options request.
struct Outputs<'a> {
    prints_json: bool,
    json: Option<OutputFile<'a>>,
    html: Option<OutputFile<'a>>,
}

impl<'a> Outputs<'a> {
    fn open(options: &'a CalmOptions) -> io::Result<Self> {
        if options.json.is_some() && options.json == options.html {
            return Err(io::Error::other("--json and --html name the same file"));
        }
        let prints_json = options.json.as_deref() == Some(Path::new("-"));
        let json = options.json.as_deref().filter(|_| !prints_json);
        let json = json.map(OutputFile::open).transpose()?;
        let html = options.html.as_deref().map(OutputFile::open).transpose()?;
        Ok(Outputs { prints_json, json, html })
    }

    /// Writes all outputs. The table is written first, so that it appears even if a file cannot be
    /// written.
    fn write(self, report: &Report) -> Result<(), String> {
        let text = if self.prints_json { report.to_json()? } else { report.to_string() };
        print(text.as_bytes()).map_err(|error| error.to_string())?;
        if let Some(file) = self.json {
            file.write(&report.to_json()?).map_err(|error| error.to_string())?;
        }
        if let Some(file) = self.html {
            file.write(&page::render(report)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
