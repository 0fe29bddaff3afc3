//! `cargo xtask test --browser`: headless Chromium opens nagi's pages, uses its gateway as the
//! script of a page does, and attempts what the page of a foreign site might attempt.
//!
//! It is separate from the other tests, because Debian's Chromium takes 300 MB.

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

/// Returns the values of `--scene`.
fn names() -> [&'static str; SCENES.len()] {
    SCENES.each_ref().map(|scene| scene.name)
}

/// The scenes to run.
#[derive(clap::Args)]
// Another struct of arguments has the same name, which clap would take as the name of its group.
#[group(skip)]
pub(crate) struct Arguments {
    /// Test the pages with headless Chromium instead of running the steps
    #[arg(long, conflicts_with_all = ["steps", "clients"])]
    pub(crate) browser: bool,
    /// Only this scene (may be given several times)
    #[arg(long, requires = "browser", value_name = "SCENE", value_parser = names())]
    scene: Vec<String>,
}

/// The environment that the scenes share.
pub(super) struct Stage {
    chromium: Chromium,
    nagi: PathBuf,
}

impl Stage {
    /// Starts a server with pages.
    fn server(&self, more: &[&str]) -> Result<Server> {
        let mut command = Command::new(&self.nagi);
        command.args(["serve", "--http-port", "any"]).args(more);
        Server::start_nagi(command).map_err(|problem| anyhow!(problem))
    }

    /// Opens a new tab.
    fn tab(&mut self) -> Result<Tab<'_>> {
        Tab::new(&mut self.chromium)
    }
}

/// Runs the scenes. Prints a line for each and a summary.
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

/// Fails unless the addresses of all requests of a page begin with `beginning` and the page has no
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
