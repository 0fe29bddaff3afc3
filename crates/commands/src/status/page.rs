//! `/server-status` for browsers: a page that is complete without JavaScript, and live with it.

use super::client_groups::{ClientGroup, TopClients};
use super::clients::{ClientSample, STATES};
use super::list_options::{ListOptions, Listed};
use super::markup::{Cell, chart, escaped, table, table_with};
use super::sample::Sample;
use crate::VERSION;
use crate::state::large_values::LargeValue;
use crate::state::slow_log::SlowRequest;

/// The page's style sheet.
pub const STYLE: &str = include_str!("page/status.css");
/// The page's script.
pub const SCRIPT: &str = include_str!("page/status.js");
const HEAD: &str = include_str!("page/page.html");

/// Default maximum of connections on a page; JSON has them all.
const MAX_CLIENTS: usize = 500;

/// The page, with the connections that the options select. All text that clients can choose is
/// escaped.
#[must_use]
pub fn page(sample: &Sample, options: &ListOptions) -> String {
    let mut html = HEAD.to_owned();
    controls(&mut html, options);
    html.push_str("</header>\n<main id=\"live\">\n<dl>");
    for (name, value) in figures(sample) {
        html.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(&value)));
    }
    html.push_str("</dl>\n");
    findings(&mut html, sample);
    charts(&mut html, sample);
    workers(&mut html, sample);
    slow_requests(&mut html, sample);
    hot_keys(&mut html, sample);
    largest_values(&mut html, sample);
    top_clients(&mut html, sample);
    top_connections(&mut html, sample);
    connections(&mut html, sample, options);
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

/// The controls for the selection of connections; without a script, a form with a button.
fn controls(html: &mut String, options: &ListOptions) {
    html.push_str(&format!(
        "<form id=\"controls\" role=\"search\">\n<label>Connections with <input id=\"filter\" \
         name=\"filter\" type=\"search\" autocomplete=\"off\" value=\"{}\"></label>\n\
         <label>State <select id=\"state\" name=\"state\" autocomplete=\"off\">\
         <option value=\"\">any</option>",
        escaped(&options.filter)
    ));
    for state in STATES {
        let selected = if options.state == Some(state) { " selected" } else { "" };
        html.push_str(&format!("<option{selected}>{state}</option>"));
    }
    html.push_str("</select></label>\n");
    for (name, value) in options.kept() {
        let value = escaped(&value);
        html.push_str(&format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">\n"));
    }
    html.push_str(
        "<noscript><button>Show</button></noscript>\n\
         <button id=\"pause\" type=\"button\" aria-pressed=\"false\" hidden>Pause (p)</button>\n\
         <span id=\"news\" role=\"status\"></span>\n</form>\n",
    );
}

/// The faults that the server has detected itself.
fn findings(html: &mut String, sample: &Sample) {
    let mut rows = sample.diagnosis.findings().peekable();
    if rows.peek().is_none() {
        return;
    }
    html.push_str("<h2>Findings</h2>\n");
    let rows = rows.map(|(level, diagnosed)| {
        vec![
            Cell::text(diagnosed.finding.name),
            Cell::State(level.to_owned()),
            Cell::text(&diagnosed.evidence.verdict),
            Cell::Text(diagnosed.finding.remedies.join(" ")),
        ]
    });
    let caption = "Over the last twenty seconds; nagi doctor, run on a client's host, sees more.";
    table(html, "findings", caption, &["Name", "Kind", "Verdict", "What to do"], rows);
}

/// Charts of the last ten minutes.
fn charts(html: &mut String, sample: &Sample) {
    let history = &sample.history;
    if history.seconds() < 2 {
        return;
    }
    html.push_str("<h2>The last ten minutes</h2>\n<div class=\"charts\">\n");
    chart(html, &history.requests_per_second(), |value| value.to_string());
    html.push_str(
        "</div>\n<h3>Phases of requests: 99th percentile</h3>\n\
         <div class=\"charts\">\n",
    );
    history.phases().iter().for_each(|series| chart(html, series, time));
    html.push_str("</div>\n<h3>The same of execution, by family</h3>\n<div class=\"charts\">\n");
    history.families().iter().for_each(|series| chart(html, series, time));
    html.push_str("</div>\n");
}

