"""Several hosts on one machine, for tests, demonstrations and experiments.

::

    with Lab(hosts=2, bridges=["br-int"]) as lab:
        one, two = lab.hosts.values()
        vm = one.instance("vm1", Plug(bridge="br-int", device="tap1", addresses=["10.0.0.1/24"]))
        one.run(["ovs-vsctl", "show"])
        vm.ping("10.0.0.2").lost

The lab is built with the ``ip`` and ``ovs-vsctl`` commands in batches and not with netfw's own
toolboxes, so that the lab is independent of the code under test.  Only system
calls and the threads that move into namespaces come from ``netfw.linux``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from pathlib import Path
from types import TracebackType
from typing import Self

from netfw.errors import ConfigError
from netfw.testing.lab import prerequisites, sandbox
from netfw.testing.lab.fabric import Fabric
from netfw.testing.lab.host import NIC, Host

UNDERLAY4 = IPv4Network("198.18.0.0/24")
UNDERLAY6 = IPv6Network("fd00:6c61:6200::/64")
MAX_HOSTS = 250


class Lab:
    """Hosts ``host1``, ``host2``, ..., and the fabrics between them.

    ``fabric`` is the underlay: it carries the hosts' own addresses, and tunnels.  For each name in
    *provider* there is one more fabric and one more NIC of that name on each host, not plugged:
    a physical network for bridge mappings.  *bridges* are made on every host.  Without *switch*
    the hosts have no Open vSwitch, and this machine needs none: for drivers of Linux bridges.
    """

    def __init__(
        self,
        hosts: int = 2,
        *,
        bridges: Sequence[str] = (),
        provider: Sequence[str] = (),
        mtu: int = 1500,
        switch: bool = True,
    ) -> None:
        if not 1 <= hosts <= MAX_HOSTS:
            raise ConfigError(f"a lab has 1 to {MAX_HOSTS} hosts, not {hosts}")
        if bridges and not switch:
            raise ConfigError("bridges of Open vSwitch cannot be made in a lab without it")
        self.fabric = Fabric("underlay", nic=NIC, mtu=mtu)
        self.provider: Mapping[str, Fabric] = {
            name: Fabric(name, nic=name, mtu=mtu) for name in provider
        }
        self.hosts: dict[str, Host] = {}
        self._count = hosts
        self._bridges = tuple(bridges)
        self._switch = switch
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the lab.

        :raises BackendBroken: something is missing on this machine; the message says what to do.
        """
        sandbox.require()
        prerequisites.require_tools(switch=self._switch)
        with ExitStack() as stack:
            directory = Path(tempfile.mkdtemp(prefix="lab-", dir="/run"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            self._make_hosts(directory, stack)
            self._connect_hosts(stack)
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda host: host.start(self._bridges), self.hosts.values()))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        self.hosts.clear()

    def _make_hosts(self, directory: Path, stack: ExitStack) -> None:
        for number in range(1, self._count + 1):
            name = f"host{number}"
            host = Host(
                name,
                directory / name,
                address=IPv4Interface((UNDERLAY4[number], UNDERLAY4.prefixlen)),
                address6=IPv6Interface((UNDERLAY6[number], UNDERLAY6.prefixlen)),
                switch=self._switch,
            )
            stack.callback(host.close)
            host.open()
            self.hosts[name] = host

    def _connect_hosts(self, stack: ExitStack) -> None:
        namespaces = {name: host.namespaces for name, host in self.hosts.items()}
        for fabric in (self.fabric, *self.provider.values()):
            stack.callback(fabric.close)
            fabric.open(namespaces)
