"""The mechanism drivers of netfw pass the suite that every mechanism driver passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
from attrs import evolve

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.mechanism import BindingRequest, MechanismDriver
from netfw.model.binding import VnicType
from netfw.model.values.json_document import JsonDocument
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw.testing.conformance.server.mechanism import (
    MechanismDriverConformance,
    MechanismEnvironment,
)

pytestmark = pytest.mark.fakes


class ByName(MechanismDriverConformance):
    """A driver as an operator gets it; it has no backend."""

    NAME: ClassVar[str]

    @contextmanager
    def make_environment(self) -> Iterator[MechanismEnvironment]:
        yield MechanismEnvironment(
            make=lambda: create(MechanismDriver, self.NAME, {}, LocalHostResources())
        )

    def bindable(self) -> BindingRequest | None:
        return None


class TestOpenvswitch(ByName):
    NAME = "openvswitch"

    def bindable(self) -> BindingRequest | None:
        return samples.request(samples.PORT, samples.AGENT, segments=samples.SEGMENTS)


class TestSriov(ByName):
    NAME = "sriovnicswitch"

    def bindable(self) -> BindingRequest | None:
        direct = evolve(samples.PORT.binding, vnic_type=VnicType.DIRECT)
        mapped = JsonDocument({"device_mappings": {"physnet1": ["eth1"]}})
        agent = evolve(samples.AGENT, agent_type="NIC Switch agent", configurations=mapped)
        port = evolve(samples.PORT, binding=direct)
        return samples.request(port, agent, segments=samples.SEGMENTS)


class TestLogger(ByName):
    NAME = "logger"


class TestL2Population(ByName):
    NAME = "l2population"