/// Nanoseconds in a suitable unit.
fn time(ns: u64) -> String {
    match ns {
        ..1000 => format!("{ns} ns"),
        1000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn workers(html: &mut String, sample: &Sample) {
    html.push_str("<h2>Workers</h2>\n");
    let scoreboard = sample.scoreboard();
    let name = |index: usize| match index < sample.workers.len() {
        true => index.to_string(),
        false => "scripts".to_owned(),
    };
    let threads = sample.workers.iter().chain([&sample.scripts]).zip(scoreboard.chars());
    let rows = threads.enumerate().map(|(index, (worker, letter))| {
        vec![
            Cell::Text(name(index)),
            Cell::State(letter.to_string()),
            Cell::Share(worker.busy),
            Cell::Text(executed_by(sample, index)),
            Cell::number(worker.requests_per_second),
            Cell::number(worker.requests),
            Cell::number(worker.connections),
        ]
    });
    let caption = "W: executing requests; K: idle connections; _: no connections; S: loading; .: \
                   no running script.";
    let columns = ["Worker", "State", "Busy", "Executes", "Requests/s", "Requests", "Connections"];
    table(html, "workers", caption, &columns, rows);
}

/// The request that a worker executes in slices, if its client is listed. For an index after all
/// workers, the running script.
fn executed_by(sample: &Sample, worker: usize) -> String {
    let mut clients = sample.clients.iter().flatten();
    let script = sample.running_script;
    if worker < sample.workers.len() {
        let has_script = |id: u64| script.is_some_and(|script| script.client == id);
        let runs = |it: &&ClientSample| it.worker == Some(worker) && it.state == "executing";
        let running = clients.find(|it| runs(it) && !has_script(it.id));
        return running
            .map_or(String::new(), |it| format!("{} {} (client {})", it.command, it.key, it.id));
    }
    script.map_or(String::new(), |script| {
        let client = clients.find(|it| it.id == script.client);
        let command = client.map_or(String::new(), |it| format!("{} {} ", it.command, it.key));
        format!("{command}(client {}, {} s)", script.client, script.for_ms / 1000)
    })
}

fn slow_requests(html: &mut String, sample: &Sample) {
    if sample.latest_slow.is_empty() {
        return;
    }
    html.push_str("<h2>Slow requests</h2>\n");
    let columns = [
        "Number",
        "Seconds ago",
        "Client",
        "Name",
        "Request",
        "Receive (ms)",
        "Queue (ms)",
        "Execute (ms)",
        "Send (ms)",
        "Request (bytes)",
        "Reply (bytes)",
    ];
    let caption =
        format!("The latest of {}; SLOWLOG PHASES has all of them.", sample.slow_requests);
    let rows = sample
        .latest_slow
        .iter()
        .map(|(number, request)| slow_request(*number, request, sample.at_ms / 1000));
    table(html, "slow", &caption, &columns, rows);
}

fn slow_request(number: u64, request: &SlowRequest, now_s: u64) -> Vec<Cell> {
    /// Maximum characters of a request that are shown.
    const MAX_LETTERS: usize = 120;
    let phases = request.phases();
    let milliseconds = |ns: u64| Cell::Number(format!("{:.3}", ns as f64 / 1e6));
    let words = request.arguments.iter().map(|word| String::from_utf8_lossy(word));
    let words: String = words.collect::<Vec<_>>().join(" ").chars().take(MAX_LETTERS).collect();
    vec![
        Cell::number(number),
        Cell::number(now_s.saturating_sub(request.at_s)),
        Cell::text(&request.address),
        Cell::text(&request.name),
        Cell::Text(words),
        milliseconds(phases.receive_ns),
        milliseconds(phases.queue_ns),
        milliseconds(phases.execute_ns),
        milliseconds(phases.send_ns),
        Cell::number(request.request_bytes),
        Cell::number(request.reply_bytes),
    ]
}

/// The most frequent keys.
fn hot_keys(html: &mut String, sample: &Sample) {
    /// The number of keys shown.
    const TOP: usize = 10;
    if sample.hottest.is_empty() {
        return;
    }
    html.push_str("<h2>Hot keys</h2>\n");
    let rows = sample.hottest.iter().take(TOP);
    let rows = rows.map(|(key, share)| vec![Cell::text(key), Cell::Share(*share)]);
    let caption = "Shares of requests, in a sample of the last seconds.";
    table(html, "hot", caption, &["Key", "Share"], rows);
}

/// The largest values, with their current sizes.
fn largest_values(html: &mut String, sample: &Sample) {
    let values = sample.largest_values.as_deref().unwrap_or_default();
    if values.is_empty() {
        return;
    }
    html.push_str("<h2>Largest values</h2>\n");
    let row = |value: &LargeValue| {
        vec![
            Cell::Text(value.shown_key()),
            Cell::text(value.kind.name()),
            Cell::number(value.bytes),
            Cell::number(value.database),
            Cell::number(sample.at_ms.saturating_sub(value.seen_ms) / 1000),
            Cell::text(value.command),
        ]
    };
    let caption = "Used by requests of the last ten minutes, with their current sizes.";
    let columns = ["Key", "Type", "Bytes", "Database", "Seen (s ago)", "By"];
    table(html, "values", caption, &columns, values.iter().map(row));
}

/// The most active clients: all connections of one user from one address count as one.
fn top_clients(html: &mut String, sample: &Sample) {
    let Some(clients) = &sample.clients else { return };
    let TopClients { by_bytes, by_time } = TopClients::of(clients);
    if by_bytes.is_empty() {
        return;
    }
    html.push_str("<h2>Top clients</h2>\n");
    let columns = [
        "Address",
        "User",
        "Name",
        "Connections",
        "Bytes/s",
        "Requests/s",
        "Time (ms/s)",
        "Bytes",
        "Time (ms)",
    ];
    let caption = "By bytes in both directions in the last second; a client is all connections of \
                   a user from an address.";
    table(html, "top-bytes", caption, &columns, by_bytes.iter().map(client_group));
    let caption = "By worker time in the last second.";
    table(html, "top-time", caption, &columns, by_time.iter().map(client_group));
}

fn client_group(group: &ClientGroup) -> Vec<Cell> {
    let milliseconds = |ns: u64| Cell::Number(format!("{:.1}", ns as f64 / 1e6));
    vec![
        Cell::text(&group.address),
        Cell::text(&group.user),
        Cell::text(&group.name),
        Cell::number(group.connections),
        Cell::number(group.bytes_per_second),
        Cell::number(group.requests_per_second),
        milliseconds(group.busy_ns_per_second),
        Cell::number(group.bytes),
        milliseconds(group.busy_ns),
    ]
}

/// The connections with the most bytes in the last second.
fn top_connections(html: &mut String, sample: &Sample) {
    /// The number of connections shown.
    const TOP: usize = 10;
    let mut clients: Vec<&ClientSample> =
        sample.clients.iter().flatten().filter(|it| it.bytes_per_second > 0).collect();
    if clients.is_empty() {
        return;
    }
    clients.sort_unstable_by_key(|client| std::cmp::Reverse(client.bytes_per_second));
    html.push_str("<h2>Top connections</h2>\n");
    let rows = clients.into_iter().take(TOP).map(|client| {
        vec![
            Cell::number(client.id),
            Cell::text(&client.address),
            Cell::text(&client.name),
            Cell::text(&client.command),
            Cell::text(&client.key),
            Cell::number(client.bytes_per_second),
            Cell::number(client.requests_per_second),
        ]
    });
    let columns = ["Id", "Address", "Name", "Command", "Key", "Bytes/s", "Requests/s"];
    table(html, "top", "By bytes in both directions in the last second.", &columns, rows);
}

/// The columns of connections, and their names for `sort`.
const COLUMNS: [(&str, &str); 17] = [
    ("Id", "id"),
    ("Address", "remote_addr"),
    ("Name", "name"),
    ("Library", "library"),
    ("Protocol", "protocol"),
    ("Worker", "worker"),
    ("State", "state"),
    ("Command", "method"),
    ("Key", "key"),
    ("Database", "database"),
    ("Age (s)", "age_seconds"),
    ("Idle (s)", "ss"),
    ("Memory (bytes)", "memory_bytes"),
    ("Received (bytes)", "received_bytes"),
    ("Sent (bytes)", "sent_bytes"),
    ("Requests", "requests"),
    ("Requests/s", "requests_per_second"),
];

fn connections(html: &mut String, sample: &Sample, options: &ListOptions) {
    html.push_str("<h2>Connections</h2>\n");
    let Listed { before, matching, clients } = options.list(sample, MAX_CLIENTS);
    let all = sample.clients.as_ref().map(Vec::len);
    let kind = if options.is_filtered() { " that match" } else { "" };
    let caption = match all {
        None => "There are many connections; the list appears in a second.".to_owned(),
        Some(_) if clients.is_empty() && matching > 0 && options.page > 0 => {
            format!("None on this page; {matching}{kind} on the pages before it.")
        }
        Some(_) if clients.len() < matching => {
            let (first, last) = (before + 1, before + clients.len());
            format!("{first} to {last} of {matching}{kind}; ?json has all of them.")
        }
        Some(all) if options.is_filtered() => format!("{matching} of {all}."),
        Some(_) => "All of them.".to_owned(),
    };
    let heads = COLUMNS.map(|(title, name)| {
        let (query, order) = options.sorted_by(name);
        let order = order.map_or(String::new(), |order| format!(" aria-sort=\"{order}\""));
        let query = escaped(&query);
        let link = format!("<a href=\"?{query}#clients\">{title}</a>");
        (format!("<th scope=\"col\"{order}"), link)
    });
    table_with(html, "clients", &caption, &heads, clients.into_iter().map(row));
    pages(html, matching, options);
}

/// Links to other pages of connections, if there are any.
fn pages(html: &mut String, matching: usize, options: &ListOptions) {
    let pages = options.pages(matching, MAX_CLIENTS);
    if pages.is_empty() {
        return;
    }
    html.push_str("<nav id=\"pages\" aria-label=\"Pages of connections\">\n");
    for (name, query) in pages {
        html.push_str(&match query {
            Some(query) => format!("<a href=\"?{}\">{name}</a>\n", escaped(&query)),
            None => format!("<span>{name}</span>\n"),
        });
    }
    html.push_str("</nav>\n");
}

fn figures(sample: &Sample) -> [(&'static str, String); 14] {
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let data = match sample.limit_bytes {
        0 => mebibytes(sample.dataset_bytes),
        limit => format!("{} of {}", mebibytes(sample.dataset_bytes), mebibytes(limit)),
    };
    let save = match (sample.saves.in_progress, sample.saves.has_failed) {
        (true, _) => progress(sample.saves.keys_written, sample.saves.keys_total),
        (false, true) => "the last one failed".to_owned(),
        (false, false) => "none running".to_owned(),
    };
    let found = match sample.diagnosis.findings().count() {
        0 => "none".to_owned(),
        count => count.to_string(),
    };
    let lookups = sample.keyspace.hits + sample.keyspace.misses;
    let hit_percent = sample.keyspace.hits as f64 * 100.0 / lookups.max(1) as f64;
    [
        ("Version", VERSION.to_owned()),
        ("Uptime", format!("{} s", sample.uptime_s())),
        ("State", if sample.is_ready { "ready" } else { "not ready" }.to_owned()),
        ("Requests per second", sample.requests_per_second.to_string()),
        ("Requests", sample.requests().to_string()),
        ("Connections", format!("{} of {}", sample.connections(), sample.max_clients)),
        ("Data", data),
        ("Memory in RAM", mebibytes(sample.resident_bytes)),
        ("Hits", format!("{hit_percent:.1} %")),
        ("Evicted keys", sample.keyspace.evicted.to_string()),
        ("Save", save),
        ("Unsaved changes", sample.saves.unsaved_changes.to_string()),
        ("Slow requests", sample.slow_requests.to_string()),
        ("Findings", found),
    ]
}

/// A save's progress in keys; their total is known once it has begun to write.
fn progress(written: u64, total: u64) -> String {
    match total {
        0 => "begins".to_owned(),
        total => {
            let percent = written as f64 * 100.0 / total as f64;
            format!("{written} of {total} keys ({percent:.0} %)")
        }
    }
}

fn row(client: &ClientSample) -> Vec<Cell> {
    vec![
        Cell::number(client.id),
        Cell::text(&client.address),
        Cell::text(&client.name),
        Cell::text(&client.library),
        Cell::text(client.protocol),
        client.worker.map_or_else(|| Cell::text(""), Cell::number),
        Cell::State(client.state.to_owned()),
        Cell::text(&client.command),
        Cell::text(&client.key),
        Cell::number(client.database),
        Cell::number(client.age_s),
        Cell::number(client.idle_s),
        Cell::number(client.memory_bytes),
        Cell::number(client.received_bytes),
        Cell::number(client.sent_bytes),
        Cell::number(client.requests),
        Cell::number(client.requests_per_second),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance of a grey, as WCAG 2 defines it.
    fn luminance(hexadecimal: &str) -> f64 {
        let digits = hexadecimal.get(..2).filter(|_| hexadecimal.len() == 6);
        let doubled = || hexadecimal.get(..1).map(|digit| digit.repeat(2));
        let value = digits.map(str::to_owned).or_else(doubled).unwrap();
        let share = f64::from(u8::from_str_radix(&value, 16).unwrap()) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    }

    #[test]
    fn quiet_text_has_contrast_enough() {
        let colours: Vec<&str> = STYLE
            .split("--quiet: #")
            .skip(1)
            .map(|rest| rest.split(';').next().unwrap_or_default())
            .collect();
        // White, and the background of dark pages in browsers.
        let backgrounds = ["fff", "1e1e1e"];
        assert_eq!(colours.len(), backgrounds.len(), "one for light pages, one for dark ones");
        for (colour, background) in colours.into_iter().zip(backgrounds) {
            let (one, other) = (luminance(colour), luminance(background));
            let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
            assert!(contrast >= 4.5, "#{colour} on #{background}: {contrast:.2}");
        }
    }
}
