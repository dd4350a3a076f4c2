"""CreateBatches: creations that would wait for each other anyway, in one transaction.

Creations of one resource lock the same rows: addresses, quota, the head of the journal.  While one
runs, those that arrive wait and are then created together, which costs little more than one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from netfw import tracing
from netfw.drivers.server.query import Body, RequestContext
from netfw.errors import BackendError
from netfw.server.core.resource_handler import StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from netfw.server.core.server_context import ServerContext

LARGEST = 64
"""Creations of one transaction."""
GATHER = 0.004
"""Seconds for which a batch waits for as many requests as there were a moment ago."""
MEMORY = 0.05
"""Seconds for which the size of the last batch tells what to expect."""
MAX_IDLE = 64
"""Queues that are kept although nothing runs or waits."""

Key = tuple[str, RequestContext]
"""Resource and requester, without the id of the request."""


@define(eq=False)
class _Creation:
    """One request, and what became of it."""

    body: Body
    request_id: str
    trace: str = field(factory=tracing.current)
    woken: threading.Event = field(factory=threading.Event)
    leads: bool = False
    """Whether its thread creates the next batch."""
    created: Body | None = None
    error: BackendError | None = None


@define(eq=False)
class _Queue:
    """The creations of one key that wait while another one runs."""

    waiting: list[_Creation] = field(factory=list)
    running: bool = False
    expected: int = 0
    """Requests of the last batch, and those that waited when it ended."""
    ended: float = 0.0
    enough: threading.Event = field(factory=threading.Event)


class CreateBatches:
    """The creations of one process that run and wait.

    A batch that is refused is undone, and each of its requests runs by itself: the outcome of a
    request never depends on others, besides what they store.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._queues: dict[Key, _Queue] = {}

    def waiting(self) -> int:
        """Return the number of creations that wait for another one."""
        with self._lock:
            return sum(len(queue.waiting) for queue in self._queues.values() if queue.running)

    def create(
        self, requester: RequestContext, handler: StoredResourceHandler[Any], body: Body
    ) -> Body:
        """Create one resource, perhaps together with those of other requests.

        :raises RequestError: the request is refused.
        """
        key = handler.name, evolve(requester, request_id="")
        own = _Creation(body, requester.request_id)
        with self._context.database.admission():
            queue = self._enter(key, own)
            if not own.leads:
                own.woken.wait()
            if own.leads:
                batch = self._gather(queue)
                try:
                    if len(batch) > 1:
                        self._create(requester, handler, batch)
                    else:
                        (own.created,) = self._context.run(requester, handler.create, (body,))
                finally:
                    self._leave(queue, len(batch))
            if own.error is not None:
                raise own.error
            if own.created is not None:
                return own.created
            return self._context.run(requester, handler.create, (body,))[0]

    def _enter(self, key: Key, own: _Creation) -> _Queue:
        """Queue *own*; it leads if nothing runs."""
        with self._lock:
            queue = self._queues.get(key)
            if queue is None:
                self._forget_idle()
                queue = self._queues[key] = _Queue()
            queue.waiting.append(own)
            if not queue.running:
                queue.running = own.leads = True
                if time.monotonic() - queue.ended > MEMORY:
                    queue.expected = 0
            if len(queue.waiting) >= queue.expected:
                queue.enough.set()
            return queue

    def _forget_idle(self) -> None:
        if len(self._queues) >= MAX_IDLE:
            self._queues = {key: queue for key, queue in self._queues.items() if queue.running}

    @staticmethod
    def _gather(queue: _Queue) -> list[_Creation]:
        """Return the next batch, after a moment if more requests are expected."""
        queue.enough.wait(GATHER)
        # Only the leader takes from the list, and appending to it is atomic.
        batch = queue.waiting[:LARGEST]
        del queue.waiting[: len(batch)]
        return batch

    def _leave(self, queue: _Queue, size: int) -> None:
        """Have the first creation that waits create all that do."""
        with self._lock:
            queue.expected = min(LARGEST, size + len(queue.waiting))
            queue.ended = time.monotonic()
            if len(queue.waiting) < queue.expected:
                queue.enough.clear()
            if not queue.waiting:
                queue.running = False
                return
            first = queue.waiting[0]
            first.leads = True
        first.woken.set()

    def _create(
        self,
        requester: RequestContext,
        handler: StoredResourceHandler[Any],
        batch: Sequence[_Creation],
    ) -> None:
        """Create *batch*, and wake the other threads; those without a result run by themselves."""
        tracing.follow(each.trace for each in batch if each.trace != tracing.current())
        try:
            bodies = self._context.run(requester, _create_all, handler, batch)
            for each, body in zip(batch, bodies, strict=True):
                each.created = body
        except BackendError as exc:  # it may be done: no request may run again
            for each in batch:
                each.error = exc
        except Exception:  # noqa: BLE001 - the one that caused it gets it when it runs by itself
            pass
        finally:
            tracing.take_followed()
            for each in batch:
                each.woken.set()


def _create_all(
    unit: UnitOfWork, handler: StoredResourceHandler[Any], batch: Sequence[_Creation]
) -> tuple[Body, ...]:
    unit.batch_request_ids = tuple(each.request_id for each in batch)
    return handler.create(unit, [each.body for each in batch])
