"""GuaranteeOverlay: the guarantees of all ports as they will be after an update.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from attrs import evolve

from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import Wiring
from netfw.errors import NetfwError
from netfw.model.segment import Provider
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.pipeline.br_int import PlannedPort
from netfw_drivers.ovs.switch.plan.bandwidth_guarantees import (
    Guarantee,
    GuaranteePlan,
    make_guarantee,
    plan_guarantees,
)
from netfw_drivers.ovs.switch.plan.observed import Observed
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import SwitchStateOverlay


class GuaranteeOverlay:
    """The guarantees before an update, and those of the ports that it concerns."""

    def __init__(self, observed: Observed, wanted: SwitchStateOverlay, settings: Settings) -> None:
        self._observed, self._wanted, self._settings = observed, wanted, settings

    def plan(
        self,
        wired: Mapping[PortKey, PlannedPort],
        concerned: Set[PortKey],
        kept: Iterable[PortKey] | None,
    ) -> GuaranteePlan:
        """Plan the guarantees of *wired*, instead of those that *concerned* had.

        *kept*: the ports that a complete update leaves as they are; ``None``: the update is not
        complete, and removes nothing of ports that it does not concern.
        """
        before = self._observed.guarantees
        made: dict[PortKey, Guarantee] = {k: v for k, v in before.items() if k not in concerned}
        refused: dict[PortKey, NetfwError] = {}
        for key, port in wired.items():
            wiring = self._wanted.get(key, Wiring)
            provider = self._provider(port)
            if wiring is None or provider is None:
                continue
            found = make_guarantee(wiring, port.number, provider, self._settings)
            if isinstance(found, NetfwError):
                refused[key] = found
            elif found is not None:
                made[key] = found
        gone = {*self._numbers(concerned)}
        stays = None if kept is None else {*self._numbers([*kept])}
        planned = plan_guarantees(
            made,
            self._observed.snapshot,
            self._observed.traffic,
            self._settings,
            lambda number: number in gone if stays is None else number not in stays,
        )
        return evolve(planned, refused={**planned.refused, **refused})

    def _provider(self, port: PlannedPort) -> Provider | None:
        network = self._wanted.network(port.domain.network)
        segments = () if network is None else network.segments
        return next((each.provider for each in segments if each.id == port.domain.segment), None)

    def _numbers(self, keys: Collection[PortKey]) -> Iterator[int]:
        """Yield the numbers of ports in the switch, now and when they got their guarantees."""
        for key in keys:
            if key in self._observed.guarantees:
                yield self._observed.guarantees[key].number
            for port in self._observed.plugged.get(key.port, ()):
                number = ofport_of(port)
                if number is not None:
                    yield number
