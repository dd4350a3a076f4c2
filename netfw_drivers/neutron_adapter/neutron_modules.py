"""Stand-ins for modules of Neutron that drivers import beside neutron-lib.

Where Neutron is not installed, any of its modules can be imported, and whatever is used of it is
refused by name.  Two modules have a meaning in netfw, and are always supplied:

- ``neutron.db.provisioning_blocks``: a driver that blocks a port completes it by itself;
- ``neutron.services.trunk.drivers.base``: only where Neutron is not installed; trunk drivers can be
  made, and are never called.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final, NoReturn

from netfw_drivers.neutron_adapter.current_call import current_call, refuse

ROOT: Final = "neutron"


def add_provisioning_component(
    context: object, object_id: str, object_type: str, entity: str
) -> None:
    """Note that the driver completes the port by itself."""
    if (call := current_call()) is not None:
        call.components.add(entity)


def provisioning_complete(context: object, object_id: str, object_type: str, entity: str) -> None:
    """Accept that a component is complete: a delivery that returns completes the port."""


class TrunkDriver:
    """Base of trunk drivers; the ports of trunks are refused where they would be bound."""

    def __init__(self, *arguments: object, **options: object) -> None:
        self.arguments, self.options = arguments, options


BLOCKS: Final = "neutron.db.provisioning_blocks"
SUPPLIED: Final[Mapping[str, Mapping[str, object]]] = {
    BLOCKS: {
        "add_provisioning_component": add_provisioning_component,
        "provisioning_complete": provisioning_complete,
    },
    "neutron.services.trunk.drivers.base": {"DriverBase": TrunkDriver},
}


class AbsentCode:
    """An object of Neutron that is not installed: its attributes are found, a use is refused."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> AbsentCode:
        if name.startswith("__"):
            raise AttributeError(name)
        return AbsentCode(f"{self._path}.{name}")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        refuse(self._path)

    def __mro_entries__(self, bases: Sequence[object]) -> NoReturn:
        refuse(f"the base class {self._path}")

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._path}, which is not installed>"


class NeutronModuleFinder(MetaPathFinder, Loader):
    """Finds modules of Neutron; with *everything*, also those that netfw does not supply."""

    def __init__(self, *, everything: bool) -> None:
        self._everything = everything

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == BLOCKS or (self._everything and fullname.partition(".")[0] == ROOT):
            return ModuleSpec(fullname, self, is_package=fullname not in SUPPLIED)
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(SUPPLIED.get(module.__name__, {}))
        vars(module)["__getattr__"] = _attributes(module.__name__)


def _attributes(module: str) -> Callable[[str], Any]:
    def find(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        path = f"{module}.{name}"
        if any(each == path or each.startswith(f"{path}.") for each in SUPPLIED):
            return importlib.import_module(path)
        return AbsentCode(path)

    return find


def install_finder() -> None:
    """Have this process find the stand-ins; once is enough."""
    if not any(isinstance(each, NeutronModuleFinder) for each in sys.meta_path):
        everything = PathFinder.find_spec(ROOT) is None
        sys.meta_path.insert(0, NeutronModuleFinder(everything=everything))
