/* The history: what all sessions came to by day, a table of them, and one of them in full. The server
   chooses the sessions, adds them up and puts them into words; only the rows that are looked at
   become elements. */

const PAGE = 100;
const DAY = 86_400_000;
const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const dayOf = (time) => { const day = new Date(time); day.setHours(0, 0, 0, 0); return day.getTime(); };
const nameDay = (time) => new Date(time).toLocaleDateString("en-US",
  { weekday: "short", month: "short", day: "numeric", year: "numeric" });

const named = (columns, values) => Object.fromEntries(columns.map((name, at) => [name, values[at]]));

let version = "";
let told = ""; /* the question that `version` answers */
let asked = 0; /* how many have been asked: an answer that comes after that to a later one is late */
let listed = []; /* those that the filters leave, as they are sorted */
let rendered = 0;
let sorting = { column: "last", falls: true };

/* The columns: what a cell says, and by what it is sorted. A column without `of` cannot be sorted. */

const COLUMNS = [
  { key: "last", title: "Session", of: (one) => Date.parse(one.last), cell: nameSession },
  { key: "folder", title: "Folder", wide: true, text: true, of: (one) => one.place,
    cell: (one) => one.place },
  { key: "requests", title: "Requests", roomy: true, of: (one) => one.requests, cell: (one) => whole(one.requests) },
  { key: "failed", title: "Failed", wide: true, of: (one) => one.failed,
    cell: (one) => (one.failed ? whole(one.failed) : "") },
  { key: "cached", title: "From cache", wide: true, of: (one) => one.cached ?? -1,
    cell: (one) => (one.cached === null ? "" : `${Math.round(one.cached * 100)}%`) },
  { key: "wait", title: "Answer begins", wide: true, of: (one) => one.wait ?? -1,
    cell: (one) => (one.wait === null ? "" : `${one.wait.toFixed(1)} s`) },
  { key: "before", title: "Without masking", wide: true, of: (one) => one.worth[0], cell: (one) => one.before },
  { key: "after", title: "With masking", of: (one) => one.worth[1], cell: ({ after }) => stack(after) },
  { key: "saved", title: "Saved", of: (one) => one.worth[2],
    cell: ({ saved, is_loss }) => stack(saved, is_loss) },
];

/* What a cell says, and below it, in small, what there is to know of that. */
function stack([text, ...below], isLoss = false) {
  const first = html("span", isLoss ? { class: "loss" } : {}, text || "");
  return html("span", {}, first, ...below.map((each) => html("small", {}, each)));
}

function nameSession(one) {
  const link = html("a", { href: `#${encodeURIComponent(one.key)}` }, `${clock(one.began)} ${one.name}`);
  const parts = [link];
  if (one.state === "running") parts.push(" ", html("span", { class: "state" }, "running"));
  parts.push(html("small", {}, one.about));
  if (one.place) parts.push(html("small", { class: "narrow" }, one.place));
  if (one.why) parts.push(html("small", { class: "why" }, one.why));
  return parts;
}

/* The table. Columns that are `wide` or `roomy` are left out on a narrow screen, or a very narrow one. */

function kindOf(column) {
  const found = ["wide", "roomy", "text"].filter((name) => column[name]);
  return found.length ? { class: found.join(" ") } : {};
}

function renderHead() {
  place("head").replaceChildren(...COLUMNS.map(({ key, title, ...column }) => {
    const isSorted = sorting.column === key;
    const button = html("button", { type: "button" }, title);
    button.append(html("span", { "aria-hidden": "true" }, isSorted ? (sorting.falls ? " ↓" : " ↑") : ""));
    button.addEventListener("click", () => {
      sorting = { column: key, falls: isSorted ? !sorting.falls : true };
      list();
      place("head").querySelectorAll("button")[COLUMNS.findIndex((each) => each.key === key)].focus();
    });
    const order = isSorted ? { "aria-sort": sorting.falls ? "descending" : "ascending" } : {};
    return html("th", { scope: "col", ...order, ...kindOf(column) }, button);
  }));
}

function renderRow(one) {
  const cells = COLUMNS.map(({ cell, ...column }, at) => {
    const found = [cell(one)].flat();
    return at ? html("td", kindOf(column), ...found)
      : html("th", { scope: "row" }, ...found);
  });
  const row = html("tr", one.key === chosenKey() ? { class: "current" } : {}, ...cells);
  row.dataset.key = one.key;
  return row;
}

