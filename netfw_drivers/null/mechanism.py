"""Mechanism drivers that have no backend: one that says what happens, and one that is a name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from attrs import fields_dict

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.change import Change
from netfw.drivers.mechanism import (
    Binding,
    BindingRequest,
    MechanismCapability,
    MechanismDriver,
    Refused,
)

LOG = logging.getLogger(__name__)


class LoggerMechanismDriver(MechanismDriver):
    """Logs what a driver is told: a sample, and a look at the order of things.

    What is checked may be rolled back, so it is for debugging; what is delivered has happened.
    """

    VERSION: ClassVar[int] = 1

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("logger", {MechanismCapability.DELIVERS})

    def validate(self, change: Change) -> None:
        LOG.debug("about to be committed: %s", told(change))

    def bind(self, request: BindingRequest) -> Binding:
        LOG.debug(
            "to be bound: port %s to host %s, level %d, one of %d segments",
            request.port.id, request.host, request.level, len(request.segments),
        )  # fmt: skip
        return Refused("logger binds no ports, it only logs")

    def deliver(self, change: Change) -> None:
        LOG.info("committed: %s", told(change))


class L2PopulationMechanismDriver(MechanismDriver):
    """A name that configurations have, and nothing to do.

    Forwarding entries are a view of what each agent reads, if it has ``l2_population = true``.
    """

    VERSION: ClassVar[int] = 1

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("l2population")

    def bind(self, request: BindingRequest) -> Binding:
        return Refused("l2population binds no ports, it leaves that to others")


def told(change: Change) -> str:
    """*change* in a line: what it is about, its revision, and the names of what is different.

    Values stay out of it: names and descriptions are other people's texts.
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
