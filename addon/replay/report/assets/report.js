/* Shows one conversation at a time: costs, tokens, the masking map, the moves, every figure. */

const policies = Object.entries(data.policies);

function choose(index) {
  const one = data.conversations[index];
  forget();
  place("chooser").value = index;
  place("one").replaceChildren(
    html("h3", {}, one.name), html("p", { class: "note" }, one.about),
    ...showCosts(one), ...showTokens(one), ...showMap(one), ...showMoves(one), showFigures(one));
  for (const [row, each] of document.querySelectorAll("#all tbody tr").entries()) {
    each.classList.toggle("current", row === index);
  }
  redraw();
}

const DRAWN = ["everything", "chosen", "sliding"]; /* the dashes last: equal lines are both seen */
const EXTRA = { everything: { width: 5 }, chosen: { width: 2 }, sliding: { dash: [5, 3] } };

function compareCosts(title, note, { unit, series, moves, map }, read) {
  const costs = Object.fromEntries(DRAWN.map((policy) => [policy, read(series[policy].cost)]));
  const top = highest(Object.values(costs).flat());
  const amount = money(unit, top);
  const say = (index) => policies
    .map(([policy, name]) => `${name.toLowerCase()} ${amount(costs[policy][index])}`).join(", ");
  return chart(title, note, {
    count: map.length, top, moves, unit: data.units[unit],
    axis: unit === "usd" ? amount : compact,
    label: `${title}. At the last request: ${say(map.length - 1)}.`,
    read: (index) => `Request ${whole(index + 1)}: ${say(index)}`,
    series: DRAWN.map((policy) =>
      line(policy, { ...EXTRA[policy], points: { show: map.length === 1 } })),
    values: DRAWN.map((policy) => costs[policy]),
  });
}

function showCosts(one) {
  return [html("h3", {}, "Bill"),
    legend([...policies.map(([policy, name]) => [`line ${policy}`, name]),
      ["move", "the boundary moves"]]),
    html("div", { class: "row pair" },
      compareCosts("Bill so far", "What all requests up to each one cost.", one, running),
      compareCosts("Bill of each request", "What each one costs by itself.", one, (cost) => cost))];
}

function showTokens({ series, moves, map }) {
  const top = highest(Object.values(series).flatMap(({ prompt }) => prompt));
  const charts = policies.map(([policy, name]) => {
    const { prompt, cached } = series[policy];
    const say = (index) => `${whole(prompt[index])} tokens, ${whole(cached[index])} of them cached`;
    return chart(name, `${whole(sum(prompt))} tokens in all, ${whole(sum(cached))} of them cached.`, {
      count: map.length, top, unit: "Tokens", axis: compact, moves: policy === "chosen" ? moves : [],
      label: `Prompt tokens, ${name}. The last request: ${say(map.length - 1)}.`,
      read: (index) => `Request ${whole(index + 1)}: ${say(index)}`,
      series: [bars("not cached", policy), bars("cached", `${policy}-cached`)],
      values: [prompt, cached],
    });
  });
  return [html("h3", {}, "Tokens of each prompt"),
    legend([["chosen-cached", "cached, the lower part"], ["chosen", "not cached, the upper part"]]),
    html("div", { class: "row" }, ...charts)];
}

const HEAD = {
  request: "At request", results: "Results newly masked", removed: "Tokens taken out",
  uncached: "Tokens no longer cached", rewritten: "Tokens written anew", price: "Price",
  saved: "Saved since", net: "Net", repaid: "Paid off",
};

function showMoves({ moves, unit, map }) {
  const title = html("h3", {}, "Moves of the boundary");
  if (!moves.length) return [title, html("p", {}, "The boundary has not moved.")];
  const amount = money(unit, highest(moves.map(({ saved }) => Math.abs(saved))));
  const price = money(unit, highest(moves.map(({ paid }) => paid)));
  const repaid = ({ request, repaid_at, net }) => {
    if (net < 0) return "not by the end";
    return repaid_at === request ? "at once" : `at request ${whole(repaid_at + 1)}`;
  };
  const counts = ["results", "removed", "uncached", "rewritten"];
  const cells = (name, move, end) => [name, ...counts.map((key) => whole(move[key])),
    price(move.paid), loss(move.saved, amount), loss(move.net, amount), end];
  const rows = moves.map((move) => cells(whole(move.request + 1), move, repaid(move)));
  const total = Object.fromEntries([...counts, "paid", "saved", "net"]
    .map((key) => [key, sum(moves.map((move) => move[key]))]));
  const wide = ["results", "uncached", "rewritten", "saved"].map((key) => HEAD[key]);
  const caption = "Moves of the boundary, and what they cost and saved";
  return [title, html("p", { class: "note" },
    "A move masks more results, so what follows them is written to the cache anew: that is its " +
    `price. Price, saved since and net are in ${data.units[unit]}, up to the last of ` +
    `${plural(map.length, "request")}.`),
    table(caption, Object.values(HEAD), rows, { foot: cells("All", total, ""), wide })];
}

function showFigures({ series, unit, map }) {
  const details = html("details", {},
    html("summary", {}, "All figures of this conversation, as a table"));
  const amount = money(unit, highest(series.everything.cost));
  details.addEventListener("toggle", () => {
    const figures = (index) => policies.flatMap(([policy]) => {
      const { prompt, cached, cost } = series[policy];
      return [whole(prompt[index]), whole(cached[index]), amount(cost[index])];
    });
    const names = policies.flatMap(([, name]) => ["tokens", "cached", "bill"]
      .map((what) => `${name}: ${what}`));
    const rows = map.map((_, index) => [whole(index + 1), ...figures(index)]);
    details.append(
      table(`Tokens of each request, and bills in ${data.units[unit]}`, ["Request", ...names], rows));
  }, { once: true });
  return details;
}

/* The address names the conversation, so that a link in the table, and the way back, choose it. */
function follow() {
  const found = /^#c(\d+)$/.exec(location.hash);
  if (!found || !data.conversations[found[1] - 1]) return;
  choose(found[1] - 1);
  place("one-title").focus();
  place("one-title").scrollIntoView();
}

function start() {
  data.conversations.forEach(({ name, map }, index) => place("chooser").append(
    html("option", { value: index }, `${name} (${plural(map.length, "request")})`)));
  place("chooser").addEventListener("change", ({ target }) => choose(Number(target.value)));
  place("choose").hidden = data.conversations.length === 1;
  const sizes = data.conversations.map(({ series }) => sum(series.everything.prompt));
  choose(sizes.indexOf(highest(sizes)));
  follow();
  addEventListener("hashchange", follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const root = document.documentElement;
  addEventListener("beforeprint", () => { root.dataset.print = ""; redraw(); });
  addEventListener("afterprint", () => { delete root.dataset.print; redraw(); });
  let width = place("one").clientWidth;
  new ResizeObserver(() => {
    if (width !== (width = place("one").clientWidth)) requestAnimationFrame(redraw);
  }).observe(place("one"));
}

start();
