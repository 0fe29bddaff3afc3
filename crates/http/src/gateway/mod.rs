//! Commands over HTTP: webdis' paths, and Upstash's lists in JSON.
//!
//! ```text
//! request -> rule of the command -> connection (one reply) -> format -> response
//! ```

mod body;
mod budget;
mod decoder;
mod event;
mod event_request;
mod exchange;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod json_text;
mod lasting;
mod message_pack;
mod metered;
mod refusal;
mod reply;
mod reply_list;
mod request;
mod result_object;
mod service;
mod socket_replies;
mod upstash;
mod websocket;
mod worker_connection;

use crate::guard::Caller;
use crate::response::{self, ResponseBody};
use crate::site::{GatewaySettings, Rule, Site};
use body::{Pieces, read_whole};
use budget::Budget;
use exchange::{Argument, Command};
use format::Kind;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use lasting::Lasting;
use refusal::{Refused, no_room, refuse};
use request::{Options, PathCommand};
use service::{Messages, Service, WebSockets};
use std::sync::Arc;
use worker_connection::ConnectionPool;

/// The share of connections that is not available to requests that may block for ever.
const PART_FOR_OTHERS: usize = 4;

const METHODS: &str = "GET, HEAD, POST, PUT, OPTIONS";

/// Serves commands.
pub(crate) struct Gateway {
    service: Arc<Service>,
}

impl Gateway {
    /// Creates it for at most this many connections.
    pub(crate) fn new(site: Arc<dyn Site>, most_connections: usize) -> Self {
        let budget = Budget::default();
        let service = Service {
            site,
            pool: Arc::new(ConnectionPool::new(&budget)),
            budget,
            arguments: Budget::default(),
            lasting: Lasting::most(most_connections - most_connections / PART_FOR_OTHERS),
            web_sockets: WebSockets::default(),
        };
        Gateway { service: Arc::new(service) }
    }

    pub(crate) fn site(&self) -> &Arc<dyn Site> {
        &self.service.site
    }

    /// Notifies workers and requests of data in their pipes, while it is polled.
    pub(crate) async fn notify_all(&self) {
        self.service.pool.notify_all().await;
    }

    /// Serves a request that is not for a page.
    pub(crate) async fn serve(
        &self,
        request: Request<Incoming>,
        caller: Caller,
    ) -> Response<ResponseBody> {
        let settings = self.service.site.gateway();
        let (parts, body) = request.into_parts();
        if !settings.is_on {
            return as_asked(&*self.service.site, &parts, response::line(404, "no such page"));
        }
        let is_json_asked_for = upstash::is_asked_for(&parts);
        let request = Request::from_parts(parts, body);
        let origin = allowed_origin(request.headers(), &settings.origins);
        let mut response = match self.route(request, caller, &settings).await {
            Ok(response) => response,
            Err(refused) if is_json_asked_for => upstash::in_json(*refused),
            Err(refused) => *refused,
        };
        permit_origin(response.headers_mut(), origin, &settings.origins);
        response
    }

