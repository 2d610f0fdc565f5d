/* One conversation: what it saved, how large its prompts were, the masking map, the moves. `one` is
   as /conversations/KEY has it; its requests count from 0, and from `forgotten` on. */

function readRequests({ columns, all }) {
  return all.map((values) => Object.fromEntries(columns.map((name, at) => [name, values[at]])));
}

const saving = ({ unit, is_observed }) => (request) => {
  if (request.observed && !is_observed) return 0; /* some were masked; this one was not */
  const [before, after] = unit === "usd"
    ? [request.dollars_before, request.dollars_after] : [request.tokens_before, request.tokens_after];
  return before === null || after === null ? 0 : before - after;
};

const UNIT = { usd: "US dollars", input_tokens: "input tokens" };

/* hasSums: whether to say what it came to, which a page of one conversation has above. */
function showConversation(one, hasSums = true) {
  const requests = readRequests(one);
  const names = one.folder ? [...one.names, one.folder] : one.names;
  const parts = [html("h3", {}, names.join(", "))];
  if (hasSums) parts.push(html("p", {}, `${one.line}.`));
  parts.push(...[one.unfit, ...one.notes].filter(Boolean)
    .map((note) => html("p", {}, `${note[0].toUpperCase()}${note.slice(1)}.`)));
  if (one.is_observed) {
    parts.push(html("p", { class: "warning" }, "These requests left as the agent wrote them: what " +
      "follows is what masking would have done, and would have saved."));
  }
  const observed = requests.filter((request) => request.observed).length;
  if (observed && !one.is_observed) {
    parts.push(html("p", { class: "warning" }, `Of these, ${plural(observed, "request")} left as the ` +
      "agent wrote them: what follows is what masking would have done to them, without its savings."));
  }
  if (one.forgotten) {
    parts.push(html("p", { class: "note" },
      `What follows is about the last ${plural(requests.length, "request")}; ` +
      `${plural(one.forgotten, "earlier one")} are in the sums alone.`));
  }
  if (requests.length) {
    parts.push(...showAmounts(one, requests),
      ...showMap({ map: requests.map(({ row }) => row || []) }),
      ...showMoves(one.moves, one.unit, requests.length), showRequests(requests, one));
  }
  return parts;
}

function showAmounts({ saved, unit, moves }, requests) {
  const amount = money(unit, highest(saved.map(Math.abs)));
  const last = requests.length - 1;
  const found = findParts(requests);
  return [
    legend([["line chosen", "saved so far"], ["move", "the boundary moves"], ...nameParts(found)]),
    html("div", { class: "row pair" },
      chart("Saved so far", "What the prompts would have cost, less what they cost.", {
        count: requests.length, top: highest(saved), bottom: -highest(saved.map((each) => -each)),
        moves, unit: UNIT[unit], axis: unit === "usd" ? amount : compact,
        label: `Saved so far: ${amount(saved[last])} after ${plural(requests.length, "request")}.`,
        read: (at) => `Request ${whole(at + 1)}: ${amount(saved[at])} saved so far`,
        series: [line("chosen", { width: 2, points: { show: requests.length === 1 } })],
        values: [saved],
      }),
      chartParts(requests, found, moves)),
    ...tellParts(requests, found)];
}

function showMoves(moves, unit, count) {
  const title = html("h3", {}, "Moves of the boundary");
  if (!moves.length) return [title, html("p", {}, "The boundary has not moved.")];
  const amount = money(unit, highest(moves.map(({ saved }) => Math.abs(saved))));
  const price = money(unit, highest(moves.map((move) => move.price)));
  const repaid = ({ request, repaid_at: at }) => {
    if (at === null) return "not yet";
    return at === request ? "at once" : whole(at + 1);
  };
  const net = (move) => move.saved - move.price;
  const rows = moves.map((move) => [whole(move.request + 1), whole(move.results),
    whole(move.removed), price(move.price), loss(move.saved, amount), loss(net(move), amount),
    repaid(move)]);
  const all = (read) => sum(moves.map(read));
  const foot = ["All", whole(all(({ results }) => results)), whole(all(({ removed }) => removed)),
    price(all((move) => move.price)), loss(all(({ saved }) => saved), amount),
    loss(all(net), amount), ""];
  return [title, html("p", { class: "note" },
    "A move masks more results, so what follows them is written to the cache anew: that is its " +
    `price. Price, saved since and net are in ${UNIT[unit]}, up to the last of ` +
    `${plural(count, "request")}.`),
    table("Moves of the boundary, and what they cost and saved",
      ["At request", "Results newly masked", "Tokens taken out", "Price", "Saved since", "Net",
        "Paid off at request"], rows,
      { foot, wide: ["Results newly masked", "Tokens taken out", "Saved since"] })];
}

function describeOutcome({ failed, why, masked, results, shortened, observed, resent, clearing }) {
  if (clearing === "refused") return `refused to clear, and sent without asking: ${resent}`;
  if (resent) return `refused masked, and sent whole: ${resent}`;
  if (failed) return `failed: ${failed}`;
  const short = shortened ? `, ${whole(shortened)} shortened` : "";
  if (observed) {
    return `observed: ${whole(masked)} of ${plural(results, "result")} would be masked${short}`;
  }
  const done = clearing === "asked" ? "cleared by the provider" : "masked";
  return why ? `untouched: ${why}` : `${whole(masked)} of ${plural(results, "result")} ${done}${short}`;
}

function showRequests(requests, one) {
  const details = html("details", {}, html("summary", {}, "Every request, as a table"));
  details.addEventListener("toggle", () => {
    const amount = money(one.unit, highest(requests.map((each) => Math.abs(saving(one)(each)))));
    const number = (value) => (value === null ? "" : whole(value));
    const rows = requests.map((each, at) => [
      whole(at + 1), clock(each.time), describeOutcome(each), number(each.sent), number(each.spared),
      number(each.prompt), number(each.cached), loss(saving(one)(each), amount)]);
    details.append(table("Every request", ["Request", "At", "What became of it", "Tokens sent",
      "Not sent", "Prompt, as reported", "Cached, as reported", "Saved"], rows,
    { wide: ["At", "Not sent", "Prompt, as reported", "Cached, as reported"] }));
  }, { once: true });
  return details;
}
