"""Reasons of statuses, as hosts report them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from netfw.drivers.values.reports import StatusReport
from netfw.model.values.common_fields import Status

MAX_REASONS: Final = 8


def render_reason(reports: Iterable[StatusReport]) -> str | None:
    """Return why hosts do not report ACTIVE, for operators; ``None``: no host gives a reason.

    Of many hosts, the reasons of the first are in it.  A reason is text of the host: characters
    that would control a terminal are left out.
    """
    reasons = sorted(
        (report.host, report.service, _printable(report.reason))
        for report in reports
        if report.status is not Status.ACTIVE and report.reason
    )
    texts = [f"{host}: {reason}" for host, _, reason in reasons[:MAX_REASONS]]
    if len(reasons) > MAX_REASONS:
        texts.append(f"{len(reasons) - MAX_REASONS} more")
    return "; ".join(texts) or None


def _printable(text: str) -> str:
    return "".join(each for each in " ".join(text.split()) if each.isprintable())
