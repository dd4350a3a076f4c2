"""Drivers that record what they are told, and a network to tell of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from attrs import evolve
from sqlalchemy import select, update

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    MechanismCapability,
    MechanismDriver,
    Refused,
)
from netfw.drivers.server.notifier import Notifier
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.values.ids import NetworkId, PortId
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import Now
from netfw.server.db.database import Transaction
from netfw.server.db.schema.tables import OUTBOX_LANES
from netfw.server.outbox.recorder import OutboxRecorder, delivers
from netfw.server.outbox.targets import DriverTarget, NotifierTarget
from netfw.server.outbox.worker import Delivered, DeliveryConfig, OutboxWorkerPool

QUICK = DeliveryConfig(poll=0.05, lease=30.0, first_pause=0.0, longest_pause=0.0)


class Recorder(MechanismDriver):
    """Records what it is told; *does* may raise, wait or note more."""

    VERSION = 2

    def __init__(
        self, name: str = "recorder", does: Callable[[Change], None] | None = None
    ) -> None:
        self._name, self.does = name, does
        self.changes: list[Change] = []
        self._lock = threading.Lock()

    @classmethod
    def from_conf(cls, options: Any, host: Any) -> Any:
        return cls()

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo(self._name, {MechanismCapability.DELIVERS})

    def bind(self, request: BindingRequest) -> Binding:
        return Refused("it only records")

    def deliver(self, change: Change) -> None:
        if self.does is not None:
            self.does(change)
        with self._lock:
            self.changes.append(change)

    def lines(self) -> list[str]:
        """Return the changes that were delivered, in short: ``port None>1``."""
        return [line(change) for change in self.changes]


class RecordingNotifier(Notifier):
    """A notifier that records its batches."""

    VERSION = 2

    def __init__(self, does: Callable[[Sequence[Change]], None] | None = None) -> None:
        self.batches: list[list[str]] = []
        self.does = does

    @classmethod
    def from_conf(cls, options: Any, host: Any) -> Any:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("notifier")

    def concerns(self, change: Change) -> bool:
        return isinstance(change.resource, Port)

    def notify(self, changes: Sequence[Change]) -> None:
        if self.does is not None:
            self.does(changes)
        self.batches.append([line(change) for change in changes])


def line(change: Change) -> str:
    """Return a change in short: the kind, and the revisions before and after."""
    before, after = (
        None if each is None else each.revision for each in (change.before, change.after)
    )
    return f"{change.ref.kind} {before}>{after}"


class OutboxEnvironment:
    """Networks and ports without rules, whose changes go to drivers."""

    def __init__(
        self,
        context: ServerContext,
        *drivers: MechanismDriver,
        notifiers: Sequence[Notifier] = (),
        delivered: Delivered = lambda unit, ports: None,
        pace: DeliveryConfig = QUICK,
    ) -> None:
        self.context = context
        targets = [DriverTarget(each) for each in drivers if delivers(each)]
        targets += [NotifierTarget(each) for each in notifiers]  # type: ignore[misc]
        self.delivery = OutboxWorkerPool(context, targets, delivered, pace)
        self.outbox = OutboxRecorder(drivers, notifiers, self.delivery.wake)
        context.precommit_hooks.append(self.outbox.watch)

    def network(self) -> NetworkId:
        new = Network(id=NetworkId(uuid4()), project_id="p")
        self._do(lambda unit: unit.insert(new))
        return new.id

    def port(self, network: NetworkId) -> PortId:
        id = PortId(uuid4())
        tail = ":".join(f"{each:02x}" for each in id.bytes[:3])
        new = Port(id=id, network_id=network, project_id="p", mac=f"fa:16:3e:{tail}")
        self._do(lambda unit: unit.insert(new))
        return id

    def touch(self, kind: Kind, id: UUID, *more: UUID) -> None:
        """Change resources, in one transaction."""

        def work(unit: UnitOfWork) -> None:
            for each in (id, *more):
                before: Any = unit.tx.resources.get(kind, each).resource()
                unit.update(before, evolve(before, description=before.description + "x"))

        self._do(work)

    def delete(self, kind: Kind, id: UUID) -> None:
        self._do(lambda unit: unit.delete(unit.tx.resources.get(kind, id).resource()))

    def waiting(self) -> int:
        """Return the number of entries, refused ones included."""
        backlogs = self.context.database.transaction(lambda tx: tx.outbox.backlogs())
        return sum(each.waiting + each.failed for each in backlogs.values())

    def end_pauses(self) -> tuple[float, ...]:
        """End the back-off of all lanes; return the seconds that were left of each, sorted."""
        left = (OUTBOX_LANES.c.retry_at - Now()).label("left")

        def work(tx: Transaction) -> list[int]:
            paused = select(left).where(OUTBOX_LANES.c.error != "").order_by(left)
            seconds = list(tx.connection.scalars(paused))
            tx.connection.execute(update(OUTBOX_LANES).values(retry_at=0))
            return seconds

        return tuple(each / 1000 for each in self.context.database.transaction(work))

    def _do(self, work: Callable[[UnitOfWork], Any]) -> None:
        self.context.run(SERVER, work)
