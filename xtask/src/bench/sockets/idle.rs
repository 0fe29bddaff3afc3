//! The cost of idle connections, and of an idle server.

use std::time::Duration;

use anyhow::Result;

use super::{Contestants, Measured};
use crate::bench::Arguments;
use crate::bench::client::{check, connect};
use crate::bench::contestants::Placement;
use crate::bench::report::Table;
use crate::bench::usage::CpuTime;

/// Measures the memory of each of many connections that were used once, and the share of a core
/// that a server uses without and with these connections.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let connections = if arguments.quick { 1_000 } else { 10_000 };
    let length = Duration::from_secs(if arguments.quick { 1 } else { 5 });
    let mut table = Table::new(&[
        "server",
        "RSS for each connection, KB",
        "idle, % of a core",
        "with the connections",
    ]);
    for contestant in contestants.resp() {
        let server = contestant.start(Placement::Free)?;
        let idle_share = || -> Result<f64> {
            let before = CpuTime::of(server.process_id())?;
            std::thread::sleep(length);
            let used = CpuTime::of(server.process_id())?.since(before);
            Ok((used.user + used.system) / length.as_secs_f64() * 100.0)
        };
        let alone = idle_share()?;
        let before = server.resident_bytes() as f64;
        let mut streams = Vec::new();
        for _ in 0..connections {
            let mut stream = connect(server.resp())?;
            check(&mut stream, b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n")?;
            streams.push(stream);
        }
        let each = (server.resident_bytes() as f64 - before) / f64::from(connections);
        let beside = idle_share()?;
        table.row(vec![
            contestant.name.to_owned(),
            format!("{:.1}", each / 1024.0),
            format!("{alone:.2}"),
            format!("{beside:.2}"),
        ]);
    }
    Ok(Measured { tables: vec![table], details: None })
}
