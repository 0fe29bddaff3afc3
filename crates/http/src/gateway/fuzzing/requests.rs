//! Requests: URLs, JSON lists, WebSocket messages and headers.

use crate::gateway::format::{EXTENSIONS, Kind};
use crate::gateway::request::{self, PathCommand};
use crate::gateway::upstash::{self, Many};
use crate::gateway::worker_connection::encode;
use crate::gateway::{check_options, event_request, exchange, websocket};
use crate::guard::{self, Caller};
use crate::site::{Answer, Ask, GatewaySettings, Requester, Rule, Site, WorkerClient};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use nagi_pipe::WorkerEnd;
use serde_json::value::RawValue;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Media types that a browser executes, besides those that end with `+xml`.
const RUN: [&str; 5] = [
    "text/html",
    "text/xml",
    "text/javascript",
    "application/javascript",
    "multipart/x-mixed-replace",
];

/// A URL with its query.
pub(super) fn address(data: &[u8]) {
    let Ok(target) = std::str::from_utf8(data) else { return };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let _ = websocket::form(path);
    if let Ok(command) = request::parse(path, query) {
        within(&command.words, path.len());
        options(&command);
        let (path, query) = written(&command);
        assert_eq!(request::parse(&path, &query).as_ref(), Ok(&command), "{path}?{query}");
    }
    if let Some(Ok(command)) = event_request::command(path) {
        within(&command.words, path.len());
        let words = command.words.iter().map(|word| format!("/{}", encoded(word)));
        let words: String = words.collect();
        assert_eq!(request::parse_plain(&words, Kind::Events).as_ref(), Ok(&command), "{words}");
    }
}

/// Checks the words of an input of `bytes` bytes: a command, and no longer than that.
fn within(words: &[Bytes], bytes: usize) {
    assert!(words.first().is_some_and(|name| !name.is_empty()), "a command has a name");
    let len: usize = words.iter().map(Bytes::len).sum();
    assert!(len <= bytes, "{len} bytes of words in {bytes}");
}

/// Checks that the options of a URL are valid as headers, and that the media type is not executed
/// by browsers unless that is enabled.
fn options(command: &PathCommand) {
    let options = &command.options;
    let is_header = |text: &Option<String>| {
        text.as_ref().is_none_or(|text| HeaderValue::from_str(text).is_ok() && !text.contains('"'))
    };
    assert!(is_header(&options.filename) && is_header(&options.callback), "{options:?}");
    assert!(is_header(&options.media_type), "{options:?}");
    if check_options(options, &settings(false)).is_ok() {
        let media_type = exchange::media_type(options);
        let media_type = String::from_utf8_lossy(media_type.as_bytes()).to_ascii_lowercase();
        let is_run = RUN.contains(&&*media_type) || media_type.ends_with("+xml");
        assert!(!is_run && options.callback.is_none(), "{options:?} is permitted");
    }
}

fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// An equivalent URL with all possible characters percent-encoded.
fn written(command: &PathCommand) -> (String, String) {
    let options = &command.options;
    let words: Vec<String> = command.words.iter().map(|word| encoded(word)).collect();
    let extension = EXTENSIONS.iter().find(|(_, kind)| *kind == options.kind);
    let extension = extension.map_or("", |(name, _)| name);
    let path = format!("/{}/{}.{extension}", command.database, words.join("/"));
    let mut pairs = vec![format!("sep={}", encoded(&options.separator))];
    let texts = [
        ("type", &options.media_type),
        ("filename", &options.filename),
        ("jsonp", &options.callback),
    ];
    for (name, text) in texts {
        pairs.extend(text.as_ref().map(|text| format!("{name}={}", encoded(text.as_bytes()))));
    }
    (path, pairs.join("&"))
}

