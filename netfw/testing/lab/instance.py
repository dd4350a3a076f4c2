"""An instance of a lab: a namespace that stands for a virtual machine."""

from __future__ import annotations

import contextlib
import ctypes
import enum
import fcntl
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from attrs import field, frozen

from netfw.errors import ConfigError
from netfw.linux import netns
from netfw.testing.lab import lab_syscalls
from netfw.testing.lab.namespaces import CommandFailed, NamespaceContext, NamespaceOwner
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.ping import BackgroundPing, Ping, Pinger
from netfw.testing.lab.wait import wait_until

Interface = IPv4Interface | IPv6Interface

_NAME = re.compile(r"[\w][\w.-]*")
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17


class InstanceDevice(enum.Enum):
    """The device that carries the instance's frames to the bridge."""

    VETH = "veth"
    INTERNAL = "internal"
    HYBRID = "hybrid"
    """A veth on a Linux bridge of its own, and a pair from there to the switch's bridge."""


def _interfaces(texts: Sequence[str | Interface]) -> tuple[Interface, ...]:
    return tuple(ip_interface(text) for text in texts)


@frozen(kw_only=True)
class Plug:
    """The plug of an instance into a bridge, as a compute service makes it.

    ``device`` is the name on the host; on a veth the instance calls its own end ``eth0``.  That of
    a hybrid plug is ``qvo...``, on the switch's bridge; beyond are ``qvb...`` and the Linux bridge
    ``qbr...``, on which the instance's ``tap...`` is.
    ``external_ids`` are written to the interface in OVSDB (``iface-id``, ``attached-mac``, ...),
    ``tag`` is the port's VLAN.
    """

    bridge: str
    device: str
    kind: InstanceDevice = InstanceDevice.VETH
    mac: str | None = None
    addresses: tuple[Interface, ...] = field(default=(), converter=_interfaces)
    gateways: tuple[str, ...] = ()
    mtu: int = 1500
    tag: int | None = None
    external_ids: Mapping[str, str] = field(factory=dict)


