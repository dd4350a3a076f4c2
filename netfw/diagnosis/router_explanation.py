"""Why a router or a floating IP is down, and who waits for what.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from netfw.diagnosis.explanation import (
    Body,
    LocalFacts,
    Reason,
    ResourceExplanation,
    agent_reasons,
    local_reasons,
    resource_title,
)
from netfw.model.values.device_owner import DeviceOwner

_MOST_PORTS = 20


@frozen(kw_only=True)
class RouterFacts:
    """A router as the API shows it, and what its status depends on."""

    router: Body
    agents: Sequence[Body] | None = ()
    """The L3 agents that it is assigned to; ``None``: only administrators may see them."""
    possible_agents: Sequence[Body] | None = ()
    """All L3 agents."""
    ports: Sequence[Body] = ()
    local: LocalFacts


@frozen(kw_only=True)
class FloatingIpFacts:
    """A floating IP as the API shows it, and what its status depends on."""

    floating_ip: Body
    port: Body | None = None
    """The port of its fixed address."""
    router: RouterFacts | None = None
    local: LocalFacts


def explain_router(facts: RouterFacts) -> ResourceExplanation:
    """Return the status of a router, and the reasons for it."""
    router, hosts = facts.router, _hosts(facts.agents)
    reasons = [
        *_router_reasons(facts),
        *local_reasons(facts.local, serves=facts.local.host in hosts),
    ]
    if router["status"] != "ACTIVE" and not any(reason.blocks for reason in reasons):
        where = ", ".join(sorted(hosts)) or "its host"
        text = f"Nothing has reported a reason: it waits for the L3 agent of {where} to report."
        reasons.append(Reason(text, True))
    return ResourceExplanation(
        resource=resource_title("router", router), status=router["status"], reasons=tuple(reasons)
    )


def explain_floating_ip(facts: FloatingIpFacts) -> ResourceExplanation:
    """Return the status of a floating IP, and the reasons for it."""
    floating, reasons = facts.floating_ip, list(_floating_reasons(facts))
    hosts = _hosts(facts.router.agents) if facts.router else set()
    reasons += local_reasons(facts.local, serves=facts.local.host in hosts)
    if (
        floating["status"] != "ACTIVE"
        and floating.get("port_id")
        and not any(reason.blocks for reason in reasons)
    ):
        text = "Nothing has reported a reason: it waits for the L3 agent of its router to report."
        reasons.append(Reason(text, True))
    return ResourceExplanation(
        resource=resource_title("floating IP", floating),
        status=floating["status"],
        reasons=tuple(reasons),
    )


def _hosts(agents: Sequence[Body] | None) -> set[str]:
    return {str(agent["host"]) for agent in agents or ()}


def _router_reasons(facts: RouterFacts) -> Iterator[Reason]:
    router = facts.router
    if not router["admin_state_up"]:
        yield Reason("It is switched off: its admin_state_up is false.", True)
    if router.get("status_reason"):
        yield Reason(f"Its hosts report: {router['status_reason']}", True)
    yield from _assignment_reasons(facts)
    if not router.get("external_gateway_info"):
        yield Reason("It has no external gateway: it connects its own networks only.")
    down = [port for port in facts.ports if _is_down(port)]
    for port in down[:_MOST_PORTS]:
        about = f"{resource_title('port', port)}, {port['device_owner']}, is {port['status']}"
        yield Reason(f"Its {about}: see netfw explain port {port['id']}", True)
    if len(down) > _MOST_PORTS:
        yield Reason(f"{len(down) - _MOST_PORTS} more of its ports are down.", True)


def _is_down(port: Body) -> bool:
    """Return whether a port that its status should be reported of is down.

    Ports on external networks are wired by the L3 agent's host as well; HA ports too.
    """
    return bool(port["status"] != "ACTIVE" and port.get("binding:host_id"))


def _assignment_reasons(facts: RouterFacts) -> Iterator[Reason]:
    router, agents = facts.router, facts.agents
    if agents is None:
        yield Reason("Its L3 agents are shown to administrators only.")
        return
    if not agents:
        ha_owner = DeviceOwner.ROUTER_HA_INTERFACE
        plain = [port for port in facts.ports if port["device_owner"] != ha_owner]
        if not plain and not router.get("external_gateway_info"):
            text = "It has neither interface nor gateway: it is assigned to an agent with the first"
            yield Reason(f"{text} one.", True)
        else:
            yield Reason(f"No L3 agent runs it: {_why_unassigned(facts)}", True)
        return
    roles = {str(agent["host"]): agent.get("ha_state") for agent in agents}
    if router.get("ha"):
        shown = ", ".join(f"{host}: {role or 'unknown'}" for host, role in sorted(roles.items()))
        yield Reason(f"It is highly available ({shown}).", "active" not in roles.values())
    else:
        yield Reason(f"It runs on {', '.join(sorted(roles))}.")
    if router.get("ha") and any(agent.get("alive") for agent in agents):
        dead = sorted(str(agent["host"]) for agent in agents if not agent.get("alive"))
        if dead:
            yield Reason(f"Its L3 agents on {', '.join(dead)} are dead; another one is alive.")
        return
    yield from agent_reasons(agents, "routers")


def _why_unassigned(facts: RouterFacts) -> str:
    known = facts.possible_agents or ()
    if not known:
        return "no L3 agent has ever reported to the server; start netfw-l3-agent on a host."
    alive = [agent for agent in known if agent.get("alive")]
    if not alive:
        hosts = ", ".join(sorted(str(agent["host"]) for agent in known))
        return f"all L3 agents are dead ({hosts})."
    usable = [agent for agent in alive if agent.get("admin_state_up")]
    if not usable:
        return "all L3 agents that are alive are switched off."
    return (
        "none of those that are alive fits (availability zone, mode of the agent, external "
        "network), or an administrator removed it from them; add it by hand: openstack network "
        "agent add router --l3 AGENT ROUTER."
    )


def _floating_reasons(facts: FloatingIpFacts) -> Iterator[Reason]:
    floating = facts.floating_ip
    if floating.get("status_reason"):
        yield Reason(f"Its hosts report: {floating['status_reason']}", True)
    if not floating.get("port_id"):
        yield Reason("It is associated with no port, so that DOWN is its regular status.")
        return
    address = floating.get("fixed_ip_address")
    if facts.port is None:
        yield Reason(f"Its port {floating['port_id']} is not shown to this client.")
    else:
        port = facts.port
        text = f"It leads to {address} of {resource_title('port', port)}, which is {port['status']}"
        down = port["status"] != "ACTIVE"
        see = f": see netfw explain port {port['id']}" if down else "."
        yield Reason(text + see, down)
    if facts.router is None:
        yield Reason(f"Its router {floating.get('router_id')} is not shown to this client.")
        return
    router = explain_router(facts.router)
    yield Reason(f"Its {router.resource} is {router.status}.", router.status != "ACTIVE")
    yield from (reason for reason in router.reasons if reason.blocks)
