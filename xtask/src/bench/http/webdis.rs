//! Commands over HTTP: nagi's gateway is compared with webdis in front of Valkey. The same client
//! programs (`ab` and `wrk`) measure both, with their processor time.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, bail};
use harness::{Server, tool};
use serde_json::json;

use super::{Contestants, GATEWAY, Measured};
use crate::bench::Arguments;
use crate::bench::contestants::{Contestant, Placement};
use crate::bench::figures::{Figures, medians};
use crate::bench::report::{Table, ratio};
use crate::bench::usage::CpuTime;
use crate::process;

/// The ways of using connections, and the client of each.
const MANNERS: [(&str, Client); 3] = [
    ("a connection a request, ab", Client::Ab(&[])),
    ("kept alive, ab", Client::Ab(&["-k"])),
    ("kept alive, wrk", Client::Wrk),
];
const CLIENTS: &str = "10";
/// The number of ab's requests, and how long wrk sends requests, in seconds.
const REQUESTS: usize = 60_000;
const SECONDS: usize = 3;

/// A program that sends requests.
#[derive(Clone, Copy)]
enum Client {
    /// Debian's ab, with these flags.
    Ab(&'static [&'static str]),
    /// wrk, with one thread.
    Wrk,
}

/// What a client reports.
struct Sent {
    requests: f64,
    requests_per_second: f64,
}

impl Client {
    /// Sends requests for `url`; all of them must be answered well. `shortened` divides their
    /// number.
    fn run(self, url: &str, shortened: usize) -> Result<Sent> {
        match self {
            Client::Ab(flags) => {
                let mut command = tool("ab");
                let requests = (REQUESTS / shortened).to_string();
                command.args(["-q", "-n", &requests, "-c", CLIENTS]).args(flags).arg(url);
                let told = process::output(&mut command)?;
                if number(&told, "Failed requests:")? > 0.0 || told.contains("Non-2xx") {
                    bail!("requests have failed\n{told}");
                }
                Ok(Sent {
                    requests: number(&told, "Complete requests:")?,
                    requests_per_second: number(&told, "Requests per second:")?,
                })
            }
            Client::Wrk => {
                let mut command = tool("wrk");
                let seconds = format!("{}s", SECONDS.div_ceil(shortened));
                command.args(["-t", "1", "-c", CLIENTS, "-d", &seconds, url]);
                let told = process::output(&mut command)?;
                if told.contains("Socket errors") || told.contains("Non-2xx") {
                    bail!("requests have failed\n{told}");
                }
                let total = told.lines().find(|line| line.contains(" requests in "));
                Ok(Sent {
                    requests: number(total.context("wrk does not say how many")?.trim(), "")?,
                    requests_per_second: number(&told, "Requests/sec:")?,
                })
            }
        }
    }
}

/// The number at the start of a line, after `name`.
fn number(told: &str, name: &str) -> Result<f64> {
    let line = told.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("there is no line {name}: {told}"))
}

/// The address of a gateway, and the processes that serve it.
struct Gateway {
    name: &'static str,
    address: SocketAddr,
    processes: Vec<Server>,
}

impl Gateway {
    fn nagi(nagi: &Contestant) -> Result<Self> {
        let server = nagi.start_with(Placement::Free, &GATEWAY)?;
        Ok(Gateway { name: "nagi", address: server.http(), processes: vec![server] })
    }

    fn webdis(valkey: &Contestant) -> Result<Self> {
        let server = valkey.start(Placement::Free)?;
        let folder = valkey.new_folder()?;
        let started = Server::start_web(|address| {
            let settings = json!({
                "redis_host": "127.0.0.1",
                "redis_port": server.resp().port(),
                "http_host": "127.0.0.1",
                "http_port": address.port(),
                "threads": 2,
                "pool_size": 10,
                "daemonize": false,
                "verbosity": 1,
                "logfile": "/dev/null",
            });
            let path = folder.ours.join("webdis.json");
            // If the file is missing, webdis reports that it cannot start.
            let _ = fs::write(&path, settings.to_string());
            let mut command = tool("webdis");
            command.arg(path);
            command
        });
        let (webdis, address) = started.map_err(|problem| anyhow!("webdis: {problem}"))?;
        Ok(Gateway { name: "webdis and Valkey", address, processes: vec![webdis, server] })
    }

    fn cpu(&self) -> Result<Vec<CpuTime>> {
        self.processes.iter().map(|server| CpuTime::of(server.process_id())).collect()
    }

    /// Returns the requests per second, and the processor time per request in microseconds.
    fn measure(&self, client: Client, shortened: usize) -> Result<Figures> {
        let before = self.cpu()?;
        let url = format!("http://{}/GET/key.txt", self.address);
        let sent = client.run(&url, shortened).with_context(|| self.name)?;
        let spent = self.cpu()?.into_iter().zip(before).map(|(now, then)| now.since(then));
        let seconds: f64 = spent.map(|spent| spent.user + spent.system).sum();
        Ok(Figures::from([
            ("requests_per_second", sent.requests_per_second),
            ("cpu_us_per_request", seconds / sent.requests * 1e6),
        ]))
    }
}

/// Measures both gateways in turn.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let find = |name: &str| contestants.iter().find(|it| it.name == name);
    let nagi = find("nagi").context("there is no nagi")?;
    let valkey = find("Valkey").context("Valkey is missing: `cargo xtask bench` says where")?;
    let gateways = [Gateway::nagi(nagi)?, Gateway::webdis(valkey)?];
    for gateway in &gateways {
        for server in gateway.processes.iter().rev().take(1) {
            server.connect_resp().check(&format!("SET key {}", "x".repeat(100)), "+OK\r\n");
        }
    }
    let shortened = if arguments.quick { 10 } else { 1 };
    let mut table = Table::new(&["GET of 100 bytes, 10 clients", "", "requests/s", "CPU us"]);
    let mut details =
        Table::new(&["workload", "server", "requests_per_second", "cpu_us_per_request"]);
    for (name, client) in MANNERS {
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..arguments.repetitions {
            for (gateway, samples) in gateways.iter().zip(&mut samples) {
                samples.push(gateway.measure(client, shortened)?);
            }
        }
        let figures = samples.map(|samples| medians(&samples));
        let of = |index: usize, figure: &str| {
            figures.get(index).and_then(|it: &Figures| it.get(figure)).copied().unwrap_or(f64::NAN)
        };
        for (index, gateway) in gateways.iter().enumerate() {
            let (rate, cpu) = (of(index, "requests_per_second"), of(index, "cpu_us_per_request"));
            let [rate, cpu] = [format!("{rate:.0}"), format!("{cpu:.1}")];
            let cells = vec![name.to_owned(), gateway.name.to_owned(), rate, cpu];
            details.row(cells.clone());
            table.row(cells);
        }
        let compared = |figure| ratio(of(0, figure), of(1, figure));
        let (rates, cpu) = (compared("requests_per_second"), compared("cpu_us_per_request"));
        table.row(vec![name.to_owned(), "ratio".to_owned(), rates, cpu]);
    }
    Ok(Measured { tables: vec![table], details: Some(details) })
}
