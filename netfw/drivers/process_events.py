"""Events of drivers that run processes."""

from __future__ import annotations

from attrs import frozen

from netfw.drivers.events import KeysChanged


@frozen
class ProcessDied(KeysChanged):
    """A process that serves these keys died; ``reason`` says which, and how it ended."""

    fatal: bool = False
    """The operator wants the agent to end, instead of having the process started again."""