/// The body of a POST: a command in JSON, or a list of them.
pub(super) fn list(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else { return };
    let path = ["/", "/pipeline", "/multi-exec"][usize::from(kind % 3)];
    let many = upstash::Form::of(path, &HeaderMap::new()).many;
    let _ = event_request::last_word(Bytes::copy_from_slice(body));
    let Ok(commands) = upstash::commands(many, body) else { return };
    assert!(upstash::is_list(body) && !commands.is_empty());
    let (held, counted) = (held_bytes(&commands), upstash::parsed_bytes(body));
    assert!(held <= counted, "{held} bytes are held, {counted} are counted");
    for words in &commands {
        assert!(!words.is_empty(), "a command has a name");
        request_of(words);
    }
    let texts: Vec<Vec<&str>> = commands.iter().map(|words| texts(words)).collect();
    let mut again = serde_json::to_vec(&texts).unwrap_or_default();
    if many == Many::One {
        assert_eq!(commands.len(), 1);
        assert_eq!(upstash::words(body).as_ref(), commands.first());
        again = again.get(1..again.len() - 1).unwrap_or_default().to_vec();
    }
    assert_eq!(upstash::commands(many, &again).ok(), Some(commands), "written anew");
}

fn texts(words: &[Bytes]) -> Vec<&str> {
    words.iter().map(|word| std::str::from_utf8(word).unwrap_or_default()).collect()
}

/// The memory of commands, and of the places of their words in the text.
fn held_bytes(commands: &[Vec<Bytes>]) -> usize {
    let of_words = |words: &Vec<Bytes>| {
        let places = words.capacity().max(4) * size_of::<&RawValue>();
        let own = words.capacity() * size_of::<Bytes>() + size_of::<Vec<Bytes>>();
        places + own + words.iter().map(Bytes::len).sum::<usize>()
    };
    commands.iter().map(of_words).sum()
}

/// A message of a WebSocket in RESP.
pub(super) fn socket(data: &[u8]) {
    if let Some(words) = websocket::words(data) {
        assert!(!words.is_empty());
        let held = words.capacity().min(words.len() * 2) * size_of::<Bytes>();
        let held = held + words.iter().map(Bytes::len).sum::<usize>();
        assert!(held <= websocket::held_bytes(data), "{held} bytes are held");
        request_of(&words);
    }
    let _ = upstash::words(data);
}

/// Checks that the encoded request for a worker has the words that were parsed.
fn request_of(words: &[Bytes]) {
    let mut request = Vec::new();
    encode(words, words.len(), &mut request);
    assert_eq!(websocket::words(&request).as_deref(), Some(words), "on the way to a worker");
}

/// Headers of a request: two bytes for its kind and its peer, then a line for each header, whose
/// first byte chooses its name.
pub(super) fn headers(data: &[u8]) {
    static NAMES: [HeaderName; 12] = [
        header::HOST,
        header::ORIGIN,
        header::AUTHORIZATION,
        header::FORWARDED,
        header::VIA,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::ACCEPT,
        HeaderName::from_static("x-forwarded-for"),
        HeaderName::from_static("x-forwarded-proto"),
        HeaderName::from_static("sec-fetch-site"),
        HeaderName::from_static("upstash-encoding"),
    ];
    let [kind, place, lines @ ..] = data else { return };
    let mut headers = HeaderMap::new();
    if kind & 1 != 0 {
        headers.insert(header::HOST, HeaderValue::from_static("localhost:7379"));
    }
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_first() else { continue };
        let name = NAMES.get(usize::from(*name) % NAMES.len()).cloned();
        // Values that are invalid in a header line never come from hyper.
        let value = HeaderValue::from_bytes(value.trim_ascii()).ok();
        name.zip(value).into_iter().for_each(|(name, value)| {
            headers.append(name, value);
        });
    }
    let path = if kind & 2 != 0 { "/page" } else { "/GET/a" };
    let method = [Method::GET, Method::POST, Method::OPTIONS, Method::PUT];
    let method = method[usize::from(kind >> 2 & 3)].clone();
    let _ = event_request::are_wanted(&method, &headers);
    let site = Guarded { has_password: kind & 16 != 0, has_login: AtomicBool::new(false) };
    let peer = ["127.0.0.1", "192.0.2.9", "192.0.2.7", "::1"][usize::from(place & 3)];
    let Ok(peer) = peer.parse::<IpAddr>() else { return };
    let mut request = hyper::Request::new(());
    *request.method_mut() = method;
    *request.headers_mut() = headers;
    *request.uri_mut() = hyper::Uri::from_static(path);
    let (parts, ()) = request.into_parts();
    let peer = SocketAddr::new(peer, 5000);
    if let Ok(caller) = guard::check(&site, &parts, peer) {
        permitted(&site, &parts, peer, &caller);
    }
}

