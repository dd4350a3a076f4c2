"""OutboxRecorder: records in the transaction what is to be delivered after the commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import MechanismCapability, MechanismDriver
from netfw.drivers.server.notifier import Notifier
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.subnet import Subnet
from netfw.model.values.ids import PortId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.outbox import Lane

LOG = logging.getLogger(__name__)

MECHANISM: Final = "mechanism/"
NOTIFIER: Final = "notifier/"


def delivers(driver: MechanismDriver) -> bool:
    """Return whether *driver* declares that it writes changes to a backend."""
    return MechanismCapability.DELIVERS in driver.describe().capabilities


def mechanism_name(driver: MechanismDriver) -> str:
    """Return the name of a mechanism driver in the outbox."""
    return MECHANISM + driver.describe().name


def notifier_name(notifier: Notifier) -> str:
    """Return the name of a notifier in the outbox."""
    return NOTIFIER + notifier.describe().name


class OutboxRecorder:
    """Records changes for the mechanism drivers that deliver, and for the notifiers they concern.

    A driver has one lane for each network, a notifier one for all. Without such drivers and
    notifiers it does nothing.
    """

    def __init__(
        self,
        mechanisms: Sequence[MechanismDriver],
        notifiers: Sequence[Notifier] = (),
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._drivers = tuple(mechanism_name(each) for each in mechanisms if delivers(each))
        self._notifiers = tuple((notifier_name(each), each) for each in notifiers)
        self._wake = wake

    @property
    def needed(self) -> bool:
        """Whether there are targets to deliver to."""
        return bool(self._drivers or self._notifiers)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Record a change; a second record of the same resource replaces the first."""
        resource = change.resource
        if isinstance(resource, Network | Subnet | Port):
            network = resource.id if isinstance(resource, Network) else resource.network_id
            for driver in self._drivers:
                self._note(unit, Lane(driver=driver, name=str(network)), change)
        self._note_for_notifiers(unit, change)

    def status_changed(self, unit: UnitOfWork, before: Port, after: Port) -> None:
        """Record for notifiers that the status of a port changed; drivers are not concerned."""
        if self._notifiers:
            request = unit.requester.request_id
            self._note_for_notifiers(unit, Change(before=before, after=after, request_id=request))

    def host_ready(self, unit: UnitOfWork, port: Port, host: str) -> None:
        """Record for notifiers that *host* is ready for the activation of a port."""
        if self._notifiers:
            request = unit.requester.request_id
            change = Change(before=port, after=port, request_id=request, ready_host=host)
            self._note_for_notifiers(unit, change)

    def gate(self, unit: UnitOfWork, ports: Collection[PortId]) -> Collection[PortId]:
        """Return those of *ports* with deliveries pending: they are not ACTIVE yet."""
        if not self._drivers or not ports:
            return ()
        waiting = unit.tx.outbox.undelivered(self._drivers, ports)
        return [port for port in ports if port in waiting]

    def _note_for_notifiers(self, unit: UnitOfWork, change: Change) -> None:
        for name, notifier in self._notifiers:
            if _concerns(notifier, change):
                self._note(unit, Lane(driver=name), change)

    def _note(self, unit: UnitOfWork, lane: Lane, change: Change) -> None:
        unit.tx.outbox.note(lane, change)
        if self._wake not in unit.after_commit:
            unit.after_commit.append(self._wake)


def _concerns(notifier: Notifier, change: Change) -> bool:
    try:
        return notifier.concerns(change)
    except Exception:  # the contract: an exception counts as yes
        LOG.exception("notifier %s: selecting its changes failed", notifier.describe().name)
        return True