class Instance(NamespaceOwner):
    """A namespace on a host; on the host it is ``/run/netns/<name>``, as for ``ip netns``."""

    def __init__(self, name: str, host: NamespaceContext, ovs: PrivateOvs | None) -> None:
        self.name = name
        self.device: str | None = None
        self._pair: str | None = None
        """The host's end of the veth pair."""
        self._host = host
        self._ovs = ovs
        self.namespaces = NamespaceContext()

    def open(self) -> None:
        """Create the namespace.

        :raises ConfigError: the name is not valid for a namespace.
        :raises Conflict: a namespace of that name exists.
        """
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"an instance cannot be called {self.name!r}")
        space = self._host.call(_make_namespace, self.name)
        spaces = {kind: os.dup(fd) for kind, fd in self._host.spaces.items() if kind != "net"}
        self.namespaces = NamespaceContext({**spaces, "net": space})

    def plug(self, plug: Plug) -> None:
        """Create the device, plug it into the bridge, and add its addresses.

        :raises ConfigError: the host has no Open vSwitch.
        """
        if self._ovs is None:
            raise ConfigError(f"{self.name} cannot be plugged: its host has no Open vSwitch")
        if plug.kind is InstanceDevice.VETH:
            self._make_veth(plug)
        elif plug.kind is InstanceDevice.HYBRID:
            self._make_hybrid(plug)
        else:
            self._make_internal(plug)
        self.configure(plug.addresses, plug.gateways)
        if self._pair is not None:
            wait_until(self._is_carrying, f"{self._pair} is up")

    def take(self, device: str) -> None:
        """Move a device that is already plugged from the host into this instance."""
        self._host.ip(f"link set {device} netns {self.name}")
        self.device = device

    def configure(self, addresses: Sequence[str | Interface], gateways: Sequence[str] = ()) -> None:
        """Set the device up with *addresses*, and default routes by *gateways*."""
        lines = [
            f"link set {self.device} up",
            *(f"addr replace {address} dev {self.device}" for address in addresses),
            *(f"route replace default via {gateway}" for gateway in gateways),
        ]
        try:
            self.namespaces.ip(*lines)
        except CommandFailed as error:
            if "File exists" not in str(error):
                raise
            self.namespaces.ip(*lines)  # the kernel has made the address from an advertisement

    def ping(
        self, address: str, count: int = 3, interval: float = 0.05, timeout: float = 2
    ) -> Ping:
        """Send *count* echo requests; return when all are answered, or *timeout* after."""
        pinger = self.call(Pinger, address, interval)
        return pinger.run(lambda sent: sent >= count, timeout)

    @contextlib.contextmanager
    def pinging(
        self, address: str, interval: float = 0.01, timeout: float = 2
    ) -> Iterator[BackgroundPing]:
        """Ping while the block runs; call ``stop()`` in it for the result."""
        background = BackgroundPing(self.call(Pinger, address, interval), timeout)
        try:
            yield background
        finally:
            background.stop()

    def close(self) -> None:
        self.namespaces.close()

    def _make_veth(self, plug: Plug) -> None:
        self._make_pair(plug, plug.device)
        self._add_port(plug)

    def _make_pair(self, plug: Plug, device: str) -> None:
        """Create a veth pair: the instance's end, and *device* on the host."""
        self.device, self._pair = "eth0", device
        mac = f"address {plug.mac}" if plug.mac else ""
        peer = f"peer name {self.device} mtu {plug.mtu} {mac} netns {self.name}"
        self._host.ip(
            f"link add {device} mtu {plug.mtu} type veth {peer}",
            f"link set {device} up",
        )
        self.namespaces.call(_fill_in_checksums, self.device)

    def _is_carrying(self) -> bool:
        """Return whether the host's end sends frames.

        It was set up before the other end: until the kernel has handled the carrier, which a busy
        machine does late, it drops what it is to send.
        """
        return "state UP" in self._host.run(["ip", "-o", "link", "show", "dev", str(self._pair)])

    def _make_hybrid(self, plug: Plug) -> None:
        """Create the devices that a compute service creates for a hybrid plug."""
        suffix = plug.device.removeprefix("qvo")
        if suffix in ("", plug.device):
            raise ConfigError(f"the device of a hybrid plug is called qvo..., not {plug.device!r}")
        bridge, end, tap = f"qbr{suffix}", f"qvb{suffix}", f"tap{suffix}"
        pair = f"link add {plug.device} mtu {plug.mtu} type veth peer name {end} mtu {plug.mtu}"
        self._host.ip(
            f"link add {bridge} type bridge forward_delay 0 mcast_snooping 0",
            pair,
            *(f"link set {name} addrgenmode none" for name in (bridge, end, plug.device)),
            f"link set {end} master {bridge}",
            *(f"link set {name} up" for name in (bridge, end, plug.device)),
        )
        self._make_pair(plug, tap)
        self._host.ip(f"link set {tap} addrgenmode none master {bridge}")
        self._add_port(plug)

    def _make_internal(self, plug: Plug) -> None:
        mac = [f"mac={_quoted(plug.mac)}"] if plug.mac else []
        self._add_port(plug, "type=internal", f"mtu_request={plug.mtu}", *mac)
        self.take(plug.device)

    def _add_port(self, plug: Plug, *columns: str) -> None:
        port = [] if plug.tag is None else [f"tag={plug.tag}"]
        ids = [f"external_ids:{key}={_quoted(value)}" for key, value in plug.external_ids.items()]
        settings = [*columns, *ids]
        more = ["--", "set", "Interface", plug.device, *settings] if settings else []
        assert self._ovs is not None
        self._ovs.vsctl("add-port", plug.bridge, plug.device, *port, *more)


def _make_namespace(name: str) -> int:
    """Create a namespace; return its descriptor.

    The directory is set up as drivers do it, who would else mount it over the namespace.
    """
    netns.create(name)
    netns.run_in(name, lab_syscalls.use_addresses_at_once)
    return netns.open_namespace(name)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _fill_in_checksums(device: str) -> None:
    """Make the kernel fill in checksums before frames leave *device*.

    A veth omits them by default; the switch's userspace datapath needs them.
    """
    value = struct.pack("II", _ETHTOOL_STXCSUM, 0)
    buffer = ctypes.create_string_buffer(value, len(value))
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCETHTOOL, request)
