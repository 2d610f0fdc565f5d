/* The history: what all sessions came to by day, a table of them, and one of them in full. Thousands
   of sessions are filtered and sorted in memory; only the rows that are looked at become elements. */

const PAGE = 100;
const DAY = 86_400_000;
const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const dayOf = (time) => { const day = new Date(time); day.setHours(0, 0, 0, 0); return day.getTime(); };
const nameDay = (time) => new Date(time).toLocaleDateString("en-US",
  { weekday: "short", month: "short", day: "numeric", year: "numeric" });

let version = "";
let sessions = [];
let listed = []; /* those that the filters leave, as they are sorted */
let rendered = 0;
let sorting = { column: "last", falls: true };

/* Money, as the lines in a terminal tell it: no fractions of a cent from ten cents on, and two digits
   that count below. */

function dollars(value) {
  const exact = Math.abs(value);
  const amount = exact < 0.1 ? Number(exact.toPrecision(2)) : exact;
  if (amount < 0.000001) return "$0";
  const digits = amount >= 1000 ? 0 : amount >= 0.1 ? 2 : 1 - Math.floor(Math.log10(amount));
  const least = amount >= 0.1 ? digits : 0;
  const text = amount.toLocaleString("en-US",
    { minimumFractionDigits: least, maximumFractionDigits: digits });
  return `${value < 0 ? "−" : ""}$${text}`;
}

const bare = ({ unit }, value) => (unit === "usd" ? dollars(value) : whole(value));
const saved = ({ before, after }) => before - after;
const error = ({ steady, chance }) => steady + chance;
const isCertain = (one) => saved(one) !== 0 && Math.abs(saved(one)) > error(one);
const percent = (part, all) => `${Math.round((part / all) * 100)}%`;
/* What was paid: what is only observed was sent unmasked, and `after` is what it would have cost. */
const paid = (one) => (one.is_observed ? one.before : one.after);
const other = (one) => (one.is_observed ? one.after : one.before);

/* An amount alone: `$0.43`; about that at the price of another seller; else what it is worth. */
function amount(one, value) {
  if (one.unit !== "usd") return `${whole(value)} input tokens`;
  return one.sellers.length ? `about ${dollars(value)}` : dollars(value);
}

/* Some bills in one unit, as one. Errors in sizes have one direction; chance evens out. */
function addUp(some) {
  const total = (name) => sum(some.map((one) => one[name]));
  return { unit: some.length ? some[0].unit : "usd", before: total("before"), after: total("after"),
    steady: total("steady"), chance: Math.hypot(...some.map(({ chance }) => chance)),
    answers: total("answers"), requests: total("requests"),
    sellers: [...new Set(some.flatMap(({ sellers }) => sellers))],
    is_observed: some.some((one) => one.is_observed) };
}

/* `saved $0.12 (28% ±2)`; nothing where that is within its margin. */
function tellSaved(bill) {
  if (!isCertain(bill)) return "";
  const off = Math.round((error(bill) / bill.before) * 100);
  const would = bill.is_observed ? "would have " : "";
  return `${would}${saved(bill) < 0 ? "lost" : "saved"} ${bare(bill, Math.abs(saved(bill)))} ` +
    `(${percent(Math.abs(saved(bill)), bill.before)}${off ? ` ±${off}` : ""})`;
}

/* `input cost about $0.31, without masking about $0.43: saved $0.12 (28% ±2)`. */
function tellBill(bill) {
  const start = bill.unit === "usd" ? "input cost" : "input worth";
  const way = bill.is_observed ? "with" : "without";
  const cost = `${start} ${amount(bill, paid(bill))}`;
  if (!saved(bill)) return cost;
  if (!isCertain(bill)) return `${cost}, about as much as ${way} masking`;
  return `${cost}, ${way} masking ${amount(bill, other(bill))}: ${tellSaved(bill)}`;
}

/* The columns: what a cell says, and by what it is sorted. A column without `of` cannot be sorted. */

