//! Measures connections of uneven load. Ten of a thousand connections send nine of ten requests,
//! which is more than one worker can serve, and one worker has accepted all ten. The latency of the
//! other connections shows whether busy connections move to the other worker.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::{Connection, Server};
use serde_json::{Value, json};

use super::super::Arguments;
use super::super::contestants::{Contestant, Placement};
use super::super::figures::{Figures, median, medians};
use super::super::report::{Report, Table};
use super::DOCUMENT;
use crate::process;

/// The number of connections that send most of the requests, and of those that send the rest.
const BUSY: usize = 10;
const REST: usize = 990;
/// Number of requests that a busy connection sends at once.
const BATCH: usize = 16;
/// The server's work for one request of a busy connection, as the number of bytes whose bits
/// BITCOUNT counts. It must exceed the work of the load generator by far.
const COUNTED_BYTES: usize = 128 << 10;
/// The load of the busy connections, as a multiple of what one worker can serve.
const LOAD: f64 = 1.4;
/// Seconds of load before the measurement, and length of the measurement in seconds.
const SECONDS: [u64; 2] = [3, 8];
const QUICK_SECONDS: [u64; 2] = [1, 1];
/// The number of workers whose shares of requests are compared, and the total rate in requests per
/// second; all connections send at the same rate.
const WORKERS: usize = 16;
const ALIKE_RATE: f64 = 20_000.0;
/// How long to wait for the status page to list a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// The name of each row, the number of workers that initially have the busy connections, and
/// `adaptive-workers`.
const ROWS: [(&str, usize, &str); 4] = [
    ("spread over both", 2, "yes"),
    ("all with one", 1, "yes"),
    ("spread over both, adaptive-workers no", 2, "no"),
    ("all with one, adaptive-workers no", 1, "no"),
];

/// Measures each row in turn, for each repetition.
pub(super) fn measure(contestants: &[Contestant], arguments: &Arguments) -> Result<Report> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let seconds = if arguments.quick { QUICK_SECONDS } else { SECONDS };
    let capacity = capacity(nagi, seconds)?;
    let mut samples = vec![Vec::new(); ROWS.len()];
    let mut shares = Vec::new();
    for repetition in 1..=arguments.repetitions {
        println!("bench: uneven, {repetition} of {}", arguments.repetitions);
        for ((_, workers, adapts), samples) in ROWS.iter().zip(&mut samples) {
            // Without `adaptive-workers no`, the server might reduce itself to one worker while
            // there is no load.
            let server = start(nagi, &["--workers", "2", "--adaptive-workers", "no"])?;
            let busy = connect(&server, *workers)?;
            let mut client = server.connect_resp();
            client.check(&format!("CONFIG SET adaptive-workers {adapts}"), "+OK\r\n");
            samples.push(measure_rest(nagi, &server, busy, capacity * LOAD, seconds)?);
        }
        shares.push(most_served(nagi, seconds)?);
    }
    let figures: Vec<Figures> = samples.iter().map(|samples| medians(samples)).collect();
    let share = median(shares);
    let (table, mut results) = tabulate(&figures);
    results.push(json!({ "row": "sixteen workers", "most_served_to_mean": share }));
    Ok(Report {
        name: "calm-uneven",
        document: DOCUMENT,
        table: format!(
            "One worker serves {capacity:.0} of the busy connections' requests a second.\n\n\
             {table}\nWith {WORKERS} workers and {} connections of equal load, the busiest worker \
             served {share:.2} times the mean.\n",
            BUSY + REST
        ),
        details: String::new(),
        summary: String::new(),
        results,
        pictures: Vec::new(),
    })
}

/// Returns the table of all rows, and the rows for the JSON results.
fn tabulate(figures: &[Figures]) -> (Table, Vec<Value>) {
    let mut table = Table::new(&[
        "busy connections at first",
        "p50 us of the rest",
        "p99",
        "p99 to spread",
        "requests/s of the busy",
        "moved",
    ]);
    let of = |row: usize, name: &str| {
        figures.get(row).and_then(|it| it.get(name)).copied().unwrap_or(f64::NAN)
    };
    let mut results = Vec::new();
    for (row, (name, ..)) in ROWS.iter().enumerate() {
        let spread = of(row / 2 * 2, "p99_us");
        table.row(vec![
            (*name).to_owned(),
            format!("{:.0}", of(row, "p50_us")),
            format!("{:.0}", of(row, "p99_us")),
            format!("{:.2}", of(row, "p99_us") / spread),
            format!("{:.0}", of(row, "busy_requests_per_second")),
            format!("{:.0}", of(row, "moved")),
        ]);
        results.push(json!({ "row": name, "medians": figures.get(row) }));
    }
    (table, results)
}

