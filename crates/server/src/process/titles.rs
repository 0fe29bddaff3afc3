//! The process title and the names of threads, which ps and top show.
//!
//! Every local user can read them, so they contain only figures, no keys and no client addresses.

use super::title_area;
use crate::state::shared::Shared;
use nagi_commands::Server as _;
use nagi_commands::config::{TitleVariable, render_title, short_count};
use nagi_commands::status::Sample;
use std::fs;

/// Shows figures of a sample, unless the settings or the kernel forbid it.
pub(super) fn show(shared: &Shared, sample: &Sample) {
    if !shared.config().set_proc_title.is_on() {
        return;
    }
    if title_area::is_shown() {
        title_area::set(&title(shared, sample));
    }
    let threads = &shared.process().worker_threads;
    let states = sample.scoreboard();
    for (index, ((thread, worker), state)) in
        threads.iter().zip(&sample.workers).zip(states.chars()).enumerate()
    {
        if let Some(thread) = thread.get() {
            // The kernel keeps 15 bytes. A thread that has ended has no name.
            let rate = short_count(worker.requests_per_second);
            name_thread(*thread, &format!("W{index} {state} {rate}/s"));
        }
    }
    if let Some(thread) = shared.process().script_thread.get() {
        let (state, rate) = (sample.script_letter(), sample.scripts.requests_per_second);
        name_thread(*thread, &format!("scripts {state} {}", short_count(rate)));
    }
}

fn name_thread(thread: i32, name: &str) {
    let _ = fs::write(format!("/proc/self/task/{thread}/comm"), name);
}

fn title(shared: &Shared, sample: &Sample) -> String {
    let config = shared.config();
    let number = |port: u64| port.to_string();
    render_title(&config.proc_title_template.get(), |variable| match variable {
        TitleVariable::Title => std::env::args().next().unwrap_or_default(),
        TitleVariable::ListenAddress => listen_address(shared),
        TitleVariable::ServerMode => String::new(),
        TitleVariable::Port => number(config.port.get()),
        // TLS is not supported.
        TitleVariable::TlsPort => number(0),
        TitleVariable::UnixSocket => config.unixsocket.get().as_ref().to_owned(),
        TitleVariable::ConfigFile => {
            config.file().map(|path| path.display().to_string()).unwrap_or_default()
        }
        TitleVariable::State => {
            let states = sample.scoreboard();
            ['S', 'W', 'K'].into_iter().find(|it| states.contains(*it)).unwrap_or('_').to_string()
        }
        TitleVariable::Rate => format!("{}/s", short_count(sample.requests_per_second)),
        TitleVariable::Requests => short_count(sample.requests()),
        TitleVariable::Connections => number(sample.connections() as u64),
    })
}

/// As in Redis: the single address of `bind` or `*`, with the port; without a port, the Unix
/// socket.
fn listen_address(shared: &Shared) -> String {
    let config = shared.config();
    let port = config.port.get();
    if port == 0 {
        return config.unixsocket.get().as_ref().to_owned();
    }
    let bind = config.bind.get();
    format!("{}:{port}", bind.split_whitespace().next().unwrap_or("*"))
}