const COLUMNS = [
  { key: "last", title: "Session", of: (one) => Date.parse(one.last), cell: nameSession },
  { key: "folder", title: "Folder", wide: true, text: true, of: (one) => one.folder || one.tag || "",
    cell: (one) => one.folder || one.tag || "" },
  { key: "requests", title: "Requests", roomy: true, of: (one) => one.requests, cell: (one) => whole(one.requests) },
  { key: "failed", title: "Failed", wide: true, of: (one) => one.failed,
    cell: (one) => (one.failed ? whole(one.failed) : "") },
  { key: "cached", title: "From cache", wide: true, of: (one) => one.cached ?? -1,
    cell: (one) => (one.cached === null ? "" : `${Math.round(one.cached * 100)}%`) },
  { key: "wait", title: "Answer begins", wide: true, of: (one) => one.wait ?? -1,
    cell: (one) => (one.wait === null ? "" : `${one.wait.toFixed(1)} s`) },
  { key: "before", title: "Without masking", wide: true, of: (one) => worth(one, one.before),
    cell: (one) => (one.before ? bare(one, one.before) : "") },
  { key: "after", title: "With masking", of: (one) => worth(one, one.after), cell: showCost },
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
  const why = !one.why ? whyLost(one)
    : /: (a short session|short sessions)$/.test(one.why) ? "a short session: nothing masked"
    : `nothing masked: ${one.why}`;
  if (why) parts.push(html("small", { class: "why" }, why));
  return parts;
}

/* Why masking has cost more than it saved; once the session is over, nothing pays off any more. */
function whyLost(one) {
  if (!one.loss || !isCertain(one) || saved(one) > 0) return "";
  return one.state === "running" ? one.loss : "it ended before its last move of the boundary had paid off";
}

function showCost(one) {
  if (!one.before) return "";
  const parts = [one.unit === "usd" ? amount(one, one.after) : whole(one.after)];
  if (one.unit !== "usd") parts.push(html("small", {}, "input tokens' worth"));
  if (one.unpriced) parts.push(html("small", {}, `and ${plural(one.unpriced, "request")} without a price`));
  return html("span", {}, ...parts);
}

function showSaved(one) {
  if (!one.before) return "";
  if (!isCertain(one)) return saved(one) ? "about 0" : "0";
  const sign = saved(one) < 0 ? "−" : "";
  const text = `${bare(one, saved(one))} (${sign}${percent(Math.abs(saved(one)), one.before)})`;
  const parts = [html("span", saved(one) < 0 ? { class: "loss" } : {}, text)];
  if (one.is_observed) parts.push(html("small", {}, "would be"));
  return html("span", {}, ...parts);
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
  const [most, top] = again ? [Math.max(PAGE, rendered), place("list").scrollTop] : [PAGE, 0];
  const focused = again && place("list").contains(document.activeElement)
    ? document.activeElement.getAttribute("href") : null;
  rendered = 0;
  if (!again) renderHead();
  place("rows").replaceChildren();
  renderUntil(most);
  place("list").scrollTop = top;
  if (focused) place("rows").querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  place("counted").textContent = listed.length === sessions.length
    ? `${plural(sessions.length, "session")}.`
    : `${whole(listed.length)} of ${plural(sessions.length, "session")}.`;
  showSum();
  showDays();
}

/* What the listed sessions came to. Those without a price, and those only observed, are apart. */
function showSum() {
  const billed = listed.filter(({ before }) => before);
  const kind = (isObserved, unit) =>
    billed.filter((one) => one.is_observed === isObserved && one.unit === unit);
  const [priced, worth] = [kind(false, "usd"), kind(false, "input_tokens")];
  const main = priced.length ? priced : worth;
  const bill = addUp(main);
  const sign = saved(bill) < 0 ? "lost" : "saved";
  const headline = !main.length ? "Nothing masked"
    : !isCertain(bill) ? "About nothing saved"
    : `${amount(bill, Math.abs(saved(bill)))} (${percent(Math.abs(saved(bill)), bill.before)}) ${sign}`;
  place("net").textContent = headline[0].toUpperCase() + headline.slice(1);
  document.title = `${place("net").textContent} - history`;
  const answers = bill.answers ? `; output cost ${dollars(bill.answers)} either way` : "";
  place("line").textContent = main.length
    ? `${plural(main.length, "session")}, ${plural(bill.requests, "request")}; ${tellBill(bill)}${answers}.` : "";
  const borrowed = main.filter(({ sellers }) => sellers.length);
  const observed = kind(true, "usd");
  const plans = main.filter((one) => one.is_plan);
  const apart = [
    borrowed.length ? `${plural(borrowed.length, "session")} at the list price of the model's vendor ` +
      `(${bill.sellers.join(", ")}), because the host's own isn't known.` : "",
    plans.length ? `A subscription pays for ${whole(plans.length)} of them; that is what the API would cost.` : "",
    main === priced && worth.length
      ? `Without a known price, and not in this: ${plural(worth.length, "session")}, ${tellBill(addUp(worth))}.` : "",
    observed.length
      ? `Only observed, and not in this: ${plural(observed.length, "session")}, ${tellBill(addUp(observed))}.` : "",
  ].filter(Boolean);
  place("unpriced").textContent = apart.join(" ");
  place("unpriced").hidden = !apart.length;
}

