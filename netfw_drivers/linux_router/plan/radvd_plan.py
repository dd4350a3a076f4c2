"""Router advertisements: the radvd that a router should have, and the steps to it.  Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from ipaddress import IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import ClassVar

from attrs import frozen

from netfw.drivers.router_values import RouterPort
from netfw.linux.process.program import ProcessKey, Program
from netfw.model.ids import RouterId
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw_drivers.linux_router.config.radvd import (
    SLAAC_LENGTH,
    RadvdInterface,
    RadvdPrefix,
    render_radvd,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.desired_netns import DesiredRouter
from netfw_drivers.linux_router.plan.names import INTERFACE, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRadvd, FoundRouter

SERVICE = "radvd"
REMOVED_LIMIT = 16
"""Limit of removed prefixes of an interface that are advertised as such; the last ones win."""
_AUTONOMOUS = (Ipv6Mode.SLAAC, Ipv6Mode.STATELESS)
_SECTION = re.compile(r"^\s*(?:interface (?P<device>\S+)|prefix (?P<prefix>\S+))", re.MULTILINE)


@frozen
class RunRadvd:
    """Write the configuration, and start radvd or have it read the configuration again."""

    backend: ClassVar[str] = SERVICE
    router: RouterId
    text_of_file: str
    program: Program

    @property
    def text(self) -> str:
        return f"advertise by radvd in {self.program.namespace}"


@frozen
class StopRadvd:
    """Stop radvd, and remove its files."""

    backend: ClassVar[str] = SERVICE
    router: RouterId

    @property
    def text(self) -> str:
        return f"stop radvd of router {self.router} and remove its files"


@frozen(kw_only=True)
class WithdrawPrefixes:
    """Withdraw the prefixes of an interface that is about to be removed."""

    backend: ClassVar[str] = SERVICE
    router: RouterId
    device: str
    prefixes: tuple[IPv6Network, ...]

    @property
    def text(self) -> str:
        return f"withdraw {', '.join(map(str, self.prefixes))} on {self.device}"


RadvdStep = RunRadvd | StopRadvd | WithdrawPrefixes


def process_key(router: RouterId) -> ProcessKey:
    """Return the key of the process."""
    return ProcessKey(SERVICE, str(router))


def config_path(directory: Path, router: RouterId) -> Path:
    """Return the path of the configuration, beside the pid file."""
    return directory / SERVICE / f"{router}.conf"


def plan_radvd(
    router: DesiredRouter, found: FoundRadvd, settings: RouterSettings
) -> Iterator[RadvdStep]:
    """Plan the radvd of a router; prefixes that it advertised before are withdrawn.

    :raises InvalidInput: an interface has more prefixes or name servers than can be advertised.
    """
    interfaces = tuple(_interfaces(router, found.text or ""))
    if not interfaces:
        if not found.is_absent:
            yield StopRadvd(router.id)
        return
    text = render_radvd(interfaces)
    program = make_program(router.id, settings)
    if found.text != text or found.digest != program.digest():
        yield RunRadvd(router.id, text, program)


def plan_withdrawals(
    router: RouterId, kept: Container[str], found: FoundRouter
) -> Iterator[WithdrawPrefixes]:
    """Plan what hosts are told before devices are removed that are not among *kept*."""
    for device, prefixes in _parse_prefixes(found.radvd.text or "").items():
        if device in found.netns.links and device not in kept:
            yield WithdrawPrefixes(router=router, device=device, prefixes=tuple(prefixes))


def make_program(router: RouterId, settings: RouterSettings) -> Program:
    """Return the program that advertises for *router*."""
    path = config_path(settings.directory, router)
    user = ("-u", settings.radvd_user) if settings.radvd_user else ()
    return Program(
        argv=("radvd", "-n", "-C", str(path), "-p", f"{path}.pid", "-m", "stderr", *user),
        namespace=router_namespace(router),
        on_death=settings.on_death,
    )


def _interfaces(router: DesiredRouter, present: str) -> Iterator[RadvdInterface]:
    advertised = _parse_prefixes(present)
    for port in router.full.interfaces:
        device = router.context.device_name(port.id, INTERFACE)
        prefixes = [
            RadvdPrefix(prefix=_prefix(each), autonomous=each.ipv6_ra_mode in _AUTONOMOUS)
            for each in _subnets(port)
        ]
        named = {each.prefix for each in prefixes}
        gone = [prefix for prefix in advertised.get(device, []) if prefix not in named]
        prefixes += [
            RadvdPrefix(prefix=prefix, autonomous=prefix.prefixlen == SLAAC_LENGTH, removed=True)
            for prefix in gone[-REMOVED_LIMIT:]
        ]
        if prefixes:
            modes = {each.ipv6_ra_mode for each in _subnets(port)}
            yield RadvdInterface(
                device=device,
                mtu=port.mtu,
                prefixes=tuple(prefixes),
                dns_servers=tuple(_name_servers(port)),
                managed=Ipv6Mode.STATEFUL in modes,
                other_config=Ipv6Mode.STATELESS in modes,
            )


def _subnets(port: RouterPort) -> list[Subnet]:
    return [each for each in port.subnets if each.ipv6_ra_mode is not None]


def _prefix(subnet: Subnet) -> IPv6Network:
    assert isinstance(subnet.cidr, IPv6Network), "it has a mode of advertisements"
    return subnet.cidr


def _name_servers(port: RouterPort) -> dict[IPv6Address, None]:
    servers = (each for subnet in _subnets(port) for each in subnet.dns_nameservers)
    return dict.fromkeys(each for each in servers if isinstance(each, IPv6Address))


def _parse_prefixes(text: str) -> dict[str, list[IPv6Network]]:
    """Return the prefixes of each device in a configuration."""
    found: dict[str, list[IPv6Network]] = {}
    device = ""
    for each in _SECTION.finditer(text):
        if each["device"]:
            device = each["device"]
            continue
        try:
            prefix = ip_network(each["prefix"])
        except ValueError:
            continue
        if isinstance(prefix, IPv6Network):
            found.setdefault(device, []).append(prefix)
    return found
