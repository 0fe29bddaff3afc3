//! `/server-status` in a browser: updated, sorted, filtered, paused, and used without scripts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow, ensure};
use harness::{Connection, Server, encode_command};
use serde_json::{Value, json};

use super::tab::Tab;
use super::{Stage, check_requests};

/// JavaScript functions for tests: the visible cells of a column, the selector of its header, and a
/// figure at the top of the page.
const HELPERS: &str = "
const place = (id, name) =>
  [...document.getElementById(id).tHead.rows[0].cells].findIndex((it) => it.textContent === name);
const column = (id, name) => [...document.getElementById(id).tBodies[0].rows]
  .filter((row) => !row.hidden).map((row) => row.cells[place(id, name)].textContent);
const head = (id, name) => `#${id} th:nth-child(${place(id, name) + 1}) :is(button, a)`;
const figure = (name) => [...document.querySelectorAll('dt')]
  .find((it) => it.textContent === name).nextElementSibling.textContent;";

/// Opens the page of a server, and waits until the page updates itself.
pub(super) fn open(tab: &mut Tab<'_>, server: &Server) -> Result<()> {
    tab.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": HELPERS }))?;
    tab.open(&format!("http://{}/server-status", server.http()))?;
    tab.until("a live page", "!document.getElementById('pause').hidden")?;
    Ok(())
}

/// Waits until the page has been fetched again.
pub(super) fn refresh(tab: &mut Tab<'_>) -> Result<()> {
    tab.evaluate("document.getElementById('live').dataset.seen = 'yes'")?;
    tab.until("a new page", "!document.getElementById('live').dataset.seen")?;
    Ok(())
}

fn check(tab: &mut Tab<'_>, server: &Server) -> Result<()> {
    check_requests(tab, &format!("http://{}/", server.http()))
}

/// Clicks on the header of a column until the page is sorted by that column in `direction`.
fn sort(tab: &mut Tab<'_>, name: &str, direction: &str) -> Result<()> {
    /// A click has no effect if the page is replaced during the click, so it is repeated.
    const TRIES: usize = 10;
    let order = format!(
        "document.querySelector(head('clients', '{name}')).parentNode.getAttribute('aria-sort')"
    );
    for _ in 0..TRIES {
        let head = tab.text(&format!("head('clients', '{name}')"))?;
        let before = tab.evaluate(&order)?;
        tab.click(&head)?;
        let changed = tab.until("another order", &format!("{order} !== {before}"));
        if changed.is_ok() && tab.evaluate(&order)? == direction {
            return Ok(());
        }
    }
    Err(anyhow!("the page is not sorted by {name}, {direction}"))
}

pub(super) fn is_sorted_and_filtered(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&[])?;
    let mut tab = stage.tab()?;
    let clients: Vec<Connection> = [("cherry", 100), ("apple", 20), ("banana", 3)]
        .into_iter()
        .map(|(name, requests)| {
            let mut client = server.connect_resp();
            client.check(&format!("CLIENT SETNAME {name}"), "+OK\r\n");
            (1..requests).for_each(|_| client.check("PING", "+PONG\r\n"));
            client
        })
        .collect();
    open(&mut tab, &server)?;
    tells_numbers_from_addresses(&mut tab)?;
    tab.until("all requests", "column('clients', 'Requests').includes('100')")?;
    for (name, direction, expected) in [
        ("Name", "ascending", "apple,banana,cherry"),
        ("Name", "descending", "cherry,banana,apple"),
        // The column is sorted as numbers: sorted as text, 100 would come first.
        ("Requests", "ascending", "banana,apple,cherry"),
    ] {
        sort(&mut tab, name, direction)?;
        // Chromium's own connections have no names.
        let names = "column('clients', 'Name').filter(Boolean).join()";
        ensure!(tab.text(names)? == expected, "by {name}, {direction}: {}", tab.text(names)?);
        refresh(&mut tab)?;
        ensure!(tab.text(names)? == expected, "{name} is forgotten: {}", tab.text(names)?);
    }
    tab.click("#filter")?;
    tab.write("ANAN")?;
    let one = "column('clients', 'Name').filter(Boolean).join() === 'banana'";
    tab.until("the one with that text", one)?;
    refresh(&mut tab)?;
    tab.check(one)?;
    tab.evaluate("document.getElementById('filter').select()")?;
    tab.press("Backspace", 8, "")?;
    tab.until("no filter", "column('clients', 'Name').filter(Boolean).length === 3")?;
    is_filtered_by_state(&mut tab, &server)?;
    drop(clients);
    tab.until("an empty list", "column('clients', 'Name').filter(Boolean).length === 0")?;
    check(&mut tab, &server)
}

