"""RBAC policies: access of projects to resources that another project owns."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from attrs import field, frozen

from netfw.model.values.ids import RbacPolicyId
from netfw.model.values.text_validation import check_text
from netfw.model.values.validation import Problem, Validated, checked_by

EVERY_PROJECT: Final = "*"
"""The target of a policy for all projects."""


class RbacAction(enum.StrEnum):
    """What a policy lets its target do."""

    SHARED = "access_as_shared"
    EXTERNAL = "access_as_external"


@frozen(kw_only=True)
class RbacPolicy(Validated):
    """The access of one project, or of all, to one resource."""

    id: RbacPolicyId
    project_id: str = field(default="", validator=checked_by(check_text))
    object_type: str = field(validator=checked_by(check_text))
    object_id: UUID
    action: RbacAction
    target_project: str = field(validator=checked_by(check_text))
    revision: int = 0

    def _problems(self) -> Iterator[Problem]:
        if not self.target_project:
            yield "target_project", "empty: name a project, or * for all"