    async fn route(
        &self,
        request: Request<Incoming>,
        caller: Caller,
        settings: &GatewaySettings,
    ) -> Result<Response<ResponseBody>, Refused> {
        if request.method() == Method::GET && websocket::is_asked_for(request.headers()) {
            return websocket::open(&self.service, request, caller).await;
        }
        let (parts, body) = request.into_parts();
        let method = &parts.method;
        if method == Method::OPTIONS {
            return Ok(options());
        }
        if ![Method::GET, Method::HEAD, Method::POST, Method::PUT].contains(method) {
            return Err(not_allowed());
        }
        let mut encodings = parts.headers.get_all(header::TRANSFER_ENCODING).iter();
        if encodings.next().is_some_and(|it| !it.as_bytes().eq_ignore_ascii_case(b"chunked"))
            || encodings.next().is_some()
        {
            return Err(refuse(501, "the only supported transfer encoding is chunked"));
        }
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        if request::has_token(query) {
            let reason = "send the token in the Authorization header: URLs end up in logs";
            return Err(refuse(400, reason));
        }
        if event_request::are_wanted(method, &parts.headers)
            && let Some(path) = event_request::command(path)
        {
            let path = path.map_err(|fault| refusal::json_error(400, fault.reason().as_bytes()))?;
            return self.send_events(path, &parts, body, caller, settings).await;
        }
        if method == Method::POST && ["/", "/pipeline", "/multi-exec"].contains(&path) {
            return self.run_body(&parts, body, caller, settings).await;
        }
        let path = self.parse(path, query)?;
        if method == Method::GET || method == Method::HEAD {
            refuse_body(&body)?;
            let known = parts.headers.get(header::IF_NONE_MATCH).cloned();
            let may_be_kept = &*settings.cache_control != "no-store"
                && self.service.site.rule(&path.words, caller.address.ip()) == Rule::Read;
            let command = Command { caller, path, body: None, known };
            let mut response = self.run(command, settings.writes_by_get, settings).await?;
            if may_be_kept
                && [StatusCode::OK, StatusCode::NOT_MODIFIED].contains(&response.status())
            {
                let value = HeaderValue::from_str(&settings.cache_control);
                value.into_iter().for_each(|value| {
                    response.headers_mut().insert(header::CACHE_CONTROL, value);
                });
            }
            return Ok(response);
        }
        let is_put = method == Method::PUT;
        let body = if body.size_hint().exact().is_some() {
            Some(body).filter(|body| is_put || !body.is_end_stream()).map(Argument::Arriving)
        } else {
            // Before memory is spent on a body of unknown length.
            self.check(&caller, (&path, true), true, settings)?;
            let longest = settings.longest_argument;
            let body = Pieces::read(body, longest, &self.service.arguments).await?;
            Some(body).filter(|body| is_put || body.len() > 0).map(Argument::Whole)
        };
        self.run(Command { caller, path, body, known: None }, true, settings).await
    }

    /// Runs the body of a POST: the path of a command, or JSON lists.
    async fn run_body(
        &self,
        parts: &Parts,
        body: Incoming,
        caller: Caller,
        settings: &GatewaySettings,
    ) -> Result<Response<ResponseBody>, Refused> {
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let body = read_whole(body, &parts.headers, &self.service.budget).await?;
        if path != "/" || upstash::is_list(&body) {
            let form = upstash::Form::of(path, &parts.headers);
            let served = upstash::serve(&self.service, form, &body, &caller).await;
            return served.map_err(|refused| Box::new(upstash::in_json(*refused)));
        }
        // From here on it is webdis' form, whatever its head looked like.
        let served = self.run_text(&body, query, caller, settings).await;
        Ok(served.unwrap_or_else(|refused| *refused))
    }

    /// Runs the path of a command in a body.
    async fn run_text(
        &self,
        body: &[u8],
        query: &str,
        caller: Caller,
        settings: &GatewaySettings,
    ) -> Result<Response<ResponseBody>, Refused> {
        let text = std::str::from_utf8(body);
        let text = text.map_err(|_| refuse(400, "the command must be UTF-8 text"))?;
        let mut reservation = self.service.budget.reservation();
        reservation.grow(request::parsed_bytes(text)).map_err(|_| no_room())?;
        let path = self.parse(text.trim_end(), query)?;
        self.run(Command { caller, path, body: None, known: None }, true, settings).await
    }

    /// Responds with messages as events.
    async fn send_events(
        &self,
        mut path: PathCommand,
        parts: &Parts,
        body: Incoming,
        caller: Caller,
        settings: &GatewaySettings,
    ) -> Result<Response<ResponseBody>, Refused> {
        if parts.method == Method::POST {
            let body = read_whole(body, &parts.headers, &self.service.budget).await?;
            path = with_last_word(path, event_request::last_word(body));
        } else {
            refuse_body(&body)?;
        }
        let checked = self.service.check(&caller, &path.words, true, Messages::UntilTheEnd);
        checked.map_err(|refused| upstash::as_error(&refused))?;
        let command = Command { caller, path, body: None, known: None };
        exchange::run(&self.service, command, true, settings).await
    }

    fn parse(&self, path: &str, query: &str) -> Result<PathCommand, Refused> {
        request::parse(path, query).map_err(|fault| refuse(400, fault.reason()))
    }

