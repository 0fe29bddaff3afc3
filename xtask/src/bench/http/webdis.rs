//! Commands over HTTP: nagi's gateway is compared with webdis in front of Valkey. The same client
//! program (`ab`) measures both, with their processor time.

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

/// The ways of using connections, and ab's flag for each.
const MANNERS: [(&str, &[&str]); 2] = [("a connection a request", &[]), ("kept alive", &["-k"])];
const CLIENTS: &str = "10";
const REQUESTS: usize = 60_000;

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
    fn measure(&self, manner: &[&str], requests: usize) -> Result<Figures> {
        let before = self.cpu()?;
        let url = format!("http://{}/GET/key.txt", self.address);
        let mut command = tool("ab");
        command.args(["-q", "-n", &requests.to_string(), "-c", CLIENTS]).args(manner).arg(url);
        let told = process::output(&mut command)?;
        let number = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            number.with_context(|| format!("ab does not say {name}: {told}"))
        };
        if number("Failed requests:")? > 0.0 || told.contains("Non-2xx") {
            bail!("{}: requests have failed\n{told}", self.name);
        }
        let spent = self.cpu()?.into_iter().zip(before).map(|(now, then)| now.since(then));
        let seconds: f64 = spent.map(|spent| spent.user + spent.system).sum();
        Ok(Figures::from([
            ("requests_per_second", number("Requests per second:")?),
            ("cpu_us_per_request", seconds / requests as f64 * 1e6),
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
    let requests = if arguments.quick { REQUESTS / 10 } else { REQUESTS };
    let mut table = Table::new(&["GET of 100 bytes, 10 clients", "", "requests/s", "CPU us"]);
    let mut details =
        Table::new(&["workload", "server", "requests_per_second", "cpu_us_per_request"]);
    for (name, manner) in MANNERS {
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..arguments.repetitions {
            for (gateway, samples) in gateways.iter().zip(&mut samples) {
                samples.push(gateway.measure(manner, requests)?);
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
