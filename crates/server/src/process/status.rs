//! Pages about the server over HTTP, and the sampler: a thread that reads all figures once a
//! second. Neither affects workers: pages are rendered from the last sample, once for all requests.
//! A part of the sample is also shown by ps and top.

use crate::net::link::Link;
use crate::net::protocol::Protocol;
use crate::process::titles;
use crate::state::descriptors;
use crate::state::mailbox::{ConnectionTask, GatewayClient, NewConnection, Reminders};
use crate::state::shared::Shared;
use nagi_commands::config::has_address;
use nagi_commands::status::{
    Format, ListOptions, SCRIPT, STYLE, Sample, StatusForm, auto, is_ready, json, metrics, page,
};
use nagi_commands::{
    Config, HttpClient, HttpConnection, HttpRule, HttpRules, Server as _, admission, rights,
};
use nagi_http::{
    Answer, Ask, Bell, Bytes, GatewaySettings, IdleConnection, Requester, Rule, Site, WorkerClient,
    WorkerEnd,
};
use nagi_store::accounting;
use parking_lot::RwLock;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// How often a sample is taken.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum connections that each sample lists. A worker that accepts a connection waits for the
/// listing.
const FEW_CONNECTIONS: usize = 1000;
/// How long after a request for connections more of them are listed and keys are recorded, in
/// milliseconds. The request waits for the first such list.
const LISTED_FOR_MS: u64 = 10_000;
/// While no page is open, large values are looked up once in this many samples, which is often
/// enough for them to be shown.
const UNWATCHED_CHECK: u64 = 3;

/// Why pages cannot be served.
#[derive(Debug)]
pub enum StatusError {
    /// A word of `http-bind` is not an address.
    NoAddress(String),
    /// Other machines would have access without a password.
    NeedsPassword(IpAddr),
    /// An address cannot be listened on.
    Open(SocketAddr, io::Error),
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusError::NoAddress(word) => write!(f, "--http-bind: {word} is not an IP address"),
            StatusError::NeedsPassword(address) => write!(
                f,
                "--http-bind {address}: serving pages to other machines needs a password \
                 (--requirepass PASSWORD)"
            ),
            StatusError::Open(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "{address} is in use; choose another port with --http-port, or none with \
                 --http-port 0 (or stop the server that has it: ss -ltnp 'sport = :{}')",
                    address.port()
                )
            }
            StatusError::Open(address, error) => write!(
                f,
                "cannot serve HTTP on {address}: {error}; choose another port with --http-port, \
                 or none with --http-port 0"
            ),
        }
    }
}

impl std::error::Error for StatusError {}

/// Listeners of pages that are not served yet.
#[derive(Debug, Default)]
pub(crate) struct Pages(Vec<TcpListener>);

impl Pages {
    /// Listens on the addresses of the settings. If the default port is in use and the settings do
    /// not name it, pages are disabled with a log message.
    pub(crate) fn open(config: &Config) -> Result<Pages, StatusError> {
        if !config.http_port.is_on() {
            return Ok(Pages::default());
        }
        // The value for a port that the kernel chooses is beyond all ports.
        let port = u16::try_from(config.http_port.get()).unwrap_or(0);
        let opened = Pages::on(port, config);
        if let Err(StatusError::Open(address, error)) = &opened
            && !config.is_given("http-port")
        {
            tracing::warn!(
                %address, %error,
                "HTTP is off: its default port is not free (choose one with --http-port)"
            );
            return Ok(Pages::off(config));
        }
        let pages = opened?;
        let port = pages.addresses().first().map_or(0, SocketAddr::port);
        config.found_port("http-port", port);
        Ok(pages)
    }

    /// No pages, although the default settings have some.
    pub(crate) fn off(config: &Config) -> Pages {
        // As a default, so that CONFIG REWRITE does not write it. The setting exists and the value
        // is valid.
        let _ = config.set_default("http-port", "0");
        Pages::default()
    }

    /// Whether pages are served on this port.
    pub(crate) fn are_on(&self, port: u16) -> bool {
        self.addresses().iter().any(|address| address.port() == port)
    }

