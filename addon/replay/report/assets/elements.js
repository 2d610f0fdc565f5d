"use strict";

/* What the page is made of: data, numbers and elements. Texts become text nodes, never markup:
   names are not ours. */

const data = JSON.parse(document.getElementById("data").textContent);
const place = (id) => document.getElementById(id);
const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/* What is drawn to the width there is, and anew whenever that, or the colours, change; and what
   ends it once it is gone from the page. */
let drawings = [];
let endings = [];
const redraw = () => drawings.forEach((each) => each());
function forget() {
  endings.forEach((each) => each());
  [drawings, endings] = [[], []];
}

/* Numbers. Requests and results count from 0 in the data, from 1 on the page. */

const english = (options) => {
  const format = new Intl.NumberFormat("en-US", { signDisplay: "negative", ...options });
  return (value) => format.format(value).replace("-", "−");
};
const whole = english({ maximumFractionDigits: 0 });
const compact = english({ notation: "compact", maximumSignificantDigits: 3 });
const highest = (values) => values.reduce((most, value) => Math.max(most, value), 0);
const sum = (values) => values.reduce((total, value) => total + value, 0);
const running = (values) => { let total = 0; return values.map((value) => (total += value)); };
const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

/* How amounts up to `most` are written in a unit: dollars with three significant digits of it. */
function money(unit, most) {
  if (unit === "input_tokens") return whole;
  const digits = Math.min(8, Math.max(2, 2 - Math.floor(Math.log10(most || 1))));
  const places = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return english({ style: "currency", currency: "USD", ...places });
}

/* Elements. */

function html(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/* A number, marked where it is a loss. */
function loss(value, format) {
  const text = format(value);
  return html("span", text.startsWith("−") ? { class: "loss" } : {}, text);
}

/* Cells are texts or elements; the first one of a row heads it. A narrow screen leaves out the
   columns whose title is in `wide`. */
function table(caption, head, rows, { foot = [], wide = [] } = {}) {
  const column = (tag, at, attributes, content) => {
    const hidden = wide.includes(head[at]) ? { class: "wide" } : {};
    return html(tag, { ...attributes, ...hidden }, content);
  };
  const row = (cells) => html("tr", {}, ...cells.map((cell, at) =>
    at ? column("td", at, {}, cell) : column("th", at, { scope: "row" }, cell)));
  const node = html("table", {}, html("caption", {}, caption),
    html("thead", {}, html("tr", {}, ...head.map((text, at) =>
      column("th", at, { scope: "col" }, text)))),
    html("tbody", {}, ...rows.map(row)));
  if (foot.length) node.append(html("tfoot", {}, row(foot)));
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption };
  return html("div", region, node);
}

function legend(entries) {
  const items = entries.map(([mark, text]) =>
    html("li", {}, html("span", { class: `mark ${mark}`, "aria-hidden": "true" }), text));
  return html("ul", { class: "legend" }, ...items);
}

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
