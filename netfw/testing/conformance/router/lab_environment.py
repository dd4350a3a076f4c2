"""A `RouterEnvironment` of the lab: a private Open vSwitch, and namespaces as machines on it.

What is left for the vendor is the driver::

    class MyEnvironment(RouterLabEnvironment):
        def make_router(self, host, directory):
            return MyRouterDriver.from_conf({"directory": str(directory)}, host)
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from ipaddress import ip_interface
from pathlib import Path
from typing import Any, Self

from netfw.drivers.base import HostResources
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import RouterPort, RouterState
from netfw.model.values.address import IpAddress, IpInterface, Mac
from netfw.model.values.ids import NetworkId, PortId, RouterId
from netfw.testing.conformance.dhcp.lab_host import (
    BRIDGE,
    DEAD,
    TRUNK,
    DhcpLabHost,
    DriverHosts,
    make_ovs_interface,
    processes,
    start_lab_host,
    start_second_host,
)
from netfw.testing.conformance.router.echo_service import EchoService
from netfw.testing.conformance.router.environment import (
    Machine,
    PrefixProvider,
    RouterEnvironment,
    RouterOnHost,
)
from netfw.testing.conformance.router.factories import next_mac
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.conformance.router.lab_peer_driver import OtherHostRouterDriver
from netfw.testing.conformance.router.lab_prefix_provider import LabPrefixProvider
from netfw.testing.conformance.router.port_admission import PortAdmission
from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance, Plug

FIRST_VLAN = 101
ALL_VLANS = ",".join(map(str, range(FIRST_VLAN, DEAD)))
Spoil = Callable[[RouterKey, RouterState], None]
REFUSING_TOOL = """#!/bin/sh
text=$(cat)
if [ -s {file} ] && printf '%s' "$text" | grep -qF -f {file}; then
    echo "{name}: line 1 failed: refused by the suite" >&2
    exit 1
