// What the page shows, from the topology that the server sends.  Pure.

const ROUTER_PORTS = /^network:(router_|ha_router_replicated)/;
const OWNERS = [
  [/^network:dhcp/, "dhcp"],
  [/^network:router_gateway/, "gateway"],
  [/^network:router_ha/, "HA"],
  [ROUTER_PORTS, "router"],
  [/^network:floatingip/, "floating IP"],
];
const AGENTS = { "Open vSwitch agent": "L2", "DHCP agent": "DHCP", "L3 agent": "L3", "Metadata agent": "metadata" };
const COLOURS = 10;

export const short = (id) => id.slice(0, 8);
export const title = (each) => each.name || short(each.id);

// The state of a port, router or network: ok, down, error or off.
export function stateOf(each) {
  if (each.admin_up === false) return "off";
  if (each.status === "ACTIVE") return "ok";
  if (each.status === "ERROR" || each.binding === "binding_failed") return "error";
  if (each.status === "N/A" || each.owner === "network:floatingip") return "off";
  return "down";
}

export const isProblem = (each) => ["down", "error"].includes(stateOf(each));

export function portLabel(port) {
  const owner = OWNERS.find(([pattern]) => pattern.test(port.owner ?? ""));
  return [owner?.[1], port.name || port.addresses[0] || short(port.id)].filter(Boolean).join(" ");
}

// The state of an agent, in words: how long it is silent, and how far behind.
export function agentState(agent, now) {
  const silent = Math.max(0, Math.round((now - Date.parse(`${agent.heartbeat?.replace(" ", "T")}Z`)) / 1000));
  const heard = Number.isFinite(silent) ? `${duration(silent)} ago` : "never";
  const kind = AGENTS[agent.type] ?? agent.type;
  const behind = [
    agent.lag_seconds ? `${duration(agent.lag_seconds)} behind` : "",
    agent.degraded ? `${agent.degraded} degraded` : "",
    agent.waiting ? `${agent.waiting} waiting` : "",
    agent.is_synced === false ? "not synced" : "",
    agent.admin_up === false ? "switched off" : "",
  ].filter(Boolean);
  const state = !agent.alive ? "error" : behind.length ? "down" : "ok";
  const text = agent.alive ? behind.join(", ") : `dead, heard ${heard}`;
  return { kind, state, text, title: `${agent.type}: heartbeat ${heard}${behind.length ? `; ${behind.join(", ")}` : ""}` };
}

export const plural = (count, word, more = "") => `${count}${more} ${word}${count === 1 && !more ? "" : "s"}`;

export function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

const colours = new Map();

// The colour of a network, which it keeps while the page is open.
function colourOf(network) {
  if (!colours.has(network)) colours.set(network, colours.size % COLOURS);
  return colours.get(network);
}

const sorted = (all) => [...all].sort((a, b) => compare(title(a), title(b)));

// Arrange a topology: indexes, groups of ports (by host, or by network where hosts are hidden), and
// the links between rows.
export function arrange(topology) {
  const networks = new Map(sorted(topology.networks).map((each) => [each.id, { ...each, colour: colourOf(each.id) }]));
  const routers = new Map(sorted(topology.routers).map((each) => [each.id, each]));
  const ports = new Map(topology.ports.map((each) => [each.id, each]));
  const byHost = !topology.hidden.includes("agents");
  const subnets = Map.groupBy(topology.subnets, (each) => each.network);
  const groups = byHost ? hostGroups(topology) : networkGroups(topology, networks);
  return { topology, networks, routers, ports, subnets, groups, byHost, links: links(topology, networks, routers, byHost) };
}

function hostGroups(topology) {
  const agents = Map.groupBy(topology.agents, (each) => each.host);
  const ports = Map.groupBy(topology.ports, (each) => each.host ?? "");
  const names = [...new Set([...agents.keys(), ...ports.keys()])].filter(Boolean).sort(compare);
  const groups = names.map((name) => group(`host:${name}`, name, ports.get(name), agents.get(name)));
  if (ports.has("")) groups.push(group("host:", "bound to no host", ports.get(""), []));
  return groups;
}

function networkGroups(topology, networks) {
  const ports = Map.groupBy(topology.ports, (each) => each.network);
  return [...ports].map(([id, found]) => group(`of:${id}`, title(networks.get(id) ?? { id, name: "" }), found, []));
}

function group(key, name, ports = [], agents = []) {
  const ordered = [...ports].sort((a, b) => colourOf(a.network) - colourOf(b.network) || compare(portLabel(a), portLabel(b)));
  return { key, name, ports: ordered, agents: [...agents].sort((a, b) => compare(a.type, b.type)) };
}

const compare = (a, b) => a.localeCompare(b, "en", { numeric: true });

function links(topology, networks, routers, byHost) {
  const found = new Map();
  const add = (from, to, network, bad) => {
    const key = `${from} ${to}`;
    const link = found.get(key) ?? { key, from, to, colour: networks.get(network)?.colour ?? 0, count: 0, bad: false };
    link.count += 1;
    link.bad ||= bad;
    found.set(key, link);
  };
  for (const port of topology.ports) {
    if (ROUTER_PORTS.test(port.owner ?? "") && routers.has(port.device)) {
      add(`router:${port.device}`, `network:${port.network}`, port.network, isProblem(port));
    }
    const group = byHost ? `host:${port.host ?? ""}` : `of:${port.network}`;
    add(`network:${port.network}`, group, port.network, isProblem(port));
  }
  for (const router of topology.routers) {
    const key = `router:${router.id} network:${router.gateway}`;
    if (router.gateway && !found.has(key)) add(`router:${router.id}`, `network:${router.gateway}`, router.gateway, false);
  }
  return [...found.values()];
}

// What is wrong, the worst first.
export function problems(view, now) {
  const agents = view.topology.agents
    .map((agent) => ({ agent, ...agentState(agent, now) }))
    .filter(({ state }) => state !== "ok")
    .map(({ agent, state, kind, text }) => ({ kind: "agent", id: agent.id, state, title: `${kind} agent on ${agent.host}`, text }));
  const others = (kind, all) =>
    [...all.values()].filter(isProblem).map((each) => ({
      kind,
      id: each.id,
      state: stateOf(each),
      title: `${kind} ${title(each)} is ${each.status}`,
      text: each.reason ?? (each.binding === "binding_failed" ? `no mechanism driver binds it to host ${each.host}` : ""),
    }));
  const all = [...agents, ...others("router", view.routers), ...others("port", view.ports)];
  const rank = (each) => (each.state === "error" ? 0 : 1);
  return all.sort((a, b) => rank(a) - rank(b) || compare(a.title, b.title));
}

export function matches(port, view, filter) {
  if (filter.problems && !isProblem(port)) return false;
  if (!filter.text) return true;
  const network = view.networks.get(port.network);
  const words = [port.id, port.name, port.mac, port.host, port.owner, network?.name, ...port.addresses];
  return words.some((word) => word?.toLowerCase().includes(filter.text));
}
