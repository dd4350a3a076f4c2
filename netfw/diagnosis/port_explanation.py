"""Why a port is down or unbound, and who waits for what.  Pure."""

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

_OTHER_AGENTS = frozenset({"DHCP agent", "L3 agent", "Metadata agent"})
"""Types of agents that wire no ports."""
_UNBOUND, _FAILED = "unbound", "binding_failed"


@frozen(kw_only=True)
class PortFacts:
    """A port as the API shows it, and what its status depends on."""

    port: Body
    agents: Sequence[Body] | None = ()
    """Agents of its host; ``None``: only administrators may see them."""
    subnets: Sequence[Body] = ()
    """Subnets of its network."""
    dhcp_agents: Sequence[Body] | None = ()
    local: LocalFacts


def explain_port(facts: PortFacts) -> ResourceExplanation:
    """Return the status of a port, and the reasons for it."""
    port, local = facts.port, facts.local
    host = str(port.get("binding:host_id") or "")
    reasons = [
        *_state_reasons(port),
        *_binding_reasons(facts, host),
        *_dhcp_reasons(facts),
        *local_reasons(local, serves=host == local.host),
    ]
    if port["status"] != "ACTIVE" and not any(reason.blocks for reason in reasons):
        reasons.append(_silence_reason(facts, host))
    return ResourceExplanation(
        resource=resource_title("port", port), status=port["status"], reasons=tuple(reasons)
    )


def _state_reasons(port: Body) -> Iterator[Reason]:
    if not port["admin_state_up"]:
        yield Reason("It is switched off: its admin_state_up is false.", True)
    if port.get("status_reason"):
        yield Reason(f"Its hosts report: {port['status_reason']}", True)


def _binding_reasons(facts: PortFacts, host: str) -> Iterator[Reason]:
    port = facts.port
    kind = port.get("binding:vif_type")
    if kind is None:
        yield Reason("How it is bound is shown to administrators and services only.")
        return
    if not host:
        is_down = port["status"] != "ACTIVE"
        text = "It is bound to no host: its binding:host_id is empty."
        todo = "  A compute service sets it when it starts the instance of the port."
        yield Reason(text + todo, kind == _UNBOUND and is_down)
        return
    wiring = _wiring_agents(facts.agents)
    if kind == _FAILED:
        failure = (port.get("binding:vif_details") or {}).get("binding_failure") or ()
        yield Reason(f"No mechanism driver binds it to host {host}.", True)
        for text in failure:
            yield Reason(f"Mechanism driver {text}", True)
        yield Reason("The server tries again with the next heartbeat of a live agent of that host.")
    else:
        yield Reason(f"It is bound to host {host} as {kind}.")
    if facts.agents is None:
        yield Reason("Whether the agents of its host are alive is shown to administrators only.")
    elif not wiring:
        text = f"No L2 agent has ever reported from host {host}"
        yield Reason(f"{text}: start one there whose option host is {host!r}.", True)
    yield from agent_reasons(wiring, "ports")


def _wiring_agents(agents: Sequence[Body] | None) -> list[Body]:
    return [each for each in agents or () if each.get("agent_type") not in _OTHER_AGENTS]


def _dhcp_reasons(facts: PortFacts) -> Iterator[Reason]:
    """Yield whether DHCP serves the port; without a live agent its status does not wait for one."""
    own = {fixed["subnet_id"] for fixed in facts.port.get("fixed_ips", ())}
    served = [each for each in facts.subnets if each["id"] in own and each.get("enable_dhcp")]
    if not facts.port.get("fixed_ips"):
        yield Reason("It has no fixed IP address.")
    if not served or facts.dhcp_agents is None:
        return
    if not facts.dhcp_agents:
        yield Reason("No DHCP agent is assigned to its network: it gets no address by DHCP.")
        return
    alive = sorted(str(each["host"]) for each in facts.dhcp_agents if each.get("alive"))
    dead = sorted(str(each["host"]) for each in facts.dhcp_agents if not each.get("alive"))
    if dead:
        yield Reason(f"DHCP agents of its network are dead, on {', '.join(dead)}.", not alive)
    if alive:
        yield Reason(f"Its network is served by DHCP agents on {', '.join(alive)}.")


def _silence_reason(facts: PortFacts, host: str) -> Reason:
    alive = sorted(str(each["host"]) for each in facts.dhcp_agents or () if each.get("alive"))
    serving = f", or for a DHCP agent ({', '.join(alive)}) to serve its addresses" if alive else ""
    return Reason(
        f"Nothing has reported a reason: it waits for the L2 agent of {host or 'its host'} to "
        f"report{serving}.  netfw status on these hosts says whether they work.",
        True,
    )
