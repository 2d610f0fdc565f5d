// What the programs on the vendors' npm clients share: `plays.py`, in JavaScript.
//
//     node PROGRAM.mjs FOLDER BASE_URL < CASES
//
// FOLDER holds the `node_modules` with the client.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

export const url = process.argv[3];
export const load = createRequire(resolve(process.argv[2], "here.js"));

// An interface has a `name`, and `begin`, `ask` and `give` as in `plays.py`.
export async function main(...apis) {
  const lines = readFileSync(0, "utf8").split("\n").filter((line) => line);
  const cases = lines.map((line) => JSON.parse(line));
  const isMany = (each) => each.name.startsWith("many");
  for (const api of apis) {
    for (const each of cases.filter((each) => !isMany(each))) report(await play(api, each));
    (await Promise.all(cases.filter(isMany).map((each) => play(api, each)))).forEach(report);
  }
}

async function play(api, asked) {
  const name = `${api.name} ${asked.name}${asked.stream ? " stream" : ""}`;
  const image = asked.image ?? "";
  const returned = [];
  let items = api.begin(`Look at all of it. case: ${name}.`, image);
  try {
    for (let calls = [""]; calls.length > 0; ) {
      const step = await api.ask(items, asked.stream);
      returned.push(step.returned);
      calls = step.calls;
      items = [...items, ...step.items, ...api.give(calls, textOf(asked.chars), image)];
    }
  } catch (error) {
    returned.push(describe(error));
  }
  return { case: name, returned };
}

function textOf(chars) {
  const line = "a line of output é, and nothing went wrong\n";
  return line.repeat(1 + Math.floor(chars / 40)).slice(0, chars);
}

function describe(error) {
  const { status, code, type, param, error: body } = error;
  const seen = { status, code, type, param, body };
  return { raised: error.constructor.name, text: String(error.message), ...seen };
}

function report(played) {
  process.stdout.write(JSON.stringify(played) + "\n");
}
