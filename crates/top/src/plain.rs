//! A view as plain text, without a terminal.

use crate::view::{Table, View};
use std::fmt::Write;

/// Maximum clients that are printed.
const MAX_CLIENTS: usize = 50;

/// The whole view, one table below the other.
pub(crate) fn print(view: &View) -> String {
    let mut out = format!("{}\n\n", view.title);
    for (name, value) in &view.figures {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<12} {value}");
    }
    for (table, most) in
        [(&view.commands, usize::MAX), (&view.clients, MAX_CLIENTS), (&view.slow, usize::MAX)]
    {
        print_table(&mut out, table, most);
    }
    for table in view.more().into_iter().filter(|table| !table.rows.is_empty()) {
        print_table(&mut out, table, usize::MAX);
    }
    out
}

fn print_table(out: &mut String, table: &Table, most: usize) {
    let _ = writeln!(out, "\n{}", table.title);
    if table.rows.is_empty() {
        let _ = writeln!(out, "  none");
        return;
    }
    let rows = || table.rows.iter().take(most);
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|column| {
            let cells = rows().filter_map(|row| row.get(column)).map(String::as_str);
            let heads = table.columns.get(column).copied();
            heads.into_iter().chain(cells).map(|text| text.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).map(|(text, width)| format!("{text:<width$}"));
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    };
    line(&mut table.columns.iter().copied());
    for row in rows() {
        line(&mut row.iter().map(String::as_str));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = vec![vec!["1".to_owned(), "long one".to_owned()], vec!["22".to_owned()]];
        let table = Table { title: "T".to_owned(), columns: vec!["a", "b"], rows };
        let view = View { commands: table, ..View::default() };
        let text = print(&view);
        assert!(text.contains("\nT\n  a   b\n  1   long one\n  22\n"), "{text}");
    }
}
