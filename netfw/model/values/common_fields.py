"""Fields that resources have in common in the Networking API."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime

from attrs import field, frozen

from netfw.model.values.text_validation import check_text
from netfw.model.values.validation import Validated, checked_by, each

MAX_TAGS = 50
"""Tags that clients can give a resource."""


class Status(enum.StrEnum):
    """The status of a resource, in the API's words."""

    ACTIVE = "ACTIVE"
    DOWN = "DOWN"
    BUILD = "BUILD"
    ERROR = "ERROR"
    DEGRADED = "DEGRADED"
    ALLOCATING = "ALLOCATING"
    NOT_APPLICABLE = "N/A"


def _set_of_tags(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


@frozen(kw_only=True)
class CommonFields(Validated):
    """The fields of every stored resource."""

    description: str = field(default="", validator=checked_by(check_text))
    revision: int = 0
    """Grows with every change; two values of one resource are ordered by it."""
    tags: frozenset[str] = field(
        default=frozenset(), converter=_set_of_tags, validator=each(check_text)
    )
    created_at: datetime | None = None
    updated_at: datetime | None = None


@frozen(kw_only=True)
class Owned(CommonFields):
    """A resource that a project can own.  An empty project is the system itself."""

    project_id: str = field(default="", validator=checked_by(check_text))


@frozen(kw_only=True)
class Named(Owned):
    """A resource that a project can own and a user can name."""

    name: str = field(default="", validator=checked_by(check_text))
