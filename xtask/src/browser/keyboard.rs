//! `/server-status` must be usable by keyboard alone and with a screen reader.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::json;

use super::Stage;
use super::chromium::at;
use super::status_page::{open, refresh};
use super::tab::Tab;

/// Describes the focused element.
const FOCUS: &str = "(() => {
  const it = document.activeElement;
  const cell = it.closest('th');
  return cell ? `${it.closest('table').id} ${it.textContent}` : it.id || it.tagName;
})()";

pub(super) fn reaches_everything(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&[])?;
    let mut tab = stage.tab()?;
    let mut client = server.connect_resp();
    client.check("CLIENT SETNAME one", "+OK\r\n");
    open(&mut tab, &server)?;
    tab.until("the client", "column('clients', 'Name').filter(Boolean).length === 1")?;
    // The page is paused so that it does not change while the focus moves.
    tab.press("p", 80, "p")?;
    let expected = tab.evaluate(
        "['filter', 'state', 'pause', ...['workers', 'clients'].flatMap((id) => \
         [...document.querySelectorAll(`#${id} th`)].map((it) => `${id} ${it.textContent}`))]",
    )?;
    let expected: BTreeSet<&str> =
        expected.as_array().into_iter().flatten().filter_map(|it| it.as_str()).collect();
    ensure!(expected.len() > 20, "{expected:?}");
    let reached = walk(&mut tab)?;
    let missing: Vec<_> = expected.iter().filter(|it| !reached.contains(**it)).collect();
    ensure!(missing.is_empty(), "{missing:?} is not reached: {reached:?}");
    sorts(&mut tab)?;
    names_are_told(&mut tab)
}

/// Moves the focus through the page, until it returns to the start.
fn walk(tab: &mut Tab<'_>) -> Result<BTreeSet<String>> {
    /// An upper bound for the number of focusable elements on the page.
    const MOST: usize = 200;
    let mut reached = BTreeSet::new();
    for _ in 0..MOST {
        tab.press("Tab", 9, "")?;
        let place = tab.text(FOCUS)?;
        if place == "filter" && reached.contains("filter") {
            break;
        }
        tab.check(
            "document.activeElement === document.body || \
             getComputedStyle(document.activeElement).outlineStyle !== 'none'",
        )?;
        reached.insert(place);
    }
    Ok(reached)
}

/// Enter sorts, and the focus stays in place when the page is fetched again.
fn sorts(tab: &mut Tab<'_>) -> Result<()> {
    let head = "document.querySelector(head('clients', 'Name'))";
    tab.evaluate(&format!("{head}.focus()"))?;
    tab.press("Enter", 13, "\r")?;
    let is_sorted = format!("{head}.parentNode.getAttribute('aria-sort') === 'ascending'");
    tab.until("a sorted page", &is_sorted)?;
    tab.press("p", 80, "p")?;
    refresh(tab)?;
    let place = tab.text(FOCUS)?;
    ensure!(place == "clients Name", "the focus is at {place}");
    tab.check(&is_sorted)
}

/// All elements that a screen reader reaches must have names.
fn names_are_told(tab: &mut Tab<'_>) -> Result<()> {
    const ROLES: [&str; 5] = ["button", "searchbox", "table", "columnheader", "image"];
    let tree = tab.call("Accessibility.getFullAXTree", json!({}))?;
    let mut found = BTreeSet::new();
    for node in at(&tree, "/nodes").as_array().into_iter().flatten() {
        let role = at(node, "/role/value").as_str().unwrap_or_default();
        if ROLES.contains(&role) && at(node, "/ignored") != true {
            let name = at(node, "/name/value").as_str().unwrap_or_default();
            ensure!(!name.is_empty(), "a {role} has no name: {node}");
            found.insert(role.to_owned());
        }
    }
    for role in ["button", "searchbox", "table", "columnheader"] {
        ensure!(found.contains(role), "there is no {role}: {found:?}");
    }
    Ok(())
}
