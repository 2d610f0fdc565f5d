// Asks a URL through the proxy of the environment, in each way that a client of this runtime may
// take, and prints one line of JSON for each: whether the answer came, or what went wrong.

const target = new URL(process.argv[process.argv.length - 1]);

function tell(way, outcome, detail = "") {
  console.log(JSON.stringify({ way, outcome, detail: String(detail).slice(0, 200) }));
}

const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|UnknownIssuer|certificate/i;

const UNREACHED = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ConnectionRefused|dns|resolve|FailedToOpenSocket/i;

function judge(error) {
  const cause = error.cause ?? error;
  const detail = cause.code ?? cause.message ?? cause;
  if (UNTRUSTED.test(detail)) return ["untrusted", detail];
  return [UNREACHED.test(detail) ? "unreached" : "failed", detail];
}

async function tryFetch() {
  try {
    const answer = await fetch(target, { signal: AbortSignal.timeout(15000) });
    tell("fetch", answer.ok ? "trusted" : "failed", `status ${answer.status}`);
  } catch (error) {
    tell("fetch", ...judge(error));
  }
}

// What undici's ProxyAgent and https-proxy-agent do, which most clients bring along.
async function tryTunnel() {
  const { connect } = await import("node:net");
  const tls = await import("node:tls");
  const proxy = new URL(process.env.HTTPS_PROXY);
  const authority = `${target.hostname}:443`;
  await new Promise((resolve) => {
    const end = (...told) => (tell("tls.connect", ...told), resolve());
    const socket = connect(Number(proxy.port), proxy.hostname);
    socket.setTimeout(15000, () => socket.destroy(new Error("no answer in 15 s")));
    socket.once("error", (error) => end(...judge(error)));
    socket.once("connect", () =>
      socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
    );
    socket.once("data", (head) => {
      if (!/^HTTP\/1.. 200/.test(head)) return end("failed", "the proxy refused the tunnel");
      const secure = tls.connect({ socket, servername: target.hostname });
      secure.once("secureConnect", () => end("trusted"));
      secure.once("error", (error) => end(...judge(error)));
    });
  });
}

if (!process.versions.bun && typeof Deno === "undefined") await tryTunnel();
await tryFetch();
process.exit();
