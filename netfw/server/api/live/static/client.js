// Requests to the server: topology, reasons and traces, and the stream of changes.

const TOKEN = "netfw-token";
const SILENCE = 45_000; // milliseconds without a comment after which a stream is dead
const TIMEOUT = 45_000; // milliseconds for an answer: the page reads nothing else while it waits

export class Unauthorized extends Error {}

export const identity = {
  get token() {
    return sessionStorage.getItem(TOKEN) ?? "";
  },
  set token(value) {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  },
};

function headers(more = {}) {
  return identity.token ? { "X-Auth-Token": identity.token, ...more } : more;
}

async function refusal(response) {
  let text = `the server answers ${response.status}`;
  try {
    text = (await response.json()).NeutronError.message;
  } catch {
    // not one of the server's own errors
  }
  return response.status === 401 ? new Unauthorized(text) : new Error(text);
}

export async function read(path, query = {}) {
  const response = await fetch(`${path}?${new URLSearchParams(query)}`, {
    headers: headers(),
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT),
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// The topology, read again only where it changed.
export class TopologyReader {
  #tag = "";
  #path = "";

  // Return the topology and the server's clock, or null: it is as before.
  async read(network) {
    const path = `topology?${new URLSearchParams(network ? { network_id: network } : {})}`;
    const known = this.#path === path && this.#tag ? { "If-None-Match": this.#tag } : {};
    const signal = AbortSignal.timeout(TIMEOUT);
    const response = await fetch(path, { headers: headers(known), cache: "no-store", signal });
    if (response.status === 304) return null;
    if (!response.ok) throw await refusal(response);
    const topology = await response.json();
    [this.#path, this.#tag] = [path, response.headers.get("ETag") ?? ""];
    topology.ahead = Date.parse(response.headers.get("Date")) - Date.now() || 0;
    return topology;
  }

  forget() {
    this.#tag = "";
  }
}

// The stream of changes: onChange for each event, onState with "live", "polling" or "offline".
export class ChangeStream {
  #last = "";
  #abort = new AbortController();
  #resume = () => {};

  // Begin again at once, with the identity of now.
  restart() {
    this.#last = "";
    this.#abort.abort();
    this.#resume();
  }

  async watch(onChange, onState) {
    for (;;) {
      this.#abort = new AbortController();
      let pause = 2_000;
      try {
        pause = await this.#stream(onChange, onState);
      } catch {
        onState("offline");
      }
      await new Promise((resolve) => {
        this.#resume = resolve;
        setTimeout(resolve, pause);
      });
    }
  }

  // Follow one stream to its end; return the milliseconds after which to ask for another.
  async #stream(onChange, onState) {
    const response = await fetch("events", {
      headers: headers(this.#last ? { "Last-Event-ID": this.#last } : {}),
      cache: "no-store",
      signal: this.#abort.signal,
    });
    if (!response.ok) {
      onState("polling");
      return 1000 * Number(response.headers.get("Retry-After") ?? 10);
    }
    onState("live");
    await readEvents(response.body, this.#abort, (id) => {
      this.#last = id;
      onChange();
    });
    return 200;
  }
}

async function readEvents(body, abort, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let timer = 0;
  try {
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), SILENCE);
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (buffer + value).split("\n\n");
      buffer = blocks.pop();
      for (const block of blocks) {
        const id = /^id: (.*)$/m.exec(block);
        if (id) onEvent(id[1]);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
