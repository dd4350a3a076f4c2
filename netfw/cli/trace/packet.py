"""The packet of a trace, and where it enters a host.  Pure."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from attrs import asdict, evolve, frozen

from netfw.model.values.protocol import ICMP, ICMPV6, NAMES, PORTED

_NEW = "trk|new"
"""State of the first packet of a connection, after the switch has tracked it."""


@frozen(kw_only=True)
class TracedPacket:
    """The first packet of a connection."""

    source_mac: str
    target_mac: str
    source: str
    target: str
    protocol: int
    source_port: int = 0
    """The source port, or the ICMP type."""
    target_port: int = 0
    """The destination port, or the ICMP code."""
    ttl: int = 64

    @property
    def is_ipv6(self) -> bool:
        return ip_address(self.target).version == 6

    def __str__(self) -> str:
        name = NAMES.get(self.protocol, str(self.protocol))
        if self.protocol in PORTED:
            return f"{name} from {self.source} to {self.target} port {self.target_port}"
        return f"{name} from {self.source} to {self.target}"

    def flow(self) -> str:
        """Return the packet as ``ofproto/trace`` takes it.

        The trace of a packet that is not tracked yet has no addresses and ports of its connection,
        which rules match: it is traced as tracked from the start.
        """
        ip, ct = ("ipv6", "ct_ipv6") if self.is_ipv6 else ("nw", "ct_nw")
        kind = "ipv6" if self.is_ipv6 else "ip"
        ports = f",{self._ports('tp', 'icmp')}" if self._has_ports else ""
        tracked = f",ct_tp_src={self.source_port},ct_tp_dst={self.target_port}"
        return (
            f"dl_src={self.source_mac},dl_dst={self.target_mac},{kind},"
            f"{ip}_src={self.source},{ip}_dst={self.target},nw_proto={self.protocol},"
            f"nw_ttl={self.ttl}{ports},ct_state={_NEW},"
            f"{ct}_src={self.source},{ct}_dst={self.target},ct_nw_proto={self.protocol}"
            f"{tracked if self._has_ports else ''}"
        )

    @property
    def _has_ports(self) -> bool:
        return self.protocol in (*PORTED, ICMP, ICMPV6)

    def _ports(self, ported: str, icmp: str) -> str:
        if self.protocol in (ICMP, ICMPV6):
            prefix = "icmpv6" if self.protocol == ICMPV6 else icmp
            return f"{prefix}_type={self.source_port},{prefix}_code={self.target_port}"
        return f"{ported}_src={self.source_port},{ported}_dst={self.target_port}"

    def to_dict(self) -> dict[str, Any]:
        """Return the packet as plain data."""
        return asdict(self)

    def rewritten(self, fields: dict[str, str]) -> TracedPacket:
        """Return the packet with the addresses that a switch wrote into it."""
        ip = "ipv6" if self.is_ipv6 else "nw"
        return evolve(
            self,
            source_mac=fields.get("dl_src", self.source_mac),
            target_mac=fields.get("dl_dst", self.target_mac),
            source=fields.get(f"{ip}_src", self.source),
            target=fields.get(f"{ip}_dst", self.target),
        )


@frozen(kw_only=True)
class PacketEntry:
    """Where a packet enters the switch of a host: a device, a tunnel or a physical network."""

    device: str = ""
    tunnel_type: str = ""
    tunnel_id: int = 0
    sender: str = ""
    """The far end of the tunnel."""
    receiver: str = ""
    """The near end of the tunnel."""
    physical_network: str = ""
    vlan: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return asdict(self)
