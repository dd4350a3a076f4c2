"""InterfaceDriver: connects ports to the dataplane of this host."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.values.subscription import Service
from netfw.model.values.address import NO_MAC, Mac
from netfw.model.values.device_names import check_device_name, check_namespace_name, device_name
from netfw.model.values.ids import PortId

MTU = (68, 65535)


@frozen(kw_only=True)
class Attachment:
    """A port, and the device that it gets on this host."""

    device: str
    """Name of the device that the owner of the port uses, at most 15 characters."""
    mac: Mac = field(converter=Mac)
    mtu: int = 1500
    """From 68, which every link carries (RFC 791), to 65535, the largest IP packet; a machine may
    accept less."""
    netns: str | None = None
    """Network namespace of the device; it must exist.  ``None``: the host's own."""
    up: bool = True

    def __attrs_post_init__(self) -> None:
        check_device_name(self.device)
        if self.mac == NO_MAC:
            raise ValueError(f"{self.device}: {NO_MAC} is no address of a device")
        if not MTU[0] <= self.mtu <= MTU[1]:
            raise ValueError(f"{self.device}: an MTU is from {MTU[0]} to {MTU[1]}, not {self.mtu}")
        if self.netns is not None:
            check_namespace_name(self.netns)


@frozen(kw_only=True)
class Device:
    """A plugged port as the dataplane reports it."""

    name: str
    mac: Mac | None = None
    ofport: int | None = None
    """Port number in the switch, where the switch has numbers and has assigned one."""
    wired: bool | None = None
    """The switch driver has admitted the port: its packets reach its network.  ``None``: the
    dataplane does not tell."""


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

    1. A port that was put has a device with the desired name, MAC, MTU, namespace and link state;
       a changed attachment is changed in place where that is possible.  What the machine refuses
       is an error for that port, and a new port leaves nothing then.
    2. A new port carries no traffic until the switch driver admits it.
    3. A device name in foreign use is a ``Conflict`` for that port, and that device is untouched;
       a name may move from one port to another in one update.
    4. A missing namespace is a ``NotFound`` for that port; to a driver that does not declare
       ``InterfaceCapability.NAMESPACES`` every namespace is ``NotSupported``.
    5. ``devices`` returns what the host has; ``present`` returns the same ports.  A driver that
       tells ``Device.wired`` and declares ``HostCapability.WATCH`` sends ``KeysChanged`` for a port
       when it changes.
    6. ``mark_initialized`` changes no port, and its mark outlives the driver.
    7. ``device_name`` is the same for the same port and prefix at any time in any process, and has
       at most 15 bytes.
    """

    GROUP: ClassVar[str] = "netfw.interface_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, InterfaceCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def devices(self) -> Mapping[PortId, Device]:
        """Return the ports that this driver has on this host now, as the machine reports them.

        :raises BackendUnavailable: the backend does not answer.
        """

    def device(self, port: PortId) -> Device | None:
        """Return one of `devices`; ``None``: this host does not have the port.

        The default reads all of them; its cost should not grow with their number.

        :raises BackendUnavailable: the backend does not answer.
        """
        return self.devices().get(port)

    def device_name(self, port: PortId, prefix: str = "tap") -> str:
        """Return the device name of a service's own port, as operators know it.  Pure.

        *prefix* tells the use of the port: ``qr-`` and ``qg-`` for interfaces and gateways of
        routers.  Two ports, or two prefixes, have different names.
        """
        return device_name(prefix, port)

    def mark_initialized(self, service: Service) -> None:
        """Mark on the dataplane that *service* has applied its desired state once since it started.

        For operators and for programs that wait until the host can take traffic.  The default does
        nothing.

        :raises BackendUnavailable: the backend does not answer.
        """

    def present(self) -> frozenset[PortId]:
        return frozenset(self.devices())
