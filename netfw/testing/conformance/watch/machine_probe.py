"""Reads the machine: links in every named namespace, and the rows of every Open vSwitch of the lab.

A device that goes down and up again is as before: netlink events tell of it.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from netfw.errors import NetfwError
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.netlink.messages import parse_attributes, parse_messages
from netfw.linux.netlink.raw_socket import NetlinkOverrun, RawNetlinkSocket
from netfw.testing.conformance.watch.machine_state import IDENTITY, MachineState
from netfw.testing.lab import openvswitch, sandbox

_COLUMNS = {
    "Bridge": "_uuid,name,fail_mode,datapath_type,protocols",
    "Port": "_uuid,name,tag,trunks,vlan_mode",
    "Interface": "_uuid,name,type,mtu_request",
}
_BRIDGE = "OVS bridge "
_LINK_GROUP, _NEW_LINK, _NAME_ATTRIBUTE, _IFF_UP = 1, 16, 3, 1
_LINK_HEADER = struct.Struct("=BxHiII")
"""ifinfomsg: family, type, index, flags, change."""
_BUFFER = 1 << 20


def read_machine() -> MachineState:
    """Return the links and rows of this sandbox; nothing outside of one."""
    if not sandbox.inside():
        return MachineState()
    return without_switch_devices({**dict(_links()), **dict(_rows())})


def without_switch_devices(objects: Mapping[str, Mapping[str, object]]) -> MachineState:
    """Return *objects* without what a switch changes of its own devices, at its own time.  Pure.

    The device of a bridge takes the lowest MAC and MTU of its ports.
    """
    bridges = [name.removeprefix(_BRIDGE) for name in objects if name.startswith(_BRIDGE)]
    own = {f"device {name}" for name in bridges}
    return MachineState(
        {
            name: {} if name in own else attributes
            for name, attributes in objects.items()
            if name != "device ovs-netdev"
        }
    )


@contextmanager
def bounced_devices() -> Iterator[list[str]]:
    """Collect the devices that went down, in every namespace that there is now.

    The list is filled when the context ends.  A device that is down all the time is not in it: a
    switch changes the MTU of its own at its own time.
    """
    down: list[str] = []
    with ExitStack() as stack:
        sockets = [] if not sandbox.inside() else list(_link_sockets(stack))
        yield down
        for listener in sockets:
            down += _devices_down(listener)


def _link_sockets(stack: ExitStack) -> Iterator[RawNetlinkSocket]:
    def listen() -> RawNetlinkSocket:
        return RawNetlinkSocket(
            socket.NETLINK_ROUTE, groups=[_LINK_GROUP], receive_buffer=_BUFFER, timeout=0
        )

    for namespace in (None, *sorted(netns.names())):
        try:
            yield stack.enter_context(netns.run_in(namespace, listen))
        except (NetfwError, OSError):  # it was deleted, or is none
            continue


def _devices_down(listener: RawNetlinkSocket) -> Iterator[str]:
    while True:
        try:
            data = listener.receive()
        except BlockingIOError:
            return
        except NetlinkOverrun:
            continue
        for message in parse_messages(data):
            if message.kind == _NEW_LINK:
                *_, flags, changed = _LINK_HEADER.unpack_from(message.body)
                if changed & _IFF_UP and not flags & _IFF_UP:
                    attributes = parse_attributes(message.body[_LINK_HEADER.size :])
                    yield bytes(attributes[_NAME_ATTRIBUTE]).rstrip(b"\0").decode()


def _links() -> Iterator[tuple[str, dict[str, object]]]:
    for namespace in (None, *sorted(netns.names())):
        try:
            with NetlinkClient(namespace) as client:
                links = client.links()
        except NetfwError:  # it was deleted, or is none
            continue
        for name, link in links.items():
            at = f" in the namespace {namespace}" if namespace else ""
            yield (
                f"device {name}{at}",
                {
                    IDENTITY: f"ifindex {link.index}",
                    "mac": link.mac,
                    "mtu": link.mtu,
                    "up": link.up,
                },
            )


def _rows() -> Iterator[tuple[str, dict[str, object]]]:
    for switch in openvswitch.running():
        for table, columns in _COLUMNS.items():
            try:
                output = switch.vsctl("--format=json", f"--columns={columns}", "list", table)
            except NetfwError:  # it is stopped
                continue
            yield from _parse_rows(table, output)


def _parse_rows(table: str, output: str) -> Iterator[tuple[str, dict[str, object]]]:
    parsed: dict[str, Any] = json.loads(output or '{"headings": [], "data": []}')
    for values in parsed["data"]:
        row = dict(zip(parsed["headings"], values, strict=True))
        row[IDENTITY] = row.pop("_uuid")[1]
        yield f"OVS {table.lower()} {row.pop('name')}", row