    fn on(mut port: u16, config: &Config) -> Result<Pages, StatusError> {
        let mut pages = Pages::default();
        for word in config.http_bind.get().split_whitespace() {
            let (host, is_optional) = match word.strip_prefix('-') {
                Some(host) => (host, true),
                None => (word, false),
            };
            let address: IpAddr =
                host.parse().map_err(|_| StatusError::NoAddress(host.to_owned()))?;
            if !address.is_loopback() && !admission::is_password_required(config) {
                return Err(StatusError::NeedsPassword(address));
            }
            let address = SocketAddr::new(address, port);
            match nagi_http::bind(address) {
                Ok(listener) => {
                    // The other addresses get the port that the kernel has chosen for the first.
                    port = listener.local_addr().map_or(port, |it| it.port());
                    pages.0.push(listener);
                }
                Err(error) if is_optional && error.kind() != io::ErrorKind::AddrInUse => {
                    tracing::debug!(%address, %error, "skipped an optional HTTP address");
                }
                Err(error) => return Err(StatusError::Open(address, error)),
            }
        }
        Ok(pages)
    }

    /// The addresses of the listeners.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves pages from now on, as long as the sampler lives. Samples are taken even without
    /// pages.
    pub(crate) fn serve(self, shared: &Arc<Shared>) -> io::Result<Sampler> {
        let asked_at_ms = AtomicU64::new(0);
        let first = Rendered::sample(shared, None, [Duration::ZERO; 2], 0);
        let samples = Arc::new(SampleStore {
            shared: Arc::clone(shared),
            latest: RwLock::new(Arc::new(first)),
            asked_at_ms,
            bell: Bell::default(),
        });
        let serving = match self.0.is_empty() {
            true => None,
            false => {
                let most = descriptors::http_connections(shared.config());
                Some(nagi_http::start(self.0, Arc::clone(&samples) as Arc<dyn Site>, most)?)
            }
        };
        Ok(Sampler { samples, _serving: serving })
    }
}

/// A sample, and the pages rendered from it.
struct Rendered {
    sample: Sample,
    prometheus: OnceLock<Answer>,
    open_metrics: OnceLock<Answer>,
    auto: OnceLock<Answer>,
    json: OnceLock<Answer>,
    page: OnceLock<Answer>,
}

impl Rendered {
    fn sample(
        shared: &Shared,
        previous: Option<&Sample>,
        latenesses: [Duration; 2],
        asked_at_ms: u64,
    ) -> Rendered {
        let loads = shared.registry.loads();
        let has_pages = shared.config().http_port.is_on();
        let lists_clients = has_pages
            && (loads.iter().sum::<usize>() <= FEW_CONNECTIONS
                || shared.store.now_ms().saturating_sub(asked_at_ms) < LISTED_FOR_MS);
        let store = &shared.store;
        Rendered {
            sample: Sample::take(shared, store, &loads, previous, latenesses, lists_clients),
            prometheus: OnceLock::new(),
            open_metrics: OnceLock::new(),
            auto: OnceLock::new(),
            json: OnceLock::new(),
            page: OnceLock::new(),
        }
    }

    fn metrics(&self, format: Format) -> Answer {
        let made = match format {
            Format::Prometheus => &self.prometheus,
            Format::OpenMetrics => &self.open_metrics,
        };
        let text = || found(format.content_type(), metrics(&self.sample, format));
        made.get_or_init(text).clone()
    }

    /// `/server-status`, in the format for programs if the query asks for it, as with mod_status.
    fn server_status(&self, query: &str) -> Answer {
        let sample = &self.sample;
        match StatusForm::of(query) {
            StatusForm::Auto => self.auto.get_or_init(|| found(TEXT, auto(sample))).clone(),
            StatusForm::Json => {
                list(query, &self.json, |options| found(JSON, json(sample, options)))
            }
            StatusForm::Page => {
                list(query, &self.page, |options| found(HTML, page(sample, options)))
            }
        }
    }
}

