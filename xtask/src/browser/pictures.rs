//! Takes the screenshots for `docs/`, which are only written there if `NAGI_WRITE_DOCS` is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use harness::{Connection, Folder, Server, encode_command};
use serde_json::json;

use super::status_page::{open, refresh};
use super::tab::{Look, Tab};
use super::{Stage, check_requests};
use crate::{process, workspace};

/// Maximum size of a picture in `docs/`, in bytes.
const MAX_BYTES: usize = 250_000;

const WIDE: Look = Look { width: 1000, height: 760, is_dark: false, is_phone: false };

/// Takes a screenshot.
fn take(tab: &mut Tab<'_>, name: &str) -> Result<()> {
    let picture = tab.screenshot()?;
    ensure!(picture.starts_with(b"\x89PNG"), "{name} is no PNG");
    ensure!(picture.len() < MAX_BYTES, "{name} has {} bytes", picture.len());
    fs::write(folder()?.join(format!("{name}.png")), picture)?;
    Ok(())
}

fn folder() -> Result<PathBuf> {
    let is_for_docs = std::env::var_os("NAGI_WRITE_DOCS").is_some();
    let folder =
        workspace::root().join(if is_for_docs { "docs/pictures" } else { ".browser/pictures" });
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Connects clients named like those of some applications; one waits for jobs.
fn clients(server: &Server) -> Vec<Connection> {
    let names = ["web-1", "web-2", "mailer", "worker-1"];
    let mut clients: Vec<Connection> = names
        .iter()
        .map(|name| {
            let mut client = server.connect_resp();
            client.check(&format!("CLIENT SETNAME {name}"), "+OK\r\n");
            client
        })
        .collect();
    if let Some(worker) = clients.last_mut() {
        worker.send(encode_command(&["BLPOP", "jobs", "0"]));
    }
    clients
}

/// Sends requests like those of web servers, until `is_over` is set.
fn ask(mut clients: Vec<Connection>, is_over: &AtomicBool) {
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        for client in clients.iter_mut().take(3) {
            number += 1;
            let user = number * 7919 % 1000;
            client.run(&format!("SET session:{user} {number} EX 3600"));
            client.run(&format!("GET session:{}", user / 2));
            client.run(&format!("HINCRBY page:{} views 1", user % 20));
            client.run(&format!("ZADD board {number} player:{user}"));
        }
    }
}

pub(super) fn of_the_status_page(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&["--workers", "2", "--maxmemory", "1gb"])?;
    let mut tab = stage.tab()?;
    tab.look(WIDE)?;
    open(&mut tab, &server)?;
    let is_over = AtomicBool::new(false);
    let clients = clients(&server);
    thread::scope(|scope| {
        scope.spawn(|| ask(clients, &is_over));
        let taken = take_all(&mut tab);
        is_over.store(true, Ordering::Relaxed);
        taken
    })?;
    check_requests(&mut tab, &format!("http://{}/", server.http()))
}

fn take_all(tab: &mut Tab<'_>) -> Result<()> {
    let lines = "document.querySelector('polyline').getAttribute('points').split(' ').length >= 20";
    tab.until("lines over time", &format!("document.querySelector('polyline') && {lines}"))?;
    tab.until("a client that waits", "column('clients', 'State').includes('blocked')")?;
    let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    let phone = Look { width: 390, height: 760, is_dark: false, is_phone: true };
    for (name, look, background) in [
        ("status-light", WIDE, "rgb(255, 255, 255)"),
        ("status-dark", Look { is_dark: true, ..WIDE }, "rgb(18, 18, 18)"),
        ("status-narrow", phone, "rgb(255, 255, 255)"),
    ] {
        tab.look(look)?;
        refresh(tab)?;
        tab.check(fits)?;
        let is_of_scheme = format!(
            "(() => {{ const it = document.createElement('i'); it.style.color = 'Canvas'; \
             document.body.append(it); const colour = getComputedStyle(it).color; it.remove(); \
             return colour; }})() === '{background}'"
        );
        tab.check(&is_of_scheme)?;
        take(tab, name)?;
    }
    Ok(())
}

/// Takes the page of `nagi bench --html`, opened from a file and without a network.
pub(super) fn of_a_report(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&[])?;
    let folder = Folder::new("report");
    let report = folder.path().join("report.html");
    bench(&stage.nagi, &server, &report)?;
    let mut tab = stage.tab()?;
    let conditions =
        json!({ "offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0 });
    tab.call("Network.emulateNetworkConditions", conditions)?;
    tab.look(WIDE)?;
    tab.open(&format!("file://{}", report.display()))?;
    tab.check("document.querySelectorAll('svg').length >= 3")?;
    tab.check(
        "[...document.querySelectorAll('svg')] \
         .every((it) => it.getBoundingClientRect().height > 100)",
    )?;
    tab.check("document.querySelectorAll('table').length >= 2 && document.scripts.length === 0")?;
    check_requests(&mut tab, "file://")?;
    // The picture ends before the settings, because there are many.
    let height = tab.evaluate("[...document.querySelectorAll('h2')].at(-1).offsetTop")?;
    let height = height.as_u64().and_then(|height| u32::try_from(height).ok());
    tab.look(Look { height: height.context("a page without a height")?, ..WIDE })?;
    take(&mut tab, "report")
}

fn bench(nagi: &Path, server: &Server, report: &Path) -> Result<()> {
    let mut bench = Command::new(nagi);
    bench
        .args(["bench", "--fill", "--keys", "10000", "--rate", "5000", "--seconds", "5", "--html"])
        .arg(report)
        .arg(format!("redis://{}", server.resp()));
    process::output(&mut bench).map(drop)
}
