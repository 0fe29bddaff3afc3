//! Debian's prometheus-apache-exporter, unmodified, reads `/server-status?auto`.

use harness::{Server, tool, until};

use super::{List, Samples, fetch, samples};

#[test]
fn apache_exporter_has_every_metric_of_its_list() {
    let server = Server::nagi_with(&["--http-port", "any", "--workers", "3"]);
    let mut clients = [(); 2].map(|()| server.connect_resp());
    let length = 100 << 10;
    clients[0].run_words(&["SET", "long", &"x".repeat(length)]);
    clients.iter_mut().for_each(|client| drop(client.run("GET long")));
    let uri = format!("--scrape_uri=http://{}/server-status?auto", server.http());
    let started = Server::start_web(|address| {
        let mut exporter = tool("prometheus-apache-exporter");
        exporter.arg(&uri).arg(format!("--telemetry.address={address}"));
        exporter
    });
    let (_exporter, address) = started.unwrap_or_else(|problem| panic!("{problem}"));
    let metrics = until("a sample of the requests", || {
        let metrics = samples(&fetch(address, "/metrics", "text/plain"), "apache_");
        (metrics.get("apache_accesses_total") == Some(&3.0)).then_some(metrics)
    })
    .expect("they are counted");
    let list = List::read("apache-exporter.txt");
    let faults = list.faults(&metrics, &Samples::new());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let sum = |name: &str| -> f64 {
        metrics.iter().filter(|(series, _)| super::name(series) == name).map(|(_, it)| it).sum()
    };
    // The bytes of both replies, in units of 1,024.
    assert_eq!(sum("apache_sent_kilobytes_total"), 200.0);
    // Without a running script, the place of the script thread is shown as open and does not count
    // as a worker.
    assert_eq!([sum("apache_workers"), sum("apache_scoreboard")], [3.0, 4.0]);
    assert_eq!(metrics["apache_scoreboard{state=\"open_slot\"}"], 1.0);
    assert_eq!(metrics["apache_connections{state=\"total\"}"], 2.0);
    assert_eq!(
        metrics["apache_workers{state=\"busy\"}"],
        metrics["apache_scoreboard{state=\"reply\"}"]
    );
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("apache_info{{mpm=\"worker\",version=\"nagi/{version}\"}}");
    assert_eq!(metrics.get(&info), Some(&1.0), "{metrics:?}");
}
