/* The history: what all sessions came to by day, a table of them, and one of them in full. Thousands
   of sessions are filtered and sorted in memory; only the rows that are looked at become elements. */

const PAGE = 100;
const DAY = 86_400_000;
const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const dayOf = (time) => { const day = new Date(time); day.setHours(0, 0, 0, 0); return day.getTime(); };
const nameDay = (time) => new Date(time).toLocaleDateString("en-US",
  { weekday: "short", month: "short", day: "numeric", year: "numeric" });

let sessions = [];
let listed = []; /* those that the filters leave, as they are sorted */
let rendered = 0;
let sorting = { column: "last", falls: true };

/* Money. Amounts are as the lines in a terminal have them: two digits that count below ten cents. */

function dollars(value) {
  const amount = Math.abs(value);
  if (amount < 0.000001) return "$0";
  const digits = amount >= 1000 ? 0 : amount >= 0.1 ? 2 : 1 - Math.floor(Math.log10(amount));
  const places = amount >= 0.1 ? digits : 0;
  const text = amount.toLocaleString("en-US",
    { minimumFractionDigits: places, maximumFractionDigits: digits });
  return `${value < 0 ? "−" : ""}$${text}`;
}

const amountOf = ({ unit }, value) => (unit === "usd" ? dollars(value) : whole(value));
const saved = ({ before, after }) => before - after;
const isCertain = (one) => saved(one) !== 0 && Math.abs(saved(one)) > one.error;
const share = (part, all) => (all ? `${Math.round((part / all) * 100)}%` : "");

/* The columns: what a cell says, and by what it is sorted. A column without `of` cannot be sorted. */

const COLUMNS = [
  { key: "last", title: "Session", of: (one) => Date.parse(one.last), cell: nameSession },
  { key: "folder", title: "Folder", wide: true, text: true, of: (one) => one.folder || one.tag || "",
    cell: (one) => one.folder || one.tag || "" },
  { key: "requests", title: "Requests", of: (one) => one.requests, cell: (one) => whole(one.requests) },
  { key: "failed", title: "Failed", wide: true, of: (one) => one.failed,
    cell: (one) => (one.failed ? whole(one.failed) : "") },
  { key: "cached", title: "From cache", wide: true, of: (one) => one.cached ?? -1,
    cell: (one) => (one.cached === null ? "" : `${Math.round(one.cached * 100)}%`) },
  { key: "wait", title: "Answer begins", wide: true, of: (one) => one.wait ?? -1,
    cell: (one) => (one.wait === null ? "" : `${one.wait.toFixed(1)} s`) },
  { key: "before", title: "Would have cost", wide: true, of: (one) => worth(one, one.before),
    cell: (one) => amountOf(one, one.before) },
  { key: "after", title: "Cost", of: (one) => worth(one, one.after),
    cell: (one) => amountOf(one, one.after) },
  { key: "saved", title: "Saved", of: (one) => worth(one, saved(one)), cell: showSaved },
];

/* Tokens without a price are sorted behind dollars. */
const worth = ({ unit }, value) => (unit === "usd" ? value : value * 1e-9);

function nameSession(one) {
  const link = html("a", { href: `#${encodeURIComponent(one.key)}` },
    `${clock(one.began)} ${one.agent || one.host}`);
  const parts = [link];
  if (one.state === "running") parts.push(" ", html("span", { class: "state" }, "running"));
  const about = [one.models.join(", ") || one.host];
  if (one.group) about.push("held out");
  else if (one.is_observed) about.push("only observed");
  parts.push(html("small", {}, about.join(", ")));
  const place = one.folder || one.tag;
  if (place) parts.push(html("small", { class: "narrow" }, place));
  if (one.why) parts.push(html("small", { class: "why" }, `nothing masked: ${one.why}`));
  return parts;
}

