"""Steps on a service namespace: one step is one stage of a plan.  Pure values."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from netfw.drivers.interface import Attachment
from netfw.linux.ip.operations import NetworkOperation
from netfw.linux.iptables.operations import TableChange
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import PortId
from netfw.model.values.port_range import PortRange


@frozen
class MakeNamespace:
    """Create the namespace, with its loopback up."""

    backend: ClassVar[str] = "netns"
    netns: str

    @property
    def text(self) -> str:
        return f"ip netns add {self.netns}"


@frozen
class DeleteNamespace:
    """Delete the namespace with all that is in it."""

    backend: ClassVar[str] = "netns"
    netns: str

    @property
    def text(self) -> str:
        return f"ip netns delete {self.netns}"


@frozen
class PlugPort:
    """Plug the port by the interface driver."""

    backend: ClassVar[str] = "interface"
    port: PortId
    attachment: Attachment

    @property
    def text(self) -> str:
        at = self.attachment
        return f"plug {at.device} of port {self.port} into {at.netns}, {at.mac} mtu {at.mtu}"


@frozen
class Unplug:
    """Unplug the port by the interface driver."""

    backend: ClassVar[str] = "interface"
    port: PortId

    @property
    def text(self) -> str:
        return f"unplug port {self.port}"


@frozen(kw_only=True)
class Clear:
    """Remove a device: by the interface driver if it is one of its own, else from the kernel."""

    backend: ClassVar[str] = "interface"
    netns: str
    device: str
    mac: Mac | None
    kind: str | None

    @property
    def text(self) -> str:
        return f"unplug {self.device} from {self.netns}"


@frozen(kw_only=True)
class ChangeNetwork:
    """Execute one operation in the namespace; with *forget*, remove that address's connections."""

    netns: str
    operation: NetworkOperation
    forget: IpAddress | None = None

    @property
    def backend(self) -> str:
        return f"network/{self.netns}"

    @property
    def text(self) -> str:
        also = f", and forget the connections of {self.forget}" if self.forget else ""
        return f"{self.operation.text}{also}"


@frozen
class RestoreTables:
    """Change packet filter tables of the namespace, all of them or nothing."""

    netns: str
    chain_owner: str
    changes: tuple[TableChange, ...]

    @property
    def backend(self) -> str:
        return f"iptables/{self.netns}"

    @property
    def text(self) -> str:
        return "; ".join(map(str, self.changes))


@frozen
class RemoveConnections:
    """Remove the tracked connections of an address, whose translation has changed.

    With *protocol* and *ports*: only those to these ports of it.
    """

    netns: str
    address: IpAddress
    protocol: str | None = None
    ports: PortRange | None = None

    @property
    def backend(self) -> str:
        return f"conntrack/{self.netns}"

    @property
    def text(self) -> str:
        which = "" if self.ports is None else f", {self.protocol} ports {self.ports}"
        return f"remove the connections of {self.address}{which}"


Step = (
    MakeNamespace
    | DeleteNamespace
    | PlugPort
    | Unplug
    | Clear
    | ChangeNetwork
    | RestoreTables
    | RemoveConnections
)
