"""LoggerMechanismDriver: logs what the framework calls it with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from attrs import fields_dict

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    MechanismCapability,
    MechanismDriver,
    Refused,
)

LOG = logging.getLogger(__name__)


class LoggerMechanismDriver(MechanismDriver):
    """A sample that logs each call, to show the order of calls.

    A validated change may be rolled back: it is logged at DEBUG.  A delivered change is committed:
    it is logged at INFO.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("logger", {MechanismCapability.DELIVERS})

    def validate(self, change: Change) -> None:
        LOG.debug("about to be committed: %s", render_change(change))

    def supported_qos_rules(self) -> None:
        return None

    def bind(self, request: BindingRequest) -> Binding:
        LOG.debug(
            "to be bound: port %s to host %s, level %d, one of %d segments",
            request.port.id, request.host, request.level, len(request.segments),
        )  # fmt: skip
        return Refused("logger binds no ports, it only logs")

    def deliver(self, change: Change) -> None:
        LOG.info("committed: %s", render_change(change))


def render_change(change: Change) -> str:
    """Render *change* in one line: the resource, names of the changed fields, its revision.

    Values are left out: names and descriptions are text of users.
    """
    before, after = change.before, change.after
    if after is None:
        what = "is gone"
    elif before is None:
        what = "is new"
    else:
        different = [
            name
            for name in fields_dict(type(after))
            if name != "revision" and getattr(before, name) != getattr(after, name)
        ]
        what = f"has another {', '.join(different)}" if different else "is as it was"
    request = f" (request {change.request_id})" if change.request_id else ""
    return f"{change.ref} {what}, revision {change.revision}{request}"
