//! Writes a report to standard output and to the files in the options.

use std::io::{self, Write};
use std::path::Path;

use super::hdr;
use super::options::BenchOptions;
use super::page;
use super::phases::Measured;
use super::sweeps::Swept;

/// Writes all requested outputs. Text is written first, so that it appears even if a file cannot be
/// written.
///
/// # Errors
/// A file cannot be written; the error contains its name and the reason.
pub(crate) fn write(options: &BenchOptions, measured: &Measured) -> io::Result<()> {
    let report = &measured.report;
    write_text(options, &report.to_string(), &|| serde_json::to_string_pretty(report))?;
    let title = format!("nagi bench {}: {}", report.version, report.title());
    if let (Some(path), Some(log)) = (&options.hdr_log, &measured.log) {
        write_file(path, &log.text(&title).map_err(io::Error::other)?)?;
    }
    if let Some(path) = &options.percentiles {
        write_file(path, &hdr::distribution(&measured.total.latencies, &title))?;
    }
    if let Some(path) = &options.html {
        write_file(path, &page::render(measured).map_err(io::Error::other)?)?;
    }
    Ok(())
}

/// Writes all requested outputs of a sweep, text first.
///
/// # Errors
/// A file cannot be written; the error contains its name and the reason.
pub(crate) fn write_sweep(options: &BenchOptions, swept: &Swept) -> io::Result<()> {
    write_text(options, &swept.to_string(), &|| serde_json::to_string_pretty(swept))?;
    if let Some(path) = &options.html {
        let page = page::render_sweep(swept.sweep.name(), &swept.runs);
        write_file(path, &page.map_err(io::Error::other)?)?;
    }
    Ok(())
}

/// Writes text and JSON to standard output or to files, as the options say.
fn write_text(
    options: &BenchOptions,
    text: &str,
    json: &dyn Fn() -> serde_json::Result<String>,
) -> io::Result<()> {
    let json_only = options.json.as_deref() == Some(Path::new("-"));
    let silent = json_only || (options.quiet && options.json.is_some());
    if !silent {
        io::stdout().lock().write_all(text.as_bytes())?;
    }
    match &options.json {
        Some(_) if json_only => io::stdout().lock().write_all((json()? + "\n").as_bytes()),
        Some(path) => write_file(path, &(json()? + "\n")),
        None => Ok(()),
    }
}

/// Writes a file. An error contains the file's name.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
