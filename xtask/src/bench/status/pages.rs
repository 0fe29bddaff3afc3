//! Readers of pages. Each fetches its page periodically, as browsers and scrapers do.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use crate::bench::client::connect;

/// The interval at which a browser fetches the page, and at which a scraper fetches metrics.
const EACH_SECOND: Duration = Duration::from_secs(1);

/// The data that a reader has received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) pages: u64,
    pub(super) slowest: Duration,
    /// The length of the last page, in bytes.
    pub(super) bytes: usize,
}

/// A thread that fetches a page periodically.
pub(super) struct PageReader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Received>>,
}

impl PageReader {
    /// Starts a thread that fetches the page once every `pace`.
    pub(super) fn start(address: SocketAddr, path: &'static str, pace: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            // A run of whole intervals thereby contains one fetch for each of them.
            let (mut received, mut next) = (Received::default(), Instant::now() + pace / 2);
            while wait_until(next, &stopped) {
                next += pace;
                let start = Instant::now();
                received.bytes = fetch(address, path)?;
                received.slowest = received.slowest.max(start.elapsed());
                received.pages += 1;
            }
            Ok(received)
        });
        PageReader { stop, thread }
    }

    /// Stops the thread. Returns what it has received.
    pub(super) fn stop(self) -> Result<Received> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().map_err(|_| anyhow!("a reader of pages has panicked"))?
    }
}

/// Parks the thread until a point in time. Returns whether it is still to fetch pages.
fn wait_until(next: Instant, stopped: &AtomicBool) -> bool {
    while !stopped.load(Ordering::Relaxed) {
        let rest = next.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return true;
        }
        thread::park_timeout(rest);
    }
    false
}

/// Runs `work` while the page is open and metrics are scraped once a second.
pub(super) fn beside<T>(address: SocketAddr, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let readers =
        ["/server-status", "/metrics"].map(|path| PageReader::start(address, path, EACH_SECOND));
    let done = work();
    for reader in readers {
        ensure!(reader.stop()?.pages > 0, "no page was seen");
    }
    done
}

/// Fetches a page. Returns its length in bytes.
pub(super) fn fetch(address: SocketAddr, path: &str) -> Result<usize> {
    let mut stream = connect(address)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    ensure!(page.starts_with(b"HTTP/1.1 200 "), "{path} is no page");
    Ok(page.len())
}
