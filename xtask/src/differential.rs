//! `cargo xtask differential`: the long comparison with redis-server and memcached.

use anyhow::Result;

use crate::workspace::cargo;
use crate::{process, setup};

/// How much to compare.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Commands sent in each protocol
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    count: u64,
    /// Seed of a run to repeat
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Compare only the random commands of one family with redis-server: string, hash, list, set,
    /// sorted-set, stream, bitmap, geo, key, transaction or script
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
}

/// Runs the differential tests with more commands than `cargo xtask test` does.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::run()?;
    let tests =
        if arguments.family.is_some() { "differential::redis::random" } else { "differential" };
    let mut command = cargo(&["test", "--package", "nagi-tests", tests]);
    command.args(["--", "--nocapture"]).env("NAGI_DIFFERENTIAL_COUNT", arguments.count.to_string());
    if let Some(seed) = arguments.seed {
        command.env("NAGI_TEST_SEED", seed.to_string());
    }
    if let Some(family) = &arguments.family {
        command.env("NAGI_DIFFERENTIAL_FAMILY", family);
    }
    process::run(&mut command)
}