/// The page's script compares only numbers as numbers.
fn tells_numbers_from_addresses(tab: &mut Tab<'_>) -> Result<()> {
    for (text, kind) in [
        ("1,234.5", "number"),
        ("12.3 %", "number"),
        ("10.0.0.9", "string"),
        ("127.0.0.1:6379", "string"),
        ("", "string"),
    ] {
        let cell = format!("{{ cells: [{{ textContent: '{text}' }}] }}");
        tab.check(&format!("typeof value({cell}, 0) === '{kind}'"))?;
    }
    Ok(())
}

/// The server applies the menu of states, and the address contains the selected state.
fn is_filtered_by_state(tab: &mut Tab<'_>, server: &Server) -> Result<()> {
    let mut blocked = server.connect_resp();
    blocked.check("CLIENT SETNAME waits", "+OK\r\n");
    blocked.send(encode_command(&["BLPOP", "queue", "0"]));
    tab.until("four", "column('clients', 'Name').filter(Boolean).length === 4")?;
    let choose = |state: &str| {
        format!(
            "(() => {{ const menu = document.getElementById('state'); menu.value = '{state}'; \
             menu.dispatchEvent(new Event('change')); }})()"
        )
    };
    tab.evaluate(&choose("blocked"))?;
    tab.until(
        "the one that waits",
        "column('clients', 'Name').filter(Boolean).join() === 'waits'",
    )?;
    tab.check("location.search.includes('state=blocked')")?;
    tab.evaluate(&choose(""))?;
    tab.until("all of them", "column('clients', 'Name').filter(Boolean).length === 4")?;
    tab.check("!location.search.includes('state')")
}

/// Scroll position, focus and selection must not change when the page is fetched again.
pub(super) fn keeps_what_the_reader_does(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&[])?;
    let mut tab = stage.tab()?;
    let clients: Vec<Connection> = (0..3).map(|_| server.connect_resp()).collect();
    open(&mut tab, &server)?;
    tab.open(&format!("http://{}/server-status?limit=1&page=2", server.http()))?;
    tab.until("three pages", "document.querySelectorAll('#pages a').length === 4")?;
    tab.evaluate("document.body.style.maxWidth = '20rem'")?;
    let wide = "document.getElementById('clients').parentNode.scrollLeft";
    tab.evaluate(&format!("{wide} = 40"))?;
    tab.evaluate("[...document.querySelectorAll('#pages a')][2].focus()")?;
    refresh(&mut tab)?;
    tab.check(&format!("{wide} === 40"))?;
    tab.check("document.activeElement.textContent === 'Next'")?;
    tab.evaluate(
        "document.getSelection().selectAllChildren(document.querySelector('#clients tbody td'))",
    )?;
    tab.evaluate("document.getElementById('live').dataset.seen = 'yes'")?;
    // This time is more than two refresh intervals of the page.
    tab.evaluate("new Promise((resolve) => setTimeout(resolve, 2500))")?;
    tab.check("document.getElementById('live').dataset.seen === 'yes'")?;
    tab.evaluate("document.getSelection().removeAllRanges()")?;
    tab.until("a new page", "!document.getElementById('live').dataset.seen")?;
    drop(clients);
    check(&mut tab, &server)
}

