"""Observer: reads routers from the kernel, and finds the router of a floating IP."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from functools import partial

from attrs import evolve, field, frozen

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import (
    AgentGateway,
    FloatingIpNat,
    RouterDriverKey,
    RouterPart,
    RouterState,
)
from netfw.errors import BackendBroken, Exhausted, NetfwError, NotFound
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.values import PROTOCOL_KEEPALIVED
from netfw.linux.router_netns import NetnsPort, RouterNetns, RouterNetnsExecutor
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.router import HaRole
from netfw.model.values.ids import FloatingIpId, NetworkId, PortId, RouterId
from netfw_drivers.linux_router.distributed.gateway_link import unlinked_end
from netfw_drivers.linux_router.distributed.local_routing import subnet_tables
from netfw_drivers.linux_router.distributed.router_parts import nat_part, part_states, ports_of
from netfw_drivers.linux_router.plan.floating_ips import RouterUpdate
from netfw_drivers.linux_router.plan.names import (
    GATEWAY,
    CentralPart,
    PartId,
    link_devices,
    parse_namespace,
    part_key,
    router_namespace,
)
from netfw_drivers.linux_router.plan.observed import FoundGateway, FoundRouter, ObservedRouters
from netfw_drivers.linux_router.plan.plan import RouterContext
from netfw_drivers.linux_router.plan.refused_rules import without_refused_rules
from netfw_drivers.linux_router.plan.validation import value_error
from netfw_drivers.linux_router.runtime.conntrackd_runner import ConntrackdRunner
from netfw_drivers.linux_router.runtime.converged_routers import ConvergedRouter
from netfw_drivers.linux_router.runtime.dhclient_runner import DhclientRunner
from netfw_drivers.linux_router.runtime.floating_ip_index import FloatingIpIndex
from netfw_drivers.linux_router.runtime.gateway_observer import GatewayObserver, desired_gateways
from netfw_drivers.linux_router.runtime.keepalived_runner import KeepalivedRunner
from netfw_drivers.linux_router.runtime.prepared_floating_ips import PreparedFloatingIps
from netfw_drivers.linux_router.runtime.radvd_runner import RadvdRunner

LOG = logging.getLogger(__name__)


@frozen(kw_only=True)
class _Scope:
    """What an observation is for."""

    states: Mapping[PartId, RouterState] = field(factory=dict)
    networks: Mapping[RouterId, NetworkId] = field(factory=dict)
    """The external networks of routers that get a floating IP of a local part."""
    coming: Mapping[NetworkId, AgentGateway] = field(factory=dict)
    """The agent gateways of the same update."""
    mirrored: bool = False


class RouterObserver:
    """Observes the routers that concern an update.

    The namespaces are read at each observation; packet filters are mirrored while their generation
    is the same (of iptables-legacy: between two observations of everything).  Where each floating
    IP is, is read once, and then known from the observations, so that an update reads nothing of a
    router that it keeps.  Different routers may be observed by different threads.
    """

    def __init__(
        self,
        executor: RouterNetnsExecutor,
        daemons: tuple[RadvdRunner, KeepalivedRunner, ConntrackdRunner, DhclientRunner],
        context: RouterContext,
        gateways: GatewayObserver,
    ) -> None:
        self._executor, self._context, self._links = executor, context, gateways
        self._daemons = daemons
        self._radvd, self._keepalived, self._conntrackd, self._dhclient = daemons
        self._lock = threading.Lock()
        self._floating_ips = FloatingIpIndex(self._read_all_floating_ips)
        self._states: dict[PartId, RouterState] = {}
        self._gateways: dict[str, PortId] = {}
        self.prepared = PreparedFloatingIps()

    def routers(self) -> frozenset[PartId]:
        """Return the routers that have a namespace or remains of one, a process or a file."""
        parsed = map(parse_namespace, netns.file_names())
        found = frozenset(id for id in parsed if id is not None)
        return found.union(*(each.routers() for each in self._daemons))

    def floating_ips(self) -> dict[FloatingIpId, PartId]:
        """Return where each floating IP is."""
        found = self._read_all_floating_ips()
        return {id: router for router, each in found.items() for id in each.floating_ips}

    def observe(self, update: RouterUpdate, *, mirrored: bool) -> ObservedRouters:
        """Observe the routers that concern *update*.

        :raises BackendError: a router cannot be read.
        """
        states: dict[PartId, RouterState] = {}
        for key, value in update.put.items():
            if isinstance(key, RouterKey) and isinstance(value, RouterState):
                valid = value_error(key, value) is None
                states |= part_states(key.router, value) if valid else {}
        scope = _Scope(
            states=states,
            networks={nat.router: nat.external_network for nat in _local_nats(update)},
            coming=desired_gateways(update),
            mirrored=mirrored,
        )
        gateways = self._links.observe(update, mirrored=mirrored)
        return ObservedRouters(
            routers=self._observe(self.concerned(update), scope), gateways=gateways
        )

    def observe_all(self) -> ObservedRouters:
        """Observe all routers, and read their packet filters anew.

        :raises BackendBroken: an operator must repair one of them; all others were read.
        """
        with self._lock:
            states = dict(self._states)
        scope, broken = _Scope(states=states), list[BackendBroken]()
        routers, gateways = dict[PartId, FoundRouter](), dict[NetworkId, FoundGateway]()
        for router in sorted(self.routers(), key=str):
            try:
                routers[router] = self._observe_router(router, scope)
            except BackendBroken as error:
                broken.append(error)
        for network in sorted(self._links.networks()):
            try:
                gateways[network] = self._links.observe_present(network)
            except BackendBroken as error:
                broken.append(error)
        if broken:
            raise broken[0]
        return ObservedRouters(routers=routers, gateways=gateways)

    def concerned(self, update: RouterUpdate) -> frozenset[PartId]:
        """Return the routers of *update*, those that lose a floating IP included."""
        named = {
            part
            for key in update
            if isinstance(key, RouterKey)
            for part in self._parts(key.router, update.put.get(key))
        }
        named |= {nat_part(each) for each in update.put.values() if isinstance(each, FloatingIpNat)}
        ids = {key.floating_ip for key in update if isinstance(key, FloatingIpKey)}
        if update.complete:
            named |= {part for part in self.routers() if part_key(part) not in update.keep}
            kept_ips = {key.floating_ip for key in update.keep if isinstance(key, FloatingIpKey)}
            ids |= self._floating_ips.ids() - kept_ips
        return frozenset(named | self._floating_ips.routers_of(ids))

    def _parts(self, router: RouterId, value: object) -> Iterator[PartId]:
        """Yield the parts that a router has, or should have by *value*."""
        states = part_states(router, value) if isinstance(value, RouterState) else {}
        if not states or router in states or self._exists(router):
            yield router
        central = CentralPart(router)
        if central in states or self._exists(central):
            yield central

    def _exists(self, part: PartId) -> bool:
        return netns.has_file(router_namespace(part)) or any(
            each.is_configured(part) for each in self._daemons
        )

    def locate(self, keys: Iterable[RouterDriverKey]) -> frozenset[RouterDriverKey]:
        """Return those of *keys* that are floating IPs of routers on this host now."""
        ids = (key.floating_ip for key in keys if isinstance(key, FloatingIpKey))
        return frozenset(map(FloatingIpKey, self._floating_ips.known(ids)))

    def converged(self, router: PartId) -> ConvergedRouter | None:
        """Return a router as the mirrors have it after a converge; None if it is gone."""
        try:
            found = self._mirrored(router)
        except NotFound:
            self._floating_ips.forget(router)
            return None
        self._floating_ips.record(router, found)
        state = self.state(router)
        if state is None:
            gateway = self._read_gateway(found.netns.netns)
            linked = self._with_numbers(router, None, found)
            return ConvergedRouter(
                id=router,
                ports=() if gateway is None else (gateway,),
                index=found.index,
                prepared=linked.prepared,
                link=linked.link,
                is_ha=self._keepalived.is_configured(router),
            )
        desired = self._context.desired(router, state)
        is_ha = desired.ha is not None
        found = self._with_numbers(router, state, found)
        tables = subnet_tables(found.netns.policy_rules)
        return ConvergedRouter(
            id=router,
            ports=tuple(desired.ports({})),
            index=found.index,
            prepared=found.prepared,
            link=found.link,
            whole=partial(desired.netns, found.scope_marks, found.translations, tables, found.link),
            is_ha=is_ha,
            is_elected=is_ha and self._keepalived.is_running(router),
        )

    def _with_numbers(
        self, router: PartId, state: RouterState | None, found: FoundRouter
    ) -> FoundRouter:
        """Read the policy rules and the link of a local part, which have its numbers."""
        is_local = state is None or state.local is not None
        if not is_local or isinstance(router, CentralPart):
            return found
        try:
            with NetlinkClient(found.netns.netns) as network:
                rules, links = network.rules(), network.links()
        except NotFound:
            return found
        netns = evolve(found.netns, policy_rules=rules, links=links)
        return self._with_link(router, evolve(found, netns=netns), _Scope(mirrored=True))

    def record(
        self, router: PartId, state: RouterState | None, refused: Collection[Hashable] = ()
    ) -> None:
        """Remember the state that a part has, for observations of everything.

        Contributed rules of *refused* keys are not part of it, unless they were in force before.
        """
        if state is not None and refused:
            own, found = part_key(router).router, self._mirrored(router)
            devices = self._context.desired(router, state).port_devices()
            state = without_refused_rules(own, state, refused, found, devices)
        with self._lock:
            if state is None:
                self._states.pop(router, None)
            else:
                self._states[router] = state

    def forget_except(self, routers: Container[RouterDriverKey]) -> None:
        """Forget the states of all but *routers*."""
        with self._lock:
            states = self._states.items()
            self._states = {id: state for id, state in states if part_key(id) in routers}

    def state(self, router: PartId) -> RouterState | None:
        """Return the state that was recorded last."""
        with self._lock:
            return self._states.get(router)

    def reset(self) -> None:
        """Forget everything: another driver may have changed routers meanwhile."""
        self._floating_ips.reset()
        self.prepared.clear()
        with self._lock:
            self._states.clear()
            self._gateways.clear()

    def _mirrored(self, router: PartId) -> FoundRouter:
        """Return the filters of a router as they were last read or written.

        :raises NotFound: it is gone.
        """
        namespace = router_namespace(router)
        rules = self._executor.mirror(namespace)
        netns = ObservedNetns(netns=namespace, rules=rules)
        return FoundRouter(netns=netns, former=self._floating_ips.index(router))

    def _observe(self, routers: Iterable[PartId], scope: _Scope) -> dict[PartId, FoundRouter]:
        return {router: self._observe_router(router, scope) for router in sorted(routers, key=str)}

    def _observe_router(self, router: PartId, scope: _Scope) -> FoundRouter:
        state, mirrored = scope.states.get(router) or self._local_state(router), scope.mirrored
        wanted = self._wanted(router, state) if state is not None else None
        namespace = router_namespace(router)
        found = FoundRouter(
            netns=self._executor.observe(namespace, wanted, mirrored=mirrored),
            radvd=self._radvd.observe(router),
            keepalived=self._keepalived.observe(router),
            conntrackd=self._conntrackd.observe(router),
            dhclient=self._dhclient.observe(router),
            ports=ports_of(self.state(router)),
            former=self._floating_ips.index(router),
        )
        found = self._observe_election(found, wanted, state)
        found = found if isinstance(router, CentralPart) else self._with_link(router, found, scope)
        if wanted is not None or not mirrored:
            self._floating_ips.forget(router)  # all of them are recorded again
        self._floating_ips.record(router, found)
        return found

    def _local_state(self, router: PartId) -> RouterState | None:
        """Return the state of a local part: each of its changes is compared as a whole."""
        state = self.state(router)
        return state if state is not None and state.local is not None else None

    def _with_link(self, router: RouterId, found: FoundRouter, scope: _Scope) -> FoundRouter:
        """Complete the observation of a router that is a local part, or may be one."""
        state = scope.states.get(router) or self.state(router)
        has_router_end = link_devices(router)[0] in found.netns.links
        network = scope.networks.get(router)
        if state is not None:
            network = None if state.local is None else state.local.external_network
        elif network is None and has_router_end:
            network = self._links.find_network(router)
        local = state if state is not None and state.local is not None else None
        if network is None:
            return found if local is None else evolve(found, local=local)
        coming = scope.coming.get(network)
        try:
            link = self._links.observe_link(
                router, network, has_router_end=has_router_end, coming=coming
            )
        except Exhausted as error:
            LOG.warning("router %s has no link to its agent gateway: %s", router, error)
            link = None
        prepared = self.prepared.among(found.translations, link)
        return evolve(found, local=local, link=link, prepared=prepared)

    def _observe_election(
        self, found: FoundRouter, wanted: RouterNetns | None, state: RouterState | None
    ) -> FoundRouter:
        """Complete the observation of a router that is to be highly available.

        keepalived adds addresses before routes: one that becomes active during the observation may
        seem to have routes only, and is observed once more.
        """
        ha = None if state is None or state.full is None else state.full.ha
        if ha is None:
            return found
        if found.keepalived.digest is None:
            device = self._executor.device(ha.port.id)
            return evolve(found, can_elect=device is not None and device.wired is not False)
        left = any(each.protocol == PROTOCOL_KEEPALIVED for each in found.netns.routes)
        if left and found.role is not HaRole.ACTIVE:
            again = self._executor.observe(found.netns.netns, wanted, mirrored=True)
            return evolve(found, netns=again)
        return found

    def _read_gateway(self, namespace: str) -> NetnsPort | None:
        """Return the gateway of a router that was not converged as a whole yet."""
        try:
            with NetlinkClient(namespace) as network:
                links = network.links()
        except NotFound:
            return None
        for link in links.values():
            port = self._gateway_port(link.name) if link.name.startswith(GATEWAY) else None
            if port is not None and link.mac is not None:
                return NetnsPort(port=port, device=link.name, mac=link.mac, mtu=link.mtu)
        return None

    def _gateway_port(self, device: str) -> PortId | None:
        """Return the port of a gateway's device; all ports are read for a name that is new."""
        with self._lock:
            if device not in self._gateways:
                ports = self._executor.ports()
                name = self._context.device_name
                self._gateways = {name(port, GATEWAY): port for port in ports}
            return self._gateways.get(device)

    def _wanted(self, router: PartId, state: RouterState) -> RouterNetns | None:
        """Return the namespace as far as it is known now: its parameters and rules are read."""
        nothing = FoundRouter(netns=ObservedNetns(netns=router_namespace(router)))
        try:
            wanted = self._context.desired_netns(router, state, nothing, {})
            if state.local is None or isinstance(router, CentralPart):
                return wanted
            return evolve(wanted, links=(unlinked_end(router),))
        except NetfwError:
            return None  # the plan refuses it

    def _read_all_floating_ips(self) -> dict[PartId, FoundRouter]:
        return {router: self._read_floating_ips(router) for router in self.routers()}

    def _read_floating_ips(self, router: PartId) -> FoundRouter:
        namespace = router_namespace(router)
        try:
            rules = self._executor.read_filters(namespace)
        except NotFound:
            rules = None
        return FoundRouter(netns=ObservedNetns(netns=namespace, rules=rules))


def _local_nats(update: RouterUpdate) -> Iterator[FloatingIpNat]:
    for value in update.put.values():
        if isinstance(value, FloatingIpNat) and value.part is RouterPart.LOCAL:
            yield value
