"""Routing MAC addresses of agents: each host reports the one that the server gave it."""

from __future__ import annotations

import logging

from netfw.drivers.support.log_limit import SenderLimit
from netfw.errors import InvalidInput
from netfw.model.agent import Agent
from netfw.model.values.address import Mac
from netfw.server.agents.agent_gateway_ports import is_mac_of_port
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.allocation_stores import HostMacPool

LOG = logging.getLogger(__name__)
LOG.addFilter(SenderLimit())


def claim_routing_mac(unit: UnitOfWork, agent: Agent) -> None:
    """Check the routing MAC address that *agent* reports.

    Every host drops what its instances send from it, and sends to the host of *agent* what is for
    it. A host without one, whose agent was deleted while it ran, keeps the one that it had.

    :raises InvalidInput: the server did not give it to the host.
    """
    mac = agent.routing_mac
    if mac is None:
        return
    macs = HostMacPool(unit.tx.connection)
    known = macs.of(agent.host)
    if known == mac:
        return
    base = unit.context.settings.dvr_base_mac.lower().split(":")[:3]
    if known is not None or mac.split(":")[:3] != base or _is_taken(unit, mac):
        _refuse(agent, mac)
    macs.assign(agent.host, mac)


def _is_taken(unit: UnitOfWork, mac: Mac) -> bool:
    return bool(HostMacPool(unit.tx.connection).assigned([mac])) or is_mac_of_port(unit.tx, mac)


def _refuse(agent: Agent, mac: Mac) -> None:
    LOG.warning(
        "%s on %s: refused: it reports the routing MAC address %s, which is not that of its host",
        agent.agent_type, agent.host, mac, extra={"sender": agent.host},
    )  # fmt: skip
    raise InvalidInput(
        {
            "routing_mac": f"{mac} is not the MAC address that the server gave this host: restart "
            "the agent, so that it requests it"
        }
    )
