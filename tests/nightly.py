"""Parameters and inherited tests that `make test` leaves to `make nightly`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import pytest

C = TypeVar("C", bound=type)


def nightly(*values: object) -> Any:
    """Return a parameter, or a row of them, with the mark of the nightly run."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def nightly_tests(*names: str) -> Callable[[C], C]:
    """Return a decorator that marks inherited tests of a class for the nightly run."""

    def mark(suite: C) -> C:
        for name in names:
            setattr(suite, name, pytest.mark.nightly(_copy(getattr(suite, name))))
        return suite

    return mark


def _copy(test: Callable[..., None]) -> Callable[..., None]:
    @wraps(test)
    def call(*arguments: Any, **named: Any) -> None:
        test(*arguments, **named)

    return call
