// The panel: problems, the reasons of one resource, or the trace between two ports.

import { make } from "./dom.js";
import { portLabel, problems, stateOf, title } from "./model.js";

const MOST = 50;
const VERDICTS = {
  true: ["ok", "Should arrive"],
  false: ["error", "Should be dropped"],
  null: ["down", "Cannot be said here"],
};
const STATES = { allowed: "ok", denied: "error", unknown: "off", down: "down" };

export function renderProblems(panel, view, onChoose) {
  const found = problems(view, Date.now() + view.topology.ahead);
  const items = found.slice(0, MOST).map((each) =>
    make(
      "li",
      { data: { state: each.state } },
      each.kind === "agent"
        ? make("b", { textContent: each.title })
        : make("button", { type: "button", className: "link", textContent: each.title, onclick: () => onChoose(each.kind, each.id) }),
      make("p", { textContent: each.text }),
    ),
  );
  if (found.length > MOST) items.push(make("li", {}, `${found.length - MOST} more`));
  panel.replaceChildren(
    make("h2", { textContent: found.length ? `Problems (${found.length})` : "No problems" }),
    make("ul", { className: "problems" }, ...items),
    make("p", { className: "quiet", textContent: "Choose a port for its reasons, and a second one for a trace between them." }),
  );
}

export function renderResource(panel, view, kind, id, explanation, onClear) {
  const each = view[`${kind}s`].get(id);
  if (!each) {
    panel.replaceChildren(heading(`This ${kind} is gone`, onClear));
    return;
  }
  update(
    panel,
    heading(kind === "port" ? portLabel(each) : title(each), onClear),
    make("p", { className: "status", data: { state: stateOf(each) }, textContent: `${kind} is ${each.status}` }),
    facts(view, kind, each),
    ...(explanation ? [make("h3", { textContent: "Reasons" }), reasons(explanation)] : []),
    ...(kind === "port" ? [make("p", { className: "hint", textContent: "Choose a second port to trace a packet to it." })] : []),
  );
}

function heading(text, onClear) {
  const close = make("button", { type: "button", className: "close", textContent: "×", "aria-label": "Close", onclick: onClear });
  return make("header", {}, make("h2", { textContent: text }), close);
}

function facts(view, kind, each) {
  const network = view.networks.get(each.network);
  const rows = [
    ["id", each.id],
    ["project", each.project],
    ["addresses", each.addresses?.join(", ")],
    ["MAC", each.mac],
    ["network", network && title(network)],
    ["host", each.host],
    ["binding", each.binding],
    ["owner", each.owner],
    ["segment", [each.type, each.physical, each.segment].filter((part) => part != null).join(" ")],
    ["subnets", kind === "network" ? (view.subnets.get(each.id) ?? []).map((subnet) => `${subnet.cidr} by ${subnet.gateway ?? "no gateway"}`).join(", ") : ""],
  ];
  const shown = rows.filter(([, value]) => value);
  return make("dl", {}, ...shown.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: value })]));
}

function reasons(explanation) {
  if (explanation.error) return make("p", { className: "quiet", textContent: explanation.error });
  const items = explanation.reasons.map((reason) =>
    make("li", { data: { state: reason.blocks ? "error" : "ok" }, textContent: reason.text }),
  );
  return make("ul", { className: "reasons" }, ...items);
}

export function renderTrace(panel, trace, question, onQuestion, onClear) {
  const parts = trace?.error
    ? [make("p", { className: "status", data: { state: "error" }, textContent: trace.error })]
    : trace
      ? verdict(trace)
      : [make("p", { textContent: "…" })];
  const head = panel.querySelector("form.trace")
    ? [...panel.children].slice(0, 2)
    : [heading("Trace", onClear), questionForm(question, onQuestion)];
  update(panel, ...head, ...parts);
}

// Replaces the children of the panel unless they are as before: what the reader has selected stays.
function update(panel, ...children) {
  const former = [...panel.children];
  const same = former.length === children.length && children.every((node, at) => node.isEqualNode(former[at]));
  if (!same) panel.replaceChildren(...children);
}

function questionForm(question, onQuestion) {
  const protocol = make("select", { name: "protocol", "aria-label": "Protocol" });
  protocol.append(...["icmp", "tcp", "udp"].map((name) => make("option", { value: name, textContent: name })));
  protocol.value = question.protocol;
  const port = make("input", { name: "port", type: "number", min: 0, max: 65535, value: question.port, "aria-label": "Destination port" });
  const version = make("select", { name: "version", "aria-label": "IP version" });
  version.append(...["4", "6"].map((name) => make("option", { value: name, textContent: `IPv${name}` })));
  version.value = question.version;
  const ask = () => {
    port.hidden = protocol.value === "icmp";
    onQuestion({ protocol: protocol.value, port: port.value, version: version.value });
  };
  port.hidden = protocol.value === "icmp";
  const swap = make("button", { type: "button", textContent: "⇄ other way", onclick: () => onQuestion({ swap: true }) });
  const form = make("form", { className: "trace", onchange: ask }, version, protocol, port, swap);
  form.addEventListener("submit", (event) => event.preventDefault());
  return form;
}

function verdict(trace) {
  const [state, words] = VERDICTS[String(trace.should_arrive)];
  const doubt = trace.is_down && trace.should_arrive !== false;
  const steps = trace.steps.map((step) =>
    make(
      "li",
      { data: { state: STATES[step.state] } },
      make("b", { textContent: step.title }),
      ...step.lines.map((line) => make("p", { textContent: line })),
    ),
  );
  return [
    make("p", { id: "verdict", className: "status", data: { state: doubt ? "down" : state }, textContent: doubt ? `${words}, but a part of the way is down` : words }),
    make("p", { className: "quiet", textContent: `${trace.packet}, by the desired state` }),
    make("ol", { className: "steps" }, ...steps),
    make("h3", { textContent: "Not known on this page" }),
    make("ul", { className: "unknown" }, ...trace.not_known.map((line) => make("li", { textContent: line }))),
    make("p", { className: "quiet", textContent: "On a host of the way, or with --via, this follows it through the flows:" }),
    make("code", { textContent: trace.command }),
  ];
}
