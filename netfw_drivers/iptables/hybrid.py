"""The hybrid plug: a Linux bridge between an instance and the integration bridge.

On a port of Open vSwitch iptables sees nothing.  So the instance's device (``tap...``) is put on a
Linux bridge of its own (``qbr...``), from which a veth pair leads on: ``qvb...`` on the Linux
bridge, ``qvo...`` on the integration bridge.  These are the names that compute services use, who
make such a plug themselves where a port says so; :func:`make_plug` is for everybody else.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from netfw.errors import InvalidInput
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import (
    AddBridge,
    AddVeth,
    DelLink,
    NetworkOperation,
    SetMaster,
    SetMtu,
    SetSysctl,
    SetUp,
)
from netfw.linux.ip.sysctl_names import device_parameter
from netfw.linux.ip.values import Link
from netfw.model.ids import PortId

_SWITCH_END, _BRIDGE_END, _BRIDGE, _TAP = "qvo", "qvb", "qbr", "tap"
_NAME_LENGTH = 14


@frozen
class HybridPlug:
    """The names of the devices of one plug."""

    suffix: str

    @classmethod
    def of(cls, port: PortId) -> HybridPlug:
        """Of a port, as compute services call them."""
        return cls(f"{_TAP}{port}"[len(_TAP) : _NAME_LENGTH])

    @classmethod
    def with_switch_end(cls, device: str) -> HybridPlug:
        """The plug whose end on the integration bridge is *device*.

        :raises InvalidInput: it is not that of a hybrid plug.
        """
        if not device.startswith(_SWITCH_END) or device == _SWITCH_END:
            said = f"{device!r} is not called {_SWITCH_END}...: the port has no hybrid plug"
            raise InvalidInput({"device": said})
        return cls(device.removeprefix(_SWITCH_END))

    @property
    def switch_end(self) -> str:
        """Of the veth pair, on the integration bridge; what a port's device is."""
        return _SWITCH_END + self.suffix

    @property
    def bridge_end(self) -> str:
        """Of the veth pair, on the Linux bridge."""
        return _BRIDGE_END + self.suffix

    @property
    def bridge(self) -> str:
        """The Linux bridge."""
        return _BRIDGE + self.suffix

    @property
    def tap(self) -> str:
        """The device of the instance."""
        return _TAP + self.suffix


def make_plug(network: NetlinkClient, plug: HybridPlug, mtu: int = 1500) -> None:
    """Make of *plug* what is missing: the bridge and the veth pair; and put the tap on, if it is.

    Nothing on the Linux bridge speaks for itself: the host has no address there.  Whoever calls
    puts ``switch_end`` on the integration bridge, and makes the tap.

    :raises Conflict: a device of such a name is something else.
    """
    names = (plug.bridge, plug.switch_end, plug.bridge_end, plug.tap)
    found = {name: network.link(name) for name in names}
    network.apply([*plan_plug(plug, mtu, found)])


def remove_plug(network: NetlinkClient, plug: HybridPlug) -> None:
    """Remove the bridge and the veth pair; what is gone already does not matter."""
    network.apply([DelLink(plug.switch_end), DelLink(plug.bridge)])


def plan_plug(
    plug: HybridPlug, mtu: int, found: dict[str, Link | None]
) -> Iterator[NetworkOperation]:
    """What is missing of *plug*.  Pure."""
    if found[plug.bridge] is None:
        yield AddBridge(plug.bridge)
    if found[plug.switch_end] is None:
        yield AddVeth(name=plug.switch_end, peer=plug.bridge_end)
    for name in (plug.bridge, plug.switch_end, plug.bridge_end):
        there = found[name]
        if there is None:
            yield SetSysctl(device_parameter("ipv6", name, "disable_ipv6"), "1")
        if name != plug.bridge and (there is None or there.mtu != mtu):
            yield SetMtu(name, mtu)
    for name in (plug.bridge_end, plug.tap):
        there = found[name]
        new_end = there is None and name == plug.bridge_end
        if new_end or (there is not None and there.master != plug.bridge):
            yield SetMaster(name, plug.bridge)
    for name in (plug.bridge, plug.switch_end, plug.bridge_end):
        there = found[name]
        if there is None or not there.up:
            yield SetUp(name)
