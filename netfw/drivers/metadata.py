"""MetadataDriver: leads the instances' metadata requests to the host's metadata agent."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.keys import NetworkKey, RouterKey
from netfw.model.address import IpAddress, no_scope
from netfw.model.device import check_namespace_name


@frozen(kw_only=True)
class MetadataProxy:
    """A proxy in a namespace; its key says whose requests it passes on."""

    netns: str = field()
    port: int = 80
    addresses: tuple[IpAddress, ...] = field(default=(), validator=no_scope)
    """Where it listens; empty: on every IPv4 address of the namespace."""
    device: str | None = None
    """The device on which it also listens at the IPv6 link-local metadata address."""

    @netns.validator
    def _check(self, _: object, netns: str) -> None:
        check_namespace_name(netns)


MetadataKey = NetworkKey | RouterKey


class MetadataDriver(HostDriver[MetadataKey, MetadataProxy]):
    """Runs a metadata proxy in each namespace that needs one.

    Called by the DHCP and the L3 agent, outside any transaction; a key is never in two calls at
    once, calls for different keys may run in parallel.  The namespace exists before the proxy is
    put, and is removed after it is dropped.  Promises beyond those of :class:`HostDriver`:

    1. A request to the proxy reaches the metadata agent with the address it came from and the id
       of its network or its router; headers of those names that the guest sent do not.
    2. A proxy that is as it should be is not restarted, also when the agent was.
    3. One that dies is started again, and a ``ProcessDied`` says so.
    4. A dropped proxy leaves no process and no file; it is gone before ``converge`` returns.
    5. A missing namespace is a ``NotFound`` for that key.
    6. It runs with no more rights than its options give it.
    """

    GROUP: ClassVar[str] = "netfw.metadata_drivers"
    VERSION: ClassVar[int] = 1
