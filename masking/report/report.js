/* Shows the page's block of JSON: the sums, the conversations, and one of them at a time. */

const UNITS = { usd: "US dollars", input_tokens: "input-token equivalents" };
const REASONS = {
  masked: "",
  redacted: "answered, by redaction",
  reduced: "a placeholder, by reduction",
  dropped: "gone with its message, by reduction",
  held: "old enough, but masking it does not pay yet",
  in_window: "belongs to one of the last turns",
  error: "looks like an error",
  last_k: "among the last of its tool",
  latest: "the latest of its target",
  too_short: "shorter than min_chars",
  not_shorter: "would not get shorter",
  already_masked: "its own placeholder already",
  not_string: "no string",
  bad_id: "names no call",
  orphan: "names an unknown call",
  other_tool: "of a tool that redaction does not name",
  in_use: "not answered yet, by redaction",
  off: "masking is off",
};
const policies = Object.entries(POLICIES);

/* All conversations. */

function showLead() {
  const { total, conversations, unit } = data;
  const requests = plural(total.requests, "request");
  const why = unit === "usd" ? "" : ", as not all prices are known";
  const assumed = sum(conversations.map((each) => each.assumed));
  const guess = assumed ? ` Prices are assumed for ${whole(assumed)} of ${requests}.` : "";
  place("lead").textContent = conversations.length
    ? `${plural(conversations.length, "conversation")}, ${requests}. ` +
      `Costs of prompts, in ${UNITS[unit]}${why}.${guess}`
    : "There is nothing to show: no conversations were given.";
  place("main").hidden = !conversations.length;
  const reported = sum(conversations.map((each) => each.reported));
  place("basis").textContent = "Of the prompts that were sent, what the provider reported, " +
    `as it did for ${whole(reported)} of ${requests}.`;
}

function showTotal() {
  const { cost, error, calls, rereads, quotes } = data.total;
  const most = highest(Object.values(cost));
  const amount = money(data.unit, most);
  const rows = policies.map(([policy, name]) => {
    const bar = html("div", { class: policy });
    bar.style.width = `${(100 * cost[policy]) / (most || 1)}%`;
    return [name, amount(cost[policy]), saved(cost, error, policy),
      share(rereads[policy], calls), share(quotes[policy], calls), bar];
  });
  const head = ["Policy", `Bill, in ${UNITS[data.unit]}`, "Saved", "Re-reads", "Quotes",
    "In proportion"];
  const shown = table("Bill of each policy", head, rows);
  for (const row of shown.querySelectorAll("tbody tr")) row.lastChild.className = "bar";
  place("total").replaceChildren(shown);
}

const saving = (cost, policy) => (cost.everything ? 1 - cost[policy] / cost.everything : 0);

/* What was saved, with how far that may be off; where it may as well be nothing, that. */
function saved(cost, error, policy) {
  const part = saving(cost, policy);
  const off = cost.everything ? error[policy] / cost.everything : 0;
  if (part && Math.abs(part) <= off) return "about 0";
  return loss(part, off ? (value) => `${percent(value)} ± ${percent(off)}` : percent);
}

const share = (count, calls) => (calls ? percent(count / calls) : "");

const SUMMARY = ["Conversation", "Requests", "Tokens, everything", "Tokens, chosen", "Bill, everything",
  "Bill, sliding", "Bill, chosen", "Saved as chosen", "Re-reads", "Quotes",
  "Worst moment, at request"];

function summarise(name, sums, where) {
  const { requests, tokens_before, tokens_after, cost, error, calls, rereads, quotes, worst } = sums;
  const amount = money(data.unit, cost.everything);
  return [name, whole(requests), whole(tokens_before), whole(tokens_after),
    ...policies.map(([policy]) => amount(cost[policy])), saved(cost, error, "chosen"),
    share(rereads.chosen, calls), share(quotes.chosen, calls),
    worst > 0 ? `${signed(worst)}${where}` : "never above"];
}

function showAll() {
  const rows = data.conversations.map(({ name, sums }, index) => {
    const button = html("button", { type: "button", class: "link", title: name }, name);
    button.addEventListener("click", () => {
      choose(index);
      place("chooser").focus();
      place("one-title").scrollIntoView();
    });
    return summarise(button, sums, ` at ${whole(sums.worst_at + 1)}`);
  });
  const caption = `All conversations: tokens, and bills in ${UNITS[data.unit]}`;
  const foot = summarise("All", data.total, "");
  place("all").replaceChildren(table(caption, SUMMARY, rows, foot));
}

