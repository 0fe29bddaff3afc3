//! Access checks before any page is rendered.
//!
//! A browser executes scripts of foreign sites and has access to loopback addresses that those
//! sites lack. A request must therefore use a host name that no foreign site can have (DNS
//! rebinding), and must not come from another site's page.

use crate::forwarded::{self, Contradiction, is_forwarded};
use crate::site::{Requester, Site};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    TRANSFER_ENCODING, USER_AGENT,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};
use std::net::SocketAddr;

/// The longest path with its query, in bytes.
const LONGEST_TARGET: usize = 2048;
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
}

const fn refusal(status: u16, reason: &'static str) -> Refusal {
    Refusal { status, reason }
}

/// A client that has passed the checks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The name of the client's user, empty for the default user.
    pub(crate) user: Vec<u8>,
    /// The client's address, according to trusted proxies.
    pub(crate) address: SocketAddr,
    /// The User-Agent header.
    pub(crate) agent: Option<HeaderValue>,
    /// Whether the client has a WebSocket.
    pub(crate) is_web_socket: bool,
}

impl Caller {
    /// The client as lists of clients show it.
    pub(crate) fn requester(&self) -> Requester<'_> {
        Requester {
            address: self.address,
            agent: self.agent.as_ref().map_or(b"", HeaderValue::as_bytes),
            is_web_socket: self.is_web_socket,
        }
    }
}

/// Checks a client's request on a connection from `peer`.
///
/// # Errors
/// The refusal, as a response.
pub(crate) fn check(site: &dyn Site, request: &Parts, peer: SocketAddr) -> Result<Caller, Refusal> {
    let headers = &request.headers;
    let is_page = site.has_page(request.uri.path());
    if is_page {
        check_page(request)?;
    }
    let agent = headers.get(USER_AGENT).cloned();
    let is_open = site.is_open(request.uri.path());
    if is_open && request.version == Version::HTTP_10 && !headers.contains_key(HOST) {
        // The probe of a load balancer. A browser, which a foreign page might use, has the header.
        return Ok(Caller { user: Vec::new(), address: peer, agent, is_web_socket: false });
    }
    let host = only(headers, HOST).ok_or(refusal(400, "exactly one Host header is required"))?;
    if request.uri.authority().is_some() {
        return Err(refusal(400, "this server is not a proxy"));
    }
    if !is_own_name(host, &site.hosts()) {
        return Err(refusal(403, "unknown host name (see http-hosts)"));
    }
    let origins = if is_page { "".into() } else { site.gateway().origins };
    if !is_permitted_origin(headers, host, &origins) {
        return Err(refusal(
            403,
            "requests from pages of other sites are refused (see http-origins)",
        ));
    }
    let address = forwarded::client(site, headers, peer).map_err(|Contradiction| {
        refusal(400, "Forwarded and X-Forwarded-For name different clients")
    })?;
    let anonymous = Caller { user: Vec::new(), address, agent, is_web_socket: false };
    if is_open {
        return Ok(anonymous);
    }
    if !site.has_password() {
        check_place(site, headers, [peer, address])?;
    }
    if request.method == Method::OPTIONS {
        // Browsers send no password with a preflight request.
        return Ok(anonymous);
    }
    let user = identify(site, headers, &anonymous.requester())?;
    match is_page && !site.may_observe(&user) {
        true => Err(refusal(
            403,
            "this user may not run INFO, CLIENT LIST and SLOWLOG GET, which pages need",
        )),
        false => Ok(Caller { user, ..anonymous }),
    }
}

/// Checks that a request has the form of a request for a page.
fn check_page(request: &Parts) -> Result<(), Refusal> {
    let headers = &request.headers;
    if request.method != Method::GET && request.method != Method::HEAD {
        return Err(refusal(405, "only GET and HEAD are allowed"));
    }
    if headers.contains_key(TRANSFER_ENCODING)
        || headers.get_all(CONTENT_LENGTH).iter().any(|length| length != "0")
    {
        return Err(refusal(413, "requests for pages must not have a body"));
    }
    if request.uri.path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_TARGET) {
        return Err(refusal(414, "the URL is too long"));
    }
    Ok(())
}

/// Checks that a client, which needs no password, is on this machine.
fn check_place(
    site: &dyn Site,
    headers: &HeaderMap,
    [peer, client]: [SocketAddr; 2],
) -> Result<(), Refusal> {
    if is_forwarded(headers) && !site.is_trusted_proxy(peer.ip()) {
        // Behind a proxy every client has a loopback address.
        let reason =
            "without a password, requests through a proxy are refused (see http-trusted-proxies)";
        return Err(refusal(403, reason));
    }
    if ![peer, client].iter().all(|it| it.ip().to_canonical().is_loopback()) {
        return Err(refusal(403, "without a password, only clients over loopback are served"));
    }
    Ok(())
}

