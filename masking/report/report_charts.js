"use strict";

/* What the page is made of: numbers, elements, charts, the map. Texts become text nodes, never
   markup: names are not ours. */

const POLICIES = { everything: "Everything sent", sliding: "Sliding window", chosen: "Chosen policy" };
const data = JSON.parse(document.getElementById("data").textContent);
const style = getComputedStyle(document.documentElement);
const place = (id) => document.getElementById(id);
const colour = Object.fromEntries(
  Object.values(data.reasons).map((reason) => [reason, style.getPropertyValue(`--${reason}`)]));

/* What is drawn to the width there is, and anew whenever that changes. */
let drawings = [];
const redraw = () => drawings.forEach((each) => each());

/* Numbers. Requests and results count from 0 in the data, from 1 on the page. */

const english = (options) => {
  const format = new Intl.NumberFormat("en-US", { signDisplay: "negative", ...options });
  return (value) => format.format(value).replace("-", "−");
};
const whole = english({ maximumFractionDigits: 0 });
const ratio = english({ maximumFractionDigits: 3 });
const compact = english({ notation: "compact", maximumSignificantDigits: 3 });
const tenths = { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 };
const percent = english(tenths);
const signed = english({ ...tenths, signDisplay: "exceptZero" });
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

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const html = (tag, attributes = {}, ...children) =>
  build(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/* A number, marked where it is a loss. */
function loss(value, format) {
  const text = format(value);
  return html("span", text.startsWith("−") ? { class: "loss" } : {}, text);
}

/* Cells are texts or elements; the first one of a row heads it. */
function table(caption, head, rows, foot = []) {
  const row = (cells) => html("tr", {}, ...cells.map((cell, column) =>
    column ? html("td", {}, cell) : html("th", { scope: "row" }, cell)));
  const node = html("table", {}, html("caption", {}, caption),
    html("thead", {}, html("tr", {}, ...head.map((text) => html("th", { scope: "col" }, text)))),
    html("tbody", {}, ...rows.map(row)));
  if (foot.length) node.append(html("tfoot", {}, row(foot)));
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption };
  return html("div", region, node);
}

function legend(entries) {
  const items = entries.map(([swatch, text]) => html("li", {}, swatch, text));
  return html("ul", { class: "legend" }, ...items);
}
const sample = (...children) =>
  svg("svg", { viewBox: "0 0 24 12", "aria-hidden": "true" }, ...children);

/* Charts over the requests. `spec`: `count` of them, the highest value `top`, `axis` (its format),
   `moves`, `label` (the text alternative), `read(index)` and `draw(x, y)`. */

const HEIGHT = 190;
const EDGE = { left: 52, right: 8, top: 8, bottom: 28 };

function ticks(top, about) {
  const rough = top / about || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5].find((factor) => factor * unit >= rough) || 10);
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, index) => index * step);
}
const countTicks = (count, about) =>
  [...new Set([1, ...ticks(count, about).slice(1).map(Math.ceil)])].map((tick) => tick - 1);

function draw(node, spec) {
  const width = Math.max(220, node.parentNode.clientWidth || 600);
  const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const x = (index) => EDGE.left + ((index + 0.5) / spec.count) * inner.width;
  const y = (value) => EDGE.top + inner.height * (1 - value / (spec.top || 1));
  const bottom = HEIGHT - EDGE.bottom;
  const grid = ticks(spec.top || 1, 4).flatMap((tick) => [
    svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick) }),
    svg("text", { x: EDGE.left - 6, y: y(tick) + 4, "text-anchor": "end" }, spec.axis(tick)),
  ]);
  const below = countTicks(spec.count, inner.width / 70).map((tick) =>
    svg("text", { x: x(tick), y: HEIGHT - 4, "text-anchor": "middle" }, whole(tick + 1)));
  const marks = spec.moves.map(({ request }) =>
    svg("path", { class: "move", d: `M${x(request)} ${bottom + 2}v7` }));
  const cursor = svg("line", { class: "cursor", y1: EDGE.top, y2: bottom, visibility: "hidden" });
  node.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  node.replaceChildren(...grid, ...below, ...spec.draw(x, y), ...marks, cursor);
  node.point = (index) => {
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(index));
    cursor.setAttribute("visibility", "visible");
  };
  node.find = (offset) =>
    Math.floor((((offset * width) / node.clientWidth - EDGE.left) / inner.width) * spec.count);
}

function chart(title, note, spec) {
  const node = svg("svg", { role: "img", tabindex: "0", "aria-label": spec.label });
  const output = html("output", {}, note);
  const read = (index) => { node.point(index); output.textContent = spec.read(index); };
  explore(node, { columns: spec.count, rows: 1 }, (event) => [node.find(event.offsetX), 0], read);
  drawings.push(() => draw(node, spec));
  return html("figure", {}, html("h4", {}, title), output, node);
}

const path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}h0`;
function line(policy, values, x, y) {
  const points = values.map((value, index) => [x(index), y(value)]);
  return svg("path", { class: `line ${policy}`, d: path(points) });
}

/* A band between two values of each request, which stands as a step. */
function area(name, low, high, x, y) {
  const steps = (values) => values.flatMap((value, index) =>
    [[x(index - 0.5), y(value)], [x(index + 0.5), y(value)]]);
  const points = [...steps(high), ...steps(low).reverse()];
  return svg("path", { class: `area ${name}`, d: path(points) });
}

/* Lets the pointer and the arrow keys choose a cell: `locate(event)` finds it, `read` shows it. */
function explore(node, { columns, rows }, locate, read) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
  let at = [-1, 0];
  const go = ([column, row]) => { at = [clamp(column, columns), clamp(row, rows)]; read(...at); };
  node.addEventListener("pointermove", (event) => go(locate(event)));
  node.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step || (step[1] && rows === 1)) return;
    event.preventDefault();
    go([at[0] + step[0], at[1] + step[1]]);
  });
}

/* The map: cells are drawn in whole pixels; the browser then scales the canvas to fit. */

const spread = (count, size) => countTicks(count, Math.max(1, size / 60));

function paint(canvas, across, down, map, columns) {
  const width = Math.min(canvas.parentNode.clientWidth - 42, columns * 18);
  const height = Math.min(map.length * 14, 620);
  const fine = window.devicePixelRatio || 1;
  const [dx, dy] = [Math.ceil((width * fine) / columns), Math.ceil((height * fine) / map.length)];
  const gap = Math.min(dx, dy) >= 6 ? 1 : 0;
  [canvas.width, canvas.height] = [dx * columns, dy * map.length];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  const context = canvas.getContext("2d");
  map.forEach((row, index) => {
    let column = 0;
    for (const [, count, letter] of row.matchAll(/(\d*)(\D)/g)) {
      context.fillStyle = colour[data.reasons[letter]];
      const end = column + Number(count || 1);
      if (!gap) context.fillRect(column * dx, index * dy, (end - column) * dx, dy);
      for (; gap && column < end; column += 1) {
        context.fillRect(column * dx, index * dy, dx - 1, dy - 1);
      }
      column = end;
    }
  });
  const label = (side, size, count) => (tick) => {
    const span = html("span", {}, whole(tick + 1));
    span.style[side] = `${((tick + 0.5) / count) * size}px`;
    return span;
  };
  across.replaceChildren(...spread(columns, width).map(label("left", width, columns)));
  down.replaceChildren(...spread(map.length, height).map(label("top", height, map.length)));
}