/* One conversation. */

function choose(index) {
  const one = data.conversations[index];
  drawings = [];
  place("chooser").value = index;
  place("one").replaceChildren(
    ...introduce(one), ...showCosts(one), ...showTokens(one), ...showMap(one), ...showMoves(one),
    showFigures(one));
  for (const [place_, row] of document.querySelectorAll("#all tbody tr").entries()) {
    row.classList.toggle("current", place_ === index);
  }
  redraw();
}

function introduce({ name, map, window: turns, models, prices, reported }) {
  const model = models.map((each) => each || "unknown model").join(", ");
  const terms = prices.map(([read, write, source]) =>
    `a cached token costs ${ratio(read)}, a written one ${ratio(write)} of a plain one (${source})`);
  return [html("h3", {}, name), html("p", { class: "note" },
    `${plural(map.length, "request")}, ${model}; window of ${plural(turns, "turn")}; ` +
    `${terms.join("; or ")}; cached tokens reported for ${plural(reported, "request")}.`)];
}

const DRAWN = ["everything", "chosen", "sliding"]; /* the dashes last: equal lines are both seen */

function compareCosts(title, note, { unit, series, moves, map }, read) {
  const costs = Object.fromEntries(DRAWN.map((policy) => [policy, read(series[policy].cost)]));
  const top = highest(Object.values(costs).flat());
  const amount = money(unit, top);
  const say = (index) => policies
    .map(([policy, name]) => `${name.toLowerCase()} ${amount(costs[policy][index])}`).join(", ");
  return chart(title, note, {
    count: map.length, top, moves,
    axis: unit === "usd" ? amount : compact,
    label: `${title}. At the last request: ${say(map.length - 1)}.`,
    read: (index) => `Request ${whole(index + 1)}: ${say(index)}`,
    draw: (x, y) => DRAWN.map((policy) => line(policy, costs[policy], x, y)),
  });
}

function showCosts(one) {
  const stroke = (name, d) => sample(svg("path", { class: name, d }));
  return [html("h3", {}, `Costs, in ${UNITS[one.unit]}`),
    legend([...policies.map(([policy, name]) => [stroke(`line ${policy}`, "M1 6h22"), name]),
      [stroke("move", "M12 2v8"), "the boundary moves"]]),
    html("div", { class: "row pair" },
      compareCosts("Bill so far", "What all requests up to each one cost.", one, running),
      compareCosts("Each request", "What each one costs by itself.", one, (cost) => cost))];
}

function showTokens({ series, moves, map }) {
  const top = highest(Object.values(series).flatMap(({ prompt }) => prompt));
  const charts = policies.map(([policy, name]) => {
    const { prompt, cached } = series[policy];
    const say = (index) => `${whole(prompt[index])} tokens, ${whole(cached[index])} of them cached`;
    return chart(name, `${whole(sum(prompt))} tokens in all, ${whole(sum(cached))} of them cached.`, {
      count: map.length, top, axis: compact, moves: policy === "chosen" ? moves : [],
      label: `Prompt tokens, ${name}. The last request: ${say(map.length - 1)}.`,
      read: (index) => `Request ${whole(index + 1)}: ${say(index)}`,
      draw: (x, y) => [area(`${policy} cached`, cached.map(() => 0), cached, x, y),
        area(policy, cached, prompt, x, y)],
    });
  });
  const block = (name) => sample(svg("rect", { class: `area ${name}`, width: 24, height: 12 }));
  return [html("h3", {}, "Prompt tokens"),
    legend([[block("chosen cached"), "cached (pale)"], [block("chosen"), "not cached (full)"]]),
    html("div", { class: "row" }, ...charts)];
}

/* The masking map. */

const expand = (row) => row.replace(/(\d+)(\D)/g, (_, count, letter) => letter.repeat(count));
const explain = (reason) => (REASONS[reason] ? `${reason}: ${REASONS[reason]}` : reason);

