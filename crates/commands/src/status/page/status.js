// Keeps the page live: fetches it once a second and puts the new tables in the place of the old
// ones. Sorting is done on what was fetched; markup of clients stays text, since the server has
// escaped it.
"use strict";

const controls = document.getElementById("controls");
const filter = document.getElementById("filter");
const state = document.getElementById("state");
const pause = document.getElementById("pause");
const news = document.getElementById("news");
let isPaused = false;
// By the id of a table: the column, and whether the largest come first.
const orders = new Map();

function value(row, column) {
  const text = row.cells[column].textContent;
  const number = parseFloat(text.replaceAll(",", ""));
  return /^[\d.,]+ ?%?$/.test(text) ? number : text;
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

function prepare() {
  for (const table of document.querySelectorAll("table")) {
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
  for (const table of document.querySelectorAll("table")) {
    const order = orders.get(table.id);
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      if (order === undefined || order.column !== column) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", order.descends ? "descending" : "ascending");
    });
  }
}

// Where the keyboard's focus is, if it is on the head of a table.
function focused() {
  const cell = document.activeElement && document.activeElement.closest("#live th");
  return cell && { id: cell.closest("table").id, column: cell.cellIndex };
}

function focus(place) {
  const row = place && document.querySelector("#" + place.id + " thead tr");
  if (row) row.cells[place.column].querySelector("button").focus({ preventScroll: true });
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

function refresh() {
  if (!isPaused && !document.hidden) load(false);
}

async function load(isChosen) {
  const query = location.search;
  try {
    const answer = await fetch("/server-status" + query, { cache: "no-store" });
    if (!answer.ok) throw new Error("status " + answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // What was chosen meanwhile has a request of its own.
    if (query !== location.search || (isPaused && !isChosen)) return;
    const place = focused();
    document.getElementById("live").replaceWith(page.getElementById("live"));
    prepare();
    focus(place);
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
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select");
  if (event.key === "p" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) toggle();
});
pause.hidden = false;
prepare();
setInterval(refresh, 1000);