    fn check(
        &self,
        caller: &Caller,
        (path, has_body): (&PathCommand, bool),
        may_write: bool,
        settings: &GatewaySettings,
    ) -> Result<Rule, Refused> {
        check_options(&path.options, settings)?;
        // The rule for a subcommand could not be applied.
        if has_body
            && let [name] = &*path.words
            && self.service.site.has_subcommands(name)
        {
            return Err(refuse(400, "a subcommand must be in the path, not in the body"));
        }
        self.service.check(caller, &path.words, may_write, Messages::UntilTheEnd)
    }

    /// Checks a command, runs it and responds in the requested format.
    async fn run(
        &self,
        command: Command,
        may_write: bool,
        settings: &GatewaySettings,
    ) -> Result<Response<ResponseBody>, Refused> {
        let path = (&command.path, command.body.is_some());
        let rule = self.check(&command.caller, path, may_write, settings)?;
        exchange::run(&self.service, command, rule == Rule::Stream, settings).await
    }
}

/// A refusal in the form that the request asks for. Pages of an allowed site may read it, unless it
/// is about a page of the server.
pub(crate) fn as_asked(
    site: &dyn Site,
    request: &Parts,
    refusal: Response<ResponseBody>,
) -> Response<ResponseBody> {
    let mut response = match upstash::is_asked_for(request) {
        true => upstash::in_json(refusal),
        false => refusal,
    };
    if !site.has_page(request.uri.path()) {
        let origins = site.gateway().origins;
        let origin = allowed_origin(&request.headers, &origins);
        permit_origin(response.headers_mut(), origin, &origins);
    }
    response
}

/// The site of the page that sends a request, if it is allowed.
fn allowed_origin(headers: &HeaderMap, origins: &str) -> Option<HeaderValue> {
    let origin = crate::guard::permitted_origin(headers, origins)?;
    HeaderValue::from_str(origin).ok()
}

/// Appends the body of a POST as the last argument, unless it is empty.
fn with_last_word(mut path: PathCommand, body: Bytes) -> PathCommand {
    if !body.is_empty() {
        path.words.push(body);
    }
    path
}

fn refuse_body(body: &Incoming) -> Result<(), Refused> {
    match body.is_end_stream() {
        true => Ok(()),
        false => Err(refuse(400, "GET must not have a body: use POST or PUT")),
    }
}

/// Refuses formats that the settings do not permit.
fn check_options(options: &Options, settings: &GatewaySettings) -> Result<(), Refused> {
    if options.callback.is_some() && !settings.jsonp {
        return Err(refuse(403, "JSONP is off (see http-jsonp)"));
    }
    let is_checked = !settings.active_types && options.kind != Kind::Json;
    if is_checked
        && format::is_active(options.media_type.as_deref().unwrap_or(options.kind.media_type()))
    {
        let reason = "types that browsers execute are off (see http-active-types)";
        return Err(refuse(403, reason));
    }
    Ok(())
}

fn not_allowed() -> Refused {
    let mut response = response::line(405, "only GET, HEAD, POST, PUT and OPTIONS are allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    Box::new(response)
}

/// The response to OPTIONS.
fn options() -> Response<ResponseBody> {
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = response::value(200, media_type, ResponseBody::Whole(None));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    response
}

/// The headers that pages of an allowed site may send, among them those of Upstash's client.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Upstash-Encoding, \
     Upstash-Response-Format, Upstash-Sync-Token, Upstash-Telemetry-Platform, \
     Upstash-Telemetry-Runtime, Upstash-Telemetry-Sdk";

/// Adds the CORS headers for pages of an allowed site, of which `origins` is the list. With such a
/// list, caches must tell requests of different sites apart, also those that come from none.
fn permit_origin(headers: &mut HeaderMap, origin: Option<HeaderValue>, origins: &str) {
    if !origins.is_empty() {
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    }
    let Some(origin) = origin else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let methods = HeaderValue::from_static(METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let allowed = HeaderValue::from_static(ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    let shared = HeaderValue::from_static("cross-origin");
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), shared);
}
