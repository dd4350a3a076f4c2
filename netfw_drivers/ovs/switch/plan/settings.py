"""Settings of the switch driver, and the names that follow from them.  Pure."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Iterator, Mapping
from hashlib import blake2b, sha1
from ipaddress import IPv4Address

from attrs import field, frozen

from netfw.drivers.values.switch_values import Bandwidth, Endpoint
from netfw.model.segment import NetworkType
from netfw.model.values.address import IpAddress
from netfw.model.values.device_names import DEVICE_NAME_LENGTH

_HASH_LENGTH = 6
VXLAN_PORT = 4789
VETH_MTU = 9000
MAX_MACS_PER_PORT = 256
"""A quarter of what other hosts remember of a network; hardware switches have such limits, too."""
USERSPACE = "netdev"
"""The datapath type of switches that forward in their own process."""


@frozen
class LinkEnd:
    """One end of a bridge link."""

    bridge: str
    name: str


@frozen
class BridgeLink:
    """The pair of ports that joins two bridges; the near end is on ``br-int``."""

    near: LinkEnd
    far: LinkEnd
    is_physical: bool = False
    """The link leads to a physical network; only such links can be veths."""
    veth_mtu: int | None = None
    """MTU of the veth pair; ``None``: the link is a pair of patch ports."""

    @property
    def is_veth(self) -> bool:
        return self.veth_mtu is not None

    @property
    def ends(self) -> tuple[tuple[LinkEnd, LinkEnd], tuple[LinkEnd, LinkEnd]]:
        """Each end with the other."""
        return (self.near, self.far), (self.far, self.near)


@frozen(kw_only=True)
class Settings:
    """Settings of the switch driver."""

    integration: str = "br-int"
    tunnel: str = "br-tun"
    mappings: Mapping[str, str] = field(factory=dict)
    """Bridges by physical network."""
    tunnel_types: frozenset[NetworkType] = frozenset()
    local_ip: IpAddress | None = None
    datapath_type: str = "system"
    responder: bool = False
    dont_fragment: bool = True
    csum: bool = False
    vxlan_port: int = VXLAN_PORT
    use_veth: bool = False
    """Links to physical bridges are veths."""
    veth_mtu: int = VETH_MTU
    max_macs_per_port: int = MAX_MACS_PER_PORT
    """Of a port without anti-spoofing, besides its own; 0: no limit."""
    bandwidths: Mapping[str, Bandwidth] = field(factory=dict)
    """Bandwidth that can be guaranteed to ports, by bridge of a physical network."""

    def egress_kbps(self, bridge: str) -> int | None:
        """Return the bandwidth of the device of *bridge*, if guarantees are given there."""
        found = self.bandwidths.get(bridge)
        return None if found is None else found.egress

    @property
    def has_tunnels(self) -> bool:
        return bool(self.tunnel_types)

    @property
    def created_bridges(self) -> tuple[str, ...]:
        """The bridges that the driver creates itself."""
        return (self.integration, *((self.tunnel,) if self.has_tunnels else ()))

    @property
    def bridges(self) -> tuple[str, ...]:
        """All bridges that the driver puts flows on."""
        return (*self.created_bridges, *self.mappings.values())

    def bridge_links(self) -> Iterator[BridgeLink]:
        """Yield all desired links."""
        if self.has_tunnels:
            yield self.tunnel_link
        yield from map(self.physical_link, self.mappings.values())

    @property
    def physical_ends(self) -> tuple[str, ...]:
        """Names of link ends that devices can have."""
        links = map(self.physical_link, self.mappings.values())
        return tuple(end.name for link in links for end in (link.near, link.far))

    @property
    def tunnel_link(self) -> BridgeLink:
        return BridgeLink(LinkEnd(self.integration, "patch-tun"), LinkEnd(self.tunnel, "patch-int"))

    def physical_link(self, bridge: str) -> BridgeLink:
        return BridgeLink(
            LinkEnd(self.integration, _end_name("int-", bridge)),
            LinkEnd(bridge, _end_name("phy-", bridge)),
            is_physical=True,
            veth_mtu=self.veth_mtu if self.use_veth else None,
        )

    def listeners(self) -> dict[NetworkType, Endpoint]:
        """Return the tunnels that lead to this host itself, by type; see docs/decisions/0012."""
        if self.datapath_type != USERSPACE or self.local_ip is None:
            return {}
        return {kind: Endpoint(kind, self.local_ip) for kind in self.tunnel_types}

    def tunnel_options(self, endpoint: Endpoint) -> dict[str, str]:
        """Return the ``options`` of a tunnel to *endpoint*."""
        options = {
            "remote_ip": str(endpoint.address),
            "in_key": "flow",
            "out_key": "flow",
            "df_default": str(self.dont_fragment).lower(),
        }
        if self.local_ip is not None:
            options["local_ip"] = str(self.local_ip)
        if self.csum:
            options["csum"] = "true"
        if endpoint.type is NetworkType.VXLAN and self.vxlan_port != VXLAN_PORT:
            options["dst_port"] = str(self.vxlan_port)
        return options


def tunnel_name(endpoint: Endpoint) -> str:
    """Return a port name of the peer's address in hex, or of a hash where that is too long."""
    address = endpoint.address
    if isinstance(address, IPv4Address):
        return f"{endpoint.type}-{int(address):08x}"
    digest = b32encode(blake2b(address.packed, digest_size=5).digest()).decode().lower()
    return f"{endpoint.type}-{digest}"


def listener_name(kind: NetworkType) -> str:
    return f"listen-{kind}"


def _end_name(prefix: str, bridge: str) -> str:
    """Return a device name; one that is too long is cut and hashed, as Neutron's agents do."""
    name = prefix + bridge
    if len(name) <= DEVICE_NAME_LENGTH:
        return name
    digest = sha1(bridge.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    return name[: DEVICE_NAME_LENGTH - _HASH_LENGTH] + digest
