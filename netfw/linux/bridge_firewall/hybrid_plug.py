"""The hybrid plug: a Linux bridge between an instance and the integration bridge.

iptables does not see packets at a port of Open vSwitch.  So the instance's device (``tap...``) is
put on a Linux bridge of its own (``qbr...``), and a veth pair connects that to the integration
bridge: ``qvb...`` on the Linux bridge, ``qvo...`` on the integration bridge.  Compute services use
the same names, and create such a plug themselves if a port asks for it; :func:`make_plug` is for
other programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from netfw.drivers.firewall import HYBRID_DEVICE_PREFIX
from netfw.errors import InvalidInput
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import (
    AddLinuxBridge,
    AddVeth,
    NetworkOperation,
    SetMaster,
    SetMtu,
    SetSysctl,
    SetUp,
)
from netfw.linux.ip.sysctl_names import device_parameter
from netfw.linux.ip.values import Link
from netfw.model.values.ids import PortId

_SWITCH_END, _BRIDGE_END, _BRIDGE, _TAP = HYBRID_DEVICE_PREFIX, "qvb", "qbr", "tap"
_NAME_LENGTH = 14


@frozen
class HybridPlug:
    """Device names of one plug."""

    suffix: str

    @classmethod
    def of(cls, port: PortId) -> HybridPlug:
        """Return the plug of a port, named as compute services name it."""
        return cls(f"{_TAP}{port}"[len(_TAP) : _NAME_LENGTH])

    @classmethod
    def with_switch_end(cls, device: str) -> HybridPlug:
        """Return the plug whose end on the integration bridge is *device*.

        :raises InvalidInput: it is not that of a hybrid plug.
        """
        if not device.startswith(_SWITCH_END) or device == _SWITCH_END:
            reason = f"{device!r} is not called {_SWITCH_END}...: the port has no hybrid plug"
            raise InvalidInput({"device": reason})
        return cls(device.removeprefix(_SWITCH_END))

    @property
    def switch_end(self) -> str:
        """End of the veth pair on the integration bridge: the port's device."""
        return _SWITCH_END + self.suffix

    @property
    def bridge_end(self) -> str:
        """End of the veth pair on the Linux bridge."""
        return _BRIDGE_END + self.suffix

    @property
    def bridge(self) -> str:
        """Name of the Linux bridge."""
        return _BRIDGE + self.suffix

    @property
    def tap(self) -> str:
        """Device of the instance."""
        return _TAP + self.suffix


def make_plug(network: NetlinkClient, plug: HybridPlug, mtu: int = 1500) -> None:
    """Create the bridge and the veth pair if missing, and add the tap to the bridge if it exists.

    The host has no address on the Linux bridge.  The caller puts ``switch_end`` on the integration
    bridge, and creates the tap.

    :raises Conflict: a device of such a name is something else.
    """
    names = (plug.bridge, plug.switch_end, plug.bridge_end, plug.tap)
    found = {name: network.link(name) for name in names}
    network.apply([*plan_plug(plug, mtu, found)])


def plan_plug(
    plug: HybridPlug, mtu: int, found: dict[str, Link | None]
) -> Iterator[NetworkOperation]:
    """Yield the operations that complete *plug*.  Pure."""
    if found[plug.bridge] is None:
        yield AddLinuxBridge(plug.bridge)
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
