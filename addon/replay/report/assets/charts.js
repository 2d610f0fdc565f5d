/* Charts over the requests, or over what `x` names, drawn by uPlot. `spec`: `count` of them, the
   highest value `top`, the lowest one `bottom` if it is below 0, how `ticks` are written, the level of its `heading`,
   `axis` (how values are written beside it), `unit` (its title), `moves`, `series` (what uPlot
   draws), `values` (a list for each), `label` (the text alternative) and `read(index)`. */

const HEIGHT = 230;
const PRINTED = 330;

const line = (policy, extra) => ({
  label: data.policies[policy], stroke: () => colour(policy), width: 1.6, ...extra });

/* Bars are drawn over each other: first the whole prompt, then the part of it that was cached. */
const bars = (label, name) => ({
  label, fill: () => colour(name), stroke: () => colour(name), width: 0,
  paths: uPlot.paths.bars({ size: [1, Infinity] }), points: { show: false } });

function markMoves(plot, moves) {
  const { ctx, bbox } = plot;
  const fine = uPlot.pxRatio;
  ctx.fillStyle = colour("ink");
  for (const { request } of moves) {
    const x = plot.valToPos(request + 1, "x", true);
    ctx.fillRect(x - fine, bbox.top + bbox.height - 7 * fine, 2 * fine, 7 * fine);
  }
}

function axis(title, extra) {
  const grid = { stroke: () => colour("line"), width: 1 };
  const quiet = () => colour("quiet");
  const font = "11px system-ui, sans-serif";
  return { label: title, stroke: quiet, grid, ticks: { ...grid, size: 4 }, font, labelFont: font,
    labelSize: 18, labelGap: 0, ...extra };
}

function plot(node, spec, width, onPoint) {
  const requests = Array.from({ length: spec.count }, (_, index) => index + 1);
  return new uPlot({
    width, height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false },
    scales: { x: { time: false, range: [0.5, spec.count + 0.5] }, y: { range: [(spec.bottom || 0) * 1.04, spec.top * 1.04 || spec.bottom * -0.05 || 1] } },
    axes: [
      axis(spec.x || "Request", { size: 28, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
        values: (_, ticks) => (spec.ticks ? spec.ticks(ticks) : ticks.map(whole)) }),
      axis(spec.unit, { size: fitLabels, values: (_, ticks) => ticks.map(spec.axis) }),
    ],
    series: [{}, ...spec.series],
    hooks: {
      draw: [(drawn) => markMoves(drawn, spec.moves)],
      setCursor: [({ cursor }) => cursor.idx != null && onPoint(cursor.idx)],
    },
  }, [requests, ...spec.values], node);
}

/* The width of the vertical axis: its longest label must not run into the unit. */
function fitLabels(_, labels) {
  const longest = Math.max(0, ...(labels || []).map((each) => each.length));
  return Math.max(58, 22 + 7 * longest);
}

function chart(title, note, spec) {
  const node = html("div", { class: "chart", role: "img", tabindex: "0", "aria-label": spec.label });
  const output = html("output", {}, note);
  let drawn = null;
  const read = (index) => { output.textContent = spec.read(index); };
  explore(node, { columns: spec.count, rows: 1 }, (index) => {
    drawn.setCursor({ left: drawn.valToPos(index + 1, "x"), top: 0 });
    read(index);
  });
  drawings.push(() => {
    if (drawn) drawn.destroy();
    const printed = "print" in document.documentElement.dataset;
    drawn = plot(node, spec, printed ? PRINTED : Math.max(220, node.clientWidth), read);
  });
  endings.push(() => drawn && drawn.destroy());
  return html("figure", {}, html(spec.heading || "h4", {}, title), output, node);
}
