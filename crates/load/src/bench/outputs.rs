//! Where a report goes: standard output, and the files that were asked for.

use std::io::{self, Write};
use std::path::Path;

use super::hdr;
use super::options::BenchOptions;
use super::phases::Measured;

/// Writes everything that was asked for. Text comes first, so that it is there even if a file
/// cannot be written.
///
/// # Errors
/// A file cannot be written: its name and why.
pub(crate) fn write(options: &BenchOptions, measured: &Measured) -> io::Result<()> {
    let report = &measured.report;
    let json_only = options.json.as_deref() == Some(Path::new("-"));
    let silent = json_only || (options.quiet && options.json.is_some());
    if !silent {
        io::stdout().lock().write_all(report.to_string().as_bytes())?;
    }
    if let Some(path) = &options.json {
        let json = report.to_json()?;
        if json_only {
            io::stdout().lock().write_all(json.as_bytes())?;
        } else {
            write_file(path, &json)?;
        }
    }
    if let (Some(path), Some(log)) = (&options.hdr_log, &measured.log) {
        let title = format!("nagi bench {}: {}", report.version, report.title());
        write_file(path, &log.text(&title).map_err(io::Error::other)?)?;
    }
    if let Some(path) = &options.percentiles {
        write_file(path, &hdr::distribution(&measured.total.latencies))?;
    }
    Ok(())
}

/// Writes a file; an error names it.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
