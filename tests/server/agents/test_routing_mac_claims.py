"""Routing MAC addresses that agents report: only those that the server gave their hosts count."""

from __future__ import annotations

import logging

import pytest

from netfw.drivers.server.query import Query
from netfw.drivers.values.agent_requests import EnsureHostMac
from netfw.errors import InvalidInput
from netfw.server.agents.agents import AgentHandler
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.agents.rpc_handlers import AgentRpcHandlers
from netfw.server.core.server_context import ServerContext
from tests.server.core.agent_samples import ADMIN, HandlersOnly, beat

OF_AN_INSTANCE = "fa:16:3e:00:00:07"


@pytest.fixture
def plugin(context: ServerContext) -> HandlersOnly:
    return HandlersOnly(context, [AgentHandler(context.settings)])


@pytest.fixture
def handler(context: ServerContext) -> HeartbeatHandler:
    return HeartbeatHandler(context)


def host_mac(context: ServerContext, host: str) -> str:
    return str(AgentRpcHandlers(context).ensure_host_mac(EnsureHostMac(host)))


@pytest.mark.spec("L2-60", "RPC-06")
def test_a_host_reports_no_other_routing_mac_than_its_own(
    context: ServerContext,
    plugin: HandlersOnly,
    handler: HeartbeatHandler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Every host would drop frames of instances with that MAC, and send frames for them to its host.
    own, other = host_mac(context, "a"), host_mac(context, "b")
    handler([beat("a", start=True, routing_mac=own.upper())])
    caplog.set_level(logging.WARNING)
    for forged in (other, OF_AN_INSTANCE, "fa:16:3f:ff:ff:ff"):
        with pytest.raises(InvalidInput, match="routing_mac"):
            handler([beat("a", routing_mac=forged)])
    (agent,) = plugin.find(ADMIN, "agent", Query())
    assert agent["configurations"]["routing_mac"] == own.upper()
    assert f"on a: refused: it reports the routing MAC address {other}" in caplog.text


@pytest.mark.spec("L2-60", "RPC-06")
def test_a_host_without_a_mac_gets_none_by_reporting_one_of_others(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    for forged in (host_mac(context, "b"), OF_AN_INSTANCE):
        with pytest.raises(InvalidInput, match="routing_mac"):
            handler([beat("a", start=True, routing_mac=forged)])
    assert not plugin.find(ADMIN, "agent", Query())


@pytest.mark.spec("L2-60", "RPC-06")
@pytest.mark.parametrize("kind", ["DHCP agent", "L3 agent", "Metadata agent"])
def test_only_l2_agents_report_routing_macs(
    context: ServerContext, handler: HeartbeatHandler, kind: str
) -> None:
    with pytest.raises(InvalidInput, match="routing_mac"):
        handler([beat("a", kind, start=True, routing_mac=host_mac(context, "a"))])


@pytest.mark.spec("L2-60", "RPC-06")
def test_a_host_keeps_its_mac_when_its_agent_is_deleted_while_it_runs(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    own = host_mac(context, "a")
    handler([beat("a", start=True, routing_mac=own)])
    (agent,) = plugin.find(ADMIN, "agent", Query())
    plugin.delete(ADMIN, "agent", agent["id"])
    handler([beat("a", routing_mac=own)])
    assert host_mac(context, "a") == own
