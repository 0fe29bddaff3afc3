//! Pages of docs/ that are generated from rows, and tests that they are current.

mod commands;
mod settings;

use std::fmt::Write as _;

/// Writes a table's row, its first cell as code.
fn row(page: &mut String, first: &str, rest: &[&str]) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| {} | {} |", code(first.trim()), rest.join(" | "));
}

/// A text as code in a cell of a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// Compares a page of docs/ with the rows, or writes it.
fn check_page(name: &str, page: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("NAGI_WRITE_DOCS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let hint = "regenerate it with: NAGI_WRITE_DOCS=1 cargo test -p nagi-commands docs";
    assert!(written == page, "docs/{name} differs from the rows; {hint}");
}
