"""InterfaceDriver: connects ports to the dataplane of this host."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.model.address import NO_MAC, Mac
from netfw.model.device_names import check_device_name, check_namespace_name, device_name
from netfw.model.ids import PortId

MTU = (68, 65535)


@frozen(kw_only=True)
class Attachment:
    """A port, and where on this host it is to appear."""

    device: str
    """Name of the device that the port's owner uses, at most 15 characters."""
    mac: Mac = field(converter=Mac)
    mtu: int = 1500
    """From 68, which every link carries by RFC 791, to 65535, which no IP packet exceeds; a
    machine may take less."""
    netns: str | None = None
    """Network namespace the device is to be in; it must exist.  ``None``: the host's own."""
    up: bool = True

    def __attrs_post_init__(self) -> None:
        check_device_name(self.device)
        if self.mac == NO_MAC:
            raise ValueError(f"{self.device}: {NO_MAC} is the address of nobody")
        if not MTU[0] <= self.mtu <= MTU[1]:
            raise ValueError(f"{self.device}: an MTU is from {MTU[0]} to {MTU[1]}, not {self.mtu}")
        if self.netns is not None:
            check_namespace_name(self.netns)


@frozen(kw_only=True)
class Device:
    """A plugged port as the dataplane has it."""

    name: str
    mac: Mac | None = None
    ofport: int | None = None
    """The switch's number for it, where the switch has numbers and has given one."""


class InterfaceCapability(Capability):
    """Capabilities of interface drivers."""

    NAMESPACES = "namespaces"
    """Devices can appear in a named network namespace."""
    MTU_CHANGE = "mtu-change"
    """The MTU of a plugged device can change in place."""
    GATEWAY_ADDRESSES = "gateway-addresses"
    """The driver serves a fabric that routes: services use the addresses of the gateways."""


class InterfaceDriver(HostDriver[PortId, Attachment]):
    """Connects ports to the dataplane of this host.

    Used by the DHCP and router drivers and by embedding programs; instances are plugged by their
    hypervisor.  Promises beyond those of :class:`HostDriver`:

    1. A port that was put exists as a device of the wanted name, MAC and MTU, in the wanted
       namespace, up or down as asked; a changed attachment is put right in place where it can be.
       What the machine does not take is an error for that port, and a new port leaves nothing then.
    2. A new port carries no traffic until the switch driver admits it.
    3. A device name that somebody else has is a ``Conflict`` for that port, and is left alone; a
       name may move from one port to another in one update.
    4. A missing namespace is a ``NotFound`` for that port; to a driver that does not declare
       ``InterfaceCapability.NAMESPACES`` every namespace is ``NotSupported``.
    5. ``devices`` reports what the host has; what appears there is what ``held`` returns.
    """

    GROUP: ClassVar[str] = "netfw.interface_drivers"
    VERSION: ClassVar[int] = 1
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, InterfaceCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def devices(self) -> Mapping[PortId, Device]:
        """The ports this driver has on this host now, as the machine knows them.

        :raises BackendUnavailable: the backend does not answer.
        """

    def device_name(self, port: PortId) -> str:
        """What the device of a service's own port is to be called, as operators know it.  Pure."""
        return device_name("tap", port)

    def present(self) -> frozenset[PortId]:
        return frozenset(self.devices())