/// The result of `make` with the options of a query; cached for queries without options.
fn list(query: &str, usual: &OnceLock<Answer>, make: impl Fn(&ListOptions) -> Answer) -> Answer {
    match ListOptions::parse(query) {
        Ok(options) if options == ListOptions::default() => {
            usual.get_or_init(|| make(&options)).clone()
        }
        Ok(options) => make(&options),
        Err(wrong) => Answer::line(400, &wrong),
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";

fn found(content_type: &'static str, text: impl Into<Bytes>) -> Answer {
    Answer { status: 200, content_type, body: text.into() }
}

/// The latest sample of the sampler, from which pages are made.
struct SampleStore {
    shared: Arc<Shared>,
    latest: RwLock<Arc<Rendered>>,
    /// When connections were last requested, in milliseconds since 1970.
    asked_at_ms: AtomicU64,
    /// Rings for each sample.
    bell: Bell,
}

/// The paths of pages; other paths are commands.
const PAGES: [&str; 7] = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/server-status",
    "/server-status/",
    "/server-status/status.css",
    "/server-status/status.js",
];

impl SampleStore {
    fn latest(&self) -> Arc<Rendered> {
        Arc::clone(&self.latest.read())
    }
}

impl Site for SampleStore {
    fn thread_starts(&self) {
        accounting::count_as_overhead();
    }

    fn answer(&self, ask: Ask<'_>) -> Option<Answer> {
        match ask.path {
            "/healthz" => Some(Answer::line(200, "ok")),
            "/readyz" => {
                let shared = &*self.shared;
                let is_ready = !shared.is_stopping() && is_ready(shared, &shared.store);
                Some(match is_ready {
                    true => Answer::line(200, "ready"),
                    false => Answer::line(503, "not ready"),
                })
            }
            "/metrics" => Some(self.latest().metrics(Format::accepted(ask.accept))),
            "/server-status" | "/server-status/" => {
                self.asked_at_ms.store(self.shared.store.now_ms(), Ordering::Relaxed);
                Some(self.latest().server_status(ask.query))
            }
            "/server-status/status.css" => Some(found("text/css; charset=utf-8", STYLE)),
            "/server-status/status.js" => Some(found("text/javascript; charset=utf-8", SCRIPT)),
            _ => None,
        }
    }

    /// The bell that rings when the list of connections is complete, if the request needs the list
    /// and the last sample lacks it.
    fn awaited(&self, ask: Ask<'_>) -> Option<&Bell> {
        let shows_clients = ["/server-status", "/server-status/"].contains(&ask.path)
            && StatusForm::of(ask.query) != StatusForm::Auto;
        if !shows_clients || self.shared.is_stopping() || self.latest().sample.clients.is_some() {
            return None;
        }
        self.asked_at_ms.store(self.shared.store.now_ms(), Ordering::Relaxed);
        Some(&self.bell)
    }

    fn has_page(&self, path: &str) -> bool {
        PAGES.contains(&path)
    }

    fn is_open(&self, path: &str) -> bool {
        ["/healthz", "/readyz"].contains(&path)
    }

    fn has_password(&self) -> bool {
        admission::is_password_required(self.shared.config())
    }

    fn is_login(&self, user: &[u8], password: &[u8]) -> bool {
        admission::is_login(self.shared.config(), user, password)
    }

    fn note_failed_login(&self, user: &[u8], client: &Requester<'_>) {
        let now_ms = self.shared.store.now_ms();
        rights::note_failed_http_login(&*self.shared, client.address, user, now_ms);
    }

    fn may_observe(&self, user: &[u8]) -> bool {
        rights::may_observe(&*self.shared, user)
    }

    fn hosts(&self) -> Arc<str> {
        self.shared.config().http_hosts.get()
    }

    fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        has_address(&self.shared.config().http_trusted_proxies.get(), address)
    }

    fn gateway(&self) -> GatewaySettings {
        let config = self.shared.config();
        GatewaySettings {
            is_on: config.http_gateway.is_on(),
            writes_by_get: config.http_writes_by_get.is_on(),
            active_types: config.http_active_types.is_on(),
            jsonp: config.http_jsonp.is_on(),
            origins: config.http_origins.get(),
            cache_control: config.http_cache_control.get(),
            longest_argument: config.proto_max_bulk_len.bytes(),
        }
    }

    fn rule(&self, words: &[Bytes], address: IpAddr) -> Rule {
        let word = |at: usize| words.get(at).map_or(&b""[..], |word| word);
        match self.shared.http_rules().rule(self.shared.commands(), [word(0), word(1)], address) {
            HttpRule::Read => Rule::Read,
            HttpRule::Write => Rule::Write,
            HttpRule::Stream => Rule::Stream,
            HttpRule::StreamEnd => Rule::StreamEnd,
            HttpRule::Refused(reason) => Rule::Refused(reason),
            HttpRule::Unknown => Rule::Unknown,
        }
    }

    fn has_subcommands(&self, command: &[u8]) -> bool {
        let entry = self.shared.commands().find(command);
        entry.is_some_and(|entry| !entry.command.subcommands.is_empty())
    }

    fn may_wait(&self, words: &[Bytes]) -> bool {
        HttpRules::may_wait(self.shared.commands(), words)
    }

    fn connect_worker(
        &self,
        user: &[u8],
        requester: &Requester<'_>,
        end: WorkerEnd,
    ) -> io::Result<Box<dyn WorkerClient>> {
        let most = usize::try_from(self.shared.config().maxclients.get()).unwrap_or(usize::MAX);
        let worker = self.shared.registry.assign(0, most);
        let worker = worker.ok_or_else(|| io::Error::other("max number of clients reached"))?;
        let Requester { address, agent, is_web_socket } = *requester;
        let client = Arc::new(HttpClient::new(address, agent, is_web_socket));
        let connection = NewConnection {
            link: Link::Pipe(end),
            protocol: Protocol::Resp,
            is_reserved: false,
            gateway: Some(GatewayClient { user: user.into(), client: Arc::clone(&client) }),
        };
        self.shared.post(worker, ConnectionTask::Serve(connection));
        Ok(Box::new(ServedClient { client, shared: Arc::clone(&self.shared) }))
    }

    fn count_response(&self, status: u16, is_page: bool) {
        self.shared.statistics().http.count_response(status, is_page);
    }

    fn count_refusal(&self, status: u16) {
        self.shared.statistics().http.count_refusal(status);
    }

    fn note_connections(&self, connections: usize) {
        self.shared.statistics().http.set_connections(connections);
    }

    fn next_connection_number(&self) -> u64 {
        self.shared.registry.next_id()
    }

    fn note_idle_connections(&self, idle: Vec<IdleConnection>) {
        let shown = |it: IdleConnection| HttpConnection {
            id: it.number,
            address: it.address,
            age_s: it.age_s.into(),
            idle_s: it.idle_s.into(),
            requests: it.requests,
        };
        self.shared.statistics().http.set_idle(idle.into_iter().map(shown).collect());
    }

    fn note_web_sockets(&self, web_sockets: usize) {
        self.shared.statistics().http.set_web_sockets(web_sockets);
    }
}

