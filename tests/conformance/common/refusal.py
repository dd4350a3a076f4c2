"""Which tests of a suite refuse a subject; for suites whose tests need no fixture."""

from __future__ import annotations

from collections.abc import Container

import pytest

from netfw.errors import NetfwError


def refusals(suite: object, but: Container[str] = ()) -> frozenset[str]:
    """The tests of *suite* that do not pass, leaving out those in *but*.

    A test refuses by a failed assertion or by an error that the contract knows; anything else is
    a defect of the subject or the suite, and is raised.
    """
    refused = set()
    for name in dir(suite):
        if name.startswith("test_") and name not in but:
            try:
                getattr(suite, name)()
            except pytest.skip.Exception:
                continue
            except (AssertionError, NetfwError, pytest.fail.Exception):
                refused.add(name)
    return frozenset(refused)