function showSaved(one) {
  if (!one.before) return "";
  if (!isCertain(one)) return "about 0";
  const text = `${amountOf(one, saved(one))} (${share(Math.abs(saved(one)), one.before)})`;
  const parts = [html("span", saved(one) < 0 ? { class: "loss" } : {}, text)];
  if (one.error) parts.push(html("small", {}, `±${amountOf(one, one.error)}`));
  if (one.unit !== "usd") parts.push(html("small", {}, "input tokens' worth"));
  if (one.is_observed) parts.push(html("small", {}, "would be saved"));
  return html("span", {}, ...parts);
}

/* The table. */

function renderHead() {
  place("head").replaceChildren(...COLUMNS.map(({ key, title, wide, text }) => {
    const isSorted = sorting.column === key;
    const button = html("button", { type: "button" }, title);
    button.append(html("span", { "aria-hidden": "true" }, isSorted ? (sorting.falls ? " ↓" : " ↑") : ""));
    button.addEventListener("click", () => {
      sorting = { column: key, falls: isSorted ? !sorting.falls : true };
      list();
      place("head").querySelectorAll("button")[COLUMNS.findIndex((each) => each.key === key)].focus();
    });
    const order = isSorted ? { "aria-sort": sorting.falls ? "descending" : "ascending" } : {};
    const kind = [wide && "wide", text && "text"].filter(Boolean).join(" ");
    return html("th", { scope: "col", ...order, ...(kind ? { class: kind } : {}) }, button);
  }));
}

function renderRow(one) {
  const cells = COLUMNS.map(({ cell, wide, text }, at) => {
    const kind = [wide && "wide", text && "text"].filter(Boolean).join(" ");
    const found = [cell(one)].flat();
    return at ? html("td", kind ? { class: kind } : {}, ...found)
      : html("th", { scope: "row" }, ...found);
  });
  const row = html("tr", one.key === chosenKey() ? { class: "current" } : {}, ...cells);
  row.dataset.key = one.key;
  return row;
}

function renderDay(day) {
  const of = listed.filter((one) => dayOf(one.last) === day);
  const title = `${nameDay(day)}: ${plural(of.length, "session")}`;
  return html("tr", { class: "day" }, html("th", { scope: "rowgroup", colspan: String(COLUMNS.length) },
    title));
}

/* Adds rows until there are so many; by date, each day has a row of its own above. */
function renderUntil(count) {
  const rows = [];
  const byDay = sorting.column === "last";
  for (const one of listed.slice(rendered, count)) {
    const day = dayOf(one.last);
    const before = listed[listed.indexOf(one, rendered) - 1];
    if (byDay && one.state !== "running" && (!before || before.state === "running" || dayOf(before.last) !== day)) {
      rows.push(renderDay(day));
    }
    rows.push(renderRow(one));
    rendered += 1;
  }
  place("rows").append(...rows);
}