function renderTitle(title) {
  return html("tr", { class: "day" },
    html("th", { scope: "rowgroup", colspan: String(COLUMNS.length) }, title));
}

function nameGroup(one) {
  if (one.state === "running") {
    return `Running: ${plural(listed.filter(({ state }) => state === "running").length, "session")}`;
  }
  const day = dayOf(one.last);
  const of = listed.filter(({ last, state }) => state !== "running" && dayOf(last) === day);
  return `${nameDay(day)}: ${plural(of.length, "session")}`;
}

/* Adds rows until there are so many; by date, each day has a row of its own above. */
function renderUntil(count) {
  const rows = [];
  const group = (one) => (one.state === "running" ? "running" : dayOf(one.last));
  for (; rendered < Math.min(count, listed.length); rendered += 1) {
    const [before, one] = [listed[rendered - 1], listed[rendered]];
    if (sorting.column === "last" && (!before || group(before) !== group(one))) {
      rows.push(renderTitle(nameGroup(one)));
    }
    rows.push(renderRow(one));
  }
  place("rows").append(...rows);
}

/* Lists what the filters leave; `again` is the same list after something new, where it was. */
function list(again = false) {
  const { of } = COLUMNS.find(({ key }) => key === sorting.column);
  const sign = sorting.falls ? -1 : 1;
  const rank = (one) => (sorting.column === "last" && one.state === "running" ? 0 : 1);
  listed.sort((a, b) => rank(a) - rank(b) || sign * (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0));
  const [most, top] = again ? [Math.max(PAGE, rendered), place("list").scrollTop] : [PAGE, 0];
  const focused = again && place("list").contains(document.activeElement)
    ? document.activeElement.getAttribute("href") : null;
  rendered = 0;
  if (!again) renderHead();
  place("rows").replaceChildren();
  renderUntil(most);
  place("list").scrollTop = top;
  if (focused) place("rows").querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

/* What the listed sessions came to. */
function showSum({ title, line, apart }) {
  place("net").textContent = title;
  document.title = `${title} - history`;
  place("line").textContent = line;
  place("unpriced").textContent = apart;
  place("unpriced").hidden = !apart;
}

/* The chart: a bar for each day, what its sessions would have cost, and over it what they cost. Its
   drawings are kept apart from those of the session below, which are forgotten with it. */
let dayDrawings = [];
let dayEndings = [];

function showDays(days) {
  dayEndings.forEach((each) => each());
  [dayDrawings, dayEndings] = [[], []];
  place("days").hidden = !days.length;
  if (!days.length) return;
  const [before, after] = [days.map((each) => each.before), days.map((each) => each.after)];
  const top = highest(before.concat(after));
  const bar = (label, name) => ({ ...bars(label, name), paths: uPlot.paths.bars({ size: [0.8, 40] }) });
  const [drawn, ended] = [drawings.length, endings.length];
  place("by-day").replaceChildren(
    chart("Cost by day", "What the sessions of each day cost, and what they would have cost without masking.", {
      count: days.length, top, moves: [], heading: "h2",
      unit: "US dollars", axis: money("usd", top), x: "Day",
      ticks: (ticks) => ticks.map((at) => (Number.isInteger(at) && days[at - 1]
        ? new Date(`${days[at - 1].day}T12:00`).toLocaleDateString("en-US", { month: "short", day: "numeric" }) : "")),
      label: `Cost by day, over ${plural(days.length, "day")}.`,
      read: (at) => days[at].text,
      series: [bar("without masking", "everything"), bar("with masking", "chosen")],
      values: [before, after],
    }),
    legend([["everything", "without masking"], ["chosen", "with masking, as it was paid"]]));
  dayDrawings = drawings.splice(drawn);
  dayEndings = endings.splice(ended);
  dayDrawings.forEach((each) => each());
}

/* One session. */

const chosenKey = () => decodeURIComponent(location.hash.slice(1));

let shown = { key: null, last: null };

function listTimes(one) {
  return [
    ["Began", `${nameDay(one.began)}, ${clock(one.began)}`],
    ["Last request", `${dayOf(one.last) === dayOf(one.began) ? "" : `${nameDay(one.last)}, `}${clock(one.last)}`],
    ["State", one.state],
  ];
}

/* The longest conversation of a session, and the others, as of its sub-agents, for who wants them. */
function showConversations(conversations) {
  const [longest, ...others] = conversations.sort((a, b) => b.requests - a.requests);
  return [...showConversation(longest, conversations.length > 1), ...others.map((one) => {
    const details = html("details", {}, html("summary", {}, `${one.names.join(", ")}: ${one.line}`));
    details.addEventListener("toggle", () => {
      const before = drawings.length;
      details.append(...showConversation(one, false));
      drawings.slice(before).forEach((each) => each());
    }, { once: true });
    return details;
  })];
}

/* Shows the session that the address names, whether the filters leave it or not; `again` where its
   requests have become more. */
async function choose(again = false) {
  const key = chosenKey();
  if (key && document.querySelector(`section[id="${CSS.escape(key)}"]`)) return;
  for (const row of place("rows").children) row.classList.toggle("current", row.dataset.key === key);
  place("chosen").hidden = !key;
  if (!key) return;
  const listing = listed.find((one) => one.key === key);
  if (again && key === shown.key && (!listing || listing.last === shown.last)) return;
  if (!again) {
    forget();
    place("one").replaceChildren(html("p", { class: "note" }, "Reading its records."));
    place("one-title").focus();
    place("one-title").scrollIntoView();
  }
  const answer = await fetch(`/sessions/${encodeURIComponent(key)}`).catch(() => null);
  const found = answer && answer.ok ? await answer.json() : { row: null };
  if (key !== chosenKey()) return;
  place("chosen").hidden = !found.row;
  if (!found.row) return;
  const one = named(found.columns, found.row);
  shown = { key, last: one.last };
  place("one-title").textContent = `${one.name}${one.place ? ` in ${one.place}` : ""}, ${nameDay(one.began)}`;
  place("about").replaceChildren(...[...listTimes(one), ...found.facts].map(([name, text]) =>
    html("div", {}, html("dt", {}, name), html("dd", {}, text))));
  place("live").hidden = !one.page;
  if (one.page) place("live").replaceChildren("It is running: ", html("a", { href: one.page }, "see it live"), ".");
  forget();
  place("one").replaceChildren(...(found.conversations.length
    ? showConversations(found.conversations)
    : [html("p", { class: "note" }, "The records of its requests are gone: older ones are dropped at " +
      "metrics.max_megabytes. What it came to stays here.")]));
  redraw();
}

/* All of it. */

function options(name, every, values) {
  place(name).replaceChildren(html("option", { value: "" }, every),
    ...values.map((value) => html("option", { value }, value)));
}

function showRunning(running) {
  const pages = running.map(({ run, tag, began, page }) => {
    const name = `${tag || run}, since ${clock(began)}`;
    return page ? html("a", { href: page }, name) : name;
  });
  place("running").hidden = !pages.length;
  place("running").replaceChildren(`${plural(pages.length, "proxy").replace("proxys", "proxies")} running: `,
    ...pages.flatMap((each, at) => (at ? ["; ", each] : [each])), ".");
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
    place("problem").hidden = false;
    place("problem").textContent = !isFirst ? "What served this page has ended; what it showed stays here."
      : "The history cannot be read: its file, history.sqlite3 in the state folder, says no more.";
    if (isFirst) place("net").textContent = "No history";
    return;
  }
  const found = await answer.json();
  if (number !== asked) return;
  place("problem").hidden = true;
  if (question === told && found.version === version) return;
  const again = question === told;
  [version, told] = [found.version, question];
  if (isFirst && found.all && !found.sessions.length) { /* none is recent: show the older ones */
    place("since").value = "";
    await read();
    return;
  }
  listed = found.sessions.map((values) => named(found.columns, values));
  showRunning(found.running);
  place("start").hidden = Boolean(found.all);
  for (const name of ["sessions", "terms"]) place(name).hidden = !found.all;
  if (!found.all) {
    place("net").textContent = "No session yet";
    return;
  }
  for (const [name, values] of [["agent", found.agents], ["model", found.models]]) {
    const chosen = place(name).value;
    options(name, "all", values);
    place(name).value = chosen;
  }
  place("counted").textContent = listed.length === found.all ? `${plural(found.all, "session")}.`
    : `${whole(listed.length)} of ${plural(found.all, "session")}.`;
  list(again && place("rows").children.length > 0);
  showSum(found.sum);
  showDays(found.days);
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
const redrawAll = () => { dayDrawings.forEach((each) => each()); redraw(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
let width = document.body.clientWidth;
new ResizeObserver(() => {
  if (width !== (width = document.body.clientWidth)) requestAnimationFrame(redrawAll);
}).observe(document.body);
read();
setInterval(() => { if (!document.hidden) read(); }, SECONDS_BETWEEN_READINGS * 1000);