/// The user of a client, by its credentials; the default user if none are needed or sent.
fn identify(
    site: &dyn Site,
    headers: &HeaderMap,
    requester: &Requester<'_>,
) -> Result<Vec<u8>, Refusal> {
    const NEEDED: Refusal = refusal(401, "a password is needed");
    if !site.has_password() && !headers.contains_key(AUTHORIZATION) {
        return Ok(Vec::new());
    }
    let (user, password) = credentials(headers).ok_or(NEEDED)?;
    if !site.is_login(&user, &password) {
        site.note_failed_login(&user, requester);
        return Err(NEEDED);
    }
    Ok(user)
}

/// The value of a header that occurs exactly once, as text.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a Host header has an address, a loopback name or one of `hosts`.
fn is_own_name(host: &str, hosts: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if port.is_empty() || is_port(port) => {
            return address.parse::<std::net::Ipv6Addr>().is_ok();
        }
        Some(_) => return false,
        None => match host.find(':').map(|at| host.split_at(at)) {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return false,
            None => host,
        },
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let has_tail = |tail: &str| {
        let start = name.len().checked_sub(tail.len());
        start.and_then(|start| name.get(start..)).is_some_and(|it| it.eq_ignore_ascii_case(tail))
    };
    let is_loopback = name.eq_ignore_ascii_case("localhost") || has_tail(".localhost");
    let mut hosts = hosts.split_whitespace();
    is_loopback
        || name.parse::<std::net::Ipv4Addr>().is_ok()
        || hosts.any(|host| host.eq_ignore_ascii_case(name))
}

/// Whether `text` is a colon and a port.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Whether a request does not come from a page, or comes from a page of this server or of one of
/// `origins`.
fn is_permitted_origin(headers: &HeaderMap, host: &str, origins: &str) -> bool {
    if permitted_origin(headers, origins).is_some() {
        return true;
    }
    let sites = headers.get_all(SEC_FETCH_SITE);
    if sites.iter().any(|site| site != "none" && site != "same-origin") {
        return false;
    }
    headers.get_all(ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().ok();
        let name = origin.and_then(|it| it.strip_prefix("http://").or(it.strip_prefix("https://")));
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    })
}

/// The origin of a request, if it is one of `origins`, or these are `*`.
pub(crate) fn permitted_origin<'h>(headers: &'h HeaderMap, origins: &str) -> Option<&'h str> {
    let origin = only(headers, ORIGIN)?;
    let is_permitted = origins.split_whitespace().any(|it| it == "*" || it == origin);
    is_permitted.then_some(origin)
}

