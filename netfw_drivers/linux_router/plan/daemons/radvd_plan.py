"""Router advertisements: the radvd that a router should have, and the steps to it.  Pure.

What does not fit into an advertisement is left out, and named with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from ipaddress import IPv6Address, IPv6Network
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.values.router_values import RouterPort
from netfw.linux.process.supervised_program import Program
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.address import link_local
from netfw_drivers.linux_router.config.radvd import (
    IPV6_MTU,
    MAX_DNS_SERVERS,
    MAX_PREFIXES,
    SLAAC_LENGTH,
    RadvdInterface,
    RadvdPrefix,
    render_radvd,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep, RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.desired_netns import DesiredRouter
from netfw_drivers.linux_router.plan.names import PartId, config_path, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundDaemon, FoundRouter

SERVICE = "radvd"
REMOVED_LIMIT = 16
"""Limit of removed prefixes of an interface that are advertised as such: the last removed ones."""
_AUTONOMOUS = (Ipv6Mode.SLAAC, Ipv6Mode.STATELESS)
_SECTION = re.compile(
    r"^\s*(?:interface (?P<device>\S+)|prefix (?P<prefix>\S+)|(?P<removed>AdvValidLifetime 0;))",
    re.MULTILINE,
)


@frozen(kw_only=True)
class WithdrawPrefixes:
    """Withdraw the prefixes of an interface that is about to be removed."""

    backend: ClassVar[str] = SERVICE
    router: PartId
    device: str
    source: IPv6Address
    """Link-local address of the router there: hosts know it by this one."""
    prefixes: tuple[IPv6Network, ...]

    @property
    def text(self) -> str:
        return f"withdraw {', '.join(map(str, self.prefixes))} on {self.device}"


RadvdStep = DaemonStep | WithdrawPrefixes


def plan_radvd(
    router: DesiredRouter, found: FoundDaemon, settings: RouterSettings
) -> Iterator[DaemonStep]:
    """Plan the radvd of a router; prefixes that it advertised before are withdrawn."""
    interfaces = tuple(_interfaces(router, found.text or ""))
    if not interfaces:
        if not found.is_absent:
            yield StopDaemon(SERVICE, router.id)
        return
    text = render_radvd(interfaces)
    program = make_program(router.id, settings)
    if found.text != text or found.digest != program.digest():
        yield RunDaemon(SERVICE, router.id, text, program)


def plan_withdrawals(
    router: PartId, kept: Container[str], found: FoundRouter
) -> Iterator[WithdrawPrefixes]:
    """Plan what hosts are told before devices are removed that are not among *kept*."""
    for device, prefixes in _parse_prefixes(found.radvd.text or "").items():
        link = found.netns.links.get(device)
        if link is not None and link.mac is not None and device not in kept:
            source = link_local(link.mac)
            yield WithdrawPrefixes(
                router=router, device=device, source=source, prefixes=tuple(prefixes)
            )


def make_program(router: PartId, settings: RouterSettings) -> Program:
    """Return the program that advertises for *router*."""
    path = config_path(settings.directory, SERVICE, router)
    user = ("-u", settings.radvd_user) if settings.radvd_user else ()
    return Program(
        argv=("radvd", "-n", "-C", str(path), "-p", f"{path}.pid", "-m", "stderr", *user),
        namespace=router_namespace(router),
        on_death=settings.on_death,
    )


def left_out_advertisements(router: DesiredRouter) -> dict[str, str]:
    """Return what cannot be advertised, each with the reason; not of ports without IPv6."""
    problems: dict[str, str] = {}
    for port in router.full.interfaces:
        problems |= _select(port).left_out if port.mtu >= IPV6_MTU[0] else {}
    return problems


@frozen(kw_only=True)
class _Selection:
    """What of a port can be advertised, and what is left out."""

    prefixes: tuple[RadvdPrefix, ...] = ()
    dns_servers: tuple[IPv6Address, ...] = ()
    left_out: Mapping[str, str] = field(factory=dict)


def _select(port: RouterPort) -> _Selection:
    left_out: dict[str, str] = {}
    prefixes: dict[IPv6Network, RadvdPrefix] = {}
    for subnet in _subnets(port):
        prefix = _prefix(subnet)
        if len(prefixes) < MAX_PREFIXES:
            autonomous = subnet.ipv6_ra_mode in _AUTONOMOUS
            prefixes[prefix] = RadvdPrefix(prefix=prefix, autonomous=autonomous)
        else:
            why = f"a port advertises at most {MAX_PREFIXES} prefixes"
            left_out[f"advertisement of subnet {subnet.id}"] = why
    servers = tuple(_name_servers(port))
    if len(servers) > MAX_DNS_SERVERS:
        why = f"{len(servers)} of IPv6: the first {MAX_DNS_SERVERS} are advertised"
        left_out[f"name servers of port {port.id}"] = why
    return _Selection(
        prefixes=tuple(prefixes.values()),
        dns_servers=servers[:MAX_DNS_SERVERS],
        left_out=left_out,
    )


def _interfaces(router: DesiredRouter, present: str) -> Iterator[RadvdInterface]:
    advertised = _parse_prefixes(present)
    for port in router.full.interfaces:
        device = router.interface_device(port.id)
        selected = _select(port)
        prefixes = [*selected.prefixes, *_removed(selected.prefixes, advertised.get(device, {}))]
        if prefixes and port.mtu >= IPV6_MTU[0]:
            modes = {each.ipv6_ra_mode for each in _subnets(port)}
            yield RadvdInterface(
                device=device,
                source=link_local(port.mac),
                mtu=port.mtu,
                prefixes=tuple(prefixes),
                dns_servers=selected.dns_servers,
                managed=Ipv6Mode.STATEFUL in modes,
                other_config=Ipv6Mode.STATELESS in modes,
            )


def _removed(
    prefixes: Sequence[RadvdPrefix], advertised: Mapping[IPv6Network, bool]
) -> list[RadvdPrefix]:
    """Return the last removed ones of the prefixes that were *advertised* before, in the order in
    which they were removed."""
    named = {each.prefix for each in prefixes}
    gone = [prefix for prefix in advertised if prefix not in named]
    gone.sort(key=lambda prefix: not advertised[prefix])  # those removed before, then the new ones
    available = min(REMOVED_LIMIT, MAX_PREFIXES - len(prefixes))
    return [
        RadvdPrefix(prefix=prefix, autonomous=prefix.prefixlen == SLAAC_LENGTH, removed=True)
        for prefix in gone[max(len(gone) - available, 0) :]
    ]


def _subnets(port: RouterPort) -> list[Subnet]:
    return [each for each in port.subnets if each.ipv6_ra_mode is not None]


def _prefix(subnet: Subnet) -> IPv6Network:
    assert isinstance(subnet.cidr, IPv6Network), "it has a mode of advertisements"
    return subnet.cidr


def _name_servers(port: RouterPort) -> dict[IPv6Address, None]:
    servers = (each for subnet in _subnets(port) for each in subnet.dns_nameservers)
    return dict.fromkeys(each for each in servers if isinstance(each, IPv6Address))


def _parse_prefixes(text: str) -> dict[str, dict[IPv6Network, bool]]:
    """Return the prefixes of each device in a configuration, and whether each is removed."""
    found: dict[str, dict[IPv6Network, bool]] = {}
    device, prefix = "", None
    for each in _SECTION.finditer(text):
        if each["device"]:
            device, prefix = each["device"], None
        elif each["prefix"]:
            prefix = _parse_prefix(each["prefix"])
            if prefix is not None:
                found.setdefault(device, {})[prefix] = False
        elif prefix is not None:
            found[device][prefix] = True
    return found


def _parse_prefix(text: str) -> IPv6Network | None:
    try:
        return IPv6Network(text)
    except ValueError:
        return None
