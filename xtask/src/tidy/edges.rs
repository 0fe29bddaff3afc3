//! Checks that crates depend on each other only along the edges of the design. Dependencies are
//! read from manifests.

use super::Repository;

/// The crates of the workspace that each crate may depend on; every crate must have a row.
const EDGES: [(&str, &[&str]); 19] = [
    ("crates/chunk", &[]),
    ("crates/proto", &["nagi-chunk"]),
    ("crates/store", &["nagi-chunk"]),
    ("crates/persist", &["nagi-store"]),
    ("crates/lua", &[]),
    ("crates/script", &["nagi-lua", "nagi-proto"]),
    ("crates/scheduling", &[]),
    ("crates/findings", &[]),
    (
        "crates/commands",
        &["nagi-findings", "nagi-proto", "nagi-store", "nagi-persist", "nagi-script"],
    ),
    ("crates/pipe", &[]),
    ("crates/http", &["nagi-chunk", "nagi-pipe"]),
    (
        "crates/server",
        &[
            "nagi-commands",
            "nagi-http",
            "nagi-proto",
            "nagi-store",
            "nagi-persist",
            "nagi-chunk",
            "nagi-scheduling",
        ],
    ),
    ("crates/client", &["nagi-proto"]),
    ("crates/load", &["nagi-client", "nagi-proto", "nagi-scheduling"]),
    ("crates/doctor", &["nagi-client", "nagi-findings", "nagi-load"]),
    ("crates/top", &["nagi-client", "nagi-load"]),
    (
        "crates/nagi",
        &["nagi-server", "nagi-client", "nagi-load", "nagi-doctor", "nagi-top", "nagi-persist"],
    ),
    ("tests", &[]),
    ("xtask", &["nagi-tests"]),
];

pub(super) fn follow_the_design(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for file in &repository.files {
        let Some(crate_path) = file.path.strip_suffix("/Cargo.toml") else { continue };
        // These crates are built separately; those in tests/programs use packages from a registry.
        if crate_path.starts_with("fuzz") || crate_path.starts_with("tests/programs") {
            continue;
        }
        match EDGES.iter().find(|(path, _)| *path == crate_path) {
            None => found.push(format!(
                "{}: a crate that is not in the design (EDGES in xtask/src/tidy/edges.rs)",
                file.path
            )),
            Some((_, allowed)) => {
                let forbidden = dependencies(&file.text).filter(|name| !allowed.contains(name));
                found.extend(forbidden.map(|name| format!("{}: depends on {name}", file.path)));
            }
        }
    }
    found
}

/// Returns the crates of the workspace in a manifest's dependencies, without those for tests, which
/// may be any crate.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut counts = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        }
        let name = line.split(['.', ' ', '=']).next()?;
        (counts && name.starts_with("nagi-")).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, manifest: &str) -> Vec<String> {
        follow_the_design(&Repository::of(&[(path, manifest)]))
    }

    #[test]
    fn an_edge_against_the_design_is_found() {
        let manifest = "[dependencies]\nitoa = \"1\"\nnagi-store.workspace = true\n";
        assert!(faults("crates/commands/Cargo.toml", manifest).is_empty());
        assert_eq!(
            faults("crates/proto/Cargo.toml", manifest),
            ["crates/proto/Cargo.toml: depends on nagi-store"]
        );
    }

    #[test]
    fn a_test_may_use_any_crate() {
        let manifest = "[dev-dependencies]\nnagi-store.workspace = true\n";
        assert!(faults("crates/proto/Cargo.toml", manifest).is_empty());
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(faults("crates/helpers/Cargo.toml", "").len(), 1);
    }
}
