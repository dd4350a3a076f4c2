"""Keys of drivers that have several types of objects.

Ids are UUIDs at run time: a driver with ports *and* networks could not tell from a bare id in
``Update.drop`` which one is meant.  A key names the type.  A driver with one type of object uses
the id itself.
"""

from __future__ import annotations

from attrs import frozen

from netfw.model.values.ids import (
    AddressGroupId,
    FloatingIpId,
    NetworkId,
    PortId,
    RouterId,
    SecurityGroupId,
)


@frozen(cache_hash=True)
class PortKey:
    """A port."""

    port: PortId

    def __str__(self) -> str:
        return f"port {self.port}"


@frozen(cache_hash=True)
class NetworkKey:
    """A network."""

    network: NetworkId

    def __str__(self) -> str:
        return f"network {self.network}"


@frozen
class RouterKey:
    """A router."""

    router: RouterId

    def __str__(self) -> str:
        return f"router {self.router}"


@frozen
class AgentGatewayKey:
    """This host's own port on an external network."""

    network: NetworkId

    def __str__(self) -> str:
        return f"agent gateway to network {self.network}"


@frozen
class FloatingIpKey:
    """A floating IP."""

    floating_ip: FloatingIpId

    def __str__(self) -> str:
        return f"floating IP {self.floating_ip}"


@frozen(cache_hash=True)
class GroupKey:
    """A security group."""

    group: SecurityGroupId

    def __str__(self) -> str:
        return f"security group {self.group}"


@frozen(cache_hash=True)
class AddressGroupKey:
    """An address group."""

    group: AddressGroupId

    def __str__(self) -> str:
        return f"address group {self.group}"


@frozen
class HostKey:
    """A host, by the name its agents report."""

    host: str

    def __str__(self) -> str:
        return f"host {self.host}"


@frozen
class ExtensionKey:
    """An agent extension, by the name in its grant request."""

    owner: str

    def __str__(self) -> str:
        return f"extension {self.owner}"
