/* Listens to the proxy: keeps a row for each conversation, and the one that is chosen up to date. */

const rows = new Map(); /* by key: the conversation as it was told, and its row in the table */
let shown = { key: null, changed: 0 };

function take({ texts, columns, plan, harm, conversations, is_whole: isWhole }) {
  if (isWhole) {
    rows.clear();
    place("rows").replaceChildren();
    place("head").replaceChildren(...headOf(columns).children);
  }
  for (const one of [...conversations].sort((a, b) => a.number - b.number)) {
    const row = rows.get(one.key) || { node: html("tr") };
    row.one = one;
    rows.set(one.key, row);
    const focused = row.node.contains(document.activeElement);
    fillRow(row.node, columns, one.cells);
    if (focused) row.node.querySelector("a").focus({ preventScroll: true });
    if (!row.node.parentNode) place("rows").prepend(row.node); /* rows never change their places */
  }
  for (const [name, text] of Object.entries(texts)) fill(name, text);
  document.title = `${texts.net} - observation masking`;
  for (const name of ["many", "glossary", "jumps"]) if (place(name)) place(name).hidden = !rows.size;
  place("start").hidden = rows.size > 0 || !texts.command;
  showSection("plan", "quota", plan);
  showSection("harm", "verdict", harm);
  refresh();
}

/* The plan's quota, and both groups of a hold-out; drawn anew only where something has changed, so
   that focus stays. */
const drawn = new Map(); /* by section: what it shows */

function showSection(section, inside, parts) {
  place(section).hidden = !parts.length;
  const told = JSON.stringify(parts);
  if (drawn.get(section) === told) return;
  drawn.set(section, told);
  place(inside).replaceChildren(...draw(parts));
}

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
    /* The proxy is gone, which its events tell: only what was shown last is still here. */
    if (shown.changed === 0) {
      show({ key, changed: 0, title: row.node.querySelector("a").textContent, parts: [
        { part: "text", text: "Its details can't be loaded any more: the proxy has stopped.", class: "note" }] });
    }
  }
  setTimeout(() => { asking = false; refresh(); }, 1000);
}

function show({ key, changed, title, parts }) {
  place("one-title").textContent = title;
  showOne(parts, shown.changed > 0);
  shown.changed = changed;
  for (const [each, { node }] of rows) node.classList.toggle("current", each === key);
}

function follow() {
  if (!rows.has(chosenKey())) return;
  asking = false;
  refresh();
  goToOne();
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
listen();
