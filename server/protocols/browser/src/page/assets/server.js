// The server: every request of this page is made here, with the token where there is one.

const KEPT = "muster-token";
let token = kept(inTab, KEPT);

// The token is in the memory of the page, and in the tab's storage where that is wished: nowhere else.
function useToken(value, isKept) {
  token = value;
  keep(inTab, KEPT, isKept ? value : "");
}

const withToken = (headers) => (token ? { ...headers, Authorization: `Bearer ${token}` } : headers);

// What one can do about a status, in words.
function advice(status) {
  switch (status) {
    case 0:
      return "The server cannot be reached. Is it running, and is the network there?";
    case 401:
      return "Give a token: the button is at the top of the page.";
    case 403:
      return "The token, or this machine, may not do that.";
    case 404:
      return "The model may have been unloaded: read the list again.";
    case 413:
      return "The request is larger than the server allows.";
    case 415:
      return "The model takes another kind of data.";
    case 429:
    case 503:
      return "The server has too much to do, or the model is not ready. Try again in a moment.";
    case 504:
      return "The time for this request was over.";
    case 507:
      return "The server has too little memory for it.";
    default:
      return status >= 500 ? "The log of the server says more." : "";
  }
}

// A reply that is no answer: its status (0 without a reply) and the server's own words.
class Refused extends Error {
  constructor(status, message, timing) {
    super(message);
    this.status = status;
    this.timing = timing;
  }
}

// Sends a request and reads the whole reply. Fails with `Refused`.
async function send({ method, path, type, body }) {
  const begun = performance.now();
  let reply, data;
  try {
    const headers = withToken(type ? { "Content-Type": type } : {});
    reply = await fetch(path, { method, headers, body, cache: "no-store", credentials: "omit" });
    data = await reply.arrayBuffer();
  } catch {
    throw new Refused(0, "There was no reply.");
  }
  const timing = timed(performance.now() - begun, reply.headers.get("server-timing"));
  const text = new TextDecoder().decode(data);
  if (!reply.ok) throw new Refused(reply.status, reason(text) || reply.statusText, timing);
  return { status: reply.status, type: reply.headers.get("content-type") ?? "", text, size: data.byteLength, timing };
}

// The sentence in the body of an error, in any of the forms that the server has.
function reason(text) {
  try {
    const { error, message } = JSON.parse(text);
    return typeof error === "string" ? error : (error?.message ?? message ?? "");
  } catch {
    return text.slice(0, 500);
  }
}

// Where the time went, in milliseconds. `queue` and `run` are null where the server does not say them.
function timed(measured, header) {
  const said = {};
  for (const part of (header ?? "").split(",")) {
    const [, name, duration] = part.match(/^\s*([\w-]+)\s*;.*\bdur=([\d.]+)/) ?? [];
    if (name) said[name] = Number(duration);
  }
  const { queue = null, compute: run = null, total = null } = said;
  return { measured, queue, run, total, rest: Math.max(0, measured - (queue ?? 0) - (run ?? 0)) };
}

// JSON as the server writes it: NaN and infinities are words, and long integers keep their digits as texts.
function readJson(text) {
  if (!/NaN|Infinity|\d{16}/.test(text)) return JSON.parse(text);
  const parts = /"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return JSON.parse(text.replace(parts, (part) => (/^(-?\d{16,}|-?Infinity|NaN)$/.test(part) ? `"${part}"` : part)));
}
