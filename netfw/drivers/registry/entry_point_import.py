"""Import the object of an entry point, and refuse one whose import changes the process."""

from __future__ import annotations

import importlib
import sys
import threading
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

from netfw.drivers.registry.error_location import location_in, top_package
from netfw.drivers.registry.process_state import GlobalState
from netfw.errors import DriverInvalid


def import_object(point: EntryPoint, origin: str) -> object:
    """Import the object of *point*, of the distribution *origin*, with stevedore.

    The entry points are not read by stevedore: its caches, in the process and on disk, lack the
    distribution of an entry point and miss one that is installed later.

    :raises DriverInvalid: the import fails, or changes what everything else in the process uses.
    """
    from stevedore import ExtensionManager

    class OnePoint(ExtensionManager[Any]):
        def list_entry_points(self) -> list[EntryPoint]:
            return [point]

    def failed(_manager: object, _point: EntryPoint, exc: BaseException) -> NoReturn:
        raise exc

    if EntryPoint.pattern.match(point.value) is None:
        raise DriverInvalid(
            f"{point.group}: {point.name!r} from {origin} cannot be imported: its entry point is "
            f"{point.value!r}; write MODULE:CLASS"
        )
    try:
        effects = _import_effects(point.module)
        found: object = OnePoint(point.group, on_load_failure_callback=failed).extensions[0].plugin
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        raise DriverInvalid(
            f"{point.group}: {point.name!r} from {origin} cannot be imported: "
            f"{type(exc).__name__}: {exc}{location_in(top_package(point.module), exc)}"
        ) from exc
    if effects:
        raise DriverInvalid(
            f"{point.group}: {point.name!r} from {origin} cannot be used: the import of "
            f"{point.module} {' and '.join(effects)}; a driver leaves the process as it is"
        )
    return found


@lru_cache(maxsize=256)
def _import_effects(module: str) -> tuple[str, ...]:
    """Import *module*; return what that has changed in the process, again at each call.

    With other threads the cause of a change is unknown: the result is empty.
    """
    if module in sys.modules or threading.active_count() > 1:
        importlib.import_module(module)
        return ()
    before = GlobalState.read()
    importlib.import_module(module)
    return tuple(before.changes(GlobalState.read()))
