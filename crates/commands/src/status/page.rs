//! `/server-status` for people: one page that is complete without a script, and live with one.

use super::clients::ClientSample;
use super::sample::Sample;
use crate::VERSION;

/// The page's style sheet.
pub const STYLE: &str = include_str!("page/status.css");
/// The page's script.
pub const SCRIPT: &str = include_str!("page/status.js");
const HEAD: &str = include_str!("page/page.html");

/// Most connections that are listed; JSON has them all.
const MOST_CLIENTS: usize = 500;

/// The page. All that a client can have chosen is escaped.
#[must_use]
pub fn page(sample: &Sample) -> String {
    let mut html = HEAD.to_owned();
    html.push_str("<dl>");
    for (name, value) in figures(sample) {
        html.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(&value)));
    }
    html.push_str("</dl>\n<h2>Workers</h2>\n");
    let scoreboard = sample.scoreboard();
    let workers = sample.workers.iter().zip(scoreboard.chars()).enumerate();
    let rows = workers.map(|(index, (worker, letter))| {
        vec![
            index.to_string(),
            letter.to_string(),
            format!("{:.1} %", worker.busy * 100.0),
            worker.requests_per_second.to_string(),
            worker.requests.to_string(),
            worker.connections.to_string(),
        ]
    });
    let caption = "W: executes requests; K: keeps connections; _: has none; S: loading.";
    let columns = ["Worker", "State", "Busy", "Requests/s", "Requests", "Connections"];
    table(&mut html, "workers", caption, &columns, rows);
    html.push_str("<h2>Connections</h2>\n");
    let caption = match &sample.clients {
        None => "There are many; the list is there in a second.".to_owned(),
        Some(clients) if clients.len() > MOST_CLIENTS => {
            format!("The {MOST_CLIENTS} oldest of {}; ?json has all of them.", clients.len())
        }
        Some(_) => "All of them.".to_owned(),
    };
    let clients = sample.clients.iter().flatten().take(MOST_CLIENTS);
    let columns = [
        "Id",
        "Address",
        "Name",
        "Library",
        "Protocol",
        "Worker",
        "State",
        "Command",
        "Database",
        "Age (s)",
        "Idle (s)",
        "Memory (bytes)",
        "Received (bytes)",
        "Sent (bytes)",
        "Requests",
        "Requests/s",
    ];
    table(&mut html, "clients", &caption, &columns, clients.map(row));
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn figures(sample: &Sample) -> [(&'static str, String); 12] {
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let lookups = sample.keyspace.hits + sample.keyspace.misses;
    let hit_percent = sample.keyspace.hits as f64 * 100.0 / lookups.max(1) as f64;
    [
        ("Version", VERSION.to_owned()),
        ("Uptime", format!("{} s", sample.uptime_s())),
        ("State", if sample.is_ready { "ready" } else { "not ready" }.to_owned()),
        ("Requests per second", sample.requests_per_second.to_string()),
        ("Requests", sample.requests().to_string()),
        ("Connections", format!("{} of {}", sample.connections(), sample.most_clients)),
        ("Data", mebibytes(sample.dataset_bytes)),
        ("Memory in RAM", mebibytes(sample.resident_bytes)),
        ("Hits", format!("{hit_percent:.1} %")),
        ("Evicted keys", sample.keyspace.evicted.to_string()),
        ("Unsaved changes", sample.saves.unsaved_changes.to_string()),
        ("Slow requests", sample.slow_requests.to_string()),
    ]
}

fn row(client: &ClientSample) -> Vec<String> {
    vec![
        client.id.to_string(),
        client.address.clone(),
        client.name.clone(),
        client.library.clone(),
        client.protocol.to_owned(),
        client.worker.to_string(),
        client.state.to_owned(),
        client.command.clone(),
        client.database.to_string(),
        client.age_s.to_string(),
        client.idle_s.to_string(),
        client.memory_bytes.to_string(),
        client.received_bytes.to_string(),
        client.sent_bytes.to_string(),
        client.requests.to_string(),
        client.requests_per_second.to_string(),
    ]
}

fn table(
    html: &mut String,
    id: &str,
    caption: &str,
    columns: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) {
    html.push_str(&format!("<div class=\"wide\"><table id=\"{id}\"><caption>{caption}</caption>"));
    html.push_str("<thead><tr>");
    for column in columns {
        html.push_str(&format!("<th scope=\"col\">{column}</th>"));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let cells = row.iter().map(|cell| format!("<td class=\"text\">{}</td>", escaped(cell)));
        html.push_str(&format!("<tr>{}</tr>\n", cells.collect::<String>()));
    }
    html.push_str("</tbody></table></div>\n");
}

/// Text as HTML, in which control characters show as what they are not: printable.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            control if control.is_control() => html.push('\u{fffd}'),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_text() {
        assert_eq!(
            escaped("<b a=\"1\" c='2'>&amp;\u{1b}[0m 凪"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;\u{fffd}[0m 凪"
        );
    }
}
