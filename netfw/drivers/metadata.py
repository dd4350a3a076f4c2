"""MetadataDriver: forwards metadata requests of instances to the metadata agent of the host."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.values.keys import NetworkKey, RouterKey
from netfw.model.values.address import IpAddress, no_scope
from netfw.model.values.device_names import check_device_name, check_namespace_name


@frozen(kw_only=True)
class MetadataProxy:
    """A proxy in a namespace; its key is the network or router whose requests it forwards."""

    netns: str = field()
    port: int = field(default=80)
    addresses: tuple[IpAddress, ...] = field(default=(), validator=no_scope)
    """Addresses on which it listens; empty: every IPv4 address of the namespace."""
    device: str | None = field(default=None)
    """The device on which it also listens at the IPv6 link-local metadata address."""

    @netns.validator
    def _check(self, _: object, netns: str) -> None:
        check_namespace_name(netns)

    @port.validator
    def _check_port(self, _: object, port: int) -> None:
        if port not in range(1, 65536):
            raise ValueError(f"not a port: {port} (1 to 65535)")

    @device.validator
    def _check_device(self, _: object, device: str | None) -> None:
        if device is not None:
            check_device_name(device)


MetadataKey = NetworkKey | RouterKey

IDENTIFYING = (
    "x-forwarded-for",
    "x-neutron-network-id",
    "x-neutron-router-id",
    "x-instance-id",
    "x-instance-id-signature",
    "x-tenant-id",
    "x-real-ip",
    "forwarded",
)
"""Headers that identify the requester: trusted behind the proxy, so never taken from a guest."""


class MetadataDriver(HostDriver[MetadataKey, MetadataProxy]):
    """Runs a metadata proxy in each namespace that needs one.

    Called by the DHCP and the L3 agent, outside any transaction.  A key is never in two calls at
    once; calls for different keys may run in parallel.  The namespace exists before the proxy is
    put, and is removed after it is dropped.  Promises beyond those of :class:`HostDriver`:

    1. A request to the proxy reaches the metadata agent with its source address as
       ``X-Forwarded-For``, and the id of its network as ``X-Neutron-Network-ID`` or of its router
       as ``X-Neutron-Router-ID``.  The proxy removes every header of ``IDENTIFYING`` that the
       guest sent, in any spelling.
    2. An unchanged proxy is not restarted, also when the agent is.
    3. A proxy that dies is restarted, and the driver sends ``ProcessDied``.
    4. A dropped proxy leaves no process and no file; it is gone before ``converge`` returns.
    5. A missing namespace is a ``NotFound`` for that key.
    6. The proxy runs with no more privileges than its options grant.
    7. A request with a body reaches the agent only if its method is POST, PUT or PATCH: a service
       may take any other body for the next request on its connection.
    """

    GROUP: ClassVar[str] = "netfw.metadata_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability,)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""
