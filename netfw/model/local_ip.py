"""Local IPs: addresses of a network that each host leads to a port of its own."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Final

from attrs import field, frozen

from netfw.model.values.address import IpAddress, Mac, as_address
from netfw.model.values.ids import LocalIpId
from netfw.model.values.validation import Problem, Validated

EXTENSION: Final = "local_ip"
"""Name of the extension of L2 agents that leads local IPs to ports."""
MAX_PER_PORT: Final = 64
"""Local IPs that lead to one port."""


class LocalIpMode(enum.StrEnum):
    """What the host changes in packets for a local IP."""

    TRANSLATE = "translate"
    """The destination becomes the fixed address of the port; replies are translated back."""
    PASSTHROUGH = "passthrough"
    """The port receives packets for the local IP itself, and answers from it."""


@frozen(kw_only=True)
class LocalIpAssociation(Validated):
    """A local IP that leads to the port which has this value, on the host of the port."""

    local_ip_id: LocalIpId
    address: IpAddress = field(converter=as_address)
    mac: Mac = field(converter=Mac)
    """The MAC of the port that has the address: neighbours have it whether associated or not."""
    fixed_ip: IpAddress = field(converter=as_address)
    mode: LocalIpMode = LocalIpMode.TRANSLATE

    def _problems(self) -> Iterator[Problem]:
        for name in ("address", "fixed_ip"):
            if not isinstance(getattr(self, name), IPv4Address):
                yield name, "is no IPv4 address: hosts lead local IPs of IPv4 only"
