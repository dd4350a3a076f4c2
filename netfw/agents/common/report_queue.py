"""Outbox: what is to be told to the source, kept until the source has heard it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from netfw.drivers.reports import Heartbeat, Report
from netfw.drivers.state_source import StateSource


class ReportQueue:
    """The newest report on each thing, in the order in which the things were first spoken of.

    It does not grow while the source is away: a later report on a thing takes the place of the
    earlier one.
    """

    def __init__(self) -> None:
        self._reports: dict[Hashable, Report] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def add(self, reports: Iterable[Report]) -> None:
        """Keep these until they are sent."""
        for report in reports:
            self._reports[_about(report)] = report

    def send(self, source: StateSource) -> None:
        """Tell everything in one message.

        :raises BackendUnavailable: it was perhaps not heard; all of it is kept.
        """
        if self._reports:
            source.report(tuple(self._reports.values()))
            self._reports.clear()


def _about(report: Report) -> Hashable:
    if isinstance(report, Heartbeat):
        return Heartbeat
    return type(report), report.ref, report.service
