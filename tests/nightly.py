"""Parameters that `make test` leaves to `make nightly`."""

from __future__ import annotations

from typing import Any

import pytest


def nightly(value: object, **options: Any) -> Any:
    """Return the parameter *value* with the mark of the nightly run."""
    return pytest.param(value, marks=pytest.mark.nightly, **options)
