/* The history: what all sessions came to by day, a table of them, and one of them in full. The server
   chooses the sessions, adds them up and puts them into words; only the rows that are looked at
   become elements. */

const PAGE = 100;
const DAY = 0; /* the column by which rows are gathered in groups */

let version = "";
let told = ""; /* the question that `version` answers */
let asked = 0; /* how many have been asked: an answer that comes after that to a later one is late */
let found = null; /* the last answer */
let listed = []; /* its sessions, as they are sorted */
let rendered = 0;
let sorting = { column: DAY, falls: true };

function renderHead() {
  place("head").replaceChildren(...headOf(found.columns).children);
  [...place("head").children].forEach((heading, column) => {
    const isSorted = sorting.column === column;
    const button = html("button", { type: "button" }, heading.textContent);
    button.append(html("span", { "aria-hidden": "true" }, isSorted ? (sorting.falls ? " ↓" : " ↑") : ""));
    button.addEventListener("click", () => {
      sorting = { column, falls: isSorted ? !sorting.falls : true };
      list();
      place("head").querySelectorAll("button")[column].focus();
    });
    if (isSorted) heading.setAttribute("aria-sort", sorting.falls ? "descending" : "ascending");
    heading.replaceChildren(button);
  });
}

function renderRow({ key, cells }) {
  const row = fillRow(html("tr", key === chosenKey() ? { class: "current" } : {}), found.columns, cells);
  row.dataset.key = key;
  return row;
}

const renderGroup = (title) => html("tr", { class: "day" },
  html("th", { scope: "rowgroup", colspan: String(found.columns.length) }, title));

/* Adds rows until there are so many; by date, each day has a row of its own above. */
function renderUntil(count) {
  const rows = [];
  for (; rendered < Math.min(count, listed.length); rendered += 1) {
    const [before, one] = [listed[rendered - 1], listed[rendered]];
    if (sorting.column === DAY && (!before || before.group !== one.group)) {
      rows.push(renderGroup(one.group));
    }
    rows.push(renderRow(one));
  }
  place("rows").append(...rows);
}

/* Lists what the filters leave; `again` is the same list after something new, where it was. */
function list(again = false) {
  const sign = sorting.falls ? -1 : 1;
  const rank = (one) => (sorting.column === DAY && one.running ? 0 : 1);
  const of = ({ order }) => order[sorting.column];
  listed.sort((a, b) => rank(a) - rank(b) || sign * (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0));
  const [most, top] = again ? [Math.max(PAGE, rendered), place("list").scrollTop] : [PAGE, 0];
  const focused = place("list").contains(document.activeElement)
    ? document.activeElement.getAttribute("href") : null;
  rendered = 0;
  if (!again) renderHead();
  place("rows").replaceChildren();
  renderUntil(most);
  place("list").scrollTop = top;
  if (focused) place("rows").querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function showDays(parts) {
  place("days").hidden = !parts.length;
  place("by-day").replaceChildren(...draw(parts));
  redraw();
}

/* Shows the session that the address names, whether the filters leave it or not; `again` where its
   requests have become more. */
let shown = { key: null, last: null };

async function choose(again = false) {
  const key = chosenKey();
  if (key && document.querySelector(`section[id="${CSS.escape(key)}"]`)) return;
  for (const row of place("rows").children) row.classList.toggle("current", row.dataset.key === key);
  place("chosen").hidden = !key;
  if (!key) return;
  const listing = listed.find((one) => one.key === key);
  if (again && key === shown.key && (!listing || listing.last === shown.last)) return;
  if (!again) {
    showOne([{ part: "text", text: "Reading its records.", class: "note" }]);
    goToOne();
  }
  const zone = new Date().getTimezoneOffset();
  const answer = await fetch(`/sessions/${encodeURIComponent(key)}?zone=${zone}`).catch(() => null);
  const one = answer && answer.ok ? await answer.json() : { title: null };
  if (key !== chosenKey()) return;
  place("chosen").hidden = !one.title;
  if (!one.title) return;
  shown = { key, last: one.last };
  place("one-title").textContent = one.title;
  place("about").replaceChildren(...one.facts.map(([name, ...content]) => {
    const isLong = content.some((each) => (each.text ?? each).length > 60);
    return html("div", isLong ? { class: "long" } : {},
      html("dt", {}, name), html("dd", {}, ...content.flatMap(cell)));
  }));
  showOne(one.parts, again);
}

function showRunning({ text, pages }) {
  place("running").hidden = !text;
  place("running").replaceChildren(text, ...pages.flatMap((each, at) => [at ? "; " : " ", ...cell(each)]));
}

function options(name, values) {
  const chosen = place(name).value;
  place(name).replaceChildren(html("option", { value: "" }, "all"),
    ...values.map((value) => html("option", { value }, value)));
  place(name).value = chosen;
}

/* Asks for what the filters leave: all of it for a new question, else what has changed. */
async function read() {
  const isFirst = !version;
  const [search, agent, model, days] = ["search", "agent", "model", "since"].map((name) => place(name).value);
  const question = new URLSearchParams({ search, agent, model, days, zone: new Date().getTimezoneOffset() }).toString();
  const known = question === told ? version : "";
  const number = asked += 1;
  const answer = await fetch(`/sessions?${question}&known=${known}`).catch(() => null);
  if (!answer || !answer.ok) {
    fill("problem", !isFirst ? "What served this page has ended; what it showed stays here."
      : "The history cannot be read: its file, history.sqlite3 in the state folder, says no more.");
    if (isFirst) place("net").textContent = "No history";
    return;
  }
  const news = await answer.json();
  if (number !== asked) return;
  fill("problem", "");
  if (question === told && news.version === version) return;
  const again = question === told;
  [version, told] = [news.version, question];
  if (isFirst && news.all && !news.sessions.length) { /* none is recent: show the older ones */
    place("since").value = "";
    await read();
    return;
  }
  [found, listed] = [news, news.sessions];
  showRunning(news.running);
  place("start").hidden = Boolean(news.all);
  for (const name of ["sessions", "terms"]) place(name).hidden = !news.all;
  for (const [name, text] of Object.entries(news.texts)) fill(name, text);
  document.title = `${news.texts.net} - history`;
  if (!news.all) return;
  options("agent", news.agents);
  options("model", news.models);
  list(again && place("rows").children.length > 0);
  showDays(news.days);
  choose(again);
}

const SECONDS_BETWEEN_READINGS = 5;

for (const name of ["search", "agent", "model", "since"]) {
  place(name).addEventListener(name === "search" ? "input" : "change", read);
}
place("filters").addEventListener("submit", (event) => event.preventDefault());
place("list").addEventListener("scroll", ({ target }) => {
  if (target.scrollTop + target.clientHeight > target.scrollHeight - 400) renderUntil(rendered + PAGE);
});
addEventListener("hashchange", () => choose());
read();
setInterval(() => { if (!document.hidden) read(); }, SECONDS_BETWEEN_READINGS * 1000);
