//! The outputs of a run: a report on standard output, and the files in the options.

use std::io;
use std::path::{Path, PathBuf};

use super::hdr;
use super::options::BenchOptions;
use super::page;
use super::phases::Measured;
use super::sweeps::Swept;
use crate::output::{OutputFile, print};

/// The outputs that the options request.
#[derive(Debug)]
pub(crate) struct Outputs<'a> {
    options: &'a BenchOptions,
    json: Option<OutputFile<'a>>,
    html: Option<OutputFile<'a>>,
    hdr_log: Option<OutputFile<'a>>,
    percentiles: Option<OutputFile<'a>>,
}

impl<'a> Outputs<'a> {
    /// Opens the files.
    ///
    /// # Errors
    /// A file cannot be written; the error contains its name and the reason.
    pub(crate) fn open(options: &'a BenchOptions) -> io::Result<Self> {
        let open = |path: &'a Option<PathBuf>| {
            path.as_deref().filter(|path| !is_stdout(path)).map(OutputFile::open).transpose()
        };
        Ok(Outputs {
            options,
            json: open(&options.json)?,
            html: open(&options.html)?,
            hdr_log: open(&options.hdr_log)?,
            percentiles: open(&options.percentiles)?,
        })
    }

    /// Writes all requested outputs. Text is written first, so that it appears even if a file
    /// cannot be written.
    ///
    /// # Errors
    /// A file cannot be written; the error contains its name and the reason.
    pub(crate) fn write(self, measured: &Measured) -> io::Result<()> {
        let report = &measured.report;
        let json = || serde_json::to_string_pretty(report);
        write_text((self.options, self.json), &report.to_string(), &json)?;
        let title = format!("nagi bench {}: {}", report.version, report.title());
        if let (Some(file), Some(log)) = (self.hdr_log, &measured.log) {
            file.write(&log.text(&title).map_err(io::Error::other)?)?;
        }
        if let Some(file) = self.percentiles {
            file.write(&hdr::distribution(&measured.total.latencies, &title))?;
        }
        if let Some(file) = self.html {
            file.write(&page::render(measured).map_err(io::Error::other)?)?;
        }
        Ok(())
    }

    /// Writes all requested outputs of a sweep, text first.
    ///
    /// # Errors
    /// A file cannot be written; the error contains its name and the reason.
    pub(crate) fn write_sweep(self, swept: &Swept) -> io::Result<()> {
        let json = || serde_json::to_string_pretty(swept);
        write_text((self.options, self.json), &swept.to_string(), &json)?;
        if let Some(file) = self.html {
            let page = page::render_sweep(swept.sweep.name(), &swept.runs);
            file.write(&page.map_err(io::Error::other)?)?;
        }
        Ok(())
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes text and JSON to standard output or to a file, as the options say.
fn write_text(
    (options, file): (&BenchOptions, Option<OutputFile<'_>>),
    text: &str,
    json: &dyn Fn() -> serde_json::Result<String>,
) -> io::Result<()> {
    let json_only = options.json.as_deref().is_some_and(is_stdout);
    let silent = json_only || (options.quiet && options.json.is_some());
    if !silent {
        print(text.as_bytes())?;
    }
    match file {
        Some(file) => file.write(&(json()? + "\n")),
        None if json_only => print((json()? + "\n").as_bytes()),
        None => Ok(()),
    }
}
