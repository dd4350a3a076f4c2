"""A change of a public interface is found by its signature."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import griffe
import pytest

from tools.public_interfaces import interfaces

SOURCE = """
from os import path

LIMIT: int = 3
untyped = 4


def plan(port: str, /, *names: str, dry: bool = False, **more: int) -> list[str]: ...
def keyword(*, dry: bool) -> None: ...
def _private() -> None: ...


class Driver(Base):
    name: str

    @property
    def state(self) -> int: ...
    def test_of_a_suite(self) -> None: ...
    def close(self) -> None: ...
"""


@pytest.mark.spec("DRV-34")
def test_public_names_are_listed_with_their_signatures(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "__init__.py").write_text(SOURCE)
    found = griffe.load("vendor", search_paths=[str(tmp_path)], allow_inspection=False)
    assert list(interfaces(cast(griffe.Module, found))) == [
        "class vendor.Driver(Base)",
        "vendor.Driver.close(self) -> None",
        "vendor.Driver.name: str",
        "vendor.Driver.state: int",
        "vendor.LIMIT: int",
        "vendor.keyword(*, dry: bool) -> None",
        "vendor.plan(port: str, *names: str, dry: bool = False, **more: int) -> list[str]",
    ]
