"""Directory: whose address it is.

Answers are kept for a moment, as an instance that boots asks many times.  Those who ask the same at
the same time wait for one answer.  While the source is away, one asks it and the others are told so
at once: they would keep the threads from everybody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from attrs import frozen

from netfw.agents.metadata.headers import Instance
from netfw.drivers.agent_requests import FindPorts
from netfw.errors import NetfwError, NotFound
from netfw.http.http_error import RETRY_AFTER, HttpError
from netfw.model.port import Port

LOG = logging.getLogger(__name__)

Ask = Callable[[FindPorts], tuple[Port, ...]]


@frozen(kw_only=True)
class CachePolicy:
    """How long answers are kept; 0 seconds: not at all."""

    found: float = 5.0
    none: float = 1.0
    """That there is no such instance, or that nobody could say."""
    most: int = 20_000
    """Answers; beyond them, the oldest go."""


Answer = Instance | HttpError


class InstanceCache:
    """Answers from the source, shared by all threads."""

    def __init__(
        self,
        ask: Ask,
        keeping: CachePolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._clock = ask, clock
        self.keeping = keeping or CachePolicy()
        self._lock = threading.Lock()
        self._kept: OrderedDict[FindPorts, tuple[float, Answer]] = OrderedDict()
        self._under_way: dict[FindPorts, Future[Answer]] = {}
        self._probing = threading.Lock()
        self.trouble = ""
        """Why the source does not answer; empty: it does."""
        self.hits = self.asked = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, request: FindPorts) -> Instance:
        """The instance that asks.

        :raises Refusal: there is none, or more than one, or nobody can say.
        """
        answer = self._answer(request)
        if isinstance(answer, HttpError):
            # One of its own: a raised error carries the trail of its thread.
            raise HttpError(answer.status, answer.word, str(answer), answer.headers)
        return answer

    def believe(self) -> None:
        """The source has answered something else meanwhile: all may ask it again."""
        self._note("")

    def _answer(self, request: FindPorts) -> Answer:
        with self._lock:
            kept = self._kept.get(request)
            if kept is not None and self._clock() < kept[0]:
                self.hits += 1
                return kept[1]
            mine: Future[Answer] = Future()
            first = self._under_way.setdefault(request, mine)
        return self._fetch_shared(request, mine) if first is mine else first.result()

    def _fetch_shared(self, request: FindPorts, flight: Future[Answer]) -> Answer:
        """Ask for all who wait for *flight*."""
        try:
            answer = self._asked(request)
        except BaseException as exc:
            flight.set_exception(exc)
            raise
        finally:
            with self._lock:
                del self._under_way[request]
        flight.set_result(answer)
        return answer

    def _asked(self, request: FindPorts) -> Answer:
        if not self.trouble:
            return self._learn(request)
        if not self._probing.acquire(blocking=False):
            return _away()
        try:
            return self._learn(request)
        finally:
            self._probing.release()

    def _learn(self, request: FindPorts) -> Answer:
        self.asked += 1
        answer: Answer
        try:
            answer = _only(self._ask(request))
        except NotFound as exc:
            LOG.info("%s: %s", _words(request), exc)
            answer = _nobody()
        except NetfwError as exc:
            self._note(str(exc))
            answer = _away()
        else:
            self._note("")
        self._keep(request, answer)
        return answer

    def _note(self, trouble: str) -> None:
        if trouble and not self.trouble:
            LOG.warning("instances cannot be told apart: %s", trouble)
        elif self.trouble and not trouble:
            LOG.warning("instances can be told apart again")
        self.trouble = trouble

    def _keep(self, request: FindPorts, answer: Answer) -> None:
        keeping = self.keeping
        seconds = keeping.found if isinstance(answer, Instance) else keeping.none
        with self._lock:
            self._kept.pop(request, None)
            if seconds > 0:
                self._kept[request] = self._clock() + seconds, answer
            while len(self._kept) > keeping.most:
                self._kept.popitem(last=False)


def _only(ports: tuple[Port, ...]) -> Answer:
    if len(ports) != 1:
        return _nobody()
    instance = Instance(ports[0].device_id, ports[0].project_id or "")
    return instance if instance.nameable else _nobody()


def _nobody() -> HttpError:
    return HttpError(404, "HTTPNotFound", "no instance is known by this address here")


def _away() -> HttpError:
    text = "who asks cannot be found out now; try again"
    return HttpError(503, "ServiceUnavailable", text, {"Retry-After": RETRY_AFTER})


def _words(request: FindPorts) -> str:
    place = (
        f"network {request.network}" if request.network is not None else f"router {request.router}"
    )
    return f"{request.address} on {place}"
