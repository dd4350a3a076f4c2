"""Refusals of default security group rules; clients map the names of these classes."""

from __future__ import annotations

from netfw.errors import Conflict


class DefaultSecurityGroupRuleExists(Conflict):
    """A default rule allows the same traffic of the same groups."""


class DuplicateDefaultSgRuleInPost(Conflict):
    """One request creates the same default rule twice."""
