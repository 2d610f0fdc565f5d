"use strict";

/* What every page is made of: texts, tables and the like, as `addon/look/parts.py` describes them.
   Texts become text nodes, never markup: names are not ours. Counts, amounts and sentences come from
   there; only the clock is the reader's. */

const place = (id) => document.getElementById(id);
const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const whole = (number) => number.toLocaleString("en-US");
const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const chosenKey = () => decodeURIComponent(location.hash.slice(1));

/* What is drawn to the width there is, and anew whenever that, the colours, or what it is shown on
   change; what is gone from the page is ended. */
let drawings = [];
function redraw() {
  for (const { node, end } of drawings) if (!node.isConnected) end();
  drawings = drawings.filter(({ node }) => node.isConnected);
  drawings.forEach(({ draw }) => draw());
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("beforeprint", () => { document.documentElement.dataset.print = ""; redraw(); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.print; redraw(); });
let width = document.body.clientWidth;
new ResizeObserver(() => {
  if (width !== (width = document.body.clientWidth)) requestAnimationFrame(redraw);
}).observe(document.body);

function html(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/* A sentence, or nothing at all where there is none. */
function fill(name, text) {
  place(name).textContent = text;
  place(name).hidden = !text;
}

/* Shows one thing in full, in the place of the last one; of the same one, what has focus or is open
   stays so. */
function showOne(parts, isSame = false) {
  const focusable = "[tabindex], summary, a";
  const at = [...place("one").querySelectorAll(focusable)].indexOf(document.activeElement);
  const open = [...place("one").querySelectorAll("details")].map((each) => each.open);
  place("chosen").hidden = false;
  place("one").replaceChildren(...draw(parts));
  redraw();
  if (!isSame) return;
  place("one").querySelectorAll("details").forEach((each, number) => { each.open = open[number]; });
  if (at >= 0) place("one").querySelectorAll(focusable)[at]?.focus({ preventScroll: true });
}

function goToOne() {
  place("one-title").focus();
  place("one-title").scrollIntoView();
}

/* Tables. */

/* A line, over one at 0. */
function sparkline(values) {
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const y = (value) => 23 - 22 * ((value - low) / (high - low || 1));
  const x = (at) => (values.length > 1 ? (at / (values.length - 1)) * 120 : 60);
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return svg("svg", { viewBox: "0 0 120 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 120, y1: y(0), y2: y(0) }), svg("polyline", { points }));
}

/* A swatch of a colour, which is the last word of a mark. */
function swatch(mark) {
  const node = html("span", { class: `mark ${mark}`, "aria-hidden": "true" });
  node.style.setProperty("--mark", `var(--${mark.split(" ").at(-1)})`);
  return node;
}

function bar([name, part]) {
  const node = html("span", { class: "bar", "aria-hidden": "true" });
  node.style.setProperty("--mark", `var(--${name})`);
  node.style.width = `${100 * part}%`;
  return node;
}

function cell(content) {
  if (typeof content === "string") return [content];
  const { text, below, time, href, is_loss: isLoss, mark } = content;
  const words = time ? `${clock(time)} ${text}` : text;
  const first = href ? html("a", { href }, words) : html("span", isLoss ? { class: "loss" } : {}, words);
  return [
    mark ? html("span", { class: "part" }, swatch(mark), words) : first,
    ...(content.pill ? [" ", html("span", { class: "pill" }, content.pill)] : []),
    ...(content.bar ? [bar(content.bar)] : []),
    ...(content.spark ? [sparkline(content.spark)] : []),
    ...below.map((each) => html("small", each.kind ? { class: each.kind } : {}, each.times
      ? `${each.text}${[...new Set(each.times.map(clock))].join(" to ")}` : each.text ?? each))];
}

function fillRow(node, columns, cells) {
  node.replaceChildren(...cells.map((each, at) => {
    const kind = columns[at][1] ? { class: columns[at][1] } : {};
    return html(at ? "td" : "th", at ? kind : { scope: "row", ...kind }, ...cell(each));
  }));
  return node;
}

const headOf = (columns) => html("tr", {}, ...columns.map(([title, kind]) =>
  html("th", { scope: "col", ...(kind ? { class: kind } : {}) }, title)));

const scrolled = (caption, node) =>
  html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, node);

function table({ caption, columns, rows, foot = [] }) {
  const node = html("table", {}, html("caption", {}, caption), html("thead", {}, headOf(columns)),
    html("tbody", {}, ...rows.map((cells) => fillRow(html("tr"), columns, cells))));
  if (foot.length) node.append(html("tfoot", {}, fillRow(html("tr"), columns, foot)));
  return scrolled(caption, node);
}

/* What all charts say, request by request. */
function tableOfCharts(caption, found) {
  const said = found.flatMap(({ title, series }) =>
    series.map(({ name, texts }) => [`${title}: ${name}`, texts]));
  const rows = (said.length ? said[0][1] : []).map((_, at) =>
    [whole(at + 1), ...said.map(([, texts]) => texts[at])]);
  return table({ caption, columns: [["Request", ""], ...said.map(([name]) => [name, ""])], rows });
}

/* The parts of a page. */

function disclose(summary, fillIn) {
  const node = html("details", {}, html("summary", {}, summary));
  node.addEventListener("toggle", () => {
    node.append(...fillIn());
    redraw();
  }, { once: true });
  return node;
}

function draw(parts) {
  const found = parts.filter(({ part }) => part === "charts").flatMap(({ charts }) => charts);
  return parts.map((each) => PARTS[each.part](each, found));
}

const PARTS = {
  title: ({ text }) => html("h3", {}, text),
  text: ({ text, class: kind }) => html("p", kind ? { class: kind } : {}, text),
  legend: ({ marks }) => html("ul", { class: "legend" },
    ...marks.map(([mark, text]) => html("li", {}, swatch(mark), text))),
  charts: ({ charts, class: kind }) => html("div", { class: kind }, ...charts.map((each) => chart(each))),
  map: (map) => maskingMap(map),
  table,
  more: ({ summary, parts }) => disclose(summary, () => draw(parts)),
  figures: ({ summary, caption }, found) => disclose(summary, () => [tableOfCharts(caption, found)]),
};

/* Lets the arrow keys choose a cell, which `show` shows; returns the way to choose one. */
function explore(node, { columns, rows }, show) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
  let at = [-1, 0];
  const go = ([column, row]) => { at = [clamp(column, columns), clamp(row, rows)]; show(...at); };
  node.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step || (step[1] && rows === 1)) return;
    event.preventDefault();
    go([at[0] + step[0], at[1] + step[1]]);
  });
  return go;
}
