"""Sentences about ports, routers and floating IPs, from what the API and status files have."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.diagnosis.agent_health import AgentHealth, AgentState
from netfw.diagnosis.explanation import LocalFacts, ResourceExplanation, local_entries
from netfw.diagnosis.port_explanation import PortFacts, explain_port
from netfw.diagnosis.resource_reader import explain_locally
from netfw.diagnosis.router_explanation import (
    FloatingIpFacts,
    RouterFacts,
    explain_floating_ip,
    explain_router,
)

pytestmark = pytest.mark.spec("DRV-42")
LOCAL = LocalFacts(host="here")
PORT = {
    "id": "p1", "name": "web", "status": "DOWN", "admin_state_up": True, "network_id": "n1",
    "binding:host_id": "h1", "binding:vif_type": "ovs", "fixed_ips": [{"subnet_id": "s1"}],
    "device_owner": "compute:nova",
}  # fmt: skip
ROUTER = {"id": "r1", "name": "edge", "status": "ACTIVE", "admin_state_up": True, "ha": False}
OVS = {"agent_type": "Open vSwitch agent", "host": "h1", "alive": True, "admin_state_up": True}
DHCP = {**OVS, "agent_type": "DHCP agent", "host": "h2"}
L3 = {**OVS, "agent_type": "L3 agent", "host": "h3"}
SUBNET = {"id": "s1", "enable_dhcp": True}


def blocking(found: ResourceExplanation) -> str:
    return " ".join(reason.text for reason in found.reasons if reason.blocks)


def port(local: LocalFacts = LOCAL, **more: Any) -> ResourceExplanation:
    facts = {"agents": [OVS], "subnets": [SUBNET], "dhcp_agents": [DHCP], **more}
    body = {**PORT, **facts.pop("port", {})}
    return explain_port(PortFacts(port=body, local=local, **facts))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "it waits for the L2 agent of h1 to report, or for a DHCP agent (h2)"),
        ({"port": {"status_reason": "h1: no device"}}, "Its hosts report: h1: no device"),
        ({"agents": [{**OVS, "alive": False}]}, "Open vSwitch agent of h1, which is dead"),
        ({"agents": [DHCP]}, "No L2 agent has ever reported from host h1"),
        ({"dhcp_agents": [{**DHCP, "alive": False}]}, "are dead, on h2"),
        ({"port": {"binding:host_id": "", "binding:vif_type": "unbound"}}, "bound to no host"),
        (
            {
                "port": {
                    "binding:vif_type": "binding_failed",
                    "binding:vif_details": {"binding_failure": ["openvswitch: no mapping"]},
                }
            },
            "Mechanism driver openvswitch: no mapping",
        ),
        ({"port": {"admin_state_up": False}}, "It is switched off"),
    ],
)
def test_port_that_is_down_says_why(more: dict[str, Any], text: str) -> None:
    assert text in blocking(port(**more))


def test_active_port_is_not_blocked_by_a_dead_dhcp_agent_beside_a_live_one() -> None:
    agents = [DHCP, {**DHCP, "host": "h9", "alive": False}]
    found = port(port={"status": "ACTIVE"}, dhcp_agents=agents)
    assert not found.is_blocked
    assert list(found.lines())[-1] == "  Nothing that can be seen from here blocks it."


def test_client_without_rights_gets_what_it_may_see() -> None:
    hidden = {"binding:host_id": None, "binding:vif_type": None, "status": "ACTIVE"}
    found = port(port=hidden, agents=None, dhcp_agents=None)
    assert not found.is_blocked
    assert "administrators" in " ".join(found.lines())


def test_keys_of_status_files_are_quoted_with_their_agent() -> None:
    status = {
        "binary": "netfw-ovs-agent",
        "degraded": {"port p1": "no device", "port p2": "other"},
        "waiting": {"network n1": "port p1"},
    }
    local = LocalFacts(host="here", entries=tuple(local_entries([status], ["p1"])))
    text = blocking(port(local))
    assert "netfw-ovs-agent: port p1 failed, and is retried: no device" in text
    assert "network n1 waits: port p1" in text
    assert "p2" not in text


NAMED = {
    "binary": "netfw-ovs-agent",
    "degraded": {
        "port web1": "no device",
        "port web10": "no device",
        "port 3f781200-46aa-4bbb-8ccc-0123456789ab": "drop chain in4-web1-x",
        "port 3f781200-46ab-4bbb-8ccc-0123456789ab": "no bridge",
    },
    "waiting": {"network web1-b": "chain in4-3f781200-46aa-4bbb-8ccc-0123456789ab"},
}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("web1", ["port web1"]),
        ("a", []),
        ("", []),
        ("3f781200-46aa-4bbb-8ccc-0123456789ab",
         ["port 3f781200-46aa-4bbb-8ccc-0123456789ab", "network web1-b"]),
        ("3f781200-46ab", ["port 3f781200-46ab-4bbb-8ccc-0123456789ab"]),
        ("3f781200-46a", []),
        ("46ab-4bbb", []),
    ],
)  # fmt: skip
def test_status_files_are_searched_for_whole_names_and_ids(name: str, keys: list[str]) -> None:
    assert [entry.key for entry in local_entries([NAMED], [name])] == keys


def test_dead_agent_of_this_host_counts_for_ports_of_this_host_only() -> None:
    dead = AgentHealth(path="x", agent="netfw-ovs-agent", state=AgentState.DEAD, reasons=("gone",))
    assert "is dead: gone" in blocking(port(LocalFacts(host="h1", agents=(dead,))))
    assert "is dead: gone" not in blocking(port(LocalFacts(host="h2", agents=(dead,))))


def router(**more: Any) -> ResourceExplanation:
    facts = {"agents": [L3], "possible_agents": [L3], **more}
    body = {**ROUTER, **facts.pop("router", {})}
    return explain_router(RouterFacts(router=body, local=LOCAL, **facts))


INTERFACE = {
    "id": "i1", "status": "DOWN", "device_owner": "network:router_interface",
    "binding:host_id": "h3",
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"agents": []}, "neither interface nor gateway"),
        ({"agents": [], "ports": [INTERFACE], "possible_agents": []}, "no L3 agent has ever"),
        (
            {"agents": [], "ports": [INTERFACE], "possible_agents": [{**L3, "alive": False}]},
            "all L3 agents are dead (h3)",
        ),
        (
            {
                "agents": [],
                "ports": [INTERFACE],
                "possible_agents": [{**L3, "admin_state_up": False}],
            },
            "switched off",
        ),
        ({"agents": [], "ports": [INTERFACE]}, "none of those that are alive fits"),
        ({"ports": [INTERFACE]}, "see netfw explain port i1"),
        ({"agents": [{**L3, "alive": False}]}, "L3 agent of h3, which is dead"),
        ({"router": {"status": "DOWN"}}, "waits for the L3 agent of h3 to report"),
        (
            {"router": {"ha": True}, "agents": [{**L3, "ha_state": "standby"}]},
            "highly available (h3: standby)",
        ),
    ],
)
def test_router_says_why(more: dict[str, Any], text: str) -> None:
    assert text in blocking(router(**more))


def test_highly_available_router_with_one_dead_host_works() -> None:
    agents = [{**L3, "ha_state": "active"}, {**L3, "host": "h4", "alive": False}]
    assert not router(router={"ha": True}, agents=agents).is_blocked


def test_many_ports_of_a_router_are_bounded() -> None:
    found = router(ports=[{**INTERFACE, "id": str(number)} for number in range(30)])
    assert sum("see netfw explain port" in reason.text for reason in found.reasons) == 20
    assert "10 more of its ports are down." in blocking(found)


def test_floating_ip_without_port_is_down_regularly() -> None:
    floating = {"id": "f1", "floating_ip_address": "203.0.113.5", "status": "DOWN", "port_id": None}
    found = explain_floating_ip(FloatingIpFacts(floating_ip=floating, local=LOCAL))
    assert not found.is_blocked


def test_floating_ip_says_what_is_wrong_with_its_port_and_router() -> None:
    floating = {
        "id": "f1", "floating_ip_address": "203.0.113.5", "fixed_ip_address": "10.0.0.5",
        "status": "DOWN", "port_id": "p1", "router_id": "r1",
    }  # fmt: skip
    dead = [{**L3, "alive": False}]
    of_router = RouterFacts(router={**ROUTER, "status": "DOWN"}, agents=dead, local=LOCAL)
    facts = FloatingIpFacts(floating_ip=floating, port=PORT, router=of_router, local=LOCAL)
    text = blocking(explain_floating_ip(facts))
    assert "10.0.0.5 of port p1 (web), which is DOWN: see netfw explain port p1" in text
    assert "Its router r1 (edge) is DOWN." in text
    assert "L3 agent of h3, which is dead" in text


def test_status_file_that_cannot_be_read_is_mentioned_and_blocks_nothing() -> None:
    agent = AgentHealth(
        path="/s", agent="s", state=AgentState.UNREADABLE, reasons=("/s: Permission denied",)
    )
    found = explain_locally("port", "p1", LocalFacts(host="here", agents=(agent,)))
    assert "A status file of this host is not considered: /s: Permission denied" in "".join(
        found.lines()
    )
    assert not found.is_blocked
