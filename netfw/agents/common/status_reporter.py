"""Status reports of resources, from the results of their keys.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from attrs import frozen

from netfw.agents.common.jobs.job_tracker import JobResults
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import NetfwError
from netfw.model.resource import Resource, ref
from netfw.model.values.common_fields import Status

K = TypeVar("K", bound=Hashable)


@frozen
class KeyResult:
    """The result of the last attempt of a key; neither error nor wait: it is served."""

    error: NetfwError | None = None
    waits_for: str = ""

    @property
    def reason(self) -> str:
        """Why the key is not served, for operators; empty: it is."""
        if self.error is not None:
            return str(self.error)
        return f"it waits: {self.waits_for}" if self.waits_for else ""


class StatusReporter(Generic[K]):
    """Keeps the result of each key, and returns the reports that changed.

    *status_of* returns the status of a key with a result, and the reason if it is not served.
    """

    def __init__(
        self,
        host: str,
        service: Service,
        status_of: Callable[[K, KeyResult], tuple[Status, str]],
    ) -> None:
        self._host, self._service, self._status_of = host, service, status_of
        self._results: dict[K, KeyResult] = {}
        """Keys that were tried."""
        self._sent: dict[K, StatusReport] = {}
        self._unsent: set[K] = set()

    def record(self, results: JobResults[K]) -> None:
        """Record the results of keys."""
        self._results |= dict.fromkeys(results.done, KeyResult())
        self._results |= {key: KeyResult(error) for key, error in results.failed.items()}
        self._results |= {key: KeyResult(None, why) for key, why in results.waiting.items()}
        self._unsent.update(results)

    def touch(self, keys: Iterable[K]) -> None:
        """Have the reports of *keys* made and sent again, even equal ones.

        The source delivered or dropped their resources, and discards the reports on a resource
        that this host no longer implements, if only for a moment.
        """
        for key in keys:
            self._unsent.add(key)
            self._sent.pop(key, None)

    def resend(self) -> None:
        """Have `take` return every report once more."""
        self._unsent.update(self._results)
        self._sent.clear()

    def take(
        self, resource_of: Callable[[K], Resource | None], finished: Callable[[set[K]], set[K]]
    ) -> tuple[StatusReport, ...]:
        """Return the new reports; none of keys that are not *finished* as they are now."""
        reports = []
        for key in sorted(finished(self._unsent), key=str):
            self._unsent.discard(key)
            resource, result = resource_of(key), self._results.get(key)
            if resource is None or result is None:
                self._results.pop(key, None)
                self._sent.pop(key, None)
                continue
            report = self._report(key, resource, result)
            if self._sent.get(key) != report:
                self._sent[key] = report
                reports.append(report)
        return tuple(reports)

    def _report(self, key: K, resource: Resource, result: KeyResult) -> StatusReport:
        status, reason = self._status_of(key, result)
        return StatusReport(
            ref=ref(resource),
            revision=resource.revision,
            host=self._host,
            service=self._service,
            status=status,
            reason=reason,
        )