/// The client behind a connection that requests over HTTP share.
struct ServedClient {
    client: Arc<HttpClient>,
    shared: Arc<Shared>,
}

impl WorkerClient for ServedClient {
    fn serve(&self, requester: &Requester<'_>) {
        let Requester { address, agent, is_web_socket } = *requester;
        self.client.serve(address, agent, is_web_socket, self.shared.store.now_ms());
    }
}

/// The thread that takes samples. Dropping it stops serving pages.
pub(crate) struct Sampler {
    samples: Arc<SampleStore>,
    _serving: Option<nagi_http::Running>,
}

impl Sampler {
    /// Samples until the server stops.
    pub(crate) fn run(self) {
        accounting::count_as_overhead();
        let mut due = Instant::now() + PERIOD;
        let mut longest = Duration::ZERO;
        let mut number = 0_u64;
        while !self.samples.shared.is_stopping() {
            let now = Instant::now();
            if now < due {
                thread::park_timeout(due - now);
                continue;
            }
            let lateness = now - due;
            longest = longest.max(lateness);
            let samples = &self.samples;
            let asked_at_ms = samples.asked_at_ms.load(Ordering::Relaxed);
            let shared = &samples.shared;
            let passed_ms = shared.store.now_ms().saturating_sub(asked_at_ms);
            let is_watched = passed_ms < LISTED_FOR_MS;
            let previous = samples.latest();
            let previous = Some(&previous.sample);
            let latenesses = [lateness, longest];
            let latest = Rendered::sample(&samples.shared, previous, latenesses, asked_at_ms);
            // For the next sample. A first request for a page must not find an empty list.
            let has_pages = shared.config().http_port.is_on();
            if is_watched || has_pages && number.is_multiple_of(UNWATCHED_CHECK) {
                shared.remind_all(Reminders::VALUES);
            }
            number += 1;
            titles::show(&samples.shared, &latest.sample);
            let latest = Arc::new(latest);
            *self.samples.latest.write() = latest;
            self.samples.bell.ring();
            // A late sample does not shorten the next period.
            due = (due + PERIOD).max(Instant::now());
        }
    }
}
