"""The veth devices of bridge links: read and changed.  No policy."""

from __future__ import annotations

from collections.abc import Iterable

from netfw.drivers.base import HostResources
from netfw.errors import BackendUnavailable, NetfwError, OperationRefused
from netfw.linux.ip.netlink_client import NetlinkClient, device_exists
from netfw.linux.ip.operations import NetworkOperation
from netfw.linux.ip.values import Link
from netfw.plan import Stage


class VethLinks:
    """The devices of one namespace, which must be the switch's: that of the first thread to use it.

    No socket is opened before a device exists or has to be made: most hosts have no veth links.
    """

    def __init__(self) -> None:
        self._network: NetlinkClient | None = None

    def close(self) -> None:
        if self._network is not None:
            self._network.close()
        self._network = None

    def read(self, names: Iterable[str]) -> dict[str, Link]:
        """Return those of the devices *names* that exist."""
        wanted = tuple(names)
        if self._network is None and not any(map(device_exists, wanted)):
            return {}
        links = map(self._opened().link, wanted)
        return {link.name: link for link in links if link is not None}

    def execute(self, stage: Stage) -> None:
        """Change one device.

        :raises OperationRefused: the kernel refused.
        """
        (operation,) = stage.operations
        step: NetworkOperation = operation.payload  # type: ignore[assignment]
        try:
            self._opened().apply([step])
        except BackendUnavailable:
            raise
        except NetfwError as error:
            raise OperationRefused({operation: str(error)}) from error

    def _opened(self) -> NetlinkClient:
        if self._network is None:
            self._network = NetlinkClient()
        return self._network


def shared_links(host: HostResources) -> VethLinks:
    """Return the one object for all drivers of *host*."""
    return host.share(("links",), VethLinks)
