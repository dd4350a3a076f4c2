"""A provider of the lab environment that delegates prefixes: a real kea in a namespace."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from ipaddress import IPv6Network
from pathlib import Path
from tempfile import TemporaryDirectory

from netfw.errors import BackendBroken
from netfw.model.values.address import IpInterface
from netfw.testing.conformance.router.environment import PrefixProvider
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.services.prefix_server import PrefixServer


class LabPrefixProvider(PrefixProvider):
    """A kea on the device of an instance that has *addresses*.

    :raises BackendBroken: kea is not installed.
    """

    def __init__(self, instance: Instance, addresses: Collection[IpInterface]) -> None:
        if shutil.which("kea-dhcp6") is None:
            raise BackendBroken("kea-dhcp6 is missing: install kea-dhcp6-server")
        subnet = next(each.network for each in addresses if each.version == 6)
        self._directory = TemporaryDirectory()
        self._server = PrefixServer(instance, str(subnet), Path(self._directory.name))

    def delegate(self, pool: IPv6Network, *, valid: int = 3600) -> None:
        self._server.start(str(pool), valid=valid)

    def stop(self) -> None:
        self._server.stop()

    def close(self) -> None:
        """End the server, and remove its files."""
        self._server.stop()
        self._directory.cleanup()
