"""Targets of the outbox: mechanism drivers, by resource, and notifiers, in batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from attrs import frozen

from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.server.notifier import Notifier
from netfw.errors import NetfwError
from netfw.server.db.outbox import OutboxEntry
from netfw.server.outbox.coalesce import MergedChange, coalesce
from netfw.server.outbox.recorder import mechanism_name, notifier_name

LOG = logging.getLogger(__name__)

NOTIFIED_AT_ONCE: Final = 100
DELIVERED_AT_ONCE: Final = 500


@frozen(kw_only=True)
class DeliveryOutcome:
    """Outcome of the delivery of some entries.

    Without an error they are delivered. With one they are refused for good, or, if *later*, they
    and all that follow are retried after a pause.
    """

    entries: tuple[OutboxEntry, ...]
    error: str = ""
    later: bool = False


class DeliveryTarget(Protocol):
    """Receiver of deliveries."""

    @property
    def name(self) -> str:
        """Name in the outbox."""

    @property
    def at_once(self) -> int:
        """Maximum of entries to read at once."""

    def steps(self, entries: Sequence[OutboxEntry]) -> Iterator[DeliveryOutcome]:
        """Deliver *entries* step by step; stop after a step that is for later."""


class DriverTarget:
    """A mechanism driver: receives each resource once, in its newest state.

    What it refuses is delivered once more after all that waited behind it: the newest state of a
    resource may need something that came after its first change.
    """

    at_once = DELIVERED_AT_ONCE

    def __init__(self, driver: MechanismDriver) -> None:
        self._driver, self.name = driver, mechanism_name(driver)

    def steps(self, entries: Sequence[OutboxEntry]) -> Iterator[DeliveryOutcome]:
        refused: list[MergedChange] = []
        for work in coalesce(entries):
            step = self._step(work)
            if step.error and not step.later:
                refused.append(work)
                continue
            yield step
            if step.later:
                return
        for work in refused:
            step = self._step(work)
            if step.error:
                LOG.error("%s refuses %s: %s", self.name, work.ref, step.error)
            yield step
            if step.later:
                return

    def _step(self, work: MergedChange) -> DeliveryOutcome:
        if work.change is None:
            return DeliveryOutcome(entries=work.entries)
        try:
            self._driver.deliver(work.change)
        except NetfwError as exc:
            return DeliveryOutcome(
                entries=work.entries, error=_error_text(exc), later=exc.retryable
            )
        except (Exception, SystemExit) as exc:  # a defect of a driver degrades one resource
            LOG.exception("%s failed with %s", self.name, work.ref)
            return DeliveryOutcome(entries=work.entries, error=_error_text(exc))
        return DeliveryOutcome(entries=work.entries)


class NotifierTarget:
    """A notifier: receives every change, in batches."""

    at_once = NOTIFIED_AT_ONCE

    def __init__(self, notifier: Notifier) -> None:
        self._notifier, self.name = notifier, notifier_name(notifier)

    def steps(self, entries: Sequence[OutboxEntry]) -> Iterator[DeliveryOutcome]:
        batch = tuple(entry for entry in entries if entry.error is None)
        if not batch:
            return
        try:
            self._notifier.notify([entry.change for entry in batch])
        except NetfwError as exc:
            if not exc.retryable:
                LOG.error("%s refuses %d changes: %s", self.name, len(batch), exc)
            yield DeliveryOutcome(entries=batch, error=_error_text(exc), later=exc.retryable)
        except (Exception, SystemExit) as exc:  # a defect of a notifier delays no other target
            LOG.exception("%s failed with %d changes", self.name, len(batch))
            yield DeliveryOutcome(entries=batch, error=_error_text(exc))
        else:
            yield DeliveryOutcome(entries=batch)


def _error_text(exc: BaseException) -> str:
    return str(exc) if isinstance(exc, NetfwError) and str(exc) else f"{type(exc).__name__}: {exc}"
