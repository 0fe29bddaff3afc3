//! Attempts of a foreign site's page, opened in a browser on the machine where a cache runs, to
//! reach the cache.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use harness::Server;
use serde_json::{Value, json};

use super::Stage;
use super::tab::Tab;

const SECRET: &str = "sesame";

/// Sends requests to `TARGET` in all ways that a page can; evaluates to the results that are
/// visible to the page.
const ATTEMPTS: &str = "(async () => {
  const target = 'http://TARGET';
  const outcomes = {};
  const attempt = async (name, action) => {
    try { outcomes[name] = await action(); } catch (error) { outcomes[name] = 'refused'; }
  };
  const read = (path, options) => async () => {
    const answer = await fetch(target + path, options);
    return answer.type === 'opaque' ? 'opaque' : answer.text();
  };
  const load = (tag, path) => () => new Promise((resolve) => {
    const it = document.createElement(tag);
    it.onload = () => resolve('loaded');
    it.onerror = () => resolve('refused');
    if (tag === 'link') it.rel = 'stylesheet';
    it[tag === 'link' ? 'href' : 'src'] = target + path;
    document.head.append(it);
  });
  const blind = { mode: 'no-cors', method: 'POST' };
  const write = '[\"SET\",\"hacked\",\"1\"]';
  await attempt('beacon', () => navigator.sendBeacon(target + '/', write) ? 'sent' : 'refused');
  await attempt('fetch', read('/GET/secret.txt'));
  await attempt('list', read('/', { method: 'POST', body: '[\"GET\",\"secret\"]' }));
  await attempt('page', read('/server-status?json'));
  await attempt('metrics', read('/metrics'));
  await attempt('put', read('/SET/hacked', { method: 'PUT', body: '1' }));
  await attempt('blind get', read('/SET/hacked/1', { mode: 'no-cors' }));
  await attempt('blind post', read('/SET/hacked/1', { ...blind, body: 'EX 100' }));
  await attempt('blind list', read('/', { ...blind, body: write }));
  await attempt('blind pipeline', read('/pipeline', { ...blind, body: `[${write}]` }));
  await attempt('image', load('img', '/GET/picture.png'));
  await attempt('script', load('script', '/GET/secret?jsonp=console.log'));
  await attempt('style', load('link', '/GET/style.css'));
  await attempt('socket', () => new Promise((resolve) => {
    const socket = new WebSocket(target.replace('http', 'ws') + '/.json');
    socket.onopen = () => { socket.send(write); resolve('open'); };
    socket.onerror = () => resolve('refused');
  }));
  await attempt('events', () => new Promise((resolve) => {
    const source = new EventSource(target + '/SUBSCRIBE/news');
    source.onopen = () => { source.close(); resolve('open'); };
    source.onerror = () => { source.close(); resolve('refused'); };
  }));
  const framed = (send) => () => new Promise((resolve) => {
    const frame = document.createElement('iframe');
    frame.name = 'frame';
    document.body.append(frame);
    send(frame);
    frame.onload = () => resolve(frame.contentDocument === null ? 'hidden' : 'read');
  });
  await attempt('form', framed(() => {
    const form = document.createElement('form');
    Object.assign(form, { method: 'post', action: target + '/SET/hacked/1', target: 'frame' });
    document.body.append(form);
    form.submit();
  }));
  await attempt('frame', framed((frame) => { frame.src = target + '/server-status'; }));
  return outcomes;
})()";

/// The smallest valid GIF: 1 x 1, transparent.
const PICTURE: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\0\0\0!\xf9\x04\x01\0\0\0\0,\0\0\0\0\
                         \x01\0\x01\0\0\x02\x02D\x01\0;";

/// Starts a site with empty pages, for all host names. Returns its port.
fn site() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming() {
            // The browser also opens connections that it does not use, so errors are ignored.
            let _ = client.and_then(answer);
        }
    });
    Ok(port)
}

fn answer(mut client: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let page = "<!DOCTYPE html><title>foreign</title><body></body>";
    let head = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n";
    client.write_all(format!("{head}Content-Length: {}\r\n\r\n{page}", page.len()).as_bytes())
}

/// Starts a server with the most permissive settings, and stores values to find.
fn server(stage: &Stage, more: &[&str]) -> Result<Server> {
    let permissive = ["--http-writes-by-get", "yes", "--http-active-types", "yes"];
    let server = stage.server(&[&permissive[..], &["--http-jsonp", "yes"], more].concat())?;
    let mut client = server.connect_resp();
    client.check(&format!("SET secret {SECRET}"), "+OK\r\n");
    client.run_words(&[b"SET".as_slice(), b"picture", PICTURE]);
    client.run_words(&["SET", "style", "body { color: red }"]);
    Ok(server)
}

