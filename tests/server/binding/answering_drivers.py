"""Mechanism drivers that give the answers of a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, cast

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Refused,
)
from netfw.server.binding.algorithm import FAILURE

Answer = Callable[[BindingRequest], Any]


class Answering(MechanismDriver):
    """Binds as it is told."""

    VERSION = 2

    def __init__(self, name: str, answer: Answer) -> None:
        self.name, self.answer = name, answer

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise NotImplementedError

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo(self.name, {MechanismCapability.DELIVERS})

    def bind(self, request: BindingRequest) -> Binding:
        return cast(Binding, self.answer(request))

    def deliver(self, change: Change) -> None: ...


def refusing(name: str) -> Answering:
    return Answering(name, lambda request: Refused("not mine"))


def binding(name: str) -> Answering:
    return Answering(name, lambda request: Bound(segment=request.segments[0].id, vif_type=name))


def reasons(port: Mapping[str, Any]) -> list[str]:
    assert port["binding:vif_type"] == "binding_failed"
    return cast(list[str], port["binding:vif_details"][FAILURE])