/* The chart: a bar for each day, what its sessions would have cost, and over it what they cost. Its
   drawings are kept apart from those of the session below, which are forgotten with it. */
let dayDrawings = [];
let dayEndings = [];

function showDays() {
  dayEndings.forEach((each) => each());
  [dayDrawings, dayEndings] = [[], []];
  const priced = listed.filter((one) => one.unit === "usd" && !one.is_observed && one.before);
  place("days").hidden = !priced.length;
  if (!priced.length) return;
  const byDay = new Map();
  for (const one of priced) {
    const day = dayOf(one.last);
    byDay.set(day, [...(byDay.get(day) || []), one]);
  }
  const days = [];
  for (let day = Math.min(...byDay.keys()); day <= dayOf(Date.now()); day = dayOf(day + 1.5 * DAY)) days.push(day);
  const bills = days.map((day) => addUp(byDay.get(day) || []));
  const [before, after] = [bills.map((bill) => bill.before), bills.map((bill) => bill.after)];
  const bar = (label, name) => ({ ...bars(label, name), paths: uPlot.paths.bars({ size: [0.8, 40] }) });
  const [drawn, ended] = [drawings.length, endings.length];
  place("by-day").replaceChildren(
    chart("Cost by day", "What the sessions of each day cost, and what they would have cost without masking.", {
      count: days.length, top: highest(before.concat(after)), moves: [], heading: "h2",
      unit: "US dollars", axis: (value) => dollars(value), x: "Day",
      ticks: (ticks) => ticks.map((at) => (Number.isInteger(at) && days[at - 1]
        ? new Date(days[at - 1]).toLocaleDateString("en-US", { month: "short", day: "numeric" }) : "")),
      label: `Cost by day, over ${plural(days.length, "day")}.`,
      read: (at) => `${nameDay(days[at])}: ${plural((byDay.get(days[at]) || []).length, "session")}, ` +
        tellBill(bills[at]),
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

function listFacts(one) {
  const off = error(one) ? ` ±${bare(one, error(one))}` : "";
  const masked = saved(one) - one.arrival;
  const money = one.before ? [
    ["Input cost", `${amount(one, paid(one))}${one.sellers.length ? `, at the price of ${one.sellers.join(", ")}` : ""}`],
    [one.is_observed ? "With masking" : "Without masking", amount(one, other(one))],
    [saved(one) < 0 ? "Lost" : one.is_observed ? "Would be saved" : "Saved", isCertain(one)
      ? `${bare(one, Math.abs(saved(one)))}${off} (${percent(Math.abs(saved(one)), one.before)})`
      : saved(one) ? "about 0" : "0"],
    ["Of that at arrival", one.arrival ? bare(one, one.arrival) : ""],
    [masked < 0 ? "Lost by masking" : "Of that by masking",
      one.arrival ? bare(one, Math.abs(masked)) : ""],
    ["Output", one.answers ? `${dollars(one.answers)} either way` : ""],
    ["Without a price", one.unpriced ? plural(one.unpriced, "request") : ""],
  ] : [];
  return [
    ["Began", `${nameDay(one.began)}, ${clock(one.began)}`],
    ["Last request", `${dayOf(one.last) === dayOf(one.began) ? "" : `${nameDay(one.last)}, `}${clock(one.last)}`],
    ["State", [one.state, one.group ? "held out" : one.is_observed ? "only observed" : ""].filter(Boolean).join(", ")],
    ["Folder", one.folder], ["Tag", one.tag], ["Model", one.models.join(", ")], ["Host", one.host],
    ["Requests", `${whole(one.requests)}${one.failed ? `, ${whole(one.failed)} failed` : ""}`],
    ["Conversations", one.conversations > 1 ? whole(one.conversations) : ""],
    ["Tool turns", whole(one.turns)],
    ["Results masked", `${whole(one.masked)} of ${whole(one.results)}`],
    ["Results shortened", one.shortened ? whole(one.shortened) : ""],
    ["Shortened, and repeated", one.arrival_rereads ? plural(one.arrival_rereads, "call") : ""],
    ["Left out, and quoted", one.arrival_quotes ? plural(one.arrival_quotes, "call") : ""],
    ["From cache", one.cached === null ? "" : percent(one.cached, 1)],
    ["Answer begins", one.wait === null ? "" : `${one.wait.toFixed(1)} s (p50)`],
    ...money,
    ["Why", one.why ? `nothing masked: ${one.why}` : whyLost(one)],
  ].filter(([, text]) => text);
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

/* Shows the session that the address names; `again` where its requests have become more. */
async function choose(again = false) {
  if (location.hash && document.querySelector(`section[id="${CSS.escape(chosenKey())}"]`)) return;
  const one = sessions.find(({ key }) => key === chosenKey());
  place("chosen").hidden = !one;
  for (const row of place("rows").children) row.classList.toggle("current", row.dataset.key === chosenKey());
  if (!one || (again && one.key === shown.key && one.last === shown.last)) return;
  shown = { key: one.key, last: one.last };
  place("one-title").textContent = `${one.agent || one.host}${one.folder ? ` in ${one.folder}` : ""}, ${nameDay(one.began)}`;
  place("about").replaceChildren(...listFacts(one).map(([name, text]) =>
    html("div", {}, html("dt", {}, name), html("dd", {}, text))));
  place("live").hidden = !one.page;
  if (one.page) place("live").replaceChildren("It is running: ", html("a", { href: one.page }, "see it live"), ".");
  if (!again) {
    forget();
    place("one").replaceChildren(html("p", { class: "note" }, "Reading its records."));
    place("one-title").focus();
    place("one-title").scrollIntoView();
  }
  const answer = await fetch(`/sessions/${encodeURIComponent(one.key)}`).catch(() => null);
  const { conversations } = answer && answer.ok ? await answer.json() : { conversations: [] };
  if (one.key !== chosenKey()) return;
  forget();
  place("one").replaceChildren(...(conversations.length
    ? showConversations(conversations)
    : [html("p", { class: "note" }, "The records of its requests are gone: older ones are dropped at " +
      "metrics.max_megabytes. What it came to stays here.")]));
  redraw();
}

/* All of it. */

function options(name, every, values) {
  const found = [...new Set(values.filter(Boolean))].sort();
  place(name).replaceChildren(html("option", { value: "" }, every),
    ...found.map((value) => html("option", { value }, value)));
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

/* Reads what has changed; the first time, all of it. */
async function read() {
  const isFirst = !version;
  const answer = await fetch(`/sessions?known=${version}`).catch(() => null);
  if (!answer || !answer.ok) {
    place("problem").hidden = false;
    place("problem").textContent = !isFirst ? "What served this page has ended; what it showed stays here."
      : "The history cannot be read: its file, history.sqlite3 in the state folder, says no more.";
    if (isFirst) place("net").textContent = "No history";
    return;
  }
  const told = await answer.json();
  place("problem").hidden = true;
  if (told.version === version) return;
  version = told.version;
  sessions = told.sessions.map((values) => Object.fromEntries(told.columns.map((name, at) => [name, values[at]])));
  for (const one of sessions) {
    one.searched = [one.folder, one.tag, one.agent, one.host, one.key, one.state, ...one.models]
      .filter(Boolean).join(" ").toLowerCase();
  }
  showRunning(told.running);
  place("start").hidden = Boolean(sessions.length);
  for (const name of ["sessions", "terms"]) place(name).hidden = !sessions.length;
  if (!sessions.length) {
    place("net").textContent = "No session yet";
    return;
  }
  for (const [name, values] of [["agent", sessions.map(({ agent }) => agent)],
    ["model", sessions.flatMap(({ models }) => models)]]) {
    const chosen = place(name).value;
    options(name, "all", values);
    place(name).value = chosen;
  }
  if (isFirst) {
    const recent = dayOf(Date.now()) - 29 * DAY;
    if (!sessions.some(({ last }) => Date.parse(last) >= recent)) place("since").value = "";
  }
  list(!isFirst && place("rows").children.length > 0);
  choose(!isFirst);
}

const SECONDS_BETWEEN_READINGS = 5;

for (const name of ["search", "agent", "model", "since"]) {
  place(name).addEventListener(name === "search" ? "input" : "change", () => list());
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
