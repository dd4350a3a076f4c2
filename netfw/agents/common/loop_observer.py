"""LoopObserver: gets to know what the loop does, for metrics."""

from __future__ import annotations

from typing import Any

from netfw.agents.common.agent import ConvergeResult


class LoopObserver:
    """An observer that notes nothing; called by the thread of the loop, so it is quick."""

    def passed(self, result: ConvergeResult[Any], seconds: float) -> None:
        """Note a convergence pass, and how long it took."""

    def pulled(self) -> None:
        """Note that the source has answered."""
