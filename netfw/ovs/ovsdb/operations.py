"""What can be asked of a switch's database, as values.  Pure; `netfw.ovs.ovsdb.client` carries it
out.

Ownership is guarded by the database, not by the plan: nothing is ever added over something that
exists, and ``expect`` names the ``external_ids`` that a port or its interface must still have.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from attrs import field, frozen

from netfw.model.values.address import Mac

Value = str | int | bool | tuple[str | int, ...] | None
"""A column's new content; ``None`` empties it."""


def _map() -> Mapping[str, str]:
    return field(factory=dict, hash=False)


class OvsdbTable(enum.StrEnum):
    """The tables whose rows can be changed."""

    SWITCH = "Open_vSwitch"
    BRIDGE = "Bridge"
    PORT = "Port"
    INTERFACE = "Interface"


@frozen(kw_only=True)
class AddBridge:
    """Make a bridge, with the internal port of its name.  Refused when there is one."""

    name: str
    datapath_type: str = ""
    fail_mode: str | None = None
    protocols: tuple[str, ...] = ()
    other_config: Mapping[str, str] = _map()
    external_ids: Mapping[str, str] = _map()

    @property
    def text(self) -> str:
        return f"add bridge {self.name}"


@frozen
class RemoveBridge:
    """Remove a bridge with all its ports; nothing when there is none."""

    name: str

    @property
    def text(self) -> str:
        return f"remove bridge {self.name}"


@frozen(kw_only=True)
class AddPort:
    """Put a port with one interface on a bridge.  Refused when the name is taken.

    ``external_ids`` and ``options`` are the interface's, where the agents look for ``iface-id``;
    ``other_config`` and ``port_external_ids`` are the port's.
    """

    bridge: str
    name: str
    type: str = ""
    """``internal``, ``patch``, ``vxlan``, ...; empty for a device that the system has."""
    mac: Mac | None = None
    mtu_request: int | None = None
    ofport_request: int | None = None
    tag: int | None = None
    options: Mapping[str, str] = _map()
    external_ids: Mapping[str, str] = _map()
    other_config: Mapping[str, str] = _map()
    port_external_ids: Mapping[str, str] = _map()

    @property
    def text(self) -> str:
        details = {
            "type": self.type,
            "mac": self.mac,
            "mtu_request": self.mtu_request,
            "ofport_request": self.ofport_request,
            "tag": self.tag,
            **self.options,
        }
        rendered = " ".join(f"{key}={value}" for key, value in details.items() if value)
        return f"add port {self.name} to {self.bridge} {rendered}".rstrip()


@frozen(kw_only=True)
class RemovePort:
    """Take a port off its bridge; nothing when there is none.

    Refused when it has not the ``external_ids`` of ``expect`` any more.
    """

    name: str
    expect: Mapping[str, str] = _map()

    @property
    def text(self) -> str:
        return f"remove port {self.name}"


@frozen(kw_only=True)
class SetColumns:
    """Change columns of one row, found by name (the switch's own row has none: ``"."``).

    ``values`` replaces whole columns.  ``keys`` sets single keys of map columns, or removes them
    (``None``), and leaves the other keys alone.  Refused when the row does not exist, or has not
    the ``external_ids`` of ``expect`` (``None``: it must not have that key).
    """

    table: OvsdbTable
    record: str
    values: Mapping[str, Value] = field(factory=dict, hash=False)
    keys: Mapping[str, Mapping[str, str | None]] = field(factory=dict, hash=False)
    expect: Mapping[str, str | None] = field(factory=dict, hash=False)

    @property
    def text(self) -> str:
        changes = [f"{column}={_shown(value)}" for column, value in self.values.items()]
        for column, keys in self.keys.items():
            changes += [f"{column}:{key}={_shown(value)}" for key, value in keys.items()]
        return f"set {self.table} {self.record} {' '.join(changes)}"


REMOVE_AT_ONCE = 10
"""Ports to remove in one transaction: removing hundreds at once stops the userspace datapath for
seconds, removing them by tens costs no more in all."""

OvsdbOperation = AddBridge | RemoveBridge | AddPort | RemovePort | SetColumns


def _shown(value: Value) -> str:
    return "(none)" if value is None else str(value)


def tunnel_port(bridge: str, name: str, kind: str, remote_ip: str, **options: str) -> AddPort:
    """Return a tunnel of *kind* (``vxlan``, ``geneve``, ``gre``) whose key flows set."""
    wanted = {"remote_ip": remote_ip, "in_key": "flow", "out_key": "flow", **options}
    return AddPort(bridge=bridge, name=name, type=kind, options=wanted)
