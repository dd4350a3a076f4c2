"""Megaflows of a userspace datapath, which can outlive the flows that they were made from.

The userspace datapath of Open vSwitch 3.1 looks the megaflow to modify up by a packet, not by its
id.  Where two of them overlap it modifies the wrong one, and the other keeps its former actions
for as long as packets hit it, whatever the flows are by then: a permission that was revoked stays
in force.  The switch never repairs it by itself; deleting its megaflows does, and they are made
again from the flows with the next packets.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from netfw.errors import BackendUnavailable
from netfw.ovs.control_socket import ControlSocket
from netfw.ovs.openflow.connection import OpenFlowConnection

LOG = logging.getLogger(__name__)
_FIRST_CORRECT = (3, 3)
_VERSION = re.compile(r"\(Open vSwitch\) (\d+)\.(\d+)")


def can_outlive_flows(version: str, datapaths: str) -> bool:
    """Return whether megaflows of a switch can, by its replies to two commands.

    :param version: its reply to ``version``; a release that cannot be read is taken for an old one.
    :param datapaths: its reply to ``dpctl/dump-dps``.
    """
    found = _VERSION.search(version)
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    userspace = any(line.startswith("netdev@") for line in datapaths.splitlines())
    return userspace and release < _FIRST_CORRECT


class Megaflows:
    """Deletes outdated megaflows of the switch behind a local *connection*.

    Those of a switch that is reached by TCP cannot be deleted.
    """

    def __init__(self, connection: OpenFlowConnection) -> None:
        kind, _, path = connection.target.partition(":")
        local = kind == "unix"
        self._control = ControlSocket(Path(path).parent, connection.timeout) if local else None
        self._outdated = self._warned = False
        self._outlive: bool | None = None
        connection.on_state(self._connected)

    def mark_outdated(self) -> None:
        """Record that flows change now, whether the outcome gets known or not."""
        self._outdated = True

    def delete_outdated(self) -> None:
        """Delete what may be outdated since flows changed; what fails is done the next time."""
        if self._control is None or not self._outdated:
            return
        self._outdated = False
        try:
            if self._outlive is None:
                version = self._control.command("version")
                self._outlive = can_outlive_flows(version, self._control.command("dpctl/dump-dps"))
            if self._outlive:
                self._control.command("revalidator/purge")
        except BackendUnavailable as error:
            self._outdated = True
            if not self._warned:
                LOG.warning("a userspace datapath can keep outdated megaflows: %s", error)
            self._warned = True

    def _connected(self, up: bool) -> None:
        """Ask again: the switch may have been updated."""
        self._outlive = None
        self._warned = False
