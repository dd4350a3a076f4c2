"""The resources of the L3 agent, indexed by router, network and floating IP.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import cast
from uuid import UUID

from netfw.agents.common.resource_index import ResourceIndex
from netfw.model import l3_extensions
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import DeviceOwner, is_router_port
from netfw.model.values.ids import FloatingIpId, NetworkId, QosPolicyId, RouterId


def router_of(port: Port) -> RouterId | None:
    """Return the router that *port* belongs to, if it belongs to one."""
    if not is_router_port(port.device_owner):
        return None
    try:
        return RouterId(UUID(port.device_id))
    except ValueError:
        return None  # not attached to a router yet


def is_agent_gateway(port: Port) -> bool:
    """Return whether *port* is the port of a host on an external network."""
    return port.device_owner == DeviceOwner.FLOATING_IP_AGENT_GATEWAY


class L3ResourceIndex(ResourceIndex):
    """Resources as an L3 agent looks them up.

    No look-up depends on how many routers there are.
    """

    def __init__(self) -> None:
        super().__init__()
        self._subnets = self.declare(Subnet, lambda subnet: (subnet.network_id,))
        self._ports = self.declare(Port, lambda port: _known(router_of(port)))
        self._networks = self.declare(
            Port, lambda port: () if router_of(port) is None else (port.network_id,)
        )
        self._agent_gateways = self.declare(
            Port, lambda port: (port.network_id,) if is_agent_gateway(port) else ()
        )
        self._floating_ips = self.declare(FloatingIp, lambda floating: _known(floating.router_id))
        self._limited_floating_ips = self.declare(
            FloatingIp, lambda floating: _policy(floating.qos_policy_id)
        )
        self._limited_routers = self.declare(
            Router, lambda router: _policy(gateway_qos_policy(router))
        )
        self._forwardings = self.declare(PortForwarding, lambda each: (each.floating_ip_id,))
        self._ndp_proxies = self.declare(NdpProxy, lambda each: (each.router_id,))
        self._extension_users = (
            self.declare(Router, _extensions_of_router),
            self.declare(
                FloatingIp, lambda each: (l3_extensions.FIP_QOS,) if each.qos_policy_id else ()
            ),
            self.declare(PortForwarding, lambda each: (l3_extensions.PORT_FORWARDING,)),
            self.declare(NdpProxy, lambda each: (l3_extensions.NDP_PROXY,)),
        )

    def router(self, id: RouterId) -> Router | None:
        """Return a router, if it is known."""
        return cast(Router | None, self.get(Ref(Kind.ROUTER, id)))

    def floating_ip(self, id: FloatingIpId) -> FloatingIp | None:
        """Return a floating IP, if it is known."""
        return cast(FloatingIp | None, self.get(Ref(Kind.FLOATING_IP, id)))

    def subnets(self, network: NetworkId) -> tuple[Subnet, ...]:
        """Return the subnets of a network, in order of id."""
        return tuple(cast(Subnet, each) for each in self._sorted(self._subnets.refs(network)))

    def ports(self, router: RouterId) -> tuple[Port, ...]:
        """Return the ports of a router, in order of id."""
        return tuple(cast(Port, each) for each in self._sorted(self._ports.refs(router)))

    def agent_gateway_ports(self, network: NetworkId) -> tuple[Port, ...]:
        """Return the ports of agent gateways on a network, in order of id."""
        refs = self._agent_gateways.refs(network)
        return tuple(cast(Port, each) for each in self._sorted(refs))

    def routers_on(self, network: NetworkId) -> frozenset[RouterId]:
        """Return the routers that have a port on a network."""
        ports = (cast(Port, self[key]) for key in self._networks.refs(network))
        return frozenset(id for id in map(router_of, ports) if id is not None)

    def floating_ips(self, router: RouterId) -> tuple[FloatingIp, ...]:
        """Return the floating IPs of a router, in order of id."""
        refs = self._floating_ips.refs(router)
        return tuple(cast(FloatingIp, each) for each in self._sorted(refs))

    def routers_with_policy(self, policy: QosPolicyId) -> frozenset[RouterId]:
        """Return the routers whose gateway, or one of whose floating IPs, has a QoS policy."""
        floating = (cast(FloatingIp, self[key]) for key in self._limited_floating_ips.refs(policy))
        routers = {each.router_id for each in floating if each.router_id is not None}
        return frozenset(routers | {RouterId(r.id) for r in self._limited_routers.refs(policy)})

    def users_of_extension(self, name: str) -> frozenset[Ref]:
        """Return the resources that are in force only by the L3 extension *name*."""
        return frozenset().union(*(users.refs(name) for users in self._extension_users))

    def related(
        self, router: RouterId, is_here: Callable[[FloatingIp], bool]
    ) -> Iterator[Resource]:
        """Yield the floating IPs of a router, and their port forwardings, in order of id; then its
        NDP proxies, and the known QoS policies of floating IPs and of the gateway.

        Floating IPs that are not on this host are left out.
        """
        known = self.router(router)
        policies = {None if known is None else gateway_qos_policy(known)}
        for floating in filter(is_here, self.floating_ips(router)):
            yield floating
            policies.add(floating.qos_policy_id)
            if refs := self._forwardings.refs(floating.id):
                yield from self._sorted(refs)
        if proxies := self._ndp_proxies.refs(router):
            yield from self._sorted(proxies)
        refs = {Ref(Kind.QOS_POLICY, id) for id in policies if id is not None}
        yield from self._sorted({each for each in refs if each in self})

    def _sorted(self, refs: Set[Ref]) -> list[Resource]:
        return [self[key] for key in sorted(refs, key=lambda key: key.id.int)]


def gateway_qos_policy(router: Router) -> QosPolicyId | None:
    """Return the QoS policy of a router's gateway."""
    return None if router.gateway is None else router.gateway.qos_policy_id


def _extensions_of_router(router: Router) -> Iterator[str]:
    if router.firewall_groups:
        yield l3_extensions.ROUTER_FIREWALL
    if router.conntrack_helpers:
        yield l3_extensions.CONNTRACK_HELPER
    if gateway_qos_policy(router) is not None:
        yield l3_extensions.GATEWAY_IP_QOS


def _policy(id: QosPolicyId | None) -> tuple[QosPolicyId, ...]:
    return () if id is None else (id,)


def _known(id: RouterId | None) -> tuple[RouterId, ...]:
    return () if id is None else (id,)
