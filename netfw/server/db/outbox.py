"""The outbox: undelivered changes for drivers in the order of commits, and leases of lanes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from attrs import evolve, frozen
from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from netfw.drivers.server.change import Change
from netfw.model.network import Network
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.segment import Segment
from netfw.model.wire import parse, render
from netfw.server.db.agents.heartbeats import Now
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.columns import storable
from netfw.server.db.schema.tables import OUTBOX, OUTBOX_LANES

LONGEST_ERROR: Final = 2000


@frozen(kw_only=True)
class Lane:
    """A queue delivered in order: one per network for a mechanism driver, one for a notifier."""

    driver: str
    name: str = ""


@frozen(kw_only=True)
class OutboxEntry:
    """One change to deliver to a driver."""

    seq: int
    position: int
    change: Change
    tried: bool
    """A delivery was started, and may have succeeded."""
    error: str | None
    """Why it waits for the operator; ``None``: it is delivered as soon as possible."""

    @property
    def number(self) -> tuple[int, int]:
        """The position in the order of commits."""
        return self.seq, self.position


@frozen(kw_only=True)
class Backlog:
    """The undelivered entries of a driver."""

    waiting: int
    failed: int
    oldest: float
    """Seconds since the oldest entry was committed."""


@frozen(kw_only=True)
class OutboxFailure:
    """An entry that was refused permanently, or a lane in back-off."""

    lane: Lane
    ref: Ref | None
    revision: int
    error: str
    attempts: int = 0


class OutboxRows:
    """The outbox, in one snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ready(self, drivers: Collection[str], limit: int) -> tuple[Lane, ...]:
        """Return lanes with entries to deliver that are neither leased nor paused."""
        same = (OUTBOX.c.driver == OUTBOX_LANES.c.driver) & (OUTBOX.c.lane == OUTBOX_LANES.c.lane)
        free = (OUTBOX_LANES.c.until <= Now()) & (OUTBOX_LANES.c.retry_at <= Now())
        rows = (
            select(OUTBOX.c.driver, OUTBOX.c.lane)
            .outerjoin(OUTBOX_LANES, same)
            .where(
                OUTBOX.c.driver.in_(sorted(drivers)),
                OUTBOX.c.error.is_(None),
                or_(OUTBOX_LANES.c.driver.is_(None), free),
            )
            .group_by(OUTBOX.c.driver, OUTBOX.c.lane)
            .order_by(func.min(OUTBOX.c.seq))
            .limit(limit)
        )
        return tuple(
            Lane(driver=driver, name=name) for driver, name in self._connection.execute(rows)
        )

    def waiting(self, lane: Lane, limit: int) -> tuple[OutboxEntry, ...]:
        """Return the oldest entries of a lane that are not refused, in order."""
        rows = select(OUTBOX).where(*_of(lane), OUTBOX.c.error.is_(None))
        ordered = rows.order_by(OUTBOX.c.seq, OUTBOX.c.position).limit(limit)
        return tuple(map(_entry, self._connection.execute(ordered)))

    def refused(self, lane: Lane, ids: Collection[UUID]) -> tuple[OutboxEntry, ...]:
        """Return the permanently refused entries of resources, in order."""
        wanted = OUTBOX.c.resource_id.in_(sorted(map(str, ids)))
        rows = select(OUTBOX).where(*_of(lane), OUTBOX.c.error.is_not(None), wanted)
        ordered = rows.order_by(OUTBOX.c.seq, OUTBOX.c.position)
        return tuple(map(_entry, self._connection.execute(ordered)))

    def undelivered(self, drivers: Collection[str], ids: Collection[UUID]) -> frozenset[UUID]:
        """Return those of *ids* with an undelivered entry of one of *drivers*."""
        found: set[UUID] = set()
        wanted = sorted(map(str, ids))
        for at in range(0, len(wanted), AT_ONCE):
            rows = select(OUTBOX.c.resource_id).where(
                OUTBOX.c.resource_id.in_(wanted[at : at + AT_ONCE]),
                OUTBOX.c.driver.in_(sorted(drivers)),
            )
            found |= {UUID(id) for id in self._connection.execute(rows).scalars()}
        return frozenset(found)

    def backlogs(self) -> Mapping[str, Backlog]:
        """Return the backlog of each driver."""
        rows = select(
            OUTBOX.c.driver,
            func.count(),
            func.count(OUTBOX.c.error),
            Now() - func.min(OUTBOX.c.at),
        ).group_by(OUTBOX.c.driver)
        return {
            driver: Backlog(
                waiting=count - failed, failed=failed, oldest=max(0.0, float(age) / 1000)
            )
            for driver, count, failed, age in self._connection.execute(rows)
        }

    def failures(self, limit: int = 1000) -> tuple[OutboxFailure, ...]:
        """Return the permanently refused entries, and the lanes whose last attempts failed."""
        refused = (
            select(OUTBOX)
            .where(OUTBOX.c.error.is_not(None))
            .order_by(OUTBOX.c.seq, OUTBOX.c.position)
        )
        paused = select(OUTBOX_LANES).where(OUTBOX_LANES.c.error != "")
        return (
            *(_problem(row) for row in self._connection.execute(refused.limit(limit))),
            *(
                OutboxFailure(
                    lane=Lane(driver=row.driver, name=row.lane),
                    ref=None,
                    revision=0,
                    error=row.error,
                    attempts=row.attempts,
                )
                for row in self._connection.execute(paused.limit(limit))
            ),
        )


