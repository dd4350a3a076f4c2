"""Index of the ports that one floating IP forwards.  Pure.

Ports in use do not overlap, so that one comparison decides about a new range.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from netfw.errors.requests import BadRequest
from netfw.model.floating_ip import ForwardedProtocol, PortForwarding
from netfw.model.values.address import IpAddress
from netfw.model.values.port_range import PortRange


class PortRangeIndex:
    """Disjoint ranges of ports, each with the port forwarding that uses it."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._users: list[tuple[PortRange, PortForwarding]] = []

    def find(self, ports: PortRange) -> tuple[PortRange, PortForwarding] | None:
        """Return the last range that overlaps with *ports*, and its user; or ``None``."""
        at = bisect_right(self._firsts, ports.last)
        if at == 0 or self._users[at - 1][0].last < ports.first:
            return None
        return self._users[at - 1]

    def add(self, ports: PortRange, user: PortForwarding) -> None:
        """Add *ports*, which overlap with no others."""
        at = bisect_right(self._firsts, ports.first)
        self._firsts.insert(at, ports.first)
        self._users.insert(at, (ports, user))


class ForwardedPortIndex:
    """External ports by protocol, and inside ports by protocol and address."""

    def __init__(self, present: Iterable[PortForwarding]) -> None:
        self._external: dict[ForwardedProtocol, PortRangeIndex] = defaultdict(PortRangeIndex)
        self._internal: dict[tuple[ForwardedProtocol, IpAddress], PortRangeIndex] = defaultdict(
            PortRangeIndex
        )
        self._count = 0
        for each in present:
            self.add(each)

    def __len__(self) -> int:
        return self._count

    def add(self, new: PortForwarding) -> None:
        """Add a port forwarding.

        :raises BadRequest: its external ports are in use, or its inside ports are the target of
            another one.
        """
        external = self._external[new.protocol]
        internal = self._internal[new.protocol, new.internal_address]
        if found := external.find(new.external_ports):
            ports, user = found
            text = f"{_text(new.external_ports)} of {new.protocol} overlaps with {_text(ports)} of "
            raise BadRequest({"external_port": f"{text}port forwarding {user.id}"})
        if found := internal.find(new.internal_ports):
            _, user = found
            text = f"{new.internal_address} {_text(new.internal_ports)} of {new.protocol} is the "
            raise BadRequest(
                {"internal_port": f"{text}target of port forwarding {user.id} already"}
            )
        external.add(new.external_ports, new)
        internal.add(new.internal_ports, new)
        self._count += 1


def _text(ports: PortRange) -> str:
    return str(ports.first) if len(ports) == 1 else str(ports)
