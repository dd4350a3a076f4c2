"""Fixtures of the tests of the loader."""

import sys
from pathlib import Path

import pytest

from tests.unit.drivers.registry.vendor_site import Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return Site(tmp_path)


@pytest.fixture(autouse=True)
def forget_modules(tmp_path: Path) -> object:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
