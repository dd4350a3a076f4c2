"""No value of a driver and no flow has an address with a scope, which is free text."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Interface, IPv6Network
from uuid import UUID

import pytest

from netfw import flows as of
from netfw.drivers.dhcp import DhcpNetwork, ServerPort
from netfw.drivers.firewall import Member
from netfw.drivers.metadata import MetadataProxy
from netfw.drivers.server.ipam import ThisAddress
from netfw.drivers.values.agent_requests import FindPorts, SetPrefix
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey
from netfw.drivers.values.router_contribution import AddressQos, RouterContribution
from netfw.drivers.values.router_values import (
    AgentGateway,
    FloatingIpNat,
    Gateway,
    HighAvailability,
    LocalRouter,
    PrefixDelegated,
    RouterPort,
)
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    Forwarding,
    RouterInterface,
    Wiring,
)
from netfw.model.segment import NetworkType

ID, MAC = UUID(int=1), "fa:16:3e:00:00:01"
PORT = RouterPort(id=ID, network=ID, mac=MAC, addresses=())
SCOPES = "eth0", "x,output:1", "\n"


def face(address: IPv6Address) -> IPv6Interface:
    return IPv6Interface((address, 64))


def prefix(address: IPv6Address) -> IPv6Network:
    return IPv6Network((address, 128))


VALUES: dict[str, Callable[[IPv6Address], object]] = {
    "qos": lambda bad: AddressQos(address=bad, rules=()),
    "router addition": lambda bad: RouterContribution(owner="a", addresses=(face(bad),)),
    "server": lambda bad: ServerPort(id=ID, mac=MAC, addresses=(face(bad),)),
    "peers": lambda bad: DhcpNetwork(
        server=ServerPort(id=ID, mac=MAC, addresses=()), subnets=(), mtu=1500, peers=(face(bad),)
    ),
    "member": lambda bad: Member(group=GroupKey(ID), prefix=prefix(bad)),
    "this address": lambda bad: ThisAddress(subnet=None, address=bad),
    "proxy": lambda bad: MetadataProxy(netns="a", addresses=(bad,)),
    "find ports": lambda bad: FindPorts(address=bad, network=ID),
    "set prefix": lambda bad: SetPrefix(router=ID, subnet=ID, prefix=prefix(bad)),
    "router port": lambda bad: RouterPort(id=ID, network=ID, mac=MAC, addresses=(face(bad),)),
    "next hop": lambda bad: Gateway(port=PORT, next_hops=(bad,)),
    "on-link subnet": lambda bad: Gateway(port=PORT, onlink_subnets=(prefix(bad),)),
    "next hop of an agent gateway": lambda bad: AgentGateway(port=PORT, next_hops=(bad,)),
    "on-link subnet of an agent gateway": lambda bad: AgentGateway(
        port=PORT, onlink_subnets=(prefix(bad),)
    ),
    "peer on the HA network": lambda bad: HighAvailability(port=PORT, vrid=1, peers=(bad,)),
    "address of the central part": lambda bad: LocalRouter(snat_addresses={ID: bad}),
    "floating address": lambda bad: FloatingIpNat(
        router=ID, external_network=ID, floating_address=bad, fixed_address=IPv6Address("fe80::2")
    ),
    "fixed address": lambda bad: FloatingIpNat(
        router=ID, external_network=ID, floating_address=IPv6Address("fe80::2"), fixed_address=bad
    ),
    "delegated": lambda bad: PrefixDelegated("came", ID, ID, prefix(bad)),
    "source": lambda bad: AllowedSource(MAC, prefix(bad)),
    "wiring": lambda bad: Wiring(
        network=ID, mac=MAC, addresses=frozenset({bad}), admission=Admission.LIVE
    ),
    "router interface": lambda bad: RouterInterface(ID, MAC, frozenset({face(bad)})),
    "endpoint": lambda bad: Endpoint(NetworkType.VXLAN, bad),
    "forwarding": lambda bad: Forwarding(
        frozenset({Endpoint(NetworkType.VXLAN, IPv6Address("fe80::2"))}), frozenset({bad})
    ),
    "match": of.ipv6_src,
    "matched prefix": lambda bad: of.ipv6_src(prefix(bad)),
    "matched text": lambda bad: of.nd_target(str(bad)),
    "set field": lambda bad: of.set_field("ipv6_dst", bad),
    "set field by text": lambda bad: of.set_field("ipv6_dst", str(bad)),
    "nat": lambda bad: of.nat(of.Side.SRC, bad),
    "nat by text": lambda bad: of.nat(of.Side.SRC, str(bad)),
    "nat value": lambda bad: of.Nat(side=of.Side.SRC, first=IPv6Address(0), last=bad),
}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_no_value_of_a_driver_has_an_address_with_a_scope(make: Callable[[IPv6Address], object]):
    make(IPv6Address("fe80::1"))
    for scope in SCOPES:
        with pytest.raises(ValueError, match="with a scope"):
            make(IPv6Address(f"fe80::1%{scope}"))
