"""MAC addresses of the hosts with distributed routers.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from netfw.agents.l2.tunnel_peers import Drop, Put, discard_from
from netfw.drivers.values.keys import HostKey
from netfw.drivers.values.switch_values import Endpoint, HostMac
from netfw.model.agent import Agent
from netfw.model.values.address import Mac
from netfw.model.values.ids import AgentId

EndpointsOf = Callable[[str], frozenset[Endpoint]]
"""Returns the endpoints of a host to which this host has tunnels."""


class DesiredHostMacs:
    """The desired MAC address of each host, updated incrementally.

    That of this host is what the source answered for it; before, what its agent reported until it
    was restarted, so that a restart changes nothing.
    """

    def __init__(self, host: str, endpoints: EndpointsOf, put: Put, drop: Drop) -> None:
        self._host, self._endpoints = host, endpoints
        self._put, self._drop = put, drop
        self._answer: Mac | None = None
        self._agents: dict[AgentId, Agent] = {}
        self._by_host: dict[str, set[AgentId]] = {}

    @property
    def own(self) -> Mac | None:
        """The MAC address of this host; ``None``: it has none yet."""
        return self._answer or self._reported(self._host)

    def set_own(self, mac: Mac) -> None:
        """Set the MAC address that the source answered for this host."""
        self._answer = mac
        self.update(self._host)

    def agent(self, id: AgentId, agent: Agent | None) -> None:
        """Update an agent; ``None``: it is gone."""
        former = self._agents.pop(id, None)
        if former is not None:
            discard_from(self._by_host, former.host, id)
        if agent is not None:
            self._agents[id] = agent
            self._by_host.setdefault(agent.host, set()).add(id)
        for host in {each.host for each in (former, agent) if each is not None}:
            self.update(host)

    def update(self, host: str) -> None:
        """Update the value of a host, whose endpoints may have changed."""
        is_own = host == self._host
        mac = self.own if is_own else self._reported(host)
        if mac is None:
            self._drop(HostKey(host))
        elif is_own:
            self._put((HostKey(host), HostMac(mac, own=True)))
        else:
            self._put((HostKey(host), HostMac(mac, endpoints=self._endpoints(host))))

    def _reported(self, host: str) -> Mac | None:
        """Return the MAC address that the agent of *host* reported; of several, the newest."""
        agents = (self._agents[id] for id in self._by_host.get(host, ()))
        reported = (
            (agent.revision, agent.id, mac) for agent in agents if (mac := agent.routing_mac)
        )
        return max(reported, default=(0, None, None))[2]
