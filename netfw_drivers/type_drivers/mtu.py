"""MTU that the underlay leaves for an instance's packets.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from oslo_config import cfg

from netfw.errors import ConfigError
from netfw.model.network import MTUS
from netfw.model.values.validation import outside

IP_HEADER = {4: 20, 6: 40}
ETHERNET_HEADER = 14
"""Ethernet header of the instance's frame inside a tunnel."""
UDP_HEADER = 8
KEYED_GRE_HEADER = 8
VXLAN_HEADER = 8
GENEVE_HEADER = 8
"""Without options."""

GLOBAL_MTU = cfg.IntOpt(
    "global_physnet_mtu",
    default=1500,
    min=0,
    max=MTUS[-1],
    help="MTU of the physical networks, as far as nothing else is said; 0: no limit.",
)
PHYSICAL_MTUS = cfg.DictOpt(
    "physical_network_mtus",
    default={},
    help="Physical networks whose MTU differs from global_physnet_mtu, as physnet1:9000.",
)
TUNNEL_OPTIONS = (
    GLOBAL_MTU,
    cfg.IntOpt(
        "path_mtu",
        default=0,
        min=0,
        max=MTUS[-1],
        help="Largest IP packet that gets from each host to each other without fragmentation; "
        "0: as global_physnet_mtu.",
    ),
    cfg.IntOpt(
        "overlay_ip_version",
        default=4,
        choices=[(4, "IPv4"), (6, "IPv6")],
        help="IP version that the hosts' tunnels go over.",
    ),
)


@frozen
class PhysicalMtus:
    """MTUs of physical networks; 0: no limit."""

    everywhere: int = 1500
    differing: Mapping[str, int] = field(factory=dict)

    def of(self, physical_network: str | None) -> int:
        """Return the MTU of *physical_network*; without a name, the common one."""
        if physical_network is None:
            return self.everywhere
        return self.differing.get(physical_network, self.everywhere)


def physical_mtus(options: Mapping[str, Any]) -> PhysicalMtus:
    """Parse the MTUs of physical networks in *options*.

    :raises ConfigError: names every invalid MTU.
    """
    problems = []
    differing: dict[str, int] = {}
    for name, text in options["physical_network_mtus"].items():
        digits = str(text).strip()
        if not (digits.isascii() and digits.isdigit()):
            problems.append(f"{name}: {text!r} is no number")
        elif int(digits) not in MTUS:
            problems.append(f"{name}: {outside(int(digits), MTUS)}")
        else:
            differing[name] = int(digits)
    if problems:
        raise ConfigError(
            f"physical_network_mtus: {'; '.join(problems)}; write PHYSNET:MTU, several with commas "
            "between"
        )
    return PhysicalMtus(global_mtu(options), differing)


def global_mtu(options: Mapping[str, Any]) -> int:
    """Return the MTU of all physical networks.

    :raises ConfigError: it is invalid.
    """
    mtu: int = options["global_physnet_mtu"]
    if mtu and mtu not in MTUS:
        raise ConfigError(f"global_physnet_mtu: {outside(mtu, MTUS)}; 0 is no limit")
    return mtu


def tunnel_mtu(options: Mapping[str, Any], encapsulation: int) -> int:
    """Return the MTU inside a tunnel.

    *encapsulation* is the size of all of them but the IP header.  0: there is no limit.

    :raises ConfigError: nothing is left.
    """
    limits = [mtu for mtu in (global_mtu(options), options["path_mtu"]) if mtu]
    if not limits:
        return 0
    headers = IP_HEADER[options["overlay_ip_version"]] + encapsulation
    left: int = min(limits) - headers
    if left not in MTUS:
        raise ConfigError(
            f"packets of {min(limits)} bytes between hosts leave {left} for instances after "
            f"{headers} bytes of headers, and {MTUS[0]} is the least: raise path_mtu or "
            "global_physnet_mtu"
        )
    return left