/// Invariants of every request that is permitted.
fn permitted(site: &Guarded, parts: &Parts, peer: SocketAddr, caller: &Caller) {
    let texts = |name: &HeaderName| -> Vec<String> {
        let values = parts.headers.get_all(name).iter();
        values.map(|it| String::from_utf8_lossy(it.as_bytes()).to_ascii_lowercase()).collect()
    };
    let hosts = texts(&header::HOST);
    let [host] = hosts.as_slice() else { panic!("{hosts:?} are not one name") };
    let port_at = host.rfind(':').filter(|at| host[at + 1..].parse::<u16>().is_ok());
    let name = &host[..port_at.unwrap_or(host.len())];
    let name = name.strip_suffix('.').unwrap_or(name);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_known = name == "localhost" || name.ends_with(".localhost") || name == "cache.example";
    assert!(is_known || address.is_ok(), "{host} is no name of this server");
    for origin in texts(&header::ORIGIN) {
        let name = origin.split_once("://").map(|(_, name)| name);
        let is_listed = origin == "https://shop.example" && parts.uri.path() != "/page";
        assert!(is_listed || name == Some(host.as_str()), "{origin} may ask");
    }
    let is_named = parts.headers.keys().any(|name| {
        ["forwarded", "via"].contains(&name.as_str()) || name.as_str().starts_with("x-forwarded-")
    });
    let is_passed_on = is_named && site.is_trusted_proxy(peer.ip());
    assert!(is_passed_on && caller.address.port() == 0 || caller.address == peer, "{caller:?}");
    let has_login = site.has_login.load(Ordering::Relaxed);
    // A browser sends no password with OPTIONS.
    if parts.method != Method::OPTIONS || !site.has_password {
        let is_local = peer.ip().is_loopback() && caller.address.ip().is_loopback();
        let is_of_proxy = is_named && !is_passed_on;
        let needs_none = is_local && !site.has_password && !is_of_proxy;
        assert!(has_login || needs_none, "{caller:?} has no password");
    }
    assert!(caller.user.is_empty() || has_login, "{caller:?} has not logged in");
}

fn settings(is_on: bool) -> GatewaySettings {
    GatewaySettings {
        is_on: true,
        writes_by_get: is_on,
        active_types: is_on,
        jsonp: is_on,
        origins: "https://shop.example".into(),
        cache_control: "no-store".into(),
        longest_argument: 1,
    }
}

/// A site with a page, commands and one password.
struct Guarded {
    has_password: bool,
    has_login: AtomicBool,
}

impl Site for Guarded {
    fn answer(&self, _: Ask<'_>) -> Option<Answer> {
        None
    }

    fn has_page(&self, path: &str) -> bool {
        path == "/page"
    }

    fn is_open(&self, _: &str) -> bool {
        false
    }

    fn has_password(&self) -> bool {
        self.has_password
    }

    fn is_login(&self, _: &[u8], password: &[u8]) -> bool {
        let is_right = password == b"sesame";
        self.has_login.fetch_or(is_right, Ordering::Relaxed);
        is_right
    }

    fn may_observe(&self, user: &[u8]) -> bool {
        user != b"blind"
    }

    fn hosts(&self) -> Arc<str> {
        "cache.example".into()
    }

    fn gateway(&self) -> GatewaySettings {
        settings(false)
    }

    fn rule(&self, _: &[Bytes], _: IpAddr) -> Rule {
        Rule::Unknown
    }

    fn has_subcommands(&self, _: &[u8]) -> bool {
        false
    }

    fn may_wait(&self, _: &[Bytes]) -> bool {
        false
    }

    fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        ["127.0.0.1", "192.0.2.9"].contains(&&*address.to_string())
    }

    fn connect_worker(
        &self,
        _: &[u8],
        _: &Requester<'_>,
        _: WorkerEnd,
    ) -> io::Result<Box<dyn WorkerClient>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
