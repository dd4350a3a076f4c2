"""Drivers in the style of neutron-lib, installed and loaded for one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from neutron_lib.callbacks import registry
from oslo_config import cfg

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.mechanism import MechanismDriver
from netfw_drivers.neutron_adapter import loading
from netfw_drivers.neutron_adapter.driver import NeutronMechanismDriver
from netfw_drivers.neutron_adapter.neutron_modules import NeutronModuleFinder
from tests.unit.drivers.registry.vendor_site import Site

HEAD = """
from neutron_lib.plugins.ml2 import api

class Acme(api.MechanismDriver):
    def initialize(self):
        self.calls = []
"""
Load = Callable[..., Any]


@pytest.fixture(autouse=True)
def separate_process_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what drivers of Neutron and their adapter share in a process."""
    modules, finders = dict(sys.modules), list(sys.meta_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in set(sys.modules) - set(modules):
        home = str(getattr(sys.modules[name], "__file__", ""))
        if str(tmp_path) in home or name.partition(".")[0] == "neutron":
            del sys.modules[name]
    for finder in [each for each in sys.meta_path if isinstance(each, NeutronModuleFinder)]:
        if finder not in finders:
            sys.meta_path.remove(finder)
    loading._FILES.clear()
    cfg.CONF.reset()
    registry.clear()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Install a driver with this body of its class, and make it."""

    def make(body: str, *, head: str = HEAD, **options: Any) -> NeutronMechanismDriver:
        Site(tmp_path).install(
            "acme_driver",
            head + body,
            name="acme",
            distribution="acme-ml2",
            cls="Acme",
            group="neutron.ml2.mechanism_drivers",
        )
        values = {"config_files": [], **options}
        made = create(MechanismDriver, "acme", values, LocalHostResources())
        assert isinstance(made, NeutronMechanismDriver)
        return made

    return make