function list() {
  const words = place("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [agent, model, days] = ["agent", "model", "since"].map((name) => place(name).value);
  const oldest = days ? dayOf(Date.now()) - (Number(days) - 1) * DAY : -Infinity;
  listed = sessions.filter((one) => Date.parse(one.last) >= oldest
    && (!agent || one.agent === agent) && (!model || one.models.includes(model))
    && words.every((word) => one.searched.includes(word)));
  const { of } = COLUMNS.find(({ key }) => key === sorting.column);
  const sign = sorting.falls ? -1 : 1;
  const rank = (one) => (sorting.column === "last" && one.state === "running" ? 0 : 1);
  listed.sort((a, b) => rank(a) - rank(b) || sign * (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0));
  rendered = 0;
  renderHead();
  place("rows").replaceChildren();
  place("list").scrollTop = 0;
  renderUntil(PAGE);
  place("counted").textContent = listed.length === sessions.length
    ? `${plural(sessions.length, "session")}.`
    : `${whole(listed.length)} of ${plural(sessions.length, "session")}.`;
  showSum();
  showDays();
}

/* What the listed sessions came to. Those without a price, and those only observed, are apart. */
function showSum() {
  const masked = listed.filter((one) => !one.is_observed && one.requests);
  const priced = masked.filter((one) => one.unit === "usd" && one.before);
  const others = masked.filter((one) => one.unit !== "usd" && one.before);
  const shown = priced.length || !others.length ? priced : others;
  const unit = { unit: shown === others ? "input_tokens" : "usd" };
  const [before, after, error] = ["before", "after", "error"].map((name) =>
    sum(shown.map((one) => one[name])));
  const about = shown.some((one) => one.about) ? "about " : "";
  const amount = (value) => `${about}${amountOf(unit, value)}${unit.unit === "usd" ? "" : " input tokens"}`;
  const difference = before - after;
  const isClear = Math.abs(difference) > error && difference !== 0;
  const headline = !shown.length ? "Nothing to sum up"
    : !isClear ? "About nothing saved"
    : `${amount(Math.abs(difference))} ${difference < 0 ? "lost" : "saved"}`;
  place("net").textContent = headline[0].toUpperCase() + headline.slice(1);
  place("line").textContent = shown.length
    ? `${plural(shown.length, "session")} of ${plural(sum(shown.map((one) => one.requests)), "request")} ` +
      `cost ${amount(after)}, and would have cost ${amount(before)}` +
      `${isClear ? ` (${share(Math.abs(difference), before)}, ±${amountOf(unit, error)})` : ""}.`
    : "";
  const apart = [
    shown === priced && others.length
      ? `${plural(others.length, "session")} without a known price ${others.length === 1 ? "is" : "are"} not in this.` : "",
    listed.length > masked.length
      ? `${plural(listed.length - masked.length, "session")} ${listed.length - masked.length === 1 ? "was" : "were"} only observed.` : "",
    shown.some((one) => one.is_plan) ? "A subscription pays for some; these are prices of the API." : "",
  ].filter(Boolean);
  place("unpriced").textContent = apart.join(" ");
  place("unpriced").hidden = !apart.length;
}

/* The chart: a bar for each day, what its sessions would have cost, and over it what they cost. */
function showDays() {
  forget();
  const priced = listed.filter((one) => one.unit === "usd" && !one.is_observed);
  place("days").hidden = !priced.length;
  if (!priced.length) return;
  const found = new Map();
  for (const one of priced) {
    const day = dayOf(one.last);
    const of = found.get(day) || { before: 0, after: 0, count: 0 };
    found.set(day, { before: of.before + one.before, after: of.after + one.after, count: of.count + 1 });
  }
  const first = Math.min(...found.keys());
  const days = [];
  for (let day = first; day <= dayOf(Date.now()); day = dayOf(day + 1.5 * DAY)) days.push(day);
  const values = days.map((day) => found.get(day) || { before: 0, after: 0, count: 0 });
  const [before, after] = ["before", "after"].map((name) => values.map((each) => each[name]));
  const top = highest(before.concat(after));
  place("by-day").replaceChildren(
    legend([["everything", "would have cost"], ["chosen", "cost"]]),
    chart("Cost by day", "What the sessions of each day cost, and would have cost unmasked.", {
      count: days.length, top, moves: [], heading: "h3", unit: "US dollars", axis: (value) => dollars(value),
      x: "Day", ticks: (ticks) => ticks.map((at) => (Number.isInteger(at) && days[at - 1]
        ? new Date(days[at - 1]).toLocaleDateString("en-US", { month: "short", day: "numeric" }) : "")),
      label: `Cost by day, over ${plural(days.length, "day")}.`,
      read: (at) => `${nameDay(days[at])}: ${plural(values[at].count, "session")} cost ` +
        `${dollars(after[at])}, and would have cost ${dollars(before[at])}`,
      series: [bars("would have cost", "everything"), bars("cost", "chosen")],
      values: [before, after],
    }));
  redraw();
}

/* One session. */

const chosenKey = () => decodeURIComponent(location.hash.slice(1));

async function choose() {
  const one = sessions.find(({ key }) => key === chosenKey());
  place("chosen").hidden = !one;
  for (const row of place("rows").children) row.classList.toggle("current", row.dataset.key === chosenKey());
  if (!one) return;
  place("one-title").textContent = `${one.agent || one.host}, ${nameDay(one.began)}`;
  const span = `${clock(one.began)} to ${clock(one.last)}`;
  const facts = [span, one.state, plural(one.requests, "request"),
    `${whole(one.masked)} of ${plural(one.results, "tool result")} masked in the longest`,
    one.conversations > 1 ? plural(one.conversations, "conversation") : "", one.models.join(", ")];
  place("about").textContent = `${facts.filter(Boolean).join("; ")}.`;
  place("one").replaceChildren(html("p", { class: "note" }, "Reading its records."));
  place("one-title").focus();
  place("one-title").scrollIntoView();
  const answer = await fetch(`/sessions/${encodeURIComponent(one.key)}`).catch(() => null);
  const { conversations } = answer && answer.ok ? await answer.json() : { conversations: [] };
  if (one.key !== chosenKey()) return;
  showDays(); /* forgets the drawings of the session before */
  place("one").replaceChildren(...(conversations.length
    ? conversations.flatMap((each) => showConversation(each))
    : [html("p", { class: "note" }, "The records of its requests are gone: they are rotated at " +
      "metrics.max_megabytes. Its sums stay here.")]));
  redraw();
}

/* All of it. */

function options(name, every, values) {
  const found = [...new Set(values.filter(Boolean))].sort();
  place(name).replaceChildren(html("option", { value: "" }, every),
    ...found.map((value) => html("option", { value }, value)));
}

function showRunning(running) {
  const pages = running.map(({ run, tag, page }) => {
    const name = tag || run;
    return page ? html("a", { href: page }, name) : name;
  });
  place("running").hidden = !pages.length;
  place("running").replaceChildren(`${plural(pages.length, "proxy").replace("proxys", "proxies")} running: `,
    ...pages.flatMap((each, at) => (at ? [", ", each] : [each])), ".");
}

async function read() {
  const answer = await fetch("/sessions").catch(() => null);
  if (!answer || !answer.ok) {
    place("net").textContent = "No history";
    place("problem").hidden = false;
    place("problem").textContent = "The history cannot be read: obsmask doctor says why.";
    return;
  }
  const { columns, sessions: rows, running } = await answer.json();
  sessions = rows.map((values) => Object.fromEntries(columns.map((name, at) => [name, values[at]])));
  for (const one of sessions) {
    one.searched = [one.folder, one.tag, one.agent, one.host, one.key, ...one.models]
      .filter(Boolean).join(" ").toLowerCase();
  }
  showRunning(running);
  place("start").hidden = Boolean(sessions.length);
  place("sessions").hidden = !sessions.length;
  if (!sessions.length) {
    place("net").textContent = "Nothing has passed yet";
    return;
  }
  options("agent", "all", sessions.map(({ agent }) => agent));
  options("model", "all", sessions.flatMap(({ models }) => models));
  const recent = dayOf(Date.now()) - 29 * DAY;
  if (!sessions.some(({ last }) => Date.parse(last) >= recent)) place("since").value = "";
  list();
  choose();
}

for (const name of ["search", "agent", "model", "since"]) {
  place(name).addEventListener(name === "search" ? "input" : "change", list);
}
place("filters").addEventListener("submit", (event) => event.preventDefault());
place("list").addEventListener("scroll", ({ target }) => {
  if (target.scrollTop + target.clientHeight > target.scrollHeight - 400) renderUntil(rendered + PAGE);
});
addEventListener("hashchange", choose);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let width = document.body.clientWidth;
new ResizeObserver(() => {
  if (width !== (width = document.body.clientWidth)) requestAnimationFrame(redraw);
}).observe(document.body);
read();