/// The user, empty for the default one, and the password in the Basic or Bearer scheme.
fn credentials(headers: &HeaderMap) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, secret) = only(headers, AUTHORIZATION)?.split_once(' ')?;
    let secret = secret.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((Vec::new(), secret.into()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let login = STANDARD.decode(secret).ok()?;
    let (user, password) = login.split_at(login.iter().position(|byte| *byte == b':')?);
    Some((user.to_vec(), password.get(1..)?.to_vec()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::site::{Answer, Ask, GatewaySettings, Rule, WorkerClient};
    use hyper::body::Bytes;
    use nagi_pipe::WorkerEnd;
    use std::io;
    use std::net::IpAddr;
    use std::sync::Arc;

    pub(crate) struct Guarded(pub(crate) &'static str);

    impl Site for Guarded {
        fn answer(&self, _: Ask<'_>) -> Option<Answer> {
            None
        }

        fn has_page(&self, path: &str) -> bool {
            path != "/command"
        }

        fn is_open(&self, path: &str) -> bool {
            path == "/open"
        }

        fn has_password(&self) -> bool {
            !self.0.is_empty()
        }

        fn is_login(&self, user: &[u8], password: &[u8]) -> bool {
            [&b""[..], b"default", b"blind"].contains(&user) && password == self.0.as_bytes()
        }

        fn may_observe(&self, user: &[u8]) -> bool {
            user != b"blind"
        }

        fn hosts(&self) -> Arc<str> {
            "cache.example  Other".into()
        }

        fn gateway(&self) -> GatewaySettings {
            GatewaySettings {
                is_on: true,
                writes_by_get: false,
                active_types: false,
                jsonp: false,
                origins: "https://shop.example".into(),
                cache_control: "no-store".into(),
                longest_argument: 1,
            }
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
            ["127.0.0.9", "192.0.2.9", "192.0.2.10"].contains(&&*address.to_string())
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

    fn status(password: &'static str, path: &str, headers: &[(&str, &str)], peer: &str) -> u16 {
        checked(password, path, headers, peer).map_or_else(|refusal| refusal.status, |_| 200)
    }

    fn checked(
        password: &'static str,
        path: &str,
        headers: &[(&str, &str)],
        peer: &str,
    ) -> Result<Caller, Refusal> {
        let mut request = hyper::Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&Guarded(password), &parts, SocketAddr::new(peer.parse().unwrap(), 5000))
    }

    #[test]
    fn a_server_accepts_only_its_own_names() {
        for (host, expected) in [
            ("localhost", 200),
            ("LOCALHOST:7379", 200),
            ("localhost.", 200),
            ("a.localhost:1", 200),
            ("127.0.0.1:7379", 200),
            ("192.0.2.7", 200),
            ("[::1]", 200),
            ("[::1]:7379", 200),
            ("cache.example:80", 200),
            ("other", 200),
            ("evil.example", 403),
            ("localhost.evil.example", 403),
            ("evillocalhost", 403),
            ("[::1].evil.example", 403),
            ("localhost:port", 403),
            ("127.0.0.1:99999", 403),
            ("127.0.0.1.evil.example", 403),
            ("", 403),
        ] {
            assert_eq!(status("", "/", &[("host", host)], "127.0.0.1"), expected, "{host}");
        }
        assert_eq!(status("", "/", &[], "127.0.0.1"), 400);
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(status("", "/", &twice, "127.0.0.1"), 400);
        assert_eq!(status("", "http://localhost/", &[("host", "localhost")], "127.0.0.1"), 400);
    }

    #[test]
    fn requests_of_foreign_pages_or_proxies_are_refused() {
        for (name, value, expected) in [
            ("origin", "http://localhost", 200),
            ("origin", "http://evil.example", 403),
            ("origin", "null", 403),
            ("sec-fetch-site", "none", 200),
            ("sec-fetch-site", "same-origin", 200),
            ("sec-fetch-site", "same-site", 403),
            ("sec-fetch-site", "cross-site", 403),
            ("forwarded", "for=192.0.2.1", 403),
            ("x-forwarded-for", "192.0.2.1", 403),
            ("x-forwarded-proto", "https", 403),
            ("via", "1.1 proxy", 403),
            ("content-length", "0", 200),
            ("content-length", "1", 413),
            ("transfer-encoding", "chunked", 413),
        ] {
            let headers = [("host", "localhost"), (name, value)];
            assert_eq!(status("", "/", &headers, "127.0.0.1"), expected, "{name}: {value}");
        }
        assert_eq!(status("", "/", &[("host", "192.0.2.1")], "192.0.2.7"), 403);
        assert_eq!(status("", "/", &[("host", "[::1]")], "::ffff:127.0.0.1"), 200);
        let long = "/".repeat(LONGEST_TARGET + 1);
        assert_eq!(status("", &long, &[("host", "localhost")], "127.0.0.1"), 414);
    }

    #[test]
    fn a_preflight_needs_no_password_but_passes_the_other_checks() {
        for (password, peer, header, expected) in [
            ("", "127.0.0.1", ("accept", "*/*"), 200),
            ("", "127.0.0.1", ("via", "1.1 proxy"), 403),
            ("", "127.0.0.1", ("x-forwarded-proto", "https"), 403),
            ("", "127.0.0.9", ("forwarded", "for=127.0.0.1"), 200),
            ("", "127.0.0.9", ("forwarded", "for=192.0.2.7"), 403),
            ("", "192.0.2.7", ("accept", "*/*"), 403),
            ("sesame", "192.0.2.7", ("accept", "*/*"), 200),
            ("sesame", "127.0.0.1", ("via", "1.1 proxy"), 200),
            ("sesame", "127.0.0.1", ("origin", "http://evil.example"), 403),
        ] {
            let request = hyper::Request::options("/command").header("host", "localhost");
            let request = request.header(header.0, header.1).body(()).unwrap();
            let peer = SocketAddr::new(peer.parse().unwrap(), 5000);
            let checked = check(&Guarded(password), &request.into_parts().0, peer);
            let status = checked.map_or_else(|refusal| refusal.status, |_| 200);
            assert_eq!(status, expected, "{password} {peer} {header:?}");
        }
    }

    #[test]
    fn a_password_is_given_in_one_of_two_ways() {
        let basic = |login: &str| format!("Basic {}", STANDARD.encode(login));
        for (given, expected) in [
            (basic("default:sesame"), 200),
            (basic(":sesame"), 200),
            ("bearer sesame".to_owned(), 200),
            (basic("other:sesame"), 401),
            (basic("blind:sesame"), 403),
            (basic("default:sesam"), 401),
            (basic("sesame"), 401),
            ("Basic !".to_owned(), 401),
            ("Bearer".to_owned(), 401),
            ("Digest sesame".to_owned(), 401),
        ] {
            let headers = [("host", "localhost"), ("authorization", given.as_str())];
            assert_eq!(status("sesame", "/", &headers, "192.0.2.7"), expected, "{given}");
        }
        assert_eq!(status("sesame", "/", &[("host", "localhost")], "127.0.0.1"), 401);
        assert_eq!(status("sesame", "/open", &[("host", "localhost")], "127.0.0.1"), 200);
        let proxied =
            [("host", "localhost"), ("via", "1.1 proxy"), ("authorization", "Bearer sesame")];
        assert_eq!(status("sesame", "/", &proxied, "127.0.0.1"), 200);
    }

    #[test]
    fn only_trusted_proxies_say_where_a_client_is() {
        let (local, remote) = ("127.0.0.9", "192.0.2.9");
        for (peer, header, value, expected) in [
            // Without a trusted proxy, the client is where the connection comes from.
            ("192.0.2.7", "x-forwarded-for", "198.51.100.1", "192.0.2.7:5000"),
            (remote, "x-other", "198.51.100.1", "192.0.2.9:5000"),
            (remote, "x-forwarded-for", "198.51.100.1", "198.51.100.1:0"),
            (remote, "x-forwarded-for", "198.51.100.1:81", "198.51.100.1:0"),
            (remote, "forwarded", "for=\"[2001:db8::1]:1\";by=_x", "[2001:db8::1]:0"),
            // The client's own headers come first.
            (remote, "x-forwarded-for", "127.0.0.1, 198.51.100.1, 192.0.2.10", "198.51.100.1:0"),
            (remote, "forwarded", "for=127.0.0.1, for=198.51.100.1,", "198.51.100.1:0"),
            (remote, "x-forwarded-for", "192.0.2.10, 192.0.2.9", "192.0.2.10:0"),
            (remote, "x-forwarded-for", "127.0.0.1, unknown", "0.0.0.0:0"),
            (remote, "forwarded", "for=127.0.0.1, proto=http", "0.0.0.0:0"),
            (remote, "x-forwarded-for", "", "0.0.0.0:0"),
            (remote, "via", "1.1 proxy", "0.0.0.0:0"),
        ] {
            let login = ("authorization", "Bearer sesame");
            let headers = [("host", "localhost"), login, (header, value)];
            let caller = checked("sesame", "/command", &headers, peer).unwrap();
            assert_eq!(caller.address.to_string(), expected, "{peer} {header}: {value}");
        }
        let lines = [
            ("host", "localhost"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-for", "127.0.0.3"),
        ];
        let caller = checked("", "/command", &lines, local).unwrap();
        assert_eq!(caller.address.to_string(), "127.0.0.3:0");
        // Without a password, both the client and its proxy must be on this machine.
        for (peer, header, value, expected) in [
            (local, "x-forwarded-for", "127.0.0.1", 200),
            (local, "forwarded", "for=\"[::1]\"", 200),
            (local, "x-forwarded-for", "198.51.100.1", 403),
            (local, "x-forwarded-for", "127.0.0.1, 198.51.100.1", 403),
            (local, "x-forwarded-proto", "https", 403),
            (remote, "x-forwarded-for", "127.0.0.1", 403),
            ("127.0.0.1", "x-forwarded-for", "127.0.0.1", 403),
        ] {
            let headers = [("host", "localhost"), (header, value)];
            assert_eq!(status("", "/", &headers, peer), expected, "{peer} {header}: {value}");
        }
        for (custom, expected) in [("198.51.100.1", 200), ("198.51.100.2", 400)] {
            let headers = [
                ("host", "localhost"),
                ("authorization", "Bearer sesame"),
                ("forwarded", "for=198.51.100.1"),
                ("x-forwarded-for", custom),
            ];
            assert_eq!(status("sesame", "/", &headers, remote), expected, "{custom}");
        }
    }

    #[test]
    fn sites_that_are_named_may_ask_for_commands() {
        let shop = ("origin", "https://shop.example");
        let foreign = ("origin", "https://evil.example");
        for (path, origin, expected) in
            [("/command", shop, 200), ("/command", foreign, 403), ("/page", shop, 403)]
        {
            let headers = [("host", "localhost"), ("sec-fetch-site", "cross-site"), origin];
            assert_eq!(status("", path, &headers, "127.0.0.1"), expected, "{path} {origin:?}");
        }
    }
}
