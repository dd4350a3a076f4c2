"""A host of the suites of services: a private Open vSwitch, and the inspection of a driver's work.

Inspection uses ``ip``, ``ovs-vsctl`` and ``/proc``, never a driver.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any, Generic, TypeVar

from netfw.drivers.base import HostResources
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry import loader
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import BackendError
from netfw.model.values.address import IpAddress, IpInterface, Mac
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import share_ovsdb
from netfw.testing.conformance.dhcp.environment import FoundServer
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.namespaces import NamespaceContext, current_namespaces
from netfw.testing.lab.openvswitch import PrivateOvs, bridge_setup

T = TypeVar("T")
D = TypeVar("D", bound=HostDriver[Any, Any])

ANSWER = 5.0
"""Seconds that the interface driver waits for the switch."""
BRIDGE = "br-int"
TRUNK = "trunk"
"""The device by which the bridges of two hosts are joined."""
DEAD = 4095
METADATA6 = ip_address("fe80::a9fe:a9fe")
_SERVERS = {"udp": 67, "udp6": 547}
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


class DhcpLabHost:
    """A host: ``namespaces`` are its own, ``directory`` is for the files of drivers."""

    def __init__(
        self, name: str, namespaces: NamespaceContext, ovs: PrivateOvs, directory: Path
    ) -> None:
        self.name = name
        self.namespaces = namespaces
        self.ovs = ovs
        self.directory = directory
        self.others: set[str] = self._devices()
        """Namespaces and devices that are not the driver's: the switch, guests, other hosts."""
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)

    def ip(self, *arguments: str) -> str:
        return self.namespaces.run(["ip", *arguments])

    def rows(self) -> dict[str, str]:
        """Return the names of the bridge's ports by port id, for those with an owner."""
        columns = "--columns=name,external_ids"
        table = json.loads(self.ovs.vsctl("--format=json", columns, "list", "Interface"))
        named = ((name, dict(ids[1])) for name, ids in table["data"])
        return {ids["iface-id"]: name for name, ids in named if "iface-id" in ids}

    def admit(self, tags: dict[str, int]) -> None:
        """Move the ports on the dead VLAN to their VLANs in *tags*."""
        dead = self.ovs.vsctl("--bare", "--columns=name", "find", "Port", f"tag={DEAD}").split()
        if not dead:
            return
        live = [(name, tags[port]) for port, name in self.rows().items() if port in tags]
        changes = [f"-- set Port {name} tag={tag}" for name, tag in live if name in dead]
        if changes:
            self.ovs.vsctl(*" ".join(changes).split()[1:])

    def netns_names(self) -> list[str]:
        """Return the namespaces that are not the suite's own."""
        listed = json.loads(self.ip("-j", "netns") or "[]")
        return sorted({entry["name"] for entry in listed} - self.others)

    def find(self, port: PortId) -> tuple[str | None, dict[str, Any]] | None:
        """Return the device of *port*: its namespace, and its entry in the output of ``ip``."""
        for netns in (*self.netns_names(), None):
            there = ("-n", netns) if netns else ()
            for link in json.loads(self.ip(*there, "-j", "address")):
                own = netns is not None or link["ifname"].startswith("tap")
                if str(port)[:11] in link["ifname"] and own:
                    return netns, link
        return None

    def server(self, port: PortId) -> FoundServer | None:
        netns, link = self.find(port) or (None, {})
        if netns is None:
            return None
        return FoundServer(
            mac=Mac(link["address"]),
            mtu=link["mtu"],
            addresses=frozenset(_addresses(link)) if "UP" in link["flags"] else frozenset(),
            gateways=frozenset(self._gateways(netns, link["ifname"])),
            listens=self.within(netns, _listens),
            processes=self.processes_in(netns),
        )

    def _gateways(self, netns: str, device: str) -> Iterator[IpAddress]:
        for family in ("-4", "-6"):
            output = self.ip("-n", netns, family, "-j", "route", "show", "default", "dev", device)
            yield from (ip_address(route["gateway"]) for route in json.loads(output or "[]"))

    def within(self, netns: str, look: Callable[[], T]) -> T:
        """Return the result of *look*, called in a namespace of this host."""
        flags = os.O_RDONLY | os.O_CLOEXEC
        space = self.namespaces.call(os.open, f"/run/netns/{netns}", flags)
        namespaces = NamespaceContext({"net": space})
        try:
            return namespaces.call(look)
        finally:
            namespaces.close()

    def processes_in(self, netns: str) -> frozenset[int]:
        here = self.namespaces.call(os.stat, f"/run/netns/{netns}")
        return frozenset(pid for pid in _pids() if _is_in(pid, here))

    def kill_processes_in(self, netns: str, timeout: float = 10.0) -> None:
        until = time.monotonic() + timeout
        for pid in self.processes_in(netns):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            while _is_alive(pid):
                if time.monotonic() > until:
                    raise BackendError(f"process {pid} does not end")
                time.sleep(0.001)

    def dump_state(self) -> Iterator[str]:
        """Yield possible garbage of a driver, one line per item."""
        yield from (f"{self.name}: namespace {name}" for name in self.netns_names())
        yield from (f"{self.name}: device {name}" for name in self._devices() - self.others)
        for path in self.directory.rglob("*"):
            if not path.is_dir() or _ID.search(path.name):
                yield f"{self.name}: file {path.relative_to(self.directory)}"

    def _devices(self) -> set[str]:
        links = {entry["ifname"] for entry in json.loads(self.ip("-j", "link"))}
        return {*links, *self.ovs.vsctl("list-ports", BRIDGE).split()}

    def contains(self, text: str) -> bool:
        files = (path for path in self.directory.rglob("*") if path.is_file())
        return any(text.encode() in path.read_bytes() for path in files)

    def forget(self, name: str, port: PortId) -> None:
        """Remove everything with *name* or *port* in its name."""
        device = self.find(port)
        for netns in {*(n for n in self.netns_names() if name in n), *(device or ())[:1]} - {None}:
            self.kill_processes_in(str(netns))
            self.ip("netns", "delete", str(netns))
        row = self.rows().get(str(port))
        if row is not None:
            self.ovs.vsctl("del-port", row)
            self.namespaces.attempt(["ip", "link", "delete", row])
        for path in [*self.directory.rglob(f"*{name}*")]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


