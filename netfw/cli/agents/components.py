"""Components of an agent: host resources, state source and drivers, made from its configuration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from netfw.agents.common.loop import Intervals
from netfw.cli.agents.common import (
    MetricsTargets,
    metrics_targets_of,
    source_of,
    status_path_of,
    timing_of,
)
from netfw.cli.runtime.driver_options import make, names
from netfw.conf.agent import GROUP
from netfw.drivers.base import Contract, Driver
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

D = TypeVar("D", bound=Driver)


class ConfiguredComponents(ABC):
    """State source and drivers of one agent; closing them changes nothing on the host.

    A subclass makes its own in `build`, each after those that it uses; they are closed in the
    reverse order, also when a later one cannot be made.

    :raises ConfigError: the configuration is not possible.
    """

    PROGRAM: ClassVar[str]
    REQUIRED: ClassVar[tuple[str, ...]] = ()
    """Options that name a driver without which the agent cannot work."""

    def __init__(self, conf: ConfigOpts) -> None:
        self._conf = conf
        for option in self.REQUIRED:
            if not conf.agent[option]:
                raise ConfigError(f"[{GROUP}] {option}: name a driver")
        with ExitStack() as stack:
            self._stack = stack
            self.drivers: list[Driver] = []
            self.host = stack.enter_context(LocalHostResources())
            self.source = source_of(conf, self.host, stack)
            self.build()
            self._stack = stack.pop_all()

    @abstractmethod
    def build(self) -> None:
        """Make the drivers and the agent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __str__(self) -> str:
        return f"host {self._conf.host}, source {self.source.describe().name}"

    def timing(self) -> Intervals:
        """Return the intervals that the options state now."""
        return timing_of(self._conf)

    def status_path(self) -> Path:
        """Return the path of the status file."""
        return status_path_of(self._conf, self.PROGRAM)

    def metrics_targets(self) -> MetricsTargets:
        """Return where metrics are published."""
        return metrics_targets_of(self._conf)

    def make_driver(self, kind: Contract[D], option: str, *, shared: bool = False) -> D:
        """Make the driver that *option* names; *shared*: later ones can use it."""
        driver = make(self._conf, kind, self._conf.agent[option], self.host)
        self._stack.callback(driver.close)
        self.drivers.append(driver)
        if shared:
            self.host.add(driver)
        return driver

    def make_drivers(
        self,
        kind: Contract[D],
        option: str,
        fallback: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[D]:
        """Make the drivers that *option* lists; *fallback* has values of options that they lack."""
        made: list[D] = []
        for name in names(self._conf, GROUP, option):
            made.append(make(self._conf, kind, name, self.host, fallback))
            self._stack.callback(made[-1].close)
        self.drivers += made
        return made

    def make_optional_driver(
        self,
        kind: Contract[D],
        option: str,
        fallback: Mapping[str, Any] = MappingProxyType({}),
    ) -> D | None:
        """Make the driver that *option* names, if it names one; see `make_drivers`."""
        made = self.make_drivers(kind, option, fallback)
        return made[0] if made else None


def name_of(driver: Driver | None) -> str:
    """Return the name of a driver that an option may leave out."""
    return "none" if driver is None else driver.describe().name