/// The server sorts the connections, so the busiest one is shown even if there are more connections
/// than the page shows.
pub(super) fn finds_the_busiest(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&["--workers", "1"])?;
    let mut tab = stage.tab()?;
    let mut clients: Vec<Connection> = (0..600).map(|_| server.connect_resp()).collect();
    let busiest = clients.last_mut().map(|client| {
        (1..100).for_each(|_| client.check("PING", "+PONG\r\n"));
        client.run("CLIENT ID").integer()
    });
    let busiest = busiest.unwrap_or_default();
    open(&mut tab, &server)?;
    tab.until("a page", "column('clients', 'Id').length === 500")?;
    tab.check(&format!("!column('clients', 'Id').includes('{busiest}')"))?;
    sort(&mut tab, "Requests", "descending")?;
    tab.check(&format!("column('clients', 'Id')[0] === '{busiest}'"))?;
    check(&mut tab, &server)
}

pub(super) fn shows_what_happens(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&["--workers", "1"])?;
    let mut tab = stage.tab()?;
    open(&mut tab, &server)?;
    // Keys are only recorded while the page is open.
    refresh(&mut tab)?;
    let mut blocked = server.connect_resp();
    blocked.send(encode_command(&["BLPOP", "queue", "0"]));
    tab.until("a worker at rest", "column('workers', 'State').join() === 'K,.'")?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.connect_resp();
            while !is_over.load(Ordering::Relaxed) {
                client.check("SET key value", "+OK\r\n");
            }
        });
        let seen = tab
            .until("a busy worker", "column('workers', 'State').join() === 'W,.'")
            .and_then(|_| {
                tab.until("its requests", "Number(column('workers', 'Requests/s')[0]) > 1")
            })
            .and_then(|_| tab.until("a rate", "Number(figure('Requests per second')) > 1"));
        is_over.store(true, Ordering::Relaxed);
        seen
    })?;
    tab.until("a worker at rest", "column('workers', 'State').join() === 'K,.'")?;
    tab.click("#filter")?;
    tab.write("blocked")?;
    let is_blocked = "column('clients', 'State').join() === 'blocked' && \
                      column('clients', 'Command').join() === 'blpop' && \
                      column('clients', 'Key').join() === 'queue'";
    tab.until("the client that waits", is_blocked)?;
    server.connect_resp().check("RPUSH queue x", ":1\r\n");
    blocked.expect("*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n");
    tab.until("no client that waits", "column('clients', 'State').length === 0")?;
    check(&mut tab, &server)
}

pub(super) fn shows_the_progress_of_a_save(stage: &mut Stage) -> Result<()> {
    const KEYS: usize = 300_000;
    let server = stage.server(&[])?;
    let mut tab = stage.tab()?;
    let mut client = server.connect_resp();
    for first in (0..KEYS).step_by(1000) {
        let pairs = (first..first + 1000).flat_map(|key| [format!("key:{key}"), "v".repeat(100)]);
        let words: Vec<String> = ["MSET".to_owned()].into_iter().chain(pairs).collect();
        client.run_words(&words);
    }
    open(&mut tab, &server)?;
    tab.until("no save", "figure('Save') === 'none running'")?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // A save ends soon, and a sample is taken only once a second, so saves are repeated.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                client.run("BGSAVE");
            }
        });
        let save = "/^[1-9][0-9]* of [1-9][0-9]* keys [(][0-9]+ %[)]$/.test(figure('Save'))";
        let seen = tab.until("keys", save);
        is_over.store(true, Ordering::Relaxed);
        seen
    })?;
    tab.until("no save", "figure('Save') === 'none running'")?;
    check(&mut tab, &server)
}