class Outbox(OutboxRows):
    """The outbox in a transaction: changes are collected, and written at its end."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._noted: dict[tuple[str, Ref], tuple[Lane, Change]] = {}

    def note(self, lane: Lane, change: Change) -> None:
        """Collect a change for the driver of *lane*; changes of one resource are coalesced."""
        key = lane.driver, change.ref
        former = self._noted.pop(key, None)
        if former is None:
            self._noted[key] = lane, change
        elif former[1].before is not None or change.after is not None:
            self._noted[key] = lane, evolve(change, before=former[1].before)

    def undelivered(self, drivers: Collection[str], ids: Collection[UUID]) -> frozenset[UUID]:
        """Return those of *ids* with an undelivered or collected entry of one of *drivers*."""
        noted = {ref.id for driver, ref in self._noted if driver in drivers}
        return super().undelivered(drivers, ids) | noted.intersection(ids)

    @property
    def noted(self) -> bool:
        """Whether changes are collected."""
        return bool(self._noted)

    def write(self, seq: int) -> None:
        """Write the collected changes as of commit *seq*."""
        rows = [
            _row(seq, position, lane, change)
            for position, (lane, change) in enumerate(self._noted.values())
        ]
        self._noted.clear()
        if rows:
            self._connection.execute(insert(OUTBOX).values(at=Now()), rows)

    # Leases of lanes.

    def claim(self, lane: Lane, owner: str, lease: float) -> int | None:
        """Lease a lane to *owner* for *lease* seconds.

        Return the number of the attempt, or ``None`` if the lane is leased or paused.
        """
        row = self._connection.execute(
            select(OUTBOX_LANES, Now().label("now")).where(*_same(lane)).with_for_update()
        ).first()
        if row is not None and max(row.retry_at, row.until) > row.now:
            return None
        if row is None:
            self._open(lane)
        attempt = 1 if row is None else row.attempts + 1
        until = Now() + int(lease * 1000)
        self._set(lane, owner=owner, until=until, attempts=attempt)
        return attempt

    def mark_tried(self, entries: Iterable[OutboxEntry]) -> None:
        """Record that the delivery of *entries* starts."""
        for part in _parts([each.number for each in entries if not each.tried]):
            these = tuple_(OUTBOX.c.seq, OUTBOX.c.position).in_(part)
            self._connection.execute(update(OUTBOX).where(these).values(tried=True))

    def renew(self, owner: str, lanes: Iterable[Lane], lease: float) -> None:
        """Renew the leases of *owner* on *lanes* for another *lease* seconds."""
        until = Now() + int(lease * 1000)
        for lane in lanes:
            mine = OUTBOX_LANES.c.owner == owner, OUTBOX_LANES.c.until > 0
            self._connection.execute(
                update(OUTBOX_LANES).where(*_same(lane), *mine).values(until=until)
            )

    def release(self, lane: Lane, owner: str) -> None:
        """Release the lane, and reset its attempts."""
        self._connection.execute(
            delete(OUTBOX_LANES).where(*_same(lane), OUTBOX_LANES.c.owner == owner)
        )

    def release_all(self, owner: str) -> None:
        """Release all lanes of *owner*."""
        mine = OUTBOX_LANES.c.owner == owner
        self._connection.execute(update(OUTBOX_LANES).where(mine).values(until=0))

    def pause(self, lane: Lane, owner: str, seconds: float, error: str) -> None:
        """Release the lane, and pause it for the back-off of *seconds*."""
        retry_at = Now() + int(seconds * 1000)
        mine = OUTBOX_LANES.c.owner == owner
        self._connection.execute(
            update(OUTBOX_LANES)
            .where(*_same(lane), mine)
            .values(until=0, retry_at=retry_at, error=storable(error, LONGEST_ERROR))
        )

    def reset_attempts(self, lane: Lane, owner: str) -> None:
        """Reset the back-off of the lane."""
        mine = OUTBOX_LANES.c.owner == owner
        self._connection.execute(
            update(OUTBOX_LANES).where(*_same(lane), mine).values(attempts=1, error="")
        )

    def delete(self, entries: Iterable[OutboxEntry]) -> None:
        """Delete delivered entries."""
        for part in _parts([each.number for each in entries]):
            these = tuple_(OUTBOX.c.seq, OUTBOX.c.position).in_(part)
            self._connection.execute(delete(OUTBOX).where(these))

    def fail(self, entries: Iterable[OutboxEntry], error: str) -> None:
        """Mark entries as permanently refused, for the operator."""
        for part in _parts([each.number for each in entries]):
            these = tuple_(OUTBOX.c.seq, OUTBOX.c.position).in_(part)
            text = storable(error, LONGEST_ERROR) or "refused"
            self._connection.execute(update(OUTBOX).where(these).values(error=text))

    def retry(self, driver: str | None = None) -> int:
        """Retry refused entries and paused lanes of one driver or of all; return their number."""
        refused: list[ColumnElement[bool]] = [OUTBOX.c.error.is_not(None)]
        paused: list[ColumnElement[bool]] = [OUTBOX_LANES.c.retry_at > 0]
        if driver is not None:
            refused.append(OUTBOX.c.driver == driver)
            paused.append(OUTBOX_LANES.c.driver == driver)
        count = self._connection.execute(update(OUTBOX).where(*refused).values(error=None)).rowcount
        values = {"retry_at": 0, "attempts": 0, "error": ""}
        return (
            count
            + self._connection.execute(update(OUTBOX_LANES).where(*paused).values(values)).rowcount
        )

    def delete_driver(self, driver: str) -> int:
        """Delete all entries of a driver that is no longer used; return their number."""
        self._connection.execute(delete(OUTBOX_LANES).where(OUTBOX_LANES.c.driver == driver))
        return self._connection.execute(delete(OUTBOX).where(OUTBOX.c.driver == driver)).rowcount

    def _open(self, lane: Lane) -> None:
        row = {"owner": "", "until": 0, "attempts": 0, "retry_at": 0, "error": ""}
        try:
            self._connection.execute(
                insert(OUTBOX_LANES).values(driver=lane.driver, lane=lane.name, **row)
            )
        except IntegrityError as exc:
            raise RetryTransaction("another process works on the lane") from exc

    def _set(self, lane: Lane, **values: Any) -> None:
        self._connection.execute(update(OUTBOX_LANES).where(*_same(lane)).values(values))


def _of(lane: Lane) -> tuple[ColumnElement[bool], ...]:
    return OUTBOX.c.driver == lane.driver, OUTBOX.c.lane == lane.name


def _same(lane: Lane) -> tuple[ColumnElement[bool], ...]:
    return OUTBOX_LANES.c.driver == lane.driver, OUTBOX_LANES.c.lane == lane.name


def _row(seq: int, position: int, lane: Lane, change: Change) -> dict[str, Any]:
    context = {
        "network": None if change.network is None else render(change.network),
        "segments": [render(segment) for segment in change.segments],
        "request_id": change.request_id,
        "ready_host": change.ready_host,
    }
    return {
        "seq": seq,
        "position": position,
        "driver": lane.driver,
        "lane": lane.name,
        "kind": change.ref.kind.value,
        "resource_id": str(change.ref.id),
        "revision": change.revision,
        "before": _text(change.before),
        "after": _text(change.after),
        "context": json.dumps(context, separators=(",", ":")),
        "tried": False,
        "error": None,
    }


def _text(resource: Resource | None) -> str | None:
    return None if resource is None else json.dumps(render(resource), separators=(",", ":"))


def _entry(row: Any) -> OutboxEntry:
    kind, context = Kind(row.kind), json.loads(row.context)
    network = context["network"]
    segments = tuple(cast(Segment, parse(Kind.SEGMENT, each)) for each in context["segments"])
    change = Change(
        before=_resource(kind, row.before),
        after=_resource(kind, row.after),
        network=None if network is None else cast(Network, parse(Kind.NETWORK, network)),
        segments=segments,
        request_id=context["request_id"],
        ready_host=context.get("ready_host", ""),
    )
    return OutboxEntry(
        seq=row.seq, position=row.position, change=change, tried=bool(row.tried), error=row.error
    )


def _problem(row: Any) -> OutboxFailure:
    return OutboxFailure(
        lane=Lane(driver=row.driver, name=row.lane),
        ref=Ref(Kind(row.kind), UUID(row.resource_id)),
        revision=row.revision,
        error=row.error,
    )


def _resource(kind: Kind, text: str | None) -> Resource | None:
    return None if text is None else parse(kind, json.loads(text))


def _parts(numbers: Sequence[tuple[int, int]]) -> Iterable[Sequence[tuple[int, int]]]:
    step = AT_ONCE // 2
    return (numbers[at : at + step] for at in range(0, len(numbers), step))