function showMap({ map }) {
  const rows = map.map(expand);
  const columns = highest(rows.map((row) => row.length));
  const title = html("h3", {}, "Masking map of the chosen policy");
  if (!columns) return [title, html("p", {}, "No request has a tool result.")];
  const found = Object.entries(data.reasons)
    .filter(([letter]) => map.some((row) => row.includes(letter)));
  const count = (letter) => rows.at(-1).split(letter).length - 1;
  const tally = found.map(([letter, reason]) => `${whole(count(letter))} ${reason}`).join(", ");
  const size = `${plural(rows.length, "request")}, a row each, the first at the top; ` +
    `${plural(columns, "tool result")}, a column each, the oldest at the left.`;
  const label = `Masking map: ${size} In the last request: ${tally}.`;
  const canvas = html("canvas", { role: "img", tabindex: "0", "aria-label": label });
  const [across, down] = ["across", "down"].map((name) => html("div", { class: `axis ${name}` }));
  const output = html("output", {}, size);
  const read = (column, row) => {
    const reason = data.reasons[rows[row][column]];
    output.textContent = canvas.title = `Request ${whole(row + 1)}, result ${whole(column + 1)}: ` +
      (reason ? explain(reason) : "not there yet");
  };
  const locate = ({ offsetX, offsetY }) => [Math.floor((offsetX / canvas.clientWidth) * columns),
    Math.floor((offsetY / canvas.clientHeight) * rows.length)];
  explore(canvas, { columns, rows: rows.length }, locate, read);
  drawings.push(() => paint(canvas, across, down, map, columns));
  const swatch = (reason) =>
    sample(svg("rect", { width: 24, height: 12, fill: colour[reason] }));
  return [title,
    legend(found.map(([, reason]) => [swatch(reason), explain(reason)])),
    html("figure", {}, html("div", { class: "map" }, across, down, canvas), output,
      html("figcaption", {}, `In the last request: ${tally}.`))];
}

/* The moves, and every figure. */

function showMoves({ moves, unit, map }) {
  const title = html("h3", {}, "Moves of the boundary");
  if (!moves.length) return [title, html("p", {}, "The boundary has not moved.")];
  const amount = money(unit, highest(moves.map(({ saved }) => Math.abs(saved))));
  const price = money(unit, highest(moves.map(({ paid }) => paid)));
  const repaid = ({ request, repaid_at, net }) => {
    if (net < 0) return "not by the end";
    return repaid_at === request ? "at once" : `at request ${whole(repaid_at + 1)}`;
  };
  const dollars = unit === "usd" ? ["Price, in US dollars"] : [];
  const head = ["Request", "Results newly masked", "Tokens taken out", "Tokens no longer cached",
    "Of them written anew", "Price, in input-token equivalents", ...dollars, "Saved since", "Net",
    "Paid off"];
  const counts = ["results", "removed", "uncached", "rewritten", "price"];
  const cells = (name, move, end) => [name, ...counts.map((key) => whole(move[key])),
    ...dollars.map(() => price(move.paid)), loss(move.saved, amount), loss(move.net, amount), end];
  const rows = moves.map((move) => cells(whole(move.request + 1), move, repaid(move)));
  const total = Object.fromEntries([...counts, "paid", "saved", "net"]
    .map((key) => [key, sum(moves.map((move) => move[key]))]));
  const foot = cells("All", total, "");
  return [title, html("p", { class: "note" },
    `Saved since and net are in ${UNITS[unit]}, up to the last of ${plural(map.length, "request")}.`),
    table("Moves of the boundary, and what they cost and saved", head, rows, foot)];
}

function showFigures({ series, unit, map }) {
  const summary = html("summary", {}, "All figures of this conversation, as a table");
  const details = html("details", {}, summary);
  const amount = money(unit, highest(series.everything.cost));
  details.addEventListener("toggle", () => {
    const figures = (index) => policies.flatMap(([policy]) => {
      const { prompt, cached, cost } = series[policy];
      return [whole(prompt[index]), whole(cached[index]), amount(cost[index])];
    });
    const names = policies.flatMap(([, name]) => ["tokens", "cached", "cost"]
      .map((what) => `${name}: ${what}`));
    const head = ["Request", ...names];
    const rows = map.map((_, index) => [whole(index + 1), ...figures(index)]);
    details.append(table(`Tokens of each request, and costs in ${UNITS[unit]}`, head, rows));
  }, { once: true });
  return details;
}

showLead();
if (data.conversations.length) {
  showTotal();
  showAll();
  data.conversations.forEach(({ name, map }, index) => place("chooser").append(
    html("option", { value: index }, `${name} (${plural(map.length, "request")})`)));
  place("chooser").addEventListener("change", (event) => choose(Number(event.target.value)));
  choose(0);
  let width = place("main").clientWidth;
  new ResizeObserver(() => {
    if (width !== (width = place("main").clientWidth)) requestAnimationFrame(redraw);
  }).observe(place("main"));
}
