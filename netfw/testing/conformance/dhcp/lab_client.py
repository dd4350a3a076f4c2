"""A guest of the DHCP suite: an instance of the lab with real clients."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import TypeVar

from netfw.testing.conformance.dhcp.environment import DhcpClientVm
from netfw.testing.lab.dhcp_client import (
    Dhclient4,
    Dhclient6,
    DhcpClient,
    Udhcpc,
    solicit,
)
from netfw.testing.lab.dhcp_lease import Announcement, ClientLease, Lease6
from netfw.testing.lab.instance import Instance

C = TypeVar("C", bound=DhcpClient[ClientLease] | DhcpClient[Lease6])

SILENCE_TIMEOUT = 1.2
"""Timeout of a client that expects no answer: two of its requests."""
SOLICITATION_TIMEOUT = 1.0


class LabClientVm(DhcpClientVm):
    """An instance; *ready* is called before its first packet."""

    def __init__(self, instance: Instance, timeout: float, ready: Callable[[], None]) -> None:
        self.instance = instance
        self._timeout = timeout
        self._ready = ready
        self._clients: dict[str, DhcpClient[ClientLease] | DhcpClient[Lease6]] = {}
        instance.call(_listen_to_routers)

    def lease(
        self,
        requested: Collection[int] = (),
        *,
        sent_options: Mapping[int, bytes] | None = None,
        expected: bool = True,
    ) -> ClientLease | None:
        self._ready()
        client = self._new("udhcpc", Udhcpc(self.instance, requested, sent_options=sent_options))
        return client.lease(self._timeout if expected else SILENCE_TIMEOUT)

    def renew(self) -> ClientLease | None:
        self._ready()
        client = self._clients["udhcpc"]
        assert isinstance(client, Udhcpc)
        return client.renew(self._timeout)

    def release(self) -> None:
        self._clients["udhcpc"].release()

    def boot(self, requested: Collection[int] = ()) -> ClientLease | None:
        self._ready()
        client = self._clients.get("dhclient")
        if isinstance(client, Dhclient4):
            return client.renew(self._timeout)
        return self._new("dhclient", Dhclient4(self.instance, requested)).lease(self._timeout)

    def announcement(self, *, expected: bool = True) -> Announcement | None:
        self._ready()
        return solicit(self.instance, self._timeout if expected else SOLICITATION_TIMEOUT)

    def lease6(self, *, stateless: bool = False, expected: bool = True) -> Lease6 | None:
        self._ready()
        client = self._new("dhclient6", Dhclient6(self.instance, stateless=stateless))
        return client.lease(self._timeout if expected else 2 * SOLICITATION_TIMEOUT)

    def renew6(self) -> Lease6 | None:
        self._ready()
        client = self._clients["dhclient6"]
        assert isinstance(client, Dhclient6)
        return client.renew(self._timeout)

    def release6(self) -> None:
        self._clients["dhclient6"].release()

    def made_addresses(self, prefix_of: IPv6Address) -> frozenset[IPv6Address]:
        prefix = IPv6Network((prefix_of, 64), strict=False)
        until = time.monotonic() + self._timeout
        while True:
            links = json.loads(self.instance.run(["ip", "-6", "-j", "address", "show", "eth0"]))
            addresses = frozenset(
                IPv6Address(address["local"]) for link in links for address in link["addr_info"]
            )
            if any(address in prefix for address in addresses) or time.monotonic() > until:
                return addresses
            time.sleep(0.02)

    def leave(self) -> None:
        for client in self._clients.values():
            client.leave()

    def close(self) -> None:
        """Leave, and forget everything."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self.instance.namespaces.ip("address flush dev eth0")

    def _new(self, name: str, client: C) -> C:
        with contextlib.suppress(KeyError):
            self._clients.pop(name).close()
        self._clients[name] = client
        return client


def _listen_to_routers() -> None:
    """Make the kernel derive addresses from advertisements, without duplicate detection."""
    for name, value in {"accept_ra": "2", "accept_dad": "0", "router_solicitations": "0"}.items():
        Path(f"/proc/sys/net/ipv6/conf/eth0/{name}").write_text(value)
