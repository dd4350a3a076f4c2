"""Observer of agent gateways, and of the links that routers have to them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address

from attrs import evolve

from netfw.drivers.values.keys import AgentGatewayKey
from netfw.drivers.values.router_values import AgentGateway
from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.ip import sysctl
from netfw.linux.ip.connected_routes import mark_unrouted
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.values import PROTOCOL_KERNEL, FoundAddress
from netfw.linux.router_netns import RouterNetnsExecutor
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.ids import NetworkId, RouterId
from netfw_drivers.linux_router.distributed.agent_gateway import gateway_netns
from netfw_drivers.linux_router.distributed.gateway_link import (
    GatewayLink,
    LinkPair,
    allocate_pair,
    find_pair,
)
from netfw_drivers.linux_router.plan.desired_netns import DeviceName
from netfw_drivers.linux_router.plan.floating_ips import RouterUpdate
from netfw_drivers.linux_router.plan.names import (
    AGENT_GATEWAY,
    GATEWAY_END,
    gateway_namespace,
    link_devices,
    parse_gateway_namespace,
)
from netfw_drivers.linux_router.plan.observed import FoundGateway
from netfw_drivers.linux_router.plan.validation import value_error
from netfw_drivers.linux_router.runtime.converged_routers import ConvergedRouter


class GatewayObserver:
    """Observes agent gateways, and allocates the addresses of links.  Thread-safe.

    Routers that are converged at the same time share agent gateways: a pair of addresses is
    reserved from its allocation until `release`, when the kernel has it.
    """

    def __init__(self, executor: RouterNetnsExecutor, device_name: DeviceName) -> None:
        self._executor, self._device_name = executor, device_name
        self._lock = threading.Lock()
        self._reserved: dict[tuple[NetworkId, RouterId], LinkPair] = {}
        self._values: dict[NetworkId, AgentGateway] = {}

    def networks(self) -> frozenset[NetworkId]:
        """Return the networks that have an agent gateway here, or remains of one."""
        parsed = map(parse_gateway_namespace, netns.file_names())
        return frozenset(id for id in parsed if id is not None)

    def concerned(self, update: RouterUpdate) -> frozenset[NetworkId]:
        """Return the networks whose agent gateways *update* concerns."""
        named = {key.network for key in update if isinstance(key, AgentGatewayKey)}
        if update.complete:
            kept = {key.network for key in update.keep if isinstance(key, AgentGatewayKey)}
            named |= self.networks() - kept
        return frozenset(named)

    def observe(self, update: RouterUpdate, *, mirrored: bool) -> dict[NetworkId, FoundGateway]:
        """Observe the agent gateways that concern *update*; errors as of the executor."""
        coming = desired_gateways(update)
        return {
            network: self._observe(network, coming.get(network), mirrored=mirrored)
            for network in self.concerned(update)
        }

    def observe_present(self, network: NetworkId) -> FoundGateway:
        """Observe an agent gateway that is here, and read its packet filters anew."""
        return self._observe(network, self.value(network), mirrored=False)

    def value(self, network: NetworkId) -> AgentGateway | None:
        """Return the agent gateway as it was recorded last."""
        with self._lock:
            return self._values.get(network)

    def record(self, network: NetworkId, value: AgentGateway | None) -> None:
        """Remember an agent gateway, or that it is gone."""
        with self._lock:
            if value is None:
                self._values.pop(network, None)
            else:
                self._values[network] = value

    def reset(self) -> None:
        """Forget everything: another driver may have changed agent gateways meanwhile."""
        with self._lock:
            self._values.clear()
            self._reserved.clear()

    def release(self, routers: Iterable[RouterId]) -> None:
        """Release the reservations of *routers*: the kernel has their addresses."""
        gone = frozenset(routers)
        with self._lock:
            self._reserved = {
                key: pair for key, pair in self._reserved.items() if key[1] not in gone
            }

    def find_network(self, router: RouterId) -> NetworkId | None:
        """Return the network to whose agent gateway a router has a link."""
        _, device = link_devices(router)
        for id in self.networks():
            try:
                with NetlinkClient(gateway_namespace(id)) as network:
                    if network.link(device) is not None:
                        return id
            except NotFound:
                continue
        return None

    def observe_link(
        self,
        router: RouterId,
        network: NetworkId,
        *,
        has_router_end: bool,
        coming: AgentGateway | None = None,
    ) -> GatewayLink | None:
        """Observe the link of a router; None: there is no agent gateway, and none is *coming*.

        :raises Exhausted: no addresses are left for it.
        """
        found = self.read(router, network)
        links = () if found is None else found.links.values()
        port = next((each for each in links if each.name.startswith(AGENT_GATEWAY)), None)
        if coming is None and port is None:
            return None
        mtu = port.mtu if coming is None and port is not None else 0
        empty = GatewayLink(
            router=router,
            network=network,
            pair=self._pair(router, network, found),
            mtu=mtu if coming is None else coming.port.mtu,
            port=port,
            has_router_end=has_router_end,
        )
        return empty if found is None else empty.observed_in(found)

    def converged(self, network: NetworkId) -> ConvergedRouter | None:
        """Return an agent gateway as it is after a converge; None if it is gone."""
        name, value = gateway_namespace(network), self.value(network)
        if not netns.exists(name):
            return None
        if value is None:
            return ConvergedRouter(id=AgentGatewayKey(network))
        wanted = gateway_netns(network, value, self._device_name)
        return ConvergedRouter(
            id=AgentGatewayKey(network), ports=wanted.ports, whole=lambda: wanted
        )

    def _observe(
        self, network: NetworkId, value: AgentGateway | None, *, mirrored: bool
    ) -> FoundGateway:
        name = gateway_namespace(network)
        wanted = None if value is None else gateway_netns(network, value, self._device_name)
        known = self.value(network)
        return FoundGateway(
            netns=self._executor.observe(name, wanted, mirrored=mirrored),
            ports=frozenset() if known is None else frozenset({known.port.id}),
        )

    def read(self, router: RouterId, network: NetworkId) -> ObservedNetns | None:
        """Read what the link of a router follows from; None if there is no such namespace."""
        try:
            with NetlinkClient(gateway_namespace(network)) as client:
                return client.run(lambda: self._read_link(router, network, client))
        except NotFound:
            return None

    def _read_link(
        self, router: RouterId, network: NetworkId, client: NetlinkClient
    ) -> ObservedNetns:
        """Read the gateway's end of one link, and the port: the cost is not that of all links."""
        _, device = link_devices(router)
        value = self.value(network)
        port = None if value is None else self._device_name(value.port.id, AGENT_GATEWAY)
        found = [client.link(name) for name in (device, port) if name is not None]
        links = {link.name: link for link in found if link is not None}
        if port not in links:
            links = client.links()
        empty = ObservedNetns(netns=gateway_namespace(network), exists=True, links=links)
        if device not in links:
            return empty
        try:
            addresses = client.addresses(device)
            routes = client.static_and_connected_routes(device)
            return evolve(
                empty,
                addresses=mark_unrouted(addresses, links, routes),
                routes=tuple(each for each in routes if each.protocol != PROTOCOL_KERNEL),
                sysctls=sysctl.read_many(GatewayLink.parameters(router)),
            )
        except NotFound:  # it was removed meanwhile
            others = {name: link for name, link in links.items() if name != device}
            return evolve(empty, links=others)

    def _pair(self, router: RouterId, network: NetworkId, found: ObservedNetns | None) -> LinkPair:
        """Return the pair that a link has; otherwise reserve one."""
        if found is not None:
            pair = find_pair(found.addresses, link_devices(router)[1])
            if pair is not None:
                return pair
        with self._lock:
            key = network, router
            if key not in self._reserved:
                reserved = (pair for (id, _), pair in self._reserved.items() if id == network)
                taken = {address for pair in reserved for address in pair.network}
                self._reserved[key] = allocate_pair(taken | self._taken(network, router))
            return self._reserved[key]

    def _taken(self, network: NetworkId, router: RouterId) -> set[IPv4Address]:
        """Read the addresses of other links: a reservation is released when the kernel has it."""
        _, own = link_devices(router)
        try:
            with NetlinkClient(gateway_namespace(network)) as client:
                return set(_addresses(client.addresses(), own))
        except NotFound:
            return set()


def desired_gateways(update: RouterUpdate) -> Mapping[NetworkId, AgentGateway]:
    """Return the agent gateways that an update brings."""
    return {
        key.network: value
        for key, value in update.put.items()
        if isinstance(key, AgentGatewayKey)
        and isinstance(value, AgentGateway)
        and value_error(key, value) is None
    }


def _addresses(found: Iterable[FoundAddress], own: str) -> Iterable[IPv4Address]:
    for entry in found:
        device, ip = entry.address.device, entry.address.interface.ip
        if device != own and device.startswith(GATEWAY_END) and isinstance(ip, IPv4Address):
            yield ip
