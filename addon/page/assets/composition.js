/* What the prompts of a conversation are composed of: a bar for each request, and a table. A request
   has the tokens of each part in the order of `data.parts`, and `spared`, those that masking took
   out. */

const tokensOf = ({ parts }, part) => (parts ? parts[Object.keys(data.parts).indexOf(part)] : 0);
const countSpared = ({ spared }) => Math.max(0, spared || 0);

/* The parts that any request has, and what was taken out as the last one. */
function findParts(requests) {
  const found = Object.entries(data.parts)
    .map(([part, name]) => ({ part, name, mark: `part-${part}`,
      tokens: requests.map((each) => tokensOf(each, part)) }))
    .filter(({ tokens }) => tokens.some(Boolean));
  const spared = requests.map(countSpared);
  return spared.some(Boolean)
    ? [...found, { name: "taken out by masking", mark: "part-out", tokens: spared }] : found;
}

const nameParts = (found) => found.map(({ mark, name }) => [mark, name]);

/* Bars are drawn over each other: first all of a prompt, then all but its last part, and so on. */
function chartParts(requests, found, moves) {
  const heights = found.map((_, at) => requests.map((_, request) =>
    sum(found.slice(0, at + 1).map(({ tokens }) => tokens[request])))).reverse();
  const say = (at) => found.filter(({ tokens }) => tokens[at])
    .map(({ name, tokens }) => `${whole(tokens[at])} ${name}`).join("; ");
  return chart("What each prompt is composed of", "In tokens, estimated with the vocabulary o200k_base.", {
    count: requests.length, top: highest(heights[0] || []), moves, unit: "Tokens", axis: compact,
    label: `What each prompt is composed of. The last request: ${say(requests.length - 1)}.`,
    read: (at) => `Request ${whole(at + 1)}: ${say(at)}`,
    series: [...found].reverse().map(({ name, mark }) => bars(name, mark)),
    values: heights,
  });
}

function tellParts(requests, found) {
  const sent = found.filter(({ part }) => part);
  if (!sent.length) return [];
  const last = (tokens) => tokens.at(-1);
  const share = (tokens, all) => (all ? ` (${Math.round((tokens / all) * 100)}%)` : "");
  const column = (take) => {
    const all = sum(sent.map(({ tokens }) => take(tokens)));
    return [...sent.map(({ tokens }) => whole(take(tokens)) + share(take(tokens), all)), whole(all)];
  };
  const [latest, every] = [column(last), column(sum)];
  const rows = sent.map(({ mark, name }, at) => [
    html("span", { class: "part" }, html("span", { class: `mark ${mark}`, "aria-hidden": "true" }), name),
    latest[at], every[at]]);
  const title = "What the prompts are composed of";
  return [html("h3", {}, title), table(title,
    ["Part", "Tokens in the last request", `Tokens in ${plural(requests.length, "request")}`], rows,
    { foot: ["Together", latest.at(-1), every.at(-1)] })];
}
