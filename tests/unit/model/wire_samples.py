"""Reading of bodies whose faults are expected."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from netfw.errors import InvalidInput
from netfw.model import (
    Kind,
)
from netfw.model.wire import parse

A, B, C, D = (str(UUID(int=number)) for number in (1, 2, 3, 4))
ID_A, ID_B, ID_C, ID_D = (UUID(text) for text in (A, B, C, D))
MAC = "fa:16:3e:00:00:01"


def problems(kind: Kind, **body: Any) -> dict[str, str]:
    """Return the problems for which *body* is refused."""
    with pytest.raises(InvalidInput) as caught:
        parse(kind, body)
    return caught.value.problems


def port_problems(**changes: Any) -> dict[str, str]:
    return problems(Kind.PORT, **{"id": A, "network_id": B, "mac_address": MAC} | changes)
