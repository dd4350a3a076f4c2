"""The network between the hosts of a lab: a bridge in a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netfw.errors import NotFound
from netfw.testing.lab.namespaces import NamespaceContext, make_namespaces

BRIDGE = "fabric"


class Fabric:
    """One layer-2 network that every host of the lab has a NIC on.

    ``namespaces`` has the network namespace of its bridge: with an address on the device ``fabric``
    there, it is a machine on this network that is not a host.
    """

    def __init__(self, name: str, *, nic: str, mtu: int) -> None:
        self.name = name
        self.nic = nic
        self.mtu = mtu
        self.namespaces = NamespaceContext()
        self._hosts: frozenset[str] = frozenset()

    def open(self, hosts: Mapping[str, NamespaceContext]) -> None:
        """Create the bridge, and a NIC on each of *hosts*."""
        self.namespaces = make_namespaces(["net"])
        self._hosts = frozenset(hosts)
        self.namespaces.ip(
            # No learning delay, no snooping: a frame is forwarded from the first moment.
            f"link add {BRIDGE} mtu {self.mtu} type bridge forward_delay 0 mcast_snooping 0",
            f"link set {BRIDGE} up",
            *(line for host, namespaces in hosts.items() for line in self._join(host, namespaces)),
        )

    def _join(self, host: str, namespaces: NamespaceContext) -> Iterable[str]:
        there = namespaces.space("net")
        peer = f"peer name {self.nic} mtu {self.mtu} netns {there}"
        yield f"link add {host} mtu {self.mtu} type veth {peer}"
        yield f"link set {host} master {BRIDGE} up"

    def disconnect(self, host: str, *, silently: bool = False) -> None:
        """Disconnect *host*.  Its NIC loses the carrier, or *silently* only its traffic."""
        self._check(host)
        self.namespaces.ip(f"link set {host} nomaster" if silently else f"link set {host} down")

    def connect(self, host: str) -> None:
        """Undo :meth:`disconnect`."""
        self._check(host)
        self.namespaces.ip(f"link set {host} master {BRIDGE} up")

    def connected(self, host: str) -> bool:
        """Return whether traffic of *host* is forwarded."""
        self._check(host)
        output = self.namespaces.run(["ip", "-o", "link", "show", host])
        return f"master {BRIDGE}" in output and ",UP" in output

    def close(self) -> None:
        self.namespaces.close()

    def _check(self, host: str) -> None:
        if host not in self._hosts:
            raise NotFound(f"no host {host!r} on this fabric; there are {sorted(self._hosts)}")
