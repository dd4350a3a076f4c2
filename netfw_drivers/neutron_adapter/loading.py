"""Load a mechanism driver of Neutron by its entry point, and initialize it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

from neutron_lib.callbacks import registry
from neutron_lib.plugins.ml2.api import MechanismDriver as NeutronDriver
from oslo_config import cfg

from netfw.errors import ConfigError, DriverInvalid
from netfw_drivers.neutron_adapter.current_call import calling, current_call
from netfw_drivers.neutron_adapter.error_translation import load_reason
from netfw_drivers.neutron_adapter.neutron_modules import install_finder
from netfw_drivers.neutron_adapter.plugin_context import publish_core_plugin

LOG = logging.getLogger(__name__)
T = TypeVar("T")

GROUP: Final = "neutron.ml2.mechanism_drivers"
_MOST_WARNINGS: Final = 20
_LOADING: Final = threading.Lock()
_FILES: Final[list[str]] = []
"""The files of all drivers of this process: drivers of Neutron share one global configuration."""


def load_driver(name: str, files: Sequence[str], *, lenient: bool) -> NeutronDriver:
    """Return the driver that is registered as *name*, initialized with the options in *files*.

    *lenient*: also one that needs something that netfw lacks, as far as it can be told at load.

    :raises ConfigError: a file cannot be read.
    :raises DriverInvalid: it cannot be imported or initialized, or needs what netfw lacks.
    """
    for file in files:
        if not os.access(file, os.R_OK):
            raise ConfigError(f"config_files: {file} cannot be read")
    with _LOADING, calling(name):
        install_finder()
        publish_core_plugin()
        kind = _checked(name, _attempt(name, "imported", _point(name).load))
        _configure(files)
        before = _subscriptions()
        driver = _attempt(name, "made", kind)
        _attempt(name, "initialized", driver.initialize)
        missing = _missing(name, kind, driver, _subscriptions() - before)
    logging.getLogger(kind.__module__.partition(".")[0]).addHandler(_WARNINGS)
    if missing and not lenient:
        raise DriverInvalid(
            f"mechanism driver {name!r} cannot be used: {'; '.join(missing)}; with ignore_missing "
            "it is loaded all the same, and these are never called"
        )
    for text in missing:
        LOG.warning("mechanism driver %r: %s; ignored", name, text)
    return driver


class _WarningCollector(logging.Handler):
    """Collects what a driver logs during a call: most say there why they do not bind a port."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        call = current_call()
        if call is not None and len(call.warnings) < _MOST_WARNINGS:
            call.warnings.append(record.getMessage())


_WARNINGS: Final = _WarningCollector()


def _point(name: str) -> EntryPoint:
    found = sorted(entry_points(group=GROUP, name=name), key=lambda point: point.value)
    if not found:
        raise DriverInvalid(f"{GROUP} has no entry point {name!r}")
    return found[0]


def _checked(name: str, found: object) -> type[NeutronDriver]:
    if isinstance(found, type) and issubclass(found, NeutronDriver):
        return found
    raise DriverInvalid(
        f"{GROUP}: {name!r} cannot be used: {found!r} is not a subclass of "
        f"{NeutronDriver.__module__}.{NeutronDriver.__name__}"
    )


def _attempt(name: str, what: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except (Exception, SystemExit) as exc:
        LOG.debug("mechanism driver %r cannot be %s", name, what, exc_info=True)
        raise DriverInvalid(f"{GROUP}: {name!r} cannot be {what}: {load_reason(exc)}") from exc


def _configure(files: Sequence[str]) -> None:
    """Read *files* into the global configuration, after those of drivers loaded before."""
    _FILES.extend(file for file in files if file not in _FILES)
    try:
        cfg.CONF(args=[], project="neutron", default_config_files=_FILES, default_config_dirs=[])
    except cfg.Error as exc:
        raise ConfigError(f"config_files: {exc}") from exc


def _subscriptions() -> frozenset[tuple[str, str]]:
    """Return the resources and events with callbacks in neutron-lib's registry."""
    found: dict[str, dict[str, Any]] = registry._get_callback_manager()._callbacks
    return frozenset((resource, event) for resource, events in found.items() for event in events)


def _missing(
    name: str,
    kind: type[NeutronDriver],
    driver: NeutronDriver,
    subscribed: frozenset[tuple[str, str]],
) -> list[str]:
    """Return what the driver needs and netfw lacks, as far as it can be told before a call."""
    missing = []
    if subscribed:
        events = ", ".join(f"{event} of {resource}" for resource, event in sorted(subscribed))
        missing.append(f"it subscribes to callbacks of Neutron ({events})")
    if kind.start_rpc_listeners is not NeutronDriver.start_rpc_listeners:
        missing.append("it starts RPC listeners for agents of its own")
    if _attempt(name, "asked for its workers", driver.get_workers):
        missing.append("it needs worker processes of Neutron's server")
    return missing