/// Fails if any data has changed or a subscription exists.
fn check_untouched(server: &Server) -> Result<()> {
    let mut client = server.connect_resp();
    let hacked = client.run("EXISTS hacked").integer();
    ensure!(hacked == 0, "a key was set");
    let channels = client.run("PUBSUB CHANNELS");
    ensure!(channels.list().is_empty(), "a page listens to {channels:?}");
    Ok(())
}

fn attempts(tab: &mut Tab<'_>, target: SocketAddr) -> Result<Value> {
    tab.evaluate(&ATTEMPTS.replace("TARGET", &target.to_string()))
}

pub(super) fn can_neither_read_nor_change(stage: &mut Stage) -> Result<()> {
    let port = site()?;
    let of_friend = format!("http://friend.example:{port}");
    let server = server(stage, &["--http-origins", &of_friend])?;
    let target = server.http();
    // Another site, another name of this machine, and the same site at another port.
    for host in ["evil.example", "localhost", "127.0.0.1"] {
        let mut tab = stage.tab()?;
        tab.open(&format!("http://{host}:{port}/"))?;
        let outcomes = attempts(&mut tab, target)?;
        for (name, outcome) in outcomes.as_object().context("outcomes")? {
            let expected: &[&str] = match name.as_str() {
                "beacon" => &["sent"],
                "form" | "frame" => &["hidden"],
                _ => &["refused", "opaque"],
            };
            let is_fine = outcome.as_str().is_some_and(|outcome| expected.contains(&outcome));
            ensure!(is_fine, "{host}: {name}: {outcome}");
        }
        // The requests were sent and nagi refused them; they were not only blocked by the browser.
        let refused = |tab: &mut Tab<'_>| tab.statuses().iter().filter(|it| **it == 403).count();
        let seen = harness::until("refusals", || (refused(&mut tab) >= 12).then_some(()));
        ensure!(seen.is_ok(), "{host}: {:?}", tab.statuses());
        check_untouched(&server)?;
        follows_no_link(&mut tab, target)?;
        check_untouched(&server)?;
    }
    // From an allowed site, the same attempts succeed, which shows that they are effective.
    let mut tab = stage.tab()?;
    tab.open(&of_friend)?;
    let outcomes = attempts(&mut tab, target)?;
    for (name, expected) in [("fetch", SECRET), ("socket", "open"), ("events", "open")] {
        let outcome = outcomes.get(name).and_then(Value::as_str);
        ensure!(outcome == Some(expected), "{name}: {outcomes}");
    }
    ensure!(server.connect_resp().run("EXISTS hacked").integer() == 1, "{outcomes}");
    Ok(())
}

/// A link on the page neither changes anything nor shows a value.
fn follows_no_link(tab: &mut Tab<'_>, target: SocketAddr) -> Result<()> {
    for path in ["/SET/hacked/1", "/GET/secret.txt"] {
        let back = tab.text("location.href")?;
        tab.evaluate(&format!("void (location.href = 'http://{target}{path}')"))?;
        tab.until(
            "a refusal",
            &format!("location.host === '{target}' && document.body.textContent"),
        )?;
        let shown = tab.text("document.body.textContent")?;
        ensure!(!shown.contains(SECRET) && !shown.contains("OK"), "{path}: {shown}");
        tab.open(&back)?;
    }
    Ok(())
}

/// A site whose name is rebound to this machine sends requests to nagi under that name. For the
/// browser, they go to the page's own host.
pub(super) fn cannot_take_its_own_name(stage: &mut Stage) -> Result<()> {
    let server = server(stage, &[])?;
    let mut tab = stage.tab()?;
    for path in ["/GET/secret.txt", "/server-status", "/metrics"] {
        tab.open(&format!("http://evil.example:{}{path}", server.http().port()))?;
        let shown = tab.text("document.body.textContent")?;
        ensure!(shown.contains("http-hosts"), "{path}: {shown}");
        let read = json!(SECRET);
        tab.check(&format!("!document.documentElement.outerHTML.includes({read})"))?;
    }
    ensure!(tab.statuses().iter().all(|status| *status == 403), "{:?}", tab.statuses());
    check_untouched(&server)
}