pub(super) fn shows_markup_as_text(stage: &mut Stage) -> Result<()> {
    const MARKUP: &str = "<img src=x onerror=hacked=1>";
    let server = stage.server(&["--slowlog-log-slower-than", "0"])?;
    let mut tab = stage.tab()?;
    let mut client = server.connect_resp();
    client.check(&format!("CLIENT SETNAME {}", MARKUP.replace(' ', "/")), "+OK\r\n");
    open(&mut tab, &server)?;
    // The key also contains a control character and invalid UTF-8.
    let key = [MARKUP.as_bytes(), b"\x1b\xff\"'&amp;"].concat();
    let shown = format!("{MARKUP}\u{fffd}\u{fffd}\"'&amp;");
    let is_shown = format!("column('clients', 'Key').join() === {}", json!(shown));
    let shown = harness::until("the key", || {
        client.run_words(&[b"SET".as_slice(), &key, b"value"]);
        tab.evaluate(&is_shown).is_ok_and(|value| value == Value::Bool(true)).then_some(())
    });
    shown.map_err(|problem| {
        anyhow!("{problem}: {:?}", tab.text("column('clients', 'Key').join()"))
    })?;
    let name = MARKUP.replace(' ', "/");
    tab.check(&format!("column('clients', 'Name').filter(Boolean).join() === {}", json!(name)))?;
    let is_slow = format!(
        "column('slow', 'Request').some((it) => it.includes({})) && \
         column('slow', 'Name').includes({})",
        json!(MARKUP),
        json!(name)
    );
    tab.until("the slow request", &is_slow)?;
    refresh(&mut tab)?;
    tab.check("document.querySelector('img') === null && typeof hacked === 'undefined'")?;
    tab.check("document.querySelectorAll('script').length === 1")?;
    check(&mut tab, &server)
}

pub(super) fn can_be_paused(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&[])?;
    let mut tab = stage.tab()?;
    open(&mut tab, &server)?;
    refresh(&mut tab)?;
    tab.press("p", 80, "p")?;
    let is_pressed = "document.getElementById('pause').getAttribute('aria-pressed')";
    ensure!(tab.text(is_pressed)? == "true", "p does nothing");
    // An earlier request may still be in flight. After it, more than two refresh intervals pass.
    let pause = "new Promise((resolve) => setTimeout(resolve, 2500))";
    tab.evaluate(pause)?;
    let before = tab.requests().len();
    tab.evaluate(pause)?;
    ensure!(tab.requests().len() == before, "a page that is paused is fetched");
    tab.click("#filter")?;
    tab.press("p", 80, "p")?;
    ensure!(tab.text(is_pressed)? == "true", "what is typed into the filter is no command");
    tab.click("#pause")?;
    ensure!(tab.text(is_pressed)? == "false", "the button does nothing");
    refresh(&mut tab)?;
    check(&mut tab, &server)
}

pub(super) fn needs_no_script(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&[])?;
    let mut tab = stage.tab()?;
    let mut client = server.connect_resp();
    client.check("CLIENT SETNAME first", "+OK\r\n");
    tab.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }))?;
    tab.open(&format!("http://{}/server-status", server.http()))?;
    let mut wait_for = |name: &str| {
        let cell = format!("<td class=\"text\">{name}</td>");
        let page = harness::until(name, || tab.html().ok().filter(|html| html.contains(&cell)));
        page.map_err(|problem| anyhow!(problem))
    };
    let page = wait_for("first")?;
    for part in [
        "<form id=\"controls\"",
        "<button>Show</button>",
        "<table id=\"workers\"",
        "<dt>Uptime</dt>",
    ] {
        ensure!(page.contains(part), "{part} is missing in {page}");
    }
    ensure!(!page.contains("<button type=\"button\">Name"), "a script has run");
    // The page is refreshed automatically.
    client.check("CLIENT SETNAME second", "+OK\r\n");
    wait_for("second")?;
    check(&mut tab, &server)
}