fi
printf '%s\\n' "$text" | exec {real} "$@"
"""
"""A restore that refuses what has a text of *file*."""


class RouterLabEnvironment(RouterEnvironment):
    """The sandbox itself is the host; networks are VLANs of one bridge.

    The second host is created on first use; from then on the bridges learn no MAC address, so that
    each frame reaches both hosts, as frames for a shared MAC do.
    """

    timeout = 60.0
    election = 5.0
    _numbers = itertools.count(1)
    """Numbers of machines, whose devices the kernel removes after the next one is made."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._drivers: DriverHosts[RouterDriver] = DriverHosts()
        self._vlans: dict[NetworkId, int] = {}
        self._machines: list[LabMachine] = []
        self._listeners: list[socket.socket] = []
        self._foreign: list[str] = []
        self._providers: list[LabPrefixProvider] = []
        self._peer: RouterLabPeer | None = None

    def make_router(self, host: HostResources, directory: Path) -> RouterDriver:
        """Return the driver for a *host* with an ``InterfaceDriver``; it writes to *directory*."""
        raise NotImplementedError("override `make_router` with what makes your driver")

    def device_prefix(self, state: RouterState) -> str:
        """Return the prefix of the device that `make_foreign` takes the name of."""
        return "qr-"

    def __enter__(self) -> Self:
        """Start the switch, and what admits ports to their networks.

        :raises BackendBroken: something is missing on this machine; the message says what to do.
        """
        sandbox.require()
        with ExitStack() as stack:
            self._open(stack, start_lab_host(stack, "router-"))
            self._home = self._site.directory.parent
            self._service = EchoService()
            stack.callback(self._service.close)
            self._refuse_by_path(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()
        self._drivers.close()
        self._stack.close()

    def _open(self, stack: ExitStack, site: DhcpLabHost) -> None:
        self._site = site
        self._namespaces, self._ovs = site.namespaces, site.ovs
        self._admission = stack.enter_context(PortAdmission(self._ovs.remote))

    def make_driver(self) -> RouterDriver:
        host = LocalHostResources()
        host.add(make_ovs_interface(host, self._ovs))
        driver = self.make_router(host, self._site.directory)
        self._drivers.add(driver, host)
        return driver

    def killed(self, driver: RouterDriver) -> None:
        self._drivers.kill(driver)

    def admit(self, ports: Collection[RouterPort], *, wired: bool = True) -> None:
        for port in ports:
            if wired:
                self._admission.add(str(port.id), self._vlan(port.network))
            else:
                self._admission.remove(str(port.id))

    def machine(
        self,
        network: NetworkId,
        addresses: Collection[IpInterface],
        gateways: Collection[IpAddress] = (),
        *,
        mtu: int = 1500,
    ) -> Machine:
        name, mac = f"guest{next(self._numbers)}", next_mac()
        instance = Instance(name, self._namespaces, self._ovs)
        self._site.others.add(name)
        instance.open()
        plug = Plug(bridge=BRIDGE, device=name, mac=mac, mtu=mtu, tag=self._vlan(network))
        instance.plug(plug)
        instance.run(["sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0"])
        instance.configure([str(each) for each in addresses], [str(each) for each in gateways])
        machine = LabMachine(instance, mac, self._service)
        machine.open(self.PORTS)
        self._machines.append(machine)
        return machine

    def listen_metadata(self, router: RouterId, state: RouterState) -> None:
        part = state.full or state.local
        assert part is not None
        assert state.metadata_port is not None
        netns = self._namespace(part.interfaces[0].id)
        for family in (socket.AF_INET, socket.AF_INET6):
            listener = self._site.within(netns, partial(_listener, family, state.metadata_port))
            self._listeners.append(listener)
            self._service.serve(listener, self._answer)

    def dismiss(self) -> None:
        while self._listeners:
            self._service.release(self._listeners.pop())
        while self._providers:
            self._providers.pop().close()
        while self._machines:
            machine = self._machines.pop()
            machine.close()
            machine.instance.close()
            self._ovs.vsctl("--if-exists", "del-port", machine.name)
            self._site.ip("netns", "delete", machine.name)
        while self._foreign:
            self._namespaces.attempt(["ip", "link", "delete", self._foreign.pop()])

    def found(self, router: RouterId, ports: Collection[RouterPort]) -> RouterOnHost | None:
        located = {port.id: self._site.find(port.id) for port in ports}
        links = {id: found[1] for id, found in located.items() if found is not None}
        if not links and not any(str(router) in name for name in self._site.netns_names()):
            return None
        return RouterOnHost(
            addresses={id: _addresses(link) for id, link in links.items()},
            macs={id: Mac(link["address"]) for id, link in links.items()},
            mtus={id: link["mtu"] for id, link in links.items()},
        )

    def connections(self, *addresses: IpAddress) -> int:
        found = 0
        for netns in self._site.netns_names():
            family = "ipv4" if addresses[0].version == 4 else "ipv6"
            words = ["ip", "netns", "exec", netns, "conntrack", "-L", "-f", family]
            listed = self._namespaces.attempt(words).output
            found += sum(
                all(f"={address} " in line for address in addresses) for line in listed.splitlines()
            )
        return found

    def dump_state(self) -> frozenset[str]:
        running = {f"process {words}" for words in processes(self._namespaces.processes())}
        return frozenset({*self._site.dump_state(), *running})

    def await_wired(self, ports: Collection[RouterPort]) -> None:
        self._admission.wait_admitted([str(port.id) for port in ports], self.timeout)

    def contains(self, text: str) -> bool:
        saved = (
            self._namespaces.attempt(["ip", "netns", "exec", netns, tool]).output
            for netns in self._site.netns_names()
            for tool in ("iptables-save", "ip6tables-save")
        )
        running = any(text in words for words in processes())
        return running or self._site.contains(text) or any(text in each for each in saved)

    def kill_processes(self, router: RouterId) -> bool:
        killed = False
        for netns in self._site.netns_names():
            if str(router) in netns and self._site.processes_in(netns):
                self._site.kill_processes_in(netns)
                killed = True
        return killed

    def vanish(self, key: RouterKey, value: RouterState) -> None:
        for port in _ports(value):
            self._site.forget(str(key.router), port.id)

    def make_foreign(self, value: RouterState) -> None:
        name = self._foreign_name(value)
        peer = f"peer name foreign{next(self._numbers)}"
        self._namespaces.ip(f"link add {name} type veth {peer}")
        self._foreign.append(name)

    def foreign_is_intact(self, value: RouterState) -> bool:
        result = self._namespaces.attempt(["ip", "-o", "link", "show", self._foreign_name(value)])
        mac = _ports(value)[0].mac
        return result.status == 0 and mac not in result.output and ",UP" not in result.output

    def outage(self) -> AbstractContextManager[None]:
        return self._drivers.outage(self._ovs)

    @contextmanager
    def refuse_rules(self, address: IpAddress) -> Iterator[None]:
        self._refused.write_text(f"{address}/32\n{address} \n")
        try:
            yield
        finally:
            self._refused.write_text("")

    def drifts(self) -> Mapping[str, Spoil]:
        return {
            "an address is missing": self._in_netns("address", "delete", "FIRST", "dev", "DEVICE"),
            "no default route": self._in_netns("route", "delete", "default"),
            "link down": self._in_netns("link", "set", "DEVICE", "down"),
            "another MTU": self._in_netns("link", "set", "DEVICE", "mtu", "1300"),
            "no NAT rules": self._by_tool("iptables", "-t", "nat", "-F"),
            "no forwarding": self._by_tool("sysctl", "-qw", "net.ipv4.ip_forward=0"),
            "its device is gone": self._pull_out,
        }

    def peer(self) -> RouterEnvironment:
        if self._peer is None:
            site = start_second_host(self._stack, self._site)
            for ovs in (self._ovs, site.ovs):  # a MAC address may be on both hosts
                ovs.vsctl("set", "Bridge", BRIDGE, f"flood_vlans={ALL_VLANS}")
            self._peer = self._stack.enter_context(RouterLabPeer(self, site))
        return self._peer

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        self._namespaces.ip(f"link set {TRUNK} down")
        try:
            yield
        finally:
            self._namespaces.ip(f"link set {TRUNK} up")

    def sent_frames(self, ports: Collection[RouterPort]) -> int:
        sent = 0
        for port in ports:
            netns, link = self._site.find(port.id) or (None, {})
            if netns is not None:
                words = ("-n", netns, "-s", "-j", "link", "show", link["ifname"])
                (details,) = json.loads(self._site.ip(*words))
                sent += details["stats64"]["tx"]["packets"]
        return sent

    def prefix_provider(
        self, network: NetworkId, addresses: Collection[IpInterface]
    ) -> PrefixProvider:
        machine = self.machine(network, addresses)
        assert isinstance(machine, LabMachine)
        provider = LabPrefixProvider(machine.instance, addresses)
        self._providers.append(provider)
        return provider

    def _in_netns(self, *words: str) -> Spoil:
        def spoil(_: RouterKey, value: RouterState) -> None:
            port = _ports(value)[0]
            found = self._site.find(port.id)
            assert found is not None
            names = {"DEVICE": found[1]["ifname"], "FIRST": str(port.addresses[0])}
            self._site.ip("-n", str(found[0]), *(names.get(word, word) for word in words))

        return spoil

    def _by_tool(self, *words: str) -> Spoil:
        def spoil(_: RouterKey, value: RouterState) -> None:
            netns = self._namespace(_ports(value)[0].id)
            self._namespaces.run(["ip", "netns", "exec", netns, *words])

        return spoil

    def _pull_out(self, _: RouterKey, value: RouterState) -> None:
        row = self._site.rows()[str(_ports(value)[0].id)]
        self._ovs.vsctl("del-port", row)

    def _foreign_name(self, value: RouterState) -> str:
        return f"{self.device_prefix(value)}{_ports(value)[0].id}"[:14]

    def _namespace(self, port: PortId) -> str:
        found = self._site.find(port)
        assert found is not None, f"port {port} has no device"
        assert found[0] is not None, f"the device of port {port} is in no namespace"
        return found[0]

    def _vlan(self, network: NetworkId) -> int:
        return self._vlans.setdefault(network, FIRST_VLAN + len(self._vlans))

    def _answer(self, listener: socket.socket) -> None:
        connected, peer = listener.accept()
        source = peer[0].partition("%")[0].removeprefix("::ffff:")
        answer = {"at": "metadata", "source": source, "port": peer[1]}
        connected.sendall(json.dumps(answer).encode() + b"\n")
        connected.close()

    def _refuse_by_path(self, stack: ExitStack) -> None:
        """Put tools before those of the machine that refuse what `refuse_rules` names."""
        tools = self._home / "bin"
        tools.mkdir()
        self._refused = self._home / "refused"
        self._refused.write_text("")
        for name in ("iptables-restore", "ip6tables-restore"):
            real = shutil.which(name)
            script = REFUSING_TOOL.format(file=self._refused, name=name, real=real)
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{tools}:{path}"
        stack.callback(os.environ.__setitem__, "PATH", path)


class RouterLabPeer(RouterLabEnvironment):
    """The second host of a lab environment, whose drivers are called in its namespaces."""

    def __init__(self, first: RouterLabEnvironment, site: DhcpLabHost) -> None:
        super().__init__()
        self._first, self._site = first, site
        self._vlans, self._service = first._vlans, first._service

    def __enter__(self) -> Self:
        self._open(self._stack, self._site)
        return self

    def make_router(self, host: HostResources, directory: Path) -> RouterDriver:
        driver = self._namespaces.call(self._first.make_router, host, directory)
        return OtherHostRouterDriver(driver, self._namespaces)


def _ports(state: RouterState) -> tuple[RouterPort, ...]:
    full = state.full
    assert full is not None
    return (*full.interfaces, *(() if full.gateway is None else (full.gateway.port,)))


def _addresses(link: dict[str, Any]) -> frozenset[IpInterface]:
    found = (each for each in link.get("addr_info", ()) if each.get("scope") != "link")
    return frozenset(ip_interface(f"{each['local']}/{each['prefixlen']}") for each in found)


def _listener(family: socket.AddressFamily, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(("", port))
    listener.listen(16)
    return listener
