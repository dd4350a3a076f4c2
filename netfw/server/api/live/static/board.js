// The board: routers, networks, and hosts with their ports, and the links between them.

import { find, make, reconcile } from "./dom.js";
import { agentState, matches, plural, portLabel, stateOf, title } from "./model.js";

const MANY = 80; // ports from which their boxes are small
const WORDS = { ok: "working", down: "down", error: "failed", off: "switched off" };

export function renderBoard(view, filter, chosen, onChoose) {
  const now = Date.now() + view.topology.ahead;
  const choose = (kind, id) => () => onChoose(kind, id);
  reconcile(
    find("routers"),
    [...view.routers.values()].map((each) => ({ key: `router:${each.id}`, each })),
    ({ each }) => make("button", { type: "button", className: "node router", onclick: choose("router", each.id) }),
    (node, { each }) => {
      const kind = [each.ha && "HA", each.distributed && "distributed"].filter(Boolean).join(", ");
      fill(node, each, title(each), kind || "router", chosen);
    },
  );
  reconcile(
    find("networks"),
    [...view.networks.values()].map((each) => ({ key: `network:${each.id}`, each })),
    ({ each }) => make("button", { type: "button", className: "node network", onclick: choose("network", each.id) }),
    (node, { each }) => {
      const cidrs = (view.subnets.get(each.id) ?? []).map((subnet) => subnet.cidr).join(", ");
      const segment = [each.type, each.segment].filter((part) => part != null).join(" ");
      const words = [each.external ? "external" : "", cidrs, segment].filter(Boolean).join(" · ");
      fill(node, each, title(each), words, chosen);
      node.dataset.colour = each.colour;
    },
  );
  find("groups-title").textContent = view.byHost ? "Hosts" : "Ports by network";
  find("groups").dataset.density = view.ports.size > MANY ? "small" : "large";
  reconcile(
    find("groups"),
    view.groups,
    () => make("article", { className: "group" }, make("header"), make("div", { className: "ports" })),
    (node, group) => renderGroup(node, group, view, filter, chosen, now, choose),
  );
  for (const [id, all] of [["routers", view.routers], ["networks", view.networks], ["groups", view.groups]]) {
    find(id).parentElement.hidden = (all.size ?? all.length) === 0;
  }
}

function fill(node, each, name, words, chosen) {
  const state = stateOf(each);
  node.dataset.state = state;
  node.setAttribute("aria-pressed", String(chosen.includes(each.id)));
  node.title = [`${name}: ${each.status}`, each.reason, each.id].filter(Boolean).join("\n");
  node.replaceChildren(mark(state), make("b", { textContent: name }), make("small", { textContent: words }));
}

const mark = (state) => make("i", { className: "mark", data: { state }, role: "img", "aria-label": WORDS[state] });

function renderGroup(node, group, view, filter, chosen, now, choose) {
  const [head, ports] = node.children;
  const agents = group.agents.map((agent) => {
    const { kind, state, text, title: hint } = agentState(agent, now);
    return make("span", { className: "agent", data: { state }, title: hint }, mark(state), text ? `${kind}: ${text}` : kind);
  });
  const shown = group.ports.filter((port) => matches(port, view, filter));
  const all = plural(group.ports.length, "port");
  const count = shown.length === group.ports.length ? all : `${shown.length} of ${all}`;
  head.replaceChildren(make("h3", { textContent: group.name }), make("small", { textContent: count }), ...agents);
  reconcile(
    ports,
    shown.map((port) => ({ key: port.id, port })),
    ({ port }) => make("button", { type: "button", className: "port", data: { id: port.id }, onclick: choose("port", port.id) }),
    (button, { port }) => renderPort(button, port, view, chosen),
  );
}

function renderPort(button, port, view, chosen) {
  const state = stateOf(port);
  const network = view.networks.get(port.network);
  if (button.dataset.state && button.dataset.state !== state) flash(button);
  button.dataset.state = state;
  button.dataset.colour = network?.colour ?? 0;
  const place = chosen.indexOf(port.id);
  button.setAttribute("aria-pressed", String(place >= 0));
  button.dataset.place = place < 0 ? "" : place === 0 ? "from" : "to";
  button.title = [`${portLabel(port)}: ${port.status}`, port.reason, port.addresses.join(", "), network && `network ${title(network)}`, port.id]
    .filter(Boolean)
    .join("\n");
  button.replaceChildren(mark(state), make("span", { textContent: portLabel(port) }));
}

function flash(button) {
  button.classList.add("changed");
  button.addEventListener("animationend", () => button.classList.remove("changed"), { once: true });
}

// Draw the links between the rows; *hot* is the key of the box whose links stand out.
export function drawLinks(view, hot) {
  const board = find("board");
  const origin = board.getBoundingClientRect();
  const boxes = new Map();
  for (const node of board.querySelectorAll(".node, .group")) boxes.set(node.dataset.key, node.getBoundingClientRect());
  const svg = find("links");
  svg.setAttribute("width", board.scrollWidth);
  svg.setAttribute("height", board.scrollHeight);
  svg.replaceChildren(
    ...view.links
      .filter((link) => boxes.has(link.from) && boxes.has(link.to))
      .map((link) => {
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        const [above, below] = [boxes.get(link.from), boxes.get(link.to)];
        const x1 = above.left + above.width / 2 - origin.left + board.scrollLeft;
        const y1 = above.bottom - origin.top + board.scrollTop;
        const x2 = below.left + below.width / 2 - origin.left + board.scrollLeft;
        const y2 = below.top - origin.top + board.scrollTop;
        const bend = Math.max(16, (y2 - y1) / 2);
        path.setAttribute("d", `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`);
        path.setAttribute("stroke-width", String(1.25 + Math.log2(link.count) / 2));
        path.dataset.colour = link.colour;
        path.dataset.key = link.key;
        path.classList.toggle("bad", link.bad);
        path.classList.toggle("hot", hot !== "" && (link.from === hot || link.to === hot));
        path.classList.toggle("dim", hot !== "" && link.from !== hot && link.to !== hot);
        return path;
      }),
  );
}
