// Keeps the page live: fetches it once a second and puts the new tables in the place of the old
// ones, unless text in them is selected. The server sorts connections, of which there may be more
// than the page has; other tables are sorted here. Markup of clients stays text, since the server
// has escaped it.
"use strict";

const controls = document.getElementById("controls");
const filter = document.getElementById("filter");
const state = document.getElementById("state");
const pause = document.getElementById("pause");
const news = document.getElementById("news");
// The list of connections may take the server three seconds.
const ANSWER_TIMEOUT_MS = 8000;
let isPaused = false;
let isRefreshing = false;
// By the id of a table: the column, and whether the largest come first.
const orders = new Map();

function value(row, column) {
  const text = row.cells[column].textContent;
  // Addresses consist of digits and dots too.
  const isNumber = /^\d[\d,]*(\.\d+)?( ?%)?$/.test(text);
  return isNumber ? parseFloat(text.replaceAll(",", "")) : text;
}

function compare(first, second) {
  if (typeof first === "number" && typeof second === "number") return first - second;
  return String(first).localeCompare(String(second));
}

function arrange() {
  for (const [id, order] of orders) {
    const body = document.querySelector("#" + id + " tbody");
    if (!body) continue;
    const sign = order.descends ? -1 : 1;
    const rows = [...body.rows];
    rows.sort((a, b) => sign * compare(value(a, order.column), value(b, order.column)));
    body.append(...rows);
  }
}

// Tables that are sorted here: the server's have links.
function tables() {
  return [...document.querySelectorAll("table")].filter((it) => !it.tHead.querySelector("a"));
}

function prepare() {
  for (const table of tables()) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.addEventListener("click", () => {
        const before = orders.get(table.id);
        const descends = before !== undefined && before.column === column && !before.descends;
        orders.set(table.id, { column, descends });
        mark();
        arrange();
      });
      cell.replaceChildren(button);
    });
  }
  mark();
  arrange();
}

function mark() {
  for (const table of tables()) {
    const order = orders.get(table.id);
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      if (order === undefined || order.column !== column) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", order.descends ? "descending" : "ascending");
    });
  }
}

// What stays when the tables are replaced: how far they are scrolled, and the keyboard's focus.
function view() {
  const scrolls = [...document.querySelectorAll("#live .wide")]
    .map((it) => [it.querySelector("table").id, it.scrollLeft]);
  const focus = document.activeElement;
  const owner = focus && focus.closest("#live [id]");
  return { scrolls, focus: owner && { id: owner.id, text: focus.textContent } };
}

function restore({ scrolls, focus }) {
  for (const [id, left] of scrolls) {
    const table = document.getElementById(id);
    if (table) table.parentNode.scrollLeft = left;
  }
  const owner = focus && document.getElementById(focus.id);
  const same = owner
    && [...owner.querySelectorAll("a, button")].find((it) => it.textContent === focus.text);
  if (same) same.focus({ preventScroll: true });
}

// Whether text of the tables is selected, which would be lost.
function isSelecting() {
  const selection = document.getSelection();
  return !selection.isCollapsed
    && selection.containsNode(document.getElementById("live"), true);
}

// The server filters, since there may be more connections than the page has.
function choose() {
  const query = new URLSearchParams(location.search);
  query.delete("page");
  for (const field of [filter, state]) {
    if (field.value) query.set(field.name, field.value);
    else query.delete(field.name);
  }
  history.replaceState(null, "", query.size ? "?" + query : location.pathname);
  load(true);
}

// One request at a time: a server that hangs must not be asked ever more.
async function refresh() {
  if (isRefreshing || isPaused || document.hidden || isSelecting()) return;
  isRefreshing = true;
  await load(false);
  isRefreshing = false;
}

// Sorts in place of going to another page.
function sort(event) {
  const head = event.target.closest("#clients th a");
  if (!head || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  history.replaceState(null, "", head.search);
  load(true);
}

async function load(isChosen) {
  const query = location.search;
  try {
    const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    const answer = await fetch("/server-status" + query, { cache: "no-store", signal });
    if (!answer.ok) throw new Error("status " + answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // What was chosen meanwhile has a request of its own.
    if (query !== location.search || (!isChosen && (isPaused || isSelecting()))) return;
    const before = view();
    document.getElementById("live").replaceWith(page.getElementById("live"));
    prepare();
    restore(before);
    news.textContent = "";
  } catch (error) {
    news.textContent = "no answer: " + error.message;
  }
}

function toggle() {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
}

filter.addEventListener("input", choose);
state.addEventListener("change", choose);
controls.addEventListener("submit", (event) => event.preventDefault());
pause.addEventListener("click", toggle);
document.addEventListener("click", sort);
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select");
  if (event.key === "p" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) toggle();
});
pause.hidden = false;
prepare();
setInterval(refresh, 1000);
