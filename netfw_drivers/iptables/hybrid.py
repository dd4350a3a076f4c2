"""The names of a hybrid plug: a Linux bridge between an instance and the integration bridge."""

from __future__ import annotations

from netfw.errors import InvalidInput

SWITCH_END, BRIDGE_END, BRIDGE, TAP = "qvo", "qvb", "qbr", "tap"


def tap_of(device: str) -> str:
    """The instance's device that belongs to the device on the integration bridge.

    :raises InvalidInput: it is not that of a hybrid plug.
    """
    if not device.startswith(SWITCH_END):
        raise InvalidInput({"device": f"{device!r} is not called {SWITCH_END}...: no hybrid plug"})
    return TAP + device.removeprefix(SWITCH_END)
