"""The part of an L2 agent that a router needs: its ports are moved from the dead VLAN."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Self

from netfw.errors import NetfwError
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.operations import OvsdbTable, SetColumns
from netfw.ovs.ovsdb.values import IFACE_ID, OvsdbPort
from netfw.testing.conformance.dhcp.lab_host import DEAD
from netfw.testing.lab.wait import wait_until

_ANSWER = 5.0
"""Seconds that a call waits for the database."""
_PAUSE = 0.05
"""Seconds between attempts while the database does not answer."""


class PortAdmission:
    """Admission of known ports to their VLANs, as soon as they are plugged, by its own thread."""

    def __init__(self, remote: str) -> None:
        self._ovsdb = Ovsdb(remote, timeout=_ANSWER, pause=_PAUSE)
        self._lock = threading.Lock()
        self._vlans: dict[str, int] = {}
        self._due = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="port-admission", daemon=True)

    def __enter__(self) -> Self:
        self._ovsdb.watch(lambda _: self._due.set())
        self._due.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._due.set()
        self._thread.join()
        self._ovsdb.close()

    def add(self, port: str, vlan: int) -> None:
        """Admit *port* to *vlan*, now or once it is plugged."""
        self._vlans[port] = vlan
        self._due.set()

    def remove(self, port: str) -> None:
        """Move *port* to the dead VLAN if it is plugged, and leave it there."""
        with self._lock:
            self._vlans.pop(port, None)
            plugged = [each for each in self._ovsdb.snapshot().ports.values() if _id(each) == port]
            self._set_tags((each, DEAD) for each in plugged)

    def wait_admitted(self, ports: Collection[str], seconds: float) -> None:
        """Wait until those of *ports* that are known and plugged are admitted."""
        wanted = frozenset(ports) & self._vlans.keys()

        def admitted() -> bool:
            self._ovsdb.sync()
            return not any(_id(port) in wanted for port in self._dead())

        wait_until(admitted, "ports are not admitted", seconds=seconds)

    def _run(self) -> None:
        while self._due.wait() and not self._ended.is_set():
            self._due.clear()
            try:
                self._admit()
            except NetfwError:  # the switch is stopped in an outage
                self._ended.wait(_PAUSE)
                self._due.set()

    def _admit(self) -> None:
        with self._lock:
            known = [(port, self._vlans.get(_id(port))) for port in self._dead()]
            self._set_tags((port, vlan) for port, vlan in known if vlan is not None)

    def _set_tags(self, tags: Iterable[tuple[OvsdbPort, int]]) -> None:
        changes = [
            SetColumns(table=OvsdbTable.PORT, record=port.name, values={"tag": tag})
            for port, tag in tags
        ]
        self._ovsdb.run(changes, wait=False)

    def _dead(self) -> tuple[OvsdbPort, ...]:
        ports = self._ovsdb.snapshot().ports.values()
        return tuple(port for port in ports if port.tag == DEAD)


def _id(port: OvsdbPort) -> str:
    return port.interface.external_ids.get(IFACE_ID, "")
