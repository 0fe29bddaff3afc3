//! Measures the effect on clients of very many scrapers, and of a page that lists very many
//! connections.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::pages::PageReader;
use super::{Contestants, Measured, SEEN, milliseconds};
use crate::bench::Arguments;
use crate::bench::client::{check, connect};
use crate::bench::contestants::Placement;
use crate::bench::figures::median;
use crate::bench::paced::{RATE, p99_9_us};
use crate::bench::report::Table;

/// The interval between scrapes: a thousand scrapers, each with an interval of 15 seconds.
const SCRAPE_PACE: Duration = Duration::from_millis(15);
const LIST_PACE: Duration = Duration::from_secs(1);
/// The number of connections that the page lists.
const CONNECTIONS: usize = 10_000;

/// Measures the slowest of a thousand requests at a moderate rate, with and without the scrapers.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let (connections, seconds) = if arguments.quick { (1000, 2) } else { (CONNECTIONS, 15) };
    let server = nagi.start_with(Placement::Free, &SEEN)?;
    let mut idle = Vec::new();
    for _ in 0..connections {
        let mut stream = connect(server.resp())?;
        check(&mut stream, b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n")?;
        idle.push(stream);
    }
    let (mut quiet_us, mut beside_us) = (Vec::new(), Vec::new());
    let (mut scrapes, mut slowest, mut list_bytes) = (0, Duration::ZERO, 0);
    for _ in 0..arguments.repetitions {
        quiet_us.push(p99_9_us(nagi, &server, seconds)?);
        let scraper = PageReader::start(server.http(), "/metrics", SCRAPE_PACE);
        let reader = PageReader::start(server.http(), "/server-status?json", LIST_PACE);
        beside_us.push(p99_9_us(nagi, &server, seconds)?);
        let (scraped, listed) = (scraper.stop()?, reader.stop()?);
        // If scrapers had waited for each other, the load would have been lower than intended.
        let due = u64::from(seconds) * 1000 / SCRAPE_PACE.as_millis() as u64;
        ensure!(scraped.pages * 2 > due, "only {} of {due} scrapes were made", scraped.pages);
        scrapes += scraped.pages;
        slowest = slowest.max(scraped.slowest);
        list_bytes = listed.bytes;
    }
    let mut table = Table::new(&[
        "connections",
        "requests/s",
        "p99.9 ms, quiet",
        "beside scrapers and lists",
        "bound: 1.2 x + 0.2 ms",
        "scrapes/s",
        "slowest scrape ms",
        "list MB",
    ]);
    let (quiet_us, beside_us) = (median(quiet_us), median(beside_us));
    let measured = f64::from(seconds * arguments.repetitions);
    table.row(vec![
        connections.to_string(),
        RATE.to_string(),
        milliseconds(quiet_us),
        milliseconds(beside_us),
        milliseconds(quiet_us * 1.2 + 200.0),
        format!("{:.0}", scrapes as f64 / measured),
        milliseconds(slowest.as_secs_f64() * 1e6),
        format!("{:.1}", list_bytes as f64 / 1e6),
    ]);
    Ok(Measured { tables: vec![table], details: None })
}