fn start(nagi: &Contestant, options: &[&str]) -> Result<Server> {
    let server = nagi.start_with(Placement::Free, &[options, &["--http-port", "any"]].concat())?;
    let mut client = server.connect_resp();
    client.check_raw(
        harness::encode_command(&["SET", "counted", &"x".repeat(COUNTED_BYTES)]),
        "+OK\r\n",
    );
    Ok(server)
}

/// Returns the number of requests of busy connections that one worker serves per second.
fn capacity(nagi: &Contestant, [warm_up, seconds]: [u64; 2]) -> Result<f64> {
    let server = start(nagi, &["--workers", "1"])?;
    let busy = connect(&server, 1)?;
    let load = Load::begin(busy, f64::INFINITY);
    std::thread::sleep(Duration::from_secs(warm_up));
    let (before, began) = (load.served(), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    let capacity = (load.served() - before) as f64 / began.elapsed().as_secs_f64();
    load.end()?;
    Ok(capacity)
}

/// Opens the busy connections, spread evenly over the first `workers` workers.
fn connect(server: &Server, workers: usize) -> Result<Vec<TcpStream>> {
    let mut found: Vec<Vec<TcpStream>> = (0..workers).map(|_| Vec::new()).collect();
    let wanted = BUSY / workers;
    // These connections stay open until the end, because a worker that loses connections is given
    // the next ones.
    let mut spare = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while found.iter().any(|found| found.len() < wanted) {
        ensure!(Instant::now() < deadline, "there are no connections of each worker");
        // A batch has as many connections as are needed, so that each worker accepts some.
        let mut batch: Vec<(u64, TcpStream)> = Vec::new();
        for _ in 0..BUSY {
            batch.push(identified(server.resp())?);
        }
        let places = workers_of(server, &batch, deadline)?;
        for ((_, stream), worker) in batch.into_iter().zip(places) {
            match found.get_mut(worker).filter(|found| found.len() < wanted) {
                Some(found) => found.push(stream),
                None => spare.push(stream),
            }
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// Opens a connection, and returns it with its ID.
fn identified(address: SocketAddr) -> Result<(u64, TcpStream)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(b"CLIENT ID\r\n")?;
    let line = read_line(&mut stream)?;
    let id = line.strip_prefix(':').and_then(|id| id.parse().ok());
    Ok((id.with_context(|| format!("no id: {line}"))?, stream))
}

fn read_line(stream: &mut TcpStream) -> Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.extend(byte);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Returns the worker of each connection, once the status page lists all of them.
fn workers_of(
    server: &Server,
    connections: &[(u64, TcpStream)],
    deadline: Instant,
) -> Result<Vec<usize>> {
    loop {
        let status = status(server)?;
        let listed = status.get("stats").and_then(Value::as_array).cloned().unwrap_or_default();
        let number = |it: &Value, name: &str| it.get(name).and_then(Value::as_u64);
        let worker_of = |id: u64| {
            let found = listed.iter().find(|it| number(it, "id") == Some(id))?;
            usize::try_from(number(found, "worker")?).ok()
        };
        let found: Option<Vec<usize>> = connections.iter().map(|(id, _)| worker_of(*id)).collect();
        if let Some(found) = found {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "the status page lacks connections");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn status(server: &Server) -> Result<Value> {
    let mut stream = TcpStream::connect(server.http())?;
    let request = "GET /server-status?json&limit=2000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                   Connection: close\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").context("no response")?;
    serde_json::from_str(body).with_context(|| format!("no JSON: {body}"))
}

/// Measures the other connections while the busy ones send `rate` requests per second.
fn measure_rest(
    nagi: &Contestant,
    server: &Server,
    busy: Vec<TcpStream>,
    rate: f64,
    [warm_up, seconds]: [u64; 2],
) -> Result<Figures> {
    let moved_before = moved(server)?;
    let load = Load::begin(busy, rate);
    std::thread::sleep(Duration::from_secs(warm_up));
    let mut command = Placement::Free.load(nagi.program());
    command
        .args(["bench", "--quiet", "--json", "-", "--fill", "--keys", "10000"])
        .args(["--port", &server.resp().port().to_string()])
        .args(["--connections", &REST.to_string()])
        .args(["--rate", &format!("{:.0}", rate / 9.0)])
        .args(["--seconds", &seconds.to_string()]);
    let (before, began) = (load.served(), Instant::now());
    let report: Value = serde_json::from_str(&process::output(&mut command)?)?;
    let served = (load.served() - before) as f64 / began.elapsed().as_secs_f64();
    load.end()?;
    let figure = |pointer: &str| {
        let value = report.pointer(pointer).and_then(Value::as_f64);
        value.with_context(|| format!("nagi bench reports no {pointer}"))
    };
    Ok(Figures::from([
        ("p50_us", figure("/latency_us/p50")?),
        ("p99_us", figure("/latency_us/p99")?),
        ("busy_requests_per_second", served),
        ("moved", moved(server)? - moved_before),
    ]))
}

/// Returns the number of requests of the worker that serves most, as a multiple of the mean of all
/// workers.
fn most_served(nagi: &Contestant, [warm_up, seconds]: [u64; 2]) -> Result<f64> {
    let server = start(nagi, &["--workers", &WORKERS.to_string()])?;
    let mut command = Placement::Free.load(nagi.program());
    command
        .args(["bench", "--quiet", "--port", &server.resp().port().to_string()])
        .args(["--connections", &(BUSY + REST).to_string()])
        .args(["--rate", &ALIKE_RATE.to_string()])
        .args(["--seconds", &(warm_up + seconds).to_string()]);
    process::output(&mut command)?;
    let status = status(&server)?;
    let workers = status.get("workers").and_then(Value::as_array).context("no workers")?;
    let requests = workers.iter().map(|it| it.get("requests").and_then(Value::as_f64));
    let requests: Vec<f64> = requests.collect::<Option<_>>().context("no requests of workers")?;
    ensure!(requests.len() == WORKERS, "{} workers", requests.len());
    let mean = requests.iter().sum::<f64>() / WORKERS as f64;
    Ok(requests.iter().copied().fold(0.0, f64::max) / mean)
}

/// Returns the number of connections that have moved between workers.
fn moved(server: &Server) -> Result<f64> {
    let mut client: Connection = server.connect_resp();
    let info = client.run("INFO stats").text();
    let line = info.lines().find_map(|line| line.strip_prefix("relocated_connections:"));
    line.and_then(|count| count.parse().ok()).context("INFO has no relocated_connections")
}

/// The load of the busy connections. Each connection has a thread.
struct Load {
    shared: Arc<Shared>,
    threads: Vec<std::thread::JoinHandle<Result<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    served: AtomicU64,
}

impl Load {
    /// Starts to send `rate` requests per second in total, or fewer if the server does not answer
    /// that many.
    fn begin(busy: Vec<TcpStream>, rate: f64) -> Self {
        let shared = Arc::new(Shared::default());
        let pause = Duration::from_secs_f64((BATCH * busy.len()) as f64 / rate);
        let send = |stream: TcpStream| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || send_batches(stream, pause, &shared))
        };
        let threads = busy.into_iter().map(send).collect();
        Load { shared, threads }
    }

    fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }

    fn end(self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            match thread.join() {
                Ok(sent) => sent?,
                Err(_) => bail!("a busy connection's thread panicked"),
            }
        }
        Ok(())
    }
}

fn send_batches(mut stream: TcpStream, pause: Duration, shared: &Shared) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = b"BITCOUNT counted\r\n".repeat(BATCH);
    let mut buffer = [0; 4096];
    let mut due = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // Requests that were delayed are not made up for later.
        due = (due + pause).max(Instant::now());
        stream.write_all(&request)?;
        let mut replies = 0;
        while replies < BATCH {
            let bytes = stream.read(&mut buffer)?;
            ensure!(bytes > 0, "a busy connection was closed");
            let received = buffer.get(..bytes).unwrap_or_default();
            replies += received.iter().filter(|byte| **byte == b'\n').count();
        }
        shared.served.fetch_add(BATCH as u64, Ordering::Relaxed);
    }
    Ok(())
}
