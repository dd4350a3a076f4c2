"""Log of convergence passes: what they did, what waits, and what failed."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from typing import TypeVar

from netfw.agents.common.agent import UNDER_WAY, ConvergeResult
from netfw.model.values.text_validation import render_names

LOG = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)


def log_pass(number: int, passed: ConvergeResult[K]) -> None:
    """Log the counts of a pass, the first keys that wait, and those that failed by reason."""
    waiting = _render_waiting(passed.outcome.waiting) if passed.counts.waiting else ""
    LOG.info("pass %d: %s%s", number, passed.counts, waiting)
    by_reason: dict[str, list[str]] = {}
    for key, error in passed.outcome.failed.items():
        by_reason.setdefault(str(error), []).append(str(key))
        if error.__cause__ is not None:
            LOG.debug("%s", key, exc_info=error)
    for reason, keys in by_reason.items():
        LOG.warning("%s: %s; retrying later", render_names(keys, len(keys)), reason)


def _render_waiting(waiting: Mapping[K, str]) -> str:
    """Render the first keys that wait, but for those whose work is under way."""
    texts = [f"{key} ({reason})" for key, reason in waiting.items() if reason != UNDER_WAY]
    return f": {render_names(texts, len(texts))}" if texts else ""
