"""A fake fabric, a mechanism driver for it that keeps every promise, and the suite on it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from attrs import define, evolve, field

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
from netfw.errors import BackendBroken, BackendUnavailable, InvalidInput
from netfw.model.network import Network
from netfw.model.resource import Ref, Resource
from netfw.model.segment import NetworkType
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw.testing.conformance.server.mechanism import (
    MechanismDriverConformance,
    MechanismEnvironment,
)

FORBIDDEN, TOO_MUCH = "forbidden", "too much"


@define
class FakeFabric:
    """The resources of the fabric, and whether it is online."""

    present: dict[Ref, Resource] = field(factory=dict)
    online: bool = True

    def answer(self) -> dict[Ref, Resource]:
        if not self.online:
            raise BackendUnavailable("the fabric does not answer")
        return self.present

    def dump_state(self) -> Hashable:
        return frozenset(self.present.items())

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.online = False
        try:
            yield
        finally:
            self.online = True


class FabricDriver(MechanismDriver):
    """Delivers all changes to the fabric, and binds ports to VLANs."""

    VERSION: ClassVar[int] = 2

    def __init__(self, fabric: FakeFabric) -> None:
        self.fabric = fabric

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(host.share(FakeFabric, FakeFabric))

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("fabric", {MechanismCapability.DELIVERS})

    def validate(self, change: Change) -> None:
        if isinstance(change.after, Network) and change.after.name == FORBIDDEN:
            raise InvalidInput({"name": "the fabric has no such networks"})

    def bind(self, request: BindingRequest) -> Binding:
        if not any(agent.alive for agent in request.agents):
            return Refused("no agent of the host is alive")
        for segment in request.segments:
            if segment.provider.network_type is NetworkType.VLAN:
                return Bound(segment=segment.id, vif_type="other")
        return Refused("the fabric carries VLANs only")

    def deliver(self, change: Change) -> None:
        present = self.fabric.answer()
        if change.after is None:
            present.pop(change.ref, None)
        elif isinstance(change.after, Network) and change.after.name == TOO_MUCH:
            raise BackendBroken("the fabric is full")
        else:
            present[change.ref] = change.after


class FakeMechanismConformance(MechanismDriverConformance):
    """The suite on the fake fabric; ``DRIVER`` is the class of the drivers under test."""

    DRIVER: ClassVar[type[FabricDriver]] = FabricDriver

    @contextmanager
    def make_environment(self) -> Iterator[MechanismEnvironment]:
        fabric = FakeFabric()
        yield MechanismEnvironment(
            make=lambda: self.DRIVER(fabric), dump_state=fabric.dump_state, outage=fabric.outage
        )

    def bindable(self) -> BindingRequest | None:
        return samples.request(samples.PORT, samples.AGENT, segments=samples.SEGMENTS)

    def unacceptable(self) -> Change | None:
        return samples.change(None, evolve(samples.NETWORK, name=FORBIDDEN))

    def undeliverable(self) -> Change | None:
        return samples.change(None, evolve(samples.NETWORK, name=TOO_MUCH))
