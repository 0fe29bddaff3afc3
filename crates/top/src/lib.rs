//! `nagi top`: shows the activity of a server in a terminal.
//!
//! ```text
//! a thread: sample, sample, ... -> view (two samples) -> screen, or plain text
//! ```

mod options;
mod plain;
mod sample;
mod screen;
mod view;

use nagi_load::interrupt::Interrupt;
use nagi_load::output::print;
use nagi_load::target::{Target, read_password};
use nagi_load::wire::Wire;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use sample::Sample;
use screen::{KeyAction, Screen};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

pub use options::{Sort, TopOptions};

/// How often keys are polled.
const TICK: Duration = Duration::from_millis(50);
/// How long the server may take to answer.
const ANSWER_TIMEOUT_NS: u64 = 5_000_000_000;
/// Maximum length of a list of clients, in bytes. A line may have 1000.
const CLIENT_LIST_BYTES: usize = 8 << 20;

/// Shows the view until the user quits, or prints it once.
///
/// # Errors
/// The server cannot be queried, or the terminal cannot be used. The message is one line.
pub fn run(options: &TopOptions) -> Result<(), String> {
    let password = read_password(options.password_file.as_deref())?;
    let target = Target::parse(&options.url, password.as_deref())?;
    let first = Sample::take(&mut open(&target)?)?;
    if options.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return print_once(&target, &first, options);
    }
    let interval = Duration::from_secs_f64(options.interval);
    // A sample that has not been received is not replaced: the next one is delayed.
    let (sender, receiver) = sync_channel(1);
    let name = target.name.clone();
    std::thread::spawn(move || take_samples(&target, interval, &sender));
    let mut terminal = ratatui::try_init().map_err(|error| format!("the terminal: {error}"))?;
    let shown = show(&mut terminal, &name, first, &receiver, Screen::new(options.sort));
    ratatui::restore();
    shown.map_err(|error| format!("the terminal: {error}"))
}

fn open(target: &Target) -> Result<Wire, String> {
    let mut wire = Wire::open_within(target, &Interrupt::default(), ANSWER_TIMEOUT_NS)?;
    wire.keep(CLIENT_LIST_BYTES);
    Ok(wire)
}

fn print_once(target: &Target, first: &Sample, options: &TopOptions) -> Result<(), String> {
    std::thread::sleep(Duration::from_secs_f64(options.interval));
    let second = Sample::take(&mut open(target)?)?;
    let text = plain::print(&view::view(&target.name, first, &second, options.sort));
    print(text.as_bytes()).map_err(|error| error.to_string())
}

type Sampled = Result<Sample, String>;

/// Takes samples, over a new connection after each failure, until the receiver is gone.
fn take_samples(target: &Target, interval: Duration, samples: &SyncSender<Sampled>) {
    let mut wire = None;
    let mut due = Instant::now();
    loop {
        // A late sample does not shorten the next period.
        due = (due + interval).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let opened = wire.take().map_or_else(|| open(target), Ok);
        let sampled = opened.and_then(|mut opened| {
            let sample = Sample::take(&mut opened)?;
            wire = Some(opened);
            Ok(sample)
        });
        if samples.send(sampled).is_err() {
            return;
        }
    }
}

/// The latest sample, and the two that are shown: while the screen is paused, later ones are taken
/// but not shown.
struct SamplesSeen {
    latest: Sample,
    shown: [Sample; 2],
}

impl SamplesSeen {
    fn new(first: Sample) -> Self {
        SamplesSeen { shown: [first.clone(), first.clone()], latest: first }
    }

    fn take(&mut self, sample: Sample, is_paused: bool) {
        let before = std::mem::replace(&mut self.latest, sample);
        if !is_paused {
            self.shown = [before, self.latest.clone()];
        }
    }

    fn view(&self, name: &str, sort: Sort) -> view::View {
        let [before, now] = &self.shown;
        view::view(name, before, now, sort)
    }
}

/// Draws samples as they come, and handles keys.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    name: &str,
    first: Sample,
    samples: &Receiver<Sampled>,
    mut screen: Screen,
) -> std::io::Result<()> {
    let mut samples_seen = SamplesSeen::new(first);
    loop {
        match samples.try_recv() {
            Ok(Ok(sample)) => {
                samples_seen.take(sample, screen.is_paused);
                screen.take(samples_seen.view(name, screen.sort));
            }
            Ok(Err(why)) => screen.failure = Some(nagi_load::text::plain(&why)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        terminal.draw(|frame| screen.draw(frame))?;
        if !event::poll(TICK)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let sort = screen.sort;
            if screen.press(key) == KeyAction::Quit {
                return Ok(());
            }
            if screen.sort != sort {
                screen.view = samples_seen.view(name, screen.sort);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Client;

    #[test]
    fn the_view_can_be_sorted_while_it_is_paused() {
        let client = |id, memory_bytes, age_s| Client { id, memory_bytes, age_s, ..<_>::default() };
        let sample = |clients| Sample {
            at: Instant::now(),
            is_memcached: false,
            fields: <_>::default(),
            clients: Some(clients),
            slow: Vec::new(),
            events: Vec::new(),
        };
        let mut seen = SamplesSeen::new(sample(vec![client(1, 10, 7), client(2, 20, 5)]));
        let ids = |seen: &SamplesSeen, sort| -> Vec<String> {
            let rows = seen.view("x", sort).clients.rows;
            rows.into_iter().map(|row| row[0].clone()).collect()
        };
        seen.take(sample(vec![client(3, 30, 1)]), true);
        assert_eq!(ids(&seen, Sort::Memory), ["2", "1"]);
        assert_eq!(ids(&seen, Sort::Age), ["1", "2"]);
        seen.take(sample(vec![client(4, 40, 1)]), false);
        assert_eq!(ids(&seen, Sort::Age), ["4"]);
    }
}
