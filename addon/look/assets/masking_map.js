/* The masking map: a row for each request, a column for each tool result. Cells are drawn in whole
   pixels; the browser then scales the canvas to fit. */

/* A row is in run lengths: [[12, "masked"], [7, "in_window"]]. */
const expand = (row) => row.flatMap(([count, reason]) => Array(count).fill(reason));

/* Requests or results to label: the first, and round numbers, as many as fit. */
function spread(count, size) {
  const rough = count / Math.max(1, size / 60);
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = unit * ([1, 2, 5].find((factor) => factor * unit >= rough) || 10);
  const round = Array.from({ length: Math.floor(count / step) }, (_, index) => (index + 1) * step);
  return [...new Set([1, ...round])].map((number) => number - 1);
}

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
    for (const [count, reason] of row) {
      context.fillStyle = colour(reason);
      const end = column + count;
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

function maskingMap({ rows: map, columns, reasons, size, tally }) {
  const rows = map.map(expand);
  const canvas = html("canvas", { role: "img", tabindex: "0", "aria-label": `Masking map: ${size} ${tally}` });
  const [across, down] = ["across", "down"].map((name) => html("div", { class: `axis ${name}` }));
  const output = html("output", {}, size);
  const go = explore(canvas, { columns, rows: rows.length }, (column, row) => {
    output.textContent = `Request ${whole(row + 1)}, result ${whole(column + 1)}: ` +
      (reasons[rows[row][column]] || "not there yet");
  });
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) =>
    go([Math.floor((offsetX / canvas.clientWidth) * columns),
      Math.floor((offsetY / canvas.clientHeight) * rows.length)]));
  drawings.push({ node: canvas, draw: () => paint(canvas, across, down, map, columns), end: () => {} });
  return html("figure", {}, output, html("div", { class: "map" }, across, down, canvas),
    html("figcaption", {}, tally));
}
