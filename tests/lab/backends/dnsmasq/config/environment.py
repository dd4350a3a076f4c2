"""A dnsmasq that is told what was rendered, a cable, and an instance at its other end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, cast

from netfw.drivers.dhcp import DhcpLocation
from netfw.model.values.address import Mac
from netfw.testing.conformance.dhcp.factories import ServedNetwork, Tenant
from netfw.testing.lab.dhcp_client import Dhclient6, DhcpClient, Udhcpc, solicit
from netfw.testing.lab.dhcp_lease import Announcement, ClientLease, Lease6
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.namespaces import KINDS, NamespaceContext
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import PortText, render_network, render_port
from netfw_drivers.dnsmasq.config.settings import Settings

TIMEOUT = 60.0
IN_VAIN = 2.5
"""Seconds in which a client asks twice, who is not to be answered."""
PLACE = DhcpLocation(netns="server", device="tap0")


class _Called(Udhcpc):
    called = ""

    def _command(self) -> list[str]:
        return [*super()._command(), *(["-x", f"0x3d:{self.called}"] if self.called else [])]


class Rig:
    """``with Rig(directory, net) as rig``: dnsmasq runs, and knows no port.

    *settings* may have the fabric route: the instance is then behind a device beside the server's.
    """

    def __init__(self, directory: Path, net: ServedNetwork, **settings: Any) -> None:
        self.net = net
        self.settings = Settings(**{"confs": directory, "user": "root"} | settings)
        self.files = NetworkPaths(directory, net.id)
        self._text = render_network(net.id, net.value, PLACE, self.settings)
        here = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in KINDS}
        self._host = NamespaceContext(here)
        self.server = Instance("server", self._host, cast(Any, None))
        self._guest = Instance("guest", self._host, cast(Any, None))
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[DhcpClient[Any]] = []

    def __enter__(self) -> Self:
        Path("/run/netns").mkdir(exist_ok=True)
        near = "tap0" if self.settings.bridged else "tap1"
        self._host.ip(f"link add {near} type veth peer name eth0")
        for instance, device in ((self.server, near), (self._guest, "eth0")):
            instance.open()
            instance.take(device)
            instance.run(["sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0"])
            instance.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.accept_dad=0"])
        if not self.settings.bridged:
            self.server.configure(())
            self.server.namespaces.ip(
                "link add tap0 type veth peer name behind", "link set behind up"
            )
            self.server.device = "tap0"
        self.server.configure(self.net.value.server.addresses)
        self._guest.configure(())
        for directory in (self.files.host, self.files.addn_hosts, self.files.opts):
            directory.mkdir(parents=True)
        self.files.network_opts.write_text(self._text.opts)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for instance in (self.server, self._guest):
            instance.close()
            self._host.run(["ip", "netns", "delete", instance.name])
        self._host.close()

    def start(self) -> None:
        """Start dnsmasq; back when it answers."""
        self.files.pid.unlink(missing_ok=True)
        log = f"--log-facility={self._log}"
        self._process = self.server.spawn([*self._text.argv, "--keep-in-foreground", log])
        self.await_(self.files.pid.exists, "dnsmasq does not start")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def lives(self) -> bool:
        assert self._process is not None
        return self._process.poll() is None

    @property
    def user(self) -> int:
        """The number of the user that it runs as."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}").stat().st_uid

    def reload(self) -> None:
        """Make dnsmasq read all files anew, and wait until it did, or died of it."""
        assert self._process is not None
        word = f"read {self.files.network_opts}"
        read = self.log().count(word)
        self._process.send_signal(signal.SIGHUP)
        self.await_(lambda: not self.lives or self.log().count(word) > read, "no reload")

    @property
    def _log(self) -> Path:
        return self.files.directory / "log"

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def put(self, *tenants: Tenant) -> None:
        """Write the files of ports, as they are rendered."""
        for tenant in tenants:
            text = render_port(tenant.port, tenant.value, self.net.value, self.settings)
            self.write(tenant, text)

    def write(self, tenant: Tenant, text: PortText) -> None:
        """Write files of a port; back when dnsmasq has read them."""
        files, port = self.files, tenant.port
        for path, content in (
            (files.opts_of(port), text.opts),
            (files.names_of(port), text.names),
            (files.host_of(port), text.host),
        ):
            if content:
                read = self.log().count(str(path))
                new = path.with_name(f".{path.name}")
                new.write_text(content)
                new.rename(path)
                self.await_(lambda p=path, n=read: self.log().count(str(p)) > n, f"{path} unread")

    def lease(
        self, mac: Mac, *, expected: bool = True, requested: Iterable[int] = (), called: str = ""
    ) -> ClientLease | None:
        """Return the lease of the instance as a new client with that MAC address.

        :param called: the identifier that it calls itself by, in hexadecimal.
        """
        return self.client(mac, requested, called).lease(TIMEOUT if expected else IN_VAIN)

    def client(self, mac: Mac, requested: Iterable[int] = (), called: str = "") -> Udhcpc:
        self._become(mac)
        client = _Called(self._guest, frozenset(requested))
        client.called = called
        self._clients.append(client)
        return client

    def lease6(self, mac: Mac, *, stateless: bool = False, expected: bool = True) -> Lease6 | None:
        self._become(mac)
        client = Dhclient6(self._guest, stateless=stateless)
        self._clients.append(client)
        return client.lease(TIMEOUT if expected else IN_VAIN)

    def announcement(self, mac: Mac, timeout: float = TIMEOUT) -> Announcement | None:
        self._become(mac)
        return solicit(self._guest, timeout)

    def _become(self, mac: Mac) -> None:
        for client in self._clients:
            client.leave()
        self._guest.namespaces.ip(
            "link set eth0 down", f"link set eth0 address {mac}", "link set eth0 up"
        )
        self.await_(lambda: "fe80::" in self._guest.run(["ip", "-6", "addr"]), "no address")

    def await_(self, condition: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < until, f"{otherwise}: {self.log()[-2000:]}"
            time.sleep(0.01)
