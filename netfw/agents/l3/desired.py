"""The desired routers, floating IPs and agent gateways of this host.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from attrs import evolve

from netfw.agents.common.changed_values import ChangedValues
from netfw.agents.common.extension_calls import ExtensionCallKey
from netfw.agents.common.grouped_state import GroupedState
from netfw.agents.common.resource_index import ResourceChange
from netfw.agents.l3.agent_gateway import (
    AgentGatewaySpec,
    UnusedAgentGateway,
    make_agent_gateway,
)
from netfw.agents.l3.distributed_router_state import (
    DistributedRouter,
    is_central_here,
    make_distributed_router,
)
from netfw.agents.l3.extensions import RouterExtensions
from netfw.agents.l3.resource_index import L3ResourceIndex, is_agent_gateway, router_of
from netfw.agents.l3.router_parts import L3HostContext, NotOnHost
from netfw.agents.l3.router_state import (
    ContributedFloatingIp,
    find_part,
    gateway_of,
    gateway_port_of,
    ha_of,
    make_floating_ip,
    make_full_router,
)
from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterState,
)
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import QosPolicy
from netfw.model.resource import Resource
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import FloatingIpId, NetworkId, RouterId

L3Key = RouterDriverKey
L3Value = (
    RouterDriverValue | ContributedFloatingIp | AgentGatewaySpec | UnusedAgentGateway | NotOnHost
)
L3Group = RouterId | AgentGatewayKey
"""A router with its floating IPs, or an agent gateway."""


class DesiredL3(GroupedState[L3Group, L3Key, L3Value]):
    """The desired value of each router, floating IP and agent gateway.

    One more floating IP costs itself, and the calls of extensions for its router.
    """

    def __init__(
        self,
        context: L3HostContext,
        index: L3ResourceIndex,
        extensions: RouterExtensions,
        base: Mapping[str, RouterContribution] = MappingProxyType({}),
    ) -> None:
        self._context, self._index = context, index
        self._extensions, self._base = extensions, base
        self._values: ChangedValues[L3Key, L3Value] = ChangedValues()
        self._states: dict[RouterId, RouterState] = {}
        """The states of routers without contributions."""
        self._contributed: dict[RouterId, frozenset[IpAddress]] = {}
        """The addresses that extensions contribute to each router."""
        self._again: set[L3Key] = set()
        """Floating IPs whose router has another gateway, or other contributions, than before."""
        self._touched: set[L3Key] = set()
        self._calls: set[ExtensionCallKey[RouterId]] = set()
        self._left_out: dict[RouterId, str] = {}
        """Why the central parts of distributed routers are not to be here."""
        self._local_nats: defaultdict[NetworkId, set[L3Key]] = defaultdict(set)
        """Floating IPs at local parts of routers, by external network."""
        self._gateways: set[NetworkId] = set()
        """External networks whose agent gateways are to be updated."""
        self.absent: set[L3Key] = set()
        """Keys of the source that are not to be on this host."""
        self.prepared: set[L3Key] = set()
        """Floating IPs of other hosts whose ports may be activated on this one."""
        self.interfaces = self.gateways = self.ha_routers = 0
        """Numbers of interfaces and gateways of all routers, and of highly available routers."""

    def apply(self, changes: Iterable[ResourceChange]) -> None:
        routers: set[RouterId] = set()
        floating_ips: set[FloatingIpId] = set()
        for change in changes:
            for resource in (change.before, change.after):
                match resource:
                    case Router():
                        routers.add(resource.id)
                        self._touched.add(RouterKey(resource.id))
                    case Port():
                        routers |= _present(router_of(resource))
                        if is_agent_gateway(resource):
                            self._gateways.add(resource.network_id)
                    case Network():
                        routers |= self._index.routers_on(resource.id)
                        self._gateways.add(resource.id)
                    case Subnet():
                        routers |= self._index.routers_on(resource.network_id)
                        self._gateways.add(resource.network_id)
                    case FloatingIp():
                        routers |= _present(resource.router_id)
                        floating_ips.add(resource.id)
                        self._touched.add(FloatingIpKey(resource.id))
                    case PortForwarding() | QosPolicy() | NdpProxy():
                        routers |= self._routers_of(resource)
        for router in routers:
            if self._update_router(router):
                floating_ips.update(each.id for each in self._index.floating_ips(router))
        for floating_ip in floating_ips:
            self._update_floating_ip(floating_ip)
        self._update_gateways()

    def take_changed(self) -> frozenset[L3Key]:
        again, self._again = frozenset(self._again), set()
        return self._values.take_changed() | again

    def take_touched(self) -> frozenset[L3Key]:
        touched, self._touched = frozenset(self._touched), set()
        return touched

    def take_calls(self) -> frozenset[ExtensionCallKey[RouterId]]:
        """Return the extensions to call, for routers that changed since the last call."""
        calls, self._calls = frozenset(self._calls), set()
        return calls

    def recontribute(self, calls: Iterable[ExtensionCallKey[RouterId]]) -> None:
        """Call extensions, and update the routers whose contributions changed."""
        for router in self._extensions.call(calls):
            self._set_router(router, self._states[router])
            for floating in self._index.floating_ips(router):
                if floating.fixed_address is None:
                    self._update_floating_ip(floating.id)
                    self._again.add(FloatingIpKey(floating.id))

    def contribute_all(self) -> None:
        """Call every extension for every router."""
        for owner in self._extensions.owners:
            self.recontribute(self._extensions.keys(owner, None))

    def all_keys(self) -> frozenset[L3Key]:
        return frozenset(self._values)

    def value(self, key: L3Key) -> L3Value | None:
        return self._values.get(key)

    def group(self, key: L3Key, value: L3Value | None) -> L3Group | None:
        if isinstance(key, RouterKey):
            return key.router
        if isinstance(key, AgentGatewayKey):
            return key
        if isinstance(value, FloatingIpNat | ContributedFloatingIp):
            return value.router
        floating = self._floating_ip(key)
        return None if floating is None else floating.router_id

    def dependents(self, key: L3Key) -> Iterator[L3Key]:
        if isinstance(key, RouterKey):
            for floating in self._index.floating_ips(key.router):
                if FloatingIpKey(floating.id) in self._values:
                    yield FloatingIpKey(floating.id)

    def goes_first(self, group: L3Group) -> bool:
        """Return whether *group* is an agent gateway to make: floating IPs wait for it."""
        if not isinstance(group, AgentGatewayKey):
            return False
        return isinstance(self._values.get(group), AgentGatewaySpec)

    def contributed(self, router: RouterId) -> Iterator[FloatingIpKey]:
        """Yield the floating IPs of a router whose rules extensions contribute."""
        for floating in self._index.floating_ips(router):
            key = FloatingIpKey(floating.id)
            if isinstance(self._values.get(key), ContributedFloatingIp):
                yield key

    def ha_router(self, id: RouterId) -> Router | None:
        """Return a highly available router in whose election this host should take part."""
        router = self._index.router(id)
        if router is None or not router.ha or RouterKey(id) not in self._values:
            return None
        if router.distributed and not is_central_here(router, self._index, self._context):
            return None
        return router

    def left_out(self, router: RouterId) -> str:
        """Return why the central part of a router is not to be here; empty: nothing is left out.

        May be called by any thread.
        """
        return self._left_out.get(router, "")

    def reported(self, key: L3Key) -> Router | FloatingIp | None:
        if isinstance(key, RouterKey):
            return self._index.router(key.router)
        return None if key in self.prepared else self._floating_ip(key)

    @property
    def values(self) -> Mapping[L3Key, L3Value]:
        """The values of all keys."""
        return self._values

    def _floating_ip(self, key: L3Key) -> FloatingIp | None:
        return self._index.floating_ip(key.floating_ip) if isinstance(key, FloatingIpKey) else None

    def _update_router(self, id: RouterId) -> bool:
        """Update a router; return whether its floating IPs have to be updated with it."""
        router, former = self._index.router(id), self._states.pop(id, None)
        if router is None:
            self._left_out.pop(id, None)
        made = None if router is None else self._make_router(router)
        state = made if isinstance(made, RouterState) else None
        self._count(former, -1)
        self._count(state, 1)
        view = None
        if state is not None and router is not None:
            self._states[id] = state
            view = ExtendedRouter(router=router, state=state, related=self._related(id, state))
        self._calls |= self._extensions.update(id, view)
        self._set_router(id, made)
        if former is None or state is None:
            return former is not state or isinstance(made, NotOnHost)
        moved = gateway_port_of(former) != gateway_port_of(state)
        if moved:
            self._again |= set(self.dependents(RouterKey(id)))
        return moved or former.parts != state.parts

    def _make_router(self, router: Router) -> RouterState | NotOnHost | None:
        former = self._left_out.pop(router.id, "")
        if not router.distributed:
            return make_full_router(router, self._index, self._context)
        made = make_distributed_router(router, self._index, self._context)
        if not isinstance(made, DistributedRouter):
            return made
        if made.left_out:
            self._left_out[router.id] = made.left_out
        if made.left_out != former:
            self._again.add(RouterKey(router.id))
        return made.state

    def _related(self, id: RouterId, state: RouterState) -> tuple[Resource, ...]:
        def is_here(floating: FloatingIp) -> bool:
            return find_part(floating, state, self._context) is not None

        return tuple(self._index.related(id, is_here))

    def _set_router(self, id: RouterId, made: RouterState | NotOnHost | None) -> None:
        self._contributed.pop(id, None)
        if isinstance(made, RouterState):
            made = evolve(made, contributions=self._contributions(id))
            self._contributed[id] = _contributed_addresses(made)
        self._set(RouterKey(id), made)

    def _contributions(self, id: RouterId) -> tuple[RouterContribution, ...]:
        """Return the contributions to a router, one for each extension that has any."""
        own = {each.owner: each for each in self._extensions.contributions(id)}
        joined = (_join(self._base.get(owner), own.get(owner)) for owner in self._extensions.owners)
        return tuple(contribution for contribution in joined if contribution is not None)

    def _update_floating_ip(self, id: FloatingIpId) -> None:
        floating = self._index.floating_ip(id)
        value: L3Value | None = None
        if floating is not None and floating.router_id is not None:
            router = self._values.get(RouterKey(floating.router_id))
            if isinstance(router, NotOnHost):
                value = None if self._is_elsewhere(floating) else NotOnHost(reason=router.reason)
            elif isinstance(router, RouterState):  # None: the router is not this host's
                contributed = self._contributed[floating.router_id]
                value = make_floating_ip(floating, router, contributed, self._context)
        self._set(FloatingIpKey(id), value)

    def _is_elsewhere(self, floating: FloatingIp) -> bool:
        """Return whether another host translates a floating IP."""
        if self._context.enable_inat_enat:
            return True
        router = None if floating.router_id is None else self._index.router(floating.router_id)
        is_distributed = router is not None and router.distributed
        return is_distributed and floating.host not in (None, self._context.host)

    def _update_gateways(self) -> None:
        """Update the agent gateways that have other ports, networks or floating IPs than before."""
        networks, self._gateways = self._gateways, set()
        for network in networks:
            is_used = bool(self._local_nats.get(network))
            made = make_agent_gateway(network, self._index, self._context, is_used=is_used)
            self._set(AgentGatewayKey(network), made)

    def _set(self, key: L3Key, value: L3Value | None) -> None:
        former = self._values.get(key)
        self._values.set(key, value)
        is_absent = isinstance(value, NotOnHost | UnusedAgentGateway)
        (self.absent.add if is_absent else self.absent.discard)(key)
        is_prepared = isinstance(value, FloatingIpNat) and value.prepared
        (self.prepared.add if is_prepared else self.prepared.discard)(key)
        for nat in (former, value):
            if isinstance(nat, FloatingIpNat) and nat.part is RouterPart.LOCAL:
                nats = self._local_nats[nat.external_network]
                (nats.add if nat is value else nats.discard)(key)
                self._gateways.add(nat.external_network)

    def _routers_of(self, resource: PortForwarding | QosPolicy | NdpProxy) -> frozenset[RouterId]:
        if isinstance(resource, NdpProxy):
            return frozenset({resource.router_id})
        if isinstance(resource, QosPolicy):
            return self._index.routers_with_policy(resource.id)
        floating = self._index.floating_ip(resource.floating_ip_id)
        return frozenset() if floating is None else _present(floating.router_id)

    def _count(self, state: RouterState | None, sign: int) -> None:
        """Count interfaces, gateways and HA of a router; ports of central parts are no interfaces,
        since the local parts have an interface on the same subnets."""
        if state is not None:
            part = state.full or state.local
            self.interfaces += sign * (0 if part is None else len(part.interfaces))
            self.gateways += sign * (gateway_of(state) is not None)
            self.ha_routers += sign * (ha_of(state) is not None)


def _contributed_addresses(router: RouterState) -> frozenset[IpAddress]:
    return frozenset(each.ip for part in router.contributions for each in part.addresses)


def _present(id: RouterId | None) -> frozenset[RouterId]:
    return frozenset() if id is None else frozenset({id})


def _join(
    base: RouterContribution | None, own: RouterContribution | None
) -> RouterContribution | None:
    """Return what an extension contributes to every router and to one, as one contribution."""
    if base is None or own is None:
        return own or base
    return evolve(
        base,
        rules=base.rules + own.rules,
        addresses=base.addresses + own.addresses,
        qos=base.qos + own.qos,
        proxied=base.proxied + own.proxied,
    )
