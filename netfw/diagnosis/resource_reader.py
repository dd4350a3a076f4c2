"""Reads what explains a resource: from an API, and from status files of this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from attrs import frozen

from netfw.diagnosis.agent_health import AgentHealth, StatusRecord
from netfw.diagnosis.explanation import (
    Body,
    LocalFacts,
    Reason,
    ResourceExplanation,
    local_entries,
    local_reasons,
)
from netfw.diagnosis.port_explanation import PortFacts, explain_port
from netfw.diagnosis.router_explanation import (
    FloatingIpFacts,
    RouterFacts,
    explain_floating_ip,
    explain_router,
)
from netfw.errors import Forbidden

L3_AGENT: Final = "L3 agent"


class ApiReader(Protocol):
    """Reads resources of the server's API, as one requester sees them."""

    def show(self, collection: str, id: str) -> Body | None:
        """Return the resource, or ``None``."""

    def find(self, collection: str, name: str, attribute: str = "name") -> Body:
        """Return the resource with that id, or the only one whose *attribute* is *name*.

        :raises NotFound: there is none, or several have the name.
        """

    def list(self, path: str, **filters: str) -> Sequence[Body]:
        """Return the resources at *path* that match, up to a limit.

        :raises Forbidden: they are not shown to this requester.
        """


@frozen(kw_only=True)
class ResourceReader:
    """Reads resources and what their status depends on."""

    api: ApiReader
    host: str = ""
    """The name of this host; empty: nothing of a host is read."""
    records: Sequence[StatusRecord] = ()
    agents: Sequence[AgentHealth] = ()

    def explain(self, kind: str, name: str) -> ResourceExplanation:
        """Explain the resource of *kind* with that id or name.

        :raises NotFound: there is none, or several have the name.
        :raises BackendUnavailable: the API does not answer.
        """
        explainers: Mapping[str, Callable[[str], ResourceExplanation]] = {
            "port": self._port,
            "router": self._router,
            "floatingip": self._floating_ip,
        }
        return explainers[kind](name)

    def _port(self, name: str) -> ResourceExplanation:
        port = self.api.find("ports", name)
        network, host = str(port["network_id"]), str(port.get("binding:host_id") or "")
        agents = self._admin_list("agents", host=host) if host else ()
        return explain_port(
            PortFacts(
                port=port,
                agents=agents,
                subnets=self.api.list("subnets", network_id=network),
                dhcp_agents=self._admin_list(f"networks/{network}/dhcp-agents"),
                local=self._local(str(port["id"])),
            )
        )

    def _router(self, name: str) -> ResourceExplanation:
        return explain_router(self._router_facts(self.api.find("routers", name)))

    def _router_facts(self, router: Body) -> RouterFacts:
        id = str(router["id"])
        ports = self.api.list("ports", device_id=id)
        agents = self._admin_list(f"routers/{id}/l3-agents")
        return RouterFacts(
            router=router,
            agents=agents,
            possible_agents=() if agents else self._admin_list("agents", agent_type=L3_AGENT),
            ports=ports,
            local=self._local(id, *(str(port["id"]) for port in ports)),
        )

    def _floating_ip(self, name: str) -> ResourceExplanation:
        floating = self.api.find("floatingips", name, "floating_ip_address")
        port, router = floating.get("port_id"), floating.get("router_id")
        found = self.api.show("routers", str(router)) if router else None
        ids = [str(id) for id in (floating["id"], port, router) if id]
        return explain_floating_ip(
            FloatingIpFacts(
                floating_ip=floating,
                port=self.api.show("ports", str(port)) if port else None,
                router=None if found is None else self._router_facts(found),
                local=self._local(*ids),
            )
        )

    def _admin_list(self, path: str, **filters: str) -> Sequence[Body] | None:
        try:
            return self.api.list(path, **filters)
        except Forbidden:
            return None

    def _local(self, *ids: str) -> LocalFacts:
        return local_facts(self.host, self.records, self.agents, ids)


def local_facts(
    host: str, records: Sequence[StatusRecord], agents: Sequence[AgentHealth], ids: Sequence[str]
) -> LocalFacts:
    """Return what the status files of this host say of *ids*."""
    statuses = [record.content for record in records if record.content is not None]
    entries = tuple(local_entries(statuses, ids))
    return LocalFacts(host=host, agents=tuple(agents), entries=entries)


def explain_locally(kind: str, id: str, local: LocalFacts) -> ResourceExplanation:
    """Explain a resource by the status files of this host alone."""
    note = Reason(
        "The server's API is not configured here (--api), so that only the status files of the "
        "agents of this host were read: binding, assignments and other hosts are not known."
    )
    reasons = (note, *local_reasons(local, serves=True))
    return ResourceExplanation(resource=f"{kind} {id}", status="", reasons=reasons)
