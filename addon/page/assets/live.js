/* Listens to the proxy: keeps a row for each conversation, and the one that is chosen up to date. */

const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const rows = new Map(); /* by key: the conversation as it was told, and its row in the table */
let shown = { key: null, changed: 0 };

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/* What was saved so far, request by request, over a line at 0. */
function sparkline(saved) {
  const [low, high] = [Math.min(0, ...saved), Math.max(0, ...saved)];
  const y = (value) => 23 - 22 * ((value - low) / (high - low || 1));
  const x = (at) => (saved.length > 1 ? (at / (saved.length - 1)) * 120 : 60);
  const points = saved.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return svg("svg", { viewBox: "0 0 120 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 120, y1: y(0), y2: y(0) }), svg("polyline", { points }));
}

/* Without its margin, which the sentences have. */
const bare = (net) => net.replace(/ ±[\d.,]+/, "");

/* An amount with its sign, which its percentage has, too. */
function signed(net) {
  const isLoss = /^(about )?-/.test(net);
  return isLoss ? bare(net).replace("-", "−").replace("(", "(−") : bare(net);
}

function fillRow(node, one) {
  const link = node.querySelector("a") || html("a", { href: `#${encodeURIComponent(one.key)}` });
  const [name, ...others] = one.names;
  if (one.folder) others.unshift(one.folder);
  link.textContent = `${whole(one.number)}: ${name}`;
  const failed = one.failed ? [`, ${whole(one.failed)} failed`] : [];
  const span = one.time ? `, ${clock(one.began)} to ${clock(one.time)}` : "";
  const about = [html("small", {}, others.join(", ") + span)];
  if (one.label) about.push(html("small", { class: "narrow" }, `label: ${one.label}`));
  if (one.is_observed) about.push(html("small", { class: "why" }, "observed only: what masking would do"));
  const notes = [one.unfit, ...one.notes].filter(Boolean);
  about.push(...notes.map((note) => html("small", { class: "why" }, note)));
  if (one.why) about.push(html("small", { class: "why" }, `nothing masked: ${one.why}`));
  const cell = (content, name) => html("td", name ? { class: name } : {}, content);
  const saved = html("span", one.is_loss ? { class: "loss" } : {}, signed(one.net));
  const head = node.querySelector("th") || html("th", { scope: "row" }, link);
  head.replaceChildren(link, ...about);
  const requests = cell(whole(one.requests));
  requests.append(...failed);
  const percent = (share) => (share === null ? "" : `${Math.round(share * 100)}%`);
  const [amount, ...unit] = one.cost.split(/ (?=input)/);
  const cost = html("span", {}, amount, ...unit.map((each) => html("small", {}, each)));
  const cells = [cell(one.label || "", "label"), requests, cell(percent(one.smaller), "wide"),
    cell(percent(one.cached), "wide"), cell(one.wait === null ? "" : `${one.wait.toFixed(1)} s`, "wide"),
    cell(cost), cell(saved), cell(sparkline(one.saved), "spark")];
  if (!head.parentNode) node.append(head);
  while (node.children.length > 1) node.lastChild.remove();
  node.append(...cells);
}

function take({ run, total, harm, conversations, is_whole }) {
  if (is_whole) {
    rows.clear();
    place("rows").replaceChildren();
  }
  for (const one of [...conversations].sort((a, b) => a.number - b.number)) {
    const row = rows.get(one.key) || { node: html("tr") };
    row.one = one;
    rows.set(one.key, row);
    fillRow(row.node, one);
    if (!row.node.parentNode) place("rows").prepend(row.node); /* rows never change their places */
  }
  showRun(run);
  if (total.requests) showTotal(total);
  showHarm(harm);
  refresh();
}

function showRun({ name, tag, state, unopened, unserved }) {
  place("state").textContent = `${state}. Run ${name}${tag ? `, ${tag}` : ""}.`;
  const hosts = Object.entries(unopened).map(([host, count]) => `${host} (${whole(count)})`);
  const warnings = [
    hosts.length ? "Passed unopened and unmasked, for lack of trust in the proxy's certificate: " +
      `${hosts.join(", ")}. obsmask doctor says what to do.` : "",
    unserved ? `${plural(unserved, "request")} to a model in a format that is not masked.` : "",
  ];
  fill("warning", warnings.join(" ").trim());
}

/* A sentence, or nothing at all where there is none. */
function fill(name, text) {
  place(name).textContent = text;
  place(name).hidden = !text;
}

function showTotal(total) {
  /* The sentence below has the margin, and why it is a loss so far. */
  const saved = bare(total.net).replace(/^(about )?-/, "$1");
  const headline = { "0": total.masked ? "Nothing saved yet" : "Nothing masked yet",
    "about 0": "About nothing saved yet" }[saved]
    || `${saved} ${total.is_observed ? "would be " : ""}${total.is_loss ? "lost so far" : "saved"}`;
  place("net").textContent = headline[0].toUpperCase() + headline.slice(1);
  document.title = `${place("net").textContent} - observation masking`;
  place("line").textContent = `${total.line}.`;
  fill("notes", total.notes.map((each) => `${each}.`).join(" "));
  fill("unfit", nameUnfit([...rows.values()].map(({ one }) => one).filter(({ unfit }) => unfit)));
  for (const name of ["many", "glossary", "jumps"]) if (place(name)) place(name).hidden = false;
  place("start").hidden = true;
  place("all").classList.toggle("labelled", [...rows.values()].some(({ one }) => one.label));
  place("counted").textContent = rows.size < total.conversations
    ? `The last ${whole(rows.size)} of ${whole(total.conversations)} conversations, the newest first.`
    : `${plural(rows.size, "conversation")}, the newest first.`;
}

const NAMED = 5;

function nameUnfit(found) {
  if (!found.length) return "";
  const names = found.slice(0, NAMED).map(({ number, names: [name] }) => `${whole(number)} (${name})`);
  const more = found.length > NAMED ? ` and ${whole(found.length - NAMED)} more` : "";
  const one = found.length === 1;
  return `Without masking, ${one ? "a conversation" : plural(found.length, "conversation")} would no ` +
    `longer fit ${one ? "its model" : "their models"}: ${names.join(", ")}${more}. To go on without ` +
    `it, ${one ? "its agent has" : "their agents have"} to compact first.`;
}

/* Both groups side by side; drawn anew only where something has changed, so that focus stays. */
let compared = "";

function showHarm(harm) {
  place("harm").hidden = !harm;
  if (!harm || compared === (compared = JSON.stringify(harm))) return;
  place("verdict").textContent = harm.verdict;
  place("verdict").className = harm.kind === "harm" ? "warning" : "";
  place("measures").replaceChildren(...harm.measures.length ? [table("Both groups, in numbers",
    ["In a conversation", "Masked", "Held out", "Difference"], harm.measures)] : []);
  place("harm-note").textContent = harm.note;
}

const chosenKey = () => decodeURIComponent(location.hash.slice(1));

/* Shows the chosen conversation, else the one that spoke last when there was none, if it has changed.
   It is asked for once a second at most. */
let asking = false;

async function refresh() {
  if (!rows.has(shown.key) || (rows.has(chosenKey()) && chosenKey() !== shown.key)) {
    const latest = [...rows.values()].sort((a, b) => b.one.changed - a.one.changed)[0];
    shown = { key: rows.has(chosenKey()) ? chosenKey() : latest && latest.one.key, changed: 0 };
  }
  const row = rows.get(shown.key);
  if (asking || !row || row.one.changed === shown.changed) return;
  asking = true;
  const { key } = shown;
  try {
    const answer = await fetch(`/conversations/${encodeURIComponent(key)}`);
    if (answer.ok && key === shown.key) show(await answer.json());
  } catch {
    /* The proxy is gone, which its events tell. */
  }
  setTimeout(() => { asking = false; refresh(); }, 1000);
}

function show(one) {
  const focusable = "[tabindex], summary, a";
  const at = [...place("one").querySelectorAll(focusable)].indexOf(document.activeElement);
  const isOpen = shown.changed && place("one").querySelector("details[open]");
  shown.changed = one.changed;
  forget();
  place("chosen").hidden = false;
  place("one-title").textContent = `Conversation ${whole(one.number)}`;
  place("one").replaceChildren(...showConversation(one, rows.size > 1));
  redraw();
  if (isOpen) place("one").querySelector("details").open = true;
  if (at >= 0) place("one").querySelectorAll(focusable)[at]?.focus({ preventScroll: true });
  for (const [key, { node }] of rows) node.classList.toggle("current", key === one.key);
}

function follow() {
  if (!rows.has(chosenKey())) return;
  asking = false;
  refresh();
  place("one-title").focus();
  place("one-title").scrollIntoView();
}

function say(text, stopped) {
  place("connection").textContent = text;
  place("connection").classList.toggle("stopped", stopped);
}

function listen() {
  const events = new EventSource("/events"); /* which goes on trying when it is cut off */
  let end = "does not answer";
  events.addEventListener("message", ({ data: told }) => {
    end = "does not answer";
    say("connected", false);
    take(JSON.parse(told));
  });
  events.addEventListener("stopped", () => { end = "has stopped"; });
  events.addEventListener("error", () =>
    say(`the proxy ${end}; what it did until then stays here, and obsmask page shows it later`, true));
}

addEventListener("hashchange", follow);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let width = place("one").clientWidth;
new ResizeObserver(() => {
  if (width !== (width = place("one").clientWidth)) requestAnimationFrame(redraw);
}).observe(place("one"));
listen();
