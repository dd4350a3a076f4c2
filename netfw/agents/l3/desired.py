"""The desired routers and floating IPs of this host.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from attrs import evolve

from netfw.agents.common.changed_values import ChangedValues
from netfw.agents.common.extension_calls import ExtensionCallKey
from netfw.agents.common.grouped_state import GroupedState
from netfw.agents.common.resource_index import ResourceChange
from netfw.agents.l3.extensions import RouterExtensions
from netfw.agents.l3.resource_index import L3ResourceIndex, router_of
from netfw.agents.l3.router_state import (
    Absent,
    ContributedFloatingIp,
    L3HostContext,
    gateway_port_of,
    make_floating_ip,
    make_router_state,
)
from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.contribution import RouterContribution
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    RouterDriverKey,
    RouterDriverValue,
    RouterState,
)
from netfw.model.address import IpAddress
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ids import FloatingIpId, RouterId
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.router import Router
from netfw.model.subnet import Subnet

L3Key = RouterDriverKey
L3Value = RouterDriverValue | ContributedFloatingIp | Absent


class Desired(GroupedState[RouterId, L3Key, L3Value]):
    """The desired value of each router and floating IP.

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
        self.absent: set[L3Key] = set()
        """Routers and floating IPs of the source that are not to be on this host."""
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
                    case Network():
                        routers |= self._index.routers_on(resource.id)
                    case Subnet():
                        routers |= self._index.routers_on(resource.network_id)
                    case FloatingIp():
                        routers |= _present(resource.router_id)
                        floating_ips.add(resource.id)
                        self._touched.add(FloatingIpKey(resource.id))
                    case PortForwarding():
                        routers |= self._routers_of(resource)
        for router in routers:
            if self._update_router(router):
                floating_ips.update(each.id for each in self._index.floating_ips(router))
        for floating_ip in floating_ips:
            self._update_floating_ip(floating_ip)

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

    def group(self, key: L3Key, value: L3Value | None) -> RouterId | None:
        if isinstance(key, RouterKey):
            return key.router
        if isinstance(value, FloatingIpNat | ContributedFloatingIp):
            return value.router
        floating = self._floating_ip(key)
        return None if floating is None else floating.router_id

    def dependents(self, key: L3Key) -> Iterator[L3Key]:
        if isinstance(key, RouterKey):
            for floating in self._index.floating_ips(key.router):
                if FloatingIpKey(floating.id) in self._values:
                    yield FloatingIpKey(floating.id)

    def contributed(self, router: RouterId) -> Iterator[FloatingIpKey]:
        """Yield the floating IPs of a router whose rules extensions contribute."""
        for floating in self._index.floating_ips(router):
            key = FloatingIpKey(floating.id)
            if isinstance(self._values.get(key), ContributedFloatingIp):
                yield key

    def ha_router(self, id: RouterId) -> Router | None:
        """Return a highly available router that the source has on this host."""
        router = self._index.router(id)
        is_ha = router is not None and router.ha and RouterKey(id) in self._values
        return router if is_ha else None

    def reported(self, key: L3Key) -> Router | FloatingIp | None:
        if isinstance(key, RouterKey):
            return self._index.router(key.router)
        return self._floating_ip(key)

    @property
    def values(self) -> Mapping[L3Key, L3Value]:
        """The values of all keys."""
        return self._values

    def _floating_ip(self, key: L3Key) -> FloatingIp | None:
        return self._index.floating_ip(key.floating_ip) if isinstance(key, FloatingIpKey) else None

    def _update_router(self, id: RouterId) -> bool:
        """Update a router; return whether its floating IPs have to be updated with it."""
        router = self._index.router(id)
        made = None if router is None else make_router_state(router, self._index, self._context)
        state = made if isinstance(made, RouterState) else None
        former = self._states.pop(id, None)
        self._count(former, -1)
        self._count(state, 1)
        view = None
        if state is not None and router is not None:
            self._states[id] = state
            related = tuple(self._index.related(id))
            view = ExtendedRouter(router=router, state=state, related=related)
        self._calls |= self._extensions.update(id, view)
        self._set_router(id, made)
        moved = former is not None and gateway_port_of(former) != gateway_port_of(state)
        if moved:
            self._again |= set(self.dependents(RouterKey(id)))
        return moved or (former is None) != (state is None) or isinstance(made, Absent)

    def _set_router(self, id: RouterId, made: RouterState | Absent | None) -> None:
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
            if isinstance(router, Absent):
                value = Absent(reason=router.reason)
            elif isinstance(router, RouterState):  # None: the router is not this host's
                value = make_floating_ip(floating, router, self._contributed[floating.router_id])
        self._set(FloatingIpKey(id), value)

    def _set(self, key: L3Key, value: L3Value | None) -> None:
        self._values.set(key, value)
        (self.absent.add if isinstance(value, Absent) else self.absent.discard)(key)

    def _routers_of(self, forwarding: PortForwarding) -> frozenset[RouterId]:
        floating = self._index.floating_ip(forwarding.floating_ip_id)
        return frozenset() if floating is None else _present(floating.router_id)

    def _count(self, state: RouterState | None, sign: int) -> None:
        if state is not None and state.full is not None:
            self.interfaces += sign * len(state.full.interfaces)
            self.gateways += sign * (state.full.gateway is not None)
            self.ha_routers += sign * (state.full.ha is not None)


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
    )
