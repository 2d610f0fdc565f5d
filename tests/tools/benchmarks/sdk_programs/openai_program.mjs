// Chat Completions and Responses by the openai client; `plays.mjs` says what it reads and prints.

import { load, main, url } from "./plays.mjs";

const OpenAI = load("openai").default;
const client = new OpenAI({ apiKey: "k", baseURL: `${url}/v1` });
const tool = { name: "shell", parameters: { type: "object", properties: {} } };

const chat = {
  name: "chat",

  begin(text, image) {
    const shown = { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } };
    return [{ role: "user", content: image ? [{ type: "text", text }, shown] : text }];
  },

  async ask(messages, stream) {
    const asked = { model: "gpt-4o", messages, tools: [{ type: "function", function: tool }] };
    const returned = [];
    let answer;
    if (stream) {
      const chunks = client.chat.completions.stream(asked);
      for await (const chunk of chunks) returned.push(chunk);
      answer = await chunks.finalChatCompletion();
    } else {
      answer = await client.chat.completions.create(asked);
    }
    returned.push(answer);
    const { parsed, ...message } = answer.choices[0].message;
    const calls = (message.tool_calls ?? []).map((call) => call.id);
    return { returned, items: [message], calls };
  },

  give(calls, text) {
    return calls.map((id) => ({ role: "tool", tool_call_id: id, content: text }));
  },
};

const responses = {
  name: "responses",

  begin(text, image) {
    return [{ role: "user", content: [{ type: "input_text", text }, ...show(image)] }];
  },

  async ask(input, stream) {
    const tools = [{ type: "function", ...tool, strict: false }];
    const asked = { model: "gpt-5.5", input, tools, store: false };
    const returned = [];
    let answer;
    if (stream) {
      const events = client.responses.stream(asked);
      for await (const event of events) returned.push(event);
      answer = await events.finalResponse();
    } else {
      answer = await client.responses.create(asked);
    }
    returned.push(answer);
    const calls = answer.output.filter((item) => item.type === "function_call");
    return { returned, items: answer.output.map(strip), calls: calls.map((call) => call.call_id) };
  },

  give(calls, text, image) {
    const output = image ? [{ type: "input_text", text }, ...show(image)] : text;
    return calls.map((id) => ({ type: "function_call_output", call_id: id, output }));
  },
};

function show(image) {
  const image_url = `data:image/png;base64,${image}`;
  return image ? [{ type: "input_image", detail: "auto", image_url }] : [];
}

// An item as it may be sent: without what the client has parsed in it.
function strip({ parsed_arguments, ...item }) {
  if (!item.content) return item;
  return { ...item, content: item.content.map(({ parsed, ...part }) => part) };
}

await main(chat, responses);
