"""A driver of neutron-lib keeps, through the adapter, the promises of a mechanism driver."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import define, evolve, field
from neutron_lib import exceptions
from neutron_lib.plugins.ml2 import api

from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import BindingRequest
from netfw.model.segment import Segment
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw.testing.conformance.server.mechanism import (
    MechanismDriverConformance,
    MechanismEnvironment,
)
from netfw_drivers.neutron_adapter.driver import adapt

pytestmark = [pytest.mark.fakes, pytest.mark.spec("ML2-12")]

FORBIDDEN = "forbidden"


@define
class Switch:
    """A switch that stores what it is told."""

    stored: dict[str, str] = field(factory=dict)
    answers: bool = True

    def dump(self) -> Hashable:
        return tuple(sorted(self.stored.items()))

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.answers = False
        yield
        self.answers = True


class SwitchDriver(api.MechanismDriver):
    """A driver as vendors write them for Neutron."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    def initialize(self) -> None: ...

    def bind_port(self, context: Any) -> None:
        for segment in context.segments_to_bind:
            if segment[api.NETWORK_TYPE] == "vlan":
                context.set_binding(segment[api.ID], "other", {})

    def _refuse(self, context: Any) -> None:
        if context.current["name"] == FORBIDDEN:
            raise exceptions.InvalidInput(error_message="this name is not possible")

    def _store(self, context: Any) -> None:
        self._connect()
        self._refuse(context)
        self._switch.stored[context.current["id"]] = context.current["description"]

    def _remove(self, context: Any) -> None:
        self._connect()
        self._switch.stored.pop(context.current["id"], None)

    def _connect(self) -> None:
        if not self._switch.answers:
            raise ConnectionRefusedError("the switch is off")

    create_network_precommit = create_subnet_precommit = create_port_precommit = _refuse
    create_network_postcommit = create_subnet_postcommit = create_port_postcommit = _store
    update_network_postcommit = update_subnet_postcommit = update_port_postcommit = _store
    delete_network_postcommit = delete_subnet_postcommit = delete_port_postcommit = _remove


class TestNeutronDriver(MechanismDriverConformance):
    @contextmanager
    def make_environment(self) -> Iterator[MechanismEnvironment]:
        switch = Switch()
        yield MechanismEnvironment(
            make=lambda: adapt("acme")(SwitchDriver(switch)),
            dump_state=switch.dump,
            outage=switch.outage,
        )

    def bindable(self) -> BindingRequest:
        vlan: tuple[Segment, ...] = samples.SEGMENTS[1:]
        return samples.request(samples.PORT, segments=vlan)

    def unacceptable(self) -> Change:
        return samples.change(None, evolve(samples.NETWORK, name=FORBIDDEN))

    def undeliverable(self) -> Change:
        return self.unacceptable()
