"""Steps on the daemon of a router, whichever it is.  Pure values."""

from __future__ import annotations

from attrs import field, frozen

from netfw.linux.process.supervised_program import Program
from netfw_drivers.linux_router.plan.names import PartId, router_namespace


@frozen
class RunDaemon:
    """Write the configuration, and start the daemon or have it use the configuration."""

    backend: str
    """Name of the daemon."""
    router: PartId
    text_of_file: str = field(repr=False)
    program: Program | None
    """None: it is not started yet."""

    @property
    def text(self) -> str:
        verb = "configure" if self.program is None else "run"
        return f"{verb} {self.backend} in {router_namespace(self.router)}"


@frozen
class StopDaemon:
    """Stop the daemon, and remove its files."""

    backend: str
    """Name of the daemon."""
    router: PartId

    @property
    def text(self) -> str:
        return f"stop {self.backend} of router {self.router} and remove its files"


DaemonStep = RunDaemon | StopDaemon
