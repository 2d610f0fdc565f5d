// Gemini by @google/genai; `plays.mjs` says what it reads and prints.

import { load, main, url } from "./plays.mjs";

const { GoogleGenAI } = load("@google/genai");
const httpOptions = { baseUrl: url, retryOptions: { attempts: 3 } };
const { models } = new GoogleGenAI({ apiKey: "k", httpOptions });
const shell = { name: "shell", description: "Runs a command." };
const config = { tools: [{ functionDeclarations: [shell] }] };

const gemini = {
  name: "gemini",

  begin(text, image) {
    const shown = { inlineData: { data: image, mimeType: "image/png" } };
    return [{ role: "user", parts: image ? [{ text }, shown] : [{ text }] }];
  },

  async ask(contents, stream) {
    const asked = { model: "gemini-2.5-pro", contents, config };
    const answers = [];
    if (stream) {
      for await (const answer of await models.generateContentStream(asked)) answers.push(answer);
    } else {
      answers.push(await models.generateContent(asked));
    }
    const parts = answers.flatMap((answer) => answer.candidates?.[0].content?.parts ?? []);
    const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall.id);
    const returned = answers.map(({ sdkHttpResponse, ...answer }) => answer);
    return { returned, items: [{ role: "model", parts }], calls };
  },

  give(calls, text) {
    const response = { output: text };
    const parts = calls.map((id) => ({ functionResponse: { id, name: "shell", response } }));
    return parts.length ? [{ role: "user", parts }] : [];
  },
};

await main(gemini);
