"""Cache of the instance behind an address.

Answers have a short TTL, since an instance sends many requests while it boots.  Concurrent requests
for the same address share one query.  During an outage of the source, one thread queries it and the
others fail at once, so that they do not occupy all worker threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from attrs import frozen

from netfw.agents.metadata.headers import RequestingInstance
from netfw.drivers.values.agent_requests import FindPorts
from netfw.errors import NetfwError, NotFound
from netfw.http.http_error import RETRY_AFTER, HttpError
from netfw.model.port import Port

LOG = logging.getLogger(__name__)

FindPortsQuery = Callable[[FindPorts], tuple[Port, ...]]


@frozen(kw_only=True)
class CachePolicy:
    """The TTL of answers in seconds; 0: not cached."""

    found: float = 5.0
    none: float = 1.0
    """TTL of the answer that there is no such instance, and of errors."""
    most: int = 20_000
    """Maximum number of answers; beyond it, the oldest are evicted."""


Answer = RequestingInstance | HttpError


class InstanceCache:
    """Answers from the source, shared by all threads."""

    def __init__(
        self,
        query: FindPortsQuery,
        policy: CachePolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._query, self._clock = query, clock
        self.policy = policy or CachePolicy()
        self._lock = threading.Lock()
        self._cache: OrderedDict[FindPorts, tuple[float, Answer]] = OrderedDict()
        self._in_flight: dict[FindPorts, Future[Answer]] = {}
        self._probing = threading.Lock()
        self.problem = ""
        """Why the source does not answer; empty: it does."""
        self.hits = self.lookups = 0

    def __len__(self) -> int:
        return len(self._cache)

    def find(self, request: FindPorts) -> RequestingInstance:
        """Return the instance behind an address.

        :raises HttpError: there is none, or more than one, or the source does not answer.
        """
        answer = self._answer(request)
        if isinstance(answer, HttpError):
            # A new error: a raised one carries the traceback of its thread.
            raise HttpError(answer.status, answer.word, str(answer), answer.headers)
        return answer

    def mark_available(self) -> None:
        """End the outage: the source has answered another request."""
        self._set_problem("")

    def _answer(self, request: FindPorts) -> Answer:
        with self._lock:
            cached = self._cache.get(request)
            if cached is not None and self._clock() < cached[0]:
                self.hits += 1
                return cached[1]
            mine: Future[Answer] = Future()
            first = self._in_flight.setdefault(request, mine)
        return self._fetch_shared(request, mine) if first is mine else first.result()

    def _fetch_shared(self, request: FindPorts, flight: Future[Answer]) -> Answer:
        """Query the source, for all threads that wait for *flight*."""
        try:
            answer = self._fetch(request)
        except BaseException as exc:
            flight.set_exception(exc)
            raise
        finally:
            with self._lock:
                del self._in_flight[request]
        flight.set_result(answer)
        return answer

    def _fetch(self, request: FindPorts) -> Answer:
        if not self.problem:
            return self._query_and_store(request)
        if not self._probing.acquire(blocking=False):
            return _unavailable()
        try:
            return self._query_and_store(request)
        finally:
            self._probing.release()

    def _query_and_store(self, request: FindPorts) -> Answer:
        self.lookups += 1
        answer: Answer
        try:
            answer = _only(self._query(request))
        except NotFound as exc:
            LOG.info("%s: %s", _describe(request), exc)
            answer = _not_found()
        except NetfwError as exc:
            self._set_problem(str(exc))
            answer = _unavailable()
        else:
            self._set_problem("")
        self._store(request, answer)
        return answer

    def _set_problem(self, problem: str) -> None:
        if problem and not self.problem:
            LOG.warning("instance lookup failed: %s", problem)
        elif self.problem and not problem:
            LOG.warning("instance lookup: recovered")
        self.problem = problem

    def _store(self, request: FindPorts, answer: Answer) -> None:
        policy = self.policy
        seconds = policy.found if isinstance(answer, RequestingInstance) else policy.none
        with self._lock:
            self._cache.pop(request, None)
            if seconds > 0:
                self._cache[request] = self._clock() + seconds, answer
            while len(self._cache) > policy.most:
                self._cache.popitem(last=False)


def _only(ports: tuple[Port, ...]) -> Answer:
    if len(ports) != 1:
        return _not_found()
    instance = RequestingInstance(ports[0].device_id, ports[0].project_id or "")
    return instance if instance.fits_header else _not_found()


def _not_found() -> HttpError:
    return HttpError(404, "HTTPNotFound", "no instance is known by this address here")


def _unavailable() -> HttpError:
    text = "the instance cannot be looked up now; try again"
    return HttpError(503, "ServiceUnavailable", text, {"Retry-After": RETRY_AFTER})


def _describe(request: FindPorts) -> str:
    location = (
        f"network {request.network}" if request.network is not None else f"router {request.router}"
    )
    return f"{request.address} on {location}"
