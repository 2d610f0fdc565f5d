/* Charts over requests, or over days, drawn by uPlot: as `chart` in `addon/look/parts.py` has them. */

const HEIGHT = 230;
const PRINTED = 330;

function seriesOf({ name, mark, kind, width, dash }, count) {
  const stroke = () => colour(mark);
  if (kind === "line") {
    return { label: name, stroke, width, dash, points: { show: count === 1 } };
  }
  const size = kind === "days" ? [0.8, 40] : [1, Infinity];
  return { label: name, fill: stroke, stroke, width: 0, paths: uPlot.paths.bars({ size }), points: { show: false } };
}

function markMoves(plot, moves) {
  const { ctx, bbox } = plot;
  const fine = uPlot.pxRatio;
  ctx.fillStyle = colour("ink");
  for (const request of moves) {
    const x = plot.valToPos(request + 1, "x", true);
    ctx.fillRect(x - fine, bbox.top + bbox.height - 7 * fine, 2 * fine, 7 * fine);
  }
}

function axis(title, extra) {
  const grid = { stroke: () => colour("edge"), width: 1 };
  const quiet = () => colour("quiet");
  const font = "11px system-ui, sans-serif";
  return { label: title, stroke: quiet, grid, ticks: { ...grid, size: 4 }, font, labelFont: font,
    labelSize: 18, labelGap: 0, ...extra };
}

function plot(node, spec, count, width, onPoint) {
  const named = new Map(spec.ticks);
  const longest = Math.max(0, ...spec.ticks.map(([, text]) => text.length));
  return new uPlot({
    width, height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false },
    scales: { x: { time: false, range: [0.5, count + 0.5] }, y: { range: spec.range } },
    axes: [
      axis(spec.days.length ? "Day" : "Request", {
        size: 28, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
        values: (_, ticks) => ticks.map((at) => (spec.days.length ? spec.days[at - 1] ?? "" : whole(at))) }),
      axis(spec.unit, { size: Math.max(58, 22 + 7 * longest), splits: () => [...named.keys()],
        values: (_, ticks) => ticks.map((value) => named.get(value)) }),
    ],
    series: [{}, ...spec.series.map((each) => seriesOf(each, count))],
    hooks: {
      draw: [(drawn) => markMoves(drawn, spec.moves)],
      setCursor: [({ cursor }) => cursor.idx != null && onPoint(cursor.idx)],
    },
  }, [Array.from({ length: count }, (_, at) => at + 1), ...spec.series.map(({ values }) => values)], node);
}

/* What a chart says of a request; a day's text names the day. */
function sayOf({ series, days }, at) {
  const said = series.filter(({ texts }) => texts[at]).map(({ name, texts }) => `${name} ${texts[at]}`.trim());
  return days.length ? said.join(", ") : `Request ${whole(at + 1)}: ${said.join(", ")}`;
}

function chart(spec) {
  const count = spec.series[0].values.length;
  const node = html("div", { class: "chart", role: "img", tabindex: "0", "aria-label": spec.label });
  const output = html("output", {}, spec.note);
  let drawn = null;
  const read = (at) => { output.textContent = sayOf(spec, at); };
  explore(node, { columns: count, rows: 1 }, (at) => {
    drawn.setCursor({ left: drawn.valToPos(at + 1, "x"), top: 0 });
    read(at);
  });
  const end = () => drawn?.destroy();
  const draw = () => {
    end();
    const printed = "print" in document.documentElement.dataset;
    drawn = plot(node, spec, count, printed ? PRINTED : Math.max(220, node.clientWidth), read);
  };
  drawings.push({ node, draw, end });
  return html("figure", {}, ...(spec.title ? [html("h4", {}, spec.title)] : []), output, node);
}
