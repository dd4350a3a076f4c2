"""Errors of hooks, told from errors of drivers by their tracebacks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from netfw.drivers.base import HostResources
from netfw.testing.conformance import InterfaceDriverConformance
from netfw.testing.fakes.interface import FakeInterface
from netfw.testing.promise_report.error_origin import ErrorOrigin, find_origin

LINES = Path(__file__).read_text().splitlines()


class UnmadeDriver(FakeInterface):
    """A driver whose options lack one."""

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise KeyError("switch")


class Suite(InterfaceDriverConformance):
    """Hooks that are wrong in several ways."""

    def make(self) -> object:
        return UnmadeDriver.from_conf({}, None)  # type: ignore[arg-type]

    def vanish(self, key: Any, value: Any) -> None:
        json.loads("no JSON")

    def foreign_is_intact(self, value: Any) -> bool:
        raise TimeoutError("no answer")

    def make_foreign(self, value: Any) -> None:
        raise AssertionError("the machine has no such port")

    @contextmanager
    def outage(self, host: str) -> Iterator[None]:  # type: ignore[override]
        yield


def origin_of(hook: str, *arguments: object) -> ErrorOrigin:
    suite = Suite()
    try:
        getattr(suite, hook)(*arguments)
    except Exception as error:  # noqa: BLE001 - each hook has one of its own
        return find_origin(error, suite, "origin_of")
    raise AssertionError(f"{hook} raised nothing")


def at(text: str) -> str:
    (number,) = [number for number, line in enumerate(LINES, 1) if line.strip() == text]
    return f" (in {__file__}, line {number})"


def test_error_below_a_hook_is_one_of_the_hook_with_the_line_of_the_hook() -> None:
    assert origin_of("vanish", 1, 2) == ErrorOrigin("vanish", at('json.loads("no JSON")'))


def test_hook_with_wrong_parameters_is_named_with_the_line_of_its_definition() -> None:
    assert origin_of("outage") == ErrorOrigin("outage", at("@contextmanager"))


def test_hook_that_is_not_overridden_is_named() -> None:
    assert origin_of("actual", 1, 2) == ErrorOrigin("actual")


def test_finding_of_a_hook_about_the_machine_is_no_error_of_the_hook() -> None:
    assert origin_of("foreign_is_intact", 1) == ErrorOrigin(
        "", at('raise TimeoutError("no answer")')
    )
    assert origin_of("make_foreign", 1).hook == ""


def test_error_of_a_driver_that_a_hook_calls_is_one_of_the_driver() -> None:
    assert origin_of("make") == ErrorOrigin("", at('raise KeyError("switch")'))
