"""One pass over the drivers of an L2 agent, in an order that lets no packet flow unfiltered.

1. The switch converges everything; ports without their filters are on hold.
2. The firewall converges.
3. The switch makes those ports live.

The first step is enough without a firewall, and for ports whose filters are there. A firewall in
the switch needs the same order: see decision 25.  Where such a switch has lost all its flows, and
nothing else has changed, no packet passes, and nothing has to be held: the firewall converges
first, and then the switch once.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Set
from typing import TypeVar, cast, get_args

from attrs import evolve

from netfw.agents.common.agent import ConvergeRequest, reread
from netfw.agents.common.extension_calls import ExtensionCallKey
from netfw.agents.l2.desired import DesiredState, L2Key
from netfw.agents.l2.desired_firewall import DesiredFirewall
from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.hybrid_ports import (
    FirewallUpdate,
    select_for_bridges,
    select_for_switch,
)
from netfw.agents.l2.supported_policy import restrict_to_capabilities
from netfw.drivers.firewall import (
    FilteredPort,
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
)
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import Admission, SwitchKey, SwitchValue, Wiring
from netfw.errors import BackendLocked, DriverCrashed, NetfwError, NotFound
from netfw.model.values.ids import PortId
from netfw.plan import Outcome, Update

LOG = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
Values = Mapping[SwitchKey, SwitchValue]


class ConvergencePass:
    """Runs passes over the drivers; tracks the ports whose filters are in force."""

    def __init__(
        self,
        switch: SwitchDriver,
        firewall: FirewallDriver | None,
        hybrid_firewall: FirewallDriver | None = None,
    ) -> None:
        self._switch, self._firewall = switch, firewall
        self._hybrid_firewall = hybrid_firewall
        self._filtered: dict[PortKey, FirewallValue] = {}
        self._unread: NetfwError | None = None

    def reread(self) -> NetfwError | None:
        """Have the drivers read the machine; return why one of them cannot: the others have.

        :raises BackendUnavailable: the machine does not answer.
        """
        drivers = (self._switch, self._firewall, self._hybrid_firewall)
        error = reread(driver for driver in drivers if driver is not None)
        if isinstance(error, DriverCrashed) and str(error) != str(self._unread):
            LOG.error("audit: %s", error, exc_info=error)
        self._unread = error
        return error

    def run(
        self, desired: DesiredState, task: ConvergeRequest[L2Key], wired: Set[PortId]
    ) -> tuple[Outcome[L2Key], dict[PortKey, Admission]]:
        """Converge *task*; return the outcome, and the admission of each port that was put.

        *wired* are the ports that are wired already.

        :raises NetfwError: nothing could be done, for a reason that concerns no single key.
        """
        keys = (
            task.keys
            | _recontribute(desired, task.keys)
            | _unwired_ports(desired, task.keys, wired)
        )
        switch_keys = frozenset(key for key in keys if isinstance(key, get_args(SwitchKey)))
        if task.complete:
            switch_keys |= desired.switch_keys()
        put = desired.switch_values(switch_keys)
        drop = switch_keys - put.keys()
        if task.complete and self._has_lost_everything(desired, put):
            results = self._filter_and_wire(desired, keys, put, drop)
        else:
            results = self._wire_and_filter(desired, keys, put, drop, complete=task.complete)
        results.append(desired.extensions.outcome(task.keys))
        results.append(_wiring_errors(desired.switch, put))
        admissions = {
            key: value.admission
            for key, value in put.items()
            if isinstance(key, PortKey) and isinstance(value, Wiring)
        }
        return merge_outcomes(results), admissions

    def _has_lost_everything(self, desired: DesiredState, put: Values) -> bool:
        """Return whether a switch that filters has lost all its flows, and only that has changed.

        Every port to be live was so before, with the same filters: so the firewall knows already
        what it needs from the switch, such as the zones of connections.
        """
        return (
            self._firewall is not None
            and FirewallCapability.IN_SWITCH in self._firewall.describe().capabilities
            and bool(self._filtered)
            and not self._held_back(desired, put)
            and not self._switch.forwards()
        )

    def _filter_and_wire(
        self,
        desired: DesiredState,
        keys: frozenset[L2Key],
        put: Values,
        drop: frozenset[SwitchKey],
    ) -> list[Outcome[L2Key]]:
        """Converge everything on a switch that forwards nothing, in two steps."""
        assert desired.firewall is not None
        self._filtered.clear()
        filtered = self._filter(desired.firewall, keys, Outcome(), complete=True)
        held_back = self._held_back(desired, put)
        return [filtered, self._wire({**put, **held_back}, drop, complete=True)]

    def _wire_and_filter(
        self,
        desired: DesiredState,
        keys: frozenset[L2Key],
        put: Values,
        drop: frozenset[SwitchKey],
        *,
        complete: bool,
    ) -> list[Outcome[L2Key]]:
        """Converge in three steps."""
        if complete:
            self._filtered.clear()  # the filters may be lost
        held_back = self._held_back(desired, put)
        results = [self._wire({**put, **held_back}, drop, complete=complete)]
        if self._firewall is not None and desired.firewall is not None:
            results.append(self._filter(desired.firewall, keys, results[0], complete))
            live = {k: put[k] for k in held_back if all(k in result.done for result in results)}
            results.append(self._wire(live))
        return results

    def _wire(
        self, put: Values, drop: frozenset[SwitchKey] = frozenset(), *, complete: bool = False
    ) -> Outcome[L2Key]:
        """Converge the switch.

        :raises BackendLocked: another agent has the switch, and so the filters as well.
        """
        update = Update(put=put, drop=drop, complete=complete)
        outcome = converge_isolated(self._switch, update)
        for error in outcome.failed.values():
            if isinstance(error, BackendLocked):
                raise error
        return cast(Outcome[L2Key], outcome)

    def _held_back(self, desired: DesiredState, put: Values) -> dict[SwitchKey, Wiring]:
        """Return the ports to put on hold: desired live, and without their filters.

        A port that is no longer filtered is not among them: the switch has to stop filtering it
        before the firewall removes its filters, or allowed traffic would be lost in between.
        """
        if desired.firewall is None:
            return {}
        filters = desired.firewall.values
        return {
            key: evolve(value, admission=Admission.HOLD, guard=_guard(value, filters.get(key)))
            for key, value in put.items()
            if isinstance(key, PortKey)
            and isinstance(value, Wiring)
            and value.admission is Admission.LIVE
            and self._filtered.get(key) != filters.get(key)
            and not _is_trusted(filters.get(key))
        }

    def _filter(
        self, filters: DesiredFirewall, keys: Iterable[L2Key], first: Outcome[L2Key], complete: bool
    ) -> Outcome[L2Key]:
        """Converge the firewall, without the ports that failed or wait in the switch."""
        assert self._firewall is not None
        firewall_keys = frozenset(key for key in keys if isinstance(key, get_args(FirewallKey)))
        if complete:
            firewall_keys |= frozenset(filters.values)
        supported = restrict_to_capabilities(
            firewall_keys, filters.values, self._firewall.describe()
        )
        put = supported.values
        update: Update[FirewallKey, FirewallValue]
        update = Update(put=put, drop=firewall_keys - put.keys(), complete=complete)
        stuck = {key for key in (*first.failed, *first.waiting) if isinstance(key, PortKey)}
        outcome = self._converge_firewalls(self._firewall, update.without(stuck))
        for key in firewall_keys:
            if isinstance(key, PortKey):
                self._filtered.pop(key, None)
                if key in outcome.done and key in put:
                    self._filtered[key] = put[key]
        refused = cast(Outcome[L2Key], Outcome(failed=supported.refused))
        return merge_outcomes([outcome, refused])

    def _converge_firewalls(
        self, firewall: FirewallDriver, update: FirewallUpdate
    ) -> Outcome[L2Key]:
        """Converge the firewall, and first that of ports which still have a hybrid plug."""
        if self._hybrid_firewall is None:
            return cast(Outcome[L2Key], converge_isolated(firewall, update))
        bridges = converge_isolated(self._hybrid_firewall, select_for_bridges(update))
        switch = converge_isolated(firewall, select_for_switch(update))
        return merge_outcomes([cast(Outcome[L2Key], each) for each in (bridges, switch)])


def _guard(wiring: Wiring, value: FirewallValue | None) -> frozenset[AllowedSource] | None:
    """Return the sources that the switch guards the port by, until the firewall does."""
    return value.sources if isinstance(value, FilteredPort) else wiring.guard


def _is_trusted(value: FirewallValue | None) -> bool:
    return isinstance(value, FilteredPort) and value.trusted


def _recontribute(desired: DesiredState, keys: frozenset[L2Key]) -> frozenset[PortKey]:
    """Call the extensions among *keys*; return the ports whose contributions changed."""
    parts = [key for key in keys if isinstance(key, ExtensionCallKey)]
    return frozenset(PortKey(port) for port in desired.extensions.call(parts))


def _unwired_ports(
    desired: DesiredState, keys: frozenset[L2Key], wired: Set[PortId]
) -> frozenset[PortKey]:
    """Return the ports that may wait for a network among *keys*."""
    networks = [key.network for key in keys if isinstance(key, NetworkKey)]
    ports = {port for network in networks for port in desired.switch.wired(network)}
    return frozenset(PortKey(port) for port in ports - wired)


def _wiring_errors(switch: DesiredSwitch, put: Values) -> Outcome[L2Key]:
    """Return the ports that are dead because of an error as failed."""
    failed: dict[L2Key, NetfwError] = {}
    for key in put:
        decision = switch.decision(key.port) if isinstance(key, PortKey) else None
        if decision is not None and decision.is_error:
            failed[key] = NotFound(decision.reason)
    return Outcome(failed=failed)


def merge_outcomes(outcomes: Iterable[Outcome[L2Key]]) -> Outcome[L2Key]:
    """Merge the outcomes of all steps; the worst result of each key counts."""
    done: set[L2Key] = set()
    failed: dict[L2Key, NetfwError] = {}
    waiting: dict[L2Key, str] = {}
    for outcome in outcomes:
        done |= outcome.done
        failed |= outcome.failed
        waiting |= outcome.waiting
    waits = {key: why for key, why in waiting.items() if key not in failed}
    return Outcome(frozenset(done - failed.keys() - waits.keys()), failed, waits)
