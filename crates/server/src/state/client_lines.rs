//! Rate-limited log lines that clients cause. By repeated connections, a client could otherwise
//! fill the disk and hide other lines. Of each kind, some lines are written per second, and then
//! one with the number of those left out.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Maximum lines of a kind in each [`PERIOD`].
const MOST: u64 = 10;
const PERIOD: Duration = Duration::from_secs(1);

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Info,
    Warn,
}

/// Lines of one kind.
pub(crate) struct ClientLines {
    /// The text of the lines.
    text: &'static str,
    level: Level,
    period: Mutex<Period>,
}

/// The lines of a period.
struct Period {
    /// `None` before the first line of a period.
    began_at: Option<Instant>,
    written: u64,
    left_out: u64,
}

pub(crate) static HTTP: ClientLines =
    ClientLines::new(Level::Warn, "closed: an HTTP request on the port of the Redis protocol");
pub(crate) static IDLE: ClientLines =
    ClientLines::new(Level::Info, "closed: idle for longer than timeout");
pub(crate) static LOST: ClientLines =
    ClientLines::new(Level::Info, "closed: the connection was lost");
pub(crate) static MEMORY: ClientLines =
    ClientLines::new(Level::Warn, "closed: clients use more memory than maxmemory-clients");
pub(crate) static MONITOR: ClientLines =
    ClientLines::new(Level::Warn, "closed: a monitor does not read fast enough");
pub(crate) static PROTOCOL: ClientLines = ClientLines::new(Level::Info, "closed: Protocol error");
pub(crate) static REQUEST: ClientLines =
    ClientLines::new(Level::Warn, "closed: a request exceeds client-query-buffer-limit");
pub(crate) static UNREAD: ClientLines =
    ClientLines::new(Level::Warn, "closed: unread replies exceed client-output-buffer-limit");

static ALL: [&ClientLines; 8] =
    [&HTTP, &IDLE, &LOST, &MEMORY, &MONITOR, &PROTOCOL, &REQUEST, &UNREAD];

impl ClientLines {
    const fn new(level: Level, text: &'static str) -> Self {
        let period = Period { began_at: None, written: 0, left_out: 0 };
        ClientLines { text, level, period: Mutex::new(period) }
    }

    /// The text of the lines.
    pub(crate) fn text(&self) -> &'static str {
        self.text
    }

    /// Whether to write another line now.
    pub(crate) fn admit(&self) -> bool {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> bool {
        self.report(self.end_period(now, PERIOD));
        let mut period = self.period.lock();
        period.began_at.get_or_insert(now);
        if period.written < MOST {
            period.written += 1;
            return true;
        }
        period.left_out += 1;
        false
    }

    /// Ends the current period if it has lasted at least `least`. Returns how many lines it left
    /// out.
    fn end_period(&self, now: Instant, least: Duration) -> u64 {
        let mut period = self.period.lock();
        let is_over = |began_at| now.saturating_duration_since(began_at) >= least;
        if !period.began_at.is_some_and(is_over) {
            return 0;
        }
        let ended = Period { began_at: None, written: 0, left_out: 0 };
        std::mem::replace(&mut *period, ended).left_out
    }

    fn report(&self, left_out: u64) {
        let text = self.text;
        match self.level {
            _ if left_out == 0 => {}
            Level::Info => tracing::info!("{left_out} more lines were left out: {text}"),
            Level::Warn => tracing::warn!("{left_out} more lines were left out: {text}"),
        }
    }
}

/// Logs how many lines were left out in periods that have ended.
pub(crate) fn report() {
    let now = Instant::now();
    ALL.iter().for_each(|lines| lines.report(lines.end_period(now, PERIOD)));
}

/// Logs how many lines were left out in all periods, at the end of the process.
pub(crate) fn report_rest() {
    let now = Instant::now();
    ALL.iter().for_each(|lines| lines.report(lines.end_period(now, Duration::ZERO)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_a_second_are_written_and_the_others_are_counted() {
        let lines = ClientLines::new(Level::Warn, "closed");
        let start = Instant::now();
        let written = |at: Instant| (0..25).filter(|_| lines.admit_at(at)).count();
        assert_eq!(written(start), 10);
        assert_eq!(written(start + PERIOD / 2), 0);
        assert_eq!(lines.end_period(start + PERIOD / 2, PERIOD), 0, "it is not over");
        assert_eq!(lines.end_period(start + PERIOD, PERIOD), 40);
        assert_eq!(lines.end_period(start + PERIOD * 2, PERIOD), 0, "it was reported");
        assert_eq!(written(start + PERIOD * 5), 10, "a period begins with its first line");
        assert_eq!(written(start + PERIOD * 6), 10);
        assert_eq!(lines.end_period(start + PERIOD * 6, Duration::ZERO), 15);
    }
}
