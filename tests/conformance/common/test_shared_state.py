"""State that drivers share by accident in the modules of their author's package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.conformance.watch.shared_state import read_shared_state, shared_changes

pytestmark = pytest.mark.fakes

BACKEND = """
from attrs import define, field, frozen

class Client:
    def __init__(self):
        self.session = None
        self.calls = []

@define
class Pool:
    numbers: dict = field(factory=dict)

@frozen(slots=False)
class Limits:
    most: int = 1

CLIENT, POOL, LIMITS, CACHE = Client(), Pool(), Limits(), {}
"""
DRIVER = """
from acme_shared.backend import CLIENT, POOL, LIMITS, CACHE

class AcmeDriver:
    pass
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    package = tmp_path / "acme_shared"
    package.mkdir()
    for name, text in (("__init__", ""), ("backend", BACKEND), ("driver", DRIVER), ("late", "X=1")):
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("acme_shared.driver").AcmeDriver
    for name in [each for each in sys.modules if each.startswith("acme_shared")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("CLIENT.session = object()", "acme_shared.backend.CLIENT.session changed"),
        ("CLIENT.calls.append(1)", "acme_shared.driver.CLIENT.calls changed"),
        ("POOL.numbers[1] = 2", "acme_shared.backend.POOL.numbers changed"),
        ("CACHE[1] = 2", "acme_shared.backend.CACHE changed"),
    ],
)
def test_state_in_a_module_of_the_package_is_seen(
    driver: type, statement: str, changed: str
) -> None:
    before = read_shared_state(driver)
    exec(statement, vars(sys.modules["acme_shared.backend"]))
    assert changed in "\n".join(shared_changes(before, read_shared_state(driver)))


def test_values_that_cache_and_late_imports_are_no_state(driver: type) -> None:
    before = read_shared_state(driver)
    vars(sys.modules["acme_shared.backend"].LIMITS)["cached"] = 1
    importlib.import_module("acme_shared.late")
    assert not list(shared_changes(before, read_shared_state(driver)))
