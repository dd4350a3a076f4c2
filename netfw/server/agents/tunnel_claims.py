"""Tunnel addresses of agents: no two hosts with live agents have the same."""

from __future__ import annotations

import logging

from netfw.drivers.support.log_limit import SenderLimit
from netfw.errors import InvalidInput
from netfw.model.agent import Agent
from netfw.model.values.address import IpAddress
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import agents_on
from netfw.server.db.agents.tunnel_addresses import TunnelAddresses

LOG = logging.getLogger(__name__)
LOG.addFilter(SenderLimit())


def claim_tunnel_address(unit: UnitOfWork, agent: Agent) -> None:
    """Record that the host of *agent* has the tunnel address that the agent advertises.

    An address of a host whose agents are dead, deleted or advertise another one is taken over.

    :raises InvalidInput: a live agent of another host has it.
    """
    addresses, address = TunnelAddresses(unit.tx.connection), agent.tunnel_address
    if address is not None:
        former = addresses.host_of(address)
        if former != agent.host:
            down_time = unit.context.settings.agent_down_time
            if former is not None and addresses.is_in_use(address, former, down_time):
                _refuse(agent, address, former)
            addresses.assign(address, agent.host, former)


def release_tunnel_addresses(unit: UnitOfWork, host: str) -> None:
    """Release the addresses of a host that none of its stored agents advertises."""
    addresses = TunnelAddresses(unit.tx.connection)
    recorded = addresses.of(host)
    if recorded:
        stored = agents_on(unit.tx.connection, [host])[host]
        advertised = {str(each.agent.tunnel_address) for each in stored}
        addresses.release(host, recorded - advertised)


def _refuse(agent: Agent, address: IpAddress, other: str) -> None:
    """Name the other host to the operator; the sender may be an attacker."""
    LOG.warning(
        "%s on %s: refused: it advertises the tunnel address %s of host %s, which is alive",
        agent.agent_type, agent.host, address, other, extra={"sender": agent.host},
    )  # fmt: skip
    raise InvalidInput(
        {
            "tunneling_ip": f"{address} is the tunnel address of another host: set local_ip to an "
            "address of this host, or delete the agent of the other one; the log of the server "
            "names it"
        }
    )