class DriverHosts(Generic[D]):
    """The drivers of a suite that run on a lab host, with the resources of each."""

    def __init__(self) -> None:
        self._hosts: list[tuple[D, LocalHostResources]] = []

    def add(self, driver: D, host: LocalHostResources) -> None:
        """Register a driver that was made with the resources *host*."""
        self._hosts.append((driver, host))

    def kill(self, driver: D) -> None:
        """Close a driver and its resources."""
        driver.close()
        for known, host in self._hosts:
            if known is driver:
                host.close()
        self._hosts = [(known, host) for known, host in self._hosts if known is not driver]

    def close(self) -> None:
        """Close the resources of all drivers."""
        for _, host in self._hosts:
            host.close()

    @contextlib.contextmanager
    def outage(self, ovs: PrivateOvs) -> Iterator[None]:
        """Stop the database, and the switch, which would else reconnect at its own pace."""
        ovs.stop_switch()
        ovs.stop_database()
        self._set_timeout(ovs, 0.2)
        try:
            yield
        finally:
            self._set_timeout(ovs, ANSWER)
            ovs.start_database()
            ovs.start_switch()

    def _set_timeout(self, ovs: PrivateOvs, seconds: float) -> None:
        for _, host in self._hosts:
            share_ovsdb(host, ovs.remote, ANSWER).timeout = seconds


def start_lab_host(stack: contextlib.ExitStack, prefix: str) -> DhcpLabHost:
    """Start a switch in the caller's namespaces; *stack* stops it and removes its files."""
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir="/run"))
    directory.chmod(0o755)
    stack.callback(shutil.rmtree, directory, ignore_errors=True)
    namespaces = current_namespaces()
    stack.callback(namespaces.close)
    ovs = PrivateOvs(directory / "ovs")
    stack.callback(ovs.stop)
    ovs.start(*bridge_setup(BRIDGE))
    return DhcpLabHost("host", namespaces, ovs, directory / "files")


def start_second_host(stack: contextlib.ExitStack, first: DhcpLabHost) -> DhcpLabHost:
    """Start another host, whose switch is joined with that of *first* by ``TRUNK``."""
    lab = stack.enter_context(Lab(1, bridges=[BRIDGE]))
    (host,) = lab.hosts.values()
    there = host.namespaces.space("net")
    first.namespaces.ip(
        f"link add {TRUNK} type veth peer name {TRUNK} netns {there}",
        f"link set {TRUNK} up",
    )
    host.namespaces.ip(f"link set {TRUNK} up")
    for ovs in (first.ovs, host.ovs):
        ovs.vsctl("add-port", BRIDGE, TRUNK)
    second = DhcpLabHost("second", host.namespaces, host.ovs, first.directory.with_name("second"))
    for site in (first, second):
        site.others.add(TRUNK)
    return second


def make_ovs_interface(
    host: HostResources, ovs: PrivateOvs, *, use_veth: bool = False
) -> InterfaceDriver:
    """Return the interface driver of Open vSwitch for the lab host's switch."""
    options = {
        "ovsdb_connection": ovs.remote,
        "ovsdb_timeout": ANSWER,
        "integration_bridge": BRIDGE,
        "ovs_use_veth": use_veth,
    }
    return loader.create(InterfaceDriver, "openvswitch", options, host)


def processes(pids: Iterable[int] | None = None) -> Iterator[str]:
    """Yield the command lines of *pids* (``None``: all processes) except this one and switches.

    A child that has not executed its program yet has the command line of this process.
    """
    own = _command_line(os.getpid())
    for pid in _pids() if pids is None else pids:
        with contextlib.suppress(OSError):
            words = _command_line(pid)
            if words and words != own and not words.startswith("ovs"):
                yield words


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def _addresses(link: dict[str, Any]) -> Iterable[IpInterface]:
    for entry in link["addr_info"]:
        address = ip_interface(f"{entry['local']}/{entry['prefixlen']}")
        permanent = not entry.get("dynamic") and entry.get("valid_life_time", 1) > 0
        if permanent and (not address.ip.is_link_local or _is_metadata(address)):
            yield address


def _is_metadata(address: IpInterface) -> bool:
    return address.version == 4 or address.ip == METADATA6


def _listens() -> bool:
    """Return whether a process in this namespace listens for clients, by any kind of socket."""
    if _sockets("packet"):
        return True
    return any(
        line.split()[1].endswith(f":{port:04X}")
        for kind, port in _SERVERS.items()
        for line in _sockets(kind)
    )


def _sockets(kind: str) -> list[str]:
    return Path("/proc/thread-self/net", kind).read_text().splitlines()[1:]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _is_in(pid: int, space: os.stat_result) -> bool:
    try:
        return pid != os.getpid() and os.path.samestat(os.stat(f"/proc/{pid}/ns/net"), space)
    except OSError:  # it ended, or is a zombie
        return False


def _is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
