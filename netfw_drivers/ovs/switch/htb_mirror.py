"""HtbMirror: the HTB classes of devices that lead outside.  No policy."""

from __future__ import annotations

from collections.abc import Iterable

from netfw.errors import OperationRefused
from netfw.linux.tc.traffic_control import apply_traffic, read_traffic
from netfw.linux.tc.values import DeviceTraffic, TrafficChange
from netfw.plan import Stage


class HtbMirror:
    """The queueing disciplines of devices, read once, after own changes, and when all is compared:
    a switch that starts removes them.

    The devices must be in the namespace of the agent.
    """

    def __init__(self) -> None:
        self._read: dict[str, DeviceTraffic | None] = {}

    def read(self, devices: Iterable[str], *, audit: bool) -> dict[str, DeviceTraffic]:
        """Return those of *devices* that exist; with *audit*, as the machine has them.

        :raises BackendBroken: ``tc`` does not work here.
        """
        if audit:
            self._read.clear()
        found = {}
        for device in devices:
            if self._read.get(device) is None:
                self._read[device] = read_traffic(device)
            traffic = self._read[device]
            if traffic is not None:
                found[device] = traffic
        return found

    def execute(self, stage: Stage) -> None:
        """Change one device.

        :raises OperationRefused: the kernel refused.
        """
        (operation,) = stage.operations
        change = operation.payload
        assert isinstance(change, TrafficChange)
        self._read.pop(change.device, None)
        try:
            apply_traffic(change)
        except OperationRefused as refusal:
            raise OperationRefused({operation: refusal.reasons[change]}) from refusal
