// The live page: reads the topology, keeps it current, and reacts to clicks.

import { drawLinks, renderBoard } from "./board.js";
import { ChangeStream, TopologyReader, Unauthorized, identity, read } from "./client.js";
import { find, make } from "./dom.js";
import { arrange, isProblem, plural, title } from "./model.js";
import { renderProblems, renderResource, renderTrace } from "./panel.js";

const POLL = 10_000; // no event tells of heartbeats, nor of what agents tell other processes of the server
const LEAST = 700; // milliseconds between two reads

const reader = new TopologyReader();
const stream = new ChangeStream();
const filter = { text: "", problems: false };
const question = { protocol: "icmp", port: "80", version: "4" };
let view = null;
let chosen = []; // {kind, id}: one resource, or two ports
let answer = null; // explanation or trace of what is chosen
let asked = 0;
let hot = "";
let isReading = false;
let isStale = false;

const ids = () => chosen.map((each) => each.id);

function render() {
  if (!view) return;
  renderBoard(view, filter, ids(), choose);
  summarize();
  renderPanel();
  requestAnimationFrame(() => drawLinks(view, hot));
}

function renderPanel() {
  const panel = find("panel");
  if (chosen.length === 2) renderTrace(panel, answer, question, changeQuestion, clear);
  else if (chosen.length === 1) renderResource(panel, view, chosen[0].kind, chosen[0].id, answer, clear);
  else renderProblems(panel, view, choose);
}

function summarize() {
  const { topology, ports, routers, networks, groups, byHost } = view;
  const more = (name) => (topology.more[name] ? "+" : "");
  const bad = [...ports.values(), ...routers.values()].filter(isProblem).length;
  const parts = [
    byHost ? plural(groups.filter((each) => each.key !== "host:").length, "host", more("agents")) : "",
    plural(routers.size, "router", more("routers")),
    plural(networks.size, "network", more("networks")),
    plural(ports.size, "port", more("ports")),
    bad ? `${bad} down` : "all up",
  ];
  find("summary").textContent = parts.filter(Boolean).join(" · ");
  const cut = Object.entries(topology.more).map(([name, limit]) => `the first ${limit} ${name}`);
  notice(cut.length ? `Only ${cut.join(" and ")} are shown; there are more. Choose a network to see its ports.` : "");
  find("identity").textContent = topology.admin ? "administrator" : `project ${topology.project}`;
}

function notice(text) {
  find("notice").textContent = text;
  find("notice").hidden = !text;
}

// The first port is where a packet comes from, the second where it goes; a third starts anew.
function choose(kind, id) {
  const is = (each) => each.kind === kind && each.id === id;
  if (chosen.some(is)) chosen = chosen.filter((each) => !is(each));
  else if (kind === "port" && chosen.length === 1 && chosen[0].kind === "port") chosen = [chosen[0], { kind, id }];
  else chosen = [{ kind, id }];
  find("panel").replaceChildren();
  ask();
}

function clear() {
  chosen = [];
  ask();
}

function changeQuestion(change) {
  if (change.swap) chosen.reverse();
  else Object.assign(question, change);
  ask();
}

// Ask for the reasons of what is chosen, or for a trace.
async function ask({ keep = false } = {}) {
  const number = ++asked;
  if (!keep) answer = null;
  render();
  if (!chosen.length || (chosen.length === 1 && chosen[0].kind === "network")) return;
  let found;
  try {
    if (chosen.length === 2) {
      const port = question.protocol === "icmp" ? {} : { port: question.port };
      const { protocol, version } = question;
      found = await read("trace", { from: chosen[0].id, to: chosen[1].id, protocol, version, ...port });
    } else {
      found = await read("explain", chosen[0]);
    }
  } catch (error) {
    found = { error: error.message };
  }
  if (number !== asked) return;
  answer = found;
  render();
}

async function refresh() {
  if (isReading) {
    isStale = true;
    return;
  }
  isReading = true;
  isStale = false;
  try {
    const topology = await reader.read(find("network").value);
    if (topology) {
      view = arrange(topology);
      fillNetworks();
    }
    await ask({ keep: true }); // rules and agents decide too, which the board does not show
  } catch (error) {
    if (error instanceof Unauthorized) askToken(error.message);
    else notice(`Not up to date: ${error.message}`);
  }
  setTimeout(() => {
    isReading = false;
    if (isStale) refresh();
  }, LEAST);
}

function fillNetworks() {
  const select = find("network");
  const value = select.value;
  const names = [...view.networks.values()].map((each) => make("option", { value: each.id, textContent: title(each) }));
  select.replaceChildren(make("option", { value: "", textContent: "all networks" }), ...names);
  select.value = view.networks.has(value) ? value : "";
}

function askToken(reason) {
  const dialog = find("login");
  find("login-reason").textContent = reason;
  if (!dialog.open) dialog.showModal();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("netfw-theme", theme);
}

function listen() {
  find("login-form").addEventListener("submit", (event) => {
    event.preventDefault();
    identity.token = find("token").value.trim();
    find("token").value = "";
    find("login").close();
    reader.forget();
    stream.restart();
    refresh();
  });
  find("identity").addEventListener("click", () => askToken("Give the token of another user."));
  find("search").addEventListener("input", (event) => {
    filter.text = event.target.value.trim().toLowerCase();
    render();
  });
  find("problems").addEventListener("change", (event) => {
    filter.problems = event.target.checked;
    render();
  });
  find("network").addEventListener("change", refresh);
  find("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
    setTheme(dark ? "light" : "dark");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !find("login").open && chosen.length) clear();
    if (event.key === "/" && event.target === document.body) {
      event.preventDefault();
      find("search").focus();
    }
  });
  const point = (event) => {
    const key = event.target.closest?.(".node, .group")?.dataset.key ?? "";
    if (key === hot || !view) return;
    hot = key;
    drawLinks(view, hot);
  };
  for (const name of ["pointerover", "focusin"]) find("board").addEventListener(name, point);
  find("board").addEventListener("pointerleave", point);
  new ResizeObserver(() => view && drawLinks(view, hot)).observe(find("board"));
}

document.documentElement.dataset.theme = localStorage.getItem("netfw-theme") ?? "";
listen();
refresh();
setInterval(refresh, POLL);
stream.watch(refresh, (state) => {
  const words = { live: "live", polling: "polling", offline: "offline" };
  find("connection").dataset.state = state;
  find("connection").textContent = words[state];
});
