"""Devices of the ports, in the switch's namespace and in others: reads and changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Self

from netfw.errors import BackendUnavailable, NetfwError, NotFound, OperationRefused
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import DelLink
from netfw.linux.ip.values import Link
from netfw.ovs.ovsdb.values import OvsdbPort
from netfw.plan import Stage
from netfw_drivers.ovs.interface.observed import (
    Namespace,
    is_abandoned,
    namespace_of,
)
from netfw_drivers.ovs.interface.plan import LinkStep


class LinkExecutor:
    """The networks a plan works in: the host's, and the namespace it is at."""

    def __init__(self) -> None:
        self._open: dict[Namespace, NetlinkClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for network in self._open.values():
            network.close()

    def execute(self, stage: Stage) -> None:
        (operation,) = stage.operations
        step = operation.payload
        assert isinstance(step, LinkStep)
        try:
            self._network(step.namespace).apply([step.operation])
        except BackendUnavailable:
            raise
        except NetfwError as error:
            raise OperationRefused({operation: str(error)}) from error

    def delete_abandoned(self, ports: Iterable[OvsdbPort]) -> None:
        """Delete the devices of *ports* that a switch left behind when it ended, if possible."""
        for port in ports:
            for namespace in {None, namespace_of(port)}:
                with suppress(NetfwError):
                    network = self._network(namespace)
                    link = network.link(port.name)
                    if link is not None and is_abandoned(port, link):
                        network.apply([DelLink(link.name)])

    @property
    def home(self) -> NetlinkClient:
        """The switch's own namespace."""
        return self._network(None)

    def _network(self, namespace: Namespace) -> NetlinkClient:
        if namespace not in self._open:
            for other in self._open.keys() - {None}:
                self._open.pop(other).close()
            self._open[namespace] = NetlinkClient(namespace)
        return self._open[namespace]


def read_links(namespaces: Iterable[Namespace]) -> dict[Namespace, dict[str, Link]]:
    """Return the devices of those *namespaces* that exist."""
    found: dict[Namespace, dict[str, Link]] = {}
    for namespace in namespaces:
        try:
            with NetlinkClient(namespace) as network:
                found[namespace] = network.links()
        except NotFound:
            continue
    return found


def read_named_links(names: Mapping[Namespace, Iterable[str]]) -> dict[Namespace, dict[str, Link]]:
    """Read single devices of those namespaces that exist."""
    found: dict[Namespace, dict[str, Link]] = {}
    for namespace, wanted in names.items():
        try:
            with NetlinkClient(namespace) as network:
                links = [network.link(name) for name in wanted]
        except NotFound:
            continue
        found[namespace] = {link.name: link for link in links if link is not None}
    return found
