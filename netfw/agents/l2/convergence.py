"""One pass over the drivers of an L2 agent, in an order that lets no packet flow unfiltered.

1. The switch converges everything; ports without their filters are on hold.
2. The firewall converges.
3. The switch makes those ports live.

The first step is enough without a firewall, for ports whose filters are there, and for fresh ports
behind a firewall in the switch (see :mod:`netfw.agents.l2.fresh_ports`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar, cast, get_args

from attrs import evolve

from netfw.agents.common.agent import ConvergeRequest, refresh
from netfw.agents.l2.desired import DesiredState, L2Key
from netfw.agents.l2.desired_firewall import DesiredFirewall
from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.extensions import ExtensionPortKey, PortExtensions
from netfw.agents.l2.firewall_capabilities import restrict_to_capabilities
from netfw.agents.l2.fresh_ports import FreshPorts
from netfw.drivers.allowed_source import AllowedSource
from netfw.drivers.firewall import FilteredPort, FirewallDriver, FirewallKey, FirewallValue
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.switch_values import Admission, SwitchKey, SwitchValue, Wiring
from netfw.errors import BackendLocked, NetfwError, NotFound
from netfw.model.ids import PortId
from netfw.plan import Outcome, Update

K = TypeVar("K", bound=Hashable)
Values = Mapping[SwitchKey, SwitchValue]


class ConvergencePass:
    """Runs passes over the drivers; remembers for which ports the filters are there."""

    def __init__(self, switch: SwitchDriver, firewall: FirewallDriver | None) -> None:
        self._switch, self._firewall = switch, firewall
        self._filtered: dict[PortKey, FirewallValue] = {}
        self._fresh = FreshPorts()

    def run(
        self, wanted: DesiredState, task: ConvergeRequest[L2Key], held: frozenset[PortId]
    ) -> tuple[Outcome[L2Key], dict[PortKey, Admission]]:
        """Converge *task*.

        :raises NetfwError: nothing could be done, and no key is to blame.
        """
        if task.reread:
            for driver in (self._switch, self._firewall):
                if driver is not None:
                    refresh(driver)
        keys = task.keys | _recontribute(wanted, task.keys) | _left_behind(wanted, task.keys, held)
        switch_keys = frozenset(key for key in keys if isinstance(key, get_args(SwitchKey)))
        if task.complete:
            self._filtered.clear()  # perhaps the filters are what was lost
            switch_keys |= wanted.switch_keys()
        filters = {} if wanted.firewall is None else wanted.firewall.values
        self._fresh.start_pass(keys, filters, complete=task.complete)
        put = wanted.switch_values(switch_keys)
        held_back = self._held_back(wanted, put)
        results = [
            self._wire({**put, **held_back}, switch_keys - put.keys(), complete=task.complete)
        ]
        if self._firewall is not None and wanted.firewall is not None:
            results.append(self._filter(wanted.firewall, keys, results[0], task.complete))
            live = {k: put[k] for k in held_back if all(k in result.done for result in results)}
            results.append(self._wire(live))
        if task.complete:
            self._fresh.finish_complete_pass(failed=any(result.failed for result in results))
        results.append(_parts(wanted.extensions, task.keys))
        results.append(_faults(wanted.switch, put))
        admissions = {
            key: value.admission
            for key, value in put.items()
            if isinstance(key, PortKey) and isinstance(value, Wiring)
        }
        return _merged(results), admissions

    def _wire(
        self, put: Values, drop: frozenset[SwitchKey] = frozenset(), *, complete: bool = False
    ) -> Outcome[L2Key]:
        """Converge the switch.

        :raises BackendLocked: another agent has the switch, and so the filters as well.
        """
        update = Update(put=put, drop=drop, complete=complete)
        self._fresh.start_wiring(update)
        outcome = converge_isolated(self._switch, update)
        for error in outcome.failed.values():
            if isinstance(error, BackendLocked):
                raise error
        self._fresh.record_wiring(update, outcome)
        return cast(Outcome[L2Key], outcome)

    def _held_back(self, wanted: DesiredState, put: Values) -> dict[SwitchKey, Wiring]:
        """Return the ports to put on hold: desired live, and without their filters.

        A port that is no longer filtered is not among them: the switch has to stop filtering it
        before the firewall removes its filters, or allowed traffic would be lost in between.
        """
        if wanted.firewall is None:
            return {}
        filters = wanted.firewall.values
        return {
            key: evolve(value, admission=Admission.HOLD, guard=_guard(value, filters.get(key)))
            for key, value in put.items()
            if isinstance(key, PortKey)
            and isinstance(value, Wiring)
            and value.admission is Admission.LIVE
            and self._filtered.get(key) != filters.get(key)
            and not _is_trusted(filters.get(key))
            and not (value.filtered and self._fresh.is_fresh(key, wanted.switch.device(key.port)))
        }

    def _filter(
        self, filters: DesiredFirewall, keys: Iterable[L2Key], first: Outcome[L2Key], complete: bool
    ) -> Outcome[L2Key]:
        """Have the firewall take its part, without the ports that the switch could not take."""
        assert self._firewall is not None
        asked = frozenset(key for key in keys if isinstance(key, get_args(FirewallKey)))
        if complete:
            asked |= frozenset(filters.values)
        found = restrict_to_capabilities(asked, filters.values, self._firewall.describe())
        put = found.values
        update: Update[FirewallKey, FirewallValue]
        update = Update(put=put, drop=asked - put.keys(), complete=complete)
        stuck = {key for key in (*first.failed, *first.waiting) if isinstance(key, PortKey)}
        outcome = converge_isolated(self._firewall, update.without(stuck))
        self._fresh.record_filters(put, outcome)
        for key in asked:
            if isinstance(key, PortKey):
                self._filtered.pop(key, None)
                if key in outcome.done and key in put:
                    self._filtered[key] = put[key]
        refused = cast(Outcome[L2Key], Outcome(failed=found.refused))
        return _merged([cast(Outcome[L2Key], outcome), refused])


def _guard(wiring: Wiring, value: FirewallValue | None) -> frozenset[AllowedSource] | None:
    """What a switch that guards the port guards it by, until the firewall does."""
    return value.sources if isinstance(value, FilteredPort) else wiring.guard


def _is_trusted(value: FirewallValue | None) -> bool:
    return isinstance(value, FilteredPort) and value.trusted


def _recontribute(wanted: DesiredState, keys: frozenset[L2Key]) -> frozenset[PortKey]:
    """Call extensions for the parts among *keys*; the ports to which they add something else."""
    parts = [key for key in keys if isinstance(key, ExtensionPortKey)]
    return frozenset(PortKey(port) for port in wanted.extensions.call(parts))


def _left_behind(
    wanted: DesiredState, keys: frozenset[L2Key], held: frozenset[PortId]
) -> frozenset[PortKey]:
    """The ports that perhaps wait for a network among *keys*."""
    networks = [key.network for key in keys if isinstance(key, NetworkKey)]
    ports = {port for network in networks for port in wanted.switch.wired(network)}
    return frozenset(PortKey(port) for port in ports - held)


def _parts(contributions: PortExtensions, keys: frozenset[L2Key]) -> Outcome[L2Key]:
    parts = frozenset(key for key in keys if isinstance(key, ExtensionPortKey))
    failed: dict[L2Key, NetfwError] = {
        part: contributions.failed[part] for part in parts if part in contributions.failed
    }
    return Outcome(done=parts - failed.keys(), failed=failed)


def _faults(desired: DesiredSwitch, put: Values) -> Outcome[L2Key]:
    """The ports that are dead because something is wrong."""
    failed: dict[L2Key, NetfwError] = {}
    for key in put:
        decision = desired.decision(key.port) if isinstance(key, PortKey) else None
        if decision is not None and decision.fault:
            failed[key] = NotFound(decision.reason)
    return Outcome(failed=failed)


def _merged(outcomes: Iterable[Outcome[L2Key]]) -> Outcome[L2Key]:
    """What became of each key in all steps: the worst."""
    done: set[L2Key] = set()
    failed: dict[L2Key, NetfwError] = {}
    waiting: dict[L2Key, str] = {}
    for outcome in outcomes:
        done |= outcome.done
        failed |= outcome.failed
        waiting |= outcome.waiting
    waits = {key: why for key, why in waiting.items() if key not in failed}
    return Outcome(frozenset(done - failed.keys() - waits.keys()), failed, waits)
