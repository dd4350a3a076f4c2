"""Routers for the tests beside."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network
from typing import Any
from uuid import UUID

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    FullRouter,
    Gateway,
    RouterPort,
    RouterState,
)
from netfw.linux.ip.values import FoundAddress, Link, addresses
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.rule import render_rule
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import (
    AddressScopeId,
    FloatingIpId,
    NetworkId,
    PortId,
    RouterId,
    SubnetId,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon
from netfw_drivers.linux_router.plan.floating_ip_rules import Translation
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRouter
from netfw_drivers.linux_router.plan.plan import RouterContext

ROUTER, OTHER_ROUTER = RouterId(UUID(int=1)), RouterId(UUID(int=2))
KEY = RouterKey(ROUTER)
PORTS = [PortId(UUID(int=number << 96)) for number in range(1, 4)]
NETWORK, EXTERNAL = NetworkId(UUID(int=11)), NetworkId(UUID(int=12))
SCOPES = [AddressScopeId(UUID(int=number)) for number in (31, 32)]
FIPS = [FloatingIpId(UUID(int=number)) for number in (41, 42)]
QR, QG = device_name("qr-", PORTS[0]), device_name("qg-", PORTS[2])
CONTEXT = RouterContext(
    settings=RouterSettings(), device_name=lambda port, prefix: device_name(prefix, port)
)


def port(number: int, *cidrs: str, **values: Any) -> RouterPort:
    return RouterPort(
        **{
            "id": PORTS[number],
            "network": NETWORK if number < 2 else EXTERNAL,
            "mac": f"fa:16:3e:00:00:0{number}",
            "addresses": tuple(map(ip_interface, cidrs)),
            **values,
        }
    )


INSIDE = port(0, "10.0.0.1/24", "fd00::1/64")
OUTSIDE = port(2, "203.0.113.5/24", "2001:db8::5/64")
GATEWAY = Gateway(port=OUTSIDE, next_hops=(ip_address("203.0.113.1"),))
STATE = RouterState(full=FullRouter(interfaces=(INSIDE,), gateway=GATEWAY))


def state(*interfaces: RouterPort, gateway: Gateway | None = GATEWAY, **values: Any) -> RouterState:
    return RouterState(full=FullRouter(interfaces=interfaces, gateway=gateway), **values)


def subnet(cidr: str, mode: Ipv6Mode | None = None, **values: Any) -> Subnet:
    return Subnet(
        id=SubnetId(UUID(int=51)),
        network_id=NETWORK,
        cidr=ip_network(cidr),
        ipv6_ra_mode=mode,
        ipv6_address_mode=mode,
        **values,
    )


def nat(fixed: str = "10.0.0.9", floating: str = "203.0.113.9", **values: Any) -> FloatingIpNat:
    return FloatingIpNat(
        **{
            "router": ROUTER,
            "external_network": EXTERNAL,
            "floating_address": ip_address(floating),
            "fixed_address": ip_address(fixed),
            **values,
        }
    )


def fip(number: int = 0) -> FloatingIpKey:
    return FloatingIpKey(FIPS[number])


def translation(fixed: str = "10.0.0.9", floating: str = "203.0.113.9") -> Translation:
    return Translation(ip_address(floating), ip_address(fixed))


def lines(chains: dict[ChainKey, Chain]) -> dict[str, list[str]]:
    """Return the chains as text, by family, table and name."""
    return {
        f"{key.family.value} {key.table} {key.name}": [
            render_rule(rule, CHAIN_OWNER) for rule in chain.rules
        ]
        for key, chain in chains.items()
    }


def found(
    router: RouterState = STATE,
    translations: dict[FloatingIpId, Translation] | None = None,
    floating: tuple[str, ...] = ("203.0.113.9/32",),
) -> FoundRouter:
    """Return a router as the kernel has it: its filters and the addresses of its gateway."""
    own = translations or {}
    absent = FoundRouter(netns=ObservedNetns(netns=router_namespace(ROUTER)))
    desired = CONTEXT.desired_netns(ROUTER, router, absent, own)
    chains = {
        key: tuple(render_rule(rule, CHAIN_OWNER) for rule in chain.rules)
        for key, chain in desired.chains.items()
    }
    there = addresses(QG, ["203.0.113.5/24", *floating])
    return FoundRouter(
        netns=ObservedNetns(
            netns=router_namespace(ROUTER),
            exists=True,
            links={QG: Link(name=QG, index=3, mtu=1500, up=True, state="unknown")},
            addresses=tuple(FoundAddress(address=each) for each in there),
            rules=ChainMirror(chains=chains),
        )
    )


def is_run(step: object, service: str) -> bool:
    """Return whether a step runs the daemon of that name."""
    return isinstance(step, RunDaemon) and step.backend == service
