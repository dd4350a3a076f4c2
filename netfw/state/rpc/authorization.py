"""Authorization: what a caller with the credentials of one host or some services may request."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from netfw.drivers.state_source import StateSource
from netfw.drivers.support.log_limit import SenderLimit
from netfw.drivers.transport import Caller
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    Request,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, Report, RoleReport
from netfw.drivers.values.subscription import Service, Subscription, agent_service
from netfw.errors import NotFound, RequestError
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.state.dependencies import AgentRoot, ResourceRole, Role
from netfw.state.rpc.source_interfaces import ReachabilitySource

LOG = logging.getLogger(__name__)
LOG.addFilter(SenderLimit())

Need = tuple[AgentRoot, ResourceRole]
"""A service of a host, and a node that it must reach."""

REQUESTERS: Final[dict[type[Request[Any]], frozenset[Service]]] = {
    EnsureDhcpPort: frozenset({Service.DHCP}),
    ReleaseDhcpPort: frozenset({Service.DHCP}),
    FindPorts: frozenset({Service.METADATA}),
    ResolveDevices: frozenset({Service.L2}),
    EnsureGatewayPort: frozenset({Service.L3}),
    ReleaseGatewayPort: frozenset({Service.L3}),
    EnsureHostMac: frozenset({Service.L2, Service.L3}),
    EnabledServices: frozenset(Service),
    SetPrefix: frozenset({Service.L3}),
}
"""The services that send a request; credentials for one of them are enough."""


def authorize_subscription(caller: Caller, subscription: Subscription) -> None:
    """Check that *caller* may read as the services of a host.

    :raises RequestError: its credentials are for another host or other services.
    """
    _authorize_host(caller, subscription.host)
    for service in subscription.services:
        _authorize_service(caller, {service})


def authorize_reports(caller: Caller, reports: Iterable[Report]) -> None:
    """Check that *caller* may report as the agents that *reports* are from.

    :raises RequestError: its credentials are for another host or other services.
    """
    for report in reports:
        if isinstance(report, Heartbeat):
            _authorize_host(caller, report.agent.host)
            _authorize_service(caller, {agent_service(report.agent.agent_type)})
        else:
            _authorize_host(caller, report.host)
            is_role = isinstance(report, RoleReport)  # whatever service it names
            _authorize_service(caller, {Service.L3 if is_role else report.service})


def authorize_request(caller: Caller, request: Request[Any]) -> None:
    """Check that *caller* may send *request*, whatever it serves.

    :raises RequestError: its credentials are for another host or other services.
    """
    host = getattr(request, "host", None)
    if host is not None:
        _authorize_host(caller, host)
    _authorize_service(caller, REQUESTERS.get(type(request), frozenset()))


def authorize_need(caller: Caller, request: Request[Any], source: StateSource) -> None:
    """Check that *caller* serves what *request* is about.

    :raises NotFound: its host does not serve that, whether or not it exists.
    """
    required = frozenset[Need]() if caller.host is None else needs(request, caller.host)
    if required and not (isinstance(source, ReachabilitySource) and source.reaches_any(required)):
        target = next(iter(required))[1].ref
        LOG.warning(
            "%s: refused: host %s does not serve %s", caller.name, caller.host, target,
            extra={"sender": caller.name},
        )  # fmt: skip
        raise NotFound(f"host {caller.host} does not serve {target}")


def needs(request: Request[Any], host: str) -> frozenset[Need]:
    """Return nodes of which *host* must reach one to have *request* answered; empty: none."""
    dhcp, l3 = AgentRoot(Service.DHCP, host), AgentRoot(Service.L3, host)
    match request:
        case EnsureDhcpPort(network=network):
            return frozenset({(dhcp, _node(Kind.NETWORK, network, Role.SERVED))})
        case EnsureGatewayPort(network=network):
            return frozenset({(l3, _node(Kind.NETWORK, network, Role.SEEN))})
        case FindPorts(network=network, router=None):
            served = (dhcp, _node(Kind.NETWORK, network, Role.SERVED))
            return frozenset({served, (l3, _node(Kind.NETWORK, network, Role.SEEN))})
        case FindPorts(router=router):
            return frozenset({(l3, _node(Kind.ROUTER, router, Role.HOME))})
        case SetPrefix(router=router):  # a local part alone has no gateway
            return frozenset({(l3, _node(Kind.ROUTER, router, Role.ASSIGNED))})
        case _:
            return frozenset()


def restrict_answer(request: Request[Any], answer: Any, host: str) -> Any:
    """Return *answer* without what does not concern *host*."""
    if isinstance(request, ResolveDevices):
        ports: tuple[Port, ...] = answer
        return tuple(port for port in ports if port.binding.is_on(host))
    return answer


def _node(kind: Kind, id: Any, role: Role) -> ResourceRole:
    return ResourceRole(Ref(kind, id), role)


def _authorize_host(caller: Caller, host: str) -> None:
    if caller.host is not None and host != caller.host:
        remedy = "set the host option of the agent, or give it the credentials of that host"
        _refuse(caller, f"host {caller.host}", f"host {host}", remedy)


def _authorize_service(caller: Caller, services: Iterable[Service]) -> None:
    if caller.services is not None and caller.services.isdisjoint(services):
        remedy = "name the service in the line of its token, in the file of the server"
        _refuse(caller, _names(caller.services), _names(services), remedy)


def _refuse(caller: Caller, own: str, wanted: str, remedy: str) -> None:
    LOG.warning(
        "%s: refused: credentials of %s, request for %s", caller.name, own, wanted,
        extra={"sender": caller.name},
    )  # fmt: skip
    raise RequestError(f"{caller.name} may speak for {own} and not for {wanted}: {remedy}")


def _names(services: Iterable[Service]) -> str:
    """Render the services as token files name them: there, ``l2`` includes ``population``."""
    names = set(services)
    if Service.L2 in names:
        names.discard(Service.POPULATION)
    return f"service {', '.join(sorted(names))}"
