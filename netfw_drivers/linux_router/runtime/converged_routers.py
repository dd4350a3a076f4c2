"""Routers and agent gateways as they were converged, and how far their namespaces still agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from attrs import field, frozen

from netfw.drivers.values.keys import AgentGatewayKey
from netfw.drivers.values.router_values import RouterDriverKey
from netfw.linux.router_netns import (
    NetnsPort,
    RouterNetns,
    RouterNetnsExecutor,
    plan_router_netns,
)
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.router import HaRole
from netfw.model.values.ids import FloatingIpId, NetworkId, RouterId
from netfw.plan import Stage
from netfw_drivers.linux_router.distributed.gateway_link import GatewayLink
from netfw_drivers.linux_router.plan.daemons.keepalived_plan import watched_netns
from netfw_drivers.linux_router.plan.ha_role import decide_role
from netfw_drivers.linux_router.plan.names import GATEWAY, NetnsId, PartId, netns_name
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex

ReadGateway = Callable[[RouterId, NetworkId], ObservedNetns | None]
"""Reads the agent gateway of a network, as far as the link of a router follows from it."""


def no_gateway(router: RouterId, network: NetworkId) -> None:
    """Read nothing: there are no agent gateways."""


@frozen(kw_only=True, eq=False, slots=False)
class ConvergedRouter:
    """A router or an agent gateway as it is after a converge."""

    id: NetnsId
    ports: tuple[NetnsPort, ...] = ()
    """Its ports, without the addresses of floating IPs; the gateway alone if it was not converged
    as a whole since the driver was made."""
    index: TranslationIndex = field(factory=TranslationIndex)
    """Its floating IPs."""
    prepared: frozenset[FloatingIpId] = frozenset()
    """Those of a local part that have no route in the agent gateway."""
    link: GatewayLink | None = None
    """Of a local part: its link to the agent gateway, if that is there."""
    whole: Callable[[], RouterNetns] | None = None
    """Makes its namespace; None: it was not converged as a whole since the driver was made."""
    is_ha: bool = False
    """Whether it is highly available: keepalived announces the addresses of the active instance."""
    is_elected: bool = False
    """Whether its keepalived runs."""

    @property
    def netns(self) -> str:
        return netns_name(self.id)

    @property
    def gateway(self) -> NetnsPort | None:
        return next((port for port in self.ports if port.device.startswith(GATEWAY)), None)

    @cached_property
    def desired(self) -> RouterNetns | None:
        """Its namespace.  Made when it is first compared: that costs all its floating IPs."""
        return None if self.whole is None else self.whole()

    def link_differs(self, found: ObservedNetns | None) -> bool:
        """Return whether its link is not as it should be in the agent gateway *found*."""
        served = self.index.translations
        if self.link is None or not served:
            return False
        return found is None or self.link.differs(found, served, self.prepared)


@frozen(kw_only=True)
class RouterWaitReasons:
    """What a router waits for after a converge; empty: nothing."""

    election: str = ""
    """Why a daemon of its election cannot be started."""
    gateway: str = ""
    """Why its floating IPs cannot be reached."""

    def waiting(
        self, router: Iterable[RouterDriverKey], floating_ips: Iterable[RouterDriverKey]
    ) -> dict[RouterDriverKey, str]:
        """Return the keys that wait, of those of the router and its floating IPs."""
        why = self.election or self.gateway
        return {
            **dict.fromkeys(router if self.election else (), self.election),
            **dict.fromkeys(floating_ips if why else (), why),
        }


@frozen
class ConvergedPlanner:
    """Compares converged routers and agent gateways with their namespaces.

    :param read_gateway: reads the agent gateway that a router has a link to.
    :param on_role: called with the role of a highly available router.
    :param on_gateway: called with an agent gateway that was observed, since the links in it belong
        to routers.
    """

    executor: RouterNetnsExecutor
    read_gateway: ReadGateway
    on_role: Callable[[PartId, HaRole], None]
    on_gateway: Callable[[NetworkId, ObservedNetns], None]

    def plan(self, wanted: ConvergedRouter, /) -> tuple[Stage, ...]:
        """Observe the namespace of a router, and plan what makes it as it was converged."""
        desired = wanted.desired
        if desired is None:
            return ()
        found = self.executor.observe(desired.netns, desired, mirrored=True)
        if isinstance(wanted.id, AgentGatewayKey):
            self.on_gateway(wanted.id.network, found)
        elif wanted.is_ha:
            running = wanted.is_elected
            addresses = (each.address for each in found.addresses)
            role = decide_role(found.links, addresses, running=running)
            if role is not None:
                self.on_role(wanted.id, role)
            desired = watched_netns(desired, role, running=running)
        stages = plan_router_netns(desired.netns, desired, found, self.executor.chain_owner)
        return stages or self._plan_link(wanted)

    def _plan_link(self, wanted: ConvergedRouter) -> tuple[Stage, ...]:
        """Plan the link of a local part; without its agent gateway there is nothing to plan."""
        link, served = wanted.link, wanted.index.translations
        found = None if link is None else self.read_gateway(link.router, link.network)
        if link is None or found is None or not served:
            return ()
        return link.observed_in(found).plan_all(served, wanted.prepared)
