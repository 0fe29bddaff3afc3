//! `cargo xtask test --browser`: headless Chromium opens nagi's pages, uses its gateway like the
//! script of a page, and makes the attempts of a foreign site's page.
//!
//! Separate from the other tests, since Debian's Chromium takes 300 MB.

mod chromium;
mod foreign_site;
mod gateway;
mod keyboard;
mod pictures;
mod status_page;
mod tab;

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, anyhow, bail, ensure};
use harness::Server;

use crate::{setup, workspace};
use chromium::Chromium;
use tab::Tab;

/// A scenario in the browser.
struct Scene {
    name: &'static str,
    run: fn(&mut Stage) -> Result<()>,
}

const SCENES: [Scene; 15] = [
    Scene { name: "sorting", run: status_page::is_sorted_and_filtered },
    Scene { name: "reading", run: status_page::keeps_what_the_reader_does },
    Scene { name: "busiest", run: status_page::finds_the_busiest },
    Scene { name: "activity", run: status_page::shows_what_happens },
    Scene { name: "save", run: status_page::shows_the_progress_of_a_save },
    Scene { name: "markup", run: status_page::shows_markup_as_text },
    Scene { name: "pause", run: status_page::can_be_paused },
    Scene { name: "scriptless", run: status_page::needs_no_script },
    Scene { name: "keyboard", run: keyboard::reaches_everything },
    Scene { name: "gateway", run: gateway::serves_scripts_of_its_own_host },
    Scene { name: "values", run: gateway::has_no_value_run },
    Scene { name: "cross-site", run: foreign_site::can_neither_read_nor_change },
    Scene { name: "rebinding", run: foreign_site::cannot_take_its_own_name },
    Scene { name: "pictures", run: pictures::of_the_status_page },
    Scene { name: "report", run: pictures::of_a_report },
];

/// The values of `--scene`.
fn names() -> [&'static str; SCENES.len()] {
    SCENES.each_ref().map(|scene| scene.name)
}

/// What to look at.
#[derive(clap::Args)]
// Another group of arguments has the same type name.
#[group(skip)]
pub(crate) struct Arguments {
    /// Test the pages with headless Chromium instead of running the steps
    #[arg(long, conflicts_with_all = ["steps", "clients"])]
    pub(crate) browser: bool,
    /// Only this scene (may be given several times)
    #[arg(long, requires = "browser", value_name = "SCENE", value_parser = names())]
    scene: Vec<String>,
}

/// The environment of scenes.
pub(super) struct Stage {
    chromium: Chromium,
    nagi: PathBuf,
}

impl Stage {
    /// A server with pages.
    fn server(&self, more: &[&str]) -> Result<Server> {
        let mut command = Command::new(&self.nagi);
        command.args(["serve", "--http-port", "any"]).args(more);
        Server::start_nagi(command).map_err(|problem| anyhow!(problem))
    }

    /// A new tab.
    fn tab(&mut self) -> Result<Tab<'_>> {
        Tab::new(&mut self.chromium)
    }
}

/// Runs the scenes and ends with a line for each and one that counts them.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::browser::run()?;
    let nagi = match std::env::var_os("NAGI_BINARY") {
        Some(binary) => PathBuf::from(binary),
        None => workspace::build_nagi("dev")?,
    };
    let mut stage = Stage { chromium: Chromium::start()?, nagi };
    println!("{}", stage.chromium.version()?);
    let is_wanted = |scene: &&Scene| {
        arguments.scene.is_empty() || arguments.scene.iter().any(|name| name == scene.name)
    };
    let (mut passed, mut failed) = (0, 0);
    for scene in SCENES.iter().filter(is_wanted) {
        let start = Instant::now();
        let outcome = (scene.run)(&mut stage);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("passed   {} ({seconds:.1} s)", scene.name);
            }
            Err(error) => {
                failed += 1;
                println!("FAILED   {} ({seconds:.1} s): {error:#}", scene.name);
            }
        }
    }
    println!("\n{passed} passed, {failed} failed");
    if failed > 0 {
        bail!("{failed} of {} scenes failed", passed + failed);
    }
    Ok(())
}

/// Fails unless all requests of a page go to addresses with this prefix, and the page had no
/// errors.
fn check_requests(tab: &mut Tab<'_>, beginning: &str) -> Result<()> {
    let requests = tab.requests();
    let foreign: Vec<_> = requests.iter().filter(|it| !it.starts_with(beginning)).collect();
    ensure!(foreign.is_empty(), "{foreign:?} is asked for");
    ensure!(!requests.is_empty(), "nothing is asked for");
    let errors = tab.errors();
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(())
}
