// Messages by @anthropic-ai/sdk; `plays.mjs` says what it reads and prints.

import { load, main, url } from "./plays.mjs";

const Anthropic = load("@anthropic-ai/sdk").default;
const client = new Anthropic({ apiKey: "k", baseURL: url });

const messages = {
  name: "messages",

  begin(text, image) {
    return [{ role: "user", content: [{ type: "text", text }, ...show(image)] }];
  },

  async ask(items, stream) {
    const tools = [{ name: "shell", input_schema: { type: "object" } }];
    const asked = { model: "claude-sonnet-4-5", messages: items, tools };
    const returned = [];
    let answer;
    if (stream) {
      const events = client.messages.stream({ ...asked, max_tokens: 999 });
      for await (const event of events) returned.push(structuredClone(event));
      answer = await events.finalMessage();
    } else {
      returned.push({ usage: await client.messages.countTokens(asked) });
      answer = await client.messages.create({ ...asked, max_tokens: 999 });
    }
    returned.push(answer);
    const content = answer.content.map(({ parsed_output, caller, ...block }) => block);
    const calls = content.filter((block) => block.type === "tool_use");
    const said = { role: "assistant", content };
    return { returned, items: [said], calls: calls.map((call) => call.id) };
  },

  give(calls, text, image) {
    const content = image ? [{ type: "text", text }, ...show(image)] : text;
    const results = calls.map((id) => ({ type: "tool_result", tool_use_id: id, content }));
    return results.length ? [{ role: "user", content: results }] : [];
  },
};

function show(image) {
  const source = { type: "base64", media_type: "image/png", data: image };
  return image ? [{ type: "image", source }] : [];
}

await main(messages);
